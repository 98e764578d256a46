"""The shape of the code of every library kernel, on every row of the target table.

The compiler itself checks what an artifact may need from outside (an object that calls libm or libgcc is rejected).
Here the LLVM IR is read: no calls but intrinsics and hooks, no allocation, no vector above the register tile.
"""

from __future__ import annotations

import importlib
import re
import time

import numpy as np
import pytest
from kiln import _kiln, compiler
from kiln.kernels import FAMILIES
from timing import check_time

TARGETS = ["cpu-avx512", "cpu-avx2", "cpu-sse"]
BITS = {"double": 64, "float": 32, "half": 16, "bfloat": 16, "ptr": 64}


def _modules(family: str) -> dict[str, tuple]:
    """The tile IR of every kernel the family's cases compile: name and position -> (module, options)."""
    found: dict[str, tuple] = {}
    original = compiler.compile

    def record(module, options=None):
        name = re.search(r"@(\w+)\(.*tile\.kernel", module.print().replace("\n", " ")).group(1)
        found[f"{name}-{len(found)}"] = (module, dict(options or {}))
        return original(module, options)

    compiler.compile = record
    try:
        for case in importlib.import_module(f"kiln.kernels.{family}.cases").CASES:
            case.run(**case.inputs(np.random.default_rng(0)))
    finally:
        compiler.compile = original
    return found


@pytest.fixture(scope="module", params=FAMILIES)
def modules(request):
    return _modules(request.param)


def _vector_bits(count: str, element: str) -> int:
    return int(count) * (BITS[element] if element in BITS else int(element[1:]))


@pytest.mark.parametrize("target", TARGETS)
def test_no_calls_no_allocation_no_large_vectors(modules, target):
    assert modules
    rows, columns = _kiln.target(target)["register_tile"]
    for name, (module, options) in modules.items():
        artifact = compiler.compile(module, {**options, "target": target, "to": "llvm"})
        text = artifact.output
        foreign = set(re.findall(r"^declare .*@([\w.$]+)\(", text, re.M)) - {"memcpy", "memmove", "memset"}
        assert all(symbol.startswith("llvm.") for symbol in foreign), (name, foreign)
        assert " alloca " not in text, name
        largest = max((_vector_bits(n, t) for n, t in re.findall(r"<(\d+) x (\w+)>", text)), default=0)
        assert largest <= rows * columns * 32, (name, largest)
        # A full compile: the compiler rejects an object that calls external functions.
        compiler.compile(module, {**options, "target": target})


@pytest.mark.bench
def test_each_kernel_compiles_within_a_quarter_second(modules):
    for module, options in modules.values():

        def compiled(module=module, options=options) -> float:
            start = time.process_time()
            compiler.compile(module, options)
            return time.process_time() - start

        check_time(0.25, compiled)
