"""`triton.errors`, `triton.runtime.errors`, `triton.compiler.errors`: exceptions under Triton's names.

If Kiln has an exception with the same meaning, the name refers to Kiln's class, so that `except` catches it.
"""

from __future__ import annotations

from typing import Any

from kiln.errors import CompilationError, KilnError, LaunchError, ResourceError
from kiln.errors import StaticAssertionError as CompileTimeAssertionFailure
from kiln.errors import UnsupportedSyntaxError as UnsupportedLanguageConstruct

TritonError = KilnError

__all__ = [
    "AutotunerError",
    "CompilationError",
    "CompileTimeAssertionFailure",
    "InterpreterError",
    "OutOfResources",
    "PTXASError",
    "TritonError",
    "UnsupportedLanguageConstruct",
]


class _Told(TritonError):
    """An error that consists of a message."""

    def __init__(self, error_message: str | None = None):
        self.error_message = error_message
        super().__init__(error_message or "")


class InterpreterError(_Told):
    """Never raised: kernels are always compiled, even for the CPU."""


class PTXASError(_Told):
    """NVIDIA's assembler failed. Never raised: Kiln raises its own `InternalError`."""


class AutotunerError(_Told):
    """No configuration remains to be measured."""


class IntegerOverflow(LaunchError, OverflowError):
    """A launch got an integer that fits no type of the language."""

    @classmethod
    def like(cls, error: LaunchError) -> IntegerOverflow:
        return cls(error.message, error.kernel, error.argument, error.caller, error.hint)


class NoClusters(LaunchError, ValueError):
    """A launch asked for a thread block cluster on a GPU without clusters."""


class OutOfResources(ResourceError):
    """A kernel that does not fit the machine: `required`, `limit`, `name`."""

    def __init__(self, required: Any, limit: Any, name: str, option: str | None = None, kernel: str | None = None):
        super().__init__(name, required, limit, option, kernel)
        self.limit, self.name = limit, name
        # Programs search the message for these words.
        text = f"out of resource: {name}, Required: {required}, Hardware limit: {limit}"
        self.args = (f"{kernel}: " * bool(kernel) + text + f"\nhint: reduce {option}" * bool(option),)

    def __reduce__(self) -> tuple:
        return type(self), (self.required, self.limit, self.name, self.option, self.kernel)

    def of(self, kernel: str) -> OutOfResources:
        return type(self)(self.required, self.limit, self.name, self.option, kernel)

    @classmethod
    def like(cls, error: ResourceError) -> OutOfResources:
        """Kiln's error under Triton's name."""
        return cls(error.required, error.available, error.resource, error.option, error.kernel)
