"""The host side: driver, launches, arrays reinterpreted as another type, hooks, switches, errors."""

import inspect
import os
import sys
import types

import kiln
import numpy as np
import pytest
from kiln import errors

pytestmark = pytest.mark.cpu


class Array:
    """The attributes of a tensor that a wrapper provides."""

    def __init__(self, array, dtype=None):
        self.array, self.dtype, self.shape = array, dtype or array.dtype, array.shape
        self.nbytes = array.nbytes

    def data_ptr(self):
        return self.array.ctypes.data


@pytest.fixture
def double(triton, tl):
    @triton.jit
    def double(x, y, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

    return double


def test_the_cpu_is_a_device(triton):
    active = triton.runtime.driver.active
    target = active.get_current_target()
    assert (target.backend, target.warp_size) == ("cpu", 1)
    facts = active.utils.get_device_properties(active.get_current_device())
    assert facts["multiprocessor_count"] == active.utils.get_device_properties()["multiprocessor_count"] >= 1
    assert set(facts) >= {"max_shared_mem", "max_num_regs", "warpSize", "sm_clock_rate", "mem_bus_width"}
    assert active.get_current_stream(0) == 0


def test_threads_are_the_cpu_s_multiprocessors(triton):
    with kiln.knobs.scope(num_threads=3):
        assert triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"] == 3


def test_another_driver_can_be_asked(triton):
    driver = triton.runtime.driver
    other = object()
    driver.set_active(other)
    try:
        assert driver.active is other and driver.default is not other
    finally:
        driver.reset_active()
    assert driver.active is driver.default


@pytest.mark.parametrize("n,power", [(-3, 0), (0, 0), (1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048)])
def test_next_power_of_2_is_triton_s(triton, n, power):
    assert triton.next_power_of_2(n) == power


def test_cdiv_of_the_host_in_a_kernel(triton, tl):
    @triton.jit
    def kernel(x, n, BLOCK: tl.constexpr):
        parts: tl.constexpr = triton.next_power_of_2(triton.cdiv(BLOCK, 3))
        tl.store(x + tl.arange(0, parts), triton.cdiv(n, BLOCK))

    x = np.zeros(8, np.int32)
    kernel[(1,)](x, 100, BLOCK=8)
    assert x.tolist() == [13, 13, 13, 13, 0, 0, 0, 0]


def test_a_compiled_kernel_reports_its_resources(triton, double):
    x = np.ones(100, np.float32)
    y = np.empty_like(x)
    kernel = double[(1,)](x, y, 100, BLOCK=128, num_warps=8, num_stages=2)
    assert isinstance(kernel, triton.compiler.CompiledKernel)
    known = kernel.metadata
    assert (known.num_warps, known.num_stages, known.num_ctas, known.name) == (8, 2, 1, "double")
    assert known.shared == kernel.shared >= 64 and known.target.backend == "cpu" and known.hash == kernel.hash
    assert kernel.n_regs > 0 and kernel.n_spills >= 0 and kernel.n_max_threads > 0
    assert "tile.load" in kernel.asm["ttir"] and "define" in kernel.asm["llir"] and "ptx" not in kernel.asm
    with pytest.raises(AttributeError, match="no 'nonsense'"):
        _ = known.nonsense
    assert kernel.src.constants == {(3,): 128} and kernel.src.signature["x"] == "*fp32"
    assert kernel.src.attrs[(0,)] == [["tt.divisibility", 16]]


def test_resources_of_code_for_an_absent_gpu(triton, tl, double):
    with kiln.knobs.scope(target="sm_90a"):
        kernel = double.warmup(tl.float32, tl.float32, 100, BLOCK=128, num_warps=8, grid=(1,))
        assert kernel.n_regs == kernel.metadata["cuda"]["usage"]["registers"] and kernel.n_spills == 0
    assert kernel.metadata.num_warps == 8 and kernel.metadata.target.backend == "cuda"


def test_a_compiled_kernel_is_launched(double):
    x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    kernel = double.warmup(x, y, 100, BLOCK=32, grid=(1,))
    assert not y.any()
    kernel[(4, 1, 1)](x, y, 100, 32)
    assert (y == 2 * x).all()
    y[:] = 0
    kernel.run(4, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, x, y, 100, 32)
    assert (y == 2 * x).all()
    one = double.warmup(x, y, 1, BLOCK=32, grid=(1,))  # 1 is a constant in the code, and still an argument
    y[:] = 0
    one[(1, 1, 1)](x + 1, y, 1)
    assert y[0] == 2 and not y[1:].any()
    with pytest.raises(errors.LaunchError, match=r"expected 4 arguments, or the 3 .* got 2"):
        kernel[(4, 1, 1)](x, y)


def test_warmup_takes_types(triton, tl, double):
    kernel = double.warmup(tl.float16, triton.MockTensor(tl.float32, (4, 8)), 64, BLOCK=32, grid=(1,))
    assert kernel.src.signature == {"x": "*fp16", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    assert triton.MockTensor(tl.float32, (4, 8, 2)).stride() == (16, 2, 1)


def test_a_jit_function_has_triton_s_attributes(triton, tl):
    @triton.jit(do_not_specialize=["n"])
    def kernel(x, n: tl.int32, C: tl.const, BLOCK: tl.constexpr = 64):
        tl.store(x, n + BLOCK)

    assert isinstance(kernel, triton.JITFunction) and isinstance(kernel, triton.KernelInterface)
    assert list(kernel.signature.parameters) == kernel.arg_names == ["x", "n", "C", "BLOCK"]
    assert [p.num for p in kernel.params] == [0, 1, 2, 3] and kernel.constexprs == [3]
    assert [p.default for p in kernel.params] == [inspect._empty] * 3 + [64]
    assert [p.has_default for p in kernel.params] == [False, False, False, True]
    assert [p.is_const for p in kernel.params] == [False, False, True, False]
    assert [p.do_not_specialize for p in kernel.params] == [False, True, False, False]
    assert kernel.params[1].annotation_type == "i32"
    assert kernel.src.startswith("def kernel(") and kernel.raw_src[0].strip().startswith("@triton.jit")
    assert kernel.module == __name__ and kernel.__globals__ is globals()
    assert kernel.repr(None) == f"{__name__}.{kernel.__qualname__}"
    lines, start = inspect.getsourcelines(kernel.fn)
    assert kernel.starting_line_number == start and len(lines) == len(kernel.raw_src)


def test_arrays_of_fp8e4b15_are_bytes_seen_as_it(triton, tl):
    @triton.jit
    def convert(x, y, B: tl.constexpr):
        i = tl.arange(0, B)
        tl.store(y + i, tl.load(x + i).to(y.dtype.element_ty))

    codes = np.array([0x00, 0x01, 0x78, 0x7E, 0xB9, 0x80, 0x33, 0xFE], np.uint8)
    numbers, back = np.empty(8, np.float32), np.zeros(8, np.uint8)
    convert[(1,)](triton.reinterpret(Array(codes), tl.float8e4b15), numbers, B=8)
    np.testing.assert_array_equal(numbers, [0, 2.0**-17, 1, 1.75, -1.125 * 2.0**-8, 0, 1.375 * 2.0**-9, -1.75])
    convert[(1,)](numbers, triton.reinterpret(Array(back), tl.float8e4b15), B=8)
    np.testing.assert_array_equal(back, codes)


def test_reinterpret_reads_another_type(triton, tl, double):
    bits = np.full(32, 0x3C, np.uint8)  # 1.0 in fp8e5
    out = np.zeros(32, np.float32)
    seen = triton.reinterpret(Array(bits), tl.float8e5)

    @triton.jit
    def widen(x, y, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(y + i, tl.load(x + i).to(tl.float32))

    kernel = widen[(1,)](seen, out, BLOCK=32)
    assert (out == 1).all() and kernel.src.signature["x"] == "*fp8e5"
    assert triton.reinterpret(seen, bits.dtype) is seen.base
    assert triton.reinterpret(seen, tl.int8).base is seen.base
    with pytest.raises(TypeError, match="data_ptr"):
        triton.reinterpret(bits, tl.float8e5)


def test_launch_hooks(triton, tl):
    @triton.jit(launch_metadata=lambda grid, metadata, args: {"flops": args["n"], "warps": metadata.num_warps})
    def kernel(x, n):
        tl.store(x, n)

    seen = []
    enter, leave = triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook

    def on_enter(told):
        seen.append(("enter", told.get()["name"], told.get()["flops"], told.get()["warps"], int(x[0])))

    def on_exit(told):
        seen.append(("exit", int(x[0])))

    x = np.zeros(1, np.int32)
    enter.add(on_enter)
    leave.add(on_exit)
    try:
        kernel[(1,)](x, 7, num_warps=2)
    finally:
        enter.remove(on_enter)
        leave.remove(on_exit)
    kernel[(1,)](x, 8)
    assert seen == [("enter", "kernel", 7, 2, 0), ("exit", 7)] and x[0] == 8


def test_hooks_are_called_for_compiles(runtime, double):
    seen = []

    def before(*, key, repr, fn, compile, is_manual_warmup, already_compiled):
        seen.append(("before", key, len(double.compiled_kernels)))
        assert fn.name.endswith("double") and fn.jit_function is double and fn.module == __name__
        assert compile["signature"] == {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        assert compile["constants"] == {(3,): 16} and compile["num_warps"] == 2 and compile["key"] == key
        assert "num_warps=2" in repr and "x: *fp32" in repr and not is_manual_warmup and not already_compiled
        return False

    def after(*, key, **rest):
        seen.append(("after", key, len(double.compiled_kernels)))

    runtime.jit_cache_hook, runtime.jit_post_compile_hook = before, after
    x, y = np.ones(20, np.float32), np.zeros(20, np.float32)
    for n in (20, 19):
        double[(2,)](x, y, n, BLOCK=16, num_warps=2)
    assert (y[:19] == 2).all()
    assert [(what, count) for what, _, count in seen] == [("before", 0), ("after", 1)] and seen[0][1] == seen[1][1]


def test_compile_hooks_get_the_libraries(runtime, double):
    told = []
    runtime.jit_post_compile_hook = lambda **facts: told.append(facts["compile"]["extern_libs"])
    for libraries in (None, {"libdevice": "/nowhere/libdevice.10.bc"}):
        double[(1,)](np.zeros(4, np.float32), np.zeros(4, np.float32), 4, BLOCK=4, extern_libs=libraries)
    assert told == [(), (("libdevice", "/nowhere/libdevice.10.bc"),)]


def test_a_hook_may_decline_a_compile(runtime, double):
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    runtime.jit_cache_hook = lambda **told: True
    assert double[(1,)](x, y, 16, BLOCK=16) is None
    assert not y.any() and not double.compiled_kernels
    runtime.jit_cache_hook = None
    double[(1,)](x, y, 16, BLOCK=16)
    assert (y == 2).all()


def test_specialisations_are_listed_and_dropped(runtime, double):
    told = []
    runtime.jit_cache_hook = lambda **facts: told.append(facts["key"])
    kernels, *_ = double.device_caches[0]
    assert len(kernels) == 0 and len(double.device_caches) == 0
    x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    double[(1,)](x, out, 4, BLOCK=4)
    double[(1,)](x, out, 4, BLOCK=8)
    assert list(kernels) == told and [code.src.constants[3,] for code in kernels.values()] == [4, 8]
    assert list(double.device_caches) == [0]
    kernels.pop(told[0])
    double[(1,)](x, out, 4, BLOCK=8)
    assert list(kernels) == told[1:] and len(told) == 2
    double[(1,)](x, out, 4, BLOCK=4)
    assert told[2] == told[0] and set(kernels) == set(told)
    kernels.clear()
    double[(1,)](x, out, 4, BLOCK=4)
    assert len(told) == 4 and len(kernels) == 1
    double.device_caches.clear()
    assert not kernels and not double.compiled_kernels
    with pytest.raises(KeyError):
        double.device_caches["cuda"]


PRELOAD = """
import sys, json, numpy as np, kiln.as_triton
kiln.as_triton.install()
import triton, triton.language as tl

@triton.jit
def inner(v): return v + 1

@triton.jit
def kernel(x, scale, kind: tl.constexpr, f: tl.constexpr, pair):
    tl.store(x + tl.arange(0, 4), (f(tl.load(x + tl.arange(0, 4))) * scale + pair[1]).to(kind))

arguments = lambda: (np.arange(4, dtype=np.float32), 2.5, tl.float32, inner, (np.zeros(1, np.float32), 7))
told = []
hook = lambda **facts: told.append((facts["key"], facts["compile"]["specialization_data"]))
triton.knobs.runtime.jit_cache_hook = hook
"""


def test_a_specialisation_of_another_process(tmp_path):
    (tmp_path / "preloaded.py").write_text(PRELOAD)

    def run(text):
        import subprocess

        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, env=environment, check=False
        )
        assert not done.returncode, done.stderr
        return done.stdout

    data = run("""if True:
        from preloaded import *
        kernel[(1,)](*arguments())
        print(json.dumps(told[0]))
        """)
    run(f"""if True:
        from preloaded import *
        key, data = json.loads({data!r})
        code = kernel.preload(data)
        assert [one for one, _ in told] == [key] == list(kernel.device_caches[0][0])
        x, *rest = arguments()
        assert kernel[(1,)](x, *rest) is code and x.tolist() == [9.5, 12.0, 14.5, 17.0]
        assert len(told) == 1 and kernel.preload(data) is code and len(kernel.device_caches[0][0]) == 1
        kernel[(1,)](x, 2.5, tl.float32, inner, (np.zeros(1, np.float32), 8))
        assert len(told) == 1  # another integer that is no multiple of 16
        kernel[(1,)](x, 2.5, tl.float32, inner, (np.zeros(1, np.float32), 16))
        assert len(told) == 2
        try:
            inner_kernel = triton.jit(inner.fn)
            inner_kernel.preload(data)
        except RuntimeError as error:
            assert "Specialization data is for preloaded.kernel" in str(error)
        else:
            raise AssertionError
        """)


def test_an_argument_of_this_process_alone_is_no_specialisation_to_keep(triton, tl, runtime):
    told = []
    runtime.jit_cache_hook = lambda **facts: told.append((facts["key"], facts["compile"]["specialization_data"]))

    @triton.jit
    def local(v):
        return v + 1

    @triton.jit
    def kernel(x, f: tl.constexpr):
        tl.store(x, f(tl.load(x)))

    kernel[(1,)](np.zeros(1, np.int32), local)
    assert told[0][0] and told[0][1] is None


def test_compiles_by_an_executor(triton, tl):
    import concurrent.futures

    waiting = []

    class Later(concurrent.futures.Executor):
        def submit(self, work):
            waiting.append((work, concurrent.futures.Future()))
            return waiting[-1][1]

    def run_one():
        work, future = waiting.pop(0)
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    @triton.jit
    def kernel(x, a: tl.constexpr):
        tl.static_assert(a < 5)
        tl.store(x, a)

    x = np.zeros(1, np.float32)
    with triton.AsyncCompileMode(Later()) as mode:
        first, second = kernel.warmup(x, 1, grid=(1,)), kernel.warmup(x, 2, grid=(1,))
        assert kernel.warmup(x, 1, grid=(1,)) is first and len(waiting) == 2 and not kernel.compiled_kernels
        with pytest.raises(RuntimeError, match="already active"):
            mode.__enter__()
        run_one()
        kernel[(1,)](x, 1)
        assert x[0] == 1 and kernel.compiled_kernels == [first.result()] and first.name == "kernel"
        run_one()
    assert len(kernel.compiled_kernels) == 2 and second.result() in kernel.compiled_kernels
    assert isinstance(kernel.warmup(x, 3, grid=(1,)), triton.compiler.CompiledKernel)

    pool = concurrent.futures.ThreadPoolExecutor(2)
    with pytest.raises(triton.CompilationError), triton.AsyncCompileMode(pool):
        kernel.warmup(x, 5, grid=(1,))
    with triton.AsyncCompileMode(pool, ignore_errors=True):
        failed = kernel.warmup(x, 5, grid=(1,))
    assert failed.result(ignore_errors=True) is None


def test_hooks_are_called_for_loads(runtime, double):
    seen = []
    runtime.kernel_load_start_hook.add(start := lambda *told: seen.append(("start", *told)))
    runtime.kernel_load_end_hook.add(end := lambda *told: seen.append(("end", *told)))
    try:
        x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
        compiled = double[(1,)](x, y, 16, BLOCK=16)
    finally:
        runtime.kernel_load_start_hook.remove(start)
        runtime.kernel_load_end_hook.remove(end)
    double[(1,)](x, y, 16, BLOCK=8)
    (first, module, _, *_), (last, loaded, function, name, metadata, digest) = seen
    assert (first, module, last) == ("start", None, "end") and loaded is function is compiled.loaded
    assert (name, digest, metadata.num_warps) == (compiled.name, compiled.hash, 4)


def test_a_kernel_names_itself_after_its_specialisation(triton, tl):
    @triton.jit(repr=lambda s: f"fill_{s.signature['n']}_{s.constants['BLOCK']}_{s.constants.get('one')}")
    def fill(x, n, one, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), n)

    x = np.zeros(16, np.int32)
    assert fill[(1,)](x, 7, 1, BLOCK=16).name == "fill_i32_16_1"
    assert fill.warmup(tl.int32, 1 << 40, 2, BLOCK=8, grid=(1,)).name == "fill_i64_8_None"


def test_an_integer_that_is_too_long_is_an_overflow(double):
    x = np.zeros(16, np.float32)
    with pytest.raises(OverflowError, match="at most 64 bits"):
        double[(1,)](x, x, 1 << 64, BLOCK=16)
    with pytest.raises(kiln.errors.LaunchError, match="at most 64 bits"):
        double[(1,)](x, x, -(1 << 63) - 1, BLOCK=16)


def test_products_and_sums_may_stay_apart_by_default(triton, tl):
    @triton.jit
    def fused(x, y):
        i = tl.arange(0, 16)
        v = tl.load(x + i)
        tl.store(y + i, v * v - 1)

    x, y = np.full(16, np.float32(1 + 2**-12)), np.zeros(16, np.float32)
    apart = np.float32(x[0] * x[0]) - np.float32(1)
    with triton.knobs.language.scope():
        triton.knobs.language.default_fp_fusion = False
        fused[(1,)](x, y)
        assert (y == apart).all()
        fused[(1,)](x, y, enable_fp_fusion=True)
        assert (y != apart).all()
    fused[(1,)](x, y)
    assert (y != apart).all()


def test_a_group_of_switches_can_be_replaced(triton, tl):
    @triton.jit
    def fused(x, y):
        i = tl.arange(0, 16)
        v = tl.load(x + i)
        tl.store(y + i, v * v - 1)

    def is_fused():
        fused[(1,)](x, y)
        return bool((y != apart).all())

    x, y = np.full(16, np.float32(1 + 2**-12)), np.zeros(16, np.float32)
    apart = np.float32(x[0] * x[0]) - np.float32(1)
    assert is_fused()
    before = triton.knobs.language
    triton.knobs.language = before.copy().reset()
    try:
        triton.knobs.language.default_fp_fusion = False
        assert not is_fused() and before.default_fp_fusion is True
    finally:
        triton.knobs.language = before
    assert triton.knobs.language is before and before.default_fp_fusion is True and is_fused()


def test_files_of_triton_s_stages_are_refused(triton, double):
    x = np.zeros(4, np.float32)
    with pytest.raises(errors.UsageError, match=r"expected no ir_override for double .*got 'kernel.ttir'"):
        double[(1,)](x, x.copy(), 4, BLOCK=4, ir_override="kernel.ttir")


def test_subnormal_numbers_are_kept_whatever_is_asked(triton, double):
    x, y = np.full(4, np.float32(1e-40)), np.zeros(4, np.float32)
    double[(1,)](x, y, 4, BLOCK=4, enable_reflect_ftz=True)
    assert (y == 2 * x).all() and y[0] > 0


@pytest.mark.parametrize("kind,tile", [("float64", (64, 16, 64)), ("float32", (256, 128, 32))])
def test_four_stages_fit_with_a_products_other_memory(triton, tl, kind, tile):
    """Exchanged fp64 operands are counted before stages; after the loop, sums pass through the ring's memory."""

    @triton.jit
    def matmul(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr):
        rows, columns, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BLOCK)
        a_ptrs, b_ptrs = a + rows[:, None] * K + k[None, :], b + k[:, None] * N + columns[None, :]
        sums = tl.zeros((M, N), c.dtype.element_ty)
        for _ in tl.range(0, tl.cdiv(K, BLOCK), num_stages=4):
            sums = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc=sums, out_dtype=c.dtype.element_ty)
            a_ptrs += BLOCK
            b_ptrs += BLOCK * N
        tl.store(c + rows[:, None] * N + columns[None, :], sums)

    array = triton.runtime.jit.MockTensor(getattr(tl, kind))
    with kiln.knobs.scope(target="sm_90a"):
        code = matmul.warmup(array, array, array, 256, *tile, grid=(1,))
    assert 0 < code.metadata.shared <= 232448


def test_every_switch_can_be_reset_at_once(triton):
    groups = {name: g for name, g in vars(triton.knobs).items() if isinstance(g, triton.knobs.base_knobs)}
    assert {"runtime", "language", "cache"} <= set(groups)
    assert "TRITON_DEBUG" in [knob.key for knob in groups["runtime"].knob_descriptors.values()]


def test_a_tile_of_one_element_among_single_elements(triton, tl):
    """The idiom by which libraries turn a scalar into a tensor, to query its type."""

    @triton.jit
    def largest(a, b):
        x = a + tl.zeros((1,), tl.int1)
        if x.dtype.is_floating():
            return tl.where((a > b) | (a != a), a, b)
        else:
            return a

    @triton.jit
    def kernel(x, y):
        tl.store(y, tl.reduce(tl.load(x + tl.arange(0, 16)), 0, largest))

    x, y = np.arange(16, dtype=np.float32), np.zeros(1, np.float32)
    x[3] = 99
    kernel[(1,)](x, y)
    assert y[0] == 99


def test_unparenthesized_comparisons_mean_what_triton_makes_of_them(triton, tl):
    @triton.jit
    def kernel(x, y):
        v = tl.load(x + tl.arange(0, 4))
        tl.store(y + tl.arange(0, 4), v == 0 | (v > 2))

    x, y = np.array([0, 1, 2, 3], np.int32), np.full(4, 7, np.int32)
    with pytest.warns(UserWarning, match=r"write \(v == 0\) \| \(v > 2\)") as caught:
        kernel[(1,)](x, y)
    assert caught[0].filename == __file__
    assert y.tolist() == [1, 0, 0, 0]  # v == (v > 2)
    with pytest.raises(errors.CompilationError, match="expected parentheses"):
        kiln.jit(kernel.fn)[(1,)](x, y)


def test_tools_are_those_that_kiln_found(triton, monkeypatch):
    from kiln import toolchain

    monkeypatch.setattr(toolchain, "ptxas", lambda: toolchain.Tool("/opt/ptxas", "13.0.88", "a test"))
    assert triton.knobs.nvidia.ptxas == ("/opt/ptxas", "13.0")
    monkeypatch.setattr(toolchain, "nvdisasm", lambda: None)
    with pytest.raises(RuntimeError, match="Cannot find nvdisasm"):
        triton.knobs.nvidia.nvdisasm  # noqa: B018


def test_the_text_of_a_function_may_be_replaced(double):
    x, y = np.ones(16, np.float32), np.zeros(16, np.float32)
    double[(1,)](x, y, 16, BLOCK=16)
    double._unsafe_update_src(double.src.replace("* 2", "* 5"))
    double[(1,)](x, y, 16, BLOCK=16)
    assert (y == 5).all() and "* 5" in double.src


def test_types_by_their_names(triton, tl):
    from triton.runtime.jit import type_canonicalisation_dict as spelled

    assert (spelled["float16"], spelled["bool"], spelled["i64"], spelled["uint8"]) == ("fp16", "i1", "i64", "u8")
    assert tl.str_to_ty("fp32", None) == tl.float32 and tl.str_to_ty("*i8", None) == tl.pointer_type(tl.int8)


def test_switches_that_kiln_lacks_are_refused(triton):
    with pytest.raises(errors.UsageError, match="KILN_CHECK=bounds"):
        triton.knobs.runtime.interpret = True
    triton.knobs.runtime.interpret = False
    with pytest.raises(AttributeError, match="did you mean 'print'"):
        triton.knobs.autotuning.prnt = True
    with triton.knobs.autotuning.scope():
        triton.knobs.autotuning.print = True
        assert triton.knobs.autotuning.print
    assert not triton.knobs.autotuning.print


def test_switches_are_read_from_the_environment(triton, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_PRINT_AUTOTUNING", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert triton.knobs.autotuning.print is True and triton.knobs.cache.dir == str(tmp_path)


def test_files_beside_kernels(triton, monkeypatch, tmp_path):
    from triton.runtime.cache import get_cache_manager

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    cache = get_cache_manager("key")
    assert cache.get_file("a.txt") is None and cache.get_group("g") is None
    path = cache.put("text", "a.txt", binary=False)
    assert cache.get_file("a.txt") == path == os.path.join(tmp_path, "key", "a.txt")
    assert open(path).read() == "text" and sorted(os.listdir(tmp_path / "key")) == ["a.txt"]
    cache.put_group("g", {"a.txt": path, "b.txt": path + "b"})
    assert cache.get_group("g") == {"a.txt": path}


def test_the_environment_names_the_class_of_the_file_manager(triton, monkeypatch, tmp_path):
    from triton.runtime.cache import FileCacheManager, get_cache_manager

    module = types.ModuleType("managers_of_mine")
    module.Mine = type("Mine", (FileCacheManager,), {})
    monkeypatch.setitem(sys.modules, "managers_of_mine", module)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "managers_of_mine:Mine")
    assert type(get_cache_manager("key")) is module.Mine
    monkeypatch.setenv("TRITON_CACHE_MANAGER", "Mine")
    with pytest.raises(RuntimeError, match="expected MODULE:CLASS"):
        get_cache_manager("key")


def test_assertions_are_there_in_debug_mode_only(triton, tl, monkeypatch):
    def make(**options):
        @triton.jit(**options)
        def kernel(x):
            tl.device_assert(tl.load(x) > 0, "positive")
            tl.store(x, 5)

        return kernel

    x = np.zeros(1, np.int32)
    make()[(1,)](x)
    assert x[0] == 5
    kernel = make()
    for launch in (
        lambda: make(debug=True)[(1,)](x),
        lambda: kernel[(1,)](x, debug=True),
        lambda: (setattr(triton.knobs.runtime, "debug", True), kernel[(1,)](x)),
    ):
        x[0] = 0
        with pytest.raises(errors.DeviceAssertError, match="positive"):
            launch()
    triton.knobs.runtime.reset()
    kernel[(1,)](x)  # compiled without it, and found again


def test_products_of_fp32_are_tf32_unless_asked(triton, tl, monkeypatch):
    def precision(**options):
        names = {name: tl.constexpr(value) for name, value in options.items()}
        how = names.get("input_precision", tl.constexpr(None))
        allow = names.get("allow_tf32", tl.constexpr(None))

        @triton.jit
        def kernel(x):
            i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
            a = tl.load(x + i)
            tl.store(x + i, tl.dot(a, a, input_precision=how, allow_tf32=allow))

        text = kernel.warmup(tl.float32, grid=(1,)).asm["ttir"]
        (line,) = [line for line in text.splitlines() if "tile.dot" in line]
        return "tf32" if "tf32" in line else "ieee"

    assert precision() == "tf32"
    assert precision(input_precision="ieee") == "ieee"
    assert precision(allow_tf32=False) == "ieee"
    assert precision(allow_tf32=True) == "tf32"
    monkeypatch.setenv("TRITON_F32_DEFAULT", "ieee")
    assert precision() == "ieee" and precision(allow_tf32=True) == "tf32"


def test_errors_have_triton_s_names(triton, tl):
    from triton.compiler.errors import CompileTimeAssertionFailure
    from triton.runtime.errors import OutOfResources

    @triton.jit
    def fails(x):
        tl.static_assert(False, "never")

    with pytest.raises(CompileTimeAssertionFailure, match="never"):
        fails.warmup(tl.float32)
    assert issubclass(CompileTimeAssertionFailure, triton.CompilationError)
    assert issubclass(triton.CompilationError, triton.TritonError)
    error = OutOfResources(300_000, 232_448, "shared memory")
    assert (error.required, error.limit, error.name) == (300_000, 232_448, "shared memory")
    assert "300000" in str(error) and isinstance(error, errors.ResourceError)


def test_a_kernel_that_does_not_fit_is_out_of_resources(triton, tl, double, monkeypatch):
    def refuse(*arguments, **options):
        raise errors.ResourceError("shared memory", 300_000, 232_448, "num_stages")

    monkeypatch.setattr(kiln.compiler, "compile", refuse)
    with pytest.raises(triton.OutOfResources) as caught:
        double.warmup(tl.float32, tl.float32, 64, BLOCK=32)
    assert (caught.value.required, caught.value.limit) == (300_000, 232_448)
    assert "double" in str(caught.value) and "num_stages" in str(caught.value)


def product_for_an_h100(triton, tl, sides, **options):
    """A product compiled for a GPU with 227 KiB of shared memory per block, whose loop transposes a tile."""
    from kiln.runtime import jit

    @triton.jit
    def product(a, b, c, x, y, K, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
        i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
        a_ptrs, b_ptrs = a + i[:, None] * K + k[None, :], b + k[:, None] * N + j[None, :]
        total = tl.zeros((M, N), tl.float32)
        for step in tl.range(0, tl.cdiv(K, D), num_stages=4):
            total = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), total)
            tile = step * (M * N)
            tl.store(y + tile + j[:, None] * M + i[None, :], tl.load(x + tile + i[:, None] * N + j[None, :]).T)
            a_ptrs += D
            b_ptrs += D * N
        tl.store(c + i[:, None] * N + j[None, :], total)

    signature = dict.fromkeys("ab", "*fp16") | dict.fromkeys("cxy", "*fp32") | {"K": "i32"}
    constants = dict(zip(("M", "N", "D"), sides, strict=True))
    attrs = {(place,): [["tt.divisibility", 16]] for place in range(6)}
    source = triton.compiler.ASTSource(product, signature, constants, attrs)
    with kiln.knobs.scope(target="sm_90a"):
        options |= {"describe_pointers": False}
        compiled = jit.compile_kernel(product, source.parameters(), options, [True] * 5, device=-2)
    return compiled.metadata.shared, [d["message"] for d in compiled.asm._artifact.diagnostics]


def test_a_product_whose_slots_do_not_fit_has_fewer(triton, tl):
    # Four slots of 48 KiB and the transposed tile exceed 227 KiB.
    shared, told = product_for_an_h100(triton, tl, (64, 128, 128))
    assert shared == 3 * 48 * 1024 + 64 * 1024
    assert told[-1].startswith("3 stages: 4 stages would take 262144 bytes of shared memory")
    # `stages` is only a maximum.
    assert product_for_an_h100(triton, tl, (64, 128, 128), stages=4)[0] == shared
    assert product_for_an_h100(triton, tl, (64, 128, 128), stages=2)[0] < shared
    # If even two stages do not fit, the product is not pipelined.
    shared, told = product_for_an_h100(triton, tl, (128, 128, 128))
    assert shared <= 232_448
    assert told[-1].startswith("no schedule: 2 stages would take 262144 bytes of shared memory")


def test_more_threads_than_a_block_may_have_are_left_out(triton, tl):
    from triton.runtime.errors import OutOfResources

    configs = [triton.Config({}, num_warps=128), triton.Config({}, num_warps=4)]
    seen = []

    @triton.autotune(configs=configs, key=["n"], post_hook=lambda *args, exception: seen.append(exception))
    @triton.jit
    def kernel(x, n):
        tl.store(x + tl.arange(0, 4), n)

    x = np.zeros(4, np.int32)
    with pytest.raises(OutOfResources, match=r"out of resource: threads, Required: 4096, Hardware limit: 1024"):
        kernel.fn[(1,)](x, 3, num_warps=128)
    kernel[(1,)](x, 3)
    assert x.tolist() == [3] * 4


def test_threads_of_the_launch_are_known_while_compiling(triton, tl):
    @triton.jit
    def kernel(x):
        threads: tl.constexpr = tl.extra.cuda.num_threads()
        tl.store(x + tl.arange(0, threads), tl.extra.cuda.num_warps())

    for warps in (8, 2):
        x = np.zeros(512, np.int32)
        kernel[(1,)](x, num_warps=warps)
        assert (x == warps).sum() == 32 * warps and not x[32 * warps :].any()


def test_requesting_flush_to_zero_has_no_effect(double):
    x, y = np.full(16, 1e-40, np.float32), np.zeros(16, np.float32)
    double[(1,)](x, y, 16, BLOCK=16, enable_reflect_ftz=True)
    assert (y == x * 2).all()


def test_marks_for_the_profiler(triton):
    with triton.profiler.scope("part"):
        triton.profiler.deactivate()
    with pytest.raises(errors.UsageError, match="Nsight Compute"):
        triton.profiler.start("name")


def test_kernels_of_kiln_and_of_triton_go_together(triton, tl):
    import kiln.language as kl

    @kiln.jit
    def twice(x):
        return x * kl.full((), 2, kl.float32)

    @triton.jit
    def kernel(x):
        tl.store(x, twice(tl.load(x)))

    x = np.ones(1, np.float32)
    kernel[(1,)](x)
    assert x[0] == 2


def test_microscaling_formats(triton):
    torch = pytest.importorskip("torch")
    from triton.tools.mxfp import MXFP4Tensor, MXScaleTensor

    values = torch.tensor([[0.0, 0.26, -0.75, 1.25, 2.5, -5.0, 7.0, 1.0, 3.0]])
    numbers = MXFP4Tensor(values)
    assert numbers.to(torch.float32).tolist() == [[0.0, 0.5, -1.0, 1.0, 2.0, -4.0, 6.0, 1.0, 3.0]]
    packed = numbers.to_packed_tensor(1)
    assert packed.shape == (1, 5) and packed[0, 0] == 0x10
    assert (numbers.unpack_packed_tensor(packed, 1, values.shape) == numbers.data).all()
    scales = MXScaleTensor(torch.tensor([1.0, 3.0, 0.25, float("inf"), -1.0]))
    assert scales.data.tolist() == [127, 128, 125, 255, 255]
    assert scales.to(torch.float32)[:3].tolist() == [1.0, 2.0, 0.25] and scales.to(torch.float32).isnan()[3:].all()
    assert MXFP4Tensor(size=(4, 4)).random().to(torch.float32).abs().max() <= 6
    assert MXScaleTensor(size=(64,)).random(low=0.5, high=2.0).to(torch.float32).unique().tolist() == [0.5, 1.0, 2.0]


def test_a_constexpr_that_is_assigned_again_is_a_variable(triton, tl):
    """As in Triton; Kiln's own kernels reject it."""

    @triton.jit
    def kernel(x, n, EVEN: tl.constexpr):
        if EVEN:
            most: tl.constexpr = 0
        else:
            most: tl.constexpr = 16
        most = min(n, most)
        for i in tl.range(0, most, step=4):
            tl.store(x + i, most)

    x = np.zeros(16, np.int32)
    with pytest.warns(UserWarning, match="expected most to be assigned once .* as Triton has it"):
        kernel[(1,)](x, 8, False)
    assert x.tolist() == [8, 0, 0, 0, 8] + [0] * 11
