"""The emulator's own tests find an instruction that does nothing, and a line of one that is gone.

Each mutant runs the tests by hand in a process of its own until one fails. `KILN_FUZZ_EMULATOR`: how many mutants of
the second kind, drawn from a seed (all instructions are tried in any case).
"""

from __future__ import annotations

import ast
import inspect
import os
import pathlib
import random
import signal
import sys
import textwrap

import pytest

from emulator import arithmetic, barriers, communication, conversion, copies, operation, products

pytestmark = pytest.mark.fuzz

HERE = pathlib.Path(__file__).parent
TESTS = [str(HERE / f"test_{name}.py") for name in ("machine", "barriers", "copies", "products")]
COUNT = int(os.environ.get("KILN_FUZZ_EMULATOR", "24"))

# What changes no value: the emulator takes these for hints. membar is a fence by its old name, which Kiln does not
# write.
HINTS = {"createpolicy", "membar", "nanosleep", "pmevent", "prefetch", "prefetchu"}
INSTRUCTIONS = sorted(set(operation._table) - HINTS)


def survives(mutate) -> bool:
    """Whether the tests pass under a mutation, which is made in a child."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            # A mutant that never ends is found by that.
            signal.alarm(120)
            mutate()
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *TESTS]))
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1, -signal.SIGALRM), f"the tests could not run: {code}"
    return code == 0


def test_they_pass_unchanged():
    assert survives(lambda: None)


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_an_instruction_that_does_nothing_is_found(name):
    def mutate():
        _, known = operation._table[name]
        operation._table[name] = (lambda instruction: lambda machine, lanes: None), known

    assert not survives(mutate)


def statements() -> list[tuple[str, int, str]]:
    """Statements of the functions that instructions run: module, number in it, text."""
    found = []
    for module in (arithmetic, barriers, communication, conversion, copies, products):
        source = inspect.getsource(module)
        for number, node in enumerate(removable(ast.parse(source))):
            found.append((module.__name__, number, ast.get_source_segment(source, node) or ""))
    return found


def removable(tree: ast.Module) -> list[ast.stmt]:
    """What has an effect and may go: assignments and calls inside functions."""
    return [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in function.body
        if isinstance(node, (ast.AugAssign, ast.Expr)) and not isinstance(getattr(node, "value", None), ast.Constant)
    ]


DRAWN = random.Random(7).sample(statements(), min(COUNT, len(statements())))


@pytest.mark.parametrize("module, number, text", DRAWN, ids=[f"{m.split('.')[-1]}-{n}" for m, n, _ in DRAWN])
def test_a_line_that_is_gone_is_found(module, number, text):
    def mutate():
        source = inspect.getsource(sys.modules[module])
        tree = ast.parse(source)
        gone = removable(tree)[number]
        for node in ast.walk(tree):
            for name, body in ast.iter_fields(node):
                if isinstance(body, list) and gone in body:
                    setattr(node, name, [ast.Pass() if item is gone else item for item in body])
        exec(compile(ast.fix_missing_locations(tree), module, "exec"), vars(sys.modules[module]))

    assert not survives(mutate), textwrap.shorten(text, 200)
