"""The console script as a whole; its subcommands are tested with the modules they use."""

import os
import subprocess
import sys

import pytest
from kiln.cli import bench


def test_a_reader_that_goes_away_is_no_error():
    """As in `kiln info | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "kiln.cli", "info"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_package_is_the_command():
    for module in ("kiln", "kiln.cli"):
        done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("kiln ")
        wrong = subprocess.run([sys.executable, "-m", module, "nothing"], capture_output=True, text=True)
        assert wrong.returncode == 2 and wrong.stderr.startswith("usage: kiln ")


TALKATIVE = """
import kiln
import kiln.language as kl

print("a file that prints")

@kiln.jit
def add(x, n, BLOCK: kl.constexpr):
    kl.static_print("and a kernel that does")
    i = kl.arange(0, BLOCK)
    kl.store(x + i, kl.load(x + i) + n)
"""


@pytest.mark.cpu
@pytest.mark.parametrize("stage, file", [("tile", "k.tile.mlir"), ("llvm", "k.ll")])
def test_what_compile_prints_can_be_fed_back(tmp_path, stage, file):
    """As in `kiln compile mine.py::add --to llvm > k.ll`, then `kiln compile k.ll`."""
    source, kept = tmp_path / "talkative.py", tmp_path / file
    source.write_text(TALKATIVE)
    signature = ["--signature", "x=*fp32, n=i32, BLOCK=16"]
    with kept.open("w") as output:
        first = kiln("compile", f"{source}::add", *signature, "--to", stage, stdout=output)
    assert first.returncode == 0
    assert "a file that prints" in first.stderr and "and a kernel that does" in first.stderr
    again = kiln("compile", str(kept), "--to", "asm", stdout=subprocess.PIPE)
    assert (again.returncode, again.stderr) == (0, "") and "kiln_add" in again.stdout


def kiln(*words, stdout):
    return subprocess.run([sys.executable, "-m", "kiln.cli", *words], stdout=stdout, stderr=subprocess.PIPE, text=True)


def test_the_benchmarks_explain_themselves_without_a_checkout(monkeypatch, capsys):
    monkeypatch.setattr(bench, "folder", lambda: None)
    assert bench.main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: kiln bench")
    assert bench.main([]) == 2


def test_the_benchmarks_explain_themselves_without_their_packages(monkeypatch, capsys, tmp_path):
    (tmp_path / "suite.py").write_text("import a_package_that_nobody_has")
    monkeypatch.setattr(bench, "folder", lambda: tmp_path)
    monkeypatch.delitem(sys.modules, "suite", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert bench.main(["-h"]) == 0
    assert capsys.readouterr().out.startswith("usage: kiln bench")
    assert bench.main([]) == 2
