"""The kernel library as torch users call it: streams, graphs, outputs passed in, rows of every length, lists.

Values are compared with float64 on the device; the tolerance is one rounding of the output's type and float32's
error.
"""

import itertools

import pytest
from kiln.kernels.activation import bias_gelu, swiglu
from kiln.kernels.elementwise import add
from kiln.kernels.machine import launch_options, machine_of
from kiln.kernels.norm import layer_norm, residual_rms_norm, rms_norm
from kiln.kernels.optimizer import TensorLists, adamw, adamw_lists
from kiln.kernels.reduce import sum_all
from kiln.kernels.rope import rope, rope_tables
from kiln.kernels.rows import RowPlan, plan
from kiln.kernels.softmax import softmax

UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def random(torch, *shape, dtype="float16", seed=0, scale=1.0):
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    return (torch.randn(shape, generator=generator, device="cuda") * scale).to(getattr(torch, dtype))


def close(torch, out, exact, length=1, units=1.0):
    """Every element within `units` roundings of its type and 8·sqrt(length) of float32, relative to the largest."""
    name = str(out.dtype).removeprefix("torch.")
    bound = units * UNIT[name] * exact.abs() + 8 * length**0.5 * UNIT["float32"] * exact.abs().amax() + 2.0**-24
    wrong = (out.double() - exact).abs() > bound
    assert not bool(wrong.any()), f"{int(wrong.sum())} of {out.numel()} outside the bound"


def rms_reference(x, weight, eps=1e-6):
    x = x.double()
    return x * (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt() * weight.double()


# One row; rows that share a block; that fill one; that need a cluster of 2 to 16; that fit in no cluster. Odd lengths.
ROWS = [(1, 4096), (4096, 64), (700, 33), (2048, 896), (300, 1536), (257, 3584), (2048, 4096), (64, 5003), (100, 16384),
        (50, 16385), (64, 32768), (20, 50000), (40, 131072), (8, 200001), (8, 262144), (2, 1 << 21)]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("rows,n", ROWS)
def test_rows_of_every_length(torch, rows, n, dtype):
    x, residual = random(torch, rows, n, dtype=dtype), random(torch, rows, n, dtype=dtype, seed=1)
    weight, bias = random(torch, n, dtype=dtype, seed=2), random(torch, n, dtype=dtype, seed=3)
    close(torch, rms_norm(x, weight), rms_reference(x, weight), n)
    y, total = residual_rms_norm(x, residual, weight)
    close(torch, total, x.double() + residual.double())
    close(torch, y, rms_reference(total, weight), n)
    exact = torch.nn.functional.layer_norm(x.double(), (n,), weight.double(), bias.double())
    close(torch, layer_norm(x, weight, bias), exact, n)
    close(torch, softmax(x), torch.softmax(x.double(), -1), n)


PLANS = [RowPlan(4096, 1, warps, cluster) for warps, cluster in itertools.product((1, 4, 16), (1, 2, 8))]
PLANS += [RowPlan(4096, 4, 4), RowPlan(4096, 2, 8), RowPlan(1024, num_warps=4, loop=True)]


@pytest.mark.parametrize("form", PLANS, ids=str)
def test_every_plan_gives_the_same(torch, form):
    x, weight = random(torch, 37, 4000), random(torch, 4000)
    if form.cluster > machine_of(x).largest_cluster:
        pytest.skip("this device has no such clusters")
    close(torch, rms_norm(x, weight, plan=form), rms_reference(x, weight), 4000)
    close(torch, softmax(x, plan=form), torch.softmax(x.double(), -1), 4000)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("n", [11008, 18944, 24576])
def test_long_layer_norm(torch, n, dtype):
    """Rows that are read twice, or by programs that take several in turns; also in place."""
    x, weight, bias = (random(torch, *shape, dtype=dtype, seed=i) for i, shape in enumerate(((999, n), (n,), (n,))))
    exact = torch.nn.functional.layer_norm(x.double(), (n,), weight.double(), bias.double())
    y = layer_norm(x, weight, bias)
    close(torch, y, exact, n)
    layer_norm(x, weight, bias, out=x)
    assert torch.equal(x, y)


def test_same_bits_every_time(torch):
    x, weight = random(torch, 512, 4096), random(torch, 4096)
    big = random(torch, 1 << 22, dtype="float32")
    first = [rms_norm(x, weight), softmax(x), sum_all(big)]
    for _ in range(20):
        again = [rms_norm(x, weight), softmax(x), sum_all(big)]
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_outputs_of_the_caller_and_in_place(torch):
    x, weight = random(torch, 128, 4096), random(torch, 4096)
    out = torch.full_like(x, float("nan"))
    assert rms_norm(x, weight, out=out) is out
    close(torch, out, rms_reference(x, weight), 4096)
    exact = rms_reference(x, weight)
    rms_norm(x, weight, out=x)
    close(torch, x, exact, 4096)


def test_strided_rows(torch):
    x, weight = random(torch, 64, 3 * 1024)[:, 1024:2048], random(torch, 1024)
    close(torch, rms_norm(x, weight), rms_reference(x, weight), 1024)
    odd = random(torch, 64, 1027)[:, 3:]
    close(torch, softmax(odd), torch.softmax(odd.double(), -1), 1024)


def test_a_stream_is_the_callers(torch):
    x, weight = random(torch, 4096, 4096), random(torch, 4096)
    stream = torch.cuda.Stream()
    out = torch.empty_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # Long work first: a launch on another stream would overtake it.
        torch.cuda._sleep(100_000_000)
        copy = x * 2
        rms_norm(copy, weight, out=out)
    stream.synchronize()
    close(torch, out, rms_reference(copy, weight), 4096)


def captured(torch, run, replays):
    """Runs once for compilation, captures, replays."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()


@pytest.mark.parametrize("pdl", [False, True])
def test_graphs(torch, pdl):
    x, weight = random(torch, 2048, 4096), random(torch, 4096)
    y, z = torch.empty_like(x), torch.empty_like(x)

    def run():
        rms_norm(x, weight, out=y)
        softmax(y, out=z)
        add(y, z, out=y)

    with launch_options(pdl=pdl):
        captured(torch, run, 3)
    normal = rms_reference(x, weight)
    # Each launch reads what the previous one wrote, even if it may begin early.
    close(torch, z, torch.softmax(normal.half().double(), -1), 4096, units=8)
    close(torch, y, normal + torch.softmax(normal, -1), 4096, units=4)


def lists_of(torch, mix):
    rows = []
    for i, (shape, dtype, moments, master) in enumerate(mix):
        value = random(torch, *shape, dtype="float32", seed=10 * i)
        gradient = random(torch, *shape, dtype=dtype, seed=10 * i + 1)
        moment, square = (random(torch, *shape, dtype=moments, seed=10 * i + k) for k in (2, 3))
        rows.append((value.to(gradient.dtype), gradient, moment, square.abs(), value if master else None))
    return [list(column) for column in zip(*rows, strict=True)]


MIX = [
    ((5000,), "float32", "float32", False),
    ((1 << 20,), "float32", "float32", False),
    ((640, 1024), "bfloat16", "float32", True),
    ((7,), "bfloat16", "bfloat16", False),
    ((3, 2048), "float16", "float32", False),
]


def adamw_reference(p, g, m, v, master, step, lr, decay=1e-2, eps=1e-8):
    p = (p if master is None else master).double()
    g, m, v = g.double(), m.double(), v.double()
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    p = p * (1 - lr * decay)
    return p - lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + eps), m, v


def test_adamw_of_lists_in_a_graph(torch):
    """One launch updates all; the step count and the rate are in device memory and change between replays."""
    lists = lists_of(torch, MIX)
    prepared = TensorLists(*lists)
    step, rate = torch.zeros(1, dtype=torch.int64, device="cuda"), torch.full((1,), 0.01, device="cuda")
    before = [[None if x is None else x.clone() for x in items] for items in lists]

    def run():
        step.add_(1)
        adamw_lists(prepared, step, lr=rate)

    run()
    for kept, items in zip(before, lists, strict=True):
        for old, new in zip(kept, items, strict=True):
            if new is not None:
                new.copy_(old)
    step.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for count in range(1, 4):
        for gradient in lists[1]:
            gradient.normal_()
        rate.fill_(0.01 * count)
        exact = [adamw_reference(*arrays, count, 0.01 * count) for arrays in zip(*lists, strict=True)]
        graph.replay()
        torch.cuda.synchronize()
        for i, (parameter, moment, square) in enumerate(exact):
            master = lists[4][i]
            close(torch, lists[0][i] if master is None else master, parameter)
            close(torch, lists[2][i], moment)
            close(torch, lists[3][i], square)
            if master is not None:
                assert torch.equal(lists[0][i], master.to(lists[0][i].dtype))


def test_adamw_of_views_at_odd_addresses(torch):
    whole = [random(torch, 1 << 16, dtype="float32", seed=i).abs() for i in range(4)]
    lists = [[x[1:5000], x[5000:]] for x in whole]
    exact = [adamw_reference(*arrays, None, 3, 1e-3) for arrays in zip(*lists, strict=True)]
    adamw(*lists, 3)
    for i, (parameter, _, _) in enumerate(exact):
        close(torch, lists[0][i], parameter)


@pytest.mark.parametrize("layout", ["two", "halves", "interleaved"])
@pytest.mark.parametrize("rows,n", [(1, 14336), (2048, 11008), (100, 4098)])
def test_swiglu(torch, rows, n, layout):
    gate, up = random(torch, rows, n, scale=3.0), random(torch, rows, n, seed=1)
    exact = torch.nn.functional.silu(gate.double()) * up.double()
    if layout == "two":
        out = swiglu(gate, up)
    elif layout == "halves":
        out = swiglu(torch.cat([gate, up], -1))
    else:
        out = swiglu(torch.stack([gate, up], -1).flatten(-2), layout="interleaved")
    close(torch, out, exact)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_bias_gelu(torch, dtype, approximate):
    x, bias = random(torch, 512, 16384, dtype=dtype, scale=3.0), random(torch, 16384, dtype=dtype)
    exact = torch.nn.functional.gelu(x.double() + bias.double(), approximate=approximate)
    close(torch, bias_gelu(x, bias, approximate=approximate), exact)


def test_rope(torch):
    q, k = random(torch, 1, 4096, 32, 128), random(torch, 1, 4096, 8, 128, seed=1)
    cos, sin = (torch.from_numpy(table).cuda() for table in rope_tables(8192, 128))
    position = torch.arange(4096, device="cuda") + 5
    c, s = (table[position].double()[None, :, None, :] for table in (cos, sin))
    outs = rope(q, k, cos, sin, positions=position)
    for x, out in zip((q, k), outs, strict=True):
        first, second = x.double().chunk(2, -1)
        close(torch, out, torch.cat([first * c - second * s, second * c + first * s], -1))


def test_more_elements_than_32_bits(torch):
    """An array of more than 2^32 bytes and 2^31 elements."""
    if torch.cuda.mem_get_info()[0] < 14 << 30:
        pytest.skip("needs 14 GB of free device memory")
    n = (1 << 31) + 4096 * 3
    x = torch.zeros(n, dtype=torch.float16, device="cuda")
    x[-4:] = 3
    out = add(x, x)
    assert out[-4:].tolist() == [6] * 4 and float(out[: 1 << 20].abs().max()) == 0
    rows = x.view(-1, 4096)
    y = softmax(rows)
    assert torch.allclose(y[-1].float(), torch.softmax(rows[-1].float(), -1), atol=1e-4)


def test_plans_of_this_device(torch):
    machine = machine_of(torch.empty(1, device="cuda"))
    assert machine.processors == torch.cuda.get_device_properties(0).multi_processor_count
    assert plan(4096, 131072, 2, 1, machine).loop == (machine.largest_cluster < 4)
