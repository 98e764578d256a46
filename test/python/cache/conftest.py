"""A cache of its own for each test, and programs that run in processes of their own."""

import os
import subprocess
import sys
import textwrap

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

    def run(self, text=None, *, path=None, fails=False, cwd=None, **switches):
        """The program's output, run in a new process."""
        path = path or self.write(text)
        environment = {**os.environ, "KILN_CACHE": str(self.root), **{k.upper(): str(v) for k, v in switches.items()}}
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, cwd=cwd)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + (done.stderr if fails else "")

    def entries(self, kind="artifact"):
        from kiln import _kiln

        return [entry for entry in _kiln.Cache(str(self.root)).entries() if entry["kind"] == kind]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
