"""Every way in which an array may describe its memory, and what is rejected."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import kiln
import kiln.language as kl
import ml_dtypes
import numpy as np
import pytest
from arrays import CudaOnly, DlpackOnly, InterfaceOnly, TensorLike, misaligned
from kiln import errors, knobs
from kiln.tools.tensor_descriptor import TensorDescriptor

NUMPY_TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
               "float64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]  # fmt: skip


@kiln.jit
def copy(x, out, stride, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + i * stride))


@pytest.mark.parametrize("dtype", NUMPY_TYPES, ids=lambda t: np.dtype(t).name)
def test_every_type_of_numpy_and_ml_dtypes(dtype):
    x = (np.arange(32) % 7).astype(dtype)
    out = np.zeros(32, dtype)
    copy[1](x, out, 1, 32)
    np.testing.assert_array_equal(out.view(np.uint8), x.view(np.uint8))


@pytest.mark.parametrize("wrap", [InterfaceOnly, DlpackOnly, TensorLike])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_other_libraries(wrap, dtype):
    x = np.arange(32).astype(dtype)
    out = np.zeros(32, dtype)
    copy[1](wrap(x), wrap(out), 1, 32)
    np.testing.assert_array_equal(out, x)


def test_bfloat16_of_torch():
    x = np.arange(32).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(x)
    copy[1](TensorLike(x, "bfloat16"), TensorLike(out, "bfloat16"), 1, 32)
    np.testing.assert_array_equal(out, x)


def test_views_pass_their_own_start():
    x = np.arange(100, dtype=np.float32)
    out = np.zeros(16, np.float32)
    copy[1](x[5::3], out, 3, 16)
    np.testing.assert_array_equal(out, x[5::3][:16])
    copy[1](x[50::-2], out, -2, 16)
    np.testing.assert_array_equal(out, x[50::-2][:16])


def test_a_view_that_is_not_aligned_to_16_gets_its_own_code():
    x, out = np.arange(64, dtype=np.float32), np.zeros(16, np.float32)
    assert "x=*fp32:16" in copy[1](x, out, 1, 16).signature
    assert "x=*fp32," in copy[1](x[1:], out, 1, 16).signature


@pytest.mark.parametrize("name, value, message", [
    ("layout", "torch.sparse_coo", "expected a dense tensor .* got one of layout torch.sparse_coo"),
    ("is_neg", lambda: True, "got a view with the negative bit set"),
    ("is_conj", lambda: True, "got a view with the conjugate bit set"),
    ("data_ptr", lambda: 0, "expected an array with data, got one without"),
])  # fmt: skip
def test_tensors_that_memory_does_not_hold(name, value, message):
    x = TensorLike(np.zeros(32, np.float32))
    setattr(x, name, value)
    with pytest.raises(errors.LaunchError, match=f"(?s)argument 'x': .*{message}"):
        copy[1](x, np.zeros(32, np.float32), 1, 32)


@pytest.mark.cpu
def test_an_address_and_a_type_are_enough():
    """A wrapper that returns itself as its storage and has no size, as in FlagGems."""
    x, out = np.arange(64, dtype=np.float32), np.zeros(32, np.float32)
    pointer = TensorLike(x)
    pointer.untyped_storage = lambda: pointer
    with knobs.scope(check="bounds"):
        copy[1](pointer, out, 1, 32)
    np.testing.assert_array_equal(out, x[:32])


def test_read_only_arrays_can_be_read():
    x = np.broadcast_to(np.float32(3.0), (32,))
    out = np.zeros(32, np.float32)
    copy[1](x, out, 0, 32)
    assert (out == 3.0).all()


def test_read_only_arrays_cannot_be_written(tmp_path):
    x, frozen = np.ones(32, np.float32), np.zeros(32, np.float32)
    frozen.flags.writeable = False
    mapped = tmp_path / "data"
    mapped.write_bytes(bytes(128))
    for target in (frozen, np.frombuffer(bytes(128), np.float32), np.memmap(mapped, np.float32, "r")):
        with pytest.raises(errors.LaunchError, match="'out': expected an array that may be written"):
            copy[1](x, target, 0, 32)
        assert (target == 0).all()


@kiln.jit
def read_box(desc, out, row, column):
    tile = desc.load([row, column])
    kl.store(out + kl.arange(0, 4)[:, None] * 8 + kl.arange(0, 8)[None, :], tile)


def test_descriptors():
    x = np.arange(12 * 16, dtype=np.float32).reshape(12, 16)
    out = np.zeros((4, 8), np.float32)
    compiled = read_box[1](TensorDescriptor.from_tensor(x, [4, 8]), out, 4, 8)
    np.testing.assert_array_equal(out, x[4:8, 8:16])
    assert compiled.signature.startswith("desc=tensordesc<fp32[4,8]>:16")
    read_box[1](TensorDescriptor.from_tensor(TensorLike(x), [4, 8]), out, 10, 12)
    np.testing.assert_array_equal(out[:2, :4], x[10:, 12:])
    assert not out[2:].any() and not out[:, 4:].any(), "outside reads as zero"


class Perishable(np.ndarray):
    """An array that becomes invalid once nothing refers to it."""

    def __del__(self):
        self.fill(-1)


class Boxes:
    """A descriptor whose `base` is a new array on every access."""

    def __init__(self, array):
        self.array, self.shape, self.strides, self.block_shape = array, [8, 16], [16, 1], [4, 8]

    @property
    def base(self):
        return self.array.copy().view(Perishable)


def test_what_a_descriptor_makes_lives_until_the_launch_has_ended():
    x, out = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros(32, np.float32)
    read_box[1](Boxes(x), out, 4, 8)
    np.testing.assert_array_equal(out.reshape(4, 8), x[4:8, 8:16])


@pytest.mark.cpu
def test_what_a_descriptor_makes_lives_until_a_prepared_launch_has_ended():
    x, out = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros(32, np.float32)
    prepared = read_box.prepare(TensorDescriptor.from_tensor(x, [4, 8]), out, 4, 8, grid=1)
    prepared(Boxes(x + 1))
    np.testing.assert_array_equal(out.reshape(4, 8), x[4:8, 8:16] + 1)
    prepared = read_box.prepare(Boxes(x + 2), out, 4, 8, grid=1)
    prepared()
    np.testing.assert_array_equal(out.reshape(4, 8), x[4:8, 8:16] + 2)


@kiln.jit
def through_descriptors(x, out, rows, columns, pitch):
    a = kl.make_tensor_descriptor(x, [rows, columns], [pitch, 1], [4, 16])
    b = kl.make_tensor_descriptor(out, [rows, columns], [pitch, 1], [4, 16])
    b.store([0, 0], a.load([0, 0]))


def test_descriptor_strides_specialise_by_16_bytes_and_other_numbers_do_not():
    """A copy engine can read f16 rows of a multiple of 8 elements; row counts of 4 and 8 share one specialisation."""
    x, out = np.arange(4 * 64).astype(np.float16), np.zeros(4 * 64, np.float16)
    compiled = {}
    for pitch in (32, 24, 40, 20, 18):
        compiled[pitch] = through_descriptors[1](x, out, 4, 16, pitch)
        assert through_descriptors[1](x, out, 8, 16, pitch) is compiled[pitch]
        view = np.lib.stride_tricks.as_strided
        same = view(out, (4, 16), (2 * pitch, 2)) == view(x, (4, 16), (2 * pitch, 2))
        assert same.all(), pitch
    assert compiled[24] is compiled[40] and len({id(kernel) for kernel in compiled.values()}) == 4
    for pitch, divisor in [(32, ":16"), (24, ":8"), (20, ":4"), (18, "")]:
        assert compiled[pitch].signature.endswith(f"rows=i32, columns=i32:16, pitch=i32{divisor}")
        promise = f'tile.divisibility = {divisor[1:]} : i64, tile.name = "pitch"'
        assert (promise in compiled[pitch].asm["tile"]) == bool(divisor)


class Pitched(NamedTuple):
    data: Any
    rows: int
    pitch: int


@kiln.jit
def rows_of(x):
    return kl.make_tensor_descriptor(x.data, [x.rows, 16], [x.pitch, 1], [4, 16])


@kiln.jit
def through_fields(x, out):
    rows_of(out).store([0, 0], rows_of(x).load([0, 0]))


def test_strides_in_named_tuples_specialise_too():
    x, out = np.arange(4 * 64).astype(np.float16), np.zeros(4 * 64, np.float16)
    compiled = through_fields[1](Pitched(x, 24, 24), Pitched(out, 4, 20))
    assert "x=(*fp16:16, i32, i32:8), out=(*fp16:16, i32, i32:4)" in compiled.signature
    assert through_fields[1](Pitched(x, 4, 40), Pitched(out, 8, 36)) is compiled
    assert through_fields[1](Pitched(x, 4, 36), Pitched(out, 8, 36)) is not compiled


def test_descriptors_of_the_host_promise_what_a_launch_checks():
    @kiln.jit
    def read(desc, out):
        kl.store(out + kl.arange(0, 32), desc.load([0, 0]).reshape(32))

    out = np.zeros(32, np.float16)
    whole, odd = np.ones((8, 24), np.float16), np.ones((8, 24), np.float16)[:, :13]
    compiled = read[1](TensorDescriptor.from_tensor(whole, [4, 8]), out)
    assert compiled.signature.startswith("desc=tensordesc<fp16[4,8]>:16:rows,")
    for promise in ('8 : i64, tile.name = "desc.shape.1"', '8 : i64, tile.name = "desc.stride.0"'):
        assert f"tile.divisibility = {promise}" in compiled.asm["tile"]
    # A different number of whole rows runs the same code; partial rows need other code, with the same strides.
    assert read[1](TensorDescriptor.from_tensor(np.ones((3, 40), np.float16), [4, 8]), out) is compiled
    other = read[1](TensorDescriptor.from_tensor(odd, [4, 8]), out)
    assert other is not compiled and 'divisibility = 8 : i64, tile.name = "desc.stride.0"' in other.asm["tile"]
    assert 'tile.divisibility = 8 : i64, tile.name = "desc.shape.1"' not in other.asm["tile"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CudaOnly(), "got an arrays.CudaOnly in GPU memory"),
        (lambda: TensorLike(np.zeros(4, np.float32), device="cuda:1"), "got one on cuda:1"),
        (lambda: TensorLike(np.zeros(4, np.float32), "complex64"), "got one of torch.complex64"),
        (lambda: np.zeros(4, np.complex64), "got one of complex64"),
        (lambda: np.zeros(4, ">f4"), "got one of >f4"),
        (lambda: np.zeros(4, [("a", "f4")]), "got one of"),
        (lambda: np.array([None]), "got one of object"),
        (lambda: misaligned(4), "aligned to its element type"),
        (lambda: [1.0, 2.0], "got a list"),
        (lambda: object(), "got an object"),
        (lambda: 1 + 2j, "got a complex"),
    ],
)
def test_refused(make, message):
    with pytest.raises(errors.LaunchError) as caught:
        copy[1](make(), np.zeros(4, np.float32), 1, 4)
    text = str(caught.value)
    assert message in text
    assert "launch of copy: argument 'x'" in text
    assert "test_arrays.py" in text and "copy[1](make()" in text, "the caller's line is shown"


@pytest.mark.cpu
def test_arrays_on_several_machines_are_refused():
    with pytest.raises(errors.LaunchError, match="argument 'out': expected an array on CUDA device 0"):
        copy[1](DlpackOnly(np.zeros(4, np.float32), (2, 0)), np.zeros(4, np.float32), 1, 4)
    elsewhere = DlpackOnly(np.zeros(4, np.float32), (2, 1))
    with pytest.raises(errors.LaunchError, match=r"argument 'out': expected arrays on one device .* got one on"):
        copy[1](DlpackOnly(np.zeros(4, np.float32), (2, 0)), elsewhere, 1, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: TensorDescriptor(x, [4], [1, 1], [4]), "expected 1 strides"),
        (lambda x: TensorDescriptor(x, [4, 4], [4, 2], [4, 4]), "last stride of 1"),
        (lambda x: TensorDescriptor(x, [1] * 6, [1] * 6, [1] * 6), "1 to 5 dimensions"),
        (lambda x: TensorDescriptor(x, [4], [1], [4], padding="one"), "'zero' or 'nan'"),
        (lambda x: TensorDescriptor(x, [4.0], [1], [4]), r"integers in shape, got \[4.0\]"),
        (lambda x: TensorDescriptor(x, [4], [1], 4), "integers in block_shape, got 4"),
        (lambda x: TensorDescriptor.from_tensor(x.tolist(), [4]), "says its shape and strides, got list"),
        (
            lambda x: TensorDescriptor.from_tensor(
                x.view(np.uint8)[:-1].reshape(-1, 7)[:, :4].view(np.float32), [4, 4]
            ),
            r"strides of whole elements .* got \[7, 4\] bytes for elements of 4",
        ),
        (lambda x: TensorDescriptor.from_tensor(x.reshape(1, 1, 1, 1, 4, 4), [1, 1, 1, 1, 4, 4]), "1 to 5 dimensions"),
        (lambda x: TensorDescriptor.from_tensor(x[0], []), "1 to 5 dimensions, got 0"),
    ],
)
def test_bad_descriptors(make, message):
    with pytest.raises(errors.LaunchError, match=message):
        make(np.zeros(16, np.float32))


def test_descriptors_keep_the_rules_of_copy_engines():
    x = np.zeros((8, 10), np.float32)
    for descriptor, message in [
        (TensorDescriptor(x.reshape(-1)[1:], [8], [1], [8]), "aligned to 16 bytes"),
        (TensorDescriptor.from_tensor(x, [4, 8]), "multiples of 16 bytes"),
        (
            TensorDescriptor(x, [8, 8], [-16, 1], [4, 8]),
            "strides of 0 to 2.40 bytes, got -16 elements of 4 bytes in dim",
        ),
        (TensorDescriptor(x, [8, 8], [1 << 39, 1], [4, 8]), "strides of 0 to 2.40 bytes"),
        (TensorDescriptor(x, [-1, 8], [16, 1], [4, 8]), "extents of 0 to 2.32, got -1 in dimension 0"),
        (TensorDescriptor(x, [1 << 33, 8], [16, 1], [4, 8]), "extents of 0 to 2.32"),
        (TensorDescriptor(x, [8, 8], [16, 1], [4, 2]), "rows of 16 bytes or more, got 8 bytes"),
    ]:
        with pytest.raises(errors.LaunchError, match=message):
            copy[1](descriptor, x, 1, 4)


def test_noncontiguous_arrays_are_reported_on_request():
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    out = np.zeros(32, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy[1](x.T, out, 1, 32)  # read in storage order
        np.testing.assert_array_equal(out, x.ravel())
        with knobs.scope(warn_strides=True):
            copy[1](x, out, 1, 32)
            copy[1](x[1:3], out, 1, 16)
    with knobs.scope(warn_strides=True), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        copy[1](x.T, out, 1, 32)
        copy[1](TensorLike(x[:, ::2]), out, 1, 16)
    assert [str(warning.message).partition(":")[0] for warning in told] == ["launch of copy"] * 2
    assert "argument 'x' has shape (8, 4) and strides (1, 8)" in str(told[0].message)
    assert told[0].filename == __file__
