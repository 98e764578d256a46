"""Entries are written after the launch that made them: when they appear, and who waits for them."""

from __future__ import annotations

import os
import threading
import time
import warnings

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs
from kiln.runtime import cache, publishing


def make(value):
    @kiln.jit
    def kernel(x, VALUE: kl.constexpr):
        kl.store(x, VALUE)

    kernel.value = value
    return kernel


def launch(kernel):
    x = np.zeros(1, np.int32)
    compiled = kernel[1](x, kernel.value)
    assert x[0] == kernel.value
    return compiled


@pytest.fixture
def store(tmp_path):
    with knobs.scope(cache=str(tmp_path / "artifacts")):
        yield tmp_path / "artifacts"
        publishing.flush()


class Held:
    """A disk that takes as long as the test wants."""

    def __init__(self, monkeypatch):
        self.go, self.began, self.threads = threading.Event(), threading.Event(), set()
        write = publishing.write

        def hold(key, job):
            def slowly():
                self.began.set()
                self.threads.add(threading.current_thread())
                assert self.go.wait(60)
                job()

            write(key, slowly)

        monkeypatch.setattr(publishing, "write", hold)


def kinds(opened):
    return sorted(entry["kind"] for entry in opened.entries() if entry["kind"] != cache.NOTE)


def test_a_launch_does_not_wait_for_the_disk(store, monkeypatch):
    held = Held(monkeypatch)
    launch(make(101))
    assert held.began.wait(60), "the thread is at it"
    assert kinds(cache._store()) == [], "and the launch is over"
    held.go.set()
    assert kinds(cache.store()) == [cache.ARTIFACT, cache.INDEX], "who looks at the store sees all of it"
    assert threading.current_thread() not in held.threads


def test_readers_of_an_entry_wait_for_it(store, monkeypatch):
    kernel, compiles = make(102), []
    hook = kiln.hooks.compile_end.add(lambda event: compiles.append(event.cached))
    try:
        held = Held(monkeypatch)
        launch(kernel)
        kernel.unload()
        timer = threading.Timer(0.2, held.go.set)
        timer.start()
        launch(kernel)
        assert held.go.is_set()
    finally:
        kiln.hooks.compile_end.remove(hook)
    assert compiles == [False, True], "compiled once"


@pytest.fixture
def held():
    """An event that jobs wait for, set at the end whatever the test finds."""
    publishing.flush()
    go = threading.Event()
    yield go
    go.set()
    publishing.flush()


def test_few_entries_wait(monkeypatch, held):
    """Each waiting entry holds its bytes: while the store is cleaned up, or on a slow disk, compiles wait."""
    monkeypatch.setattr(publishing, "MOST", 3)
    written, done = [], []

    def job(number):
        held.wait(60)
        done.append(number)

    def fill():
        for i in range(9):
            publishing.write(f"few {i}", lambda i=i: job(i))
            written.append(i)

    thread = threading.Thread(target=fill)
    thread.start()
    until = time.monotonic() + 60
    while len(written) < 4 and time.monotonic() < until:
        time.sleep(0.01)
    thread.join(0.2)
    assert len(written) == 4, "one that is being written, and three that wait"
    held.set()
    thread.join(60)
    publishing.flush()
    assert done == list(range(9)), "none is lost"


def test_a_disk_that_hangs_is_waited_for_once(monkeypatch, held):
    monkeypatch.setattr(publishing, "MOST", 2)
    began, done, waits = threading.Event(), [], []

    def hang():
        began.set()
        held.wait(60)

    wait_for = publishing._lock.wait_for
    monkeypatch.setattr(publishing._lock, "wait_for", lambda ready, timeout: waits.append(timeout) or ready())
    publishing.write("hangs", hang)
    assert began.wait(60)
    for i in range(20):
        publishing.write(f"behind {i}", lambda i=i: done.append(i))
    assert waits == [publishing.PATIENCE]
    publishing.wait_for("behind 19")  # an entry that never comes
    assert len(waits) == 1
    monkeypatch.setattr(publishing._lock, "wait_for", wait_for)
    held.set()
    publishing.flush()
    publishing.write("after", lambda: done.append("after"))
    publishing.flush()
    assert done == [0, 1, "after"]


def test_the_thread_ends_when_there_is_nothing_left(store):
    launch(make(103))
    publishing.flush()
    for thread in threading.enumerate():
        if thread.name == "kiln-cache":
            thread.join(60)
    assert publishing._writer is None and not publishing._pending
    launch(make(104))
    assert kinds(cache.store()) == [cache.ARTIFACT] * 2 + [cache.INDEX] * 2


def test_if_no_thread_can_be_started(store, monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    launch(make(105))
    assert kinds(cache._store()) == [cache.ARTIFACT, cache.INDEX]


def test_a_disk_that_cannot_be_written(store):
    launch(make(106))
    publishing.flush()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        opened = cache._store()
        original = type(opened)

        class Full:
            path = opened.path

            def load(self, key):
                return original.load(opened, key)

            def publish(self, *args):
                raise OSError("cannot write to here: No space left on device")

        place = next(place for place, known in cache._stores.items() if known is opened)
        cache._stores[place] = Full()
        try:
            launch(make(107))
            launch(make(108))
            publishing.flush()
        finally:
            cache._stores[place] = opened
            cache._warned.discard("cannot write to here: No space left on device; kernels are compiled for this "
                                  "process alone")  # fmt: skip
    assert [str(w.message).count("No space left on device") for w in said] == [1], "one warning"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing to fork with")
def test_a_fork_waits(store, monkeypatch):
    """The child finds everything written, and publishes on its own."""
    held = Held(monkeypatch)
    launch(make(109))
    threading.Timer(0.2, held.go.set).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking in the presence of threads
        child = os.fork()
    if not child:
        code = 1
        try:
            good = held.go.is_set() and kinds(cache._store()) == [cache.ARTIFACT, cache.INDEX]
            launch(make(110))
            good = good and kinds(cache.store()) == [cache.ARTIFACT] * 2 + [cache.INDEX] * 2
            code = 0 if good else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_ends_when_all_is_written(store, tmp_path):
    """So does a worker of `multiprocessing`, which exits in a different way."""
    import subprocess
    import sys

    program = tmp_path / "program.py"
    program.write_text(
        """
import multiprocessing, sys, time
import numpy as np
import kiln, kiln.language as kl
from kiln.runtime import publishing

@kiln.jit
def kernel(x, VALUE: kl.constexpr):
    kl.store(x, VALUE)

def work(value):
    write = publishing.write
    def slowly(key, job):
        write(key, lambda: (time.sleep(0.1), job()))
    publishing.write = slowly
    kernel[1](np.zeros(1, np.int32), value)

if __name__ == "__main__":
    worker = multiprocessing.get_context("fork").Process(target=work, args=(201,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    work(202)
"""
    )
    environment = {**os.environ, "KILN_CACHE": str(store)}
    subprocess.run([sys.executable, str(program)], env=environment, check=True, timeout=120)
    assert kinds(cache.store()) == [cache.ARTIFACT] * 2 + [cache.INDEX] * 2
