"""`compiled[grid](*args)`: launches the code of one specialisation, and no other.

The ordinary launcher binds, reads and packs the arguments, with parameters derived from the code: the value the code
was compiled for is the default of a parameter, and properties that the code does not depend on are not examined. When
the launcher asks for code for what it found, it gets this code, or an error that names the argument that does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from kiln import errors, knobs
from kiln.frontend.signature import DIVISIBILITY, Parameter, array_names
from kiln.runtime.interface import CodeRequest, answering

if TYPE_CHECKING:
    from kiln import _kiln
    from kiln._kiln import LaunchTerms


class FixedKernel:
    """The owner that a `_kiln.Launcher` asks, for one `CompiledKernel`."""

    def __init__(self, compiled: Any):
        self.compiled = compiled
        self.kernel = compiled.kernel
        self.__name__ = self.kernel.__name__
        self.params = [
            _parameter_of(written, found)
            for written, found in zip(self.kernel.params, compiled.parameters, strict=True)
        ]

    def make_launcher(self, strides: list[str], fields: list[str]) -> Any:
        """`strides` and `fields`: those of the kernel, as `find_strides` gives them."""
        from kiln import _kiln

        owner = _kiln.LaunchOwner(
            self,
            revalidate=self._revalidate,
            compile=answering(self._compile),
            forget=self._forget,
            refusals=self._make_refusals,
        )
        # Divisibility by 8 or 4 is only known of strides, including those of descriptors made from pointers.
        strides = [*strides, *(parameter.name for parameter in self.compiled.parameters if parameter.divisor > 1)]
        return _kiln.Launcher(owner, list(self.params), ["warmup"], strides, fields)

    def _revalidate(self) -> LaunchTerms:
        from kiln import _kiln
        from kiln.runtime import placement

        placement.choose_driver()
        _kiln.set_num_threads(knobs.num_threads)
        gpu = "cuda" in self.compiled.metadata
        return _kiln.LaunchTerms(
            prefix="",
            watched=[(*place, None) for place in knobs.places(*placement.SWITCHES)],
            checks_accesses=self.compiled.metadata["check"] != "none",
            cuda=gpu,
            stage=gpu and knobs.stage_arrays,
            limit=knobs.specializations,
            describes_pointers=False,
        )

    def _compile(self, request: CodeRequest) -> Any:
        compiled = self.compiled
        for parameter, given in zip(compiled.parameters, request.parameters, strict=True):
            problem = _difference(parameter, given)
            if problem is not None:
                self._refuse(parameter.name, *problem)
        if compiled.loaded is None:
            raise self._error(
                "expected code that is loaded (because it was compiled for a GPU that is not here), got"
                f" {compiled.metadata.target.name} code without a device"
            )
        if request.device != compiled.device:
            place = "the CPU" if compiled.device < 0 else f"CUDA device {compiled.device}"
            raise self._error(
                f"expected arrays on {place} (because the code is loaded there), got"
                f" {'arrays of the host' if request.device < 0 else f'arrays on CUDA device {request.device}'}"
            )
        names = array_names(compiled.parameters)
        for name, alone, is_alone in zip(names, compiled._disjoint, request.disjoint, strict=False):
            if alone and not is_alone:
                self._refuse(name, "an array that no other argument overlaps", "one that does")
        return compiled

    def _error(self, message: str, argument: str | None = None) -> errors.LaunchError:
        return errors.LaunchError(
            message,
            kernel=self.__name__,
            argument=argument,
            caller=errors.calling_expression(),
            hint=f"launch {self.__name__}[grid](...): it compiles for each kind of arguments",
        )

    def _refuse(self, name: str, expected: str, got: str) -> NoReturn:
        raise self._error(f"expected {expected} (because the code is compiled for it), got {got}", name)

    def _forget(self, compiled: Any) -> None:
        """Does nothing: this code is the only one."""

    def _make_refusals(self) -> _kiln.Refusals:
        """The kernel's, but for launch options and for parameters, whose defaults are those of the code."""
        table = self.kernel.make_refusals()
        table.binding = self._refuse_binding
        return table

    def _refuse_binding(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        from kiln.runtime.interface import LAUNCH_OPTIONS
        from kiln.runtime.refusals import Refusals

        for name in kwargs:
            if name in LAUNCH_OPTIONS and name not in self.kernel.arg_names:
                raise self._error(
                    f"expected no launch options (because the code is compiled already), got {name}={kwargs[name]!r}"
                )
        Refusals(self).binding(args, kwargs)


def _parameter_of(written: Any, found: Parameter) -> Any:
    """The parameter for launches of the code: `found` is what the code was compiled for."""
    if found.kind == "constexpr":
        return written._replace(default=found.value)
    # A property that the code does not assume must not be required of an argument.
    if found.kind == "runtime" and not found.divisible and found.divisor == 1:
        return written._replace(do_not_specialize=True)
    return written


def _difference(code: Parameter, given: Parameter) -> tuple[str, str] | None:
    """A property that the code relies on and the argument lacks, as (expected, got); None if the argument fits."""
    if code.kind == "constexpr":
        same = given.kind == "constexpr" and type(given.value) is type(code.value) and _equal(given.value, code.value)
        return None if same else (repr(code.value), _shown(given))
    if code.kind == "tuple":
        if code.cls is not None and given.cls is not code.cls:
            return f"a {code.cls.__name__}", _shown(given)
        if given.kind != "tuple" or len(given.items) != len(code.items) or given.fields != code.fields:
            return f"a tuple of {len(code.items)}", _shown(given)
        return next(filter(None, map(_difference, code.items, given.items)), None)
    if given.kind != "runtime" or given.type != code.type or given.padding != code.padding:
        return f"a value of type {code.type}", _shown(given)
    known = DIVISIBILITY if given.divisible else given.divisor
    needed = DIVISIBILITY if code.divisible else code.divisor
    if known % needed:
        return f"a multiple of {needed}", "one that is not"
    if code.whole_rows and not given.whole_rows:
        return f"rows of a multiple of {DIVISIBILITY} bytes", "others"
    return None


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b) or (a != a and b != b)
    except Exception:
        return a is b


def _shown(parameter: Parameter) -> str:
    if parameter.kind == "constexpr":
        return repr(parameter.value)
    if parameter.kind == "tuple":
        return "a tuple" if parameter.cls is None else f"a {parameter.cls.__name__}"
    return f"a value of type {parameter.type}"
