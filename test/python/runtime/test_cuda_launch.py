"""Launches on GPUs, from Python down to the calls of the driver, with a driver that has no GPU (fake_cuda.py)."""

import fake_cuda
import pytest

pytestmark = pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")


def run(tmp_path, program, kernel=fake_cuda.DOUBLE, **environment):
    return fake_cuda.run(tmp_path, program, kernel, **environment)


def test_arrays_of_a_gpu_run_there(tmp_path):
    run(
        tmp_path,
        """
    def kernel(launch, words):
        assert words[0] == x.__cuda_array_interface__["data"][0]
        assert np.uint32(words[2]) == 100
        memory(words[1], 100, np.float32)[:] = memory(words[0], 100, np.float32) * 2
    on_launch(kernel)
    x, out = CudaArray(np.arange(100, dtype=np.float32)), CudaArray(np.zeros(100, np.float32))
    compiled = double[2, 3](x, out, 100, BLOCK=64, num_warps=8)
    assert (out.values == 2 * x.values).all()
    assert "grid 2x3x1 block 256x1x1 cluster 1" in launches()[0], launches()
    assert "bytes 20 pdl 0 stream 0 device 0" in launches()[0], launches()
    assert compiled.metadata["target"]["name"] == "sm_90a" and double.compiled is compiled
    assert compiled.n_regs == 24 and compiled.n_spills == 0 and compiled.num_warps == 8 and compiled.cluster == 1
    assert compiled.occupancy == {"blocks": 8, "warps": 64, "clusters": 0}
    assert ".entry kiln_double" in compiled.asm["ptx"] and "kgpu" in compiled.asm
    assert "24 registers" in repr(compiled)
    """,
    )


@pytest.mark.parametrize("facts", ["", "device = Device('cuda')"])
def test_wrappers_of_gpu_memory_run_there_even_in_the_first_launch(tmp_path, facts):
    """Before any launch has initialised the driver: by the device that the wrapper names, else by whose memory it
    is."""
    run(
        tmp_path,
        f"""
    class Device:
        def __init__(self, kind): self.type, self.index = kind, 0
    class Wrapper:
        dtype = "torch.float32"
        {facts or "pass"}
        def __init__(self, address): self.address = address
        def data_ptr(self): return self.address
        def untyped_storage(self): return self
    x, out = CudaArray(np.arange(100, dtype=np.float32)), CudaArray(np.zeros(100, np.float32))
    address = [a.__cuda_array_interface__["data"][0] for a in (x, out)]
    double[2](Wrapper(address[0]), Wrapper(address[1]), 100, BLOCK=64)
    assert len(launches()) == 1 and not out.values.any(), "the driver only notes what is launched"
    host, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    Wrapper.device = Device("cpu")
    double[2](Wrapper(host.ctypes.data), Wrapper(out.ctypes.data), 100, BLOCK=64)
    assert len(launches()) == 1 and (out == 2 * host).all()
    """,
    )


def test_the_schedule_option_is_part_of_the_key_and_reaches_the_compiler(tmp_path):
    run(
        tmp_path,
        """
    x = CudaArray(np.zeros(64, np.float32))
    plain = double[(1,)](x, x, 64, BLOCK=64)
    assert "kgpu.schedule" not in plain.asm["kgpu"] and "kgpu.stages" not in plain.asm["kgpu"]
    asked = double[(1,)](x, x, 64, BLOCK=64, schedule="pingpong", stages=4, consumers=2)
    assert asked is not plain and double[(1,)](x, x, 64, BLOCK=64, schedule="pingpong", stages=4, consumers=2) is asked
    for given in ('kgpu.schedule = "pingpong"', "kgpu.stages = 4 : i32", "kgpu.consumers = 2 : i32"):
        assert given in asked.asm["kgpu"], asked.asm["kgpu"]
    options = asked.metadata["options"]
    assert (options["schedule"], options["stages"], options["consumers"]) == ("pingpong", 4, 2)
    assert double[(1,)](x, x, 64, BLOCK=64, schedule="pingpong", stages=3, consumers=2) is not asked
    assert double[(1,)](x, x, 64, BLOCK=64, schedule=None, stages=None) is plain
    for options, message in [(dict(stages=33), "expected stages to be from 1 to 32, got 33"),
                             (dict(consumers=5), "expected consumers to be from 1 to 4, got 5")]:
        try:
            double[(1,)](x, x, 64, BLOCK=64, **options)
        except errors.LaunchError as error:
            assert message in str(error), error
        else:
            raise AssertionError(options)
    """,
    )


def test_empty_grids_launch_nothing_and_keys_are_looked_up(tmp_path):
    run(
        tmp_path,
        """
    x = CudaArray(np.zeros(64, np.float32))
    double[(0,)](x, x, 64, BLOCK=64)
    assert launches() == []
    first = double[(1,)](x, x, 64, BLOCK=64)
    assert double[(1,)](x, x, 64, BLOCK=64) is first and len(launches()) == 2
    assert double[(1,)](x, x, 64, BLOCK=64, num_warps=2) is not first
    host = np.ones(64, np.float32)
    assert double[(1,)](host, host, 64, BLOCK=64).metadata["target"]["kind"] == "cpu" and host[0] == 2
    assert len(launches()) == 3
    """,
    )


def test_options_have_two_names(tmp_path):
    run(
        tmp_path,
        """
    x = CudaArray(np.zeros(64, np.float32))
    double[(5,)](x, x, 64, BLOCK=64, num_ctas=1, launch_pdl=True)
    assert "grid 5x1x1" in launches()[0] and "pdl 1" in launches()[0], launches()
    for options, message in [
        (dict(num_ctas=2, cluster=4), "'num_ctas' and 'cluster'"),
        (dict(num_warps=0), "argument 'num_warps': expected a power of two from 1 to 32, got 0"),
        (dict(num_warp=8), "did you mean 'num_warps'"),
        (dict(stages=0), "argument 'stages': expected a positive integer, got 0"),
        (dict(consumers=True), "argument 'consumers': expected a positive integer, got True"),
        (dict(schedule=3), "argument 'schedule': expected one of auto, simple, lanes, "),
    ]:
        try:
            double[(1,)](x, x, 64, BLOCK=64, **options)
        except errors.LaunchError as error:
            assert message in str(error), error
        else:
            raise AssertionError(options)
    """,
    )


def test_refusals_name_the_argument_and_the_line(tmp_path):
    run(
        tmp_path,
        """
    x, host = CudaArray(np.zeros(64, np.float32)), np.zeros(64, np.float32)
    for call, message in [
        (lambda: double[(1,)](x, host, 64, BLOCK=64), "argument 'out': expected an array on CUDA device 0"),
        (lambda: double[(1,)](host, x, 64, BLOCK=64), "argument 'x': expected an array on CUDA device 0"),
        (lambda: double[(1, 70000)](x, x, 64, BLOCK=64), "expected at most 65535 program instances in dimension 1"),
        (lambda: double[(-1,)](x, x, 64, BLOCK=64), "expected 0 to 2147483647 program instances in dimension 0"),
    ]:
        try:
            call()
        except errors.LaunchError as error:
            assert message in str(error) and "program.py" in str(error), error
        else:
            raise AssertionError(message)
    assert launches() == []
    """,
    )


def test_what_does_not_fit_is_a_resource_error(tmp_path):
    run(
        tmp_path,
        """
    x = CudaArray(np.zeros(64, np.float32))
    fake.fakeSetFunctionAttribute(0, 96)
    try:
        double[(1,)](x, x, 64, BLOCK=64, num_warps=4)
    except errors.ResourceError as error:
        assert error.resource == "registers of one block" and error.kernel == "double" and "num_warps" in error.option
        assert error.available == 65536
    else:
        raise AssertionError
    # Found by the compiler, before there is anything to load.
    try:
        double[(1,)](x, x, 64, BLOCK=1 << 18, num_warps=1)
    except errors.ResourceError as error:
        assert error.kernel == "double" and str(error).startswith("double: out of elements"), error
        assert error.required > error.available and "num_warps" in error.option
    else:
        raise AssertionError
    assert launches() == []
    """,
    )


def test_a_missing_device_is_reported_once(tmp_path):
    run(
        tmp_path,
        """
    class Elsewhere:
        dtype, is_cpu = np.dtype(np.float32), False
        class device:
            type, index = "cuda", 7
        def data_ptr(self):
            return 1 << 40
    try:
        double[(1,)](Elsewhere(), Elsewhere(), 64, BLOCK=64)
    except errors.LaunchError as error:
        assert str(error).count("error:") == 1, error
        assert "launch of double: expected a CUDA device from 0 to 1, got 7" in str(error), error
    else:
        raise AssertionError
    """,
    )


def test_a_producers_stream_is_waited_for_on_the_device(tmp_path):
    run(
        tmp_path,
        """
    x = CudaArray(np.zeros(64, np.float32), stream=7)
    double[(1,)](x, x, 64, BLOCK=64)
    log = fake.fakeLog().decode()
    assert log.index("cuEventRecord 7") < log.index("cuStreamWaitEvent 0") < log.index("cuLaunchKernelEx"), log
    assert "Synchronize" not in log
    """,
    )


def test_host_arrays_are_staged(tmp_path):
    run(
        tmp_path,
        """
    base = np.arange(300, dtype=np.float32)
    x, out = base[1:101], base[51:151]  # overlapping, as they must on the device
    def kernel(launch, words):
        assert words[1] - words[0] == 200 and words[0] % 256 == x.ctypes.data % 256
        assert int(words[0]) != x.ctypes.data
        memory(words[1], 100, np.float32)[:] = memory(words[0], 100, np.float32).copy() * 2
    on_launch(kernel)
    expected = x.copy() * 2
    compiled = double[(2,)](x, out, 100, BLOCK=64)
    assert (out == expected).all() and base[0] == 0 and base[151] == 151
    assert compiled.metadata["target"]["name"] == "sm_90a"
    frozen = np.zeros(64, np.float32)
    frozen.flags.writeable = False
    on_launch(lambda launch, words: None)
    double[(1,)](frozen, out, 64, BLOCK=64)
    """,
        KILN_TARGET="cuda",
        KILN_STAGE_ARRAYS="1",
    )


def test_mixing_host_and_gpu_arrays_is_rejected_even_with_staging(tmp_path):
    run(
        tmp_path,
        """
    x, out = CudaArray(np.arange(64, dtype=np.float32)), np.zeros(64, np.float32)
    try:
        double[(1,)](x, out, 64, BLOCK=64)
    except errors.LaunchError as error:
        assert "argument 'out': expected an array on CUDA device 0" in str(error), error
    else:
        raise AssertionError
    assert not launches(), launches()
    """,
        KILN_TARGET="cuda",
        KILN_STAGE_ARRAYS="1",
    )


def test_targets_that_the_device_does_not_run(tmp_path):
    run(
        tmp_path,
        """
    x = np.zeros(64, np.float32)
    try:
        double[(1,)](x, x, 64, BLOCK=64)
    except errors.LaunchError as error:
        assert "such as sm_90a, got 'sm_80'" in str(error), error
    else:
        raise AssertionError
    """,
        KILN_TARGET="sm_80",
        KILN_STAGE_ARRAYS="1",
    )


SAYS = """
@kiln.jit
def says(x, BLOCK: kl.constexpr):
    value = kl.load(x + kl.arange(0, BLOCK))
    kl.device_print("x", value)
    kl.device_assert(value >= 0, "must be positive")

def act(prints=(), failed=None):
    def kernel(launch, words):
        log = int(words[-1])
        header = memory(log, 8, np.uint32)
        records = memory(log + 64, 8 * len(prints), np.uint32).reshape(-1, 8)
        for record, (program, element, value) in zip(records, prints):
            record[:] = [0, 0, program, 0, 0, element, np.float32(value).view(np.uint32), 0]
        header[2] += len(prints)
        if failed is not None:
            header[4:6] = 3, 1
            memory(log, 1, np.uint64)[0] = (failed[0] << 30) | (1 << 20) | failed[1]
    on_launch(kernel)
"""


def test_prints_and_assertions_come_back(tmp_path):
    printed = run(
        tmp_path,
        """
    x = CudaArray(np.zeros(2, np.float32))
    act(prints=[(1, 0, 2.5), (0, 1, -1), (0, 0, 0.5), (1, 1, 4)], failed=(2, 1))
    says[(3,)](x, BLOCK=2)
    act()
    try:
        kiln.synchronize()
    except errors.DeviceAssertError as error:
        assert "must be positive" in str(error) and error.program == (2, 0, 0) and error.coordinate == (1,), error
        assert "program.py" in str(error) and "kl.device_assert" in str(error)
    else:
        raise AssertionError
    kiln.synchronize()  # said once, and the device goes on
    says[(3,)](x, BLOCK=2)
    act(failed=(0, 0))
    says[(3,)](x, BLOCK=2)
    fake.fakeRunHostFunctions()
    try:
        says[(3,)](x, BLOCK=2)
    except errors.DeviceAssertError as error:
        assert error.program == (0, 0, 0)
    else:
        raise AssertionError
    """,
        kernel=SAYS,
    )
    lines = ["pid (0, 0, 0) idx (0) x: 0.5", "pid (0, 0, 0) idx (1) x: -1.0", "pid (1, 0, 0) idx (0) x: 2.5",
             "pid (1, 0, 0) idx (1) x: 4.0"]  # fmt: skip
    assert printed.splitlines() == lines


def test_prints_are_shown_without_a_call_into_kiln(tmp_path):
    printed = run(
        tmp_path,
        """
    import sys
    x = CudaArray(np.zeros(2, np.float32))
    act(prints=[(0, 0, 1), (0, 1, 2)])
    says[(1,)](x, BLOCK=2)
    fake.fakeRunHostFunctions()  # as when another library waits for the device
    sum(range(1000))
    sys.stdout.write("after\\n")
    act(prints=[(0, 0, 3), (0, 1, 4)])
    says[(1,)](x, BLOCK=2)  # and at the end of the program
    """,
        kernel=SAYS,
    )
    values = [line.rsplit(" ", 1)[-1] for line in printed.splitlines()]
    assert values == ["1.0", "2.0", "after", "3.0", "4.0"]


def test_a_lost_context_is_reported_once_and_stays(tmp_path):
    run(
        tmp_path,
        """
    x = CudaArray(np.zeros(64, np.float32))
    double[(7,)](x, x, 64, BLOCK=64)
    fake.fakeForce(b"cuCtxSynchronize", 700)
    for call in (kiln.synchronize, lambda: double[(1,)](x, x, 64, BLOCK=64)):
        try:
            call()
        except errors.DeviceLostError as error:
            text = str(error)
            assert "CUDA_ERROR_ILLEGAL_ADDRESS" in text and "the launch that did it" in text
            assert "double (" in text and "program.py" in text and "grid (7, 1, 1)" in text, text
        else:
            raise AssertionError
    """,
    )


def test_devices(tmp_path):
    run(
        tmp_path,
        """
    assert kiln.cuda.is_available() and kiln.cuda.device_count() == 2 and kiln.cuda.driver_version() == (13, 0)
    first, second = (kiln.cuda.get_device_properties(i) for i in range(2))
    assert first.name == "Fake 90" and first.capability == (9, 0) and first.clusters and first.multiprocessors == 132
    assert kiln.cuda.target(0) == "sm_90a" and kiln.cuda.target(1) == "sm_80" and not second.clusters
    start, end = kiln.cuda.Event(), kiln.cuda.Event()
    start.record(), end.record(), end.synchronize()
    assert end.elapsed_since(start) == 1.5
    try:
        kiln.cuda.get_device_properties(5)
    except errors.LaunchError as error:
        assert "from 0 to 1, got 5" in str(error)
    else:
        raise AssertionError
    """,
    )


def test_without_a_driver_everything_says_so(tmp_path):
    run(tmp_path, """
    import os
    assert kiln.cuda.device_count() == 0 and "no CUDA driver" in kiln.cuda.driver_problem()
    kiln.synchronize()
    compiled = double.warmup(kl.float32, kl.float32, 64, BLOCK=64)
    assert compiled.metadata["target"]["name"] == "sm_90a" and compiled.loaded is None
    assert ".target sm_90a" in compiled.asm["ptx"]
    try:
        double[(1,)](np.zeros(64, np.float32), np.zeros(64, np.float32), 64, BLOCK=64)
    except errors.LaunchError as error:
        assert "expected a GPU" in str(error) and "no CUDA driver" in str(error), error
    else:
        raise AssertionError
    """.replace("import os", "fake = None"), KILN_LIBCUDA="/nowhere/libcuda.so", KILN_TARGET="sm_90a",
        KILN_STAGE_ARRAYS="1")  # fmt: skip


def test_grids_that_violate_the_codes_assumptions_get_general_code(tmp_path):
    """A group's height is positive in every program only if the grid is not too large."""
    run(
        tmp_path,
        """
    a, c = CudaArray(np.zeros((64, 64), np.float16)), CudaArray(np.zeros((64, 64), np.float32))
    def described(grid, n=128, m=64, **options):
        compiled = grouped[(grid,)](a, c, m, n, 32, 64, 64, **options)
        return "tile.make_desc" in compiled.asm["kgpu"]
    # Two tiles across: groups of sixteen programs. There is one; then two, whose second is lower.
    assert described(2) and described(16) and not described(17) and described(2)
    for _ in range(3):  # calls like earlier ones are not read in full
        assert described(16) and not described(17)
    assert described(32, m=520) and not described(33, m=520) and described(32, m=520)
    assert not described(2, describe_pointers=False)
    compiled = grouped[(2,)](a, c, 64, 128, 32, 64, 64)
    compiled[(2,)](a, c, 64, 128, 32, 64, 64)
    for call in [lambda: compiled[(17,)](a, c, 64, 128, 32, 64, 64), lambda: compiled[(9,)](a, c, 64, 64, 32, 64, 64)]:
        try:
            call()
        except errors.LaunchError as error:
            assert "divides by positive numbers in all program instances" in str(error), error
        else:
            raise AssertionError
    """,
        fake_cuda.GROUPED,
    )


def test_pointers_are_described_where_counts_are_bounded(tmp_path):
    """Otherwise the kernel is launched as written; code made for described pointers is not used for other arguments."""
    run(
        tmp_path,
        """
    a, c = CudaArray(np.zeros((64, 64), np.float16)), CudaArray(np.zeros((64, 64), np.float32))
    def described(n, k, stride, out, grid=1, **options):
        compiled = square[(grid,)](a, c, n, k, stride, out, **options)
        found = "tile.make_desc" in compiled.asm["kgpu"]
        assert compiled.metadata["cuda"].get("bounded", False) >= found
        return found
    assert described(64, 32, 64, 64) and described(64, 32, 64, 64, grid=2**19)
    assert described(2**30, 2**30, 2**30, 2**30)
    # Rows of 8 elements are 16 bytes.
    assert described(60, 30, 72, 72)
    assert described(64, 32, 64, 64, describe_pointers=True) and described(64, 32, 64, 64, describe_pointers=None)
    for plain in [dict(describe_pointers=False), dict(grid=2**19 + 1), dict(stride=-64),
                  dict(out=2**30 + 16), dict(n=-1), dict(k=2**40), dict(stride=68), dict(stride=0)]:
        assert not described(**{**dict(n=64, k=32, stride=64, out=64), **plain}), plain
    bounded = square[(1,)](a, c, 64, 32, 64, 64)
    bounded[(1,)](a, c, 64, 32, 128, 64)
    square[(1,)](a, c, 60, 30, 72, 72)[(1,)](a, c, 60, 30, 88, 72)
    for call, message in [
        (lambda: bounded[(1,)](a, c, 64, 32, -64, 64), "argument 'stride': expected 0 to 2^30"),
        (lambda: bounded[(2**19 + 1,)](a, c, 64, 32, 64, 64), "expected at most 524288 program instances along each"),
    ]:
        try:
            call()
        except errors.LaunchError as error:
            assert message in str(error) and "describe_pointers" in str(error), error
        else:
            raise AssertionError(message)
    try:
        square[(1,)](a, c, 64, 32, 64, 64, describe_pointers=1)
    except errors.LaunchError as error:
        assert "argument 'describe_pointers': expected True or False, got 1" in str(error), error
    else:
        raise AssertionError
    """,
        fake_cuda.SQUARE,
    )


def test_a_second_process_loads_no_compiler(tmp_path):
    program = """
    x, out = CudaArray(np.arange(100, dtype=np.float32)), CudaArray(np.zeros(100, np.float32))
    compiled = double[(2,)](x, out, 100, BLOCK=64)
    assert len(launches()) == 1 and compiled.n_regs == 24 and compiled.cache_key
    import sys
    print("kiln._compiler" in sys.modules, any("/_compiler." in line for line in open("/proc/self/maps")))
    print(compiled.asm["ptx"].count(".entry"), "kiln._compiler" in sys.modules)
    """
    for loaded in ("True True", "False False"):
        assert run(tmp_path, program, KILN_CACHE=str(tmp_path / "cache")) == f"{loaded}\n1 True\n"
