"""The properties of a compiled kernel: its metadata as attributes, its source, its use of the CPU.

The dictionary's entries are the artifact's own (ARCHITECTURE.md lists them); attributes also work under Triton's names,
which are computed from the same entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple


class Metadata(dict[str, Any]):
    """A dictionary whose entries are attributes too: `metadata.target.name`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the metadata has no entry {name!r}; there are {', '.join(sorted(self))}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})


class TargetMetadata(Metadata):
    """The row of the target table. Also: backend, arch (90 for sm_90a; a row's name on the CPU), warp_size."""

    def __getattr__(self, name: str) -> Any:
        if name == "backend":
            return self["kind"]
        if name == "arch":
            return int(re.sub(r"\D", "", self["name"])) if self["kind"] == "cuda" else self["name"]
        if name == "warp_size":
            return 32 if self["kind"] == "cuda" else 1
        return super().__getattr__(name)


class KernelMetadata(Metadata):
    """The metadata of a kernel. Triton's names for it are attributes: num_warps, num_stages, num_ctas, cluster_dims,
    shared, maxnreg, launch_pdl, enable_fp_fusion and the other launch options, warp_size, backend_name, hash.

    On the CPU an instance is one thread: num_warps is what the launch asked for, or 1, and nothing is shared.
    """

    _digest: Callable[[], str] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name == "hash" and self._digest is not None:
            return self._digest()
        if name in _TRITON:
            return _TRITON[name](self)
        options = self.get("options", {})
        if name in options:
            return options[name]
        from kiln.runtime.interface import LAUNCH_OPTIONS

        if name in LAUNCH_OPTIONS and name != "warmup":
            return None
        known = sorted({*self, *_TRITON, *options})
        raise AttributeError(f"the metadata has no entry {name!r}; there are {', '.join(known)}")

    def __reduce__(self) -> Any:
        return KernelMetadata, (dict(self),)


def _cuda(metadata: KernelMetadata, name: str, otherwise: Any) -> Any:
    return metadata["cuda"][name] if "cuda" in metadata else otherwise


def _cluster(metadata: KernelMetadata) -> int:
    return _cuda(metadata, "cluster", 1)


_TRITON: dict[str, Callable[[KernelMetadata], Any]] = {
    "num_warps": lambda m: _cuda(m, "num_warps", m["options"].get("num_warps", 1)),
    "num_ctas": _cluster,
    "cluster": _cluster,
    "cluster_dims": lambda m: (_cluster(m), 1, 1),
    "shared": lambda m: _cuda(m, "shared_bytes", 0),
    "maxnreg": lambda m: _cuda(m, "max_registers", 0) or None,
    "pdl": lambda m: _cuda(m, "pdl", False),
    "launch_pdl": lambda m: _cuda(m, "pdl", False),
    "warp_size": lambda m: m["target"].warp_size,
    "backend_name": lambda m: m["target"].backend,
    "global_scratch_size": lambda m: m["workspace_bytes"],
}


def read(text: str, digest: Callable[[], str]) -> KernelMetadata:
    """An artifact's metadata; `digest` computes its hash on demand."""
    found = KernelMetadata({name: _deep(value) for name, value in json.loads(text).items()})
    found["target"] = TargetMetadata(found["target"])
    found._digest = digest
    return found


def _deep(value: Any) -> Any:
    if isinstance(value, dict):
        return Metadata({name: _deep(item) for name, item in value.items()})
    return [_deep(item) for item in value] if isinstance(value, list) else value


class KernelSource(NamedTuple):
    """What a compiled kernel was made from: the jit function, the types of its arguments and the constants."""

    fn: Any
    name: str
    signature: dict[str, str]
    """By parameter: `*fp32`, `i32`, `tensordesc<fp16[64,64]>`, `constexpr`; for a tuple, those of its items."""
    constants: dict[str, Any]
    """By parameter, the values that are known at compile time."""
    attrs: dict[str, int]
    """By parameter, a number that its value is known to be a multiple of."""

    @property
    def text(self) -> str:
        """The text of the function."""
        return self.fn.source.text


def describe_source(kernel: Any, parameters: tuple[Any, ...]) -> KernelSource:
    from kiln.frontend.signature import DIVISIBILITY

    constants = {p.name: p.value for p in parameters if p.kind == "constexpr"}
    divisors = {p.name: DIVISIBILITY if p.divisible else p.divisor for p in parameters}
    return KernelSource(
        kernel,
        kernel.__name__,
        {p.name: _type(p) for p in parameters},
        constants,
        {name: divisor for name, divisor in divisors.items() if divisor > 1},
    )


def _type(parameter: Any) -> str:
    if parameter.kind == "tuple":
        name = parameter.cls.__name__ if parameter.cls is not None else ""
        return f"{name}({', '.join(_type(item) for item in parameter.items)})"
    return "constexpr" if parameter.kind == "constexpr" else parameter.type


class CpuUsage(NamedTuple):
    """How much of an x86-64 CPU the machine code uses, read from its assembly."""

    vector_registers: int
    """The number of vector registers it names."""
    stack_bytes: int
    """Bytes that a thread keeps on the stack, without saved registers and return addresses."""


_VECTOR = re.compile(r"%[xyz]mm(\d+)")
_FRAME = re.compile(r"\bsub[lq]\s+\$(\d+), %rsp")
_BELOW = re.compile(r"(?<![\w)])-(\d+)\(%rsp")


def cpu_usage(assembly: str) -> CpuUsage:
    """Reads the text of the stage `asm`. A leaf function may use the stack without reserving it (the red zone)."""
    code = "\n".join(line for line in assembly.splitlines() if not line.lstrip().startswith("#"))
    reserved = sum(int(size) for size in _FRAME.findall(code))
    below = max((int(size) for size in _BELOW.findall(code)), default=0)
    return CpuUsage(len(set(_VECTOR.findall(code))), reserved + below)
