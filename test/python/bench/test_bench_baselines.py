"""The baselines compile: CUDA C through NVRTC where it is installed, Triton kernels where Triton is. No GPU."""

import re

import pytest

ROW = "sm_90a"
RMS = [{"THREADS": 128, "VECTORS": 1, "RELOAD": 0}, {"THREADS": 512, "VECTORS": 2, "RELOAD": 0},
       {"THREADS": 1024, "VECTORS": 1, "RELOAD": 1}]  # fmt: skip
SWIGLU = [{"THREADS": 256, "UNROLL": 2}]
ROPE = [{"THREADS": 256, "HALF": 64, "HEADS": 32, "PER_THREAD": 4}]
_MIXES = ((1, 1, 1, 0), (8, 1, 1, 1), (4, 2, 1, 2), (4, 2, 2, 1), (4, 4, 3, 0), (2, 1, 1, 2))
MOVE = [{"THREADS": 256, "UNROLL": unroll, "READS": reads, "WRITES": writes, "EXTRAS": extras,
         "HINT": hint} for unroll, reads, writes, hint in _MIXES for extras in (0, 2)]  # fmt: skip


def compiled(file, name, defines):
    cuda = pytest.importorskip("kiln.cuda")
    from baselines import cuda_kernels
    from kiln import errors

    try:
        cuda.nvrtc_version()
    except errors.UserError as error:
        pytest.skip(str(error).splitlines()[0])
    return cuda.compile(cuda_kernels.source(file), name, cuda_kernels.options(**defines), target=ROW)


@pytest.mark.parametrize("file,name,defines", [
    *(("rms_norm.cu", name, defines) for name in ("rms_norm_naive", "rms_norm_vector") for defines in RMS),
    *(("swiglu.cu", name, defines) for name in ("swiglu_naive", "swiglu_vector") for defines in SWIGLU),
    *(("rope.cu", name, defines) for name in ("rope_naive", "rope_vector") for defines in ROPE),
    *(("move.cu", "move", defines) for defines in MOVE),
])  # fmt: skip
def test_cuda_c(file, name, defines):
    kernel = compiled(file, name, defines)
    assert kernel.cubin[:4] == b"\x7fELF"
    code = disassembled(kernel, name)
    assert not re.search(r"\b(STL|LDL)\b", code), "spills"
    wide = len(re.findall(r"\bLDG\.E[\w.]*\.128", code))
    if name == "move":
        assert wide >= defines["UNROLL"] * defines["READS"] + defines["EXTRAS"]
    elif name.endswith("_vector"):
        assert wide >= 2


def disassembled(kernel, name):
    """The machine code of one function in the file."""
    from kiln import errors

    try:
        text = kernel.sass
    except errors.UserError as error:
        pytest.skip(str(error).splitlines()[0])
    parts = re.split(r"^\s*(?:\.section\s+\.text\.|Function\s*:\s*|//-+ \.text\.)(\w+)", text, flags=re.MULTILINE)
    bodies = [body for found, body in zip(parts[1::2], parts[2::2], strict=True) if found == name]
    assert bodies, "the function is not in the cubin"
    return "".join(bodies)


@pytest.mark.parametrize("hint", [0, 1, 2])
def test_loads_of_the_ceiling_come_before_its_stores(hint):
    """That is what "loads in flight" means: the first store may wait for loads, but no load waits for a store."""
    defines = {"THREADS": 256, "UNROLL": 4, "READS": 2, "WRITES": 1, "EXTRAS": 0, "HINT": hint}
    code = disassembled(compiled("move.cu", "move", defines), "move")
    order = re.findall(r"\b(LDG|STG)\.E", code)
    assert order[:8] == ["LDG"] * 8 and "STG" in order[8:]


def test_the_ceiling_reads_what_the_row_reads():
    """Streams and extra arrays together cover all arrays of the row, each once."""
    from types import SimpleNamespace

    import numpy as np
    from baselines import ceiling
    from cases import select

    def arrays(**bytes_of):
        return {name: np.empty(n, np.uint8) for name, n in bytes_of.items()} | {"set": 0}

    (wide,), (one,) = select([], "layer_norm 2048x4096"), select([], "rms_norm 1x4096")
    found = arrays(x=wide.streams[2], weight=8192, bias=8192)
    assert [a.nbytes for a in ceiling.extras(found, wide, ())] == [8192, 8192]
    row = arrays(x=8192, weight=8192)
    (beside,), (read,) = ceiling.extras(row, one, ()), ceiling.streams(row, [], one, ())[0]
    assert beside is row["weight"] and read is row["x"]
    adamw = SimpleNamespace(streams=(4, 3, 64))
    state = arrays(parameter=64, gradient=64, moment=64, square=64, step=8)
    assert ceiling.extras(state, adamw, ("parameter", "moment", "square")) == []


@pytest.mark.parametrize("n,threads,vectors,reload", [
    (896, 128, 1, 0), (4096, 512, 1, 0), (8192, 512, 2, 0), (16384, 512, 4, 0), (131072, 1024, 1, 1),
])  # fmt: skip
def test_threads_of_a_row(n, threads, vectors, reload):
    from baselines import cuda_kernels

    found = cuda_kernels.row_shape(n)
    assert found == {"THREADS": threads, "VECTORS": vectors, "RELOAD": reload}
    assert reload or 8 * threads * vectors >= n


P, F = "*fp16", "*fp32"
NORM = {"x": P, "weight": P, "y": P, "rows": "i32", "eps": "fp32"}


@pytest.mark.parametrize("name,types,constants,warps", [
    ("_norm_kernel", NORM, {"residual": None, "bias": None, "total": None, "N": 896, "LAYER": False, "BLOCK": 1024,
                            "ROWS": 4}, 4),
    ("_norm_kernel", NORM | {"residual": P, "total": P}, {"bias": None, "N": 4096, "LAYER": False, "BLOCK": 4096,
                                                          "ROWS": 1}, 8),
    ("_norm_kernel", NORM | {"bias": P}, {"residual": None, "total": None, "N": 4096, "LAYER": True, "BLOCK": 4096,
                                          "ROWS": 1}, 8),
    ("_long_rms_norm_kernel", {"x": P, "weight": P, "y": P, "eps": "fp32"}, {"N": 131072, "STEP": 8192}, 16),
    ("_softmax_kernel", {"x": P, "y": P}, {"N": 32768, "BLOCK": 32768}, 32),
    ("_long_softmax_kernel", {"x": P, "y": P}, {"N": 131072, "STEP": 8192}, 16),
    ("_swiglu_kernel", {"gate": P, "up": P, "y": P, "n": "i32"}, {"BLOCK": 2048}, 4),
    ("_bias_gelu_kernel", {"x": P, "bias": P, "y": P, "rows": "i32", "n": "i32"}, {"BLOCK": 2048}, 4),
    ("_rope_kernel", {"q": P, "cosines": F, "sines": F, "y": P, "tokens": "i32"}, {"HEADS": 32, "HALF": 64,
                                                                                   "EACH": 32}, 4),
    ("_adamw_kernel", {"parameter": F, "gradient": F, "moment": F, "square": F, "step": "*i64", "n": "i32"},
     {"LR": 1e-3, "BETA1": 0.9, "BETA2": 0.999, "EPS": 1e-8, "DECAY": 1e-2, "LOG1": -0.1, "LOG2": -0.001,
      "BLOCK": 1024}, 4),
])  # fmt: skip
def test_triton(name, types, constants, warps):
    triton = pytest.importorskip("triton")
    from baselines import triton_kernels
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(triton_kernels, name).fn
    names = function.arg_names
    aligned = {(i,): [["tt.divisibility", 16]] for i, n in enumerate(names)
               if types.get(n, "").startswith("*") or n in ("n", "tokens")}  # fmt: skip
    signature = {n: types.get(n, "constexpr") for n in names}
    source = ASTSource(function, signature, {(names.index(n),): value for n, value in constants.items()}, aligned)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": warps})
    assert "ld.global.v4" in compiled.asm["ptx"] and "st.global.v4" in compiled.asm["ptx"]
