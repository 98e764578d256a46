"""A separate cache for each test, and programs that run in separate processes."""

import os
import subprocess
import sys
import textwrap
import threading
import traceback

import pytest


class Place:
    """A folder with a program and a cache."""

    def __init__(self, folder):
        self.folder = folder
        self.root = folder / "cache"

    def write(self, text, name="program.py"):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def run(self, text=None, *, path=None, fresh=False, expect=0, cwd=None, **switches):
        """The output of the program, run in a separate process: a fork that has only loaded Kiln, or with `fresh` a new
        process. `expect`: its exit code."""
        path = path or self.write(text)
        # Python reuses bytecode if the source's size and mtime second match; tests edit faster than that.
        switches = {"PYTHONDONTWRITEBYTECODE": "1"} | {name.upper(): str(value) for name, value in switches.items()}
        switches.setdefault("KILN_CACHE", str(self.root))
        if fresh:
            done = subprocess.run(
                [sys.executable, str(path)], capture_output=True, text=True, env={**os.environ, **switches}, cwd=cwd
            )
            output, code = done.stdout + done.stderr, done.returncode
        else:
            output, code = self._forked(path, switches, cwd)
        assert code == expect, output
        return output

    def _forked(self, path, switches, cwd):
        import kiln.runtime.jit
        import numpy  # noqa: F401

        assert kiln.runtime.jit
        output = self.folder / f"output{os.getpid()}"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with open(output, "w") as file:
                    os.dup2(file.fileno(), 1)
                    os.dup2(file.fileno(), 2)
                sys.stdout = open(1, "w", closefd=False)
                sys.stderr = open(2, "w", closefd=False)
                code = _program(path, switches, cwd)
                threading._shutdown()  # as at the end of a separate process: wait for threads
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        return output.read_text(), os.waitstatus_to_exitcode(status)

    def entries(self, kind="artifact"):
        from kiln import _kiln

        return [entry for entry in _kiln.Cache(str(self.root)).entries() if entry["kind"] == kind]


def _program(path, switches, cwd):
    import runpy
    import warnings

    from kiln.runtime import cache

    # Forget what this process has learned about files (from other tests, too): a new process would not know it.
    cache._notes.clear()
    os.environ.update(switches)
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(path.parent))
    if cwd:
        os.chdir(cwd)
    warnings.resetwarnings()
    # otherwise pytest collects warnings
    warnings.showwarning = lambda *warning: sys.stderr.write(warnings.formatwarning(*warning[:4]))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
