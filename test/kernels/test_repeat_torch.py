"""Repeated calls with torch tensors: what torch knows about a tensor is part of their kind, or ends the repetition.
Skipped where torch is not installed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kiln import errors  # noqa: E402
from kiln.kernels.elementwise import add  # noqa: E402
from kiln.kernels.norm import rms_norm  # noqa: E402
from kiln.kernels.softmax import softmax  # noqa: E402

pytestmark = pytest.mark.host


def counted(function, *args, **kwargs):
    before = (function._calls or function._make_calls()).counts
    result = function(*args, **kwargs)
    return result, tuple(now - then for now, then in zip(function._calls.counts, before, strict=True))


def warmed(function, *args, **kwargs):
    function.forget()
    for _ in range(3):
        _, counts = counted(function, *args, **kwargs)
    assert counts == (0, 0, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("given", [False, True])
def test_made_again(dtype, given):
    rms_norm.forget()
    kept = []
    for seen in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1)):
        x, weight, out = torch.randn(3, 70).to(dtype), torch.randn(70).to(dtype), torch.empty(3, 70, dtype=dtype)
        kwargs = {"out": out} if given else {}
        result, counts = counted(rms_norm, x, weight, **kwargs)
        assert counts == seen and (result is out) == given
        assert torch.equal(result, rms_norm._run((x, weight), {})) and result.dtype == dtype
        kept += [x, weight, out, result]


def test_outputs_of_other_shapes_and_views():
    """Outputs that do not have an argument's shape and strides are made by shape."""
    softmax.forget()
    for _ in range(4):
        x = torch.randn(8, 6).T
        assert not x.is_contiguous()
        result = softmax(x)
        assert result.is_contiguous() and torch.equal(result, softmax._run((x,), {}))


def test_outputs_are_made_as_torch_makes_them():
    """Without Python, except for modes written in it."""
    from torch.overrides import TorchFunctionMode

    x, y = torch.randn(5, 7), torch.randn(5, 7)
    warmed(add, x, y)
    with torch.inference_mode():
        result, counts = counted(add, x, y)
        assert counts == (0, 0, 1) and result.is_inference()
    result, _ = counted(add, x, y)
    assert type(result) is torch.Tensor and result.stride() == (7, 1) and result.dtype == torch.float32
    assert not result.is_inference() and not result.requires_grad and result._version == 1 and result._base is None
    assert result.untyped_storage().nbytes() == 4 * 35 and torch.equal(result, x + y)

    class Watched(TorchFunctionMode):
        seen = []

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    with Watched():
        result, counts = counted(add, x, y)
    assert counts == (0, 0, 1) and "empty_like" in Watched.seen and torch.equal(result, x + y)


def test_kinds_of_tensors():
    x, y = torch.randn(64), torch.randn(64)
    warmed(add, x, y)
    memory = torch.randn(128)
    for args in (
        (x.double(), y.double()),
        (x.reshape(8, 8), y.reshape(8, 8)),
        (memory[1:65], y),
        (memory[:64], memory[64:]),
        (torch.nn.Parameter(x, requires_grad=False), y),
        (x, x),
    ):
        result, counts = counted(add, *args)
        assert counts == (1, 0, 0) and torch.equal(result, args[0] + args[1])


def test_gradients():
    """A tensor that requires one is refused while gradients are recorded, whatever was recorded before."""
    x, y = torch.randn(64), torch.randn(64)
    warmed(add, x, y)
    wants = torch.randn(64, requires_grad=True)
    for _ in range(3):
        with pytest.raises(errors.ArgumentError, match="requires no gradient"):
            add(wants, y)
    with torch.no_grad():
        for _ in range(3):
            result, counts = counted(add, wants, y)
            assert not result.requires_grad and torch.equal(result, wants + y)
        assert counts == (0, 0, 1)
    with pytest.raises(errors.ArgumentError, match="requires no gradient"):
        add(wants, y)
    x.requires_grad_()
    with pytest.raises(errors.ArgumentError, match="requires no gradient"):
        add(x, y)


def test_tensors_whose_memory_is_not_their_values():
    x, y = torch.randn(64), torch.randn(64)
    warmed(add, x, y)
    negative = torch._neg_view(torch.randn(64))
    assert negative.is_neg()
    for _ in range(3):
        with pytest.raises(errors.KilnError, match="negative bit"):
            add(negative, y)
    small = torch.randn(64)
    small.untyped_storage().resize_(16)
    for _ in range(3):
        with pytest.raises(errors.KilnError, match="storage was made smaller"):
            add(small, y)


def test_writes_are_counted():
    x, y, out = torch.randn(64), torch.randn(64), torch.empty(64)
    warmed(add, x, y, out=out)
    before = out._version, x._version
    assert counted(add, x, y, out=out)[1] == (0, 0, 1)
    assert (out._version, x._version) == (before[0] + 1, before[1])


def test_inference_mode():
    x, y = torch.randn(64), torch.randn(64)
    warmed(add, x, y)
    with torch.inference_mode():
        assert add(x, y).is_inference()
    assert not add(x, y).is_inference()


def test_observing_torch_modes():
    from torch.utils._python_dispatch import TorchDispatchMode

    x, y = torch.randn(64), torch.randn(64)
    warmed(add, x, y)
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    for _ in range(2):
        with Mode():
            result = add(x, y)
        assert any("kiln" in name for name in seen) and torch.equal(result, x + y)
        seen.clear()
    assert counted(add, x, y)[1] == (0, 0, 1)


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, y = torch.randn(64), torch.randn(64)
    warmed(add, x, y)
    mode = FakeTensorMode()
    with mode:
        fake = mode.from_tensor(x)
        for _ in range(3):
            assert type(add(fake, fake)).__name__ == "FakeTensor"
