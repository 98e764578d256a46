"""Where times are kept: whole or not at all, and nobody else's."""

from __future__ import annotations

import concurrent.futures
import os

import kiln
import pytest
from kiln.tune.store import FolderStore, Time, TimeStore, describe, device_identity, signature


class Memory(dict):
    def put(self, key, content):
        self[key] = content


def test_what_is_put_is_got(tmp_path):
    store = FolderStore(str(tmp_path / "times"))
    assert store.get("a") is None
    store.put("a", b"one\ntwo\0")
    store.put("b", b"")
    assert store.get("a") == b"one\ntwo\0" and store.get("b") == b"" and store.get("c") is None
    store.put("a", b"other")
    assert FolderStore(str(tmp_path / "times")).get("a") == b"other"
    assert os.stat(tmp_path / "times").st_mode & 0o777 == 0o700
    assert sorted(os.listdir(tmp_path / "times")) == ["a.time", "b.time"], "no parts are left"


@pytest.mark.parametrize("damage", [
    lambda content: content[:-1],
    lambda content: content[:10],
    lambda content: b"",
    lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    lambda content: b"\xff" + content[1:],
    lambda content: content + b"x",
], ids=["short", "cut in the digest", "empty", "a bit", "no text", "long"])  # fmt: skip
def test_damaged_entries_are_missing(tmp_path, damage):
    store = FolderStore(str(tmp_path))
    os.chmod(tmp_path, 0o700)
    store.put("a", b"content of some length")
    path = tmp_path / "a.time"
    path.write_bytes(damage(path.read_bytes()))
    assert store.get("a") is None
    store.put("a", b"again")
    assert store.get("a") == b"again"


def test_a_folder_that_others_write_is_not_used(tmp_path, caplog):
    store = FolderStore(str(tmp_path / "times"))
    store.put("a", b"content")
    os.chmod(tmp_path / "times", 0o777)
    assert store.get("a") is None
    store.put("b", b"content")
    assert caplog.text.count("cannot keep results of tuning") == 1, "told once"
    os.chmod(tmp_path / "times", 0o700)
    assert store.get("a") == b"content" and store.get("b") is None
    os.symlink(tmp_path / "times", tmp_path / "link")
    assert FolderStore(str(tmp_path / "link")).get("a") is None


def test_a_folder_that_cannot_be_is_nobodys_error(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    store = FolderStore(str(tmp_path / "file" / "times"))
    store.put("a", b"content")
    assert store.get("a") is None and "cannot keep results of tuning" in caplog.text


def test_readers_beside_writers_find_one_entry_or_the_other(tmp_path):
    store = FolderStore(str(tmp_path / "times"))
    contents = [bytes([i]) * 20_000 for i in range(8)]

    def write(content):
        for _ in range(20):
            FolderStore(store.folder).put("a", content)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(write, content) for content in contents]:
            while not future.done():
                found = store.get("a")
                assert found is None or found in contents
            future.result()
    assert store.get("a") in contents and os.listdir(store.folder) == ["a.time"]


def test_entries_are_of_one_configuration_and_of_what_they_are_about():
    memory, one, two = Memory(), kiln.Config({"BLOCK": 16}), kiln.Config({"BLOCK": 32})
    about = {"kernel": "k", "key": ["5"], "device": {"name": "cpu"}}
    TimeStore(memory, about).put(one, Time([1.0, 0.9, 1.1], "artifact"))
    assert TimeStore(memory, dict(about)).get(one) == Time([1.0, 0.9, 1.1], "artifact")
    assert TimeStore(memory, about).get(two) is None
    for name, value in (("kernel", "l"), ("key", ["6"]), ("device", {"name": "gpu"}), ("more", 1)):
        assert TimeStore(memory, {**about, name: value}).get(one) is None


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff", b'{"config": "x", "milliseconds": [1], "artifact": ""}']
)
def test_entries_of_another_form_are_missing(content):
    class Says:
        def get(self, key):
            return content

    assert TimeStore(Says(), {}).get(kiln.Config({"BLOCK": 16})) is None


def test_configurations_are_described_alike_in_every_process():
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
