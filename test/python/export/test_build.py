"""Exported code, built as a user builds it and run: on the CPU, and on GPUs as far as a fake driver can show.

What a C++ program passes to the driver is compared byte for byte with what a launch from Python passes.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from kiln.cli import main
from kiln.export import export_kernel, variants_of

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.append(str(HERE.parent / "runtime"))
import fake_cuda  # noqa: E402

KERNELS = str(HERE / "kernels.py")
COMPILER = shutil.which("clang++-22")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no clang++-22")


def folder(kind):
    import kiln

    return pathlib.Path(kiln.__file__).parent / kind


def export(directory, source, name, signatures, targets, *words):
    given = [word for signature in signatures for word in ("--signature", signature)]
    named = [word for target in targets for word in ("--target", target)]
    assert main(["export", f"{source}::{name}", *given, *named, *words, "-o", str(directory)]) == 0


def call(*words, **environment):
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(exported, program, compiler=COMPILER, flags=()):
    """Compiles a program with everything that was exported, without a build system."""
    source = exported / "program.cpp"
    source.write_text(program)
    library = folder("lib")
    call(compiler, "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O0", *flags, "-I", folder("include"),
         "-I", exported, *sorted(exported.glob("*.cpp")), *sorted(exported.glob("*.o")), "-o", exported / "program",
         "-L", library, "-lkiln_runtime", f"-Wl,-rpath,{library}", "-pthread")  # fmt: skip
    return exported / "program"


PRELUDE = """
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#define EXPECT(condition) \\
  if (!(condition)) { \\
    std::fprintf(stderr, "line %d: %s\\n%s\\n", __LINE__, #condition, kiln_message()); \\
    return 1; \\
  }
"""


def test_the_library_holds_no_compiler():
    library = folder("lib") / "libkiln_runtime.so"
    symbols = call("nm", "-C", library)
    for part in ("mlir::", "llvm::orc", "llvm::jitlink", "llvm::Module::", "llvm::Function::", "llvm::SelectionDAG"):
        assert part not in symbols
    exported = set(re.findall(r" T (\S+)", call("nm", "-D", "--defined-only", library)))
    declared = set(re.findall(r"KILN_API [^;]*?\b(kiln_\w+)\(", (folder("include") / "kiln/runtime.h").read_text()))
    assert {name for name in exported if not name.startswith("__nv_")} == declared
    needed = re.findall(r"NEEDED\s+(\S+)", call("objdump", "-p", library))
    assert all(name.startswith(("libc.", "libm.", "libstdc++.", "libgcc_s.", "ld-linux")) for name in needed), needed


def norm_of(n, stride, shift):
    import numpy as np
    from kiln.kernels.norm import rms_norm

    x, y = (np.zeros((5, stride), np.float16)[:, :n] for _ in range(2))
    return rms_norm(x, np.zeros(n + shift, np.float16)[shift:], out=y)


def test_kernels_of_the_library_by_cmake(tmp_path):
    """test/python/export/example: RMSNorm and a matrix product from C++, RMSNorm from C."""
    if shutil.which("cmake") is None:
        pytest.skip("no cmake")
    exported = tmp_path / "exported"
    # Variants for rows of a multiple of 16 elements, and for any.
    found = [
        variant
        for target in ("cpu-avx2", "cpu-sse")
        for n, stride, shift in ((1000, 1008, 0), (999, 1001, 1))
        for variant in variants_of(functools.partial(norm_of, n, stride, shift), target)
    ]
    export_kernel(found[0][0], [variant for _, variant in found], exported, "rms_norm")
    matrix = "(data=*fp32, batches=1, rows=i32, columns=i32, batch_stride=None, row_stride=i32, column_stride=1)"
    uncut = "(sums=None, arrived=None, whole=None, share=None, steps=None)"
    none = "(alpha=None, row_scale=None, beta=None, c=None, bias=None, residual=None)"
    uncut = "(sums=None, arrived=None, whole=None, share=None, steps=None)"
    plan = "GemmPlan(64, 64, 64, 'cpu', described=False)"
    export(exported, "kiln.kernels.gemm.kernel", "matmul_kernel",
           [f"a={matrix}, b={matrix}, out={matrix}, terms={none}, cut={uncut}, EPILOGUE=identity, "
            f"FORMULA=Formula(kl.float32, 'ieee', False), PLAN={plan}"],
           ["cpu-avx2", "cpu-sse"], "--name", "matmul")  # fmt: skip
    place = call(sys.executable, "-m", "kiln.cli", "config", "--cmake-dir").strip()
    call("cmake", "-S", HERE / "example", "-B", tmp_path / "build", "-DCMAKE_C_COMPILER=clang-22",
         f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DEXPORTED={exported}", f"-Dkiln_DIR={place}")  # fmt: skip
    call("cmake", "--build", tmp_path / "build", "-j", "2")
    assert call(tmp_path / "build" / "example") == "all right\n"
    assert "refused: kernel 'rms_norm_kernel': expected a grid" in call(tmp_path / "build" / "example_c")


EVERYTHING = (
    "row=(data=*fp32, count=i32, step={0}), out=(data=*fp16, count=i32, step=1), blocks=tensordesc<fp16[4,8]>:16,"
    " template={1}, add=i1, half=fp16, wide=u64, BLOCK=16, MODE='{3}', SCALE={2}, TYPE=kl.float16"
)


@pytest.mark.parametrize("compiler", [COMPILER, "g++"])
def test_every_kind_of_argument(tmp_path, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    both = [EVERYTHING.format("None", "None", 1.0, "add"), EVERYTHING.format("i64", "*fp32", 2.5, "negate")]
    export(tmp_path, KERNELS, "everything", both, ["cpu-sse"])
    program = build(tmp_path, '#include "everything.hpp"\n' + PRELUDE + """
int main() {
  static_assert(kernels::everything::BLOCK == 16 && kernels::everything::out_step == 1);
  auto kernel = kernels::everything::load();
  EXPECT(kernel);
  std::vector<float> row(64), bias(16);
  std::vector<kiln::f16> out(16);
  alignas(16) kiln::f16 block[4 * 8];
  for (int i = 0; i < 64; ++i)
    row[std::size_t(i)] = float(i);
  for (int i = 0; i < 16; ++i)
    bias[std::size_t(i)] = float(100 * i);
  for (kiln::f16 &element : block)
    element = kiln::f16(0.25f);
  kiln::Descriptor<const kiln::f16, 2> blocks(block, {4, 8});
  const auto cpu = kiln::Stream::cpu();
  // x + 8 (the block's sum) + 1.5 + 3 (of wide's upper bits)
  EXPECT(kernel->launch(cpu, 1, row.data(), 16, std::nullopt, out.data(), 16, blocks, nullptr, true, 1.5f,
                        std::uint64_t(3) << 60, "add", 1.0));
  for (int i = 0; i < 16; ++i)
    EXPECT(float(out[std::size_t(i)]) == float(i) + 12.5f);
  // -(4 x * 2.5 + 8 + bias) + 15
  EXPECT(kernel->launch(cpu, 1, row.data(), 16, 4, out.data(), 16, blocks, bias.data(), false, 1.5f, ~std::uint64_t(0),
                        "negate", 2.5));
  for (int i = 0; i < 16; ++i)
    EXPECT(float(out[std::size_t(i)]) == -(10.0f * float(i) + 8.0f + 100.0f * float(i)) + 15.0f);
  const kiln::Status status = kernel->launch(cpu, 1, row.data(), 16, 4, out.data(), 16, blocks, bias.data(), false,
                                             1.5f, 0, "add", 2.5);
  EXPECT(status.code() == kiln::Code::NoVariant);
  std::puts(status.message().c_str());
}
""", compiler)  # fmt: skip
    said = call(program)
    assert "kernel 'everything' has no variant for these arguments:" in said
    assert "argument 'MODE': expected 'negate', got 'add'" in said


def test_the_elements_of_cpp_round_as_numpy_does(tmp_path):
    """kiln::f16 and kiln::bf16 agree with numpy on every 16-bit value and many 32-bit ones."""
    import numpy as np

    program = build(tmp_path, "#include <kiln/runtime.hpp>\n" + PRELUDE + """
int main(int count, char **words) {
  EXPECT(count == 2);
  std::FILE *file = std::fopen(words[1], "wb");
  auto write = [&](const auto &value) { std::fwrite(&value, sizeof value, 1, file); };
  for (unsigned bits = 0; bits < 65536; ++bits) {
    kiln::f16 half;
    kiln::bf16 brain;
    half.bits = brain.bits = std::uint16_t(bits);
    write(float(half));
    write(float(brain));
  }
  for (std::uint64_t bits = 0; bits < std::uint64_t(1) << 32; bits += 39119) {
    const auto narrow = std::uint32_t(bits);
    float value;
    std::memcpy(&value, &narrow, sizeof value);
    write(kiln::f16(value).bits);
    write(kiln::bf16(value).bits);
  }
  std::fclose(file);
}
""")  # fmt: skip
    call(program, tmp_path / "numbers")
    data = (tmp_path / "numbers").read_bytes()
    wide = np.frombuffer(data[: 65536 * 8], np.float32).reshape(-1, 2)
    bits = np.arange(65536, dtype=np.uint16)
    np.testing.assert_array_equal(wide[:, 0], bits.view(np.float16).astype(np.float32))
    np.testing.assert_array_equal(wide[:, 1], (bits.astype(np.uint32) << 16).view(np.float32))
    narrow = np.frombuffer(data[65536 * 8 :], np.uint16).reshape(-1, 2)
    values = np.arange(0, 2**32, 39119, dtype=np.uint64).astype(np.uint32)
    floats = values.view(np.float32)
    number = ~np.isnan(floats)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow[number, 0], floats[number].astype(np.float16).view(np.uint16))
    # Add half a unit in the last place minus one, plus the last kept bit: round to nearest, ties to even.
    rounded = ((values.astype(np.uint64) + 0x7FFF + ((values >> 16) & 1)) >> 16).astype(np.uint16)
    np.testing.assert_array_equal(narrow[number, 1], rounded[number])
    assert np.isnan(narrow[~number, 0].view(np.float16)).all()
    assert ((narrow[~number, 1] & 0x7FFF) > 0x7F80).all()


def test_element_types_and_constants_choose_the_variant(tmp_path):
    scale = "x=*{0}, y=*{0}, n=i32, factor=fp32, BLOCK={1}"
    signatures = [scale.format("fp32", 64), scale.format("fp16", 64), scale.format("fp16", 128)]
    export(tmp_path, KERNELS, "scale", signatures, ["cpu"])
    program = build(tmp_path, '#include "scale.hpp"\n' + PRELUDE + """
struct half {
  std::uint16_t bits;
};
template <> struct kiln::Element<half> : kiln::Element<kiln::f16> {};

int main() {
  const auto kernel = kernels::scale::load();
  EXPECT(kernel);
  const auto cpu = kiln::Stream::cpu();
  std::vector<float> x(100, 3.0f), y(100);
  EXPECT(kernel->launch(cpu, 2, x.data(), y.data(), 100, 2.0f, 64));
  for (float element : y)
    EXPECT(element == 6.0f);
  std::vector<half> narrow(100, {kiln::f16(1.5f).bits});
  const kiln::Array<const kiln::f16> from(narrow.data());
  EXPECT(kernel->launch(cpu, 1, from, narrow.data(), 100, 2.0f, 128));
  EXPECT(kernel->launch(cpu, 2, kiln::AnyArray(narrow.data(), KILN_FP16), narrow.data(), 100, 2.0f, 64));
  for (half element : narrow)
    EXPECT(element.bits == kiln::f16(6.0f).bits);
  EXPECT(kernel->launch(cpu, 1, x.data(), y.data(), 100, 2.0f, 128).code() == kiln::Code::NoVariant);
  EXPECT(kernel->launch(cpu, 1, x.data(), narrow.data(), 100, 2.0f, 64).code() == kiln::Code::NoVariant);
  EXPECT(kernel->launch(cpu, 1, nullptr, y.data(), 100, 2.0f, 64).code() == kiln::Code::NoVariant);
  EXPECT(kernel->launch(kiln::Stream::cuda(nullptr, 63), 1, x.data(), y.data(), 100, 2.0f, 64).code() !=
         kiln::Code::Ok);
}
""")  # fmt: skip
    call(program)


def test_what_compiled_code_calls_is_in_the_library(tmp_path):
    export(tmp_path, KERNELS, "special", ["x=*fp32, y=*fp32, n=i32, BLOCK=16"], ["cpu-sse"])
    program = build(tmp_path, '#include "special.hpp"\n' + PRELUDE + """
int main() {
  const auto kernel = kernels::special::load();
  EXPECT(kernel);
  std::vector<float> x(16), y(16);
  for (int i = 0; i < 16; ++i)
    x[std::size_t(i)] = std::erf(float(i - 8) / 8);
  EXPECT(kernel->launch(kiln::Stream::cpu(), 1, x.data(), y.data(), 16));
  for (int i = 0; i < 16; ++i)
    EXPECT(std::abs(y[std::size_t(i)] - float(i - 8) / 8) < 1e-5f);
}
""")  # fmt: skip
    call(program)


def test_prints_and_assertions(tmp_path):
    export(tmp_path, KERNELS, "checked", ["x=*fp32, n=i32, BLOCK=16"], ["cpu-sse"])
    program = build(tmp_path, '#include "checked.hpp"\n' + PRELUDE + """
int main() {
  const auto kernel = kernels::checked::load();
  EXPECT(kernel);
  const std::vector<float> x(16, 0.5f);
  EXPECT(kernel->launch(kiln::Stream::cpu(), 1, x.data(), 16));
  const kiln::Status status = kernel->launch(kiln::Stream::cpu(), 1, x.data(), 0);
  EXPECT(status.code() == kiln::Code::AssertionFailed);
  std::puts(status.message().c_str());
}
""")  # fmt: skip
    said = call(program)
    assert "8.0" in said.splitlines()[0]
    assert "n is positive" in said and "kernels.py:" in said


# ---- GPUs ------------------------------------------------------------------------------------------------------------
MATRIX = (
    "(data=*fp16:16, batches=1, rows=i32:16, columns=i32:16, batch_stride=None, row_stride=i32:16, column_stride=None)"
)
UNCUT = "(sums=None, arrived=None, whole=None, share=None, steps=None)"
NONE = "(alpha=None, row_scale=None, beta=None, c=None, bias=None, residual=None)"
UNCUT = "(sums=None, arrived=None, whole=None, share=None, steps=None)"
PRODUCT = (
    f"a={MATRIX}, b={MATRIX}, out={MATRIX}, terms={NONE}, cut={UNCUT}, EPILOGUE=identity,"
    " FORMULA=Formula(kl.float32, 'ieee', False), PLAN=GemmPlan(128, 128, 64), schedule=cooperative,"
    " stages=4, consumers=2"
)


@pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")
def test_the_driver_gets_what_python_passes(tmp_path):
    """Parameters, tensor maps, persistent grids, clusters and dependent launches: every byte of every launch is the
    same."""
    python = tmp_path / "python.txt"
    addresses = fake_cuda.run(
        tmp_path,
        f"""
    import importlib.util, sys, types
    from kiln.tools.tensor_descriptor import TensorDescriptor
    from kiln.kernels.gemm.kernel import Cut, Formula, GemmPlan, Matrix, Terms, identity, matmul_kernel
    spec = importlib.util.spec_from_file_location("kernels", {KERNELS!r})
    kernels = importlib.util.module_from_spec(spec)
    sys.modules["kernels"] = kernels
    spec.loader.exec_module(kernels)

    class Tensor:
        # As torch's: storage that is known, so that a launch sees which do not overlap.
        is_cpu = False
        device = types.SimpleNamespace(type="cuda", index=0)
        def __init__(self, values):
            self.array, self.dtype, self.shape = CudaArray(values), values.dtype, values.shape
        def data_ptr(self):
            return self.array.__cuda_array_interface__["data"][0]
        def untyped_storage(self):
            return self
        def nbytes(self):
            return self.array.values.nbytes

    x, y = Tensor(np.zeros(4096, np.float32)), Tensor(np.zeros(4096, np.float32))
    a, b, out = (Tensor(np.zeros(n, np.float16)) for n in (512 * 256, 256 * 512, 512 * 512))
    place = Tensor.data_ptr
    print(*map(place, (x, y, a, b, out)))
    for n in (1024, 1000, 1, 0):
        kernels.scale[2, 3](x, y, n, 2.5, BLOCK=1024, num_warps=8)
    kernels.scale[(5,)](x, y, 4096, 0.5, BLOCK=512, cluster=2, pdl=True)
    kernels.copy_blocks[(3,)](TensorDescriptor(a, [300, 64], [256, 1], [64, 64]),
                              TensorDescriptor(b, [300, 64], [256, 1], [64, 64]), BLOCK=64)
    right = Matrix(b, 1, 256, 512, None, 512, None)
    plan = GemmPlan(128, 128, 64)
    for tiles in (16, 1000):
        left, result = (Matrix(x, 1, 32 * tiles, n, None, n, None) for x, n in ((a, 256), (out, 512)))
        matmul_kernel[(tiles,)](left, right, result, Terms(), Cut(), identity, Formula(kl.float32, "ieee", False), plan,
                                schedule="cooperative", stages=4, consumers=2)
    """,
        FAKE_CUDA_RECORD=str(python),
    ).split()
    exported = tmp_path / "exported"
    scale = "x=*fp32:16, y=*fp32:16, n={}, factor=fp32, BLOCK={}, {}"
    export(exported, KERNELS, "scale",
           [scale.format(n, 1024, "num_warps=8") for n in ("i32", "i32:16", "1")]
           + [scale.format("i32:16", 512, "cluster=2, pdl=True")], ["sm_90a"], "--disjoint", "all")  # fmt: skip
    blocks = "tensordesc<fp16[64,64]>:16:rows"
    export(
        exported, KERNELS, "copy_blocks", [f"source={blocks}, to={blocks}, BLOCK=64"], ["sm_90a"], "--disjoint", "all"
    )
    export(exported, "kiln.kernels.gemm.kernel", "matmul_kernel", [PRODUCT], ["sm_90a"], "--disjoint", "all")
    program = build(exported, """
#include "copy_blocks.hpp"
#include "matmul_kernel.hpp"
#include "scale.hpp"
""" + PRELUDE + """
int main(int count, char **words) {
  EXPECT(count == 7);
  kiln_set_cuda_library(words[1]);
  void *places[5];
  for (int i = 0; i < 5; ++i)
    places[i] = reinterpret_cast<void *>(std::strtoull(words[2 + i], nullptr, 10));
  const kiln::Array<const float> x(places[0]);
  const kiln::Array<float> y(places[1]);
  const kiln::Array<const kiln::f16> a(places[2]), b(places[3]);
  const kiln::Array<kiln::f16> to(places[3]), out(places[4]);

  const auto scale = kernels::scale::load();
  EXPECT(scale);
  const auto stream = kiln::Stream::cuda();
  for (int n : {1024, 1000, 1, 0})
    EXPECT(scale->launch(stream, {2, 3}, x, y, n, 2.5f, 1024));
  EXPECT(scale->launch(stream, 5, x, y, 4096, 0.5f, 512));
  const auto copy = kernels::copy_blocks::load();
  EXPECT(copy);
  EXPECT(copy->launch(stream, 3, {a, {300, 64}, {256, 1}}, {to, {300, 64}, {256, 1}}));
  const auto product = kernels::matmul_kernel::load();
  EXPECT(product);
  for (int tiles : {16, 1000})
    EXPECT(product->launch(stream, tiles, a, 32 * tiles, 256, 256, b, 256, 512, 512, out, 32 * tiles, 512, 512));
  EXPECT(kiln::synchronize());
}
""")  # fmt: skip
    native = tmp_path / "native.txt"
    call(program, fake_cuda.library(), *addresses, FAKE_CUDA_RECORD=str(native))
    launches = python.read_text().splitlines()
    assert launches == native.read_text().splitlines()
    # The launches contain a cluster of two and a dependent launch; three tensor maps, by the driver's mark; and, of a
    # grid of 1000 programs, only as many as are resident at once, with the count of 1000 after the arguments.
    assert len(launches) == 8
    assert "grid 10 1 1" in launches[4] and "attribute 4:2,1,1 attribute 6:1" in launches[4]
    assert [line.count("4b544d31") for line in launches] == [0] * 6 + [3] * 2
    assert '\\"persistent\\":true' in (exported / "matmul_kernel_code.cpp").read_text()
    assert int(launches[7].split()[2]) < 1000 and (1000).to_bytes(4, "little").hex() in launches[7]
