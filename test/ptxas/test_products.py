"""Products of the library that use rings: the instructions of their machine code, with no spills."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import resource
import time

import kiln
import kiln.language as kl
import pytest
from kiln import toolchain
from kiln.kernels.case import blank
from kiln.kernels.gemm import cases, linear, matmul
from kiln.kernels.gemm.configs import GemmPlan, Problem, gemv_plan
from kiln.kernels.launches import Launch, launches_of
from kiln.kernels.machine import of_target
from test_rings import loops
from timing import check_time

# By operand type: the instruction, and how many elements it multiplies along K.
INSTRUCTIONS = {"*fp16": ("HGMMA", 16), "*fp8e4nv": ("QGMMA", 32), "*i8": ("IGMMA", 32), "*fp32": ("HGMMA", 8)}


def rings() -> dict[str, Launch]:
    """The launches of the library's products that have a schedule."""
    found = {}
    for name, run in cases.calls():
        for launch in launches_of(run, of_target("sm_90a")):
            if launch.options.get("schedule") in ("cooperative", "pingpong"):
                found[f"{name}-{len(found)}"] = launch
    return found


RINGS = rings()


def test_every_type_has_one():
    assert {launch.parameters[0].items[0].type for launch in RINGS.values()} == set(INSTRUCTIONS)


@pytest.mark.parametrize("m,loads", [(1, 3), (2, 6)])
def test_streamed_weights_are_requested_before_they_are_multiplied(m, loads):
    """ptxas once requested all but the first after products of the one before, for the way addresses were computed."""
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    for n, k in ((6144, 4096), (4096, 14336)):
        x, w = blank((m, k), "float16"), blank((n, k), "float16")
        plan = gemv_plan(Problem(m, n, k, streams=True), of_target("sm_90a"))
        (launch,) = launches_of(lambda x=x, w=w, plan=plan: linear(x, w, plan=plan), of_target("sm_90a"))
        kinds = re.findall(r"\b(LDG|FFMA)\b", toolchain.disassemble(launch.compile("sm_90a").output))
        assert kinds.count("LDG") == loads and kinds[: kinds.index("FFMA")].count("LDG") >= loads - 1, kinds


@pytest.mark.parametrize("name", RINGS)
def test_machine_code(name: str):
    launch = RINGS[name]
    artifact = launch.compile("sm_90a")
    cuda = json.loads(artifact.metadata)["cuda"]
    assert cuda["usage"]["spill_loads"] + cuda["usage"]["spill_stores"] == 0
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    sass = toolchain.disassemble(artifact.output)
    assert not re.search(r"\bLDL|\bSTL", sass)
    (plan,) = (given.value for given in launch.parameters if given.name == "PLAN")
    kind, step = INSTRUCTIONS[launch.parameters[0].items[0].type]
    # Tiles of fewer than 64 rows are transposed: the instruction's rows are their columns.
    width = plan.m if plan.m // plan.cluster < 64 else plan.n
    shapes = re.findall(r"\b([HQI]GMMA\.\w+)", sass)
    assert set(shapes) == {f"{kind}.64x{width}x{step}"}
    # Once in the loop, however long it is: a group's rows in units of 64, a step's K in units of the instruction's.
    rows = (plan.n if width == plan.m else plan.m) // plan.cluster // plan.sharers
    # Groups that take turns have separate code.
    assert len(shapes) == rows // 64 * (plan.k // step) * (plan.consumers // plan.sharers)
    assert len(re.findall(r"UTMALDG\.[23]D", sass)) >= 2
    if plan.consumers > 1:
        assert "USETMAXREG.DEALLOC" in sass and "USETMAXREG.TRY_ALLOC" in sass


def seconds(launch: Launch, to: str) -> float:
    """CPU time of this process and of ptxas."""
    before = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    launch.compile("sm_90a", to=to)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    children = after.ru_utime + after.ru_stime - before[1].ru_utime - before[1].ru_stime
    return time.process_time() - before[0] + children


# Milliseconds to PTX and to machine code: 100 and 250 are promised, and 500 to machine code with all terms, or where a
# program adds parts of tiles, which it stores and reads back. On a core
# shared by two threads, or with caches filled by others, the same work takes up to twice as long.
PLAIN, FUSED = (100, 250), (250, 500)
SLOWED = 2.0
TILES = [
    GemmPlan(128, 256, 64, stages=2), GemmPlan(256, 128, 64, stages=2), GemmPlan(256, 256, 64, stages=2, cluster=2),
    GemmPlan(192, 128, 64, stages=2, consumers=3), GemmPlan(16, 128, 128, stages=6),
    GemmPlan(128, 256, 64, stages=2, workers=100),
]  # fmt: skip
WITH_TERMS = [GemmPlan(128, 256, 64, stages=2), GemmPlan(192, 128, 64, stages=2, consumers=3), GemmPlan(16, 128, 128)]


@pytest.mark.parametrize("terms, plan", [*(("plain", plan) for plan in TILES), *(("fused", p) for p in WITH_TERMS)],
                         ids=str)  # fmt: skip
def test_compile_time(terms: str, plan: GemmPlan):
    a, b, c = (blank((4096, 4096), "float16") for _ in range(3))
    fused = {"alpha": 2.0, "beta": 3.0, "c": c, "bias": blank((4096,), "float16"), "epilogue": "gelu"}
    given = fused if terms == "fused" else {}
    limits = FUSED if given or plan.hands_in else PLAIN
    (launch,) = launches_of(lambda: matmul(a, b.T, plan=plan, **given), of_target("sm_90a"))
    for to, limit in zip(("ptx", "object"), limits, strict=True):
        check_time(SLOWED * limit / 1000, lambda launch=launch, to=to: seconds(launch, to))


def test_a_single_row_of_tiles_needs_no_group_arithmetic():
    """The divisions that remain: a program's number if the grid has a second axis, in both roles, and the skew."""
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    x, w = blank((8, 4096), "float16"), blank((4096, 4096), "float16")
    divisions = {}
    for group in (8, 0):
        plan = GemmPlan(8, 64, 128, stages=8, consumers=1, skew=1, group=group)
        (launch,) = launches_of(lambda plan=plan: matmul(x, w.T, plan=plan), of_target("sm_90a"))
        sass = toolchain.disassemble(launch.compile("sm_90a").output)
        divisions[group] = len(re.findall(r"MUFU\.RCP", sass))
    assert divisions[0] == 3 < divisions[8], divisions


@pytest.mark.parametrize("plan, threads", [
    (GemmPlan(128, 256, 64, stages=3), "0x80"), (GemmPlan(256, 256, 64, stages=3, cluster=2), "0x80"),
    (GemmPlan(128, 64, 128, stages=4, cluster=2, share="k"), "0x100"),
], ids=str)  # fmt: skip
def test_groups_end_a_tile_without_each_other(plan: GemmPlan, threads: str):
    """The barriers around the memory through which results are stored only synchronise a group's threads; if blocks
    exchange sums, they synchronise all threads."""
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    a, b = blank((4096, 4096), "float16"), blank((4096, 4096), "float16").T
    (launch,) = launches_of(lambda: matmul(a, b, plan=plan), of_target("sm_90a"))
    made = launch.compile("sm_90a")
    usage = json.loads(made.metadata)["cuda"]["usage"]
    assert usage["spill_loads"] + usage["spill_stores"] == 0
    assert re.findall(r"BAR\.SYNC\S* \w+, (\w+)", toolchain.disassemble(made.output)) == [threads] * 2


def test_blocks_sharing_k_synchronise_by_their_messages():
    """Each thread sends its sums to both, in pairs; the only cluster barriers are at the start, before any sum is
    sent."""
    a, b = blank((128, 4096), "float16"), blank((4096, 4096), "float16").T
    plan = GemmPlan(128, 64, 128, stages=5, cluster=2, share="k")
    (launch,) = launches_of(lambda: matmul(a, b, plan=plan), of_target("sm_90a"))
    made = launch.compile("sm_90a")
    usage = json.loads(made.metadata)["cuda"]["usage"]
    assert usage["spill_loads"] + usage["spill_stores"] == 0
    ptx = launch.compile("sm_90a", to="ptx").output
    sent = [i for i, line in enumerate(ptx.splitlines()) if "st.async" in line]
    met = [i for i, line in enumerate(ptx.splitlines()) if "barrier.cluster" in line]
    assert len(sent) == 128 * 64 // 256 // 2 and all(".v2.b32" in ptx.splitlines()[i] for i in sent)
    assert met and max(met) < min(sent)
    assert "multicast" not in ptx
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    sass = toolchain.disassemble(made.output)
    assert set(re.findall(r"\b(HGMMA\.\w+)", sass)) == {"HGMMA.64x64x16"}
    assert len(re.findall(r"\bHGMMA", sass)) == 64 // 16
    assert len(re.findall(r"\bSTAS\.64", sass)) == len(sent)


@pytest.mark.parametrize("tile", [
    GemmPlan(128, 256, 64, stages=3), GemmPlan(64, 256, 64, stages=4, consumers=1),
    GemmPlan(192, 128, 64, stages=4, consumers=3), GemmPlan(128, 128, 64, "pingpong", stages=4),
    GemmPlan(16, 128, 128, stages=4, consumers=1),
], ids=str)  # fmt: skip
def test_partial_sums_pass_no_shared_memory(tile: GemmPlan):
    """They are stored and loaded in the accumulators' register layout, while an exchange would take a tile's bytes and
    two barriers: two elements per thread, 256 contiguous bytes per warp."""
    a, b = blank((2304, 4096), "float16"), blank((2048, 4096), "float16").T
    found = []
    for plan in (tile, dataclasses.replace(tile, workers=132)):
        (launch,) = launches_of(lambda plan=plan: matmul(a, b, plan=plan), of_target("sm_90a"))
        cuda = json.loads(launch.compile("sm_90a").metadata)["cuda"]
        assert cuda["usage"]["spill_loads"] + cuda["usage"]["spill_stores"] == 0 and cuda["roles"]
        found.append((cuda["shared_bytes"], launch.compile("sm_90a", to="ptx").output))
    (plain, _), (cut, ptx) = found
    assert cut - plain <= 1024  # a counter
    accumulators = tile.m * tile.n // (128 * tile.sharers)
    groups = tile.consumers // tile.sharers
    # The thread that counts releases what all threads have stored, and acquires what others have.
    words = r"bar\.sync|fence\.acq_rel\.gpu|atom\.acquire\.gpu|ld\.acquire\.gpu|st\.global\.v2|ld\.global\.v2"
    order = re.findall(words, ptx)
    text = " ".join(word for i, word in enumerate(order) if word != order[i - 1])
    counted = "st.global.v2 bar.sync fence.acq_rel.gpu atom.acquire.gpu bar.sync ld.global.v2"
    assert text.count(counted) == groups
    asked = "ld.acquire.gpu bar.sync st.global.v2"  # by the first part, before it is stored
    assert text.count(asked) == groups
    # Stored once; loaded once as the first part and once to be added.
    assert len(re.findall(r"st\.global\.v2\.b32", ptx)) == groups * accumulators // 2
    assert len(re.findall(r"ld\.global\.v2\.b32", ptx)) == groups * accumulators


@pytest.mark.parametrize(
    "tile", [GemmPlan(128, 256, 64, stages=3), GemmPlan(128, 128, 64, "pingpong", stages=4)], ids=str
)
def test_loops_over_a_share_are_equally_lean(tile: GemmPlan):
    """The loops do not depend on where a program begins and ends along K."""
    if toolchain.nvdisasm() is None:
        pytest.skip("no nvdisasm (package nvidia-cuda-nvdisasm)")
    a, b = blank((2304, 4096), "float16"), blank((2048, 4096), "float16").T
    found = []
    for plan in (tile, dataclasses.replace(tile, workers=132)):
        (launch,) = launches_of(lambda plan=plan: matmul(a, b, plan=plan), of_target("sm_90a"))
        sass = toolchain.disassemble(launch.compile("sm_90a").output)
        found.append([len(re.findall(r"^\s*/\*[0-9a-f]+\*/", text, re.MULTILINE)) for text in loops(sass)])
    plain, cut = found
    assert len(plain) == len(cut) == (4 if tile.schedule == "pingpong" else 2)
    assert all(more <= less + 4 for more, less in zip(cut, plain, strict=True)), found


@pytest.mark.parametrize("plan", [
    *(GemmPlan(128, width, 64, stages=3) for width in (96, 112, 176, 192, 224)),
    GemmPlan(128, 160, 64, "pingpong"), GemmPlan(256, 160, 64, "pingpong", cluster=2),
    GemmPlan(256, 224, 64, stages=3, cluster=2), GemmPlan(64, 224, 64, consumers=1),
    GemmPlan(192, 96, 64, consumers=3), GemmPlan(48, 64, 128, consumers=1),
    GemmPlan(128, 96, 64, splits=3),
    GemmPlan(128, 96, 64, splits=3, reduce="last"), GemmPlan(128, 192, 64, stages=3, workers=132),
], ids=str)  # fmt: skip
def test_results_of_any_tile_are_stored_by_the_copy_engine(plan: GemmPlan):
    """If sides are not powers of two, a check is needed that a box begins inside the result."""
    a, b = blank((4096, 4096), "float16"), blank((28672, 4096), "float16")
    launch, *_ = launches_of(lambda: matmul(a, b.T, plan=plan), of_target("sm_90a"))
    artifact = launch.compile("sm_90a", to="ptx")
    assert not [each["message"] for each in artifact.diagnostics if "schedule" in each["message"]]
    assert "cp.async.bulk.tensor.2d.global.shared" in artifact.output


@pytest.mark.parametrize("policy", ["", "evict_first", "evict_last"])
def test_copies_of_weights_have_the_policy_of_the_plan(policy: str):
    """The rows, which every block reads again, have no policy."""
    a, b = blank((16, 4096), "float16"), blank((4096, 4096), "float16")
    chosen = GemmPlan(16, 64, 128, stages=4, consumers=1, evict=policy)
    (launch,) = launches_of(lambda: matmul(a, b.T, plan=chosen), of_target("sm_90a"))
    text = launch.compile("sm_90a", to="ptx").output
    copies = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cluster\.global\S*", text)
    # A step of 128 is two boxes of each operand.
    assert len(copies) == 4
    assert sum("L2::cache_hint" in copy for copy in copies) == (2 if policy else 0)
    assert policy == "" or f"createpolicy.fractional.L2::{policy}.b64" in text


@pytest.mark.parametrize("m, n, k", [(1100, 2100, 4096), (1500, 3001, 512), (2048, 2052, 2048)])
@pytest.mark.parametrize("names", [("c",), ("c", "residual")], ids=" and ".join)
def test_addends_that_threads_load_leave_room_for_sums(m: int, n: int, k: int, names: tuple[str, ...]):
    """Rows that are not multiples of 16 bytes pass through registers, with their addresses, which leaves fewer
    accumulators."""
    a, b = blank((m, k), "float16"), blank((n, k), "float16").T
    given = {name: blank((m, n), "float16") for name in names}
    (launch,) = launches_of(lambda: matmul(a, b, beta=2.0, **given), of_target("sm_90a"))
    cuda = json.loads(launch.compile("sm_90a").metadata)["cuda"]
    assert cuda["roles"] and cuda["usage"]["spill_loads"] + cuda["usage"]["spill_stores"] == 0


@pytest.mark.parametrize("term", ["c", "residual"])
@pytest.mark.parametrize("size", [1024, 2048, 4096, 8192])
def test_a_result_may_overwrite_what_is_added(size: int, term: str):
    """The copy engine does not fetch such an addend, and no barrier would order a cluster's reads and writes of it."""
    a, b, c = (blank((size, size), "float16") for _ in range(3))
    (launch,) = launches_of(lambda: matmul(a, b, **{term: c}, out=c), of_target("sm_90a"))
    assert launch.options.get("cluster", 1) == 1
    usage = json.loads(launch.compile("sm_90a").metadata)["cuda"]["usage"]
    assert usage["spill_loads"] + usage["spill_stores"] == 0


@kiln.jit
def _added_in_place(a, b, x, n, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    row, column = kl.program_id(0) * M, kl.program_id(1) * N
    left = kl.make_tensor_descriptor(a, [n, n], [n, 1], [M, K])
    right = kl.make_tensor_descriptor(b, [n, n], [n, 1], [K, N])
    result = kl.make_tensor_descriptor(x, [n, n], [n, 1], [M, N])
    sums = kl.zeros((M, N), kl.float32)
    for k in range(0, n, K):
        sums = kl.dot(left.load([row, k]), right.load([k, column]), sums)
    result.store([row, column], (sums + result.load([row, column]).to(kl.float32)).to(kl.float16))


def test_a_cluster_may_overwrite_what_it_loads():
    """A role of a cluster has no barrier to order that by: the kernel has no roles, and a remark says why."""
    a, b, x = (blank((1024, 1024), "float16") for _ in range(3))
    (launch,) = launches_of(
        lambda: _added_in_place[(4, 8)](a, b, x, 1024, M=256, N=128, K=64, cluster=2, num_warps=8), of_target("sm_90a")
    )
    artifact = launch.compile("sm_90a")
    assert not json.loads(artifact.metadata)["cuda"].get("roles")
    assert any("loads what it stores" in each["message"] for each in artifact.diagnostics)


@pytest.mark.parametrize("m, n, epilogue, names", [
    (4096, 4096, "gelu_tanh", ("bias",)), (4096, 4096, "gelu_tanh", ("bias", "row_scale")),
    (4096, 4096, "silu", ("bias", "row_scale")), (1024, 28672, "silu", ("bias", "row_scale")),
    (16, 28672, "swiglu", ()), (16, 28672, "swiglu", ("bias", "row_scale")),
    (128, 28672, "gelu_tanh", ("bias", "residual")), (4096, 28672, "silu", ("bias", "row_scale", "residual", "c")),
    (2048, 6144, "silu", ("bias", "residual")), (2048, 6144, "silu", ("bias", "row_scale", "residual")),
    (1100, 2100, "gelu", ("bias", "row_scale", "residual")), (8192, 4096, "gelu_tanh", ("bias", "row_scale")),
])  # fmt: skip
def test_terms_and_epilogues_leave_room_for_sums(m: int, n: int, epilogue: str, names: tuple[str, ...]):
    """The chosen plan compiles with the schedule that it names."""
    a, b, c = blank((m, 4096), "float16"), blank((n, 4096), "float16"), blank((m, n), "float16")
    every = {"bias": blank((n,), "float16"), "row_scale": blank((m,), "float32"), "residual": c, "c": c}
    terms = {name: every[name] for name in names} | ({"beta": 0.5} if "c" in names else {})
    (launch,) = launches_of(lambda: matmul(a, b.T, epilogue=epilogue, **terms), of_target("sm_90a"))
    artifact = launch.compile("sm_90a")
    usage = json.loads(artifact.metadata)["cuda"]["usage"]
    assert usage["spill_loads"] + usage["spill_stores"] == 0
    assert not [each["message"] for each in artifact.diagnostics if "schedule" in each["message"]]


@pytest.mark.parametrize("m, n, k, dtype, about", [
    (8192, 14336, 1024, "bfloat16", {"epilogue": "silu"}), (2048, 2048, 1024, "float16", {"epilogue": "silu"}),
    (4096, 6144, 14336, "float16", {"epilogue": "swiglu", "accumulator": "f16"}),
    (2048, 2052, 1024, "float32", {"epilogue": "silu", "precision": "tf32"}),
    (1024, 4097, 4096, "float32", {"precision": "tf32"}), (1024, 4097, 512, "float16", {"epilogue": "gelu"}),
    (256, 1024, 130, "float16", {"epilogue": "gelu"}),
    (8192, 14336, 4096, "float32", {"epilogue": "swiglu", "precision": "tf32"}),
])  # fmt: skip
def test_products_of_all_kinds_leave_room_for_sums(m: int, n: int, k: int, dtype: str, about: dict[str, str]):
    """Also types other than 16 bits, sums of 16 bits, results that threads store (rows of 4097 elements), and operands
    that the copy engine cannot fetch (130). Row scales and bias take further registers."""
    a, b = blank((m, k), dtype), blank((n, k), dtype).T
    for terms in ({}, {"row_scale": blank((m,), "float32")}, {"bias": blank((n,), dtype)}):
        (launch,) = launches_of(functools.partial(matmul, a, b, **terms, **about), of_target("sm_90a"))
        artifact = launch.compile("sm_90a")
        usage = json.loads(artifact.metadata)["cuda"]["usage"]
        assert usage["spill_loads"] + usage["spill_stores"] == 0
        reasons = [each["message"] for each in artifact.diagnostics if "no schedule" in each["message"]]
        assert all("not known to be multiples of 4 bytes" in reason for reason in reasons) if k % 16 else not reasons
