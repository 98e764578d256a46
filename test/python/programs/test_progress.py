"""Program instances that wait for each other: decoupled look-back, spin locks, the last one out; all must terminate."""

import subprocess
import sys
import textwrap

import kiln
import kiln.language as kl
import numpy as np
import pytest

rng = np.random.default_rng(2)


@kiln.jit
def add(a, b):
    return a + b


@kiln.jit
def look_back_scan(x, y, flags, sums, prefixes, ticket, n, BLOCK: kl.constexpr):
    """Single pass: a block publishes its sum, then walks back over its predecessors until one has a complete prefix."""
    block = kl.atomic_add(ticket, 1)
    offsets = block * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + offsets, mask=offsets < n, other=0)
    total = kl.reduce(value, 0, add)
    if block == 0:
        kl.store(prefixes, total)
        kl.debug_barrier()
        kl.atomic_xchg(flags, 2, sem="release")
        before = total * 0
    else:
        kl.store(sums + block, total)
        kl.debug_barrier()
        kl.atomic_xchg(flags + block, 1, sem="release")
        before = total * 0
        test = block - 1
        while test >= 0:
            flag = kl.atomic_add(flags + test, 0, sem="acquire")
            while flag == 0:
                flag = kl.atomic_add(flags + test, 0, sem="acquire")
            if flag == 2:
                before += kl.load(prefixes + test, volatile=True)
                test = -1
            else:
                before += kl.load(sums + test, volatile=True)
                test -= 1
        kl.store(prefixes + block, before + total)
        kl.debug_barrier()
        kl.atomic_xchg(flags + block, 2, sem="release")
    kl.store(y + offsets, kl.cumsum(value, 0) + before, mask=offsets < n)


def test_decoupled_look_back():
    n, block = 20_000, 64
    x = rng.integers(-5, 6, n).astype(np.int32)
    blocks = kiln.cdiv(n, block)
    for _ in range(3):
        y = np.empty_like(x)
        flags, sums, prefixes = (np.zeros(blocks, np.int32) for _ in range(3))
        look_back_scan[(blocks,)](x, y, flags, sums, prefixes, np.zeros(1, np.int32), n, block)
        np.testing.assert_array_equal(y, np.cumsum(x))


@kiln.jit
def look_back_by_program_id(x, y, flags, n, BLOCK: kl.constexpr):
    """Blocks are ordered by program id, as in Inductor's scans: the kernel relies on earlier ids having started."""
    block = kl.program_id(0)
    offsets = block * BLOCK + kl.arange(0, BLOCK)
    value = kl.load(x + offsets, mask=offsets < n, other=0)
    before = kl.full([], 0, kl.int64)
    if block > 0:
        packed = kl.atomic_add(flags + block - 1, 0, sem="acquire")
        while packed == 0:
            packed = kl.atomic_add(flags + block - 1, 0, sem="acquire")
        before = packed - (1 << 40)
    total = kl.sum(value.to(kl.int64)) + before
    kl.atomic_xchg(flags + block, total + (1 << 40), sem="release")
    kl.store(y + offsets, kl.cumsum(value, 0) + before, mask=offsets < n)


def test_waiting_for_the_previous_program():
    n, block = 20_000, 64
    x = rng.integers(-5, 6, n).astype(np.int32)
    blocks = kiln.cdiv(n, block)
    y = np.empty_like(x)
    look_back_by_program_id[(blocks,)](x, y, np.zeros(blocks, np.int64), n, block)
    np.testing.assert_array_equal(y, np.cumsum(x))


@kiln.jit
def last_one_out(x, partial, out, counter, n, BLOCK: kl.constexpr, PROGRAMS: kl.constexpr):
    pid = kl.program_id(0)
    total = 0.0
    for i in range(pid * BLOCK, n, BLOCK * PROGRAMS):
        offsets = i + kl.arange(0, BLOCK)
        total += kl.sum(kl.load(x + offsets, mask=offsets < n, other=0.0))
    kl.store(partial + pid, total)
    done = kl.atomic_add(counter, 1, sem="acq_rel")
    if done == PROGRAMS - 1:
        kl.store(out, kl.sum(kl.load(partial + kl.arange(0, PROGRAMS))))
        kl.store(counter, 0)


def test_last_one_out_sums():
    x = rng.random(100_003).astype(np.float32)
    partial, out, counter = np.empty(16, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    for _ in range(5):
        out[0] = -1
        last_one_out[(16,)](x, partial, out, counter, len(x), 256, 16)
        np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5)
        assert counter[0] == 0


@kiln.jit
def locked_update(lock, shared, BLOCK: kl.constexpr):
    offsets = kl.arange(0, BLOCK)
    while kl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    kl.store(shared + offsets, kl.load(shared + offsets) + 1)
    kl.debug_barrier()
    kl.atomic_xchg(lock, 0, sem="release")


def test_spin_lock():
    shared = np.zeros(128, np.int32)
    locked_update[(2000,)](np.zeros(1, np.int32), shared, 128)
    assert (shared == 2000).all()


@kiln.jit
def wait_for_the_next(flags, out, n):
    """Every program but the last waits for one that starts later."""
    pid = kl.program_id(0)
    if pid < n - 1:
        while kl.load(flags + pid + 1, volatile=True) == 0:
            pass
    kl.store(out + pid, kl.load(out + pid) + 1)
    kl.atomic_xchg(flags + pid, 1, sem="release")


@pytest.mark.cpu
@pytest.mark.parametrize("programs", [2, 7, 300])
def test_programs_may_wait_for_later_ones(programs):
    out = np.zeros(programs, np.int32)
    wait_for_the_next[(programs,)](np.zeros(programs + 1, np.int32), out, programs)
    assert (out == 1).all()


@kiln.jit
def barriers(counter, values, seen, n, ROUNDS: kl.constexpr):
    """All programs meet after each round, and then see what every other wrote in it."""
    pid = kl.program_id(0)
    for r in range(ROUNDS):
        kl.store(values + pid, pid + r)
        kl.debug_barrier()
        kl.atomic_add(counter, 1, sem="acq_rel")
        while kl.atomic_add(counter, 0, sem="acquire") < n * (2 * r + 1):
            pass
        kl.store(seen + pid * ROUNDS + r, kl.load(values + (pid + 1) % n, volatile=True))
        kl.atomic_add(counter, 1, sem="acq_rel")
        while kl.atomic_add(counter, 0, sem="acquire") < n * (2 * r + 2):
            pass


@pytest.mark.cpu
@pytest.mark.parametrize("programs", [1, 3, 40])
def test_barriers_of_the_grid(programs):
    rounds = 5
    seen = np.full((programs, rounds), -1, np.int32)
    barriers[(programs,)](np.zeros(1, np.int32), np.zeros(programs, np.int32), seen, programs, rounds)
    expected = (np.arange(programs)[:, None] + 1) % programs + np.arange(rounds)
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.cpu
def test_more_programs_than_can_run_at_once_are_rejected():
    with pytest.raises(kiln.errors.LaunchError, match="expected a grid whose program instances can all run at once"):
        wait_for_the_next[(6000,)](np.zeros(6001, np.int32), np.zeros(6000, np.int32), 6000)


@pytest.mark.cpu
def test_the_race_check_rejects_waits_for_later_programs():
    with (
        kiln.knobs.scope(check="races"),
        pytest.raises(kiln.errors.LaunchError, match="one after the other"),
    ):
        wait_for_the_next[(4,)](np.zeros(5, np.int32), np.zeros(4, np.int32), 4)


@kiln.jit
def wait_for_who_fails(flags):
    if kl.program_id(0) == 3:
        kl.device_assert(kl.load(flags) == 1, "the flag")
        kl.atomic_xchg(flags + 1, 1)
    else:
        while kl.load(flags + 1, volatile=True) == 0:
            pass


@pytest.mark.cpu
def test_waiting_for_a_failed_program_ends():
    with pytest.raises(kiln.errors.DeviceAssertError, match="the flag"):
        wait_for_who_fails[(5,)](np.zeros(2, np.int32))


@kiln.jit
def all_atomics(out, seen, old, N: kl.constexpr):
    pid = kl.program_id(0)
    lanes = kl.arange(0, N)
    kl.atomic_add(out + lanes, lanes + pid)
    kl.atomic_max(out + N + lanes, pid * 3 + lanes)
    kl.atomic_min(out + 2 * N + lanes, -pid * 3 - lanes)
    kl.atomic_or(out + 3 * N + lanes, 1 << (pid % 31))
    kl.atomic_xor(out + 4 * N + lanes, pid, mask=lanes % 2 == 0)
    kl.atomic_and(out + 5 * N + lanes, ~(1 << (pid % 31)))
    previous = kl.atomic_add(seen + lanes * 0, 1)  # all lanes update one address: each sees another value
    kl.store(old + pid * N + lanes, previous)


def test_atomics_across_programs():
    N, P = 32, 40
    out = np.zeros((6, N), np.int32)
    out[5] = -1
    seen, old = np.zeros(1, np.int32), np.empty(N * P, np.int32)
    all_atomics[(P,)](out, seen, old, N)
    lanes, pids = np.arange(N), np.arange(P)
    np.testing.assert_array_equal(out[0], P * lanes + pids.sum())
    np.testing.assert_array_equal(out[1], np.maximum(0, (P - 1) * 3 + lanes))
    np.testing.assert_array_equal(out[2], np.minimum(0, -(P - 1) * 3 - lanes))
    bits = int(np.bitwise_or.reduce(1 << (pids % 31)))
    assert (out[3] == bits).all()
    np.testing.assert_array_equal(out[4], np.where(lanes % 2 == 0, np.bitwise_xor.reduce(pids), 0))
    assert (out[5] == ~bits).all()
    assert seen[0] == N * P
    np.testing.assert_array_equal(np.sort(old), np.arange(N * P))


@kiln.jit
def float_atomics(out, N: kl.constexpr):
    lanes = kl.arange(0, N)
    kl.atomic_add(out + lanes, 0.5)
    kl.atomic_max(out + N + lanes, kl.program_id(0) * 1.5 - 10)
    kl.atomic_min(out + 2 * N + lanes, kl.program_id(0) * -1.5 + 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_atomics(dtype):
    out = np.zeros((3, 16), dtype)
    float_atomics[(20,)](out, 16)
    assert (out[0] == 10).all()
    assert (out[1] == 18.5).all()
    assert (out[2] == -18.5).all()


@kiln.jit
def half_atomic(out, N: kl.constexpr):
    kl.atomic_add(out + kl.arange(0, N), 1.0)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_atomic_add(name):
    import ml_dtypes

    out = np.zeros(48, getattr(ml_dtypes, name, None) or np.float16)
    half_atomic[(100,)](out, 48)
    assert (out.astype(np.float32) == 100).all()


@pytest.mark.cpu
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_progress_with_any_number_of_threads(threads):
    """In a separate process: a hang is killed and fails."""
    program = textwrap.dedent(f"""
        import runpy, sys
        sys.path.insert(0, {str(__import__("pathlib").Path(__file__).parent)!r})
        import kiln, test_progress as t
        with kiln.knobs.scope(num_threads={threads}):
            t.test_waiting_for_the_previous_program()
            t.test_decoupled_look_back()
            t.test_spin_lock()
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
