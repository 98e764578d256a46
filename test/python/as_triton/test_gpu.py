"""What programs can query about a GPU, with a driver that has none (runtime/fake_cuda.py)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "runtime"))
import fake_cuda

pytestmark = pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")

KERNEL = """
kiln.as_triton.install()
import triton
import triton.language as tl

@triton.jit
def add(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
"""


def run(folder, program):
    return fake_cuda.run(folder, program, "import kiln.as_triton\n" + KERNEL, KILN_PTXAS="none")


def test_the_driver_describes_the_gpu(tmp_path):
    run(tmp_path, """
        active = triton.runtime.driver.active
        target = active.get_current_target()
        assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
        assert active.get_device_capability() == (9, 0) and active.get_current_device() == 0
        facts = active.utils.get_device_properties(0)
        real = kiln.cuda.get_device_properties(0)
        assert facts["multiprocessor_count"] == real.multiprocessors and facts["max_num_regs"] == real.registers
        assert facts["max_shared_mem"] == real.shared_bytes and facts["warpSize"] == 32
        assert active.get_current_stream(0) == 0
        """)  # fmt: skip


def test_a_kernel_is_compiled_for_it_and_launched(tmp_path):
    run(tmp_path, """
        x, y = CudaArray(np.zeros(100, np.float32)), CudaArray(np.zeros(100, np.float32))
        kernel = add[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, 100, BLOCK=32, num_warps=2)
        assert len(launches()) == 1
        known = kernel.metadata
        assert (known.num_warps, known.num_ctas, known.target.backend, known.target.arch) == (2, 1, "cuda", 90)
        assert known.shared == kernel.shared == kernel.loaded.figures["shared_bytes"]
        assert kernel.n_regs == kernel.loaded.figures["registers"] and kernel.n_max_threads >= 64
        assert ".visible .entry" in kernel.asm["ptx"]
        kernel[(4, 1, 1)](x, y, 100, 32)
        assert len(launches()) == 2
        """)  # fmt: skip


def test_configurations_are_all_measured_on_it(tmp_path):
    run(tmp_path, """
        measured = []

        def bench(call, quantiles):
            call()
            measured.append(1)
            return [float(len(measured)), 0.0, 0.0]

        configs = [triton.Config({"BLOCK": 32}, num_warps=w) for w in (1, 2, 4)]
        tuned = triton.autotune(configs, ["n"], do_bench=bench)(add)
        x = CudaArray(np.zeros(100, np.float32))
        tuned[(4,)](x, x, 100)
        assert len(measured) == 3 and tuned.best_config is configs[0]
        """)  # fmt: skip


def test_peak_rates_of_the_gpu(tmp_path):
    """An H100 SXM: 132 multiprocessors; its data sheet says 989 TFLOP/s of fp16 and 67 of fp32 at 1830 and 1980 MHz."""
    run(tmp_path, """
        assert kiln.cuda.get_device_properties(0).multiprocessors == 132
        reach = triton.testing
        assert abs(reach.get_max_tensorcore_tflops(tl.float16, 1830e3) - 989) < 1
        assert abs(reach.get_max_tensorcore_tflops("torch.float8_e5m2", 1830e3) - 1979) < 1
        assert abs(reach.get_max_simd_tflops(tl.float32, 1980e3) - 67) < 0.1
        try:
            reach.get_max_tensorcore_tflops(tl.int1, 1830e3)
        except errors.UsageError as error:
            assert "8, 16, 32, 64 bits" in str(error)
        else:
            raise AssertionError
        """)  # fmt: skip
