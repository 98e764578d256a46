"""Ctrl-C stops what runs, and the interpreter exits with its own exit code, whatever Kiln is doing then."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = pytest.mark.cpu

# If a shell starts the tests in the background, SIGINT is ignored, also in child processes.
KERNELS = """
import signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import kiln
import kiln.language as kl

@kiln.jit
def endless(x):
    i = 0
    while i >= 0:
        i = (i + 1) % 1000
        kl.store(x, i)

@kiln.jit
def endless_tiles(x, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    value = kl.load(x + i)
    while kl.max(value) >= 0:
        value = value * 0.5
    kl.store(x + i, value)

@kiln.jit
def many(x, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    kl.store(x + i, kl.sort(kl.load(x + i)))

@kiln.jit
def counted(x, n):
    s = 0.0
    for i in range(n):
        s = s * 0.5 + kl.load(x)
    kl.store(x, s)

@kiln.jit
def waits(flag):
    while kl.load(flag, volatile=True) == 0:
        pass

@kiln.jit
def slow_to_compile(x, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    v = kl.load(x + i)
    for j in kl.static_range(1200):
        v = kl.sin(v) + kl.load(x + i + j)
    kl.store(x + i, v)

x = np.zeros(1 << 16, np.float32)
flags = np.zeros(64, np.int32)
"""

LAUNCHES = {
    "endless": "endless[(1,)](flags)",
    "endless on every processor": "endless[(64,)](flags)",
    "endless tiles": "endless_tiles[(2,)](x, 1024)",
    "a long grid": "many[(1 << 30,)](x, 4096)",
    "a long count": "counted[(1,)](x, (1 << 62))",
    "waiting": "waits[(3,)](flags)",
    "waiting alone": "waits[(1,)](flags)",
    "with a print": "kl_print[(1,)](flags)",
    "compiling": "slow_to_compile[(1,)](x, 1024)",
}  # fmt: skip

PRINTING = """
@kiln.jit
def kl_print(x):
    i = 0
    while i >= 0:
        i = (i + 1) % 1000
        if kl.load(x) == 1:
            kl.device_print("never", i)
"""


@pytest.fixture
def program(tmp_path):
    """Starts a program from a file, as kernels need their source; kills it at the end."""
    started = []

    def run(text: str) -> subprocess.Popen[str]:
        path = tmp_path / f"program{len(started)}.py"
        path.write_text(KERNELS + PRINTING + textwrap.dedent(text))
        process = subprocess.Popen(
            [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", LAUNCHES)
def test_an_interrupt_ends_it(program, name):
    """It ends within half a second; the test allows more for a busy machine, but much less than a hang."""
    process = program(f"""
        print("go", flush=True)
        try:
            {LAUNCHES[name]}
        except KeyboardInterrupt:
            print("interrupted at", time.time(), flush=True)
            # All goes on afterwards.
            counted[(5,)](x, 3)
            print("done", flush=True)
    """)
    assert process.stdout.readline() == "go\n"
    time.sleep(1.2)
    assert process.poll() is None, process.communicate()
    sent = time.time()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0 and out.endswith("done\n"), out + err
    assert float(out.split("interrupted at ")[1].split()[0]) - sent < 1.5


def test_a_handler_may_launch(program):
    process = program("""
        import signal
        seen = []
        def handler(*_):
            y = np.ones(16, np.float32)
            counted[(1,)](y, 4)
            seen.append(y[0])
            many[(1,)](x, 4096)
            if len(seen) == 3:
                raise RuntimeError("enough")
        signal.signal(signal.SIGUSR1, handler)
        counted[(1,)](x, 3); many[(1,)](x, 4096)
        print("go", flush=True)
        try:
            endless_tiles[(2,)](x, 4096)
        except RuntimeError as error:
            print(error, seen)
    """)
    assert process.stdout.readline() == "go\n"
    for _ in range(3):
        time.sleep(0.4)
        process.send_signal(signal.SIGUSR1)
    out, err = process.communicate(timeout=60)
    assert out.startswith("enough [") and process.returncode == 0, out + err


@pytest.mark.parametrize("name", LAUNCHES)
def test_leaving_ends_with_its_own_code(program, name):
    process = program(f"""
        def work():
            print("go", flush=True)
            {LAUNCHES[name]}
        threading.Thread(target=work, daemon=True).start()
        time.sleep(1.0)
        sys.exit(17)
    """)
    begin = time.time()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (17, "go\n", "")
    assert time.time() - begin < 10


def test_leaving_while_many_threads_compile(program):
    """Some threads are in the front end, some in the compiler, some wait for another thread's compile."""
    process = program("""
        def work(block):
            while True:
                counted.__class__(counted.fn)[(1,)](x, block)
                slow_to_compile[(1,)](x, block)
        for i in range(6):
            threading.Thread(target=work, args=(2 << (i % 4),), daemon=True).start()
        time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0.7)
        sys.exit(3)
    """)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (3, ""), out


def test_a_launch_at_the_end_runs(program):
    process = program("""
        import atexit
        def last():
            y = np.ones(16, np.float32)
            counted[(1,)](y, 1)
            print(y[0])
        atexit.register(last)
        counted[(1,)](x, 1)
        atexit.register(last)
    """)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "1.0\n1.0\n", "")


@pytest.mark.fuzz
def test_leaving_after_an_interrupted_compile_breaks_nothing(program):
    """The compile continues alone until it checks for interrupts; KILN_FUZZ_EXITS (20) sets how many exit times are
    tried."""
    for round in range(int(os.environ.get("KILN_FUZZ_EXITS", "20"))):
        process = program(f"""
            def stop(*_):
                raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, stop)
            signal.setitimer(signal.ITIMER_REAL, {0.3 + 0.05 * (round % 10)})
            try:
                while True:
                    slow_to_compile.__class__(slow_to_compile.fn)[(1,)](x, 1024)
            except KeyboardInterrupt:
                time.sleep({0.003 * round})
                sys.exit(3)
        """)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (3, "", ""), round
