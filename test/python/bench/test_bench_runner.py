"""Measuring a row, on torch's CPU tensors: what is checked before timing, and the search for the ceiling."""

import dataclasses
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import cases  # noqa: E402
import norm  # noqa: E402
import runner  # noqa: E402
from device import HostDevice  # noqa: E402

CASE = next(case for case in norm.CASES if case.name == "rms_norm 2048×896")
SMALL = dataclasses.replace(CASE, shape=(4, 896), size="4×896", reads=2 * 5 * 896, writes=2 * 4 * 896,
                            footprint=2 * 9 * 896, streams=(1, 1, 2 * 4 * 896))  # fmt: skip
SETTINGS = runner.Settings(("kiln", "torch"), rounds=3, most_sets=4)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(runner, "family", lambda _: norm)
    return lambda **peers: _run(monkeypatch, peers)


def _run(monkeypatch, peers, settings=SETTINGS):
    original = norm.peers

    def with_others(case, tools):
        return {"torch": original(case, tools)["torch"], **{name: (lambda p=p: p) for name, p in peers.items()}}

    monkeypatch.setattr(norm, "peers", with_others)
    return runner.run_case(SMALL, HostDevice(), settings, lambda _: None)


def rms(a, outs):
    outs[0].copy_(torch.nn.functional.rms_norm(a["x"], (896,), a["weight"], norm.EPS))
    return outs


def test_a_row(small):
    found = small(kiln=cases.Peer(rms))
    assert {name: peer["status"] for name, peer in found["peers"].items()} == {"torch": "ok", "kiln": "ok"}
    kiln = found["peers"]["kiln"]
    assert kiln["cold"]["rounds"] == 3 and kiln["warm"]["rounds"] == 3
    assert kiln["cold"]["tbs"] == pytest.approx(SMALL.traffic / kiln["cold"]["median"] / 1e6)
    assert 1e-5 < kiln["error"] <= found["allowed_error"]
    assert found["case"]["name"] == "rms_norm 4×896" and found["plan"]["sets"] == 4


def wrong_weight(a, outs):
    return rms({**a, "weight": a["weight"] * 1.01}, outs)


def forgets_a_row(a, outs):
    outs[0][:3].copy_(torch.nn.functional.rms_norm(a["x"], (896,), a["weight"], norm.EPS)[:3])
    return outs


def stale_set(a, outs):
    """Correct on the first call with a set, then writes nothing: like a launch that a graph failed to record."""
    if a["set"] not in seen:
        seen.add(a["set"])
        return rms(a, outs)
    return outs


def raises(a, outs):
    raise RuntimeError("no kernel\nfor you")


seen: set = set()


@pytest.mark.parametrize("launch,status,note", [
    (wrong_weight, "wrong", "allowed"),
    (forgets_a_row, "wrong", "inf"),
    (stale_set, "wrong", "wrong"),
    (raises, "failed", "RuntimeError: no kernel"),
])  # fmt: skip
def test_wrong_results_are_not_timed(small, launch, status, note):
    seen.clear()
    found = small(kiln=cases.Peer(launch))["peers"]
    assert found["kiln"]["status"] == status and note in found["kiln"]["note"]
    assert "cold" not in found["kiln"] and found["torch"]["status"] == "ok"


def test_a_peer_that_allocates_keeps_its_outputs_alive(small, monkeypatch):
    """As many outputs as sets stay alive, so that none is found in the cache again."""
    alive: list = []

    def launch(a, outs):
        assert outs is None
        out = torch.nn.functional.rms_norm(a["x"], (896,), a["weight"], norm.EPS)
        alive.append(out.data_ptr())
        return (out,)

    settings = dataclasses.replace(SETTINGS, warm=False)
    found = _run(monkeypatch, {"kiln": cases.Peer(launch, takes_outputs=False)}, settings)["peers"]["kiln"]
    assert found["status"] == "ok" and "warm" not in found
    rotating = alive[3:]  # after one launch to compile and two checked ones
    assert len(rotating) > 16 and all(len(set(rotating[i : i + 4])) == 4 for i in range(len(rotating) - 3))


def test_an_unavailable_peer(small, monkeypatch):
    original = norm.peers

    def missing():
        raise cases.Unavailable("quack: no such module")

    monkeypatch.setattr(norm, "peers", lambda case, tools: original(case, tools) | {"kiln": missing})
    monkeypatch.setattr(runner, "family", lambda _: norm)
    found = runner.run_case(SMALL, HostDevice(), SETTINGS, lambda _: None)["peers"]["kiln"]
    assert found == {"peer": "kiln", "status": "unavailable", "note": "quack: no such module"}


def _copying(config):
    """A kernel that does the work of move.cu on the host; `config` may break it."""

    def kernel(*arguments):
        inputs, outputs, beside, count = arguments[:4], arguments[4:7], arguments[7:9], int(arguments[11])
        writes = config["WRITES"]
        assert all(int(arguments[9 + e]) * 16 == beside[e].nbytes for e in range(config["EXTRAS"]))
        for source, target in zip(inputs[:writes], outputs[:writes], strict=True):
            assert source.nbytes == 16 * count
            target.copy_(source)

    return kernel


@pytest.fixture
def host_move(monkeypatch):
    """`kiln.cuda.compile` for move.cu without a device; the list of what was compiled."""
    compiled = []

    class Kernel:
        def __init__(self, config):
            self.config = config

        def __getitem__(self, launch):
            (grid,), (threads,) = launch
            assert grid > 0 and threads == self.config["THREADS"]
            return _copying(self.config)

    def compile_(source, name, options):
        config = dict(part[2:].split("=") for part in options)
        compiled.append({key: int(value) for key, value in config.items()})
        assert 'extern "C"' in source and f" {name}(" in source
        return Kernel(compiled[-1])

    module = types.ModuleType("kiln.cuda")
    module.compile = compile_
    import kiln
    from baselines import cuda_kernels

    monkeypatch.setitem(sys.modules, "kiln.cuda", module)
    monkeypatch.setattr(kiln, "cuda", module, raising=False)
    cuda_kernels.load.cache_clear()
    yield compiled
    cuda_kernels.load.cache_clear()


def test_the_search_for_the_ceiling(small, host_move, monkeypatch):
    settings = dataclasses.replace(SETTINGS, peers=("kiln", "torch", "ceiling"))
    monkeypatch.setattr(runner, "family", lambda _: norm)
    found = _run(monkeypatch, {"kiln": cases.Peer(rms)}, settings)["peers"]["ceiling"]
    assert found["status"] == "ok", found
    assert "loads ×" in found["note"] and found["cold"]["median"] > 0
    assert {config["UNROLL"] for config in host_move} == {1, 2, 4}
    assert {config["HINT"] for config in host_move} == {0, 1, 2}
    assert all((config["READS"], config["WRITES"], config["EXTRAS"]) == (1, 1, 1) for config in host_move)


def test_a_ceiling_that_does_not_copy_is_refused(small, host_move, monkeypatch):
    monkeypatch.setitem(_copying.__globals__, "_copying", lambda config: lambda *arguments: None)
    settings = dataclasses.replace(SETTINGS, peers=("kiln", "torch", "ceiling"))
    found = _run(monkeypatch, {"kiln": cases.Peer(rms)}, settings)["peers"]["ceiling"]
    assert found["status"] == "failed" and "does not copy" in found["note"]


def test_streams_of_an_operation_in_place():
    """Output w must be input w: parameter, first and second moment come before the gradient."""
    import adamw
    from baselines import ceiling

    case = dataclasses.replace(adamw.CASES[0], streams=(4, 3, 64))
    arrays = {name: torch.zeros(16) for name in ("parameter", "gradient", "moment", "square")}
    arrays |= {"step": torch.zeros(1), "set": 0}
    reads, writes = ceiling.streams(arrays, None, case, adamw.MUTATES)
    assert all(a is b for a, b in zip(reads[:3], writes, strict=True))
    assert reads[3] is arrays["gradient"]


@pytest.mark.parametrize("reads", [1, 2, 4])
def test_ceilings_fit_the_registers(reads):
    from baselines import ceiling

    for config in ceiling.first_round("full", reads):
        assert (4 * reads * config.unroll + 24) * config.threads <= 65536
        vectors = 1_000_003
        grid = config.grid(vectors, 132)
        assert grid * config.threads * config.unroll >= vectors
        assert (grid - 1) * config.threads * config.unroll < vectors
