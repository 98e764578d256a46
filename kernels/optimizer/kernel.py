"""AdamW: one pass over parameter, gradient and moments, all in place; one launch for lists of tensors.

The step count may live in memory, so that a captured graph or a cached kernel need not change with it; the caller
increments it, once for all tensors. Bias corrections are 1 - exp(t · log(beta)), which cancels for small t; a series
replaces it there, so that no digit of float32 is lost.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import flat
from kiln.kernels.flat import FlatPlan
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import (
    FLOATS,
    Types,
    check_contiguous,
    check_value,
    check_written,
    is_integer,
    is_number,
    operator,
)
from kiln.kernels.optimizer.lists import CHUNK_WORDS as WORDS
from kiln.kernels.optimizer.lists import ROLES, TensorLists, bytes_read, check_all_apart, place_of
from kiln.kernels.views import promise

CHUNK_WORDS: kl.constexpr = kl.constexpr(WORDS)


@kiln.jit
def _correction(time, LOG_HIGH: kl.constexpr, LOG_LOW: kl.constexpr):
    """1 / (1 - beta^time), where log(beta) is LOG_HIGH + LOG_LOW."""
    w = kl.fma(time, LOG_HIGH, time * LOG_LOW)
    # 1 - exp(w) = -w · (1 + w/2! + w²/3! + …); the first term left out is below 2^-26 for w > -1/2.
    series = 1.0 + w * (1 / 2 + w * (1 / 6 + w * (1 / 24 + w * (1 / 120 + w * (1 / 720 + w * (1 / 5040 + w / 40320))))))
    return 1.0 / kl.where(w > -0.5, -w * series, 1.0 - kl.exp(w))


@kiln.struct
class State:
    """What a step reads and writes, array by array: pointers, or tiles of them. A master may be None."""

    parameter: Any
    gradient: Any
    moment: Any
    square: Any
    master: Any

    @kiln.jit
    def at(self, place):
        """Pointers to the elements at a place."""
        arrays = self.parameter + place, self.gradient + place, self.moment + place, self.square + place
        return State(*arrays, None if self.master is None else self.master + place)


@kiln.struct
class Rule:
    """The hyperparameters of AdamW. LOGS: log(beta) of both betas, each as a float32 and its remainder."""

    BETA1: kl.constexpr
    BETA2: kl.constexpr
    LOGS: kl.constexpr
    EPS: kl.constexpr
    DECAY: kl.constexpr
    STEP_IN_MEMORY: kl.constexpr
    RATE_IN_MEMORY: kl.constexpr

    @kiln.jit
    def time(self, step):
        return _scalar(step, self.STEP_IN_MEMORY)

    @kiln.jit
    def rate(self, rate):
        return _scalar(rate, self.RATE_IN_MEMORY)

    @kiln.jit
    def corrections(self, time):
        """c₁ = 1 / (1 - β₁^t) and c₂ = 1 / (1 - β₂^t)"""
        return _correction(time, self.LOGS[0], self.LOGS[1]), _correction(time, self.LOGS[2], self.LOGS[3])

    @kiln.jit
    def update(self, at, mask, rate, corrections):
        """m = β₁ m + (1 - β₁) g;  v = β₂ v + (1 - β₂) g²;  p = p - η λ p - η (m c₁) / (√(v c₂) + ε)"""
        # All loads come before the first use, so that a thread waits once.
        old = kl.load(at.parameter if at.master is None else at.master, mask=mask)
        slope = kl.load(at.gradient, mask=mask)
        first = kl.load(at.moment, mask=mask)
        second = kl.load(at.square, mask=mask)
        slope = slope.to(kl.float32)
        first = self.BETA1 * first.to(kl.float32) + (1.0 - self.BETA1) * slope
        second = self.BETA2 * second.to(kl.float32) + (1.0 - self.BETA2) * slope * slope
        value = old.to(kl.float32)
        value -= rate * self.DECAY * value
        value -= rate * (first * corrections[0]) / (kl.sqrt(second * corrections[1]) + self.EPS)
        kl.store(at.moment, first.to(at.moment.dtype.element_ty), mask=mask)
        kl.store(at.square, second.to(at.square.dtype.element_ty), mask=mask)
        kl.store(at.parameter, value.to(at.parameter.dtype.element_ty), mask=mask)
        if at.master is not None:
            kl.store(at.master, value, mask=mask)


@kiln.jit
def _scalar(value, IN_MEMORY: kl.constexpr):
    """A float32: the argument itself, or the element that it points to."""
    if IN_MEMORY:
        return kl.load(value).to(kl.float32)
    return (value + 0).to(kl.float32)


@kiln.jit
def adamw_kernel(arrays: State, step, rate, n, RULE: kl.constexpr, PLAN: kl.constexpr):
    """One step of AdamW for the elements of one tensor (`Rule.update`)."""
    time = RULE.time(step)
    at = PLAN.columns()
    RULE.update(arrays.at(at), at < n, RULE.rate(rate), RULE.corrections(time))


@kiln.jit
def _pointers(address, DTYPE: kl.constexpr, WHOLE: kl.constexpr, BLOCK: kl.constexpr):
    """Pointers to the elements of a chunk. WHOLE chunks begin at multiples of 16 bytes."""
    if WHOLE:
        address = kl.multiple_of(address, 16)
    return address.to(kl.pointer_type(DTYPE)) + kl.arange(0, BLOCK)


@kiln.jit
def adamw_lists_kernel(table, step, rate, KINDS: kl.constexpr, RULE: kl.constexpr, PLAN: kl.constexpr):
    """One step of AdamW for one chunk of one tensor of a list (`lists.py` describes the table)."""
    entry = table + kl.program_id(0) * CHUNK_WORDS
    parameter, gradient, moment, square = kl.load(entry), kl.load(entry + 1), kl.load(entry + 2), kl.load(entry + 3)
    master, count, kind = kl.load(entry + 4), kl.load(entry + 5).to(kl.int32), kl.load(entry + 6).to(kl.int32)
    time, learning = RULE.time(step), RULE.rate(rate)
    corrections = RULE.corrections(time)
    for i in kl.static_range(len(KINDS)):
        # KINDS[i]: types of parameter, gradient, moment, square; whether there is a master; whether chunks are whole.
        if len(KINDS) == 1 or kind == i:
            whole: kl.constexpr = KINDS[i][5]
            promise(whole, 0, PLAN.BLOCK, count)
            there = kl.arange(0, PLAN.BLOCK) < count
            copy = _pointers(master, kl.float32, whole, PLAN.BLOCK) if KINDS[i][4] else None
            at = State(
                _pointers(parameter, KINDS[i][0], whole, PLAN.BLOCK),
                _pointers(gradient, KINDS[i][1], whole, PLAN.BLOCK),
                _pointers(moment, KINDS[i][2], whole, PLAN.BLOCK),
                _pointers(square, KINDS[i][3], whole, PLAN.BLOCK),
                copy,
            )
            RULE.update(at, there, learning, corrections)


def _split(value: float) -> tuple[float, float]:
    """A number as a float32 and its remainder."""
    import struct

    (high,) = struct.unpack("f", struct.pack("f", value))
    return high, value - high


def _is_element(value: Any, types: tuple[str, ...]) -> bool:
    """Whether it is an array of one element whose type name begins with one of ``types``."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return shape is not None and math.prod(shape) == 1 and str(dtype).rpartition(".")[2].startswith(types)


def _shown(value: Any) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if not shape or dtype is None:
        return repr(value)
    return f"an array of shape {tuple(shape)} and type {str(dtype).rpartition('.')[2]}"


def _step(step: Any) -> Any:
    """The step count as an int, or the array that holds it."""
    if is_integer(step):
        if step < 1:
            raise ArgumentError("step", f"expected a count from 1 (because of the bias correction), got {step}")
        return int(step)
    # A numpy number that is not an integer has a shape and a dtype as well.
    if isinstance(step, numbers.Number) or not _is_element(step, ("int", "uint")):
        raise ArgumentError(
            "step",
            f"expected an integer, or an integer array of one element (because it counts steps for the bias "
            f"correction), got {_shown(step)}",
        )
    return step


def _rate(rate: Any) -> Any:
    """The learning rate as a number, or the array that holds it."""
    if is_number(rate):
        return rate if isinstance(rate, int) else float(rate)
    if not _is_element(rate, ("float", "bfloat")):
        raise ArgumentError(
            "lr",
            f"expected a number, or a float array of one element (because all tensors share it), got {_shown(rate)}",
        )
    return rate


def _rule(step: Any, rate: Any, betas: tuple[float, float], eps: float, decay: float) -> Rule:
    pair = isinstance(betas, (tuple, list)) and len(betas) == 2 and all(map(is_number, betas))
    check_value("betas", betas, "two numbers (because there are two moments)", pair)
    for index, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ArgumentError(f"betas[{index}]", f"expected a number in [0, 1), got {beta}")
    logs = [_split(math.log(beta) if beta else -1e6) for beta in betas]
    in_memory = not isinstance(step, int), not isinstance(rate, (int, float))
    return Rule(betas[0], betas[1], (*logs[0], *logs[1]), eps, decay, *in_memory)


@operator(
    outputs=lambda *_, **__: (),
    mutates=("parameter", "moment", "square", "master"),
    arrays=dict.fromkeys(ROLES, "(…)"),
    types=(
        Types(parameter=FLOATS, gradient=FLOATS, moment=FLOATS, square=FLOATS, master=("float32",), inside="float32"),
    ),
    lists=True,
)
def adamw(
    parameter: Any,
    gradient: Any,
    moment: Any,
    square: Any,
    step: Any,
    *,
    lr: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    master: Any = None,
    plan: FlatPlan | None = None,
) -> None:
    """One AdamW step, in place, for contiguous arrays of the same shape and any mix of float types.

    Each of parameter, gradient, moment, square (and master) may be a list of arrays: one launch updates them all,
    whatever their shapes and types. ``step`` counts from 1: an int, or an integer array of one element that the caller
    increments. ``lr`` is a number or a float32 array of one element. ``master`` is an optional float32 copy of the
    parameter: the step updates the master and rounds it to the parameter (in a list, None for tensors without one).
    Arithmetic is float32; each array is rounded once, to its own type.
    """
    if isinstance(parameter, (list, tuple)):
        lists = TensorLists.of(parameter, gradient, moment, square, master, plan=plan)
        adamw_lists(lists, step, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        return
    step, lr = _step(step), _rate(lr)
    given = zip(ROLES, (parameter, gradient, moment, square, master), strict=True)
    arrays = {name: array for name, array in given if array is not None}
    check_contiguous(**arrays)
    for name, array in arrays.items():
        if name != "gradient":
            check_written(name, array, parameter.shape, "the parameter has it")
        elif tuple(array.shape) != tuple(parameter.shape):
            raise ArgumentError(
                name, f"expected shape {tuple(parameter.shape)} (the parameter's), got {tuple(array.shape)}"
            )
    rule = _rule(step, lr, betas, eps, weight_decay)
    check_all_apart((name, name, array) for name, array in arrays.items())
    n = math.prod(parameter.shape)
    machine = machine_of(parameter)
    plan = plan or flat.plan(
        n,
        max(parameter.itemsize, moment.itemsize, 2),
        machine,
        accesses=2,
        many_arrays=True,
        read_bytes=n * bytes_read(parameter, gradient, moment, square, master),
    )
    adamw_kernel[(kiln.cdiv(n, plan.block),)](
        State(parameter, gradient, moment, square, master),
        step,
        lr,
        n,
        RULE=rule,
        PLAN=plan.form(n),
        **plan.options(machine),
    )


@operator(outputs=lambda *_, **__: (), mutates=("lists",))
def adamw_lists(
    lists: TensorLists,
    step: Any,
    *,
    lr: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> None:
    """``adamw`` for lists prepared once: ``TensorLists(parameters, gradients, moments, squares, masters)``.

    A call looks only at the table of addresses that ``lists`` holds, so it costs one launch however many tensors there
    are. The arrays must stay where they are: write gradients in place.

    Shapes and types; others are refused::

        lists              TensorLists
        step               an integer, at least 1, or an array of one element: of an integer type
        lr                 a number, or an array of one element: of a float type
        betas              two numbers in [0, 1)
        eps, weight_decay  a number

        inside             float32
    """
    check_value("lists", lists, "TensorLists (because adamw takes lists as they are)", isinstance(lists, TensorLists))
    step, lr = _step(step), _rate(lr)
    for name, value in (("step", step), ("lr", lr)):
        if lists.place and not isinstance(value, (int, float)) and place_of(value) != lists.place:
            raise ArgumentError(
                name,
                f"expected a number or an array on {lists.place} (because the tensors are there), got one on "
                f"{place_of(value)}",
            )
    rule = _rule(step, lr, betas, eps, weight_decay)
    if lists.table is None:
        # Host arrays for a GPU: each launch copies its own arguments there and back.
        for arrays in lists.arrays:
            adamw(*arrays[:4], step, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, master=arrays[4])
        return
    adamw_lists_kernel[(lists.chunks,)](
        lists.table,
        step,
        lr,
        KINDS=lists.kinds,
        RULE=rule,
        PLAN=lists.plan.form(0),
        **lists.plan.options(lists.machine),
    )
