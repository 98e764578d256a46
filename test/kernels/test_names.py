"""`kiln.kernels` by the names that people look for: imported lazily, listed, and explained by `help`."""

import pydoc
import re
import subprocess
import sys

import kiln.kernels
import numpy as np
import pytest
from kiln.kernels import FAMILIES, FUNCTIONS
from kiln.kernels.operator import Operator


def in_a_process(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_names_are_found_lazily():
    code = """
import sys, kiln.kernels
assert not [m for m in sys.modules if m.startswith("kiln.kernels.")], "the package alone imports nothing"
from kiln.kernels import rms_norm
assert "kiln.kernels.norm" in sys.modules and "kiln.kernels.gemm" not in sys.modules
from kiln.kernels import matmul, attention, softmax
print(rms_norm.__name__, matmul.__name__, callable(attention), callable(softmax))
"""
    assert in_a_process(code).split() == ["rms_norm", "matmul", "True", "True"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_listed_with_one_line(name):
    family, line = FUNCTIONS[name]
    found = getattr(kiln.kernels, name)
    assert callable(found) and name in dir(kiln.kernels) and name in kiln.kernels.__all__
    column = max(map(len, FUNCTIONS))
    assert f"    {name:{column}}  {line}\n" in kiln.kernels.__doc__ and "\n" not in line and len(line) < 80
    assert family in FAMILIES


def test_nothing_public_is_left_out():
    import importlib

    public = set()
    for family in FAMILIES:
        module = importlib.import_module(f"kiln.kernels.{family}")
        public |= {name for name, value in vars(module).items() if isinstance(value, Operator)}
    assert public <= set(FUNCTIONS), public - set(FUNCTIONS)
    with pytest.raises(AttributeError, match="has no attribute 'rmsnorm'"):
        kiln.kernels.rmsnorm  # noqa: B018


@pytest.mark.parametrize("first", ["import kiln.kernels.softmax", "from kiln.kernels.softmax import kernel", ""])
def test_a_name_shared_by_a_function_and_its_folder_is_the_function(first):
    code = f"""
{first}
import numpy as np
import kiln.kernels
from kiln.kernels import softmax
from kiln.kernels.softmax import softmax as function
from kiln.kernels.softmax.kernel import softmax_kernel
print(softmax is function is kiln.kernels.softmax, float(softmax(np.ones((2, 4), np.float32)).sum()))
"""
    assert in_a_process(code).split() == ["True", "2.0"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_says_shapes_types_and_rounding(name):
    function = getattr(kiln.kernels, name)
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    assert re.search("Shapes and types[^.;]*; others are refused", text)
    assert "inside" in text, "what is computed in"
    assert getattr(function, "mutates", ()) or "result" in text, "what results are rounded to"


def test_imported_functions_run():
    from kiln.kernels import rms_norm

    assert np.allclose(rms_norm(np.ones((2, 8), np.float32), np.ones(8, np.float32), 0.0), 1.0)
