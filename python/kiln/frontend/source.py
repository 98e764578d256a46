"""Finding the source text of a function, wherever it was defined.

A file is kept as it is when the decorator runs, since it may be edited before the text is needed; notebook cells and
anything else in `linecache` are read on demand. The text of code passed to `exec` or `python -c`, or typed into a plain
REPL, is lost afterwards, so it is searched for while the decorator runs; a candidate counts only if it compiles to the
same code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast


class Source(NamedTuple):
    """The text of one function definition as it is in its file, including decorators."""

    file: str
    first_line: int
    text: str

    @property
    def last_line(self) -> int:
        return self.first_line + self.text.count("\n")

    @property
    def indented(self) -> bool:
        return self.text[:1] in (" ", "\t")

    def parse(self) -> ast.Module:
        """Its syntax tree, with the file's own lines and columns."""
        import ast

        # An indented definition is wrapped rather than dedented: that would break strings that span lines.
        tree = ast.parse("if 1:\n" + self.text if self.indented else self.text, self.file)
        ast.increment_lineno(tree, self.first_line - (2 if self.indented else 1))
        return ast.Module(tree.body[0].body, []) if self.indented else tree  # type: ignore[attr-defined]

    def line(self, number: int) -> str:
        """The source line of that number in the file; empty outside the definition."""
        lines = self.text.split("\n")
        index = number - self.first_line
        return lines[index] if 0 <= index < len(lines) else ""


def is_volatile(fn: FunctionType) -> bool:
    """Whether the text must be searched for now, because it will be lost later."""
    name = fn.__code__.co_filename
    if not name.startswith("<"):
        return False
    import linecache

    return name not in linecache.cache


class Snapshot(NamedTuple):
    """A file's contents at one time."""

    stamp: tuple[int, int]
    """Its modification time and size."""
    content: bytes

    def lines(self) -> list[str]:
        import importlib.util

        return importlib.util.decode_source(self.content).splitlines(keepends=True)


_snapshots: dict[str, Snapshot] = {}


def remember(fn: FunctionType) -> Snapshot | None:
    """The file of `fn` as it is now; all functions in the file share one copy. None if there is no file."""
    name = fn.__code__.co_filename
    try:
        status = os.stat(name)
        stamp = (status.st_mtime_ns, status.st_size)
        known = _snapshots.get(name)
        if known is None or known.stamp != stamp:
            with open(name, "rb") as file:
                known = _snapshots[name] = Snapshot(stamp, file.read())
    except OSError:
        return None
    return known


def find(fn: FunctionType, snapshot: Snapshot | None) -> Source | None:
    """The source of `fn`, from its file as it was when `fn` was decorated, else from `linecache`; None if unknown. It
    is not compared with the running code, which differs where tools rewrite modules at import (as pytest does with
    `assert`)."""
    code = fn.__code__
    if snapshot is None:
        import linecache

        lines = linecache.getlines(code.co_filename, fn.__globals__)
        return _cut(lines, code, strict=False) if lines else None
    try:
        source = _cut(snapshot.lines(), code, strict=False)
    except (SyntaxError, UnicodeError):
        return None
    if source is not None:
        _warn_if_edited(source, fn.__name__, snapshot)
    return source


def reach(fn: FunctionType, snapshot: Snapshot | None) -> str | None:
    """The text of the file of `fn`, from the first line of its definition; as it is found without parsing, it may
    continue after the definition. None where `find` is needed: code without a file, files with another encoding or
    other line endings, and files edited since (`find` warns of those)."""
    code = fn.__code__
    if snapshot is None or sys.flags.optimize:
        return None
    lines = _lines_of(code.co_filename, snapshot)
    first = code.co_firstlineno
    if lines is None or not 0 < first <= len(lines):
        return None
    try:
        status = os.stat(code.co_filename)
        if (status.st_mtime_ns, status.st_size) != snapshot.stamp:
            return None
    except OSError:
        return None
    end = _last_line(code)
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip(b" \t"))
    for number in range(end, len(lines)):
        line = lines[number].lstrip(b" \t")
        if not line or line.startswith(b"#"):
            continue
        if len(lines[number]) - len(line) > indent:
            end = len(lines)  # lines without instructions follow, of unknown length
        break
    try:
        return b"\n".join(lines[first - 1 : end]).decode()
    except UnicodeDecodeError:
        return None


_split: dict[str, tuple[Snapshot, list[bytes] | None]] = {}


def _lines_of(name: str, snapshot: Snapshot) -> list[bytes] | None:
    known = _split.get(name)
    if known is None or known[0] is not snapshot:
        content = snapshot.content
        lines = content.split(b"\n")
        plain = not any(end in content for end in (b"\r", b"\f", b"\v")) and b"coding" not in b"".join(lines[:2])
        known = _split[name] = (snapshot, lines if plain else None)
    return known[1]


def _last_line(code: CodeType) -> int:
    """The last source line of any instruction of the code."""
    last = code.co_firstlineno
    if hasattr(code, "co_positions"):
        ends = [position[1] for position in code.co_positions()]
    else:  # Python 3.10 knows where instructions begin
        ends = [line for _, _, line in code.co_lines()]
    inner = [_last_line(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return max([last, *inner, *(end for end in ends if end is not None)])


def _warn_if_edited(source: Source, name: str, snapshot: Snapshot) -> None:
    try:
        status = os.stat(source.file)
        if (status.st_mtime_ns, status.st_size) == snapshot.stamp:
            return
        with open(source.file, "rb") as file:
            now = "".join(Snapshot((0, 0), file.read()).lines())
    except (OSError, SyntaxError, UnicodeError):
        now = ""
    if source.text not in now:
        import warnings

        warnings.warn_explicit(
            f"{name} was edited after it was imported: it is compiled as it was (import it again for the new text)",
            UserWarning,
            source.file,
            source.first_line,
        )


def find_volatile(fn: FunctionType, frame: FrameType | None) -> Source | None:
    """The source of `fn` while its decorator runs in `frame`: from the caller of `exec`, or from the REPL."""
    for text in _candidates(fn, frame):
        if f"def {fn.__name__}" not in text:
            continue
        source = _cut(text.splitlines(keepends=True), fn.__code__, strict=True)
        if source is not None:
            return source
    return None


def holds(lines: list[str], code: CodeType) -> bool:
    """Whether compiling the whole text gives `code` in its position. It must be the whole text, as bytecode depends on
    the surrounding code."""
    try:
        outer = [compile("".join(lines), code.co_filename, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return False
    while outer:
        found = outer.pop()
        if found.co_name == code.co_name and found.co_firstlineno == code.co_firstlineno:
            return fingerprint(found) == fingerprint(code)
        outer += [constant for constant in found.co_consts if isinstance(constant, CodeType)]
    return False


def fingerprint(code: CodeType) -> tuple:
    """The contents of code, without positions."""

    def spelled(constant: object) -> object:
        if isinstance(constant, CodeType):
            return fingerprint(constant)
        return sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)

    constants = [spelled(constant) for constant in code.co_consts]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _same_head(source: Source, code: CodeType) -> bool:
    """Whether the text defines a function of that name with those parameters."""
    try:
        definition = source.parse().body[0]
        arguments = definition.args  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError, IndexError):
        return False
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    return definition.name == code.co_name and tuple(names) == code.co_varnames[:count]  # type: ignore[attr-defined]


def _cut(lines: list[str], code: CodeType, strict: bool) -> Source | None:
    """The definition that starts at the code's first line, if it is the one `code` was made from."""
    import inspect
    import tokenize

    first = code.co_firstlineno
    if not 0 < first <= len(lines):
        return None
    try:
        block = inspect.getblock(lines[first - 1 :])
    except (SyntaxError, ValueError, tokenize.TokenError):
        return None
    source = Source(code.co_filename, first, "".join(block).rstrip("\n"))
    return source if (holds(lines, code) if strict else _same_head(source, code)) else None


def _candidates(fn: FunctionType, frame: FrameType | None) -> Iterator[str]:
    """Texts that `fn` may have been defined in."""
    filename = fn.__code__.co_filename
    if filename == "<stdin>":
        yield from _standard_input()
        yield from _history(fn)
        return
    arguments = list(getattr(sys, "orig_argv", []))
    if "-c" in arguments[:-1]:
        yield arguments[arguments.index("-c") + 1]
    # The caller of `exec` holds its argument: a constant, a variable or a name. Frames of the text itself do not count
    # (some of them may call `exec`: `python -c` has the same file name); beyond them, four callers are searched.
    callers = 0
    while frame is not None and callers < 4:
        callers += frame.f_code.co_filename != filename
        for held in (*frame.f_code.co_consts, *frame.f_locals.values(), *_named(frame)):
            texts = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else (held,)
            yield from (text for text in list(texts) if isinstance(text, str) and "\n" in text)
        frame = frame.f_back


def _named(frame: FrameType) -> Iterator[object]:
    """Globals that the frame's code names, and what it names of modules and objects it can reach by name."""
    names = frame.f_code.co_names
    owners = [frame.f_globals[name] for name in names if name in frame.f_globals]
    yield from owners
    for owner in (*owners, *frame.f_locals.values()):
        # The dictionary, not getattr: the search must not run properties.
        held = getattr(owner, "__dict__", None)
        if held:
            yield from (held[name] for name in names if name in held)


def _standard_input() -> Iterator[str]:
    """The text redirected into the interpreter, if it can be read again."""
    import stat

    try:
        status = os.fstat(0)
        if stat.S_ISREG(status.st_mode):
            yield os.pread(0, status.st_size, 0).decode("utf-8", "replace")
    except OSError:
        return


def _history(fn: FunctionType) -> Iterator[str]:
    """What was typed into a REPL: the last definition of that name in the line history, padded to its line number."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    last = readline.get_current_history_length()
    lines = [readline.get_history_item(i) or "" for i in range(max(1, last - 400), last + 1)]
    starts = [i for i, line in enumerate(lines) if line.lstrip().startswith(f"def {fn.__name__}")]
    for start in reversed(starts):
        while start > 0 and lines[start - 1].lstrip().startswith("@"):
            start -= 1
        # Each statement of a REPL starts again at line 1.
        yield "\n" * (fn.__code__.co_firstlineno - 1) + "\n".join(lines[start:]) + "\n"
