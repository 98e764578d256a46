"""Arrays with unusual memory layouts: correct results, or rejected by name; never wrong numbers."""

import mmap

import ml_dtypes
import numpy as np
import pytest
from harness import assert_close, random
from kiln import errors
from kiln.kernels.activation import bias_gelu, reference, swiglu
from kiln.kernels.attention import attention, decode_attention
from kiln.kernels.attention import reference as attention_reference
from kiln.kernels.elementwise import add
from kiln.kernels.embedding import embedding
from kiln.kernels.gemm import linear, matmul
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm
from kiln.kernels.norm import reference as norm_reference
from kiln.kernels.optimizer import adamw
from kiln.kernels.reduce import sum_all, topk
from kiln.kernels.rope import rope
from kiln.kernels.softmax import reference as softmax_reference
from kiln.kernels.softmax import softmax

pytestmark = pytest.mark.host


def test_walked_as_one_row_needs_one_row(rng):
    x = random(rng, (6, 8))
    for view in (x.T, x[:, ::2], x[::-1], np.broadcast_to(x[0], (6, 8))):
        with pytest.raises(errors.ArgumentError, match="add: x: expected elements that lie side by side"):
            add(view, view)
        with pytest.raises(errors.ArgumentError, match="sum_all: x: expected elements that lie side by side"):
            sum_all(view)
    with pytest.raises(errors.ArgumentError, match="add: out: expected elements that lie side by side"):
        add(x, x, out=random(rng, (8, 6)).T)


@pytest.mark.parametrize("column", [lambda x: x.T, lambda x: x.reshape(-1, 1)[:, ::-1],
                                    lambda x: np.lib.stride_tricks.as_strided(x, (8, 1), (4, 4000))],
                         ids=["transposed row", "reversed", "strided"])  # fmt: skip
def test_one_column_with_any_stride(rng, column):
    """numpy and torch call a single column contiguous whatever its stride along the row."""
    x = column(random(rng, (1, 8)))
    assert x.flags.c_contiguous and x.shape == (8, 1)
    assert_close(bias_gelu(x), reference.bias_gelu(x))
    assert_close(swiglu(x, x), reference.swiglu(x, x))
    out = column(random(rng, (1, 8)))
    bias_gelu(x, out=out)
    assert_close(np.array(out), reference.bias_gelu(x))


def test_outputs_with_aliased_elements_are_rejected(rng):
    x, weight = random(rng, (3, 8)), random(rng, 8)
    twice = np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (3, 8), (0, 4))
    sliding = np.lib.stride_tricks.as_strided(np.zeros(10, np.float32), (3, 8), (4, 4))
    for out in (twice, sliding):
        for call in (lambda out: rms_norm(x, weight, out=out), lambda out: layer_norm(x, weight, out=out),
                     lambda out: softmax(x, out=out), lambda out: bias_gelu(x, out=out),
                     lambda out: swiglu(x, x, out=out), lambda out: add(x, x, out=out),
                     lambda out: embedding(np.arange(3), x, out=out),
                     lambda out: matmul(x, np.eye(8, dtype=np.float32), out=out)):  # fmt: skip
            with pytest.raises(errors.ArgumentError, match="out: expected elements that are each in a place"):
                call(out)


def test_outputs_over_inputs(rng):
    """In place is correct or rejected; partial overlaps are rejected."""
    memory = random(rng, 200)
    x, shifted, weight = memory[:96].reshape(12, 8), memory[8:104].reshape(12, 8), random(rng, 8)
    square = np.eye(8, dtype=np.float32)
    for call in (lambda: add(x, x, out=shifted), lambda: softmax(x, out=shifted),
                 lambda: rms_norm(x, weight, out=shifted), lambda: layer_norm(x, weight, out=shifted),
                 lambda: rms_norm(x, x[0], out=x), lambda: bias_gelu(x, out=shifted), lambda: bias_gelu(x, x[3], out=x),
                 lambda: swiglu(x, shifted, out=shifted[::-1]), lambda: matmul(x, square, out=x),
                 lambda: matmul(square, square.T, out=square), lambda: linear(x, square, out=shifted),
                 lambda: matmul(x, square, beta=1.0, c=x, out=shifted),
                 lambda: embedding(np.arange(12), x, out=shifted),
                 lambda: swiglu(x, layout="interleaved", out=memory[:48].reshape(12, 4))):  # fmt: skip
        before = memory.copy()
        with pytest.raises(errors.ArgumentError, match=r"out: expected .*memory apart from"):
            call()
        assert (memory == before).all()
    with pytest.raises(errors.ArgumentError, match=r"out\[1\]: expected memory apart from out\[0\]"):
        residual_rms_norm(x.copy(), x.copy(), weight, out=(x, x))
    with pytest.raises(errors.ArgumentError, match=r"topk: out\[0\]: expected memory apart from x"):
        topk(x, 8, out=(x, np.zeros((12, 8), np.int64)))


def test_outputs_between_inputs(rng):
    """Interleaved in memory without overlap."""
    memory, weight = random(rng, (6, 16)), random(rng, 8)
    exact = norm_reference.rms_norm(memory[:, :8], weight)
    rms_norm(memory[:, :8], weight, out=memory[:, 8:])
    assert_close(memory[:, 8:].copy(), exact, length=8)
    exact = reference.swiglu(memory)
    both = memory.copy()
    assert_close(swiglu(both, out=both[:, :8]), exact)
    both = memory.copy()
    assert_close(swiglu(both, out=both[:, 8:]), exact)


def test_adamw_of_arrays_that_share_memory_is_refused(rng):
    p, g, m, v = (random(rng, 64) for _ in range(4))
    for arrays in ((p, p, m, v), (p, g, m, m), (p, g, p, v), (p, g, m, p[:64])):
        before = [x.copy() for x in (p, g, m, v)]
        for call in (lambda arrays: adamw(*arrays, 1), lambda arrays: adamw(*([x] for x in arrays), 1)):
            with pytest.raises(errors.ArgumentError, match="expected memory apart from"):
                call(arrays)
        assert all((x == y).all() for x, y in zip((p, g, m, v), before, strict=True))
    with pytest.raises(errors.ArgumentError, match=r"parameter\[1\]: expected memory apart from parameter\[0\]"):
        adamw([p, p], [g, g], [m, m.copy()], [v, v.copy()], 1)
    adamw([p, p.copy()], [g, g], [m, m.copy()], [v, v.copy()], 1)  # sharing one gradient is fine: it is only read


def test_lengths_and_tables_of_any_stride(rng):
    q, (k, v) = random(rng, (3, 2, 16)), random(rng, (2, 3, 40, 1, 16))
    lengths = np.array([5, 99, 40, 99, 17, 99], np.int32)[::2]
    assert_close(decode_attention(q, k, v, lengths), attention_reference.decode_attention(q, k, v, lengths), length=40)
    pages = np.stack([rng.permutation(6), np.full(6, 77)], axis=1).reshape(-1)[::2].reshape(3, 2).astype(np.int32)
    wide = np.stack([pages, np.full((3, 2), 99, np.int32)], axis=2).reshape(3, 4)[:, ::2]
    assert wide.strides == (16, 8)
    paged_k, paged_v = random(rng, (2, 6, 20, 1, 16))
    got = decode_attention(q, paged_k, paged_v, lengths, block_table=wide)
    want = attention_reference.decode_attention(q, paged_k, paged_v, lengths, block_table=pages)
    assert_close(got, want, length=40)


@pytest.mark.parametrize("length, options", [(41, {}), (-1, {}), (30, {"max_length": 20})])
def test_lengths_beyond_the_cache_stop_the_kernel(rng, length, options):
    q, (k, v) = random(rng, (1, 2, 16)), random(rng, (2, 1, 40, 1, 16))
    with pytest.raises(errors.DeviceAssertError, match="a length beyond"):
        decode_attention(q, k, v, np.array([length]), **options)


@pytest.mark.parametrize("given", [{"positions": np.array([1, 7])}, {"positions": np.array([[0, -1]])},
                                   {"offset": np.array([2])}, {"offset": np.array(-1)}], ids=str)  # fmt: skip
def test_positions_outside_the_tables_stop_the_kernel(rng, given):
    with pytest.raises(errors.DeviceAssertError, match="rope: a position outside the tables"):
        rope(random(rng, (1, 2, 1, 4)), None, *random(rng, (2, 3, 2)), **given)


def far_rows(dtype, count, stride, n):
    """`count` rows of `n` elements, `stride` elements apart, in memory that is allocated only where it is touched."""
    size = np.dtype(dtype).itemsize
    memory = mmap.mmap(-1, ((count - 1) * stride + n) * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
    flat = np.frombuffer(memory, np.uint8).view(dtype)
    return np.lib.stride_tricks.as_strided(flat, (count, n), (stride * size, size))


@pytest.mark.parametrize("stride", [(1 << 31) - 16, (1 << 31) + 16, (1 << 30) + 8])
def test_rows_further_apart_than_32_bits(rng, stride):
    x, out = (far_rows(np.float16, 4, stride, 32) for _ in range(2))
    x[...] = random(rng, (4, 32), "float16")
    weight = random(rng, 32, "float16")
    rms_norm(x, weight, out=out)
    assert_close(np.array(out), norm_reference.rms_norm(x, weight), length=32)
    softmax(x, out=out)
    assert_close(np.array(out), softmax_reference.softmax(x), length=32)
    swiglu(x, x, out=out)
    assert_close(np.array(out), reference.swiglu(x, x))
    assert (embedding(np.array([3, 1, 3]), x) == x[[3, 1, 3]]).all()
    values, _ = topk(x, 3)
    assert (values == -np.sort(-x, axis=1)[:, :3]).all()
    product = matmul(x, x.T, out_dtype="float32")
    assert_close(product, np.asarray(x, np.float64) @ np.asarray(x, np.float64).T, length=32)


@pytest.mark.parametrize("stride", [(1 << 31) - 16, (1 << 31) + 16, (1 << 30) + 8])
def test_tokens_further_apart_than_32_bits(rng, stride):
    far = far_rows(np.float16, 4, stride, 32)
    far[...] = random(rng, (4, 32), "float16")
    near = far.copy()
    for step in (1, -1):
        x, y = far[::step].reshape(1, 4, 2, 16), near[::step].copy().reshape(1, 4, 2, 16)
        assert x.base is not None and abs(x.strides[1]) == stride * 2
        # The same bits as for arrays that are close together.
        assert (attention(x, x, x) == attention(y, y, y)).all()
        cos, sin = random(rng, (2, 9, 8))
        assert (rope(x, x, cos, sin)[0] == rope(y, y, cos, sin)[0]).all()
        q, lengths = random(rng, (1, 2, 16), "float16"), np.array([4])
        assert (decode_attention(q, x, x, lengths) == decode_attention(q, y, y, lengths)).all()
        pages, copied = x.reshape(4, 1, 2, 16), y.reshape(4, 1, 2, 16)
        table = {"block_table": np.array([[3, 1, 0, 2]], np.int32)}
        got = decode_attention(q, pages, pages, lengths, **table)
        assert np.shares_memory(pages, far) and (got == decode_attention(q, copied, copied, lengths, **table)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_reversed_and_broadcast_inputs(rng, dtype):
    x, weight = random(rng, (5, 12)).astype(dtype), random(rng, 12).astype(dtype)
    for view in (x[::-1], x[:, ::-1], x[::-2, ::3], np.broadcast_to(x[1], (4, 12)), np.broadcast_to(x[:, :1], (5, 12))):
        n = view.shape[1]
        for w in (weight[:n], weight[:n][::-1], np.broadcast_to(weight[0], (n,))):
            assert_close(rms_norm(view, w), norm_reference.rms_norm(view, w), length=n)
            if np.ptp(np.asarray(view, np.float64), axis=1).any():  # equal numbers would leave only roundings
                assert_close(layer_norm(view, w, w), norm_reference.layer_norm(view, w, w), length=n, scale=10)
        assert_close(softmax(view), softmax_reference.softmax(view), length=n)
        assert_close(swiglu(view, view), reference.swiglu(view, view))
        assert_close(bias_gelu(view), reference.bias_gelu(view))
        out = np.zeros_like(x)[: view.shape[0], ::-1][:, :n]
        assert_close(np.array(softmax(view, out=out)), softmax_reference.softmax(view), length=n)


@pytest.mark.parametrize("shape", [(0, 8), (3, 0), (0, 0), (2, 0, 4)], ids=str)
def test_arrays_without_elements(shape):
    x, w = np.zeros(shape, np.float32), np.ones(shape[-1], np.float32)
    for out in (add(x, x), softmax(x), rms_norm(x, w), layer_norm(x, w, w), swiglu(x, x), bias_gelu(x, w),
                *residual_rms_norm(x, x, w)):  # fmt: skip
        assert out.shape == shape
    assert sum_all(x) == 0
    assert embedding(np.zeros(shape[:-1], np.int64), np.ones((3, 4), np.float32)).shape == (*shape[:-1], 4)
    assert linear(x, np.ones((5, shape[-1]), np.float32)).shape == (*shape[:-1], 5)
    assert not linear(x, np.ones((5, shape[-1]), np.float32)).any() or shape[-1]


def test_rope_of_nothing_and_of_far_heads(rng):
    cos, sin = random(rng, (2, 9, 4))
    for shape in ((0, 3, 2, 8), (2, 0, 2, 8), (2, 3, 0, 8)):
        q, k = rope(np.zeros(shape, np.float32), None, cos, sin)
        assert q.shape == shape and k is None
