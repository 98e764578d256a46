"""Products whose tiles are cut along K, as torch users call them: streams, graphs, overlapping launches.

Operands are small integers, so that results are exact in any order of summation: a part that is lost or added twice
shows. Bitwise comparisons use normal numbers, where the order of sums shows.
"""

import dataclasses

import pytest
from kiln.kernels.gemm import configs, matmul
from kiln.kernels.gemm.configs import GemmPlan, Problem
from kiln.kernels.machine import launch_options, machine_of

FMA = {
    "shares": GemmPlan(32, 32, 32, "fma", workers=50, described=False),
    "splits": GemmPlan(64, 64, 32, "fma", splits=5, reduce="last", described=False),
}
RINGS = {
    "two groups": GemmPlan(128, 256, 64, stages=3, workers=132),
    "one group": GemmPlan(64, 128, 64, stages=6, consumers=1, workers=132),
    "three groups": GemmPlan(192, 128, 64, stages=4, consumers=3, workers=132),
    "by turns": GemmPlan(128, 128, 64, "pingpong", stages=4, workers=132),
    "few workers": GemmPlan(128, 128, 64, stages=4, workers=37, waves=3),
    "many workers": GemmPlan(128, 64, 64, stages=4, workers=1000, waves=1),
    "by all warps": GemmPlan(64, 64, 32, "simple", stages=3, workers=132),
    "splits": GemmPlan(128, 128, 64, stages=4, splits=5, reduce="last"),
}
FEW_ROWS = {
    "shares": GemmPlan(16, 128, 128, stages=4, consumers=1, workers=132),
    "splits": GemmPlan(16, 64, 128, stages=6, consumers=1, splits=7, reduce="last"),
}


def has_rings(torch):
    return torch.cuda.get_device_capability() == (9, 0)


def integers(torch, *shape, dtype="float16", seed=0):
    """-1, 0 and 1: sums of thousands of their products are integers that float16 represents."""
    generator = torch.Generator("cuda").manual_seed(seed + sum(shape))
    values = torch.randint(-1, 2, shape, generator=generator, device="cuda", dtype=torch.int32)
    return values.to(getattr(torch, dtype))


def normal(torch, *shape):
    generator = torch.Generator("cuda").manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").half()


def check(torch, plan, m, n, k, dtype="float16", out_dtype=None, **given):
    """Results are exact, also with the counters that the first launch left; with c, in place too."""
    a, b = integers(torch, m, k, dtype=dtype), integers(torch, n, k, dtype=dtype, seed=1).T
    exact = a.double() @ b.double()
    for _ in range(2):
        out = matmul(a, b, plan=plan, out_dtype=out_dtype, **given)
        assert torch.equal(out.double(), exact)
    if dtype == "int8" or plan.m * plan.n > 128 * 128:  # with larger tiles, shared memory has no room for c
        return
    c = out.clone()
    exact = (3 * exact).to(out.dtype).double()  # the type may round a result three times as large
    assert torch.equal(matmul(a, b, beta=2.0, c=c, plan=plan, out_dtype=out_dtype, **given).double(), exact)
    if plan.schedule != "pingpong":  # nor is there room if each of two groups loads its own c
        matmul(a, b, beta=2.0, c=c, out=c, plan=plan, **given)
        assert torch.equal(c.double(), exact)


@pytest.mark.parametrize("name", FMA)
@pytest.mark.parametrize("shape", [(130, 200, 777), (64, 64, 1000), (1, 33, 4096)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8"])
def test_by_cuda_cores(torch, name, shape, dtype):
    check(torch, FMA[name], *shape, dtype=dtype, out_dtype="int32" if dtype == "int8" else "float32")


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize("shape", [(1100, 2112, 1016), (300, 520, 4096), (4096, 1096, 512), (128, 256, 8192)], ids=str)
def test_through_rings(torch, name, shape):
    if not has_rings(torch):
        pytest.skip("needs compute capability 9.0")
    check(torch, RINGS[name], *shape)


@pytest.mark.parametrize("name", FEW_ROWS)
@pytest.mark.parametrize("m", [1, 7, 16])
def test_few_rows(torch, name, m):
    if not has_rings(torch):
        pytest.skip("needs compute capability 9.0")
    for n, k in ((4096, 4096), (1000, 14336), (96, 264)):
        check(torch, FEW_ROWS[name], m, n, k)


@pytest.mark.parametrize(
    "dtype, precision, k", [("bfloat16", "ieee", 64), ("int8", "ieee", 128), ("float32", "tf32", 32)]
)
def test_types(torch, dtype, precision, k):
    if not has_rings(torch):
        pytest.skip("needs compute capability 9.0")
    plan = GemmPlan(128, 128, k, stages=3, workers=132)
    check(torch, plan, 1100, 1104, 1024, dtype=dtype, precision=precision)


def plans_of(torch, m, n, k):
    machine = machine_of(torch.empty(1, device="cuda"))
    problem = Problem(m, n, k)
    if configs.engine(problem, machine) == "wgmma":
        return list(configs.cut_plans(problem, machine)[:4])
    return [dataclasses.replace(configs.plan(problem, machine, 1), workers=machine.processors)]


@pytest.mark.parametrize("shape", [(1100, 2112, 2048), (256, 1024, 8192)], ids=str)
def test_the_same_bits_every_time(torch, shape):
    """The same bits whatever runs concurrently, and whichever program comes last."""
    m, n, k = shape
    a, b, bias = normal(torch, m, k), normal(torch, n, k).T, normal(torch, n)
    for plan in plans_of(torch, m, n, k):
        want = matmul(a, b, bias=bias, epilogue="gelu", plan=plan)
        exact = torch.nn.functional.gelu(a.double() @ b.double() + bias.double())
        assert float((want.double() - exact).norm() / exact.norm()) < 1e-3
        side = torch.cuda.Stream()
        for i in range(50):
            if i % 5 == 0:
                with torch.cuda.stream(side):
                    matmul(a, b, plan=plan)  # occupies multiprocessors, and uses counters too
            assert torch.equal(matmul(a, b, bias=bias, epilogue="gelu", plan=plan), want)
        side.synchronize()


@pytest.mark.parametrize("pdl", [False, True])
def test_graphs(torch, pdl):
    """Counters are zero again for each replay and each launch of a graph; two graphs share none."""
    m, n, k = 1100, 1032, 2048
    b = integers(torch, n, k, seed=1).T
    (plan, *_) = plans_of(torch, m, n, k)
    factors, outs, graphs = [], [], []
    for seed in range(2):
        a = integers(torch, m, k, seed=seed)
        out = torch.empty(m, n, device="cuda")
        with launch_options(pdl=pdl and has_rings(torch)):
            matmul(a, b, out=out, plan=plan)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(3):
                    matmul(a, b, out=out, plan=plan)
        factors.append(a)
        outs.append(out)
        graphs.append(graph)
    streams = [torch.cuda.Stream() for _ in graphs]
    for i in range(20):
        for a in factors:
            a.add_(1 if i % 2 else -1)
        for out in outs:
            out.fill_(float("nan"))
        torch.cuda.synchronize()
        for graph, stream in zip(graphs, streams, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        torch.cuda.synchronize()
        for a, out in zip(factors, outs, strict=True):
            assert torch.equal(out.double(), a.double() @ b.double())
