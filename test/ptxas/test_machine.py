"""Problems of the machine are reported as such: a hanging assembler, no temporary folder, a full disk."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
import time

import kiln.toolchain
import pytest

# If a shell starts the tests in the background, SIGINT is ignored, also in child processes.
PROGRAM = textwrap.dedent("""
    import signal, sys, kiln, kiln.language as kl
    from kiln import errors

    signal.signal(signal.SIGINT, signal.default_int_handler)

    @kiln.jit
    def fill(x, N: kl.constexpr):
        kl.store(x + kl.arange(0, 128), N)

    print("go", flush=True)
    try:
        compiled = fill.warmup(kl.float32, N=3, grid=(1,))
        print("compiled", len(compiled.asm["cubin"]))
    except errors.KilnError as error:
        print(error)
        print("fault of Kiln" in str(error))
    except KeyboardInterrupt:
        print("interrupted")
""")


@pytest.fixture
def start(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def run(**environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(path)], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "KILN_TARGET": "sm_90a", **environment},
        )  # fmt: skip

    return run


def script(path: pathlib.Path, text: str) -> str:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def real_ptxas() -> str:
    return kiln.toolchain.options()["ptxas"]


# It prints its version, which Kiln asks for first, and then hangs.
def hanging(tmp_path: pathlib.Path) -> str:
    return script(tmp_path / "ptxas", f'case "$*" in *--version*) exec {real_ptxas()} "$@";; esac\nexec sleep 600\n')


def test_a_hanging_assembler_is_reported_after_thirty_seconds(start, tmp_path):
    ptxas = hanging(tmp_path)
    begin = time.time()
    out, err = start(KILN_PTXAS=ptxas).communicate(timeout=120)
    assert 29 < time.time() - begin < 60
    assert f"fill: expected {ptxas} to end, got nothing in 3" in out and "False" in out, out + err


def test_an_interrupt_ends_it(start, tmp_path):
    import signal

    process = start(KILN_PTXAS=hanging(tmp_path))
    assert process.stdout.readline() == "go\n"
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    begin = time.time()
    out, err = process.communicate(timeout=60)
    assert out == "interrupted\n" and time.time() - begin < 2, out + err


def test_a_folder_that_is_not_there(start, tmp_path):
    out, err = start(TMPDIR=str(tmp_path / "missing")).communicate(timeout=60)
    assert f"launch of fill: cannot make a folder for ptxas in {tmp_path}/missing: No such file" in out, out + err
    assert "set TMPDIR" in out and "False" in out


def test_an_assembler_that_cannot_be_run(start, tmp_path):
    text = f'case "$*" in *--version*) {real_ptxas()} "$@"; rm $0; exit;; esac\n'
    ptxas = script(tmp_path / "ptxas", text)
    out, err = start(KILN_PTXAS=ptxas).communicate(timeout=60)
    assert f"launch of fill: cannot run {ptxas}" in out and "False" in out, out + err


def test_a_full_disk_is_a_warning(start, tmp_path):
    for name in ("001.fill.0.tile.mlir", "001.fill.3.ptx", "001.fill.5.json"):
        (tmp_path / name).symlink_to("/dev/full")
    out, err = start(KILN_DUMP=str(tmp_path)).communicate(timeout=60)
    assert "compiled" in out, out + err
    for name in ("001.fill.0.tile.mlir", "001.fill.5.json"):
        assert f"cannot write {tmp_path}/{name}: No space left on device" in err
    assert (tmp_path / "001.fill.1.opt.mlir").stat().st_size > 0
