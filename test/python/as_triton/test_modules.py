"""What `import` finds once Kiln replaces Triton, and how it reports what is missing."""

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys

import kiln
import kiln.language as kl
import pytest
from kiln import as_triton, errors
from kiln.as_triton import names


def test_nothing_is_called_triton_without_it():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("triton")


def test_names_are_the_same_whichever_way_they_are_imported(layer):
    import triton
    import triton.language as tl
    import triton.runtime.driver as driver_object
    from triton.language import core, math
    from triton.language.extra import libdevice
    from triton.language.extra.cuda import libdevice as older
    from triton.runtime import driver
    from triton.runtime.driver import driver as from_module

    assert tl.load is kl.load and core.load is kl.load and triton.language.load is kl.load
    assert math.exp is kl.exp and triton.language.math is math
    assert libdevice.tanh is older.tanh
    assert driver is driver_object is from_module is triton.runtime.driver
    assert triton.jit is triton.runtime.jit.jit
    assert triton.testing.do_bench is kiln.testing.do_bench
    assert importlib.import_module("triton.language.target_info").is_cuda is kl.target_info.is_cuda


def test_every_module_in_the_table_has_every_listed_name(layer):
    for name in names.MODULES:
        module = importlib.import_module(name)
        assert module.__spec__.name == name
        for public in module.__all__:
            assert hasattr(module, public), f"{name}.{public}"


def test_star_imports_take_public_names(layer):
    space = {}
    exec("from triton.language import *", space)
    assert space["arange"] is kl.arange and space["float32"] is kl.float32
    assert "_unwrap_if_constexpr" in importlib.import_module("triton.language.core").__all__


def test_the_version_is_that_of_the_names(triton):
    assert triton.__version__ == names.VERSION == importlib.metadata.version("triton")
    assert triton.__kiln_version__ == kiln.__version__
    assert importlib.util.find_spec("triton") is triton.__spec__


@pytest.mark.parametrize("name,reason", [
    ("triton.experimental.gluon", "lay out tiles by hand"),
    ("triton.profiler.viewer", "only the marks"),
    ("triton.language.extra.hip", "no AMD target"),
    ("triton.nonsense", "no module of Triton"),
])  # fmt: skip
def test_a_missing_module_says_why(layer, name, reason):
    with pytest.raises(ModuleNotFoundError, match=reason) as caught:
        importlib.import_module(name)
    assert caught.value.name is not None and name.startswith(caught.value.name)


@pytest.mark.parametrize("module,name,reason", [
    ("triton.language", "_experimental_descriptor_load", "make_tensor_descriptor"),
    ("triton.language", "laod", "did you mean 'load'"),
    ("triton.runtime", "autotunee", "did you mean 'autotune'"),
    ("triton.testing", "set_gpu_clock", "changes no setting"),
    ("triton", "compiled", "did you mean"),
])  # fmt: skip
def test_a_missing_name_says_why(layer, module, name, reason):
    found = importlib.import_module(module)
    with pytest.raises(AttributeError, match=reason):
        getattr(found, name)
    assert not hasattr(found, name)


def test_a_missing_name_in_a_kernel_says_why(triton):
    import triton.language as tl

    @triton.jit
    def kernel(x):
        tl.store(x, tl.tanh(tl.load(x)))

    with pytest.raises(triton.CompilationError, match=r"tl\.extra\.libdevice\.tanh"):
        kernel.warmup(tl.float32)


def test_internals_of_kiln_do_not_show(layer):
    import triton

    for name in ("errors", "builtin", "VERSION", "Any", "annotations"):
        with pytest.raises(AttributeError):
            getattr(triton.jit if name == "Any" else triton.runtime.jit, name)


def test_installing_twice_and_taking_it_back():
    assert not as_triton.installed()
    as_triton.install()
    as_triton.install()
    import triton

    assert as_triton.installed()
    as_triton.uninstall()
    as_triton.uninstall()
    assert not as_triton.installed() and "triton" not in sys.modules
    assert triton.cdiv(10, 4) == 3  # earlier imports keep working
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("triton")


def test_a_triton_that_was_imported_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "triton.py").write_text("name = 'another'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    real = importlib.import_module("triton")
    try:
        with pytest.raises(errors.UsageError, match="before triton is imported") as caught:
            as_triton.install()
        assert "kiln run --as-triton" in str(caught.value) and str(tmp_path) in str(caught.value)
        assert importlib.import_module("triton") is real and not as_triton.installed()
    finally:
        del sys.modules["triton"]


def test_an_installed_triton_is_not_looked_at(tmp_path, monkeypatch):
    (tmp_path / "triton.py").write_text("raise SystemExit('the installed one')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    as_triton.install()
    try:
        import triton

        assert triton.__version__ == names.VERSION
    finally:
        as_triton.uninstall()


def test_installing_loads_nothing_heavy():
    code = (
        "import sys, kiln.as_triton; kiln.as_triton.install(); import triton, triton.language as tl;"
        "print([n for n in ('numpy', 'torch', 'kiln._kiln', 'kiln.language') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
