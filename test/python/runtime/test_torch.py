"""Tensors of the real torch, with Triton in the same process. Skipped where torch is not installed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import kiln  # noqa: E402
import kiln.language as kl  # noqa: E402
from kiln import errors, knobs  # noqa: E402
from kiln.tools.tensor_descriptor import TensorDescriptor  # noqa: E402


@kiln.jit
def copy(x, out, stride, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + i * stride))


TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64",
         "float8_e4m3fn", "float8_e5m2"]  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_every_type(name):
    dtype = getattr(torch, name)
    x = (torch.arange(64) % 5).to(torch.float32).to(dtype)
    out = torch.zeros(64, dtype=torch.float32).to(dtype)
    copy[2](x, out, 1, 32)
    assert torch.equal(out.view(torch.uint8), x.view(torch.uint8))


def test_views_and_alignment():
    x, out = torch.arange(200.0), torch.zeros(32)
    assert "x=*fp32," in copy[1](x[7::3], out, 3, 32).signature
    assert torch.equal(out, x[7::3][:32])


def test_subclasses_and_parameters():
    x, out = torch.nn.Parameter(torch.arange(32.0)), torch.zeros(32)
    copy[1](x, out, 1, 32)
    assert torch.equal(out, x.detach())


def test_descriptors():
    @kiln.jit
    def read(desc, out):
        kl.store(out + kl.arange(0, 4)[:, None] * 8 + kl.arange(0, 8)[None, :], desc.load([4, 8]))

    x, out = torch.arange(256.0).reshape(16, 16), torch.zeros(4, 8)
    read[1](TensorDescriptor.from_tensor(x, [4, 8]), out)
    assert torch.equal(out, x[4:8, 8:16])


@pytest.mark.cpu
def test_bounds_know_the_storage():
    x, out = torch.arange(64.0), torch.zeros(32)
    with knobs.scope(check="bounds"):
        copy[1](x[32:], out, 1, 32)
        with pytest.raises(errors.OutOfBoundsError, match="argument 'x'"):
            copy[1](x[33:], out, 1, 32)


def test_types_stand_for_tensors_in_warmup():
    assert copy.warmup(torch.float16, torch.float32, 1, 32, grid=(1,)).signature.startswith("x=*fp16:16, out=*fp32:16")


@pytest.mark.parametrize("make", [lambda: torch.zeros(4, device="meta"), lambda: torch.zeros(4, dtype=torch.complex64),
                                  lambda: torch.zeros(4, 4).to_sparse()])  # fmt: skip
def test_refused(make):
    with pytest.raises((errors.LaunchError, NotImplementedError, RuntimeError)) as caught:
        copy[1](make(), torch.zeros(4), 1, 4)
    if isinstance(caught.value, errors.LaunchError):
        assert "argument 'x'" in str(caught.value)


def fake(*shape):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.zeros(*shape)


def resized(elements):
    x = torch.zeros(32)
    x.untyped_storage().resize_(4 * elements)
    return x


@pytest.mark.cpu
@pytest.mark.filterwarnings("error:Accessing the data pointer")
@pytest.mark.parametrize("make, message", [
    (lambda: fake(32), "expected an array with data, got one without"),
    (lambda: resized(0), "expected an array with data, got one without"),
    (lambda: resized(31), "expected an array with data, got one without"),
    (lambda: torch.zeros(32, device="meta"), "expected a tensor on the CPU or a CUDA device, got one on meta"),
    (lambda: torch.zeros(32, dtype=torch.complex64).conj().imag, "got a view with the negative bit set"),
    (lambda: torch.nn.Parameter(torch.zeros(32, dtype=torch.complex64).conj().imag), "negative bit set"),
    (lambda: torch.zeros(32, dtype=torch.complex64).conj(), "got a view with the conjugate bit set"),
    (lambda: torch.eye(4).to_sparse(), "expected a dense tensor .* got one of layout torch.sparse_coo"),
    (lambda: torch.eye(4).to_sparse_csr(), "expected a dense tensor .* got one of layout torch.sparse_csr"),
    (lambda: torch.eye(4).to_mkldnn(), "expected a dense tensor .* got one of layout torch._mkldnn"),
])  # fmt: skip
def test_tensors_without_dense_storage_are_rejected_by_name(make, message):
    with pytest.raises(errors.LaunchError, match=f"(?s)argument 'x': .*{message}"):
        copy[1](make(), torch.zeros(32), 1, 32)
    with pytest.raises(errors.LaunchError, match=f"(?s)argument 'out': .*{message}"):
        copy[1](torch.zeros(32), make(), 1, 32)


def _retype(x):
    x.data = x.data.view(torch.int32)


def _negate(x):
    x.data = torch.arange(64.0, dtype=torch.float32).to(torch.complex64).conj().imag


def _shrink(x):
    x.untyped_storage().resize_(4 * 16)


def _replace(x):
    x.set_(torch.arange(100.0, 164.0))


def _offset(x):
    x.set_(x.untyped_storage(), 1, (32,), (1,))


@pytest.mark.cpu
@pytest.mark.parametrize("change, refusal", [
    (_retype, None), (_negate, "negative bit"), (_shrink, "without"), (_replace, None), (_offset, None),
])  # fmt: skip
def test_changes_of_a_tensor_between_launches_are_noticed(change, refusal):
    """The Python object stays the same, and the call looks like the earlier ones."""
    copy.unload()
    x, out = torch.arange(64.0), torch.zeros(32)
    for _ in range(4):
        before = copy[1](x, out, 1, 32)
    change(x)
    if refusal:
        with pytest.raises(errors.LaunchError, match=refusal):
            copy[1](x, out, 1, 32)
        return
    for _ in range(4):
        after = copy[1](x, out, 1, 32)
        assert torch.equal(out, x[:32].to(torch.float32))
        out.zero_()
    assert (after is before) == (change is _replace), "type and alignment are those of other code"


@pytest.mark.cpu
def test_arrays_that_begin_to_overlap_are_noticed():
    copy.unload()
    x, out = torch.arange(64.0), torch.zeros(32)
    apart = [copy[1](x, out, 1, 32) for _ in range(4)][-1]
    storage = torch.arange(64.0)
    for _ in range(3):
        x.set_(storage)
        out.set_(storage, 16, (32,), (1,))
        together = copy[1](x, out, 1, 32)
        assert together is not apart and apart.disjoint != together.disjoint
        x.set_(torch.arange(64.0))
        assert copy[1](x, out, 1, 32) is apart


@pytest.mark.cpu
def test_tensors_without_data_work_where_none_is_needed():
    x = torch.zeros(0)
    copy[0](x, x, 1, 32)
    assert copy.warmup(fake(32), fake(32), 1, 32, grid=(1,)).signature.startswith("x=*fp32")
    copy[1](torch.zeros(32, dtype=torch.complex64).conj().imag.resolve_neg(), torch.zeros(32), 1, 32)


def test_a_write_counts_as_one():
    x, out = torch.arange(32.0), torch.zeros(32)
    base = torch.ones(32, requires_grad=True)
    saved = (base * out).sum()
    view, parameter = out[:], torch.nn.Parameter(torch.zeros(32))
    versions = [t._version for t in (x, out, parameter)]
    copy[1](x, view, 1, 32)
    copy[1](x, parameter, 1, 32)
    assert [t._version - v for t, v in zip((x, out, parameter), versions, strict=True)] == [0, 1, 1]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.backward()
    with torch.inference_mode():
        copy[1](x, torch.zeros(32), 1, 32)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_of_two_machines_are_refused_by_name():
    with pytest.raises(errors.LaunchError, match="argument 'out': expected an array on CUDA device 0"):
        copy[1](torch.zeros(4, device="cuda"), torch.zeros(4), 1, 4)


def test_measuring_and_comparing_take_tensors():
    kiln.testing.assert_close(torch.ones(3, dtype=torch.bfloat16, requires_grad=True), torch.ones(3))


def test_tuning_restores_tensors():
    @kiln.autotune([kiln.Config({"BLOCK": 16}), kiln.Config({"BLOCK": 32})], key=["n"], restore_value=["x"],
                   warmup=1, rep=1)  # fmt: skip
    @kiln.jit
    def double(x, n, BLOCK: kl.constexpr):
        i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
        kl.store(x + i, kl.load(x + i) * 2)

    x = torch.ones(64)
    double[lambda meta: (64 // meta["BLOCK"],)](x, 64)
    assert (x == 2).all()


def test_beside_triton():
    triton = pytest.importorskip("triton")
    x, out = torch.arange(32.0), torch.zeros(32)
    copy[1](x, out, 1, 32)
    assert torch.equal(out, x) and triton.__version__
