"""Tuning ahead of time: shapes by name, tables that ship, and which entries are used."""

from __future__ import annotations

import json
import os
import textwrap

import kiln
import numpy as np
import pytest
from kiln import cli, errors
from kiln.tune import ahead, models, table
from kiln.tune.table import Choice, Table
from tuned_kernels import blocks, fill

pytestmark = pytest.mark.cpu


# ---- shapes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("model,layers", [
    ("llama-3-8b", {"qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (28672, 4096), "down": (4096, 14336)}),
    ("granite-8b", {"qkv": (6144, 4096), "o": (4096, 4096), "gate_up": (25600, 4096), "down": (4096, 12800)}),
    ("qwen2.5-7b", {"qkv": (4608, 3584), "o": (3584, 3584), "gate_up": (37888, 3584), "down": (3584, 18944)}),
])  # fmt: skip
def test_models_have_the_layers_of_their_configuration(model, layers):
    found = {layer.name: (layer.n, layer.k) for layer in models.MODELS[model]}
    assert found.pop("lm_head")[1] == layers["o"][0] and found == layers


def test_shapes_are_named_in_four_ways():
    assert models.shapes("llama-3-8b:down", (1, 16)) == [(1, 4096, 14336), (16, 4096, 14336)]
    assert models.shapes("128x256", (8,)) == [(8, 128, 256)]
    assert models.shapes("4x128x256, 4×128×256", (8,)) == [(4, 128, 256)]
    assert len(models.shapes("llama-3-8b, qwen2.5-7b", (1, 2))) == 2 * 10
    assert models.shapes("llama-3-8b:o,granite-8b:o", (1,)) == [(1, 4096, 4096)], "once"


@pytest.mark.parametrize("text,told", [
    ("lama-3-8b", "did you mean 'llama-3-8b'"),
    ("llama-3-8b:dwn", "llama-3-8b has no layer 'dwn'; did you mean 'down'"),
    ("12", "expected a model (llama-3-8b, granite-8b, qwen2.5-7b), NxK or MxNxK, got '12'"),
    ("0x4", "got '0x4'"),
    ("1x2x3x4", "got '1x2x3x4'"),
])  # fmt: skip
def test_unknown_shapes_are_reported(text, told):
    with pytest.raises(errors.UserError) as caught:
        models.shapes(text)
    assert told in str(caught.value)


# ---- tables ----------------------------------------------------------------------------------------------------------
HERE = {"name": "this"}


def choice(kernel="k", of=None, pick=16, ms=1.0, code="", device=HERE):
    return Choice(kernel, dict(device), {"n": 5} if of is None else of, {"BLOCK": pick}, ms, code)


def test_a_table_is_read_as_it_was_written(tmp_path):
    path = str(tmp_path / "table.json")
    one, two = choice(of={"n": 128}), choice(of={"n": 16, "types": "float32"}, pick=32)
    Table([one, two]).write(path)
    assert list(table.read(path)) == [two, one]
    lines = (tmp_path / "table.json").read_text().splitlines()
    assert json.loads("\n".join(lines)) and len(lines) == 5, "one choice a line, for people and for diffs"
    assert lines.index(next(line for line in lines if '"n": 16' in line)) < 4, "16 before 128"
    Table([two, one]).write(path)
    assert (tmp_path / "table.json").read_text().splitlines() == lines, "in whatever order it was tuned"
    assert os.listdir(tmp_path) == ["table.json"]


def test_a_newer_choice_replaces_the_older_one():
    found = Table([choice(pick=16), choice(of={"n": 6})])
    found.add(choice(pick=64))
    assert len(found) == 2 and [c.choice["BLOCK"] for c in found.of("k", HERE) if c.of == {"n": 5}] == [64]


def test_choices_depend_on_kernel_machine_and_source():
    found = Table([choice(code="a"), choice(kernel="other"), choice(device={"name": "that"})])
    assert len(found.of("k", HERE)) == 1 and found.of("k", HERE, "b") == [] and len(found.of("k", HERE, "a")) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"about": {"format": 1}, "tuned": [{"kernel": "k"}]}'])
def test_other_files_are_reported(tmp_path, text):
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(errors.UserError, match=r"table.json: expected a file that `kiln tune` wrote"):
        table.read(str(path))
    path.write_text('{"about": {"format": 99}, "tuned": []}')
    with pytest.raises(errors.UserError, match="expected a table of format 1, got 99"):
        table.read(str(path))


def test_no_file_is_an_empty_table(tmp_path):
    assert len(table.read(str(tmp_path / "none.json"))) == 0


def test_the_distance_of_keys_follows_their_numbers():
    assert table.distance({"n": 4}, {"n": 4}) == 0
    assert table.distance({"n": 4}, {"n": 8}) == table.distance({"n": 1024}, {"n": 512})
    assert table.distance({"n": 4, "m": 4}, {"n": 8, "m": 4}) < table.distance({"n": 4, "m": 4}, {"n": 8, "m": 8})
    for other in ({"n": "4"}, {"m": 4}, {"n": True}, {"n": -4}):
        assert table.distance({"n": 4}, other) == float("inf")


def test_a_missing_key_uses_the_nearest_entry_or_the_model():
    configs = blocks(16, 32, 64)
    made = [
        Choice("k", HERE, {"n": n}, config.all_kwargs(), 1.0)
        for n, config in zip((10, 100, 1000), configs, strict=True)
    ]
    assert table.find(made, {"n": 100}, configs) is configs[1], "its own"
    assert table.find(made, {"n": 150}, configs) is configs[1]
    assert table.find(made, {"n": 900}, configs) is configs[2]
    expected = {16: 3.0, 32: 2.0, 64: 1.0}
    assert table.find(made, {"n": 11}, configs, lambda c: expected[c.kwargs["BLOCK"]]) is configs[2]
    assert table.find(made, {"n": 10}, configs, lambda c: expected[c.kwargs["BLOCK"]]) is configs[0], "measured"
    assert table.find(made, {"n": 100}, configs[:1]) is configs[0], "of those that the kernel still has"
    assert table.find(made, {"n": 100, "types": "float16"}, configs) is None


def test_a_kernel_takes_its_configuration_from_its_file(told, tmp_path):
    path = str(tmp_path / "fill.json")
    told.times = {16: 2.0, 32: 1.0}
    tuner = kiln.autotune(blocks(16, 32), key=["n"])(fill)
    x = np.zeros(64, np.int32)
    made, _ = ahead.tune_kernel(tuner, {"out": x, "n": 40}, (3,))
    assert made.choice["BLOCK"] == 32 and made.milliseconds == pytest.approx(1.0, rel=0.01)
    assert made.of == {"n": 40, "types": "int32"}
    Table([made._replace(choice={**made.choice, "BLOCK": 16})]).write(path)
    told.sampled.clear()
    shipped = kiln.autotune(blocks(16, 32), key=["n"], tuned=path)(fill)
    for n in (40, 33):
        shipped[3](x, n)
        assert shipped.best_config.kwargs == {"BLOCK": 16} and told.sampled == [], "whatever times are kept"
    shipped[3](x.astype(np.int64), 40)
    assert set(told.sampled) == {16, 32}, "of other types it says nothing"
    told.sampled.clear()
    Table([made._replace(code="another source")]).write(path)
    kiln.autotune(blocks(16, 32), key=["n"], tuned=path, cache_results=False)(fill)[3](x, 40)
    assert set(told.sampled) == {16, 32}, "and of another source"


# ---- the command line ------------------------------------------------------------------------------------------------
PROGRAM = textwrap.dedent("""
    import kiln
    import kiln.language as kl

    @kiln.autotune([kiln.Config({"BLOCK": block}) for block in (16, 64)], key=["n", "scale"])
    @kiln.jit
    def scaled(x, y, n, scale, BLOCK: kl.constexpr):
        i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
        kl.store(y + i, kl.load(x + i, mask=i < n) * scale, mask=i < n)

    @kiln.jit
    def plain(x):
        kl.store(x, 1)
""")


@pytest.fixture
def program(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_kernel_is_tuned_by_the_command_line(program, told, capsys):
    told.times = {16: 2.0, 64: 1.0}
    words = ["tune", "program.py::scaled", "--signature", "x=*fp32[M, N], y=*fp32[M, N], n=M*N, scale=0.5", "--grid",
             "cdiv(n, BLOCK)", "--shapes", "M=2, N=100; M=4, N=M*50", "-o", "out.json"]  # fmt: skip
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "scaled M=2, N=100: 1" in said and "BLOCK=64" in said and "out.json: 1 tuned, 1 in all" not in said
    found = sorted(table.read("out.json"), key=lambda c: c.of["n"])
    assert [c.of for c in found] == [{"n": 200, "scale": 0.5, "types": "float32 float32"},
                                     {"n": 800, "scale": 0.5, "types": "float32 float32"}]  # fmt: skip
    assert all(c.choice["BLOCK"] == 64 and c.kernel == "scaled" for c in found)
    assert cli.main([*words[:-3], "M=2, N=300", "-o", "out.json"]) == 0
    assert len(table.read("out.json")) == 3, "added to"


def test_the_command_lists_what_it_would_tune(program, capsys):
    assert cli.main(["tune", "gemm", "--shapes", "llama-3-8b:qkv,8x64x32", "--rows", "1,16", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "gemm 1×6144×4096 float16", "gemm 16×6144×4096 float16", "gemm 8×64×32 float16"
    ]  # fmt: skip
    assert os.listdir(program) == ["program.py"]


def test_an_interrupt_keeps_what_was_tuned(program, told, capsys):
    told.times = {16: 2.0, 64: 1.0}
    words = ["tune", "program.py::scaled", "--signature", "x=*fp32[n], y=*fp32[n], n=n, scale=2.0", "-o", "out.json"]
    assert cli.main([*words, "--shapes", "n=64"]) == 0
    told.times = {16: KeyboardInterrupt(), 64: 1.0}
    assert cli.main([*words, "--shapes", "n=128"]) == 130
    assert "interrupted; out.json has what was tuned before" in capsys.readouterr().err
    assert len(table.read("out.json")) == 1


@pytest.mark.parametrize("words,told_error", [
    (["gem"], "expected gemm or FILE.py::NAME, got 'gem'; did you mean 'gemm'?"),
    (["program.py::plain"], "expected a kernel under @kiln.autotune, got program.py::plain"),
    (["program.py::scale"], "program.py has no kernel 'scale'; did you mean 'scaled'?"),
    (["program.py::other"], "program.py has no kernel 'other'; it has "),
    (["program.py::scaled", "--signature", "z=*fp32[4]"], "expected NAME=VALUE of a parameter, got 'z=*fp32[4]'"),
    (["program.py::scaled", "--signature", "x=*fp32"], "expected *TYPE[SIDE, …] for 'x', got '*fp32'"),
    (["program.py::scaled", "--signature", "x=*fp33[4]"], "unknown type of elements 'fp33'"),
    (["program.py::scaled", "--signature", "n=M"], "expected an expression without names (because --shapes gives"),
    (["program.py::scaled", "--signature", "x=*fp32[0 - 4]"], "expected an array's sides to be 0 or more, got (-4,)"),
    (["program.py::scaled", "--signature", "x=*fp32[4]"], "--signature and --grid: launch of scaled: expected a value"),
    (["program.py::scaled", "--shapes", "M"], "--shapes: expected NAME=VALUE, got 'M'"),
    (["gemm", "--rows", "a"], "--rows: expected numbers separated by commas, got 'a'"),
    (["gemm", "--dtype", "float61"], "--dtype: expected one of"),
])  # fmt: skip
def test_mistakes_are_reported(program, capsys, words, told_error):
    assert cli.main(["tune", *words]) == 1
    assert told_error in capsys.readouterr().err


# ---- the library's products ------------------------------------------------------------------------------------------
def test_products_are_tuned_into_a_file_that_launches_follow(program, monkeypatch, capsys):
    from kiln.kernels.gemm import configs, linear, tuned
    from kiln.kernels.machine import CPU
    from kiln.tune import clock

    def timed(launch):
        """Makes plans with tiles of 32 rows the fastest."""
        plan = launch.args[0]
        return lambda: 1.0 if plan.m == 32 else 2.0

    monkeypatch.setattr(clock, "WallClock", timed)
    assert cli.main(["tune", "gemm", "--shapes", "8x48x64", "--dtype", "float32", "-o", "out.json"]) == 0
    assert "gemm 8×48×64 float32: 1 ms: " in capsys.readouterr().out
    (made,) = table.read("out.json")
    problem = configs.Problem(8, 48, 64, dtype="float32", out_bytes=4, streams=True, fetched=False)
    assert made.of == problem._asdict() and made.choice["m"] == 32
    plan = tuned.find(problem, CPU, "out.json")
    assert plan == configs.GemmPlan(**made.choice) and plan != configs.modelled(problem, CPU)
    assert tuned.find(problem._replace(m=10), CPU, "out.json") == plan, "a near one"
    assert tuned.find(problem._replace(m=100), CPU, "out.json") is None, "a far one"
    assert tuned.find(problem._replace(dtype="float16"), CPU, "out.json") is None
    # A launch uses it, too.
    seen = []
    real = configs._cpu_plan
    monkeypatch.setattr(configs, "_cpu_plan", lambda *a: seen.append(a) or real(*a))
    configs.plan.cache_clear()
    with kiln.knobs.scope(tuned="out.json"):
        a, w = np.ones((8, 64), np.float32), np.ones((48, 64), np.float32)
        assert (linear(a, w) == 64).all() and seen == []
    configs.plan.cache_clear()


def test_a_product_missing_from_the_file_takes_a_nearby_plan_that_the_model_accepts(tmp_path):
    from kiln.kernels.gemm import configs, tuned
    from kiln.kernels.machine import DEFAULT_GPU

    def problem(m, n, k):
        return configs.Problem(m, n, k, streams=True)

    path = str(tmp_path / "gemm.json")
    asked = problem(4096, 4096, 4096)
    ranked = configs.ranked(asked, DEFAULT_GPU)
    least = configs.microseconds(ranked[0], asked, DEFAULT_GPU)
    good = next(p for p in ranked[1:] if configs.microseconds(p, asked, DEFAULT_GPU) <= 1.04 * least and p.splits == 1)
    bad = next(p for p in ranked if configs.microseconds(p, asked, DEFAULT_GPU) > 1.3 * least and p.splits == 1)
    near, far = problem(4096, 4096, 4608), problem(2048, 6144, 4096)
    Table([tuned.entry(near, DEFAULT_GPU, bad, 0.1), tuned.entry(far, DEFAULT_GPU, good, 0.1)]).write(path)
    assert tuned.find(asked, DEFAULT_GPU, path) == good, "the nearer one loses too much, as the model sees it"
    assert tuned.find(near, DEFAULT_GPU, path) == bad, "what was measured counts more than the model"
    other = problem(8192, 4096, 4096)
    Table([tuned.entry(near, DEFAULT_GPU, bad, 0.1)]).write(path)
    assert tuned.find(other, DEFAULT_GPU, path) is None, "the model's own choice is better than any there"
    stale = tuned.entry(near, DEFAULT_GPU, bad, 0.1)._replace(code="another source")
    Table([stale]).write(path)
    assert tuned.find(near, DEFAULT_GPU, path) is None
    # Measured without extra terms; used with them if there is room.
    Table([tuned.entry(asked, DEFAULT_GPU, configs.GemmPlan(128, 128, 64, "pingpong", stages=5), 0.1)]).write(path)
    assert tuned.find(asked._replace(vectors=1, function=1), DEFAULT_GPU, path).schedule == "pingpong"
    assert tuned.find(asked._replace(vectors=2, function=2), DEFAULT_GPU, path) is None
    elsewhere = DEFAULT_GPU._replace(processors=78)
    Table([tuned.entry(near, elsewhere, bad, 0.1)]).write(path)
    assert tuned.find(near, DEFAULT_GPU, path) is None, "another machine's"


def test_a_plan_that_gives_other_results_is_left_out(monkeypatch):
    from kiln.tune import clock

    monkeypatch.setattr(clock, "WallClock", lambda launch: lambda: 1.0)
    real = ahead.Gemm._result
    broken = []

    def result(self, plan, launch, out):
        found = real(self, plan, launch, out)
        if plan.k == 128 and not broken:
            broken.append(plan)
        return found * 1.1 if plan in broken else found

    monkeypatch.setattr(ahead.Gemm, "_result", result)
    _, said = ahead.Gemm("float32").tune(8, 48, 128)
    assert broken and said == [
        f"{broken[0]} is left out: its result differs from the default plan's by 1.0e-01 in norm"
    ]


def test_nothing_ships_unless_it_was_measured():
    """Without a file the model decides: a shipped file changes speed and must be made on a real machine."""
    from kiln.kernels.gemm import configs, tuned
    from kiln.kernels.machine import DEFAULT_GPU

    if not tuned.SHIPPED.exists():
        problem = configs.Problem(16, 4096, 4096, streams=True)
        assert configs.plan(problem, DEFAULT_GPU) == configs.modelled(problem, DEFAULT_GPU)
