"""The display while a kernel is tuned, and when there is none."""

from __future__ import annotations

import io

from kiln.tune.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show(stream, clock=lambda: 0.0, width=200):
    with Progress("matmul", stream, clock, width) as progress:
        progress.compiling(1, 4)
        progress.compiling(4, 4)
        progress.racing(3, 2, 4, "BLOCK: 16", 0.12345)
    return stream.getvalue()


def test_a_terminal_shows_the_progress():
    seconds = iter(range(100))
    lines = show(Terminal(), lambda: float(next(seconds))).split("\r")
    assert lines[1] == "matmul [#####...............] 1 s, compiling 1/4"
    assert lines[2] == "matmul [####################] 2 s, compiling 4/4"
    assert lines[3].rstrip() == "matmul [#############.......] 3 s, round 3, 2 of 4 left, best 0.1235 ms: BLOCK: 16"


def test_the_line_is_erased_at_the_end():
    seconds = iter(range(100))
    screen = [""]
    for text in show(Terminal(), lambda: float(next(seconds))).split("\r"):
        screen[0] = text + screen[0][len(text) :]
    assert screen[0].strip() == ""


def test_a_narrow_terminal_gets_one_line():
    seconds = iter(range(100))
    lines = show(Terminal(), lambda: float(next(seconds)), 30).split("\r")
    assert all(len(line) < 30 for line in lines) and lines[1].endswith("…")


def test_a_line_is_not_written_more_often_than_it_is_read():
    assert show(Terminal(), lambda: 0.0).count("compiling 1/4") == 1
    quick = Terminal()
    with Progress("matmul", quick, lambda: 0.0, 200) as progress:
        for round in range(100):
            progress.racing(round, 3, 4, "BLOCK: 16", 1.0)
    assert quick.getvalue().count("round") == 1


def test_nothing_is_shown_without_a_terminal():
    assert show(io.StringIO()) == ""
