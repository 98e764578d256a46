"""Ranges for NVIDIA's profilers, made by a stand-in for the package `nvtx`."""

import subprocess
import sys
import textwrap
import types

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, nvtx

pytestmark = pytest.mark.cpu


@pytest.fixture
def told(monkeypatch):
    """What the package was told, in order."""
    told = []
    package = types.ModuleType("nvtx")
    package.push_range = lambda name, domain: told.append((domain, name))
    package.pop_range = lambda domain: told.append((domain, ""))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    yield told
    nvtx.stop()


def make():
    @kiln.jit
    def fill(x, N: kl.constexpr):
        kl.store(x + kl.arange(0, 16), N)

    return fill


def test_compiles_loads_and_launches_are_ranges(told):
    fill, x = make(), np.zeros(16, np.int32)
    assert nvtx.start() == "nvtx" and nvtx.start() == ""
    fill[1](x, 3)
    assert [name for _, name in told] == [
        "kiln compile fill", "kiln load fill", "", "", "kiln launch fill", "",
    ]  # fmt: skip
    assert {domain for domain, _ in told} == {"kiln"}
    told.clear()
    fill[1](x, 3)
    assert [name for _, name in told] == ["kiln launch fill", ""]
    nvtx.stop()
    told.clear()
    fill[1](x, 4)
    assert told == [] and x[0] == 4


def test_without_anything_that_makes_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(nvtx.ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError(name)))
    with pytest.raises(errors.UserError, match="found neither the package nvtx"):
        nvtx.start()


def test_the_switch(tmp_path):
    (tmp_path / "nvtx.py").write_text(
        "def push_range(name, domain): print('(', name)\ndef pop_range(domain): print(')')\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
            import kiln, kiln.language as kl, numpy as np

            @kiln.jit
            def fill(x):
                kl.store(x + kl.arange(0, 16), 5)

            fill[1](np.zeros(16, np.int32))
        """)
    )
    import os

    environment = dict(os.environ, KILN_NVTX="1")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split("\n")[:2] == ["( kiln compile fill", "( kiln load fill"]
