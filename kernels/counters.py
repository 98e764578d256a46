"""Counters that are zero before and after every launch, so that nothing has to clear them in between.

Two launches that may run at once never share counters. Counters in torch memory belong to one stream, as one thread
sees it; those used during capture belong to the captured graph's launches on that stream. The stream of a graph's
replay is unknown, but launches captured from one stream run in order on any stream.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import Any

import kiln
import kiln.language as kl
from kiln.kernels.operator import is_torch

# How many counters are cleared at once.
_SUPPLY = 1 << 18
_lock = threading.Lock()
_supplies: dict[Any, Any] = {}  # by device: counters not handed out yet
_cleared: list[Any] = []  # all memory of handed-out counters, which graphs may keep using
_held: dict[Any, Any] = {}  # by device, thread and stream: the counters of its launches
_captured: dict[Any, tuple[int, Any]] = {}  # same key: the last captured graph and the counters of its launches
_short: set[Any] = set()  # devices whose supply is more than half used


@kiln.jit
def count_in(counter, count):
    """Counts a program, after what it wrote; returns whether it is the last of ``count``, which sees what all of them
    wrote, and leaves the counter at zero."""
    is_last = kl.atomic_add(counter, 1, sem="acq_rel") == count - 1
    if is_last:
        kl.store(counter, 0)
    return is_last


def zeros(count: int, like: Any) -> Any:
    """``count`` int32 zeros, in the library and on the device of ``like``, for a launch that leaves them zero."""
    if is_torch(like):
        return _of_torch(count, like.device)
    import numpy
    from kiln.kernels.device_array import DeviceArray

    made = numpy.zeros(count, numpy.int32)
    return DeviceArray.of(made) if isinstance(like, DeviceArray) else made


def _of_torch(count: int, device: Any) -> Any:
    import torch

    if device.type != "cuda":
        return torch.zeros(count, dtype=torch.int32, device=device)
    stream = torch.cuda.current_stream(device).cuda_stream
    key = device, threading.get_ident(), stream
    if torch.cuda.is_current_stream_capturing():
        return _of_graph(_graph_of(stream), key, count)
    held = _held.get(key)
    if held is None or held.numel() < count:
        held = _held[key] = _take(max(count, 1 << 10), device, capturing=False)
    elif device in _short:
        # Refill now: a capture cannot, and would have to use memory of its graph.
        with _lock:
            _supply(0, device)
    return held[:count]


@functools.lru_cache(maxsize=1)
def _capture_info() -> Any:
    """The driver function that reports what a stream captures; None if the driver has none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    return getattr(driver, "cuStreamGetCaptureInfo_v2", getattr(driver, "cuStreamGetCaptureInfo_v3", None))


def _graph_of(stream: int) -> int | None:
    """A unique number for the graph that a stream is capturing; None if it cannot be told."""
    ask = _capture_info()
    status, number = ctypes.c_int(), ctypes.c_uint64()
    unasked = [ctypes.c_void_p()] * 4
    if ask is None or ask(ctypes.c_void_p(stream), ctypes.byref(status), ctypes.byref(number), *unasked):
        return None
    return number.value if status.value == 1 else None


def _of_graph(graph: int | None, key: Any, count: int) -> Any:
    if graph is None:
        return _take(count, key[0], capturing=True)
    last, held = _captured.get(key, (None, None))
    if last != graph or held.numel() < count:
        held = _take(max(count, 1 << 7), key[0], capturing=True)
        _captured[key] = graph, held
    return held[:count]


def _supply(count: int, device: Any) -> Any:
    """Unused counters: at least ``count``, and at least half of a full supply."""
    import torch

    supply = _supplies.get(device)
    if supply is None or supply.numel() < max(count, _SUPPLY // 2):
        supply = _supplies[device] = torch.zeros(max(count, _SUPPLY), dtype=torch.int32, device=device)
        torch.cuda.current_stream(device).synchronize()  # other streams use them too
        _cleared.append(supply)
    _short.discard(device)
    return supply


def _take(count: int, device: Any, capturing: bool) -> Any:
    """Counters never handed out before."""
    import torch

    count = -(-count // 32) * 32  # whole lines of 128 bytes
    with _lock:
        supply = _supplies.get(device) if capturing else _supply(count, device)
        if supply is None or supply.numel() < count:
            # The graph's own memory, which it clears at each replay.
            return torch.zeros(count, dtype=torch.int32, device=device)
        _supplies[device] = supply[count:]
        if supply.numel() - count < _SUPPLY // 2:
            _short.add(device)
        return supply[:count]
