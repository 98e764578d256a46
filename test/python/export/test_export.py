"""`kiln export`: what it writes and what it rejects."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from kiln import errors
from kiln.cli import main
from kiln.cli.compile import load_kernel
from kiln.cli.signature import parse_signature
from kiln.export import Variant, export_kernel, variants_of

HERE = pathlib.Path(__file__).parent
KERNELS = str(HERE / "kernels.py")
SCALE = "x=*fp32{0}, y=*fp32{0}, n=i32{0}, factor=fp32, BLOCK=1024"


def run(*words):
    return main(["export", *words])


def export(tmp_path, kernel, signatures, *words, targets=("cpu-avx2",)):
    given = [word for signature in signatures for word in ("--signature", signature)]
    named = [word for target in targets for word in ("--target", target)]
    assert run(f"{KERNELS}::{kernel}", *given, *named, *words, "-o", str(tmp_path)) == 0
    return tmp_path


def variants(kernel, *signatures, target="cpu-avx2"):
    return [Variant(tuple(parse_signature(signature, kernel)), target) for signature in signatures]


def test_the_output_matches_the_golden_files(tmp_path, capsys):
    """Golden files. If a change is intended, `cp` the output over them."""
    export(tmp_path, "scale", [SCALE.format(":16") + ", num_warps=8", SCALE.format(""),
                               "x=*fp16, y=*fp16, n=i32, factor=fp32, BLOCK=2048"],
           targets=("sm_90a", "cpu-avx2", "cpu-sse"))  # fmt: skip
    written = capsys.readouterr().out.split()
    assert [pathlib.Path(path).name for path in written] == sorted(
        (path.name for path in tmp_path.iterdir()), key=[pathlib.Path(path).name for path in written].index
    )
    for name in ("scale.h", "scale.hpp", "scale.cpp", "scale.kernel.cmake", "CMakeLists.txt"):
        assert (tmp_path / name).read_text() == (HERE / "golden" / name).read_text(), name


def test_the_text_is_formatted(tmp_path):
    formatter = shutil.which("clang-format-22")
    if formatter is None:
        pytest.skip("no clang-format")
    export(tmp_path, "scale", [SCALE.format("")])
    both = [EVERYTHING.format("None", "None", 1.0, "add", 16), EVERYTHING.format("i64", "*fp32", 2.5, "negate", 16)]
    export(tmp_path, "everything", both)
    files = sorted(str(path) for path in tmp_path.iterdir() if path.suffix in (".h", ".hpp", ".cpp"))
    assert len(files) == 8
    style = f"--style=file:{HERE.parents[2] / '.clang-format'}"
    done = subprocess.run([formatter, style, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


EVERYTHING = (
    "row=(data=*fp32, count=i32, step={0}), out=(data=*fp16, count=i32, step=1), blocks=tensordesc<fp16[4,8]>:16,"
    " template={1}, add=i1, half=fp16, wide=u64, BLOCK={4}, MODE='{3}', SCALE={2}, TYPE=kl.float16"
)


def test_arguments_of_a_launch_function(tmp_path):
    """Constants that differ between variants are arguments, others are not; tuples are passed as their items."""
    export(tmp_path, "everything", [EVERYTHING.format("None", "None", 1.0, "add", 16),
                                    EVERYTHING.format("i64", "*fp32", 2.5, "negate", 16)])  # fmt: skip
    declared = " ".join((tmp_path / "everything.h").read_text().split())
    assert (
        "kiln_status everything_launch(kiln_kernel *kernel, kiln_stream stream, kiln_grid grid, const void *row_data,"
        " int32_t row_count, const int64_t *row_step, void *out_data, int32_t out_count, const kiln_descriptor *blocks,"
        " const void *template_, bool add, float half, uint64_t wide, const char *MODE, double SCALE);"
    ) in declared
    header = " ".join((tmp_path / "everything.hpp").read_text().split())
    assert (
        "kiln::Status launch(kiln::Stream stream, kiln::Grid grid, kiln::Array<const float> row_data, std::int32_t"
        " row_count, std::optional<std::int64_t> row_step, kiln::Array<kiln::f16> out_data, std::int32_t out_count,"
        " const kiln::Descriptor<const kiln::f16, 2> &blocks, kiln::Array<const float> template_, bool add, float half,"
        " std::uint64_t wide, const char *MODE, double SCALE) const {"
    ) in header
    assert "static constexpr std::int64_t out_step = 1; static constexpr std::int64_t BLOCK = 16;" in header
    assert "TYPE=fp16" in header and "static constexpr" in header


def test_the_same_export_gives_the_same_bytes(tmp_path, monkeypatch):
    export(tmp_path / "a", "scale", [SCALE.format("")], targets=("sm_90a", "cpu-avx2"))
    monkeypatch.chdir(tmp_path)
    export(pathlib.Path("b"), "scale", [SCALE.format("")], targets=("sm_90a", "cpu-avx2"))
    a, b = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab")
    assert a == b and len(a) == 8


def test_exported_gpu_code_is_what_a_launch_runs(tmp_path):
    """The exported code is the bytes of `kiln compile`, which are those of a launch."""
    export(tmp_path, "scale", [SCALE.format(":16") + ", num_warps=8"], "--disjoint", "all", targets=("sm_90a",))
    assert main(["compile", f"{KERNELS}::scale", "--signature", SCALE.format(":16"), "--num-warps", "8", "--disjoint",
                 "all", "--target", "sm_90a", "-o", str(tmp_path / "compiled.bin")]) == 0  # fmt: skip
    (code,) = tmp_path.glob("scale.0.sm_90a.*")
    assert code.read_bytes() == (tmp_path / "compiled.bin").read_bytes()
    words = [
        int(word.rstrip(","), 16) for word in (tmp_path / "scale_code.cpp").read_text().split() if word[:2] == "0x"
    ]
    assert b"".join(word.to_bytes(8, "little") for word in words)[: code.stat().st_size] == code.read_bytes()
    said = " ".join((tmp_path / "scale.hpp").read_text().replace("///", "").split())
    assert "launched with num_warps=8; no other array may overlap x, y" in said


def test_a_kernel_of_a_module(tmp_path):
    """`kiln.kernels…` needs no path; an expression of the module can be a constexpr; names can be chosen."""
    matrix = "(data=*fp32, batches=1, rows=i32, columns=i32, batch_stride=None, row_stride=i32, column_stride=1)"
    uncut = "(sums=None, arrived=None, whole=None, share=None, steps=None)"
    none = "(alpha=None, row_scale=None, beta=None, c=None, bias=None, residual=None)"
    uncut = "(sums=None, arrived=None, whole=None, share=None, steps=None)"
    signature = (
        f"a={matrix}, b={matrix}, out={matrix}, terms={none}, cut={uncut}, EPILOGUE=identity, "
        "FORMULA=Formula(kl.float32, 'ieee', False), PLAN=GemmPlan(32, 32, 32, 'cpu', described=False)"
    )
    words = ("--signature", signature, "--name", "product", "--namespace", "my::kernels", "-o", str(tmp_path))
    assert run("kiln.kernels.gemm.kernel::matmul_kernel", "--target", "cpu-avx2", *words) == 0
    text = (tmp_path / "product.hpp").read_text()
    assert "namespace my::kernels {" in text and "class product {" in text
    assert "PLAN=GemmPlan(32, 32, 32, schedule='cpu', described=False)" in " ".join(text.replace("///", "").split())


def test_library_launches_can_be_exported(tmp_path):
    """The library's own plan is exported, for a GPU and for the CPU."""
    import numpy as np
    from kiln.kernels.gemm import matmul

    a, b = np.zeros((512, 256), np.float16), np.zeros((256, 512), np.float16)
    found = [each for target in ("sm_90a", "cpu-avx2") for each in variants_of(lambda: matmul(a, b), target)]
    assert [kernel.__name__ for kernel, _ in found] == ["matmul_kernel"] * 2
    export_kernel(found[0][0], [variant for _, variant in found], tmp_path, "matmul")
    said = " ".join((tmp_path / "matmul.hpp").read_text().replace("///", "").split())
    assert "0. sm_90a: a.data=*fp16:16" in said and "1. cpu-avx2: a.data=*fp16:16" in said
    assert "schedule='cooperative'" in said and "no other array may overlap a.data, b.data, out.data" in said
    # Constants that C++ cannot name, None among them, are not arguments: one function serves both variants.
    assert (
        "launch(kiln::Stream stream, kiln::Grid grid, kiln::Array<const kiln::f16> a_data, std::int32_t a_rows,"
        " std::int32_t a_columns, std::int32_t a_row_stride, kiln::Array<const kiln::f16> b_data,"
    ) in said


@pytest.mark.parametrize("signatures, words, message", [
    ([], ("--target", "cpu-avx2"), "expected at least one signature and target, got none"),
    ([SCALE.format("")], (), "expected --target, or target= in the signature"),
    ([SCALE.format("")], ("--target", "sm_9"), "unknown target 'sm_9'"),
    ([SCALE.format("")], ("--target", "cpu-avx2", "--name", "a-b"), "expected a name that C++ takes, got 'a-b'"),
    ([SCALE.format("")], ("--target", "cpu-avx2", "--namespace", "a:b"), "expected a namespace that C++ takes"),
    ([SCALE.format("")], ("--target", "cpu-avx2", "--name", "union"),
     "expected a name that is not a keyword of C++, got 'union'; give another with --name"),
    ([SCALE.format("")], ("--target", "cpu-avx2", "--namespace", "my::new"),
     "expected a namespace that is not a keyword of C++, got 'new'"),
    ([SCALE.format(""), SCALE.format("")], ("--target", "cpu-avx2"),
     "expected signatures for cpu-avx2 that differ in an argument (because a launch chooses by them), got two with"),
    ([SCALE.format(""), "x=*fp32, y=*fp32, n=u32, factor=fp32, BLOCK=1024"], ("--target", "cpu-avx2"),
     "parameter 'n': expected one type of number in all signatures, or i32 and i64 (because one function takes it), got"
     " i32, u32"),
    ([SCALE.format(""), "x=*fp32, y=*fp32, n=5, factor=fp32, BLOCK=1024"], ("--target", "cpu-avx2"),
     "parameter 'n': expected a number in all signatures; as a constant 1 or None"),
    ([SCALE.format(""), "x=*fp32, y=*fp32, n=i32, factor=fp32, BLOCK=2.5"], ("--target", "cpu-avx2"), "BLOCK"),
    (["x=*fp32, y=*fp32, n=i32, factor=fp32, BLOCK=NoSuchName"], ("--target", "cpu-avx2"),
     "signature: expected a value for 'BLOCK' (because it is constexpr), such as 1024 or a name of the module of scale,"
     " got 'NoSuchName' (name 'NoSuchName' is not defined)"),
])  # fmt: skip
def test_refusals(tmp_path, capsys, signatures, words, message):
    given = [word for signature in signatures for word in ("--signature", signature)]
    assert run(f"{KERNELS}::scale", *given, *words, "-o", str(tmp_path / "out")) == 1
    assert message in capsys.readouterr().err


def test_signatures_distinguished_only_by_objects():
    kernel = load_kernel(KERNELS, "everything")
    one = EVERYTHING.format("None", "None", 1.0, "add", 16)
    with pytest.raises(errors.UserError, match="which differ in TYPE"):
        export_kernel(kernel, variants(kernel, one, one.replace("kl.float16", "kl.float32")), "/nonexistent")


def test_tuples_of_other_items():
    kernel = load_kernel(KERNELS, "everything")
    one = EVERYTHING.format("None", "None", 1.0, "add", 16)
    other = one.replace("out=(data=*fp16, count=i32, step=1)", "out=(data=*fp16, count=i32)")
    with pytest.raises(errors.UserError, match="signature 2: expected tuples of the same items as in signature 1"):
        export_kernel(kernel, variants(kernel, one, other), "/nonexistent")


def test_without_an_assembler_the_driver_assembles(tmp_path):
    program = f"""
from kiln.cli import main
words = ["--signature", {SCALE.format("")!r}, "--target", "sm_80", "-o", "."]
assert main(["export", {KERNELS!r} + "::scale", *words]) == 0
"""
    environment = {**os.environ, "KILN_PTXAS": "none"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert ".entry kiln_scale" in (tmp_path / "scale.0.sm_80.ptx").read_text()


def test_paths_of_headers_and_libraries(capsys):
    for option, file in (("--cmake-dir", "kilnConfig.cmake"), ("--include-dir", "kiln/runtime.hpp"),
                         ("--library-dir", "libkiln_runtime.so")):  # fmt: skip
        assert main(["config", option]) == 0
        assert (pathlib.Path(capsys.readouterr().out.strip()) / file).exists()
