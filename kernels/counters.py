"""Counters that a launch finds as zeros and leaves as zeros, so that nothing has to clear them in between.

Two launches that may run at once never get the same ones: what is taken from torch's memory belongs to a stream, as one
thread sees it, and to that stream's captured calls each their own, since nobody knows where a graph is replayed.
"""

from __future__ import annotations

import threading
from typing import Any

from kiln.kernels.operator import is_torch

# Counters that are cleared at once.
_SUPPLY = 1 << 18
_lock = threading.Lock()
_supplies: dict[Any, Any] = {}  # by device: counters that nobody has
_cleared: list[Any] = []  # all memory of such counters, which graphs may keep using
_held: dict[Any, Any] = {}  # by device, thread and stream: those of its launches


def zeros(count: int, like: Any) -> Any:
    """``count`` int32 zeros, of the library and on the device of ``like``, for one launch that leaves zeros behind."""
    if is_torch(like):
        return _of_torch(count, like.device)
    import numpy
    from kiln.kernels.device_array import DeviceArray

    made = numpy.zeros(count, numpy.int32)
    return DeviceArray.of(made) if isinstance(like, DeviceArray) else made


def not_there(count: int, number: int, like: Any) -> Any:
    """``count`` int32 of -1, for one launch that leaves the same behind; ``number`` counts the arrays of a launch."""
    if is_torch(like):
        import torch

        if like.device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
            stream = torch.cuda.current_stream(like.device).cuda_stream
            key = number, like.device, threading.get_ident(), stream
            held = _held.get(key)
            if held is None or held.numel() < count:
                held = _held[key] = torch.full((max(count, 1 << 10),), -1, dtype=torch.int32, device=like.device)
            return held[:count]
        return torch.full((count,), -1, dtype=torch.int32, device=like.device)
    import numpy
    from kiln.kernels.device_array import DeviceArray

    made = numpy.full(count, -1, numpy.int32)
    return DeviceArray.of(made) if isinstance(like, DeviceArray) else made


def _of_torch(count: int, device: Any) -> Any:
    import torch

    if device.type != "cuda":
        return torch.zeros(count, dtype=torch.int32, device=device)
    if torch.cuda.is_current_stream_capturing():
        return _take(count, device, capturing=True)
    key = device, threading.get_ident(), torch.cuda.current_stream(device).cuda_stream
    held = _held.get(key)
    if held is None or held.numel() < count:
        held = _held[key] = _take(max(count, 1 << 10), device, capturing=False)
    return held[:count]


def _take(count: int, device: Any, capturing: bool) -> Any:
    """Counters that nobody had before."""
    import torch

    count = -(-count // 32) * 32  # whole lines of 128 bytes
    with _lock:
        supply = _supplies.get(device)
        if not capturing and (supply is None or supply.numel() < max(count, _SUPPLY // 2)):
            supply = torch.zeros(max(count, _SUPPLY), dtype=torch.int32, device=device)
            torch.cuda.current_stream(device).synchronize()  # they are for other streams too
            _cleared.append(supply)
        if supply is None or supply.numel() < count:
            # Memory of the graph's own, which it clears each time.
            return torch.zeros(count, dtype=torch.int32, device=device)
        _supplies[device] = supply[count:]
        return supply[:count]
