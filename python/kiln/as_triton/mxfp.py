"""`triton.tools.mxfp`: torch tensors in the microscaling formats, on the host: 4-bit numbers and power-of-two scales.

A 4-bit number has a sign bit, two exponent bits (bias 1) and one mantissa bit: 0, 0.5, 1, 1.5, 2, 3, 4, 6. A scale is
an exponent with bias 127, where 255 is NaN. A byte holds two numbers, the one with the lower index in its lower half.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MXFP4Tensor", "MXScaleTensor"]

_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_BIAS, _NAN = 127, 255


class _Codes:
    """Numbers, with their encodings as the bytes of `data`."""

    def __init__(self, data: Any = None, size: Any = None, device: Any = None):
        import torch

        self.device = torch.device(device) if device is not None else None
        self.data: Any = None
        if data is not None:
            if not isinstance(data, torch.Tensor):
                raise TypeError(f"expected a tensor of torch as data, got {type(data).__name__}")
            self.device = data.device
            self.data = self._encode(data)
        elif size is not None:
            self.size = size if isinstance(size, tuple) else (size,)
        else:
            raise ValueError("expected data or a size, got neither")

    def _encode(self, values: Any) -> Any:
        raise NotImplementedError

    def _shape(self) -> Any:
        return self.size if self.data is None else tuple(self.data.shape)


class MXFP4Tensor(_Codes):
    """4-bit numbers, one in each byte of `data`."""

    def random(self) -> MXFP4Tensor:
        """Fills the tensor with random numbers, any but negative zero."""
        import torch

        codes = torch.randint(0, 16, self._shape(), dtype=torch.uint8, device=self.device)
        self.data = torch.where(codes == 8, torch.zeros_like(codes), codes)
        return self

    def to(self, dtype: Any) -> Any:
        """The numbers, in fp32."""
        import torch

        if dtype != torch.float32:
            raise ValueError(f"expected torch.float32, got {dtype}")
        table = torch.tensor([*_E2M1, *(-x for x in _E2M1)], dtype=dtype, device=self.data.device)
        return table[self.data.long()]

    def _encode(self, values: Any) -> Any:
        """Rounds to nearest, ties to an even mantissa; saturates at 6."""
        import torch

        table = torch.tensor(_E2M1, dtype=torch.float32, device=values.device)
        size = values.float().abs().nan_to_num(nan=_E2M1[-1]).clamp(max=_E2M1[-1]).unsqueeze(-1)
        distance = (size - table).abs()
        # Ties go to the even code.
        distance = distance + torch.arange(len(_E2M1), device=values.device) % 2 * 1e-6
        return (distance.argmin(-1) + 8 * torch.signbit(values).long()).to(torch.uint8)

    def to_packed_tensor(self, dim: int) -> Any:
        """Packs two numbers per byte along `dim`, padding an odd size with a zero."""
        import torch

        if not 0 <= dim < self.data.ndim:
            raise ValueError(f"expected a dimension in [0, {self.data.ndim}), got {dim}")
        codes = self.data
        if codes.shape[dim] % 2:
            codes = torch.cat([codes, torch.zeros_like(codes.narrow(dim, 0, 1))], dim)
        low, high = (codes.index_select(dim, torch.arange(i, codes.shape[dim], 2, device=codes.device)) for i in (0, 1))
        return low | (high << 4)

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """Undoes `to_packed_tensor`: the codes in their original shape."""
        import torch

        pair = torch.stack([packed_tensor & 15, packed_tensor >> 4], dim + 1)
        return pair.flatten(dim, dim + 1).narrow(dim, 0, original_shape[dim]).to(torch.uint8)


class MXScaleTensor(_Codes):
    """Powers of two, as the exponents in `data`."""

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fills the tensor with random powers of two between `low` and `high`; by default any but NaN."""
        import math

        import torch

        first = 0 if low is None else max(0, int(math.log2(low)) + _BIAS)
        last = _NAN - 1 if high is None else min(_NAN - 1, int(math.log2(high)) + _BIAS)
        self.data = torch.randint(first, last + 1, self._shape(), dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """The powers of two, in fp32."""
        import torch

        if dtype != torch.float32:
            raise ValueError(f"expected torch.float32, got {dtype}")
        scale = torch.exp2(self.data.double() - _BIAS).to(dtype)
        return torch.where(self.data == _NAN, torch.full_like(scale, float("nan")), scale)

    def _encode(self, values: Any) -> Any:
        """Rounds each number down to a power of two; NaN if it is not finite or not positive."""
        import torch

        wide = values.double()
        valid = torch.isfinite(wide) & (wide > 0)
        exponent = torch.floor(torch.log2(torch.where(valid, wide, torch.ones_like(wide)))) + _BIAS
        codes = torch.where(valid, exponent.clamp(0, _NAN - 1), torch.full_like(exponent, _NAN))
        return codes.to(torch.uint8)
