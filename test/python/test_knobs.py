"""The registry of switches: reading, overriding, rejecting, logging."""

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


@kiln.jit
def fill_ones(x):
    kl.store(x + kl.arange(0, 16), 1.0)


def run(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env={**os.environ, **environment}, capture_output=True, text=True
    )


def test_scope_beats_environment_and_ends(monkeypatch):
    monkeypatch.setenv("KILN_CHECK", "races")
    assert knobs.check == "races"
    with knobs.scope(check="bounds", num_threads=3):
        assert knobs.check == "bounds" and knobs.num_threads == 3
        with knobs.scope(check="none"):
            assert knobs.check == "none"
        assert knobs.check == "bounds"
    assert knobs.check == "races"


def test_a_scope_belongs_to_its_thread():
    seen = {}

    def look(name):
        seen[name] = knobs.check

    with knobs.scope(check="bounds"):
        knobs.timing = True
        other = threading.Thread(target=look, args=("other",))
        other.start()
        other.join()
        look("own")
    assert seen == {"other": "none", "own": "bounds"} and not knobs.timing


@pytest.mark.cpu
def test_threads_with_separate_scopes_launch_one_kernel():
    """Each thread gets the code for its own switches in any interleaving, and overlapping scopes end correctly."""
    wrong = []

    def work(check):
        for _ in range(100):
            x = np.zeros(16, np.float32)
            if check is None:
                compiled = fill_ones[1](x)
            else:
                with knobs.scope(check=check):
                    compiled = fill_ones[1](x)
            if compiled.metadata["check"] != (check or "none") or x[0] != 1:
                wrong.append((check, compiled.metadata["check"], x[0]))

    threads = [threading.Thread(target=work, args=(check,)) for check in (None, "bounds", "races", "bounds")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and knobs.check == "none"


@pytest.mark.parametrize("name,value,message", [
    ("KILN_CHECK", "everything", "KILN_CHECK: expected one of none, bounds, races, got 'everything'"),
    ("KILN_NUM_THREADS", "-1", "KILN_NUM_THREADS: expected a number that is not negative, got '-1'"),
    ("KILN_TIMING", "maybe", "KILN_TIMING: expected one of 1, 0, true, false, on, off, yes, no, got 'maybe'"),
    ("KILN_LOG", "loud", "KILN_LOG: expected debug, info, warning or error"),
])  # fmt: skip
def test_bad_values(monkeypatch, name, value, message):
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError) as caught:
        getattr(knobs, name.removeprefix("KILN_").lower())
    assert str(caught.value).startswith(message)


def test_unknown_names_have_a_near_match():
    with pytest.raises(AttributeError, match="did you mean 'check'"):
        knobs.chek  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'timing'"):
        knobs.timng = True
    result = run("import kiln.knobs", KILN_CHEK="bounds")
    assert "unknown environment switch 'KILN_CHEK'; did you mean 'KILN_CHECK'?" in result.stderr


def test_wrong_type():
    with pytest.raises(TypeError, match=r"knobs.timing: expected bool, got int"):
        knobs.timing = 1


def test_log(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "import numpy as np, kiln, kiln.language as kl\n"
        "@kiln.jit\ndef fill(x):\n    kl.store(x + kl.arange(0, 16), 1.0)\n"
        "fill[(1,)](np.zeros(16, np.float32))\n"
    )
    loud = subprocess.run(
        [sys.executable, path], env={**os.environ, "KILN_LOG": "info,jit"}, capture_output=True, text=True
    )
    assert "kiln.jit: compiled" in loud.stderr and "fill" in loud.stderr
    silent = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert silent.stderr == "" and silent.returncode == 0
