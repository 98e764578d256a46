"""torch.compile(fullgraph=True) of launches and of library functions: what the graph contains, and that its results
equal Python's. Skipped where torch is not installed; `make setup` does not install it, as it takes 3 GB."""

from __future__ import annotations

from collections import namedtuple

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: torch.compile of kernels is not tested here")

import kiln  # noqa: E402
import kiln.language as kl  # noqa: E402
from kiln import errors  # noqa: E402
from kiln.kernels.activation import swiglu  # noqa: E402
from kiln.kernels.attention import (  # noqa: E402
    attention,
    attention_backward,
    attention_varlen,
    create_block_mask,
    flex_attention,
    flex_attention_backward,
)
from kiln.kernels.elementwise import add  # noqa: E402
from kiln.kernels.embedding import embedding  # noqa: E402
from kiln.kernels.gemm import linear, matmul  # noqa: E402
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm  # noqa: E402
from kiln.kernels.optimizer import adamw  # noqa: E402
from kiln.kernels.reduce import sum_all, topk  # noqa: E402
from kiln.kernels.rope import rope  # noqa: E402
from kiln.kernels.rows import RowPlan  # noqa: E402
from kiln.kernels.softmax import softmax  # noqa: E402
from kiln.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

BACKENDS = ["eager", "aot_eager"]
DEVICE = "cpu"


@pytest.fixture(autouse=True, params=["cpu", *["cuda"] * torch.cuda.is_available()])
def _fresh(request):
    global DEVICE
    DEVICE = request.param
    torch._dynamo.reset()
    torch.manual_seed(0)


def random(*shape):
    return torch.randn(shape).to(DEVICE)


class Graphs:
    """A backend that keeps the graphs it is given and runs them unchanged, functional or not."""

    def __init__(self, functional: bool = False):
        self.graphs = []
        self.functional = functional

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        if not self.functional:
            return graph.forward
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=lambda inner, _: inner.forward)(graph, inputs)

    def calls(self, name: str) -> list:
        operator = getattr(torch.ops.kiln, name).default
        return [node for graph in self.graphs for node in graph.graph.nodes if node.target is operator]


def agree(function, *arguments, **options):
    """Compiled by every backend, the function returns what Python returns and changes its arguments in the same way."""
    mine = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
    want = function(*mine)
    for backend in BACKENDS:
        torch._dynamo.reset()
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        got = torch.compile(function, fullgraph=True, backend=backend, **options)(*given)
        for one, other in zip(as_list(want) + mine, as_list(got) + given, strict=True):
            same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            assert same, (backend, one, other)


def as_list(value):
    return list(value) if isinstance(value, tuple) else [value]


# ---- launches --------------------------------------------------------------------------------------------------------
@kiln.jit
def scale(x, y, n, factor, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + i, kl.load(x + i, mask=i < n) * factor, mask=i < n)


def scaled(x, factor):
    y, n = torch.empty_like(x), x.numel()
    scale[lambda meta: (kiln.cdiv(n, meta["BLOCK"]),)](x, y, n, factor, BLOCK=128)
    return y + 1


def test_a_launch():
    agree(scaled, random(700), 0.5)


@pytest.mark.parametrize("grid", [3, (3,), [3, 1], (3, 1, 1), lambda meta: 3],
                         ids=["number", "one", "list", "three", "function"])  # fmt: skip
def test_every_form_of_a_grid(grid):
    def run(x):
        y = torch.zeros_like(x)
        scale[grid](x, y, 384, 2.0, BLOCK=128)
        return y

    agree(run, random(384))


def test_shapes_are_symbols():
    graphs = Graphs()
    compiled = torch.compile(scaled, fullgraph=True, dynamic=True, backend=graphs)
    for n in (5, 700, 31, 4096):
        x = random(n)
        assert torch.equal(compiled(x, 0.5), x * 0.5 + 1)
    (call,) = graphs.calls("launch")  # no new graph for any length
    assert [str(side) for side in call.args[5]][1:] == ["1", "1"]


def test_only_what_is_stored_to_is_written():
    graphs = Graphs()
    torch.compile(scaled, fullgraph=True, backend=graphs)(random(10), 0.5)
    (call,) = graphs.calls("launch")
    form, written, read = call.args[:3]
    assert form.startswith(f"{__name__}.scale:")
    assert [node.name for node in written] == ["y"] and len(read) == 1


@kiln.jit
def choose(a, b, c, flag, MODE: kl.constexpr):
    i = kl.arange(0, 16)
    if MODE == 0:
        kl.store(a + i, kl.load(c + i))
    elif MODE == 1:
        target = a if flag > 0 else b
        kl.store(target + i, kl.load(c + i))
    else:
        kl.atomic_add(b + i, kl.load(c + i))


@pytest.mark.parametrize("mode, written", [(0, ["a"]), (1, ["a", "b"]), (2, ["b"])])
def test_written_arguments_are_tracked_through_branches_and_selects(mode, written):
    def run(a, b, c, flag):
        choose[1](a, b, c, flag, MODE=mode)
        return a + b

    agree(run, *random(3, 16).unbind(), 1)
    graphs = Graphs()
    torch.compile(run, fullgraph=True, backend=graphs)(*random(3, 16).unbind(), -2)
    (call,) = graphs.calls("launch")
    assert [node.name for node in call.args[1]] == [f"l_{name}_" for name in written]


@kiln.jit
def through_a_table(table, out, n):
    address = kl.load(table + n).to(kl.pointer_type(kl.float32))
    kl.store(address + kl.arange(0, 16), 1.0)


@pytest.mark.cpu  # the table's addresses are those of the tensors given
def test_tensors_count_as_written_if_unknown():
    out = random(16).zero_()
    table = torch.tensor([0, out.data_ptr()], device=DEVICE)
    graphs = Graphs()

    def run(table, out):
        through_a_table[1](table, out, 1)
        return out + 1

    assert (torch.compile(run, fullgraph=True, backend=graphs)(table, out) == 2).all()
    (call,) = graphs.calls("launch")
    assert len(call.args[1]) == 2 and not call.args[2]


def test_views_and_one_tensor_twice():
    def run(x):
        scale[1](x[8:], x[:8], 8, 3.0, BLOCK=16)
        scale[1](x, x, 16, 2.0, BLOCK=16)
        return x.sum()

    agree(run, random(16))


@kiln.jit
def twice(value):
    return value * 2


Pair = namedtuple("Pair", "data step")


@kiln.jit
def assorted(pair: Pair, out, sizes, KIND: kl.constexpr, FUNCTION: kl.constexpr, OPTION: kl.constexpr = None):
    i = kl.arange(0, 16)
    value = kl.load(pair.data + i * pair.step, mask=i < sizes[0], other=0.0)
    if OPTION is not None:
        value += OPTION[1]
    kl.store(out + i, FUNCTION(value).to(KIND))


def test_arguments_of_every_kind():
    def run(x, out):
        assorted[1](Pair(x, 2), out, (12, None), KIND=kl.float32, FUNCTION=twice, OPTION=(1, 3.0), num_warps=2)
        assorted[1](pair=Pair(data=x, step=1), out=x, sizes=(x.shape[0] - 20, None), KIND=kl.int32, FUNCTION=twice)
        return out * 2

    agree(run, random(32), random(16))


def test_another_kernel_with_the_same_name_is_retraced():
    @kiln.jit
    def triple(x, y, n, factor, BLOCK: kl.constexpr):
        i = kl.arange(0, BLOCK)
        kl.store(y + i, kl.load(x + i, mask=i < n) * 3, mask=i < n)

    kernels = {"now": scale}

    def run(x):
        y = torch.empty_like(x)
        kernels["now"][1](x, y, 16, 2.0, BLOCK=16)
        return y

    compiled, x = torch.compile(run, fullgraph=True, backend="eager"), random(16)
    assert torch.equal(compiled(x), x * 2)
    kernels["now"] = triple
    assert torch.equal(compiled(x), x * 3)


@kiln.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@kiln.jit
def heuristic(x, y, n, BLOCK: kl.constexpr, EVEN: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    mask = None if EVEN else i < n
    kl.store(y + i, kl.load(x + i, mask=mask) + (1.0 if EVEN else 2.0), mask=mask)


@pytest.mark.parametrize("n", [64, 50])
def test_heuristics(n):
    def run(x):
        y = torch.zeros_like(x)
        heuristic[lambda meta: (kiln.cdiv(n, meta["BLOCK"]),)](x, y, n, BLOCK=32)
        return y

    agree(run, random(n))


@kiln.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@kiln.autotune([kiln.Config({"BLOCK": 16}), kiln.Config({"BLOCK": 64})], key=["n"], warmup=1, rep=1)
@kiln.jit
def both(x, y, n, BLOCK: kl.constexpr, EVEN: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + i, kl.load(x + i, mask=i < n) + (1.0 if EVEN else 2.0), mask=i < n)


@pytest.mark.parametrize("n", [64, 51])
def test_heuristics_of_a_tuned_kernel(n):
    def run(x):
        y = torch.zeros_like(x)
        both[lambda meta: (kiln.cdiv(n, meta["BLOCK"]),)](x, y, n)
        return y

    agree(run, random(n))


@kiln.autotune([kiln.Config({"BLOCK": 32}), kiln.Config({"BLOCK": 128}, num_warps=2)], key=["n"], warmup=1, rep=1)
@kiln.jit
def tuned(x, y, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + i, kl.load(x + i, mask=i < n) + 1.0, mask=i < n)


def test_tuned_kernels_choose_when_they_run():
    def run(x):
        y, n = torch.zeros_like(x), x.numel()
        tuned[lambda meta: (kiln.cdiv(n, meta["BLOCK"]),)](x, y, n)
        return y * 2

    agree(run, random(1000))
    graphs = Graphs()
    torch.compile(run, fullgraph=True, backend=graphs)(random(1000))
    (call,) = graphs.calls("launch")
    assert list(call.args[5]) == [32, 1, 1, 8, 1, 1]  # one grid per configuration
    assert len(call.args[1]) == 1


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        scale[1](x, y, x.numel(), 2.0, BLOCK=64)
        return y

    @staticmethod
    def backward(ctx, gradient):
        result = torch.empty_like(gradient)
        scale[1](gradient.contiguous(), result, gradient.numel(), 2.0, BLOCK=64)
        return result


@pytest.mark.parametrize("backend", BACKENDS)
def test_launches_in_a_function_with_a_backward(backend):
    x = random(50).requires_grad_()
    compiled = torch.compile(lambda x: (Double.apply(x) * 3).sum(), fullgraph=True, backend=backend)
    compiled(x).backward()
    assert torch.equal(x.grad, torch.full_like(x, 6.0))


@kiln.jit
def through_a_descriptor(desc, out, factor):
    block = desc.load([4, 8]) * factor
    kl.store(out + kl.arange(0, 4)[:, None] * 8 + kl.arange(0, 8)[None, :], block)
    desc.store([0, 0], block)


def test_tensor_descriptors():
    def run(x):
        out = x.new_empty(4, 8)
        through_a_descriptor[1](TensorDescriptor.from_tensor(x, [4, 8]), out, 2.0)
        return out + x[:4, :8]

    agree(run, random(16, 16))


def test_strides_are_those_of_tracing():
    def run(x):
        y = x.new_zeros(8, 8)
        transposed = x.t()
        scale[1](transposed, y, 64, 1.0, BLOCK=64)  # in storage order
        return y, transposed + 1

    agree(run, random(8, 8))


def test_a_mistake_is_reported_at_the_call():
    def run(x):
        y = torch.empty_like(x)
        scale[1](x, y, 10, 1.0, BLOKC=128)
        return y

    for backend in BACKENDS:
        torch._dynamo.reset()
        with pytest.raises(errors.LaunchError, match="did you mean 'BLOCK'"):
            torch.compile(run, fullgraph=True, backend=backend)(random(10))


# ---- library functions -----------------------------------------------------------------------------------------------
COS, SIN = torch.rand(9, 4), torch.rand(9, 4)
CALLS = {
    "rms_norm": (lambda x, w: rms_norm(x, w, eps=1e-5) * 2, (3, 64), (64,)),
    "rms_norm plan": (lambda x, w: rms_norm(x, w, plan=RowPlan(64, rows=2)), (3, 64), (64,)),
    "rms_norm out": (lambda x, w, out: rms_norm(x, w, out=out) + out, (3, 64), (64,), (3, 64)),
    "rms_norm in place": (lambda x, w: rms_norm(x, w, out=x) + x, (3, 64), (64,)),
    "layer_norm": (lambda x, w: layer_norm(x, w, w, cast="before"), (3, 64), (64,)),
    "residual": (lambda x, r, w: residual_rms_norm(x, r, w), (3, 64), (3, 64), (64,)),
    "residual in place": (lambda x, r, w: residual_rms_norm(x, r, w, out=(x, r))[0] + r, (3, 64), (3, 64), (64,)),
    "residual, one out": (lambda x, r, w: residual_rms_norm(x, r, w, out=(None, r)), (3, 64), (3, 64), (64,)),
    "softmax of a view": (lambda x: (softmax(x[1:], out=x[1:]), x + 1)[1], (3, 64)),
    "add": (lambda x, y: add(x, y), (3, 64), (3, 64)),
    "swiglu": (lambda x: swiglu(x, layout="interleaved"), (3, 64)),
    "rope": (lambda q, k: rope(q, k, COS.to(q.device), SIN.to(q.device)), (1, 3, 2, 8), (1, 3, 1, 8)),
    "rope without k": (lambda q: rope(q, None, COS.to(q.device), SIN.to(q.device), offset=2), (1, 3, 2, 8)),
    "rope in place": (
        lambda q, k: rope(q, k, COS.to(q.device), SIN.to(q.device), out=(q, k)),
        (1, 3, 2, 8),
        (1, 3, 1, 8),
    ),
    "attention": (lambda q, k: attention(q, k, k, causal=True, return_lse=True), (1, 3, 2, 8), (1, 3, 1, 8)),
    "attention out": (lambda q, k: attention(q, k, k, out=q, return_lse=True)[1] + q.sum(), (1, 3, 2, 8), (1, 3, 1, 8)),
    "matmul": (lambda a, b: matmul(a, b.t(), epilogue="gelu", alpha=2.0, out_dtype=torch.bfloat16), (5, 6), (7, 6)),
    "linear": (lambda x, w, bias: linear(x, w, bias), (2, 5, 6), (7, 6), (7,)),
    "sum_all": (lambda x: sum_all(x.to(torch.int32)) + 1, (3, 64)),
    "topk": (lambda x: topk(x, 3), (3, 64)),
    "embedding": (lambda t: embedding(torch.tensor([1, 0, 1], device=t.device), t), (3, 64)),
    "adamw": (lambda p, g, m: (adamw(p, g, m, p.new_ones(5), 3, lr=0.1), p * 1)[1], (5,), (5,), (5,)),
    "adamw lists": (
        lambda p, g, m: (adamw([p], [g], [m], [p * 0], torch.tensor([3], device=p.device)), p * 1)[1],
        (5,),
        (5,),
        (5,),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_library_functions(name):
    function, *shapes = CALLS[name]
    agree(function, *(random(*shape) for shape in shapes))


def test_library_functions_take_symbols():
    graphs = Graphs()
    compiled = torch.compile(lambda x, w: rms_norm(x, w) + 1, fullgraph=True, dynamic=True, backend=graphs)
    for rows, n in ((3, 64), (5, 100), (2, 7)):
        x, w = random(rows, n), random(n)
        assert torch.equal(compiled(x, w), rms_norm(x, w) + 1)
    (call,) = graphs.calls("rms_norm")
    assert "s" in str(call.meta["example_value"][0].shape)


def test_an_output_given_is_an_argument_that_is_written():
    graphs = Graphs()
    torch.compile(lambda x, out: softmax(x, out=out), fullgraph=True, backend=graphs)(random(3, 4), random(3, 4))
    (call,) = graphs.calls("softmax_out")
    assert [node.name for node in call.args[1]] == ["l_out_"] and [node.name for node in call.args[2]] == ["l_x_"]
    torch.compile(lambda x: softmax(x), fullgraph=True, backend=graphs)(random(3, 4))
    schema = torch.ops.kiln.softmax_out.default._schema
    assert schema.is_mutable and not torch.ops.kiln.softmax.default._schema.is_mutable


def test_an_out_that_is_an_input_is_only_read():
    """A backward pass's `out` is what the forward pass returned. Mistaken for an output, it left the operator one
    result short."""
    q, k, dout = random(1, 3, 2, 8), random(1, 3, 1, 8), random(1, 3, 2, 8)
    out, lse = attention(q, k, k, causal=True, return_lse=True)
    agree(lambda *x: attention_backward(*x, causal=True), q, k, k.clone(), out, lse, dout)
    agree(lambda q, k, v, out, *x: attention_backward(q, k, v, out=out, lse=x[0], dout=x[1]), q, k, k, out, lse, dout)
    heads_first = [x.transpose(1, 2) for x in (q, k, k)]
    out, lse = flex_attention(*heads_first, enable_gqa=True, return_lse=True)
    agree(lambda *x: flex_attention_backward(*x, enable_gqa=True), *heads_first, out, lse, torch.ones_like(out))


@kiln.jit
def near(batch, head, query, key):
    return (key <= query) & (query - key <= 2)


@kiln.jit
def bent(score, batch, head, query, key):
    return score * score


def test_block_masks_are_arguments():
    q, k = random(1, 2, 20, 8), random(1, 1, 20, 8)
    mask = create_block_mask(near, None, None, 20, 20, device=DEVICE, BLOCK_SIZE=16)
    agree(lambda q, k: flex_attention(q, k, k, bent, mask, enable_gqa=True), q, k)
    agree(lambda q, k, mask: flex_attention(q, k, k, block_mask=mask, enable_gqa=True, return_lse=True), q, k, mask)


def test_a_block_mask_is_made_before():
    """Inside compiled code it breaks the graph; where it must not, the message says what to do."""
    q = random(1, 2, 20, 8)

    def run(q):
        return flex_attention(q, q, q, block_mask=create_block_mask(near, None, None, 20, 20, device=DEVICE)) + 1

    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"create_block_mask .* call it before, and pass the mask"):
        torch.compile(run, fullgraph=True, backend="eager")(q)
    assert torch.equal(torch.compile(run, backend="eager")(q), run(q))


STARTS = torch.tensor([0, 3, 8])
MASKS = {}
DIFFERENTIATED = {
    "attention": (lambda q, k: attention(q * 2, k, k, causal=True) + 1, (1, 8, 2, 8), (1, 8, 1, 8)),
    "lse": (lambda q, k: attention(q, k, k, window=(2, 0), return_lse=True)[0], (1, 8, 2, 8), (1, 8, 1, 8)),
    "bias and sinks": (
        lambda q, k, bias, sinks: attention(q, k, k, bias=bias, sinks=sinks, softcap=2.0),
        (1, 8, 2, 8),
        (1, 8, 1, 8),
        (1, 1, 8, 8),
        (2,),
    ),
    "varlen": (
        lambda q, k: attention_varlen(q, k, k, STARTS.to(q.device), STARTS.to(q.device), 5, 5),
        (8, 2, 8),
        (8, 1, 8),
    ),
    "flex": (
        lambda q, k: flex_attention(q, k, k, bent, MASKS[q.device.type], enable_gqa=True),
        (1, 2, 8, 8),
        (1, 1, 8, 8),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_functions_with_a_backward_are_differentiated(name, backend):
    function, *shapes = DIFFERENTIATED[name]
    MASKS[DEVICE] = create_block_mask(near, None, None, 8, 8, device=DEVICE)
    given = [random(*shape) for shape in shapes]

    def gradients(run):
        inputs = [x.clone().requires_grad_() for x in given]
        run(*inputs).square().sum().backward()
        return [x.grad for x in inputs]

    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for got, want in zip(gradients(compiled), gradients(function), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_refused_while_tracing(backend):
    weight = torch.nn.Parameter(random(4))
    for call, message in ((lambda x: rms_norm(x, weight), "rms_norm: weight: expected a tensor that requires no"),
                          (lambda x: rms_norm(x.double(), x[0]), "rms_norm: x: expected type .* got float64"),
                          (lambda x: rms_norm(x, [1.0]), "rms_norm: weight: expected an array")):  # fmt: skip
        torch._dynamo.reset()
        with pytest.raises(Exception, match=message):
            torch.compile(call, fullgraph=True, backend=backend)(random(3, 4))
    x = random(3, 4)
    with torch.no_grad():
        got = torch.compile(lambda x: rms_norm(x, weight), fullgraph=True, backend=backend)(x)
        assert torch.equal(got, rms_norm(x, weight))


def test_fake_tensors_give_fake_results():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x, weight = torch.empty(3, 64, dtype=torch.float16, device=DEVICE), torch.empty(64, device=DEVICE)
        for out in (rms_norm(x, weight), softmax(x), residual_rms_norm(x, x, weight)[1]):
            assert (out.shape, out.dtype, out.device.type) == ((3, 64), torch.float16, DEVICE)
        assert topk(x, 5)[1].dtype == torch.int64 and matmul(x, x.t()).shape == (3, 3)
        with pytest.raises(errors.ArgumentError, match="rms_norm: x: expected type"):
            rms_norm(x.int(), weight)


def test_other_tracers_of_torch():
    from torch.fx.experimental.proxy_tensor import make_fx

    x, weight = random(3, 64), random(64)
    graph = make_fx(lambda x: rms_norm(x, weight) + 1)(random(3, 64))
    assert torch.ops.kiln.rms_norm.default in [node.target for node in graph.graph.nodes]
    assert torch.equal(graph(x), rms_norm(x, weight) + 1)

    class Module(torch.nn.Module):
        def forward(self, x, w):
            return rms_norm(x, w)

    exported = torch.export.export(Module(), (x, weight))
    assert torch.equal(exported.module()(x, weight), rms_norm(x, weight))


# ---- without a compiler: gradients -----------------------------------------------------------------------------------
def test_inputs_that_require_a_gradient_are_refused():
    x, weight = random(3, 4), torch.nn.Parameter(random(4))
    with pytest.raises(
        errors.ArgumentError, match=r"weight: expected a tensor that requires no gradient \(because there"
    ):
        rms_norm(x, weight)
    with pytest.raises(errors.ArgumentError, match="softmax: x: expected a tensor that requires no gradient"):
        softmax(x * weight)
    for arrays in ([weight, x[0], x[1], x[2]], [[weight], [x[0].clone()], [x[1].clone()], [x[2].clone()]]):
        with pytest.raises(errors.ArgumentError, match=r"adamw: parameter(\[0\])?: expected a tensor that requires no"):
            adamw(*arrays, 1)
        with torch.no_grad():
            adamw(*arrays, 1)
    rms_norm(x, weight.detach())
    with torch.no_grad():
        assert not rms_norm(x, weight).requires_grad
    with torch.inference_mode():
        rms_norm(x, weight)


def test_tensors_that_kernels_cannot_read_are_rejected_under_the_callers_name():
    x, weight = random(3, 4), random(4)
    for call, message in (
        (lambda: rms_norm(x, weight.to("meta")), "rms_norm: weight: expected a tensor on the CPU or"),
        (lambda: rms_norm(x.to_sparse(), weight), "rms_norm: x: expected a dense tensor(.*\n)*hint: pass x.to_dense"),
        (lambda: rms_norm(x, x.to(torch.cfloat).conj().imag[0]), "weight: .*negative bit(.*\n)*hint: pass weight"),
    ):
        with pytest.raises(errors.ArgumentError, match=message) as refused:
            call()
        assert refused.value.caller.file == __file__
    with pytest.raises(errors.ArgumentError, match=r"block_mask: expected what kiln.* makes, got one of torch"):
        from torch.nn.attention.flex_attention import create_block_mask as of_torch

        mask = of_torch(lambda b, h, q, kv: q >= kv, None, None, 8, 8, device=DEVICE)
        flex_attention(*[random(1, 2, 8, 8)] * 3, block_mask=mask)
