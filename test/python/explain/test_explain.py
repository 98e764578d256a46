"""`kiln explain` of a launch, checked against independent counts."""

from __future__ import annotations

import html.parser
import json

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors, explain, knobs
from kiln.cli import main
from kiln.explain import machines, occupancy

pytestmark = pytest.mark.cpu


@kiln.jit
def add(x, y, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + i, kl.load(x + i, mask=i < n) + 1.0, mask=i < n)


@kiln.jit
def matmul(a, b, c, m, n, k, BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr):
    i = kl.program_id(0) * BM + kl.arange(0, BM)
    j = kl.program_id(1) * BN + kl.arange(0, BN)
    acc = kl.zeros((BM, BN), kl.float32)
    for start in range(0, k, BK):
        r = start + kl.arange(0, BK)
        left = kl.load(a + i[:, None] * k + r[None, :], mask=(i < m)[:, None] & (r < k)[None, :], other=0.0)
        right = kl.load(b + r[:, None] * n + j[None, :], mask=(r < k)[:, None] & (j < n)[None, :], other=0.0)
        acc = kl.dot(left, right, acc)
    kl.store(c + i[:, None] * n + j[None, :], acc, mask=(i < m)[:, None] & (j < n)[None, :])


@kiln.jit
def strided(x, y, STEP: kl.constexpr, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + i, kl.load(x + i * STEP))


@kiln.jit
def gather(x, index, y, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    where = kl.load(index + i, mask=i < n, other=0)
    kl.store(y + i, kl.load(x + where, mask=i < n), mask=i < n)


@kiln.jit
def persistent(x, y, tiles, BLOCK: kl.constexpr):
    for tile in range(kl.program_id(0), tiles, kl.num_programs(0)):
        i = tile * BLOCK + kl.arange(0, BLOCK)
        if tile % 2 == 0:
            kl.store(y + i, kl.load(x + i))


@kiln.jit
def halving(x, n, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    step = n
    while step > 0:
        kl.store(x + i, kl.load(x + i) + 1.0, mask=i < step)
        step = step // 2


@kiln.jit
def through_memory(flag, y, BLOCK: kl.constexpr):
    if kl.load(flag) > 0:
        kl.store(y + kl.arange(0, BLOCK), 1.0)


@kiln.jit
def blocks(x, y, m, n, B: kl.constexpr):
    source = kl.make_tensor_descriptor(x, [m, n], [n, 1], [B, B])
    sink = kl.make_tensor_descriptor(y, [m, n], [n, 1], [B, B])
    i, j = kl.program_id(0) * B, kl.program_id(1) * B
    sink.store([i, j], source.load([i, j]))


def arrays(report):
    return {a["argument"]: (a["read"], a["written"]) for a in report.data["work"]["arrays"]}


def test_a_masked_tail_is_counted_to_the_byte():
    x, y = np.zeros(1000, np.float32), np.zeros(1000, np.float32)
    report = explain.launch(add, 8, x, y, 1000, BLOCK=128)
    assert arrays(report) == {"x": (4000, 0), "y": (0, 4000)}
    assert report.data["work"]["operations"] == {"float": {"f32": 1024}}
    assert not report.data["work"]["estimated"] and report.data["values"] == {"n": 1000}
    assert not y.any(), "nothing was launched"


@pytest.mark.parametrize("m, n, k", [(100, 96, 70), (33, 64, 32), (3, 5, 2)])
def test_a_product_against_a_count_by_hand(m, n, k):
    a, b, c = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16), np.zeros((m, n), np.float32)
    grid = (-(-m // 32), -(-n // 32))
    report = explain.launch(matmul, grid, a, b, c, m, n, k, BM=32, BN=32, BK=16)
    # Every column of programs reads all of a, every row of programs all of b.
    assert arrays(report) == {"a": (2 * m * k * grid[1], 0), "b": (2 * k * n * grid[0], 0), "c": (0, 4 * m * n)}
    turns = -(-k // 16)
    assert report.data["work"]["operations"]["tensor"] == {"f16": 2 * 32 * 32 * 16 * turns * grid[0] * grid[1]}
    (loop,) = report.data["work"]["loops"]
    assert loop["turns"] == turns and not loop["estimated"]
    assert {a["argument"]: a["span"] for a in report.data["work"]["arrays"]}["a"] == 2 * m * k


def test_a_sample_of_a_large_grid_stands_for_all_of_it():
    x = np.zeros(16, np.float32)
    made = add.run(x, x.copy(), 1 << 22, grid=1, BLOCK=64, warmup=True)
    report = explain.compiled(made, grid=1 << 16, values={"n": 1 << 22})
    assert report.data["work"]["sampled"] < report.data["work"]["programs"] == 1 << 16
    assert arrays(report) == {"x": (4 << 22, 0), "y": (0, 4 << 22)}
    assert "128 of 65536 program instances" in str(report)


def test_a_long_loop_is_run_in_part():
    a, b, c = np.zeros((32, 8192), np.float16), np.zeros((8192, 32), np.float16), np.zeros((32, 32), np.float32)
    report = explain.launch(matmul, (1, 1), a, b, c, 32, 32, 8192, BM=32, BN=32, BK=16)
    assert arrays(report)["a"] == (2 * 32 * 8192, 0)


def test_loops_and_branches_follow_their_conditions():
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    # 11 tiles on 4 programs; the even ones (6) are copied.
    report = explain.launch(persistent, 4, x, y, 11, BLOCK=16)
    assert arrays(report) == {"x": (6 * 64, 0), "y": (0, 6 * 64)}
    assert not report.data["work"]["estimated"]
    # 13, 6, 3, 1: each iteration stores that many elements and loads all.
    report = explain.launch(halving, 1, x, 13, BLOCK=16)
    assert arrays(report) == {"x": (4 * 16 * 4, 4 * (13 + 6 + 3 + 1))}
    assert report.data["work"]["loops"][0]["turns"] == 4


def test_data_dependent_counts_are_marked_as_bounds():
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    report = explain.launch(gather, 2, x, np.zeros(64, np.int32), y, 50, BLOCK=32)
    work = report.data["work"]
    assert work["estimated"] and arrays(report)["index"] == (200, 0)
    assert "up to" in str(report)
    assert [a["estimated"] for a in work["accesses"]] == [False, True, False]
    report = explain.launch(through_memory, 1, np.zeros(1, np.int32), y, BLOCK=16)
    assert arrays(report)["y"] == (0, 64) and report.data["work"]["estimated"]


def test_descriptors_are_clipped_to_the_array():
    x, y = np.zeros((20, 24), np.float32), np.zeros((20, 24), np.float32)
    report = explain.launch(blocks, (2, 2), x, y, 20, 24, B=16)
    assert arrays(report) == {"x": (20 * 24 * 4, 0), "y": (0, 20 * 24 * 4)}


# -- code for a GPU, none of which is here ------------------------------------------------------


def on_gpu(kernel, signature, grid, values=None, **options):
    from kiln.cli.signature import parse_disjoint, parse_signature
    from kiln.runtime.jit import compile_kernel

    with knobs.scope(target="sm_90a"):
        parameters = parse_signature(signature, kernel)
        made = compile_kernel(kernel, parameters, options, parse_disjoint("all", parameters), -2)
        return explain.compiled(made, grid, values or {})


@pytest.mark.parametrize("step, sectors", [(1, 4), (2, 8), (3, 12), (8, 32), (33, 32)])
def test_sectors_of_a_strided_access(step, sectors):
    """32 lanes of 4 bytes, `step` apart: they touch the 32-byte sectors from first to last, at most 32."""
    report = on_gpu(strided, f"x=*fp32:16, y=*fp32:16, STEP={step}, BLOCK=128", 4)
    load, store = report.data["placement"]["accesses"]
    assert store["sectors"] == store["ideal"]
    assert load["ideal"] == 4 * 32 // 32 * (1 if load["bits"] == 32 else load["bits"] // 32)
    if step > 1:
        assert load["bits"] == 32 and load["sectors"] == sectors
    assert ("uncoalesced" in str(report)) == (step > 1)


def test_layouts_are_drawn_with_their_elements():
    report = on_gpu(matmul, "a=*fp16:16, b=*fp16:16, c=*fp32:16, m=i32:16, n=i32:16, k=i32:16, BM=64, BN=64, BK=64", 4)
    placement = report.data["placement"]
    (product,) = placement["products"]
    assert product["instruction"] == "wgmma" and product["shape"] == [64, 64, 64] and product["type"] == "f16"
    (accumulator,) = [layout for layout in placement["layouts"] if layout["name"].startswith("mma_acc")]
    # The fragment layout of the PTX manual: row 8 * (register / 2 % 2) + lane / 4 of the warp's 16, column 8 *
    # (register / 4) + 2 * (lane % 4) + register % 2.
    for row in range(32):
        for column in range(64):
            warp, lane, register = accumulator["owners"][row][column]
            assert row == 16 * warp + 8 * (register // 2 % 2) + lane // 4
            assert column == 8 * (register // 4) + 2 * (lane % 4) + register % 2
    assert report.data["assumed"] == ["m", "n", "k"] and "assumed" in str(report)


def test_roles_and_channels_of_a_schedule():
    report = on_gpu(
        tiled,
        "a=*fp16:16, b=*fp16:16, c=*fp16:16, m=i32:16, n=i32:16, k=i32:16, B=128, BK=64",
        (32, 32),
        dict.fromkeys("mnk", 4096),
        num_warps=8,
    )
    placement = report.data["placement"]
    assert {role["name"] for role in placement["roles"]} >= {"load"}
    ring = max(placement["channels"], key=lambda channel: channel["bytes"])
    assert ring["bytes"] == 2 * 128 * 64 * 2 and ring["slots"] > 1
    text = str(report)
    assert "roles" in text and "1 block, 12 of 64 warps" in text and f"{ring['slots']} slots of 32.8 kB" in text
    roof = report.data["roofline"]
    assert roof["limiter"] == "tensor f16" and roof["least"] == pytest.approx(2 * 4096**3 / 989e12)


@kiln.jit
def tiled(a, b, c, m, n, k, B: kl.constexpr, BK: kl.constexpr):
    left = kl.make_tensor_descriptor(a, [m, k], [k, 1], [B, BK])
    right = kl.make_tensor_descriptor(b, [n, k], [k, 1], [B, BK])
    out = kl.make_tensor_descriptor(c, [m, n], [n, 1], [B, B])
    i, j = kl.program_id(0) * B, kl.program_id(1) * B
    acc = kl.zeros((B, B), kl.float32)
    for start in range(0, k, BK):
        acc = kl.dot(left.load([i, start]), right.load([j, start]).T, acc)
    out.store([i, j], acc.to(kl.float16))


def test_a_roofline_counts_an_array_once():
    """256 programs in a row each read the same 64 KiB of b, which count as one read from memory."""
    report = on_gpu(
        matmul,
        "a=*fp16:16, b=*fp16:16, c=*fp32:16, m=i32:16, n=i32:16, k=i32:16, BM=16, BN=64, BK=64",
        (256, 1),
        {"m": 4096, "n": 64, "k": 512},
    )
    assert report.data["roofline"]["bytes"] == 2 * 4096 * 512 + 2 * 512 * 64 + 4 * 4096 * 64
    assert arrays(report)["b"] == (256 * 2 * 512 * 64, 0)


@pytest.mark.parametrize(
    "threads, registers, shared, blocks, limiter",
    [
        # From the tables of NVIDIA's occupancy calculator for compute capability 9.0.
        (128, 32, 0, 16, "threads and registers"),
        (128, 64, 0, 8, "registers"),
        (256, 128, 0, 2, "registers"),
        (384, 168, 200 << 10, 1, "registers and shared memory"),
        (32, 32, 0, 32, "blocks"),
        (128, 32, 48 << 10, 4, "shared memory"),
        (1024, 32, 0, 2, "threads and registers"),
    ],
)
def test_occupancy(threads, registers, shared, blocks, limiter):
    limits = kiln._kiln.target("sm_90a")["limits"]
    held = occupancy.compute(limits, machines.choose("sm_90a", "H200"), threads, registers, shared)
    assert (held.blocks, held.limiter) == (blocks, limiter)


def test_every_gpu_of_the_target_table_has_a_machine():
    for row in kiln._kiln.targets():
        if row["kind"] == "cuda":
            assert machines.choose(row["name"]).row == row["name"]
    with pytest.raises(errors.UserError, match="did you mean 'H200'"):
        machines.choose("sm_90a", "H20O")


# -- outputs --------------------------------------------------------------------------------------


class Balanced(html.parser.HTMLParser):
    """Fails if a closing tag does not match the innermost open one."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.titles = 0

    def handle_starttag(self, tag, attrs):
        self.titles += tag == "title"
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}>"


def test_the_page_is_well_formed_and_draws_layouts():
    report = on_gpu(matmul, "a=*fp16:16, b=*fp16:16, c=*fp32:16, m=i32:16, n=i32:16, k=i32:16, BM=64, BN=64, BK=64", 4)
    page = report.html()
    parser = Balanced()
    parser.feed(page)
    assert not parser.open
    assert "mma_acc [64, 64]" in page and "<svg" in page and parser.titles > 16 * 32
    assert "acc = kl.dot(left, right, acc)" in page and "http" not in page
    assert json.loads(report.json())["kernel"] == "matmul"


def test_the_page_draws_layouts_of_one_dimension():
    page = on_gpu(add, "x=*fp32:16, y=*fp32:16, n=i32:16, BLOCK=1024", 4).html()
    assert "blocked [1024]" in page and "<title>4: warp 0, lane 1, register 0</title>" in page


def test_the_command(tmp_path, capsys):
    file = tmp_path / "kernels.py"
    file.write_text(
        "import kiln\nimport kiln.language as kl\n\n\n@kiln.jit\ndef double(x, n, BLOCK: kl.constexpr):\n"
        "    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)\n"
        "    kl.store(x + i, kl.load(x + i, mask=i < n) * 2, mask=i < n)\n"
    )
    common = ["explain", f"{file}::double", "--signature", "x=*fp32:16, n=i32, BLOCK=128"]
    assert main([*common, "--target", "sm_90a", "--grid", "8", "--values", "n=1000"]) == 0
    out = capsys.readouterr().out
    assert "reads 4 kB and writes 4 kB of x" in out and "on H200, by memory" in out
    assert "    8      kl.store(x + i, kl.load(x + i, mask=i < n) * 2, mask=i < n)" in out
    assert main([*common, "--target", "sm_80", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["machine"] == "A100" and data["assumed"] == ["n"]
    assert main([*common, "--html", str(tmp_path / "page.html")]) == 0
    assert "<svg" not in (tmp_path / "page.html").read_text(), "the CPU has no layouts"
    capsys.readouterr()
    assert main([*common, "--values", "nn=5"]) == 1
    assert "has no integer argument 'nn'; did you mean 'n'?" in capsys.readouterr().err
    assert main([*common, "--grid", "0"]) == 1
    assert "expected a grid of 1 to 3 positive sides" in capsys.readouterr().err
    assert main([*common, "--target", "cpu-avx2", "--machine", "H100"]) == 1
    assert "expected a GPU as the target" in capsys.readouterr().err
    file.write_text(file.read_text() + "\nimport numpy as np\n\ndouble[(1,)](np.ones(8, np.float32), 8, BLOCK=8)\n")
    assert main([*common, "--target", "sm_90a"]) == 0, "the file's own launch is of its own target"
    capsys.readouterr()


def test_the_command_takes_a_kernel_of_a_module(capsys):
    signature = "x=*fp32:16, y=*fp32:16, n=i32, BLOCK=128"
    assert main(["explain", "kiln.demo::no_such_kernel", "--signature", signature]) == 1
    assert "kiln.demo has no kernel 'no_such_kernel'" in capsys.readouterr().err
