"""The text of launch errors: the kernel, the argument, the caller's line, one likely fix.

The launcher (C++) detects that something is wrong and calls back here; a launch that works runs nothing in this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from kiln import errors
from kiln.errors import calling_expression as caller
from kiln.runtime.interface import LAUNCH_OPTIONS, OPTION_KINDS

if TYPE_CHECKING:
    from kiln import _kiln
    from kiln.frontend.function import KernelFunction
    from kiln.runtime.jit import JITFunction


def signature(kernel: JITFunction) -> str:
    """The parameters as written: `(x, n, BLOCK: constexpr = 128, *rest)`."""
    parts = []
    for parameter in kernel.params:
        text = ("*" if parameter.kind == "variadic" else "") + parameter.name
        if parameter.is_constexpr:
            text += ": constexpr"
        elif parameter.annotation_type:
            text += ": " + parameter.annotation_type
        if parameter.has_default:
            text += f" = {parameter.default!r}" if parameter.is_constexpr else f"={parameter.default!r}"
        parts.append(text)
    return "(" + ", ".join(parts) + ")"


class Refusals:
    """Raises the errors of refused launches of one kernel."""

    def __init__(self, kernel: Any):
        self.kernel, self.name = kernel, kernel.__name__

    def as_table(self) -> _kiln.Refusals:
        """The methods, as a launcher calls them."""
        from kiln import _kiln

        return _kiln.Refusals(
            binding=self.binding,
            argument=self.argument,
            grid=self.grid,
            grid_key=self.grid_key,
            device=self.device,
            preparing=self.preparing,
            status=self.status,
            failure=self.failure,
            strides=self.strides,
        )

    def preparing(self) -> NoReturn:
        raise errors.LaunchError(
            "expected KILN_CHECK, KILN_STAGE_ARRAYS and KILN_WARN_STRIDES to be off (because a prepared launch looks at"
            " no array and copies none), got one that is on",
            kernel=self.name,
            hint=f"launch {self.name}[grid](...)",
        )

    def binding(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        """The arguments of a call do not fit the parameters."""

        def error(message: str, hint: str | None = None) -> errors.LaunchError:
            return errors.LaunchError(message, kernel=self.name, caller=caller(), hint=hint)

        positional = [p for p in self.kernel.params if p.kind == "positional"]
        variadic = any(p.kind == "variadic" for p in self.kernel.params)
        names = {p.name for p in self.kernel.params if p.kind != "variadic"}
        if len(args) > len(positional) and not variadic:
            plural = "s" * (len(positional) != 1)
            raise error(
                f"expected at most {len(positional)} positional argument{plural}, got {len(args)}",
                hint=f"the parameters are {signature(self.kernel)}",
            )
        given = {p.name for p, _ in zip(positional, args, strict=False)}
        for name in kwargs:
            if name in given:
                raise error(f"argument {name!r} is given by position and by name")
            if name in names:
                given.add(name)
            elif name not in LAUNCH_OPTIONS:
                near = errors.near_match(name, [*names, *LAUNCH_OPTIONS])
                raise error(
                    f"expected a parameter or a launch option, got {name!r}",
                    hint=f"did you mean {near!r}?" if near else f"the parameters are {signature(self.kernel)}",
                )
        missing = [
            p.name for p in self.kernel.params if p.kind != "variadic" and p.name not in given and not p.has_default
        ]
        if not missing:
            raise errors.InternalError(f"launch of {self.name}: the arguments were refused for no reason")
        listed = ", ".join(repr(name) for name in missing)
        raise error(
            f"expected a value for {listed}, got none",
            hint=f"the parameters are {signature(self.kernel)}",
        )

    def argument(self, name: str, value: Any, message: str, hint: str) -> NoReturn:
        """An argument is not something that kernels take."""
        raise errors.LaunchError(message, kernel=self.name, argument=name, caller=caller(), hint=hint or None)

    def strides(self, name: str, value: Any) -> None:
        """Warns of an array whose elements are not stored in the order of their indices (`KILN_WARN_STRIDES`)."""
        import warnings

        if isinstance(value, tuple):
            return  # it may hold the strides as well
        if hasattr(value, "stride"):
            steps = tuple(value.stride())
        elif getattr(value, "strides", None) is not None and hasattr(value, "itemsize"):
            steps = tuple(step // value.itemsize for step in value.strides)
        else:
            return
        expected = 1
        for side, step in zip(reversed(value.shape), reversed(steps), strict=True):
            if side != 1 and step != expected:
                break
            expected *= side
        else:
            return
        if 0 in value.shape:
            return
        where = caller()
        warnings.warn_explicit(
            f"launch of {self.name}: argument {name!r} has shape {tuple(value.shape)} and strides {steps}: a kernel"
            " gets its address and reads memory in the order of storage; pass the strides too, or a contiguous copy",
            UserWarning,
            where.file if where else "<unknown>",
            where.line if where else 0,
        )

    def grid(self, value: Any, message: str) -> NoReturn:
        sides = value if isinstance(value, (tuple, list)) else [value]
        hint = "divide with //, or with kiln.cdiv to round up" if any(isinstance(s, float) for s in sides) else None
        raise errors.LaunchError(f"grid {value!r}: {message}", kernel=self.name, caller=caller(), hint=hint)

    def grid_key(self, error: KeyError, meta: dict[str, Any]) -> None:
        """A grid function asked for a missing argument; returns if its KeyError is about something else."""
        name = error.args[0] if error.args else None
        if not isinstance(name, str) or name in meta:
            return
        near = errors.near_match(name, meta)
        raise errors.LaunchError(
            f"expected the grid function to read arguments of this launch, got {name!r}",
            kernel=self.name,
            caller=caller(),
            hint=f"did you mean {near!r}?" if near else f"the arguments are {', '.join(map(repr, meta))}",
        ) from error

    def device(self, message: str) -> NoReturn:
        """A launch on a GPU where there is none."""
        raise errors.LaunchError(
            f"expected a GPU (because KILN_TARGET names one): {message}",
            kernel=self.name,
            caller=caller(),
            hint="unset KILN_TARGET to run on the CPU",
        )

    def failure(self, what: dict[str, Any]) -> NoReturn:
        failure(self.name, what)

    def status(self, compiled: Any, code: str, message: str, need: _kiln.ResourceNeed | None) -> NoReturn:
        """Raises the error for a status of the device."""
        if code == "lost":
            raise errors.DeviceLostError(message)
        if code == "invalid":
            raise errors.LaunchError(message, kernel=self.name, caller=caller())
        if code == "resource":
            if need is not None and need.required >= 0:
                raise errors.ResourceError(need.resource, need.required, need.available, need.option, self.name)
            if "cuda" in compiled.metadata:
                self._refused_by_gpu(compiled, message, need.resource if need else "resources")
            available = 0
            try:
                import os

                available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
            except (ValueError, OSError):
                pass
            metadata = compiled.metadata
            required = max(metadata["frame_bytes"], metadata["workspace_bytes"])
            raise errors.ResourceError("memory", required, available, "the sides of the tiles", self.name)
        raise errors.InternalError(f"launch of {self.name}: {message}", stage="launch")

    def _refused_by_gpu(self, compiled: Any, message: str, resource: str) -> NoReturn:
        """The driver reports which resource is short, but not by how much: adds what the launch needs."""
        option = None
        if resource != "memory" and compiled.loaded is not None:
            figures = compiled.loaded.figures
            threads, registers, shared = figures["threads"], figures["registers"], figures["shared_bytes"]
            message += f"; a block has {threads} threads of {registers} registers, and {shared} bytes of shared memory"
            option = "num_warps, or set maxnreg"
        elif compiled.loaded is not None and (stack := compiled.loaded.figures["local_bytes"]):
            message += f"; each thread that is resident has {stack} bytes of local memory"
            option = "the sides of the tiles, or what else is on the device"
        raise errors.ResourceError(resource, option=option, kernel=self.name, detail=message)


def option(kernel: KernelFunction, name: str, value: Any) -> NoReturn:
    """A launch option has a value of the wrong kind."""
    from kiln import _kiln

    schedules = _kiln.schedules()
    near = errors.near_match(value, schedules) if name == "schedule" and isinstance(value, str) else None
    raise errors.LaunchError(
        f"expected {OPTION_KINDS[name].format(schedules=', '.join(schedules))}, got {value!r}",
        kernel=kernel.__name__,
        argument=name,
        caller=caller(),
        hint=f"did you mean {near!r}?" if near else None,
    )


def conflict(kernel: KernelFunction, first: str, second: str) -> NoReturn:
    """A launch option is given under two names, with different values."""
    raise errors.LaunchError(
        f"expected one of the options {first!r} and {second!r} (because they are two names of one thing), got both",
        kernel=kernel.__name__,
        argument=second,
        caller=caller(),
    )


def check(kernel: KernelFunction, check: str) -> NoReturn:
    """Checked accesses were requested on a GPU."""
    raise errors.LaunchError(
        f"expected KILN_CHECK=none on a GPU (because accesses are checked by the CPU target), got {check!r}",
        kernel=kernel.__name__,
        caller=caller(),
        hint="pass arrays of the host to run on the CPU target, or run under compute-sanitizer",
    )


def _frames(found: list[tuple[str, int, int, str]]) -> list[errors.SourceRange]:
    return [_whole(file, line, column, function) for file, line, column, function in found]


def _whole(file: str, line: int, column: int, function: str) -> errors.SourceRange:
    """The range of an expression. Compiled code has only its start; the end is found in the source, if available."""
    import ast
    import linecache

    text = linecache.getlines(file)
    place = errors.SourceRange(file, line, column, function=function)
    try:
        tree = ast.parse("".join(text))
        begin = len(text[line - 1][: column - 1].encode())
    except (SyntaxError, ValueError, IndexError):
        return place
    # If several calls begin there, as in `kl.load(p).to(t)`, the innermost is the one that executed.
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Call, ast.Assert)) and node.lineno == line and node.col_offset == begin
    ]
    if not found:
        return place
    node = min(found, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    end_line = node.end_lineno or line
    end = len(text[end_line - 1].encode()[: node.end_col_offset or 0].decode(errors="ignore"))
    return errors.SourceRange(file, line, column, end_line, end + 1, function)


def _coordinate(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    result: list[int] = []
    for side in reversed(shape):
        element, digit = divmod(element, side)
        result.insert(0, digit)
    return tuple(result)


def failure(kernel: str, what: dict[str, Any]) -> NoReturn:
    """An assertion or a check failed in a program instance."""
    classes = {
        "assert": errors.DeviceAssertError,
        "bounds": errors.OutOfBoundsError,
        "read-only": errors.OutOfBoundsError,
        "race": errors.RaceError,
        "lanes": errors.RaceError,
    }
    details = [what["detail"]] if what["detail"] else []
    if "other_frames" in what:
        other = _frames(what["other_frames"])
        if other:
            where = other[0]
            details.insert(0, f"the other access, of program {what['other_program']}: {where.file}:{where.line}")
            details[1:1] = where.excerpt()
    error = classes[what["kind"]](
        what["message"],
        kernel=kernel,
        program=what["program"],
        coordinate=_coordinate(what["element"], what["shape"]),
        frames=_frames(what["frames"]),
        details=details,
    )
    if what["kind"] == "lanes":
        error.title = "race within a store"
    raise error
