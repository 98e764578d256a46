"""`kiln run`: a Python program or module as `python` runs it, if asked with Kiln in Triton's place."""

from __future__ import annotations

import os
import sys
from typing import Any

USAGE = """usage: kiln run [--as-triton] PROGRAM.py [ARGUMENT ...]
       kiln run [--as-triton] -m MODULE [ARGUMENT ...]

Runs a Python program in this process.

  --as-triton   `import triton` finds Kiln, under Triton's names and with their meanings; nothing called triton need be
                installed, and an installed Triton is not looked at (see kiln.as_triton)
  -m MODULE     a module instead of a file: kiln run --as-triton -m pytest test_softmax.py

Exit code: the program's own.
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the list that `kiln --help` shows; what follows the program is the program's."""
    parser = verbs.add_parser("run", help="run a program, with --as-triton on Kiln in Triton's place", add_help=False)
    parser.set_defaults(run=lambda _: main([]))


def main(arguments: list[str]) -> int:
    """Runs the program; returns the exit code."""
    as_triton = module = False
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-h", "--help"):
            print(USAGE, end="")
            return 0
        if option == "--as-triton":
            as_triton = True
        elif option == "-m":
            module = True
            break
        else:
            print(f"kiln run: unknown option {option}\n{USAGE}", end="", file=sys.stderr)
            return 2
    if not rest:
        print(f"kiln run: expected {'a module' if module else 'a program'}, got none\n{USAGE}", end="", file=sys.stderr)
        return 2
    if not module and not os.path.exists(rest[0]):
        print(f"kiln run: no such file: {rest[0]}", file=sys.stderr)
        return 2
    if as_triton:
        from kiln import as_triton as layer

        layer.install(children=True)
    return _run(rest, module)


def _run(words: list[str], module: bool) -> int:
    """As `python FILE …` or `python -m MODULE …`; a program's exception is shown as Python shows it."""
    import runpy

    argv, path = sys.argv, list(sys.path)
    sys.argv = list(words)
    sys.path.insert(0, os.getcwd() if module else os.path.dirname(os.path.abspath(words[0])))
    try:
        if module:
            runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        error.__traceback__ = _behind_runpy(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    finally:
        sys.argv, sys.path[:] = argv, path
    return 0


def _behind_runpy(traceback: Any) -> Any:
    """The part of a traceback inside the program, without the frames that run it."""
    first = traceback
    while traceback is not None and _machinery(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback or first


def _machinery(file: str) -> bool:
    return file == _run.__code__.co_filename or os.path.basename(file) in ("runpy.py", "<frozen runpy>")
