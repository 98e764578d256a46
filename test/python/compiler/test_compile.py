"""`kiln._kiln.compile_text` and `kiln.compiler`: artifacts, texts of stages, options, failures as exceptions."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading

import pytest
from kiln import _kiln, compiler, errors, knobs

HEAD = """module {
func.func @kiln_square(%args: !llvm.ptr, %launch: !llvm.ptr, %begin: i64, %end: i64)
    attributes {kiln.arguments = [{name = "x", type = "*fp32", kind = "pointer", offset = 0, size = 8, align = 8}],
                kiln.arguments_bytes = 8, kiln.frame_bytes = 0} {
"""
BODY = """  %p = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
  %y = arith.mulf %x, %x : vector<8xf32>
  llvm.store %y, %p {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr
"""
TAIL = "  return\n}\n}\n"
SQUARE = HEAD + BODY + TAIL


def square(**options):
    return compiler.compile_text(SQUARE, "cpu", {"target": "cpu-avx2", **options})


def test_an_artifact_is_an_object_and_its_metadata():
    artifact = square()
    assert artifact.binary[:4] == b"\x7fELF"
    assert artifact.output == artifact.binary
    metadata = json.loads(artifact.metadata)
    assert metadata["name"] == "square"
    assert metadata["symbol"] == "kiln_square"
    assert metadata["target"]["name"] == "cpu-avx2"
    assert metadata["toolchain"] == _kiln.toolchain()
    assert {"llvm", "object"} <= set(artifact.timings)


def test_texts_of_stages_are_made_when_asked_for():
    artifact = square()
    assert "define void @kiln_square" in artifact.text("llvm")
    assert "vmulps" in artifact.text("asm")
    assert artifact.text("asm") is not None and artifact.text("asm") == artifact.text("asm")
    assert "arith.mulf" in artifact.text("cpu")
    assert artifact.text() == artifact.text("asm")
    with pytest.raises(ValueError, match=r"use \.binary"):
        artifact.text("object")
    with pytest.raises(ValueError, match="expected a stage from cpu on"):
        artifact.text("tile")
    with pytest.raises(ValueError, match="unknown stage 'ptx'"):
        artifact.text("ptx")


def test_the_text_of_a_compile_is_its_result():
    artifact = square(to="llvm")
    assert artifact.text() == artifact.output and "define void @kiln_square" in artifact.text()


def test_a_text_stage_has_no_binary():
    artifact = square(to="asm")
    assert isinstance(artifact.output, str)
    with pytest.raises(ValueError, match="expected an object, got stage 'asm'"):
        artifact.binary  # noqa: B018


def test_options_the_compiler_does_not_know_are_recorded():
    options = json.loads(square(num_warps=8, name="q", ratio=0.5, flags=[1, 2], nothing=None).metadata)["options"]
    assert options == {
        "num_warps": 8, "name": "q", "ratio": 0.5, "flags": [1, 2], "nothing": None,
        "enable_fp_fusion": True, "line_info": False,
    }  # fmt: skip
    with pytest.raises(TypeError, match="an option is None, bool, int, float, str or a list"):
        square(callback=print)
    with pytest.raises(ValueError, match="expected none, bounds or races, got 'some'"):
        square(check="some")


def test_switches_apply_and_options_win(tmp_path):
    with knobs.scope(target="cpu-sse", dump=str(tmp_path)):
        assert json.loads(square().metadata)["target"]["name"] == "cpu-avx2"
    names = sorted(path.name.split(".", 1)[1] for path in tmp_path.iterdir())
    assert names == ["square.2.cpu.mlir", "square.3.ll", "square.4.s", "square.5.json", "square.5.o"]
    dumped = next(path for path in tmp_path.iterdir() if path.name.endswith(".s")).read_text()
    assert compiler.compile_text(dumped, "asm").binary == square().binary


def test_timing_goes_to_stderr(capsys):
    with knobs.scope(timing=True):
        square()
    assert capsys.readouterr().err.startswith("kiln: compiled in ")


def test_wrong_inputs_are_user_errors():
    with pytest.raises(errors.UserError, match=r"did you mean 'cpu-avx2'\?"):
        square(target="cpu-avx22")
    for name, row in {"h100": "sm_90a", "NVIDIA H200": "sm_90a", "RTX4090": "sm_89", "sm_90": "sm_90a"}.items():
        with pytest.raises(errors.UserError, match=rf"did you mean '{row}'\?"):
            square(target=name)
    with pytest.raises(errors.UserError, match=r"expected one function with kiln\.arguments"):
        compiler.compile_text("module {}", "cpu")
    with pytest.raises(errors.UserError):
        compiler.compile_text("module {", "tile")


def test_our_own_failure_is_an_internal_error_with_a_reproducer(tmp_path):
    text = HEAD + '  %0 = tile.program_id x : i32 loc("k.py":3:4)\n' + TAIL
    with knobs.scope(crash_dir=str(tmp_path)), pytest.raises(errors.InternalError) as caught:
        compiler.compile_text(text, "cpu")
    error = caught.value
    assert error.pass_name == "kiln-to-llvm"
    assert error.stage == "llvm"
    assert error.location == "k.py:3:4"
    assert error.ir_path is not None and os.path.dirname(error.ir_path) == str(tmp_path)
    assert error.reproduce == f"kiln-opt {error.ir_path} --pass-pipeline='builtin.module(kiln-to-llvm)'"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_users_mistake_found_late_has_its_location_and_hint():
    with pytest.raises(errors.CompilationError) as caught:
        compiler.raise_failure(
            [
                {
                    "severity": "error", "user": True, "notes": [],
                    "message": "expected a portable body (because X), got none\nhint: give one",
                    "frames": [("k.py", 3, 5, 3, 9, "helper"), ("k.py", 9, 1, 9, 2, "kernel")],
                }
            ],
            {"kind": "internal", "message": "", "stage": "", "pass_name": "", "ir_path": "", "reproduce": ""},
        )  # fmt: skip
    error = caught.value
    assert (error.message, error.hint) == ("expected a portable body (because X), got none", "give one")
    assert [(frame.line, frame.function) for frame in error.frames] == [(3, "helper"), (9, "kernel")]


def test_threads_compile_at_once():
    expected, results = square().binary, []
    threads = [threading.Thread(target=lambda: results.append(square().binary)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 6


FATAL = """
from kiln import compiler, errors
text = '''%s'''
for expected in ("LLVM failed fatally", "this process cannot compile any more"):
    try:
        compiler.compile_text(text, "cpu", {"target": "cpu-avx2"})
    except errors.InternalError as error:
        assert expected in str(error), error
    else:
        raise SystemExit("no error")
print("survived")
"""


def test_a_fatal_error_of_llvm_is_an_internal_error_and_the_process_lives():
    # No x86 instruction reads a thread id: instruction selection gives up fatally.
    body = (
        '  %t = llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.tid.x"() : () -> i32\n'
        "  %p = llvm.load %args : !llvm.ptr -> !llvm.ptr\n  llvm.store %t, %p : i32, !llvm.ptr\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", FATAL % (HEAD + body + TAIL)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "survived\n", done.stderr
    assert done.stderr == ""


def test_compiling_after_a_fork_works():
    expected = square().binary
    pid = os.fork()
    if pid == 0:
        os._exit(0 if square().binary == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
