"""kiln-opt survives damaged files. KILN_FUZZ_MUTANTS (2,000) sets how many, KILN_FUZZ_SEED (0) which."""

from __future__ import annotations

import os
import pathlib
import random

import pytest

from . import mutate

KILN_OPT = mutate.ROOT / os.environ.get("KILN_BUILD", "build") / "compiler/tools/kiln-opt"
CHUNK = 500
MUTANTS = int(os.environ.get("KILN_FUZZ_MUTANTS", "2000"))
SEED = os.environ.get("KILN_FUZZ_SEED", "0")

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("first", range(0, MUTANTS, CHUNK))
def test_no_mutant_causes_a_signal(first):
    found = mutate.crashes(str(KILN_OPT), SEED, first, min(CHUNK, MUTANTS - first))
    assert not found, "\n\n".join(map(mutate.describe, found))


# Inputs that once killed kiln-opt by a signal, and the passes they ran through.
FOUND = {
    "the width of index, in MLIR's parser": (
        'func.func @f(%x: tensor<8xi64>) { %y = tile.hint %x {constancy = array<index: 1>} : tensor<8xi64> return }',
        (),
    ),
    "a vector of more elements than there is memory": (
        "func.func @f(%s: f32) { %v = vector.broadcast %s : f32 to vector<2147483648xf32> return }",
        ("--kiln-to-llvm",),
    ),
    "a tile without dimensions, as an argument": (
        "func.func @f(%x: tensor<i16>) { return }",
        mutate.WAYS[2],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    text, options = FOUND[name]
    assert mutate.ends_well(str(KILN_OPT), options, [text])


def test_undamaged_test_files_compile():
    """Undamaged modules mostly compile, except in tests of rejections."""
    sources = random.Random(0).sample([s for s in mutate.sources() if "invalid" not in s.path], 60)
    well = [s for s in sources if mutate.passes(str(KILN_OPT), s.options, s.text)]
    assert len(well) > 40, "the options that the tests give are no longer understood"


def test_mutants_differ_and_some_still_mean_something(tmp_path):
    seen = list(mutate.mutants("0", 0, 400))
    assert [m.text for m in seen] == [m.text for m in mutate.mutants("0", 0, 400)]
    changed = [m for m in seen if m.text != m.source.text]
    assert len(changed) > 300
    parsed = [m for m in changed if mutate.passes(str(KILN_OPT), (), m.text)]
    assert len(parsed) > 16  # 28; 48 with another seed


def test_a_signal_is_noticed(tmp_path: pathlib.Path):
    """A stand-in for kiln-opt crashes on one word; the search finds the one file that contains it."""
    script = tmp_path / "kiln-opt"
    script.write_text('#!/bin/sh\nif grep -q "mbarrier"; then kill -SEGV $$; fi\nexit 1\n')
    script.chmod(0o755)
    expected = [m.number for m in mutate.mutants("7", 0, 300) if "mbarrier" in m.text]
    assert expected and [m.number for m in sorted(mutate.crashes(str(script), "7", 0, 300))] == expected
