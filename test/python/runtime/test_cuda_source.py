"""CUDA C through NVRTC, as far as it can be tested without a GPU. Launches are in test/gpu."""

import glob
import os

import fake_cuda
import kiln
import pytest
from kiln import errors, knobs
from kiln.cuda import nvrtc

SCALE = """
template <typename T, int N> __device__ T times(T x) { return x * N; }
extern "C" __global__ void scale(const float *x, float *out, int n, float by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = times<float, FACTOR>(x[i]) * by;
}
namespace inner {
template <typename T> __global__ void fill(T *out, T value) { out[threadIdx.x] = value; }
}
"""


@pytest.fixture(scope="module", autouse=True)
def installed():
    try:
        nvrtc.nvrtc_version()
    except errors.UserError as error:
        pytest.skip(str(error).splitlines()[0])


def test_compiles_for_every_row():
    for row in ("sm_80", "sm_90a", "sm_120a"):
        kernel = kiln.cuda.compile(SCALE, "scale", ["-DFACTOR=3"], target=row)
        assert kernel.cubin[:4] == b"\x7fELF"
        assert kernel.get_cubin(row)[1] == "scale"


def test_nvrtc_uses_the_builtins_next_to_it():
    # Under its bare name, NVRTC would find that of another release, or none where no toolkit is installed.
    kiln.cuda.compile(SCALE, "scale", ["-DFACTOR=3"], target="sm_90a")
    mapped = [line.split()[-1] for line in open("/proc/self/maps") if "libnvrtc-builtins" in line]
    folder = os.path.dirname(nvrtc.nvrtc_path())
    if not glob.glob(os.path.join(glob.escape(folder), "libnvrtc-builtins.so*")):
        pytest.skip("found by the loader")
    assert mapped and {os.path.dirname(path) for path in mapped} == {os.path.realpath(folder)}


def test_names_in_namespaces_and_templates():
    kernel = kiln.cuda.compile(SCALE, "inner::fill<double>", ["-DFACTOR=1"], target="sm_90a")
    symbol = kernel.get_cubin("sm_90a")[1]
    assert symbol.startswith("_Z") and symbol.encode() in kernel.cubin


def test_errors_are_the_users_and_name_the_line():
    with pytest.raises(kiln.cuda.CudaCompilationError) as caught:
        kiln.cuda.compile(SCALE, "scale", target="sm_90a")  # FACTOR is not defined
    assert caught.value.line == 5 and "times<float, FACTOR>" in str(caught.value) and "FACTOR" in caught.value.log
    assert isinstance(caught.value, errors.UserError)
    with pytest.raises(kiln.cuda.CudaCompilationError, match="no_such_kernel"):
        kiln.cuda.compile(SCALE, "no_such_kernel", ["-DFACTOR=1"], target="sm_90a")


def test_an_invalid_library_is_rejected():
    with knobs.scope(nvrtc="/nowhere/libnvrtc.so"), pytest.raises(errors.UserError, match="NVRTC is not installed"):
        nvrtc.nvrtc_version()


@pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")
def test_launches_pack_the_drivers_arguments(tmp_path):
    fake_cuda.run(tmp_path, f"SOURCE = {SCALE!r}\n" + """
k = kiln.cuda.compile(SOURCE, "scale", ["-DFACTOR=3"])
x, out = CudaArray(np.arange(64, dtype=np.float32)), CudaArray(np.zeros(64, np.float32))
seen = []
on_launch(lambda launch, words: seen.append((launch.name, *words.tolist())))
k[(2, 1), 32](x, out, np.int32(64), (kl.float32, 0.5), shared=100, cluster=2, stream=9)
name, a, b, rest = seen[0]
assert name == b"scale" and a == x.__cuda_array_interface__["data"][0]
assert rest == 64 | int(np.float32(0.5).view(np.uint32)) << 32
for empty in ((0,), (2, 0), (2, 1, 0)):
    k[empty, 32](x, out, np.int32(64), (kl.float32, 0.5))
assert len(launches()) == 1, launches()
assert "grid 2x1x1 block 32x1x1 cluster 2 shared 100 bytes 24 pdl 0 stream 9" in launches()[0], launches()
k[1, 32](None, ctypes.c_void_p(5), np.int64(1), b"12345678")
assert seen[1][1:3] == (0, 5)
for arguments, message in [
    ((x, out, 3.0), "argument 2: expected a scalar with a type"),
    ((np.zeros(4, np.float32),), "argument 0: expected an array on"),
    ((object(),), "argument 0: expected an array, a number, None or a scalar with a type"),
]:
    try:
        k[1, 32](*arguments)
    except errors.LaunchError as error:
        assert message in str(error) and "scale" in str(error), error
    else:
        raise AssertionError(message)
for shape in (4, (1, 2, 3), ("a", 1)):
    try:
        k[shape]
    except errors.UsageError:
        continue
    raise AssertionError(shape)
before = len(launches())
for grid, block, options, message in [
    (-1, 32, {}, "expected a grid of 0 to 2147483647 in dimension 0, got -1"),
    ((1, 70000), 32, {}, "expected a grid of 0 to 65535 in dimension 1, got 70000"),
    (1, 2048, {}, "expected a block of 1 to 1024 in dimension 0, got 2048"),
    (1, 0, {}, "expected a block of 1 to 1024 in dimension 0, got 0"),
    (3, 32, {"cluster": 2}, "expected a grid that is a multiple of the cluster's 2 in dimension 0, got 3"),
    (1, (32, 64), {}, "threads of one block: required 2048, available 1024\\nhint: reduce the block"),
    (1, 32, {"shared": 1 << 20}, "of one block: required 1048576, available 232448\\nhint: reduce shared"),
]:
    try:
        k[grid, block](x, out, np.int32(64), np.float32(1), **options)
    except (errors.LaunchError, errors.ResourceError) as error:
        assert message in str(error) and "scale (CUDA C)" in str(error), error
    else:
        raise AssertionError(message)
k[0, 32](x, out, np.int32(64), np.float32(1))
assert len(launches()) == before
assert k.figures(32, cluster=2)["registers"] == 24
""")  # fmt: skip
