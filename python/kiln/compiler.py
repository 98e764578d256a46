"""Compiling, with the switches of `kiln.knobs` applied and failures raised as the classes of `kiln.errors`.

artifact = compiler.compile(module, {"target": "sm_90a", "num_warps": 8})
artifact.binary, artifact.metadata, artifact.text("ptx"), artifact.timings
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kiln import errors, knobs

if TYPE_CHECKING:
    from kiln._kiln import Artifact, Module


def complete(options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """`options`, completed from the switches."""
    full: dict[str, Any] = {
        "target": knobs.target,
        "check": knobs.check,
        "line_info": knobs.line_info,
        "verify_each": knobs.verify_each,
        "dump_directory": knobs.dump,
        "crash_directory": knobs.crash_dir,
    }
    full.update(options or {})
    if full["target"] == "cuda":
        full["target"] = _device_row()
    if full["target"] and is_gpu(full["target"]):
        from kiln import toolchain

        full.update({name: value for name, value in toolchain.options().items() if name not in full})
    return full


def _device_row() -> str:
    """The row of the current GPU, which is what the target `cuda` means."""
    from kiln.cuda import devices

    if not devices.is_available():
        raise errors.UserError(
            f"expected a GPU (because target 'cuda' is its row), found none: {devices.driver_problem()}; "
            "name a row such as sm_90a"
        )
    return devices.target()


def is_gpu(target: str) -> bool:
    """Whether the row `target` is an NVIDIA GPU; false for a name without a row."""
    from kiln import _kiln

    return _kiln.target_kind(target) == "cuda"


def compile(module: Module, options: Mapping[str, Any] | None = None) -> Artifact:
    """Compiles tile IR, as `frontend.emit` makes it, to the stage `options["to"]` (an object if not given)."""
    from kiln import _kiln

    return _report(_kiln.compile(module, complete(options)))


def compile_text(text: str, stage: str, options: Mapping[str, Any] | None = None) -> Artifact:
    """Compiles the text of any stage but the last.

    The target is `options["target"]` if given, else the one named in the text.
    """
    from kiln import _kiln

    full = complete(options)
    if "target" not in (options or {}):
        full["target"] = None
        # The attribute of a module, or the metadata in the first line.
        if 'kind = "cuda"' in text or '"kind":"cuda"' in text.partition("\n")[0]:
            from kiln import toolchain

            full.update({name: value for name, value in toolchain.options().items() if name not in full})
    return _report(_kiln.compile_text(text, stage, full))


def _report(artifact: Artifact) -> Artifact:
    if knobs.timing:
        steps = ", ".join(f"{name} {ms:.1f}" for name, ms in artifact.timings.items())
        total = sum(artifact.timings.values())
        print(f"kiln: compiled in {total:.1f} ms ({steps})", file=sys.stderr)
    for diagnostic in artifact.diagnostics:
        if diagnostic["severity"] == "warning":
            import warnings

            warnings.warn(_sentence(diagnostic), stacklevel=3)
    return artifact


def _sentence(diagnostic: Mapping[str, Any]) -> str:
    if not diagnostic["frames"]:
        return diagnostic["message"]
    file, line, column = diagnostic["frames"][0][:3]
    return f"{file}:{line}:{column}: {diagnostic['message']}"


def _range(frame: tuple[str, int, int, int, int, str]) -> errors.SourceRange:
    file, line, column, end_line, end_column, function = frame
    return errors.SourceRange(file, line, column, end_line, end_column, function)


def raise_failure(diagnostics: list[dict[str, Any]], failure: dict[str, Any] | None) -> None:
    """Raises the exception that describes a failed compile; called by `_kiln`.

    A mistake of the user takes precedence over an internal failure that it caused. A message may end in a line
    "hint: ...".
    """
    for diagnostic in diagnostics:
        if not diagnostic["user"]:
            continue
        message, _, hint = diagnostic["message"].partition("\nhint: ")
        error = errors.CompilationError(message, hint or None)
        for frame in diagnostic["frames"]:
            error.at(_range(frame))
        for note in diagnostic["notes"]:
            if note["frames"]:
                error.note(note["message"], _range(note["frames"][0]))
        raise error
    assert failure is not None
    if failure["kind"] == "input":
        raise errors.UserError(failure["message"])
    if failure["kind"] == "resource":
        raise errors.ResourceError(
            failure["resource"], failure["required"], failure["available"], failure["option"] or None
        )
    located = [d for d in diagnostics if d["severity"] == "error" and d["frames"]]
    where = None
    if located:
        file, line, column = located[0]["frames"][-1][:3]
        where = f"{file}:{line}:{column}"
    raise errors.InternalError(
        failure["message"],
        stage=failure["stage"] or None,
        pass_name=failure["pass_name"] or None,
        ir_path=failure["ir_path"] or None,
        reproduce=failure["reproduce"] or None,
        location=where,
    )
