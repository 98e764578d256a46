"""The cells of the sweep, and how one is measured."""

from __future__ import annotations

import functools
import itertools
import math
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import measure
from cases import Case, Peer, Unavailable, family, with_variants
from device import Slices, Standing
from runner import Runner, Settings, Wrong
from tools import Tools

KERNELS = {"rms_norm": "norm", "residual_rms_norm": "norm", "layer_norm": "norm", "softmax": "softmax",
           "swiglu": "activation", "bias_gelu": "activation"}  # fmt: skip
ROWS = (1, 44, 130, 777, 4096)
WIDTHS = (512, 896, 1024, 1536, 2048, 3072, 3584, 4096, 5120, 6144, 6656, 7168, 8192, 11008, 13824, 14336, 16384, 18944,
          24576, 32768)  # fmt: skip
TYPES = {"float16": "f16", "bfloat16": "bf16"}

LEAST, MEAN = 0.95, 1.15
# A launch that is this much slower with dependent launch should not begin early.
DEPENDENT_LOSS = 1.02
VARIANTS = ("kiln", "kiln+pdl")
# A ratio this close to the requirement is measured in more rounds.
NEAR, MORE = 0.03, 2
# Most launches in a graph: capturing more of the shortest ones takes longer than it is worth.
MOST_LAUNCHES = 250

Cell = tuple[str, int, int, str]
# The result of compiling a peer ahead (ahead.py).
Answer = dict[str, Any]


# ---- which there are -------------------------------------------------------------------------------------------------
def case_of(kernel: str, rows: int, width: int, dtype: str) -> Case:
    module = family(KERNELS[kernel])
    found: Case = module.cell(kernel, (rows, width), dtype, size=f"{rows}×{width} {TYPES[dtype]}")
    return found


def cell_of(case: Case) -> Cell:
    return case.kernel, case.shape[0], case.shape[1], case.dtype


def spread(cells: Sequence[Case]) -> list[Case]:
    """The cells in an order of which every prefix is spread over all of them: steps of the golden ratio."""
    count = len(cells)
    step = max(1, round(count * 0.618))
    while math.gcd(step, count) > 1:
        step += 1
    return [cells[i * step % count] for i in range(count)]


def cells(kernels: Iterable[str] = tuple(KERNELS), rows: Iterable[int] = ROWS, widths: Iterable[int] = WIDTHS,
          types: Iterable[str] = tuple(TYPES)) -> list[Case]:  # fmt: skip
    return spread([case_of(*cell) for cell in itertools.product(kernels, rows, widths, types)])


def named(name: str) -> Case:
    """The cell of this name, of any size: "rms_norm 44×5120 bf16"."""
    kernel, size, short = name.split()
    rows, width = map(int, size.split("×"))
    return case_of(kernel, rows, width, next(dtype for dtype, text in TYPES.items() if text == short))


def asked_of(case: Case, peers: Sequence[str]) -> set[str]:
    """The peers that a cell can have: quack has no activations."""
    without = {"kiln-lists"} | ({"quack"} if case.family == "activation" else set())
    return with_variants(peers) - without


# ---- the plan of a cell ----------------------------------------------------------------------------------------------
class _Blank:
    """Makes inputs that only have a shape. Plans follow from the size of an element, the same for all of ``TYPES``."""

    def normal(self, *shape: int) -> Any:
        from kiln.kernels.case import blank

        return blank((1, *shape), "float16")


# L2 bytes of GPUs whose plans can be told without the device, by the name in the file.
L2_BYTES = {"NVIDIA H200": 60 << 20, "NVIDIA H100 80GB HBM3": 50 << 20}


@functools.cache
def machine_named(gpu: str) -> Any:
    """What launch policies know of the GPU of that name; None if it is neither here nor in the table."""
    import kiln.cuda
    from kiln.kernels.machine import of_target

    if kiln.cuda.is_available() and kiln.cuda.get_device_properties(0).name == gpu:
        return of_target("cuda")
    return of_target("sm_90a", l2_bytes=L2_BYTES[gpu]) if gpu in L2_BYTES else None


def plan_of(case: Case, provider: str, gpu: str) -> str:
    """What the library launches for a cell on that GPU: kernel, grid, plan and options; "" if that cannot be told.

    Defaults are left out, so that a field added to a plan later does not change the text of plans without it.
    """
    return _plan(case.kernel, case.shape, provider, gpu) if provider in VARIANTS else ""


@functools.cache
def _plan(kernel: str, shape: tuple[int, ...], provider: str, gpu: str) -> str:
    if (machine := machine_named(gpu)) is None:
        return ""
    from kiln.kernels.case import blank
    from kiln.kernels.launches import launches_of

    module, case = family(KERNELS[kernel]), case_of(kernel, *shape, "float16")
    arrays = {name: array[0] for name, array in module.inputs(case, _Blank()).items()}
    outs = tuple(blank(where, dtype) for where, dtype in module.outputs(case))
    peer = module.peers(case, Tools(types.SimpleNamespace(name="none", torch=None)))[provider]()
    return "; ".join(map(_told, launches_of(lambda: peer.launch(arrays, outs), machine)))


def _told(launch: Any) -> str:
    (plan,) = (parameter for parameter in launch.parameters if parameter.name == "PLAN")
    found = {item.name.partition(".")[2]: item.value for item in plan.items}
    usual = plan.cls._field_defaults
    grid = {"grid": "x".join(map(str, launch.grid))}
    parts = [f"{name}={value}" for name, value in {**grid, **found, **launch.options}.items()
             if name not in usual or value != usual[name]]  # fmt: skip
    return " ".join([launch.kernel.__name__, *(part.removesuffix("=True") for part in parts)])


# ---- a cell ----------------------------------------------------------------------------------------------------------
def settings(peers: Sequence[str], rounds: int = 4) -> Settings:
    return Settings(tuple(peers), rounds, warm=False)


class CellRunner(Runner):
    """A cell while it is measured: inputs are slices of standing arrays, and Inductor's code comes from ``answers``.

    Torch only provides the error bound. A cell whose verdict is close gets more rounds.
    """

    def __init__(self, case: Case, device: Any, settings: Settings, say: Callable[[str], None], standing: Standing,
                 answers: dict[str, Answer], sets: int | None = None):  # fmt: skip
        self.standing, self.answers, self._sets = standing, answers, sets
        super().__init__(case, device, settings, say)

    def make_plan(self) -> measure.Plan:
        launch_us = 1.5 + self.case.traffic / 4.0e6
        wanted = min(MOST_LAUNCHES, max(6, math.ceil(self.device.graph_us / launch_us)))
        sets = self._sets or min(wanted, max(2, math.ceil(3 * self.device.l2_bytes / self.case.footprint)))
        return measure.Plan(sets, -(-wanted // sets) * sets, 1, 1, self.settings.rounds)

    def maker(self) -> Slices:
        return self.standing.slices(self.plan.sets, self.case.dtype)

    def poisoned(self, found: dict[int, Any]) -> list[int]:
        return [self.plan.sets - 1, (self.plan.sets - 1) // 2]

    def makers(self) -> dict[str, Callable[[], Peer]]:
        found: dict[str, Callable[[], Peer]] = self.family.peers(self.case, self.tools)
        return found

    def wanted(self) -> dict[str, Callable[[], Peer]]:
        makers = self.makers()
        asked = asked_of(self.case, self.settings.peers)
        return {name: lambda name=name: self._ready(name, makers[name])  # type: ignore[misc]
                for name in makers if name in asked}  # fmt: skip

    def _ready(self, name: str, make: Callable[[], Peer]) -> Peer:
        """A peer, with what was compiled ahead."""
        answer = self.answers.get(name, {"status": "ok"})
        if answer["status"] == "unavailable":
            raise Unavailable(answer["note"])
        if answer["status"] != "ok":
            raise RuntimeError(answer["note"])
        return module_peer(answer) if "path" in answer else make()

    def run(self) -> dict[str, Any]:
        found = self.build("torch", self.makers()["torch"], timed=False)
        if found["status"] != "ok":
            raise Wrong(f"torch: {found['note']}")
        return super().run()

    def race(self, ready: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
        times = super().race(ready)
        if is_near({name: measure.summarize(found).median for name, found in times.items()}):
            for _ in range(MORE):
                for name, found in super().race(ready).items():
                    times[name] += found
        return times


def is_near(us: dict[str, float]) -> bool:
    """Whether a verdict on these times is close: a peer near the required ratio, or a near tie with dependent
    launch."""
    over = [us[peer] / us[ours] / LEAST for ours in VARIANTS for peer in us if ours in us and peer not in VARIANTS]
    if all(name in us for name in VARIANTS):
        over.append(us["kiln"] / us["kiln+pdl"] * DEPENDENT_LOSS)
    return any(abs(ratio - 1) <= NEAR for ratio in over)


def module_peer(answer: Answer) -> Peer:
    """Inductor's module as a peer."""
    from torch._inductor.codecache import PyCodeCache

    call: Callable[[list[Any]], Any] = PyCodeCache.load_by_key_path(answer["key"], answer["path"]).call
    names = answer["arguments"]
    return Peer(lambda a, _: tuple(call([a[name] for name in names])), takes_outputs=False, note=answer["note"])
