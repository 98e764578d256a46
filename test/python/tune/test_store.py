"""Times shared between processes: how they are found, and what is not accepted."""

from __future__ import annotations

import json

import kiln
import pytest
from kiln import _kiln, knobs
from kiln.runtime import cache as artifacts
from kiln.runtime import publishing
from kiln.tune.store import CacheStore, Time, TimeStore, describe, device_identity, signature


class Memory(dict):
    """A store that forgets nothing and exposes every entry."""

    def get(self, fields):
        return super().get(tuple(fields))

    def put(self, subject, fields, content):
        self.setdefault(tuple(fields), content)


def test_the_cache_of_kernels_keeps_times(cache):
    store, fields = CacheStore(), [("kernel", "k"), ("key", "5")]
    assert store.get(fields) is None
    store.put("k", fields, b"one")
    assert store.get(fields) == b"one" and store.get(fields[:1]) is None
    store.put("k", fields, b"two")
    assert store.get(fields) == b"one", "what is there stays"
    (entry,) = artifacts.store().entries()
    assert entry["kind"] == "time" and entry["subject"] == "k"


def test_a_damaged_entry_is_missing(cache):
    store, fields = CacheStore(), [("kernel", "k")]
    store.put("k", fields, b"one two three")
    artifacts.store()  # publish everything first
    key = _kiln.Fields(fields).key("time")
    path = cache / key[:2] / key / "time.json"
    publishing.flush()
    path.write_bytes(b"one two thre3")
    with pytest.warns(RuntimeWarning, match="is not used"):
        assert store.get(fields) is None


def test_times_that_are_shipped_are_found_first(cache, tmp_path):
    store, fields = CacheStore(), [("kernel", "k")]
    store.put("k", fields, b"shipped")
    with knobs.scope(cache=str(tmp_path / "other"), cache_readonly=str(cache)):
        assert store.get(fields) == b"shipped"


def test_without_a_cache_nothing_is_kept():
    with knobs.scope(cache="off"):
        CacheStore().put("k", [("kernel", "k")], b"one")
        assert CacheStore().get([("kernel", "k")]) is None


def test_entries_belong_to_one_configuration_and_subject():
    memory, one, two = Memory(), kiln.Config({"BLOCK": 16}), kiln.Config({"BLOCK": 32})
    about = {"kernel": "k", "key": ["5"], "device": {"name": "cpu"}}
    TimeStore(memory, "k", about).put(one, Time([1.0, 0.9, 1.1], "artifact"))
    assert TimeStore(memory, "k", dict(about)).get(one) == Time([1.0, 0.9, 1.1], "artifact")
    assert TimeStore(memory, "k", about).get(two) is None
    for name, value in (("kernel", "l"), ("key", ["6"]), ("device", {"name": "gpu"}), ("more", 1)):
        assert TimeStore(memory, "k", {**about, name: value}).get(one) is None


def test_exact_times_are_of_one_artifact():
    memory, config = Memory(), kiln.Config({"BLOCK": 16})
    plain, exact = TimeStore(memory, "k", {}), TimeStore(memory, "k", {})
    exact.exact = True
    plain.put(config, Time([1.0], "one"))
    exact.put(config, Time([2.0], "two"))
    assert plain.get(config) == Time([1.0], "one")
    assert exact.get(config, "two") == Time([2.0], "two") and exact.get(config, "one") is None


@pytest.mark.parametrize("content", [
    b"", b"[]", b"{}", b"\xff", json.dumps({"milliseconds": [], "artifact": "", "left_out": ""}).encode(),
    json.dumps({"milliseconds": [-1.0], "artifact": "", "left_out": ""}).encode(),
    json.dumps({"milliseconds": [1.0], "artifact": "", "left_out": "hangs"}).encode(),
    json.dumps({"milliseconds": [1.0]}).encode(),
])  # fmt: skip
def test_entries_in_another_format_count_as_missing(content):
    class Says:
        def get(self, fields):
            return content

    assert TimeStore(Says(), "k", {}).get(kiln.Config({"BLOCK": 16})) is None


def test_configurations_have_the_same_description_in_every_process():
    assert describe(kiln.Config({"B": 1, "A": 2})) == describe(kiln.Config({"A": 2, "B": 1}))
    assert describe(kiln.Config({"A": object()})) == describe(kiln.Config({"A": object()})), "no addresses"
    assert describe(kiln.Config({"A": 1})) != describe(kiln.Config({"A": 1}, num_warps=8))

    def hook(value):
        return lambda arguments: value

    assert describe(kiln.Config({}, pre_hook=hook(1))) == describe(kiln.Config({}, pre_hook=hook(1)))
    assert describe(kiln.Config({}, pre_hook=hook(1))) != describe(kiln.Config({}, pre_hook=hook(2)))


def test_the_signature_says_what_code_may_know_of_arguments():
    assert signature({"n": 1, "m": 32, "k": 5, "f": True, "none": None, "s": "text", "x": 0.5}.items()) == [
        "n=int:1", "m=int:16", "k=int:", "f=True", "none=None", "s='text'", "x=builtins.float"
    ]  # fmt: skip


def test_the_cpu_is_known_by_its_model_and_its_threads():
    two, three = device_identity(-1, 2), device_identity(-1, 3)
    assert two["name"] and two["cpu"] and {**two, "threads": 3} == three
