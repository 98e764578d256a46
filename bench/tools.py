"""Tools that families build their peers with: imports that may be missing, torch, torch.compile, Kiln's launch
options."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from cases import Peer, Unavailable


class Tools:
    """One per row: `compile` must not give a row what was compiled for another."""

    def __init__(self, device: Any):
        self.device = device
        self.torch = device.torch
        self.coordinate_descent = True  # Inductor also tries neighbours of its best configuration

    def module(self, name: str) -> Any:
        """Imports a module, or raises because the peer is not available."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise Unavailable(f"{name}: {error}") from error

    def kiln(self, function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
        """A library function whose launches all get these options."""
        if not options:
            return function
        if self.device.name == "cpu":
            raise Unavailable("launch options are for GPUs")
        from kiln.kernels.machine import launch_options

        def launch(*args: Any, **kwargs: Any) -> Any:
            with launch_options(**options):
                return function(*args, **kwargs)

        return launch

    def eager(self, function: Callable[..., tuple[Any, ...]]) -> Peer:
        """A function of arrays named as the family names them."""
        names = list(inspect.signature(function).parameters)
        return Peer(lambda a, _: function(*[a[name] for name in names]), takes_outputs=False)

    def inductor(self, function: Callable[..., tuple[Any, ...]]) -> Peer:
        return self.eager_as(self.compile(function), function)

    def eager_as(self, compiled: Callable[..., tuple[Any, ...]], function: Callable[..., Any]) -> Peer:
        """`eager(compiled)`, whose signature a compiled function hides."""
        names = list(inspect.signature(function).parameters)
        return Peer(lambda a, _: compiled(*[a[name] for name in names]), takes_outputs=False)

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """torch.compile, max-autotune, static shapes; its own graphs off, because ours captures its launches."""
        if self.device.name == "cpu":
            raise Unavailable("torch.compile is measured on GPUs")
        self.torch._dynamo.reset()  # without this, a third shape in a row would be compiled for dynamic shapes
        # What the mode max-autotune-no-cudagraphs sets.
        options = {"max_autotune": True, "coordinate_descent_tuning": self.coordinate_descent}
        return self.torch.compile(function, options=options, dynamic=False, fullgraph=True)
