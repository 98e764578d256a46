"""The console script as a whole; its verbs are tested beside what they do."""

import os
import subprocess
import sys


def test_a_reader_that_goes_away_is_no_error():
    """`kiln info | head -1`"""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "kiln.cli", "info"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
