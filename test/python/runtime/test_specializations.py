"""How many specialisations of a kernel are kept, which are evicted, and how much memory they take."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs

pytestmark = pytest.mark.cpu


def make():
    @kiln.jit
    def fill(x, N: kl.constexpr):
        kl.store(x + kl.arange(0, 16), N)

    return fill


def test_the_least_recently_used_are_evicted():
    fill, x = make(), np.zeros(16, np.int32)
    with knobs.scope(specializations=4):
        first = fill[1](x, 100)
        for n in range(12):
            second = fill[1](x, n)
            assert x[0] == n
            assert fill[1](x, 100) is first and x[0] == 100
        assert len(fill.compiled_kernels) == 4 and second in fill.compiled_kernels
        for n in (9, 10, 11):
            count = len(fill.compiled_kernels)
            fill[1](x, n)
            assert len(fill.compiled_kernels) == count == 4
        assert fill[1](x, 0) is not None and x[0] == 0, "what has gone is compiled anew"
    with knobs.scope(specializations=0):
        for n in range(8):
            fill[1](x, n)
        assert len(fill.compiled_kernels) > 4


def test_the_default_is_what_the_readme_says():
    assert knobs.specializations == 512


def test_unload():
    fill, x = make(), np.zeros(16, np.int32)
    before = [fill[1](x, n) for n in range(3)]
    fill.unload()
    assert fill.compiled_kernels == [] and fill.compiled is None
    assert fill[1](x, 1) not in before and x[0] == 1
    make().unload()


def test_kernels_are_evicted_while_others_launch():
    fill, wrong = make(), []

    def work(first):
        x = np.zeros(16, np.int32)
        for n in range(60):
            fill[1](x, first + n % 5)
            if x[0] != first + n % 5:
                wrong.append((first, n, x[0]))

    with knobs.scope():
        knobs.reset()
    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        fill.unload()
    for thread in threads:
        thread.join()
    assert not wrong


def growth(specializations: int, bound: int) -> int:
    """How many kilobytes a process grows by."""
    program = textwrap.dedent(f"""
        import os, sys
        import numpy as np, kiln, kiln.language as kl

        @kiln.jit
        def scale(x, N: kl.constexpr):
            i = kl.arange(0, 64)
            kl.store(x + i, kl.load(x + i) * N + N)

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

        kiln.knobs.specializations = {bound}
        x = np.zeros(64, np.float32)
        for n in range(50):
            scale[1](x, n)
        before = resident()
        for n in range(50, 50 + {specializations}):
            scale[1](x, n)
        print(resident() - before)
    """)
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"kiln-growth-{os.getpid()}-{specializations}.py")
    with open(path, "w") as file:
        file.write(program)
    try:
        run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    finally:
        os.unlink(path)
    return int(run.stdout)


def test_memory_is_bounded():
    """Compared with the same run without a bound, as growth varies by as much as 10 MB from run to run."""
    assert growth(600, 16) < growth(600, 0) / 2


@pytest.mark.fuzz
def test_a_hundred_thousand_fit_into_a_gigabyte():
    """Scaled down by KILN_FUZZ_SPECIALIZATIONS (2,000), with a kernel's default bound."""
    count = int(os.environ.get("KILN_FUZZ_SPECIALIZATIONS", "2000"))
    # The memory of the 512 that stay, and what each removed one leaves.
    assert growth(count, 512) < (64 << 10) + count * 10
