"""A compiled kernel on its own: launched, and queried for its origin and its resource use."""

from __future__ import annotations

import pickle
import re

import fake_cuda
import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, knobs


@kiln.jit
def scaled(x, out, n, factor, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + at, kl.load(x + at, mask=at < n) * factor, mask=at < n)


def arrays(dtype=np.float32, count=100):
    return np.arange(count).astype(dtype), np.zeros(count, dtype)


def test_it_launches_its_own_code():
    x, out = arrays()
    compiled = scaled[(1,)](x, out, 32, 2.0, BLOCK=64)
    before = len(scaled.compiled_kernels)
    assert compiled[(2,)](x, out, 96, 3.0, BLOCK=64) is compiled
    assert np.array_equal(out[:96], x[:96] * 3) and not out[96:].any()
    # Constants may be omitted; a grid may be a function of the arguments.
    compiled[lambda meta: (kiln.cdiv(meta["n"], meta["BLOCK"]),)](x, out, n=64, factor=4.0)
    assert np.array_equal(out[:64], x[:64] * 4)
    assert len(scaled.compiled_kernels) == before, "nothing is compiled anew"


def test_values_unknown_to_the_code_may_change():
    x, out = arrays(count=128)
    compiled = scaled[(2,)](x[1:], out, 99, 2.0, BLOCK=64)
    assert "x=*fp32," in compiled.signature
    for n in (1, 16, 99):  # for 1 and multiples of 16, launches of the kernel have specialised code
        out[:] = 0
        compiled[(2,)](x, out, n, 2.0)
        assert np.array_equal(out, np.where(np.arange(128) < n, x * 2, 0))


def refused(compiled, *args, **kwargs):
    with pytest.raises(errors.LaunchError) as caught:
        compiled[(1,)](*args, **kwargs)
    return str(caught.value)


def test_values_that_the_code_relies_on_are_checked():
    x, out = arrays()
    compiled = scaled[(1,)](x, out, 32, 2.0, BLOCK=64)
    assert "'x': expected a multiple of 16" in refused(compiled, x[1:], out, 32, 2.0)
    assert "'n': expected a multiple of 16" in refused(compiled, x, out, 31, 2.0)
    assert "'n': expected a value of type i32" in refused(compiled, x, out, 2**40, 2.0)
    assert "'x': expected a value of type *fp32 (because the code is compiled for it), got a value of type *fp64" in (
        refused(compiled, x.astype(np.float64), out, 32, 2.0)
    )
    assert "'BLOCK': expected 64 (because the code is compiled for it), got 32" in refused(
        compiled, x, out, 32, 2.0, 32
    )
    assert "expected no launch options (because the code is compiled already), got num_warps=8" in (
        refused(compiled, x, out, 32, 2.0, num_warps=8)
    )
    assert "expected a value for 'factor', got none" in refused(compiled, x, out, 32)
    assert "'x': expected an array that no other argument overlaps" in refused(compiled, out, out, 32, 2.0)
    one = scaled[(1,)](x, out, 1, 2.0, BLOCK=64)
    assert "'n': expected 1 (because the code is compiled for it), got a value of type i32" in (
        refused(one, x, out, 2, 2.0)
    )


def test_tuples_and_descriptors_are_compared_too():
    from kiln.tools.tensor_descriptor import TensorDescriptor

    @kiln.jit
    def copy(desc, pair):
        kl.store(pair[0] + kl.arange(0, 4)[:, None] * 8 + kl.arange(0, 8)[None, :], desc.load([pair[1], 0]))

    x, out = np.arange(128, dtype=np.float32).reshape(16, 8), np.zeros((4, 8), np.float32)
    compiled = copy[1](TensorDescriptor.from_tensor(x, [4, 8]), (out, 4))
    compiled[1](TensorDescriptor.from_tensor(x, [4, 8]), (out, 8))
    assert np.array_equal(out, x[8:12])
    wide = TensorDescriptor.from_tensor(x, [8, 8])
    assert "'desc': expected a value of type tensordesc<fp32[4,8]>" in refused(compiled, wide, (out, 8))
    assert "'pair': expected a tuple of 2" in refused(compiled, TensorDescriptor.from_tensor(x, [4, 8]), (out,))


def test_where_it_comes_from():
    x, out = arrays()
    compiled = scaled[(1,)](x, out, 33, 2.0, BLOCK=64)
    assert compiled.src.fn is scaled and compiled.src.name == "scaled"
    assert compiled.src.signature == {"x": "*fp32", "out": "*fp32", "n": "i32", "factor": "fp32", "BLOCK": "constexpr"}
    assert compiled.src.constants == {"BLOCK": 64} and compiled.src.attrs == {"x": 16, "out": 16}
    assert compiled.src.text == scaled.src and scaled.src.startswith("@kiln.jit\ndef scaled(x, out, n, factor")


def test_a_key_for_the_code():
    x, out = arrays()
    key = scaled[(1,)](x, out, 33, 2.0, BLOCK=64).cache_key
    again = scaled[(3,)](out, x, 34, 5.0, BLOCK=64)
    assert again.cache_key == key == again.hash == again.metadata.hash and len(key) == 64
    others = [scaled[(1,)](x, out, 32, 2.0, BLOCK=64), scaled[(1,)](x, out, 33, 2.0, BLOCK=32)]
    with knobs.scope(target="sm_90a"):
        for options in ({}, {"num_warps": 8}, {"schedule": "none"}):
            others.append(scaled.warmup(kl.float32, kl.float32, 33, 2.0, BLOCK=64, **options))
    assert len({key, *(other.cache_key for other in others)}) == 6
    assert scaled.cache_key == scaled.cache_key != make_other().cache_key


def make_other():
    @kiln.jit
    def scaled(x):
        kl.store(x, 0.0)

    return scaled


@pytest.mark.cpu
def test_metadata_by_attribute():
    x, out = arrays()
    metadata = scaled[(1,)](x, out, 33, 2.0, BLOCK=64, num_stages=3).metadata
    assert metadata.name == metadata["name"] == "scaled" and metadata.arguments[0].type == "*fp32"
    assert (metadata.num_warps, metadata.num_stages, metadata.shared, metadata.num_ctas) == (1, 3, 0, 1)
    assert metadata.target.backend == "cpu" and metadata.target.warp_size == 1 and metadata.cluster_dims == (1, 1, 1)
    assert metadata.enable_fp_fusion is True and metadata.maxnreg is None and not hasattr(metadata, "nothing")
    again = pickle.loads(pickle.dumps(metadata))
    assert again == metadata and again.num_stages == 3 and again.target.backend == "cpu"
    with pytest.raises(AttributeError, match=r"no entry 'colour'; there are .*num_warps"):
        metadata.colour  # noqa: B018
    with knobs.scope(target="sm_90a"):
        metadata = scaled.warmup(kl.float32, kl.float32, 33, 2.0, BLOCK=64, num_warps=8, maxnreg=64).metadata
    assert (metadata.num_warps, metadata.num_ctas, metadata.shared, metadata.maxnreg) == (8, 1, 0, 64)
    assert metadata.target.backend == "cuda" and metadata.target.arch == 90 and metadata.warp_size == 32


@pytest.mark.cpu
def test_resources_on_the_cpu():
    x, out = arrays()
    light = scaled[(1,)](x, out, 33, 2.0, BLOCK=64)
    assert 1 <= light.n_regs <= 32 and light.n_max_threads == 1 and light.shared == 0
    # Its only function reserves stack for what it keeps across the check whether to stop.
    reserved = re.search(r"subq\s+\$(\d+), %rsp", light.asm["asm"])
    assert light.n_spills == (int(reserved[1]) // 4 if reserved else 0)
    assert light.num_warps == 1 and light.num_ctas == 1
    with pytest.raises(AttributeError, match="kernel scaled for cpu has no occupancy"):
        light.occupancy  # noqa: B018

    @kiln.jit
    def product(a, b, c):
        i, j = kl.arange(0, 64)[:, None], kl.arange(0, 64)[None, :]
        kl.store(c + i * 64 + j, kl.dot(kl.load(a + i * 64 + j), kl.load(b + i * 64 + j)))

    a = np.ones((64, 64), np.float32)
    heavy = product[(1,)](a, a, np.zeros_like(a))
    assert heavy.n_regs > light.n_regs


def test_the_figures_are_read_off_the_assembly():
    from kiln.runtime.metadata import cpu_usage

    text = """# kiln.metadata: {"note":"%zmm31"}
    \tsubq\t$136, %rsp
    \tvmovups\t%zmm3, 64(%rsp)
    \tvaddps\t-8(%rsp), %ymm3, %xmm17
    """
    assert cpu_usage(text) == (2, 144)
    assert cpu_usage("\tvmovaps\t-64(%rsp,%rax), %xmm0\n\tvmovups\t-64(%rsp), %zmm0\n\tretq") == (1, 64)


@pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")
def test_on_a_gpu(tmp_path):
    fake_cuda.run(
        tmp_path,
        """
        x, out = CudaArray(np.zeros(64, np.float32)), CudaArray(np.zeros(64, np.float32))
        compiled = double[(1,)](x, out, 64, BLOCK=64, num_warps=8)
        kinds = []
        on_launch(lambda launch, words: kinds.append((launch.grid[0], launch.block[0], int(words[2]) & 0xffffffff)))
        assert compiled[(3,)](x, out, 48) is compiled and kinds == [(3, 256, 48)], kinds
        assert compiled.n_max_threads > 0 and compiled.metadata.num_warps == 8
        host = np.zeros(64, np.float32)
        for arguments, message in [((host, host, 64), "array"), ((x, out, 7), "'n': expected a multiple of 16")]:
            try:
                compiled[(1,)](*arguments)
            except errors.LaunchError as error:
                assert message in str(error), error
            else:
                raise AssertionError(message)
        here = double[(1,)](host, np.zeros_like(host), 64, BLOCK=64)
        try:
            here[(1,)](x, out, 64)
        except errors.LaunchError as error:
            assert "expected arrays on the CPU" in str(error), error
        else:
            raise AssertionError
        """,
        before=fake_cuda.DOUBLE,
    )


@pytest.mark.cpu
def test_code_without_a_device_says_so():
    with knobs.scope(target="sm_90a"):
        compiled = scaled.warmup(kl.float32, kl.float32, 32, 2.0, BLOCK=64)
        assert compiled.n_regs > 0 and compiled.n_spills == 0
        with pytest.raises(errors.UsageError, match="n_max_threads is known on a machine with a GPU only"):
            compiled.n_max_threads  # noqa: B018
