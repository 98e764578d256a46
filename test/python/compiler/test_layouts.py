"""Layouts of the library's kernels: they cost memory traffic only, and never move a tile between threads."""

from __future__ import annotations

import importlib
import re

import pytest
from kiln.kernels.launches import launches_of
from kiln.kernels.machine import of_target

STREAMING = ("elementwise", "norm", "softmax", "rope", "activation", "embedding", "optimizer")


def kgpu_of(family: str, row: str):
    for name, run in importlib.import_module(f"kiln.kernels.{family}.cases").calls():
        for launch in launches_of(run, of_target(row)):
            yield f"{name} ({launch.kernel.__name__})", launch.compile(row, to="kgpu").output


@pytest.mark.parametrize("row", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("family", STREAMING)
def test_no_tile_changes_its_layout(family: str, row: str):
    seen = 0
    for what, text in kgpu_of(family, row):
        seen += 1
        assert not re.findall(r"= kgpu\.convert ", text), what
        # Shared memory is used only for partial sums, one per warp, and for scalars that one thread reads for all.
        partial = {name for found in re.findall(r"((?:%\w+(?::\d+)?,? ?)+)= kgpu\.partial_reduce", text)
                   for name in re.findall(r"%\w+", found)}  # fmt: skip
        stored = set(re.findall(r"kgpu\.local_store (%\w+), %\w+ : tensor", text))
        assert stored <= partial, f"{what}: {stored - partial} go through shared memory whole"
    assert seen


def test_rows_of_a_cluster_are_shared():
    """A row too long for one block's registers is split into as many pieces as the cluster has blocks."""
    clusters = 0
    for what, text in kgpu_of("norm", "sm_90a"):
        cluster = int(re.search(r"kgpu\.cluster = (\d+)", text).group(1))
        if cluster == 1:
            continue
        clusters += 1
        loaded = re.findall(r"tile\.load .*-> tensor<[\dx]*x\w+, #(\w+)>", text)
        layouts = dict(re.findall(r"^#(\w+) = #layout\.map<(.*)>$", text, re.MULTILINE))
        assert loaded, what
        for name in loaded:
            assert re.search(rf"ctas {cluster} split|cta (?!\(0\)|\(0, 0\))", layouts[name]), (what, layouts[name])
    assert clusters
