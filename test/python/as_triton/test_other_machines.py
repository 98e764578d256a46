"""Code for a GPU that is not present, how compile times are reported, and parts of arrays through ragged
descriptors."""

import sys

import kiln
import numpy as np
import pytest
from kiln import errors

pytestmark = pytest.mark.cpu


@pytest.fixture
def double(triton, tl):
    @triton.jit
    def double(x, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(x + i, tl.load(x + i) * 2)

    return double


def test_a_warmup_compiles_for_the_architecture_asked_for(double):
    x = np.ones(64, np.float32)
    code = double.warmup(x, B=64, arch="sm80", grid=(1,))
    assert code.metadata.target.arch == 80
    assert ".target sm_80" in code.asm["ptx"]
    double[(1,)](x, B=64)  # not that code
    assert (x == 2).all()


def test_a_switch_names_the_architecture(double, runtime, monkeypatch):
    x = np.ones(64, np.float32)
    double[(1,)](x, B=64)
    runtime.override_arch = "sm90"
    assert ".target sm_90a" in double.warmup(x, B=64, grid=(1,)).asm["ptx"]
    with pytest.raises(errors.LaunchError, match=r"expected a warmup for sm90 \(because its code does not run on cpu"):
        double[(1,)](x, B=64)
    del runtime.override_arch
    double[(1,)](x, B=64)
    assert (x == 4).all()
    monkeypatch.setenv("TRITON_OVERRIDE_ARCH", "sm86")
    assert ".target sm_86" in double.warmup(x, B=64, grid=(1,)).asm["ptx"]


def test_an_unknown_architecture_is_named(double):
    with pytest.raises(errors.UserError, match="expected an architecture such as 'sm80' or 'sm90', got 'gfx942'"):
        double.warmup(np.ones(64, np.float32), B=64, arch="gfx942", grid=(1,))
    with pytest.raises(errors.UserError, match="expected a target that is a row"):
        double.warmup(np.ones(64, np.float32), B=64, arch="sm12", grid=(1,))


def test_clusters_need_a_hopper(double, runtime):
    runtime.override_arch = "sm80"
    with pytest.raises(ValueError, match=r"num_ctas > 1 requires NVIDIA SM90\+ \(Hopper\)"):
        double.warmup(np.ones(64, np.float32), B=64, grid=(1,), num_ctas=2)


def test_a_listener_gets_the_compile_time(triton, double, tmp_path):
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import IRSource
    from triton.knobs import CompileTimes

    told = []
    with triton.knobs.compilation.scope(), kiln.knobs.scope(cache=str(tmp_path)):
        triton.knobs.compilation.listener = lambda **facts: told.append(facts)
        double[(1,)](np.ones(64, np.float32), B=64)
        double[(1,)](np.ones(64, np.float32), B=64)
        assert len(told) == 1
        double.device_caches.clear()
        double[(1,)](np.ones(64, np.float32), B=64)
    double[(1,)](np.ones(32, np.float32), B=32)
    assert len(told) == 2  # no listener remains
    first, second = told
    times = first["times"]
    assert not first["cache_hit"] and isinstance(times, CompileTimes)
    assert first["metadata"]["hash"] and isinstance(first["metadata"]["target"], GPUTarget)
    assert first["src"].fn is double and not isinstance(first["src"], IRSource)
    assert min(times.ir_initialization, times.total_lowering, times.store_results) > 0
    assert times.total == times.ir_initialization + times.total_lowering + times.store_results
    again = second["times"]
    assert second["cache_hit"] and again.ir_initialization > 0 == again.total_lowering == again.store_results


@pytest.mark.parametrize("dim", [0, 1])
def test_ragged_descriptors_end_where_their_part_does(triton, tl, dim):
    from triton.tools.ragged_tma import atomic_add_ragged, create_ragged_descriptor, load_ragged, store_ragged

    @triton.jit
    def move(x, y, from_, to, size, room, ADD: tl.constexpr, DIM: tl.constexpr):
        where = [0, 0] if DIM == 0 else [0, 0, 0]
        data = load_ragged(x, from_, size, where, DIM)
        if ADD:
            atomic_add_ragged(y, to, room, where, data, DIM)
        else:
            store_ragged(y, to, room, where, data, DIM)

    rng = np.random.default_rng(0)
    shape, block = ((100, 16), [32, 16]) if dim == 0 else ((2, 100, 16), [2, 32, 16])
    x, before = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    for add in (False, True):
        y = before.copy()
        descriptors = [create_ragged_descriptor(array, block, dim) for array in (x, y)]
        move[(1,)](*descriptors, 42, 51, 17, 24, ADD=add, DIM=dim)
        data = np.zeros_like(np.moveaxis(before, dim, 0)[:24])
        data[:17] = np.moveaxis(x, dim, 0)[42:59]
        expected = np.moveaxis(before.copy(), dim, 0)
        expected[51:75] = expected[51:75] + data if add else data
        np.testing.assert_array_equal(np.moveaxis(y, dim, 0), expected)


def test_the_last_dimension_is_not_ragged(triton):
    from triton.tools.ragged_tma import create_ragged_descriptor

    with pytest.raises(errors.LaunchError, match="expected a dimension before the last"):
        create_ragged_descriptor(np.zeros((4, 16), np.float32), [4, 16], 1)
    with pytest.raises(errors.LaunchError, match="expected 2 or 3 dimensions"):
        create_ragged_descriptor(np.zeros(16, np.float32), [16])


def test_there_are_no_files_of_triton_s_stages(triton):
    with pytest.raises(errors.UsageError, match=r"expected no IRSource .* got one of 'kernel.ttgir'"):
        triton.compiler.IRSource("kernel.ttgir")


def test_code_kept_before_triton_was_imported_is_found_after(triton, tmp_path):
    import kiln.language as kl

    @kiln.jit
    def fill(x, B: kl.constexpr):
        kl.store(x + kl.arange(0, B), 1)

    x = np.zeros(64, np.float32)
    hidden = sys.modules.pop("kiln.as_triton.language")
    try:
        with kiln.knobs.scope(cache=str(tmp_path)):
            fill[(1,)](x, B=64)
    finally:
        sys.modules["kiln.as_triton.language"] = hidden
    fill.unload()
    with kiln.knobs.scope(cache=str(tmp_path), frozen=str(tmp_path)):  # found through the source, or an error
        fill[(1,)](x, B=64)
        fill.unload()
        with triton.knobs.runtime.scope():
            triton.knobs.runtime.debug = True
            with pytest.raises(errors.FrozenError):
                fill[(1,)](x, B=64)


def test_a_kernel_asks_for_the_integers_of_a_width(triton, tl):
    @triton.jit
    def bits(x, y):
        v = tl.load(x + tl.arange(0, 4))
        kind = tl.core.get_int_dtype(bitwidth=v.dtype.primitive_bitwidth, signed=True)
        tl.store(y + tl.arange(0, 4), v.to(kind, bitcast=True))

    x, y = np.array([1, -1, 0, 2], np.float32), np.empty(4, np.int32)
    bits[(1,)](x, y)
    np.testing.assert_array_equal(y, x.view(np.int32))
    assert tl.core.get_int_dtype(16, False) == tl.uint16
