"""Python inside kernels: returns, loops, tuples, defaults, constants, promotion, grids."""

import kiln
import kiln.language as kl
import numpy as np
import pytest

rng = np.random.default_rng(0)


# ---- early return in a loop body / in nested function / both
@kiln.jit
def sign_fn(x):
    if x > 0:
        return 1
    if x < 0:
        return -1
    return 0


@kiln.jit
def k_sign(x, y):
    i = kl.program_id(0)
    kl.store(y + i, sign_fn(kl.load(x + i)))


def test_early_returns_nested():
    x = np.array([3, -2, 0], np.int32)
    y = np.zeros(3, np.int32)
    k_sign[(3,)](x, y)
    assert y.tolist() == [1, -1, 0]


@kiln.jit
def find(x, n, t):
    for i in range(n):
        if kl.load(x + i) == t:
            return i
    return -1


@kiln.jit
def k_find(x, y, n, t):
    kl.store(y, find(x, n, t))


def test_return_in_loop():
    x = np.arange(10, 20).astype(np.int32)
    y = np.zeros(1, np.int32)
    k_find[(1,)](x, y, 10, 15)
    assert y[0] == 5
    k_find[(1,)](x, y, 10, 77)
    assert y[0] == -1


@kiln.jit
def k_collatz(x, y):
    i = kl.program_id(0)
    n = kl.load(x + i)
    c = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        c += 1
        if c >= 1000:
            break
    kl.store(y + i, c)


def test_collatz():
    x = np.array([1, 2, 27, 97], np.int64)
    y = np.zeros(4, np.int32)
    k_collatz[(4,)](x, y)
    assert y.tolist() == [0, 1, 111, 118], y


# default args, kwargs, constexpr arithmetic
@kiln.jit
def helper(a, b=2, *, N: kl.constexpr = 4, scale: kl.constexpr = 1.5):
    return (a * b).to(kl.float32) * scale + N


@kiln.jit
def k_def(y, BLOCK: kl.constexpr):
    HALF: kl.constexpr = BLOCK // 2
    o = kl.arange(0, HALF * 2)
    kl.store(y + o, helper(o, N=HALF, b=3))


def test_defaults():
    y = np.zeros(16, np.float32)
    k_def[(1,)](y, 16)
    assert np.allclose(y, np.arange(16) * 3 * 1.5 + 8)


# tuples
@kiln.jit
def swap2(t):
    return t[1], t[0]


@kiln.jit
def k_tuples(y, xs, N: kl.constexpr):
    o = kl.arange(0, N)
    acc = kl.zeros([N], kl.float32)
    for i in kl.static_range(len(xs)):
        acc += kl.load(xs[i] + o) * (i + 1)
    a, b = swap2((o, acc))
    parts = [p * 2 for p in (a, b)]
    s = parts[0] + parts[1]
    kl.store(y + o, s)


def test_tuple_args():
    xs = tuple(rng.standard_normal(8).astype(np.float32) for _ in range(3))
    y = np.zeros(8, np.float32)
    k_tuples[(1,)](y, xs, 8)
    assert np.allclose(y, 2 * (sum((i + 1) * x for i, x in enumerate(xs)) + np.arange(8)), atol=1e-5)


# static_range, f-strings
@kiln.jit
def k_static(y, N: kl.constexpr, K: kl.constexpr):
    kl.static_assert(N % K == 0, f"N={N} must be a multiple of K={K}")
    kl.static_print(f"N is {N}", K)
    acc = kl.zeros((N,), kl.int32)
    for i in kl.static_range(0, K, 2):
        if i == 4:
            acc += 100
        else:
            acc += i
    kl.store(y + kl.arange(0, N), acc)


def test_static_range(capsys):
    y = np.zeros(8, np.int32)
    k_static[(1,)](y, 8, 8)
    assert capsys.readouterr().out == "N is 8 8\n"
    assert (y == 0 + 2 + 100 + 6).all()


# chained compare, ternary, bool ops, not
@kiln.jit
def k_chain(x, y, n, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    i = kl.program_id(0)
    a = 1 if 0 <= i < n else 2
    b = (n > 3 and i == 0) or not (n < 5)
    r = kl.where((v > -1) & (v < 1), v, 0.0)
    r = r + a + (10 if b else 20)
    kl.store(y + o, r)


def test_chained():
    x = rng.standard_normal(16).astype(np.float32)
    y = np.zeros(16, np.float32)
    k_chain[(1,)](x, y, 7, 16)
    assert np.allclose(y, np.where(abs(x) < 1, x, 0) + 1 + 10)


@kiln.jit
def k_aug(y):
    s = 0
    for i in range(10):
        s += i
    s <<= 2
    s ^= 1
    s |= 8
    s //= 3
    s %= 50
    kl.store(y, s)


def test_aug():
    y = np.zeros(1, np.int32)
    k_aug[(1,)](y)
    s = 45
    s <<= 2
    s ^= 1
    s |= 8
    s //= 3
    s %= 50
    assert y[0] == s


# negatives: division/mod C semantics on ints
@kiln.jit
def k_div(a, b, q, r, f, N: kl.constexpr):
    o = kl.arange(0, N)
    x = kl.load(a + o)
    z = kl.load(b + o)
    kl.store(q + o, x // z)
    kl.store(r + o, x % z)
    kl.store(f + o, x / z)


def test_divs():
    a = np.array([7, -7, 7, -7, 0, 1, -1, 100], np.int32)
    b = np.array([2, 2, -2, -2, 5, -3, -3, 7], np.int32)
    q = np.zeros(8, np.int32)
    r = np.zeros(8, np.int32)
    f = np.zeros(8, np.float32)
    k_div[(1,)](a, b, q, r, f, 8)
    assert (q == np.trunc(a / b)).all(), q
    assert (r == np.fmod(a, b)).all()
    assert np.allclose(f, a / b)


# 3D, None index, permutations
@kiln.jit
def k_3d(x, y, A: kl.constexpr, B: kl.constexpr, C: kl.constexpr):
    a = kl.arange(0, A)[:, None, None]
    b = kl.arange(0, B)[None, :, None]
    c = kl.arange(0, C)[None, None, :]
    v = kl.load(x + a * B * C + b * C + c)
    w = kl.permute(v, (2, 0, 1))
    a2 = kl.arange(0, C)[:, None, None]
    b2 = kl.arange(0, A)[None, :, None]
    c2 = kl.arange(0, B)[None, None, :]
    kl.store(y + a2 * A * B + b2 * B + c2, w)


def test_perm3d():
    x = rng.standard_normal((2, 4, 8)).astype(np.float32)
    y = np.zeros((8, 2, 4), np.float32)
    k_3d[(1,)](x, y, 2, 4, 8)
    assert (y == x.transpose(2, 0, 1)).all()


# batched dot 3D
@kiln.jit
def k_bdot(x, y, z, B: kl.constexpr, M: kl.constexpr, N: kl.constexpr, K: kl.constexpr):
    b = kl.arange(0, B)[:, None, None]
    m = kl.arange(0, M)
    n = kl.arange(0, N)
    k = kl.arange(0, K)
    X = kl.load(x + b * M * K + m[None, :, None] * K + k[None, None, :])
    Y = kl.load(y + b * K * N + k[None, :, None] * N + n[None, None, :])
    kl.store(z + b * M * N + m[None, :, None] * N + n[None, None, :], kl.dot(X, Y))


def test_bdot():
    x = rng.standard_normal((4, 16, 16)).astype(np.float32)
    y = rng.standard_normal((4, 16, 32)).astype(np.float32)
    z = np.zeros((4, 16, 32), np.float32)
    k_bdot[(1,)](x, y, z, 4, 16, 32, 16)
    assert np.allclose(z, x @ y, atol=1e-4)


# constexpr function param: pass jit fn as constexpr
@kiln.jit
def act_relu(x):
    return kl.maximum(x, 0)


@kiln.jit
def act_sq(x):
    return x * x


@kiln.jit
def k_act(x, y, F: kl.constexpr, N: kl.constexpr):
    o = kl.arange(0, N)
    kl.store(y + o, F(kl.load(x + o)))


def test_fn_arg():
    x = rng.standard_normal(16).astype(np.float32)
    y = np.zeros(16, np.float32)
    k_act[(1,)](x, y, act_relu, 16)
    assert (y == np.maximum(x, 0)).all()
    k_act[(1,)](x, y, act_sq, 16)
    assert np.allclose(y, x * x)


# dtype as constexpr
@kiln.jit
def k_dtype(x, y, DT: kl.constexpr, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o).to(DT)
    if DT == kl.float16:
        v = v * 2
    kl.store(y + o, v)


def test_dtype_const():
    x = np.arange(8, dtype=np.float32)
    y = np.zeros(8, np.float32)
    k_dtype[(1,)](x, y, kl.float16, 8)
    assert (y == x * 2).all()
    k_dtype[(1,)](x, y, kl.bfloat16, 8)
    assert (y == x).all()


# pointers table, ptr casts, bool arrays, uint8 etc
@kiln.jit
def k_bool(m, x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    b = kl.load(m + o)
    kl.store(y + o, kl.where(b, kl.load(x + o), -1.0))
    kl.store(m + o, ~b if False else (b == 0))


def test_bools():
    m = rng.random(16) > 0.5
    m0 = m.copy()
    x = rng.standard_normal(16).astype(np.float32)
    y = np.zeros(16, np.float32)
    k_bool[(1,)](m, x, y, 16)
    assert (y == np.where(m0, x, -1)).all()
    assert (m == ~m0).all()


# int overflow wrap & literals & uint
@kiln.jit
def k_wrap(y):
    a = kl.full([4], 2147483647, kl.int32)
    kl.store(y + kl.arange(0, 4), (a + 1).to(kl.int64))


def test_wrap():
    y = np.zeros(4, np.int64)
    k_wrap[(1,)](y)
    assert (y == -2147483648).all()


@kiln.jit
def k_lit(y):
    x = kl.load(y)
    kl.store(y, x + 4294967296)


def test_big_literal():
    y = np.array([5], np.int32)
    with pytest.raises(kiln.errors.CompilationError, match="a number int32 can hold"):
        k_lit[(1,)](y)
    y = np.array([5], np.int64)
    k_lit[(1,)](y)
    assert y[0] == 5 + 4294967296


# loads of scalars, broadcasting scalar ptr, store scalar mask
@kiln.jit
def k_scalar(x, y, n):
    i = kl.program_id(0)
    v = kl.load(x + i, mask=i < n, other=-5.0)
    kl.store(y + i, v * 2, mask=(i != 2))


def test_scalar_masks():
    x = np.arange(5, dtype=np.float32)
    y = np.full(5, 77, np.float32)
    k_scalar[5](x, y, 3)
    assert y.tolist() == [0, 2, 77, -10, -10]


# device_print
@kiln.jit
def k_print(x, N: kl.constexpr):
    kl.device_print("v: ", kl.load(x + kl.arange(0, N)), kl.program_id(0))


def test_dprint(capfd):
    k_print[(2,)](np.arange(4, dtype=np.float32), 4)
    printed = capfd.readouterr().out.splitlines()
    assert len(printed) == 2 * (4 + 1)
    assert "pid (1, 0, 0) idx (2) v: 2.0 (operand 0)" in printed


@kiln.jit
def k_print2(x):
    print("val", kl.load(x))


def test_builtin_print(capfd):
    k_print2[(1,)](np.arange(4, dtype=np.float32))
    assert capfd.readouterr().out == "pid (0, 0, 0) val: 0.0\n"


# min/max/abs builtin, int(), float()
@kiln.jit
def k_builtin(x, y):
    a = kl.load(x)
    b = kl.load(x + 1)
    kl.store(y, min(a, b))
    kl.store(y + 1, max(a, b))
    kl.store(y + 2, abs(a))
    kl.store(y + 3, max(a, b, 3.0))


def test_builtins_():
    x = np.array([-4, 2], np.float32)
    y = np.zeros(4, np.float32)
    k_builtin[(1,)](x, y)
    assert y.tolist() == [-4, 2, 4, 3]


# grid variants
@kiln.jit
def k_grid(y):
    kl.store(
        y
        + kl.program_id(0)
        + kl.program_id(1) * kl.num_programs(0)
        + kl.program_id(2) * kl.num_programs(0) * kl.num_programs(1),
        kl.program_id(2) * 100 + kl.program_id(1) * 10 + kl.program_id(0),
    )


def test_grids():
    y = np.zeros((2, 3, 4), np.int32)
    k_grid[(4, 3, 2)](y)
    z, yy, x = np.meshgrid(range(2), range(3), range(4), indexing="ij")
    assert (y == z * 100 + yy * 10 + x).all()
    k_grid[lambda m: (4, 3)](y)
    k_grid[5](y)
    k_grid[[2, 2]](y)
    k_grid[np.int64(3),](y)
    k_grid[(0,)](y)


# dot variants
@kiln.jit
def k_dotv(x, y, z, N: kl.constexpr):
    o = kl.arange(0, N)[:, None] * N + kl.arange(0, N)[None, :]
    X = kl.load(x + o)
    Y = kl.load(y + o)
    a = kl.dot(X, Y, input_precision="tf32")
    b = kl.dot(X, kl.trans(Y), acc=a, input_precision="ieee")
    c = kl.dot(X.to(kl.float16), Y.to(kl.float16), out_dtype=kl.float16)
    kl.store(z + o, b + c)


def test_dots():
    x = rng.standard_normal((16, 16)).astype(np.float32)
    y = rng.standard_normal((16, 16)).astype(np.float32)
    z = np.zeros((16, 16), np.float32)
    k_dotv[(1,)](x, y, z, 16)
    assert np.allclose(z, x @ y + x @ y.T + x @ y, atol=5e-2)


# inline asm refused or portable;
@kiln.jit
def k_asm(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.inline_asm_elementwise(
        "add.f32 $0,$1,1.0;", "=r,r", [kl.load(x + o)], dtype=kl.float32, is_pure=True, pack=1
    )
    kl.store(y + o, v)


@pytest.mark.cpu
def test_asm_refused():
    with pytest.raises(kiln.errors.CompilationError, match="cannot run PTX assembly"):
        k_asm[(1,)](np.zeros(8, np.float32), np.zeros(8, np.float32), 8)


# where over different dtypes, promotions
@kiln.jit
def k_promo(y, N: kl.constexpr):
    o = kl.arange(0, N)
    a = o.to(kl.int8)
    b = o.to(kl.float16)
    c = a + b
    kl.static_assert(c.dtype == kl.float16)
    d = b * 2.5
    kl.static_assert(d.dtype == kl.float16)
    e = o + 1.5
    kl.static_assert(e.dtype == kl.float32)
    kl.static_assert((o.to(kl.bfloat16) + b).dtype == kl.float16)
    f = o.to(kl.bfloat16) + o.to(kl.float32)
    kl.static_assert(f.dtype == kl.float32)
    g = o.to(kl.uint32) + o
    kl.static_assert(g.dtype == kl.uint32)
    kl.store(y + o, c + d + e + f + g)


def test_promo():
    y = np.zeros(8, np.float32)
    k_promo[(1,)](y, 8)
    o = np.arange(8)
    assert np.allclose(y, 2 * o + 2.5 * o + o + 1.5 + 2 * o + 2 * o), y


# ---- the index of a loop after it
@kiln.jit
def k_last_index(y, n, none, BLOCK: kl.constexpr):
    for i in range(0, n, 3):
        if i > 5:
            break
    kl.store(y, i)
    for i in range(n, 0, -4):  # noqa: B007
        pass
    kl.store(y + 1, i)
    for i in range(4, none):  # noqa: B007
        pass
    kl.store(y + 2, i)
    j = 7
    for j in range(n, n):
        kl.store(y + 8, j)
    kl.store(y + 3, j)
    for k in range(n, n + 10, n - 7):  # noqa: B007
        pass
    if n > 3:
        kl.store(y + 4, k)
    for _ in range(2):
        for m in range(BLOCK):  # noqa: B007
            pass
        kl.store(y + 5, m + k)
    for s in kl.static_range(3):  # noqa: B007
        pass
    kl.store(y + 6, s)
    for big in range(-(2**31), 2**31 - 1, 2**30):  # noqa: B007
        pass
    kl.store(y + 7, big)


def test_the_loop_index_keeps_its_last_value():
    y = np.full(9, -1, np.int32)
    k_last_index[(1,)](y, 10, 0, 16)
    # As in Python; a loop that did not run leaves the name's earlier value.
    assert y.tolist() == [6, 2, 2, 7, 19, 34, 2, 2**30, -1]


# ---- names annotated kl.constexpr
@kiln.jit
def k_annotated(x, y, n, BLOCK: kl.constexpr):
    value: kl.constexpr = kl.load(x) + n
    for i in kl.static_range(4):
        twice: kl.constexpr = 2 * i
        kl.store(y + i, value + twice)
    if BLOCK == 16:
        a: kl.constexpr = 3
    else:
        a: kl.constexpr = 4
    if n > 3:
        b: kl.constexpr = 30
    else:
        b: kl.constexpr = 40
    kl.store(y + 4, a + b)


def test_a_constexpr_annotation_accepts_run_time_values():
    y = np.zeros(5, np.int32)
    k_annotated[(1,)](np.array([100], np.int32), y, 2, 16)
    assert y.tolist() == [102, 104, 106, 108, 43]


# ---- comparisons joined by & and |
@kiln.jit
def k_joined(y, n, BLOCK: kl.constexpr):
    i = kl.arange(0, BLOCK)
    a = (i >= 2) & (i < n)
    b = 0 < (i & 3) < 2
    c = 0 == i & 3
    d = (
        0
        < (
            i  # in parentheses of its own
            | 8
        )
        < 12
    )
    kl.store(y + i, a.to(kl.int32) + 10 * b + 100 * c + 1000 * d)


def test_comparisons_of_bits_need_no_more_parentheses():
    y = np.zeros(16, np.int32)
    k_joined[(1,)](y, 5, 16)
    i = np.arange(16)
    d = (i | 8) < 12
    assert (y == ((i >= 2) & (i < 5)) + 10 * (i % 4 == 1) + 100 * (i % 4 == 0) + 1000 * d).all()
