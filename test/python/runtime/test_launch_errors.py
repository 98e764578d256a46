"""A mistake at launch names the kernel, the argument and the caller's line."""

from __future__ import annotations

import traceback

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import errors


@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr, FLAG: kl.constexpr = True):
    kl.store(x, n)


@kiln.jit
def typed(x, n: kl.int8):
    kl.store(x, n)


X = np.zeros(4, np.int32)


def message(launch) -> str:
    with pytest.raises(errors.LaunchError) as caught:
        launch()
    return str(caught.value)


@pytest.mark.parametrize(
    ("launch", "expected", "hint"),
    [
        (lambda: kernel[1](X), "expected a value for 'n', 'BLOCK', got none",
         "the parameters are (x, n, BLOCK: constexpr, FLAG: constexpr = True)"),
        (lambda: kernel[1](X, 1, 2, 3, 4), "expected at most 4 positional arguments, got 5", "the parameters are"),
        (lambda: kernel[1](X, 1, 2, n=3), "argument 'n' is given by position and by name", None),
        (lambda: kernel[1](X, 1, BLOK=2), "expected a parameter or a launch option, got 'BLOK'",
         "did you mean 'BLOCK'?"),
        (lambda: kernel[1](X, 1, 2, num_warp=2), "got 'num_warp'", "did you mean 'num_warps'?"),
        (lambda: kernel[1](X, 2**64, 2), "argument 'n': expected an integer of at most 64 bits, got 1844674407370955",
         None),
        (lambda: kernel[1](X, -(2**63) - 1, 2), "expected an integer of at most 64 bits", None),
        (lambda: typed[1](X, 128), "'n': expected a value of int8 (because the parameter is annotated so), got 128",
         None),
        (lambda: typed[1](X, X), "argument 'n': expected a value of int8", None),
        (lambda: kernel[1](X, 1, X), "argument 'BLOCK': expected a value known while compiling", "drop the constexpr"),
        (lambda: kernel[1](X, 1, {}), "argument 'BLOCK': expected a constant that can be hashed", None),
        (lambda: kernel[1](X, "fast", 2), "argument 'n': expected an array or a number (because the parameter is not"
         " a constexpr), got a string", "annotate the parameter with kl.constexpr"),
        (lambda: kernel[1](X, 1, 2, num_warps=3), "argument 'num_warps': expected a power of two from 1 to 32, got 3",
         None),
        (lambda: kernel[1](X, 1, 2, num_warps=64), "expected a power of two from 1 to 32, got 64", None),
        (lambda: kernel[1](X, 1, 2, extern_libs="libdevice.bc"), "a table of libraries and their files", None),
        (lambda: kernel[-1](X, 1, 2), "grid -1: expected 0 to 2147483647 program instances in dimension 0", None),
        (lambda: kernel[(1, 2**31)](X, 1, 2), "in dimension 1, got 2147483648", None),
        (lambda: kernel[(1, 1, 1, 1)](X, 1, 2), "expected 1 to 3 dimensions, got 4", None),
        (lambda: kernel[()](X, 1, 2), "expected 1 to 3 dimensions, got 0", None),
        (lambda: kernel[1.5](X, 1, 2), "a tuple of 1 to 3 integers or a function", "divide with //"),
        (lambda: kernel[(1.5,)](X, 1, 2), "expected integers, got 1.5 in dimension 0", "divide with //"),
        (lambda: kernel["x"](X, 1, 2), "got a str", None),
        (lambda: kernel[lambda meta: None](X, 1, 2), "got None", None),
        (lambda: kernel[(2**31 - 1,) * 3](X, 1, 2), "at most 2^60 program instances", None),
    ],
)  # fmt: skip
def test_messages(launch, expected, hint):
    text = message(launch)
    assert expected in text
    assert "test_launch_errors.py:" in text.splitlines()[0], "the caller's line comes first"
    if hint is None:
        assert "hint:" not in text
    else:
        assert hint in text.split("hint: ")[1]


def test_a_string_that_is_a_constant_is_taken():
    @kiln.jit
    def choose(x, HOW: kl.constexpr, unused=None):
        kl.store(x, 1 if HOW == "one" else 2)

    x = np.zeros(1, np.int32)
    choose[1](x, "one")
    assert x[0] == 1
    choose[1](x, HOW="two", unused=kl.constexpr("text"))
    assert x[0] == 2


def test_extern_libs_is_a_launch_option():
    x = np.zeros(1, np.int32)
    for path in ("/usr/lib/libdevice.10.bc", "/usr/local/lib/libdevice.10.bc"):
        kernel[1](x, 1, 2, extern_libs={"libdevice": path})
    assert len(kernel[1](x, 1, 2, extern_libs={}).asm)


def test_the_caret_is_under_the_launch():
    text = message(lambda: (1, kernel[1](X, 1, BLOK=2)))
    line, caret = text.splitlines()[1:3]
    start = caret.index("^")
    if "~" in caret:  # columns are known from Python 3.11 on
        assert line[start:].startswith("kernel[1](X, 1, BLOK=2)")


def test_an_error_in_the_grid_function_is_the_users():
    with pytest.raises(ZeroDivisionError):
        kernel[lambda meta: 1 // 0](X, 1, 2)


def test_a_refused_launch_changes_nothing():
    before = X.copy()
    message(lambda: kernel[1](X, 7, {}))
    np.testing.assert_array_equal(X, before)


def test_compile_errors_pass_through_and_the_kernel_stays_usable():
    @kiln.jit
    def wrong(x, N: kl.constexpr):
        kl.store(x, kl.arange(0, N))

    for _ in range(2):
        with pytest.raises(errors.CompilationError):
            wrong[1](X, 67)


# -- tracebacks -----------------------------------------------------------------------------------


def frames_of(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_a_mistake_shows_no_frame_of_ours():
    @kiln.jit
    def wrong(x):
        kl.store(x + kl.arange(0, 33), 1)

    for launch in (lambda: wrong[1](np.zeros(64, np.int32)), lambda: wrong[1](), lambda: wrong[-1](3)):
        with pytest.raises(kiln.errors.UserError) as caught:
            launch()
        assert frames_of(caught.value) == ["test_a_mistake_shows_no_frame_of_ours", "<lambda>"]


def test_a_mistake_in_a_users_function_keeps_its_frames():
    @kiln.jit
    def kernel(x):
        kl.store(x, 1)

    def grid(meta):
        raise kiln.errors.LaunchError("mine")

    with pytest.raises(kiln.errors.LaunchError) as caught:
        kernel[grid](np.zeros(1, np.int32))
    assert frames_of(caught.value)[-1] == "grid"
