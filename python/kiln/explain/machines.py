"""Peak rates of GPUs from their data sheets, for roofline models."""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """Peak rates of one GPU: bytes per second of its memory, operations per second by element type (dense; a product
    and a sum count as two), and how many blocks fit on a multiprocessor."""

    name: str
    row: str
    processors: int
    bytes_per_second: float
    tensor: dict[str, float]
    float32: float
    blocks_per_processor: int

    def tensor_rate(self, element: str) -> float | None:
        """Operations per second of tensor cores on an element type, as MLIR names it; None if they do not support
        it."""
        if element.startswith("f8"):
            element = "f8"
        return self.tensor.get("f16" if element == "bf16" else element)

    def rate(self, kind: str, element: str) -> float | None:
        """Operations per second of a kind that `describe_work` counts."""
        if kind == "tensor":
            return self.tensor_rate(element)
        # `describe_work` counts one operation per lane and instruction; the peak counts a fused multiply-add as two.
        # The special function units have an eighth of that rate. The vector rate of f64 is not in the table.
        if element == "f64":
            return None
        return self.float32 / 2 if kind == "float" else self.float32 / 16


def _tera(**rates: float) -> dict[str, float]:
    return {element: rate * 1e12 for element, rate in rates.items()}


MACHINES = (
    Machine("A100", "sm_80", 108, 2.039e12, _tera(f16=312, f32=156, i8=624, f64=19.5), 19.5e12, 32),
    Machine("RTX 3090", "sm_86", 82, 0.936e12, _tera(f16=71, f32=35.6, i8=284), 35.6e12, 16),
    Machine("RTX 4090", "sm_89", 128, 1.008e12, _tera(f16=165.2, f32=82.6, i8=660.6, f8=330.3), 82.6e12, 24),
    Machine("H200", "sm_90a", 132, 4.8e12, _tera(f16=989, f32=494.7, i8=1979, f8=1979, f64=67), 67e12, 32),
    Machine("H100", "sm_90a", 132, 3.35e12, _tera(f16=989, f32=494.7, i8=1979, f8=1979, f64=67), 67e12, 32),
    Machine("B200", "sm_100a", 148, 8.0e12, _tera(f16=2250, f32=1125, i8=4500, f8=4500, f64=37), 75e12, 32),
    Machine("RTX 5090", "sm_120a", 170, 1.792e12, _tera(f16=209.5, f32=104.8, i8=838, f8=419), 104.8e12, 24),
)


def choose(row: str, name: str | None = None) -> Machine:
    """The machine called `name`; without a name, the GPU of this machine if the table has it and `row` fits it, else
    the first machine of `row`."""
    from kiln import errors

    if name is not None:
        for machine in MACHINES:
            if machine.name.replace(" ", "").lower() in name.replace(" ", "").replace("-", "").lower():
                return machine
        known = ", ".join(machine.name for machine in MACHINES)
        near = errors.near_match(name, [machine.name for machine in MACHINES])
        raise errors.UserError(
            f"expected a machine of the table ({known}), got {name!r}" + (f"; did you mean {near!r}?" if near else "")
        )
    of_row = [machine for machine in MACHINES if machine.row == row]
    if not of_row:
        raise errors.UserError(f"no machine of the table has the row {row}")
    from kiln import cuda

    if cuda.is_available():
        here = cuda.get_device_properties(0).name.replace(" ", "")
        for machine in of_row:
            if machine.name.replace(" ", "") in here:
                return machine
    return of_row[0]
