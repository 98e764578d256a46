"""Every exception Kiln raises, in three kinds that are never mixed.

UserError      the kernel or the launch is wrong: says where, what was expected and why, and one likely fix.
ResourceError  a valid kernel that does not fit this machine: required, available, which option to change.
InternalError  our fault: stage, pass, where the IR was saved and the command that reproduces it.

Code that knows no source position raises `CompilationError(message, hint=...)`; the front end adds the position and the
chain of calls on the way out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from types import FrameType, TracebackType


class KilnError(Exception):
    """Base of everything Kiln raises."""


class UserError(KilnError):
    """The kernel, or the way it is launched, is wrong."""


class ResourceError(KilnError):
    """A valid kernel that does not fit the machine. `required` and `available` are None if the amounts are unknown;
    `detail` is then the device's own message."""

    def __init__(
        self,
        resource: str,
        required: int | None = None,
        available: int | None = None,
        option: str | None = None,
        kernel: str | None = None,
        detail: str | None = None,
    ):
        self.resource, self.required, self.available = resource, required, available
        self.option, self.kernel, self.detail = option, kernel, detail
        text = f"{kernel}: " if kernel else ""
        text += f"out of {resource}"
        if required is not None:
            text += f": required {required}, available {available}"
        if detail:
            text += f": {detail}"
        if option:
            text += f"\nhint: reduce {option}"
        super().__init__(text)

    def of(self, kernel: str) -> ResourceError:
        """This error with the kernel's name in its message."""
        return type(self)(self.resource, self.required, self.available, self.option, kernel, self.detail)

    def __reduce__(self) -> tuple:
        return type(self), (self.resource, self.required, self.available, self.option, self.kernel, self.detail)


class InternalError(KilnError):
    """A fault of Kiln itself."""

    def __init__(
        self,
        message: str,
        stage: str | None = None,
        pass_name: str | None = None,
        ir_path: str | None = None,
        reproduce: str | None = None,
        location: str | None = None,
    ):
        self.message, self.stage, self.pass_name = message, stage, pass_name
        self.ir_path, self.reproduce, self.location = ir_path, reproduce, location
        lines = [f"internal error: {message.rstrip()}"]
        for label, value in (
            ("stage", stage),
            ("pass", pass_name),
            ("while compiling", location),
            ("IR saved in", ir_path),
            ("reproduce with", reproduce),
        ):
            if value:
                lines.append(f"  {label}: {value}")
        lines.append("This is a fault of Kiln, not of your program; please report it with the saved IR.")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple:
        return type(self), (
            self.message, self.stage, self.pass_name, self.ir_path, self.reproduce, self.location,
        )  # fmt: skip


class SourceRange(NamedTuple):
    """A piece of source text: lines count from 1, columns from 1, the end is exclusive (0: unknown)."""

    file: str
    line: int
    column: int
    end_line: int = 0
    end_column: int = 0
    function: str = ""
    text: str | None = None
    """The source line, where it cannot be found through `linecache`."""

    def source_line(self) -> str:
        """The text of the first line, without its end; empty if unknown."""
        if self.text is not None:
            return self.text
        import linecache

        return linecache.getline(self.file, self.line).rstrip("\n")

    def excerpt(self) -> list[str]:
        """The source line and a line of carets under the range."""
        line = self.source_line()
        if not line.strip():
            return []
        start = min(max(self.column - 1, 0), len(line))
        if self.end_line == self.line and self.end_column > self.column:
            end = self.end_column - 1
        elif self.end_line > self.line:
            end = len(line.rstrip())
        else:
            end = start + 1
        width = max(1, min(end, len(line)) - start)
        # A tab before the range stays a tab, so that the caret lines up with the displayed text.
        pad = "".join("\t" if c == "\t" else " " for c in line[:start])
        number = str(self.line).rjust(5)
        return [f"{number} | {line}", f"{' ' * len(number)} | {pad}^{'~' * (width - 1)}"]


def _is_ours(frame: FrameType, library: bool = False) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.split(".")[0] == "kiln" and (library or not module.startswith("kiln.kernels."))


def drop_traceback(error: BaseException, traceback: TracebackType | None) -> None:
    """Called when an exception leaves a launch: a user's mistake is explained by its message, at the user's own line,
    not by a traceback through the front end. An exception that passed through the user's code keeps its traceback, and
    so does every exception if the `kiln` logger logs debugging."""
    error.__traceback__ = traceback
    if isinstance(error, InternalError) or not isinstance(error, KilnError):
        return
    if "logging" in sys.modules:
        import logging

        if logging.getLogger("kiln").isEnabledFor(logging.DEBUG):
            return
    step = traceback
    while step is not None:
        if not _is_ours(step.tb_frame):
            return
        step = step.tb_next
    error.__traceback__ = None
    error.__suppress_context__ = True


def calling_expression(library: bool = False) -> SourceRange | None:
    """The expression of the user's code that is being evaluated: in the nearest frame outside Kiln and, with `library`,
    outside its kernel library."""
    frame = sys._getframe(1)
    while frame is not None:
        if not _is_ours(frame, library):
            break
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    code = frame.f_code
    line, column, end_line, end_column = frame.f_lineno, 0, 0, 0
    positions = getattr(code, "co_positions", None)
    if positions is not None and frame.f_lasti >= 0:
        from itertools import islice

        found = next(islice(positions(), frame.f_lasti // 2, None), (None, None, None, None))
        if None not in found:
            line, end_line, column, end_column = found[0], found[1], found[2] + 1, found[3] + 1  # type: ignore
    return SourceRange(code.co_filename, line, column or 1, end_line, end_column, code.co_name)


class CompilationError(UserError):
    """A mistake in a kernel.

    message   "expected X (because Y), got Z", without a position
    hint      one likely fix
    argument  the parameter of the called function that is at fault: the caret goes under what was passed for it
    culprit   a tuple of the value that is at fault, where no parameter is named: the caret goes under its expression
    frames    where: the innermost position first, then each call on the way from the kernel
    notes     further positions that matter, each with a sentence ("first assigned here")
    """

    def __init__(self, message: str, hint: str | None = None, argument: str | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.argument = argument
        self.culprit: tuple[Any] | None = None
        self.frames: list[SourceRange] = []
        self.notes: list[tuple[str, SourceRange]] = []

    def at(self, frame: SourceRange) -> CompilationError:
        """Adds the next outer position."""
        self.frames.append(frame)
        self.culprit = None  # found; kernel values must not outlive the compile
        return self

    def note(self, sentence: str, frame: SourceRange) -> CompilationError:
        self.notes.append((sentence, frame))
        return self

    @property
    def error_message(self) -> str:
        """`message` under the attribute name of Triton's exception."""
        return self.message

    @property
    def location(self) -> SourceRange | None:
        return self.frames[0] if self.frames else None

    def __str__(self) -> str:
        where = self.location
        if where is None:
            lines = [f"error: {self.message}"]
        else:
            lines = [f"{where.file}:{where.line}:{where.column}: error: {self.message}"]
            lines += where.excerpt()
        for sentence, frame in self.notes:
            lines.append(f"{frame.file}:{frame.line}:{frame.column}: note: {sentence}")
            lines += frame.excerpt()
        for frame in self.frames[1:]:
            lines.append(f"{frame.file}:{frame.line}:{frame.column}: called from {frame.function or 'here'}")
            lines += frame.excerpt()
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.hint, self.argument), self.__dict__

    @classmethod
    def from_locations(
        cls, message: str, locations: Iterable[tuple[str, int, int, str]], hint: str | None = None
    ) -> CompilationError:
        """From a compiler diagnostic: (file, line, column, function) innermost first."""
        error = cls(message, hint)
        for file, line, column, function in locations:
            error.at(SourceRange(file, line, column, function=function))
        return error


class StaticAssertionError(CompilationError):
    """`kl.static_assert`, or `assert` of something known while compiling, failed."""


class UnsupportedSyntaxError(CompilationError):
    """Python that has no meaning in a kernel."""


class UsageError(UserError):
    """Kiln used wrongly outside a kernel; names the caller's line."""

    def __init__(self, message: str, hint: str | None = None, caller: SourceRange | None = None):
        super().__init__(message)
        self.message, self.hint = message, hint
        self.caller = calling_expression() if caller is None else caller
        self.details: str | None = None
        """Another message that explains this one."""

    def sentence(self) -> str:
        return self.message

    def __str__(self) -> str:
        lines = [self.sentence()]
        where = self.caller
        if where is not None:
            # Python before 3.11 records only the line.
            column = f":{where.column}" if where.end_column else ""
            lines[0] = f"{where.file}:{where.line}{column}: error: {lines[0]}"
            lines += where.excerpt() if where.end_column else where.excerpt()[:1]
        if self.details:
            lines.append(self.details)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.hint, self.caller), self.__dict__


class LaunchError(UsageError):
    """A mistake in launching a kernel: names the kernel, the argument and the caller's line."""

    def __init__(
        self,
        message: str,
        kernel: str | None = None,
        argument: str | None = None,
        caller: SourceRange | None = None,
        hint: str | None = None,
    ):
        super().__init__(message, hint, caller)
        self.kernel, self.argument = kernel, argument

    def sentence(self) -> str:
        text = self.message
        if self.argument:
            text = f"argument {self.argument!r}: {text}"
        return f"launch of {self.kernel}: {text}" if self.kernel else text

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.kernel, self.argument, self.caller, self.hint), self.__dict__


class FrozenError(LaunchError):
    """A launch that would have to compile in frozen mode: names the argument, its value and the missing variant."""

    def __init__(
        self,
        message: str,
        variant: str,
        kernel: str | None = None,
        argument: str | None = None,
        caller: SourceRange | None = None,
        hint: str | None = None,
    ):
        super().__init__(message, kernel, argument, calling_expression() if caller is None else caller, hint)
        self.variant = variant
        self.value: Any = None

    def tell_values(self, named: dict[str, Any]) -> None:
        """The launch's arguments by name."""
        value: Any = named.get((self.argument or "").partition(".")[0])
        if isinstance(value, (bool, int, float, str)):
            self.value = value
        elif hasattr(value, "dtype"):
            self.value = f"an array of {value.dtype}"

    def sentence(self) -> str:
        text = super().sentence()
        if self.value is not None and not text.endswith(f"got {self.value}"):
            text += f" from {self.value}"
        return f"{text}; missing: {self.variant}"

    def __reduce__(self) -> tuple:
        arguments = (self.message, self.variant, self.kernel, self.argument, self.caller, self.hint)
        return type(self), arguments, self.__dict__


class ArgumentError(UsageError, ValueError):
    """A function of the kernel library cannot take an argument: names the function, the argument and the caller's line.
    A ValueError too, as such mistakes are in Python."""

    def __init__(
        self,
        argument: str,
        message: str,
        hint: str | None = None,
        function: str | None = None,
        caller: SourceRange | None = None,
    ):
        super().__init__(message, hint, calling_expression(library=True) if caller is None else caller)
        self.argument, self.function = argument, function

    def sentence(self) -> str:
        text = f"{self.argument}: {self.message}"
        return f"{self.function}: {text}" if self.function else text

    def __repr__(self) -> str:
        # The only text of an error that torch's compiler shows while it traces.
        return f"{type(self).__name__}({self.sentence()!r})"

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.message, self.hint, self.function, self.caller), self.__dict__


class DeviceError(UserError):
    """A running program instance stopped: which one, where in the source, at which element of the tile.

    program     (x, y, z) in the launch grid
    coordinate  of the element in the tile, empty for a scalar
    frames      innermost source position first
    """

    title = "device error"

    def __init__(
        self,
        message: str,
        kernel: str | None = None,
        program: tuple[int, ...] = (),
        coordinate: tuple[int, ...] = (),
        frames: Iterable[SourceRange] = (),
        details: Iterable[str] = (),
    ):
        super().__init__(message)
        self.message, self.kernel = message, kernel
        self.program, self.coordinate = tuple(program), tuple(coordinate)
        self.frames, self.details = list(frames), list(details)

    def __str__(self) -> str:
        where = self.frames[0] if self.frames else None
        head = f"{where.file}:{where.line}:{where.column}: " if where else ""
        lines = [f"{head}{self.title}: {self.message}"]
        if where:
            lines += where.excerpt()
        for frame in self.frames[1:]:
            lines.append(f"{frame.file}:{frame.line}:{frame.column}: called from {frame.function or 'here'}")
            lines += frame.excerpt()
        place = [f"kernel {self.kernel}"] if self.kernel else []
        if self.program:
            place.append(f"program {self.program}")
        if self.coordinate:
            place.append(f"element {self.coordinate}")
        if place:
            lines.append("  in " + ", ".join(place))
        lines += [f"  {detail}" for detail in self.details]
        return "\n".join(lines)

    def __reduce__(self) -> tuple:
        return type(self), (
            self.message, self.kernel, self.program, self.coordinate, self.frames, self.details,
        )  # fmt: skip


class DeviceAssertError(DeviceError):
    """`kl.device_assert` (or `assert`) failed in a running kernel."""

    title = "assertion failed"


class DeviceLostError(DeviceError):
    """The context of a GPU is lost, for good: a kernel accessed memory that is not there, ran into the time limit, …"""

    title = "device lost"


class OutOfBoundsError(DeviceError):
    """KILN_CHECK=bounds: an access outside every buffer passed in."""

    title = "access out of bounds"


class RaceError(DeviceError):
    """KILN_CHECK=races: two instances touched one address with no atomic, one of them writing; or two elements of one
    store have one address."""

    title = "race between program instances"


OutOfResources = ResourceError


def near_match(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate closest to `name`, or None if none is close."""
    import difflib

    matches = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None
