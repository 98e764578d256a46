"""No expansion needs a library: objects for every row of the target table have no undefined symbol.

(The libraries that the other tests run are linked with nothing; this test covers rows that the machine cannot run.)
"""

from __future__ import annotations

import pytest
import test_math_elementary
import test_math_integer
import test_math_narrow
from math_harness import MARCH, expanded, run, tool

FUNCTIONS = [*test_math_elementary.FUNCTIONS, *test_math_narrow.FUNCTIONS, *test_math_integer.FUNCTIONS]


@pytest.mark.parametrize("shape", ["", "8"])
@pytest.mark.parametrize("target", MARCH)
def test_objects_have_no_undefined_symbol(tmp_path, target, shape):
    lowering = ["--convert-scf-to-cf", "--convert-vector-to-llvm", "--convert-to-llvm", "--reconcile-unrealized-casts"]
    ir = tmp_path / "all.ll"
    ir.write_text(
        run(
            [tool("mlir-translate"), "--mlir-to-llvmir"],
            run([tool("mlir-opt"), *lowering], expanded(FUNCTIONS, target, shape)),
        )
    )
    machine = tmp_path / "all.o"
    run(
        [tool("clang"), "-Wno-override-module", "-O1", f"-march={MARCH[target]}", "-c", "-o", str(machine), str(ir)], ""
    )
    assert run([tool("llvm-nm"), "--undefined-only", str(machine)], "").strip() == ""
