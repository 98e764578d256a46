"""AdamW: several steps, mixed types, step count in memory, master weights."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.optimizer import adamw, reference


@pytest.mark.parametrize("moments", ["float32", "bfloat16"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1,), (7,), (2048,), (3, 5, 211), (0,)], ids=str)
def test_adamw(rng, shape, dtype, moments):
    parameter, gradient = random(rng, shape, dtype), random(rng, shape, dtype)
    moment, square = random(rng, shape, moments), np.abs(random(rng, shape, moments))
    exact = reference.adamw(parameter, gradient, moment, square, 3)
    adamw(parameter, gradient, moment, square, 3)
    for out, want in zip((parameter, moment, square), exact, strict=True):
        assert_close(out, want)


@pytest.mark.parametrize("step", [1, 2, 10, 1000, 100000])
def test_bias_correction(rng, step):
    """1 - beta2^t cancels at small t: the correction is float64, so that no digit of float32 is lost."""
    parameter, gradient = random(rng, 64), random(rng, 64)
    moment, square = random(rng, 64), np.abs(random(rng, 64))
    exact = reference.adamw(parameter, gradient, moment, square, step, lr=0.5)
    adamw(parameter, gradient, moment, square, np.array([step]), lr=0.5)
    assert_close(parameter, exact[0])


def test_master_weights(rng):
    master = random(rng, 1000)
    parameter = master.astype(np.float16)
    gradient, moment, square = random(rng, 1000, "float16"), random(rng, 1000), np.abs(random(rng, 1000))
    exact = reference.adamw(parameter, gradient, moment, square, 5, master=master)
    adamw(parameter, gradient, moment, square, 5, master=master)
    assert_close(master, exact[0])
    assert (parameter == master.astype(np.float16)).all()


def test_many_steps_follow_the_reference(rng):
    parameter, moment, square = random(rng, 100), np.zeros(100, np.float32), np.zeros(100, np.float32)
    exact = (parameter.astype(np.float64), np.zeros(100), np.zeros(100))
    for step in range(1, 21):
        gradient = random(rng, 100)
        exact = reference.adamw(exact[0], gradient, exact[1], exact[2], step)
        adamw(parameter, gradient, moment, square, step)
    assert_close(parameter, exact[0], length=20)


def test_errors(rng):
    x = random(rng, 8)
    with pytest.raises(ValueError, match="gradient: expected shape"):
        adamw(x, x[:4], x, x, 1)
    with pytest.raises(ValueError, match="count from 1"):
        adamw(x, x, x, x, 0)
    assert adamw.mutates == ("parameter", "moment", "square", "master")
