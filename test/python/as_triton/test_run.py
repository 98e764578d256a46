"""`kiln run` runs programs as `python` does."""

import subprocess
import sys

import pytest


def kiln(*words, **options):
    return subprocess.run([sys.executable, "-m", "kiln.cli", *words], capture_output=True, text=True, **options)


@pytest.fixture
def program(tmp_path):
    (tmp_path / "neighbour.py").write_text("import triton\nname = triton.__name__\n")
    path = tmp_path / "program.py"
    path.write_text("import sys, neighbour\nprint(__name__, sys.argv[1:], neighbour.name, sys.argv[0] == __file__)\n")
    return path


def test_a_program_sees_its_arguments_and_its_neighbours(program):
    done = kiln("run", "--as-triton", str(program), "--as-triton", "-x", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "__main__ ['--as-triton', '-x', '1'] triton True\n"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_the_program_starts_see_triton_too(tmp_path, method):
    path = tmp_path / "program.py"
    path.write_text(f"""
import multiprocessing, triton

def work(n):
    return n, triton.jit.__module__

if __name__ == "__main__":
    with multiprocessing.get_context({method!r}).Pool(1) as pool:
        print(pool.map(work, [7]))
""")
    done = kiln("run", "--as-triton", str(path), timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[(7, 'kiln.as_triton.jit')]\n"


def test_without_the_option_there_is_no_triton(program):
    done = kiln("run", str(program))
    assert done.returncode == 1 and "No module named 'triton'" in done.stderr


def test_a_module(program):
    done = kiln("run", "--as-triton", "-m", "program", "a", cwd=program.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "__main__ ['a'] triton True\n", "")


def test_the_exit_code_is_the_program_s(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("raise SystemExit(7)\n")
    assert kiln("run", str(path)).returncode == 7


def test_an_exception_is_shown_as_python_shows_it(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("def f():\n    raise ValueError('of the program')\nf()\n")
    done = kiln("run", "--as-triton", str(path))
    direct = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert done.returncode == direct.returncode == 1
    assert done.stderr == direct.stderr


@pytest.mark.parametrize("words,text", [
    ([], "expected a program"),
    (["--as-triton", "-m"], "expected a module"),
    (["--as-tritn", "x.py"], "unknown option --as-tritn"),
    (["nowhere.py"], "no such file: nowhere.py"),
])  # fmt: skip
def test_wrong_usage(words, text):
    done = kiln("run", *words)
    assert done.returncode == 2 and text in done.stderr


def test_help():
    done = kiln("run", "--help")
    assert done.returncode == 0 and "--as-triton" in done.stdout
    assert "run" in kiln("--help").stdout
