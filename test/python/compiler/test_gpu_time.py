"""The time from Python to a GPU's machine code for a kernel: what a first launch waits for.

It is measured as CPU time of this process and of ptxas, which equals the elapsed time on an idle machine.
"""

from __future__ import annotations

import resource
import time

import pytest
from kiln import toolchain
from kiln.kernels.launches import launches_of, library_calls
from kiln.kernels.machine import of_target
from timing import check_time

pytestmark = [pytest.mark.bench, pytest.mark.skipif(toolchain.ptxas() is None, reason="no ptxas")]


def spent() -> tuple[float, float]:
    """CPU seconds of this process, and of it and its children, so far."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    mine = time.process_time()
    return mine, mine + children.ru_utime + children.ru_stime


def test_rms_norm_takes_60_ms_of_which_30_are_ours():
    (launch,) = launches_of(dict(library_calls())["rms_norm 16384×4096 float16"], of_target("sm_90a"))

    def compiled() -> tuple[float, float]:
        before = spent()
        launch.compile("sm_90a")
        mine, whole = (after - start for after, start in zip(spent(), before, strict=True))
        return mine, whole

    check_time(0.030, lambda: compiled()[0])
    check_time(0.060, lambda: compiled()[1])
