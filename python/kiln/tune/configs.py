"""`kiln.Config`: one configuration of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kiln._kiln import TunedAnswer

Hook = Callable[..., Any]


class _Launch(NamedTuple):
    """What a launch with a configuration is given, as long as its meta-parameters are those."""

    kwargs: dict[str, Any]
    arguments: dict[str, Any]


class Config:
    """One configuration: meta-parameters of the kernel and launch options.

    kwargs        the meta-parameters by name; launch options may be among them
    num_warps …   launch options, passed on with each launch
    pre_hook      called with the arguments by name before each launch of this configuration
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int = 4,
        num_stages: int = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Hook | None = None,
        ir_override: str | None = None,
        *,
        schedule: str | None = None,
        stages: int | None = None,
        consumers: int | None = None,
        cluster: int | None = None,
    ):
        self.kwargs = dict(kwargs)
        self.num_warps, self.num_stages, self.num_ctas = num_warps, num_stages, num_ctas
        self.maxnreg, self.pre_hook, self.ir_override = maxnreg, pre_hook, ir_override
        self.schedule, self.stages, self.consumers, self.cluster = schedule, stages, consumers, cluster
        self._launch: _Launch | None = None
        # Launch options among the meta-parameters mean the same as those given by name.
        for name in self.kwargs.keys() & self.options().keys():
            setattr(self, name, self.kwargs.pop(name))

    def options(self) -> dict[str, Any]:
        """The launch options that are set."""
        found = {
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "num_ctas": self.num_ctas if self.cluster is None else None,
            "maxnreg": self.maxnreg,
            "schedule": self.schedule,
            "stages": self.stages,
            "consumers": self.consumers,
            "cluster": self.cluster,
            "ir_override": self.ir_override,
        }
        return {name: value for name, value in found.items() if value is not None}

    def all_kwargs(self) -> dict[str, Any]:
        """The arguments that a launch with this configuration gets besides the user's."""
        return {**self.kwargs, **self.options()}

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        object.__setattr__(self, "_launch", value if name == "_launch" else None)

    def _current(self) -> _Launch:
        made = self._launch
        if made is None or made.kwargs != self.kwargs:
            made = self._launch = _Launch(dict(self.kwargs), self.all_kwargs())
        return made

    def launch_kwargs(self) -> dict[str, Any]:
        """`all_kwargs()`, cached until something changes, for the launch path. Must not be modified."""
        return self._current().arguments

    def as_answer(self) -> TunedAnswer:
        """The same for the native launcher, which keeps it until something changes."""
        from kiln import _kiln

        made = self._current()
        return _kiln.TunedAnswer(
            config=self, launch=made, kwargs=self.kwargs, copied=made.kwargs, arguments=made.arguments
        )

    def _identity(self) -> tuple[Any, ...]:
        return (*sorted(self.all_kwargs().items(), key=lambda item: item[0]), self.pre_hook)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        parts = [repr(self.kwargs), *(f"{name}={value!r}" for name, value in self.options().items())]
        return f"Config({', '.join(parts)})"

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())
