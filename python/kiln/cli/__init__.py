"""The console script `kiln`: one verb per module of this folder.

Exit codes: 0 done; 1 the input is wrong (a kernel, a file, a signature); 2 wrong usage; 3 a fault of Kiln itself.
"""

from __future__ import annotations

import argparse
import os
import sys


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    from kiln import __version__, errors
    from kiln.cli import bench as bench_verb
    from kiln.cli import cache as cache_verb
    from kiln.cli import compile as compile_verb
    from kiln.cli import explain as explain_verb
    from kiln.cli import export as export_verb
    from kiln.cli import freeze as freeze_verb
    from kiln.cli import info as info_verb
    from kiln.cli import run as run_verb
    from kiln.cli import tune as tune_verb

    parser = argparse.ArgumentParser(prog="kiln", description="Compile, inspect and run Kiln kernels.")
    parser.add_argument("--version", action="version", version=f"kiln {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    bench_verb.add_parser(verbs)
    cache_verb.add_parser(verbs)
    compile_verb.add_parser(verbs)
    explain_verb.add_parser(verbs)
    export_verb.add_parser(verbs)
    freeze_verb.add_parser(verbs)
    info_verb.add_parser(verbs)
    run_verb.add_parser(verbs)
    tune_verb.add_parser(verbs)
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["run"]:  # exceptions of the user's program are shown as they are
        return run_verb.main(words[1:])
    try:
        if words[:1] == ["bench"]:  # has options of its own, known only in a checkout
            return bench_verb.main(words[1:])
        options = parser.parse_args(words)
        code = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `kiln compile ... | head`: the reader is gone; drops the rest of the buffer
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except errors.InternalError as error:
        print(error, file=sys.stderr)
        return 3
    except ImportError as error:
        if error.name != "kiln._compiler":
            raise
        print(error, file=sys.stderr)
        return 1
    except (errors.KilnError, OSError, ValueError) as error:
        print(error if isinstance(error, errors.KilnError) else f"kiln: {error}", file=sys.stderr)
        return 1
