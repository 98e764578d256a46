"""Frozen mode: what a domain enumerates, and that nothing inside it compiles."""

import os
import pathlib
import pickle
import subprocess
import sys

import pytest
from kiln import errors
from kiln.cli import main
from kiln.cli.compile import load_kernel
from kiln.freeze import Domain, freeze

HERE = pathlib.Path(__file__).parent
KERNELS = str(HERE / "frozen_kernels.py")
sys.path.append(str(HERE.parent / "runtime"))
import fake_cuda  # noqa: E402

SCALE = "T=fp16|fp32, x=*T, y=*T, n=0..5000, factor=fp32, BLOCK=64"


def kernel(name="scale"):
    return load_kernel(KERNELS, name)


def spelled(domain):
    return {
        ", ".join(
            f"{p.name}={p.value if p.kind == 'constexpr' else p.spelled_type}" for p in variant.parameters
        )
        for variant in domain.enumerate()
    }  # fmt: skip


def run(tmp_path, program, **environment):
    """Runs a program in a new process in frozen mode, with the kernels imported and compiles counted."""
    path = tmp_path / "program.py"
    path.write_text(f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import numpy as np
import kiln
from kiln import errors, hooks
import frozen_kernels

loads, compiles = [], []
hooks.compile_end = lambda event: (loads if event.cached else compiles).append(event)
""" + program)  # fmt: skip
    clean = {name: value for name, value in os.environ.items() if not name.startswith("KILN_")}
    done = subprocess.run(
        [sys.executable, str(path)], env={**clean, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- domains ---------------------------------------------------------------------------------------------------------
def test_every_class_of_an_argument_is_enumerated_once():
    domain = Domain(kernel(), "x=*fp32, y=*fp32:16, n=0..100, factor=fp32, BLOCK=64")
    assert spelled(domain) == {
        f"x=*fp32{x}, y=*fp32:16, n={n}, factor=fp32, BLOCK=64" for x in ("", ":16") for n in ("i32", "i32:16", "1")
    }
    # Only classes that occur in the range.
    short = Domain(kernel(), "x=*fp32:16, y=*fp32:16, n=2..15, factor=fp32, BLOCK=64")
    assert spelled(short) == {"x=*fp32:16, y=*fp32:16, n=i32, factor=fp32, BLOCK=64"}
    wide = Domain(kernel(), "x=*fp32:16, y=*fp32:16, n=2147483640..2147483700, factor=fp32, BLOCK=64")
    assert spelled(wide) == {f"x=*fp32:16, y=*fp32:16, n={n}, factor=fp32, BLOCK=64" for n in ("i32", "i64", "i64:16")}


def test_unspecialised_arguments_form_one_class():
    assert spelled(Domain(kernel("general"), "x=*i32:16, n=i32, BLOCK=16")) == {"x=*i32:16, n=i32, BLOCK=16"}


def test_variables_tie_types_and_options_multiply():
    variants = Domain(kernel(), "T=fp16|fp32, x=*T:16, y=*T:16, n=2, factor=fp32, BLOCK=64, num_warps=4|8").enumerate()
    assert sorted((v.parameters[0].type, v.parameters[1].type, v.options["num_warps"]) for v in variants) == [
        ("*fp16", "*fp16", 4), ("*fp16", "*fp16", 8), ("*fp32", "*fp32", 4), ("*fp32", "*fp32", 8)
    ]  # fmt: skip


def test_overlap_is_part_of_the_domain():
    text = "x=*fp32:16, y=*fp32:16, n=2, factor=fp32, BLOCK=64"
    assert [v.disjoint for v in Domain(kernel(), text).enumerate()] == [(True, True)]
    assert {v.disjoint for v in Domain(kernel(), text, [("x", "y")]).enumerate()} == {(True, True), (False, False)}


def test_products_on_a_gpu_are_bounded_or_not():
    """Divisibility by 8 and 4 counts too; counts below 0, above 2^30 or in grids that are too large are not bounded."""
    domain = Domain(kernel("product"), "a=*fp16:16, c=*fp32:16, m=64, stride=-64|64|72|76|77|0|2147483632")

    def found(gpu):
        return {(v.parameters[3].spelled_type, v.options.get("describe_pointers")) for v in domain.enumerate(gpu=gpu)}

    assert found(gpu=False) == {("i32", None), ("i32:16", None)}
    plain = {("i32", False), ("i32:16", False)}
    assert found(gpu=True) == {*plain, ("i32:16", None), ("i32:8", None), ("i32:4", None), ("i32", None)}


def test_tuples_and_none():
    text = "a=(data=*fp32, stride=None|2..9), out=(*fp32:16, 16), bias=None|*fp32:16, WIDTH=16"
    variants = Domain(kernel("add_rows"), text).enumerate()
    found = {
        (v.parameters[0].items[0].divisible, v.parameters[0].items[1].kind, v.parameters[2].kind) for v in variants
    }
    assert len(found) == 2 * 2 * 2
    assert all(v.parameters[0].fields == ("data", "stride") for v in variants)


@pytest.mark.parametrize("text, message", [
    ("x=*fp32, y=*fp32, n=2, BLOCK=64", "expected values for parameter 'factor', got none"),
    ("x=*fp3, y=*fp32, n=2, factor=fp32, BLOCK=64", "'x': expected an array such as *fp32 or *fp32:16, got '*fp3'"),
    ("x=*fp32, y=*fp32, n=2, factor=fp32, BLOK=64, BLOCK=64",
     "the kernel has no parameter 'BLOK'; did you mean 'BLOCK'?"),
    ("x=*fp32, y=*fp32, n=5..2, factor=fp32, BLOCK=64", "'n': expected a range with integers in it, got '5..2'"),
    ("x=*fp32, y=*fp32, n=2, factor=fp32, BLOCK=0..100000", "'BLOCK': expected values (because it is constexpr)"),
    ("x=*fp32, y=*fp32, n=2, factor=fp32, BLOCK=a.b", "'BLOCK': a.b: name 'a' is not defined"),
])  # fmt: skip
def test_mistakes_in_domains(text, message):
    with pytest.raises(errors.UserError) as caught:
        Domain(kernel(), text).enumerate()
    assert message in str(caught.value)


def test_too_many_variants_are_refused_before_anything_is_compiled(tmp_path):
    with pytest.raises(errors.UserError, match="expected at most 3 variants, got more"):
        Domain(kernel(), SCALE).enumerate(most=3)


# ---- bundles ---------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """A bundle with both kernels, made by the command line."""
    path = str(tmp_path_factory.mktemp("frozen") / "bundle")
    words = ["--target", "cpu", "--jobs", "2", "-o", path]
    assert main(["freeze", f"{KERNELS}::scale", "--domain", SCALE, "--overlap", "x,y", *words]) == 0
    domain = "a=(data=*fp32:16, stride=None|2..100), out=(data=*fp32:16, stride=2..100), bias=None|*fp32, WIDTH=16"
    assert main(["freeze", f"{KERNELS}::add_rows", "--domain", domain, *words]) == 0
    return path


def test_ten_thousand_calls_inside_the_domains_compile_nothing(tmp_path, bundle):
    said = run(tmp_path, """
import random
random.seed(3)
space = np.arange(40000, dtype=np.float32) % 61
halves = space.astype(np.float16)
calls = 0
for _ in range(8000):
    n = random.choice([0, 1, 16, 17, 1000, 4096, random.randint(0, 5000)])
    source = random.choice([space, halves])
    # Each array its own storage, at any address; or one array for both.
    x = source[random.randint(0, 40):].copy() if random.random() < 0.5 else source[random.randint(0, 40):]
    y = x if x.base is None and random.random() < 0.2 else np.zeros(6000, x.dtype)[random.randint(0, 40):]
    expected = x[:n] * x.dtype.type(2)
    frozen_kernels.scale[(-(-n // 64),)](x, y, n, 2.0, BLOCK=64)
    assert (y[:n] == expected).all()
    calls += 1
for _ in range(2000):
    count, stride = random.randint(0, 6), random.choice([16, 17, 24, 32, 100])
    a, out = np.full(1000, 3, np.float32), np.zeros(1000, np.float32)
    bias = random.choice([None, np.ones(32, np.float32)[random.randint(0, 9):]])
    Rows = frozen_kernels.Rows
    frozen_kernels.add_rows[(count,)](Rows(a, random.choice([None, stride])), Rows(out, stride), bias, 16)
    assert count == 0 or out[0] == 3 + (bias is not None)
    calls += 1
print(calls, len(compiles), len(loads))
""", KILN_FROZEN=bundle)  # fmt: skip
    calls, compiles, loads = map(int, said.split())
    assert (calls, compiles) == (10000, 0)
    assert loads > 30  # the random arguments reached this many variants of the bundle


def test_a_launch_outside_the_domain_says_what_is_missing(tmp_path, bundle):
    said = run(tmp_path, """
x = np.zeros(6000, np.float32)
y = np.zeros(6000, np.float32)
def tell(*args, kernel=frozen_kernels.scale, **meta):
    try:
        kernel[(1,)](*args, **meta)
    except errors.FrozenError as error:
        print(error.sentence())
        return error
    raise AssertionError("a launch that compiles")
assert tell(x, y, 1000, 2.0, BLOCK=256).value == 256
assert tell(x, y, 1 << 33, 2.0, BLOCK=64).argument == "n"
tell(x.astype(np.float64), y, 1000, 2.0, BLOCK=64)
tell(x, y, 1000, 2.0, BLOCK=64, num_warps=8)
tell(x, 1000, kernel=frozen_kernels.general, BLOCK=16)
rows = frozen_kernels.Rows(x[:1000], 16)
tell(rows, rows, None, kernel=frozen_kernels.add_rows, WIDTH=16)
assert not compiles
""", KILN_FROZEN=bundle)  # fmt: skip
    first, second, third, fourth, fifth, sixth = said.splitlines()
    assert first.startswith("launch of scale: argument 'BLOCK': expected 64 (because ")
    assert "holds all code in frozen mode), got 256; missing: x=*fp32:16, y=*fp32:16, n=i32, factor=fp32" in first
    assert "argument 'n': expected 1 or i32 or i32:16 (because" in second and "got i64:16 from 8589934592" in second
    assert "argument 'x': expected" in third and "got *fp64:16 from an array of float64; missing: x=*fp64:16" in third
    assert "launch of scale: expected num_warps to be the default (because" in fourth and "), got 8; missing" in fourth
    assert (
        fifth.startswith("launch of general: expected code for this kernel (because") and "missing: x=*fp32:16" in fifth
    )

    assert "expected arrays that overlap as those that were frozen (because" in sixth
    assert "got a.data and out.data that may overlap others; missing" in sixth


def test_a_missing_bundle_is_reported(tmp_path):
    said = run(tmp_path, """
try:
    frozen_kernels.scale[(1,)](np.zeros(64, np.float32), np.zeros(64, np.float32), 64, 2.0, BLOCK=64)
except errors.FrozenError as error:
    print(error.sentence())
""", KILN_FROZEN=str(tmp_path / "nowhere"))  # fmt: skip
    assert "launch of scale: expected a bundle (because" in said and "got no folder that can be read" in said


def test_edited_sources_are_another_kernel(tmp_path, bundle):
    """A bundle's code is tied to its source: after an edit the bundle has none for the kernel."""
    text = pathlib.Path(KERNELS).read_text().replace("* factor", "* factor * 2")
    (tmp_path / "edited.py").write_text(text)
    run(tmp_path, f"""
sys.path.insert(0, {str(tmp_path)!r})
import edited
x = np.zeros(64, np.float32)
try:
    edited.scale[(1,)](x, np.zeros(64, np.float32), 64, 2.0, BLOCK=64)
except errors.FrozenError as error:
    assert "that the bundle was frozen with" in error.sentence(), error
else:
    raise AssertionError
""", KILN_FROZEN=bundle)  # fmt: skip


def test_without_the_bundle_everything_compiles(tmp_path, bundle):
    run(tmp_path, """
x = np.zeros(64, np.float32)
frozen_kernels.scale[(1,)](x, np.zeros(64, np.float32), 64, 2.0, BLOCK=64)
assert len(compiles) == 1
""", KILN_CACHE="0")  # fmt: skip


def test_a_bundle_grows_incrementally(tmp_path):
    scale = kernel()
    one = [Domain(scale, "x=*fp32:16, y=*fp32:16, n=2, factor=fp32, BLOCK=64")]
    two = [Domain(scale, "x=*fp32:16, y=*fp32:16, n=2|16, factor=fp32, BLOCK=64")]
    done = [freeze(domains, tmp_path / "bundle", ["cpu"]) for domains in (one, one, two)]
    assert [(each.variants, each.compiled) for each in done] == [(1, 1), (1, 0), (2, 1)]


def test_the_error_survives_pickling():
    error = errors.FrozenError("expected 1, got i32", "n=i32", "k", "n", errors.SourceRange("f", 1, 1, 1, 1, "g"))
    error.tell_values({"n": 2})
    again = pickle.loads(pickle.dumps(error))
    assert (
        again.sentence() == error.sentence() == "launch of k: argument 'n': expected 1, got i32 from 2; missing: n=i32"
    )


@pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")
def test_a_bundle_for_a_gpu(tmp_path):
    """Frozen without a GPU, and run by a driver that has none either."""
    path = str(tmp_path / "bundle")
    domain = "x=*fp32, y=*fp32, n=0..5000, factor=fp32, BLOCK=64, num_warps=8"
    words = ["--overlap", "x,y", "--target", "sm_90a", "-o", path]
    assert main(["freeze", f"{KERNELS}::scale", "--domain", domain, *words]) == 0
    domain = "a=*fp16:16, c=*fp32:16, m=64, stride=i32"
    words[1] = "a,c"
    assert main(["freeze", f"{KERNELS}::product", "--domain", domain, *words]) == 0
    fake_cuda.run(tmp_path, f"""
    import sys
    sys.path.insert(0, {str(HERE)!r})
    import frozen_kernels
    x, y = CudaArray(np.zeros(5000, np.float32)), CudaArray(np.zeros(5000, np.float32))
    for n in (0, 1, 16, 17, 4999):
        compiled = frozen_kernels.scale[(3,)](x, y, n, 2.0, BLOCK=64, num_warps=8)
        assert compiled.metadata["target"]["name"] == "sm_90a"
    assert len(launches()) == 5
    a, c = CudaArray(np.zeros(4096, np.float16)), CudaArray(np.zeros(4096, np.float32))
    for stride, grid in [(64, 1), (72, 1), (77, 1), (0, 1), (-64, 1), (1 << 30, 1), (3 << 29, 1), (64, 1 << 20)]:
        compiled = frozen_kernels.product[(grid,)](a, c, 64, stride)
        bounded = compiled.metadata["cuda"].get("bounded", False)
        assert bounded == (0 <= stride <= 1 << 30 and grid == 1), stride
    try:
        frozen_kernels.scale[(3,)](x, y, 5, 2.0, BLOCK=64)
    except errors.FrozenError as error:
        assert "expected num_warps to be 8 (because" in str(error) and "got the default" in str(error), error
    else:
        raise AssertionError
    """, KILN_FROZEN=path)  # fmt: skip


# ---- functions of the library ----------------------------------------------------------------------------------------
def test_calls_of_the_library(tmp_path):
    """A list of calls is a domain: calls of the same shapes compile nothing, whatever the arrays contain; others
    raise."""
    import numpy as np
    from kiln.freeze import freeze_calls
    from kiln.kernels.norm import rms_norm
    from kiln.kernels.softmax import softmax

    bundle = str(tmp_path / "bundle")
    weight = np.empty(96, np.float32)
    calls = [lambda rows=rows: rms_norm(np.empty((rows, 96), np.float32), weight) for rows in (1, 16, 32)]
    calls += [lambda: softmax(np.empty((4, 96), np.float32))]
    first = freeze_calls(calls, bundle, ["cpu"])
    assert 2 <= first.variants <= 4 and first.compiled == first.variants
    assert freeze_calls(calls, bundle, ["cpu"], jobs=2).compiled == 0
    said = run(
        tmp_path,
        """
from kiln.kernels.norm import rms_norm
from kiln.kernels.softmax import softmax
rng = np.random.default_rng(0)
for turn in range(60):
    x, weight = rng.standard_normal((rng.choice([1, 16, 32]), 96), np.float32), rng.standard_normal(96, np.float32)
    out = np.empty_like(x) if turn % 2 else None
    y = rms_norm(x, weight, out=out)
    assert np.allclose(y, x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight, atol=1e-5)
    s = softmax(x[:4] if len(x) > 4 else np.repeat(x, 4, 0))
    assert np.allclose(s.sum(-1), 1, atol=1e-5)
assert loads and not compiles, compiles
for call in (lambda: softmax(np.ones((4, 128), np.float32)), lambda: rms_norm(x.astype(np.float16), weight)):
    try:
        call()
    except errors.FrozenError as problem:
        print(problem.kernel)
    else:
        raise AssertionError("outside of the domain")
""",
        KILN_FROZEN=bundle,
    )
    assert said.split() == ["softmax_kernel", "rms_norm_kernel"]


def test_calls_for_a_gpu_are_planned_for_it(tmp_path):
    import numpy as np
    from kiln import _kiln
    from kiln.freeze import freeze_calls
    from kiln.kernels.softmax import softmax

    x = np.empty((64, 1024), np.float16)
    done = freeze_calls([lambda: softmax(x), lambda: softmax(x)], tmp_path / "bundle", ["sm_90a"])
    assert (done.variants, done.compiled) == (1, 1), "one launch, whoever makes it"
    (entry,) = [e for e in _kiln.Cache(str(tmp_path / "bundle"), True).entries() if e["kind"] == "artifact"]
    fields = {name: value for name, value, _ in entry["fields"]}
    assert "num_warps" in str(fields) and entry["subject"].endswith("softmax_kernel")
    with pytest.raises(errors.UserError, match="sm_12"):
        freeze_calls([lambda: softmax(x)], tmp_path / "bundle", ["sm_12"])
