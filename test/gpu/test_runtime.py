"""The runtime on a device: streams, graphs, placement, prints, assertions, statistics, errors, foreign arrays, CUDA
C."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, knobs


@kiln.jit
def scale(x, out, n, by, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + at, kl.load(x + at, mask=at < n) * by, mask=at < n)


@kiln.jit
def total(x, out, n, BLOCK: kl.constexpr):
    at = kl.arange(0, BLOCK)
    kl.store(out, kl.sum(kl.load(x + at, mask=at < n, other=0.0), axis=0))


@kiln.jit
def ten(a, b, c, d, e, f, g, h, i, j, n, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(a + at, kl.load(b + at, mask=at < n), mask=at < n)


def run(program: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs a program in a separate process, for effects that cannot be undone."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.py")
        with open(path, "w") as file:
            file.write("import kiln, torch\nimport kiln.language as kl\nfrom kiln import errors\n")
            file.write(textwrap.dedent(program))
        return subprocess.run(
            [sys.executable, path], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
        )


# -- Launching ---------------------------------------------------------------------------------------------------------


def test_arrays_decide_where_it_runs(torch):
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    out = torch.empty_like(x)
    compiled = scale[(4,)](x, out, 1000, 2.5, BLOCK=256)
    assert torch.equal(out, x * 2.5)
    assert compiled.metadata["target"]["name"] == kiln.cuda.target(0)
    host, result = np.arange(1000, dtype=np.float32), np.empty(1000, np.float32)
    assert scale[(4,)](host, result, 1000, 2.5, BLOCK=256).metadata["target"]["kind"] == "cpu"
    assert (result == host * np.float32(2.5)).all()


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64", "int32", "int64", "int8", "uint8"])
def test_every_type(torch, name):
    x = (torch.arange(64, device="cuda") % 7).to(getattr(torch, name))
    out = torch.zeros_like(x)
    scale[(1,)](x, out, 64, 2, BLOCK=64)
    assert torch.equal(out, x * 2)


def test_views_and_alignment(torch):
    x = torch.arange(300, device="cuda", dtype=torch.float32)
    out = torch.zeros(100, device="cuda")
    compiled = scale[(1,)](x[7:], out, 100, 1, BLOCK=128)
    assert torch.equal(out, x[7:107]) and "x=*fp32," in compiled.signature


def test_the_current_stream(torch):
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 20, device="cuda")
    out = torch.empty_like(x)
    scale[(1024,)](x, out, x.numel(), 2.0, BLOCK=1024)  # compile before the clock starts
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)  # about 10 ms
        x += 3
        scale[(1024,)](x, out, x.numel(), 2.0, BLOCK=1024)
        assert not side.query(), "the launch did not wait for the stream"
    side.synchronize()
    assert bool((out == 6).all())


def test_graphs(torch):
    x = torch.ones(4096, device="cuda")
    out = torch.empty_like(x)
    grid = (4,)
    scale[grid](x, out, 4096, 2.0, BLOCK=1024)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale[grid](x, out, 4096, 2.0, BLOCK=1024)
        scale[grid](out, out, 4096, 2.0, BLOCK=1024)
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert bool((out == 4 * value).all())


def test_programmatic_dependent_launch(torch):
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("needs compute capability 9.0")
    x = torch.ones(1 << 20, device="cuda")
    for _ in range(50):
        scale[(1024,)](x, x, x.numel(), 2.0, BLOCK=1024, pdl=True)
        scale[(1024,)](x, x, x.numel(), 0.5, BLOCK=1024, pdl=True)
    assert bool((x == 1).all())


@pytest.mark.parametrize("cluster", [1, 2, 4, 8])
def test_clusters(torch, cluster):
    x = torch.randn(16384, device="cuda")
    out = torch.zeros(1, device="cuda")
    if cluster > 1 and torch.cuda.get_device_capability()[0] < 9:
        with pytest.raises((errors.ResourceError, errors.UserError)):
            total[(1,)](x, out, 16384, BLOCK=16384, cluster=cluster)
        return
    compiled = total[(1,)](x, out, 16384, BLOCK=16384, num_warps=8, cluster=cluster)
    assert abs(out.item() - x.double().sum().item()) < 1e-2
    assert compiled.cluster == cluster
    assert (compiled.occupancy["clusters"] > 0) == (cluster > 1)


def test_many_threads(torch):
    x = torch.arange(4096, device="cuda", dtype=torch.float32)
    outs = [torch.zeros_like(x) for _ in range(8)]
    problems = []

    def work(index):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(100):
                    scale[(4,)](x, outs[index], 4096, float(index), BLOCK=1024, num_warps=1 + index % 2 * 3)
                torch.cuda.current_stream().synchronize()
        except Exception as error:
            problems.append(error)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not problems
    assert all(torch.equal(out, x * i) for i, out in enumerate(outs))


def test_two_devices(torch):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    x, out = (torch.ones(64, device="cuda:1") for _ in range(2))
    scale[(1,)](x, out, 64, 3.0, BLOCK=64)
    kiln.synchronize()
    assert bool((out == 3).all())
    with pytest.raises(errors.LaunchError, match="argument 'out': expected arrays on one device"):
        scale[(1,)](torch.ones(64, device="cuda:0"), out, 64, 3.0, BLOCK=64)


# -- Refusals ----------------------------------------------------------------------------------------------------------


def test_refusals(torch):
    x = torch.ones(64, device="cuda")
    with pytest.raises(errors.LaunchError, match="argument 'out': expected an array on CUDA device 0"):
        scale[(1,)](x, torch.ones(64), 64, 1.0, BLOCK=64)
    with pytest.raises(errors.LaunchError, match="at most 65535 program instances in dimension 1"):
        scale[(1, 1 << 17)](x, x, 64, 1.0, BLOCK=64)
    scale[(0,)](x, x, 64, 1.0, BLOCK=64)
    scale[(1,)](x, x, 64, 1.0, BLOCK=64)  # nothing of this harmed the device
    kiln.synchronize()


def test_pinned_memory_goes_with_a_gpu(torch):
    x = torch.arange(64, dtype=torch.float32).pin_memory()
    out = torch.zeros(64, device="cuda")
    scale[(1,)](x, out, 64, 2.0, BLOCK=64)
    assert torch.equal(out.cpu(), x * 2)


def test_a_lost_context_names_the_launch():
    result = run("""
    @kiln.jit
    def wild(x, far):
        kl.store(x + far, 1.0)
    x = torch.zeros(4, device="cuda")
    wild[(3,)](x, 1 << 45)
    for _ in range(2):
        try:
            kiln.synchronize()
        except errors.DeviceLostError as error:
            print(error)
        else:
            raise SystemExit("no error")
    """)
    assert result.returncode == 0, result.stderr
    assert "CUDA_ERROR_" in result.stdout and "the launch that did it:\n  wild (" in result.stdout, result.stdout
    assert "grid (3, 1, 1)" in result.stdout


def test_a_forked_child_gets_an_error(torch):
    result = run("""
    import os
    @kiln.jit
    def one(x):
        kl.store(x, 1.0)
    x = torch.zeros(4, device="cuda")
    one[(1,)](x)
    child = os.fork()
    if child == 0:
        try:
            one[(1,)](x)
        except errors.LaunchError as error:
            os._exit(0 if "forked" in str(error) else 1)
        os._exit(2)
    raise SystemExit(os.waitpid(child, 0)[1])
    """)
    assert result.returncode == 0, result.stderr


# -- What the code takes -----------------------------------------------------------------------------------------------


def test_figures(torch):
    x, out = torch.ones(4096, device="cuda"), torch.zeros(1, device="cuda")
    compiled = total[(1,)](x, out, 4096, BLOCK=4096, num_warps=8)
    assert out.item() == 4096
    assert 8 <= compiled.n_regs <= 255 and compiled.n_spills == 0 and compiled.num_warps == 8
    assert 0 < compiled.shared <= 4096, "one exchange between warps"
    assert compiled.occupancy["warps"] % 8 == 0 and compiled.occupancy["blocks"] >= 1
    assert "kiln_total" in compiled.asm["ptx"] and compiled.asm["cubin"][:4] == b"\x7fELF"
    limited = total[(1,)](x, out, 4096, BLOCK=4096, num_warps=8, maxnreg=32)
    assert limited.n_regs <= 32


def test_the_driver_assembles_if_there_is_no_ptxas(torch):
    with knobs.scope(ptxas="none"):
        x = torch.ones(64, device="cuda")
        compiled = scale[(1,)](x, x, 64, 3.0, BLOCK=64, num_warps=2)  # not compiled before
    assert compiled.metadata["cuda"]["form"] == "ptx" and bool((x == 3).all())
    assert compiled.n_regs > 0


# -- Prints and assertions ---------------------------------------------------------------------------------------------


@kiln.jit
def speaks(x, n, BLOCK: kl.constexpr):
    value = kl.load(x + kl.program_id(0) * BLOCK + kl.arange(0, BLOCK))
    for i in range(n):
        kl.device_print("value", value * i)
        kl.device_print("round", i)
    kl.device_print("done")


@kiln.jit
def checks(x, limit, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.device_assert(kl.load(x + at) < limit, "too large")


def test_prints_are_those_of_the_cpu(torch, capfd):
    x = torch.arange(48, dtype=torch.float32)
    speaks[(3,)](x.numpy(), 2, BLOCK=16)
    expected = capfd.readouterr().out
    assert expected.count("\n") > 3 * 2 * 16
    speaks[(3,)](x.cuda(), 2, BLOCK=16)
    kiln.synchronize()
    assert capfd.readouterr().out == expected


def test_prints_in_a_graph(torch, capfd):
    x = torch.ones(16, device="cuda")
    speaks[(1,)](x, 1, BLOCK=16)
    kiln.synchronize()
    once = capfd.readouterr().out
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        speaks[(1,)](x, 1, BLOCK=16)
    for _ in range(3):
        graph.replay()
        kiln.synchronize()
        assert capfd.readouterr().out == once


def test_a_failed_assertion_leaves_the_device_as_it_was(torch):
    x = torch.arange(256, device="cuda", dtype=torch.float32)
    checks[(4,)](x, 1000.0, BLOCK=64)
    kiln.synchronize()
    checks[(4,)](x, 70.0, BLOCK=64)
    with pytest.raises(errors.DeviceAssertError, match="too large") as caught:
        kiln.synchronize()
    assert caught.value.program == (1, 0, 0) and caught.value.coordinate == (6,)
    assert caught.value.frames[0].file == __file__
    kiln.synchronize()
    checks[(4,)](x, 5.0, BLOCK=64)
    torch.cuda.synchronize()
    with pytest.raises(errors.DeviceAssertError, match="too large"):
        checks[(4,)](x, 1000.0, BLOCK=64)  # the next launch reports it
    checks[(4,)](x, 1000.0, BLOCK=64)
    kiln.synchronize()
    assert float(x.sum()) == 255 * 128


# -- Arrays of others --------------------------------------------------------------------------------------------------


class OnlyDlpack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class OnlyInterface:
    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return self.tensor.__cuda_array_interface__


@pytest.mark.parametrize("wrap", [OnlyDlpack, OnlyInterface])
def test_other_libraries_arrays(torch, wrap):
    x, out = torch.arange(64, device="cuda", dtype=torch.float32), torch.zeros(64, device="cuda")
    compiled = scale[(1,)](wrap(x), wrap(out), 64, 2.0, BLOCK=64)
    kiln.synchronize()
    assert torch.equal(out, x * 2) and compiled.metadata["target"]["kind"] == "cuda"


def test_staged_arrays():
    base = np.arange(300, dtype=np.float32)
    with knobs.scope(target="cuda", stage_arrays=True):
        compiled = scale[(1,)](base[3:103], base[150:250], 100, 2.0, BLOCK=128)
    assert compiled.metadata["target"]["kind"] == "cuda"
    assert (base[150:250] == np.arange(3, 103) * 2).all() and (base[:150] == np.arange(150)).all()


def test_cuda_source(torch):
    k = kiln.cuda.compile("""
        extern "C" __global__ void saxpy(const float *x, float *y, int n, float a) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] += a * x[i];
        }""", "saxpy")  # fmt: skip
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    k[4, 256](x, y, np.int32(1000), np.float32(2))
    k[4, 256](x, y, 1000, 3.0)
    assert bool((y == 5).all())
    assert k.figures(256)["registers"] > 0


# -- Cost --------------------------------------------------------------------------------------------------------------


def test_what_a_launch_costs(torch, record_property, capsys):
    """Ten tensors, launched from Python. The goal is 3.5 µs; the bound leaves room for machines with other work."""
    tensors = [torch.zeros(1024, device="cuda") for _ in range(10)]
    grid = (1,)
    ten[grid](*tensors, 1024, BLOCK=1024)
    best = float("inf")
    for _ in range(30):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            ten[grid](*tensors, 1024, BLOCK=1024)
        best = min(best, (time.perf_counter() - start) / 200 * 1e6)
    record_property("launch_us", best)
    with capsys.disabled():
        print(f"\na launch with 10 tensors: {best:.2f} us")
    assert best < 10
