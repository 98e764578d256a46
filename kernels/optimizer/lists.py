"""Lists of tensors as one launch sees them: a table in device memory with one row for each chunk of each tensor.

A row is one cache line of eight int64: the addresses of the chunk in parameter, gradient, moment, square and master (0
if there is none), its number of elements, its kind, and a spare word. A kind is a combination of types, together with
whether the chunk is whole: full and aligned to 16 bytes, so that a program reads it with wide accesses and no mask.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels import flat
from kiln.kernels.flat import FlatPlan
from kiln.kernels.machine import Machine, is_planning, machine_of
from kiln.kernels.operator import (
    address,
    check_value,
    is_array,
    is_contiguous,
    is_torch,
    listed,
    on_device,
    place_of,
    refuse_gradient,
    show,
    strides,
    type_name,
    upload,
)

CHUNK_WORDS = 8
ROLES = ("parameter", "gradient", "moment", "square", "master")
TYPES = {"float32": kl.float32, "float16": kl.float16, "bfloat16": kl.bfloat16}
# Elements that a program updates on the CPU: seven arrays of this length fit the first-level cache.
CPU_BLOCK = 2048
# Tables kept by `TensorLists.of`, most recent last.
CACHED = 16


def bytes_read(parameter: Any, gradient: Any, moment: Any, square: Any, master: Any) -> int:
    """Bytes that a step reads per element: the master replaces its parameter."""
    return sum(x.itemsize for x in (parameter if master is None else master, gradient, moment, square))


class TensorLists:
    """Parameters, gradients, moments, squares and masters of the same lengths, prepared for ``adamw_lists``.

    table    the rows, on the tensors' device (None if the arrays are on the host and the target is a GPU)
    place    where all the arrays are: "cpu", "cuda:0", … ("" if there are none)
    kinds    the meaning of each "kind": four types, whether there is a master, whether the chunk is whole
    arrays   the arrays themselves, kept alive

    Shapes and types of the lists' arrays; others are refused::

        parameters[i], gradients[i], moments[i], squares[i]  (…), contiguous: float16, bfloat16, float32
        masters[i]                                           as parameters[i], or None: float32

        inside                                               float32
        result                                               none: adamw_lists changes all but the gradients
    """

    def __init__(
        self,
        parameters: Sequence[Any],
        gradients: Sequence[Any],
        moments: Sequence[Any],
        squares: Sequence[Any],
        masters: Sequence[Any] | None = None,
        *,
        plan: FlatPlan | None = None,
    ):
        check_value("parameter", parameters, "a list of arrays", isinstance(parameters, (list, tuple)))
        lists = {"gradient": gradients, "moment": moments, "square": squares}
        lists["master"] = [None] * len(parameters) if masters is None else masters
        for role, items in lists.items():
            if not isinstance(items, (list, tuple)) or len(items) != len(parameters):
                got = len(items) if isinstance(items, (list, tuple)) else type(items).__name__
                raise ArgumentError(role, f"expected a list of {len(parameters)} (one for each parameter), got {got}")
        self.arrays = [tuple(arrays) for arrays in zip(parameters, *lists.values(), strict=True)]
        self.place = place_of(parameters[0]) if parameters and parameters[0] is not None else ""
        for index, arrays in enumerate(self.arrays):
            _check(index, arrays, parameters[0], self.place)
        check_all_apart(
            (f"{role}[{index}]", role, array)
            for index, arrays in enumerate(self.arrays)
            for role, array in zip(ROLES, arrays, strict=True)
        )
        self.machine: Machine = machine_of(parameters[0]) if parameters else Machine()
        widest = max((x.itemsize for arrays in self.arrays for x in arrays if x is not None), default=4)
        lengths = [math.prod(arrays[0].shape) for arrays in self.arrays]
        reads = sum(n * bytes_read(*arrays) for n, arrays in zip(lengths, self.arrays, strict=True))
        self.plan: FlatPlan = plan or flat.plan(
            sum(lengths),
            max(widest, 2),
            self.machine,
            accesses=2,
            cpu_block=CPU_BLOCK,
            many_arrays=True,
            read_bytes=reads,
        )
        self.kinds: tuple[tuple[Any, ...], ...] = ()
        self.chunks = 0
        self.table: Any = None
        self._build()

    @classmethod
    def of(cls, *lists: Any, plan: FlatPlan | None = None) -> TensorLists:
        """The lists of a call; reuses the table of an earlier call with the same addresses, shapes and types.

        A table depends on nothing else, so it is valid for any arrays at those addresses; cached tables keep no array
        alive. The last few are kept, and all that a graph was captured with.
        """
        flat_lists = [x for items in lists if isinstance(items, (list, tuple)) for x in items]
        key = tuple(
            None if x is None else (address(x), tuple(x.shape), strides(x), str(x.dtype), is_torch(x) and str(x.device))
            for x in flat_lists
        )
        key = (tuple(isinstance(items, (list, tuple)) and len(items) for items in lists), machine_key(lists), plan, key)
        found = _cache.pop(key, None)
        if found is None:
            found = cls(*lists, plan=plan)
            if found.table is None:
                return found
            found.arrays = []
        _cache[key] = found
        if _is_captured(lists[0]):
            # A graph holds the table's address for as long as it may be replayed.
            _captured.append(found)
        while len(_cache) > CACHED:
            _cache.popitem(last=False)
        return found

    def _build(self) -> None:
        import numpy as np

        if not self.arrays:
            self.table = np.zeros((0, CHUNK_WORDS), np.int64)
            return
        if self.machine.gpu and not (is_planning() or on_device(self.arrays[0][0])):
            return
        block = self.plan.block
        kinds: dict[tuple[Any, ...], int] = {}
        parts = []
        for arrays in self.arrays:
            n = math.prod(arrays[0].shape)
            chunks = -(-n // block)
            rows = np.zeros((chunks, CHUNK_WORDS), np.int64)
            first = np.arange(chunks, dtype=np.int64) * block
            for word, array in enumerate(arrays):
                if array is not None:
                    rows[:, word] = address(array) + first * array.itemsize
            rows[:, 5] = np.minimum(n - first, block)
            types = (*(TYPES[type_name(x.dtype)] for x in arrays[:4]), arrays[4] is not None)
            aligned = all(address(x) % 16 == 0 for x in arrays if x is not None)
            whole = (rows[:, 5] == block) & aligned
            for value in np.unique(whole):
                rows[whole == value, 6] = kinds.setdefault((*types, bool(value)), len(kinds))
            parts.append(rows)
        table = np.concatenate(parts)
        self.kinds, self.chunks = tuple(kinds), len(table)
        self.table = upload(table, self.arrays[0][0])


_cache: OrderedDict[Any, TensorLists] = OrderedDict()
_captured: list[TensorLists] = []


def machine_key(lists: Sequence[Any]) -> Any:
    """The machine that a launch with these lists runs on."""
    first = lists[0]
    return machine_of(first[0]) if first else None


def _is_captured(arrays: Sequence[Any]) -> bool:
    if not arrays or not is_torch(arrays[0]) or not on_device(arrays[0]):
        return False
    import torch

    return bool(torch.cuda.is_current_stream_capturing())


def _check(index: int, arrays: tuple[Any, ...], first: Any, place: str) -> None:
    parameter = arrays[0]
    for role, array in zip(ROLES, arrays, strict=True):
        name = f"{role}[{index}]"
        if array is None:
            if role != "master":
                raise ArgumentError(name, "expected an array, got None")
            continue
        if not is_array(array):
            raise ArgumentError(name, f"expected an array (of numpy, torch or DeviceArray), got {show(array)}")
        if is_torch(array) and array.requires_grad and _records_gradients():
            refuse_gradient(name)
        if tuple(array.shape) != tuple(parameter.shape):
            raise ArgumentError(
                name, f"expected shape {tuple(parameter.shape)} (the parameter's), got {tuple(array.shape)}"
            )
        if not is_contiguous(array):
            raise ArgumentError(name, f"expected a contiguous array, got strides {strides(array)}")
        if type_name(array.dtype) not in TYPES:
            raise ArgumentError(
                name,
                f"expected type {listed(list(TYPES))} (because adamw computes in float32), got "
                f"{type_name(array.dtype)}",
            )
        if role == "master" and type_name(array.dtype) != "float32":
            raise ArgumentError(
                name, f"expected float32 (because it carries the parameter's digits), got {type_name(array.dtype)}"
            )
        if place_of(array) != place:
            raise ArgumentError(
                name,
                f"expected an array on {place} (because one launch updates all, and parameter[0] is there), got one "
                f"on {place_of(array)}",
            )
        if place != "cpu" and is_torch(array) != is_torch(first):
            raise ArgumentError(
                name,
                f"expected an array of one library (because the launch is queued where those of parameter[0] are), "
                f"got {type(array).__name__} beside {type(first).__name__}",
            )
        # The launch sees only addresses, so a write to a read-only array has to be refused here.
        if role != "gradient" and not is_torch(array) and not on_device(array) and not array.flags.writeable:
            raise ArgumentError(name, "expected an array that can be written, got a read-only one")


def _records_gradients() -> bool:
    import torch

    return bool(torch.is_grad_enabled())


def check_all_apart(given: Iterable[tuple[str, str, Any]]) -> None:
    """Refuses contiguous memory that is written and also belongs to another argument: sorted by address, only
    neighbours can overlap. Each argument comes with its name and its role."""
    spans = sorted(
        (address(array), math.prod(array.shape) * array.itemsize, name, role)
        for name, role, array in given
        if array is not None and 0 not in array.shape
    )
    end, before, read_only = 0, "", False
    for start, size, name, role in spans:
        only_read = role == "gradient"
        if start < end and not (only_read and read_only):
            raise ArgumentError(
                name,
                f"expected memory apart from {before} (because one is read and the other written), got arrays that "
                f"overlap",
            )
        if start + size > end:
            end, before, read_only = start + size, name, only_read
