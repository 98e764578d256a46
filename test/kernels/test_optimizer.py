"""AdamW: several steps, mixed types, step count in memory, master weights, lists in one launch."""

import numpy as np
import pytest
from harness import DTYPES, assert_close, random
from kiln.kernels.machine import DEFAULT_GPU, planning_for
from kiln.kernels.optimizer import TensorLists, adamw, adamw_lists, kernel, reference
from kiln.kernels.optimizer.lists import CHUNK_WORDS, ROLES
from kiln.runtime.jit import recording


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


# Shapes and types of the tensors of a list: parameter and gradient, moments, whether there is a master copy.
MIX = [
    ((5000,), "float32", "float32", False),
    ((2048,), "float32", "float32", False),
    ((64, 96), "bfloat16", "float32", True),
    ((7,), "bfloat16", "bfloat16", False),
    ((0, 3), "float16", "float32", False),
    ((1, 1), "float16", "float16", True),
    ((3, 2048), "float16", "float32", False),
]


def tensors(rng, mix=MIX):
    """Parameters, gradients, moments, squares and masters."""
    rows = []
    for shape, dtype, moments, has_master in mix:
        master = random(rng, shape)
        gradient, moment, square = random(rng, shape, dtype), random(rng, shape, moments), random(rng, shape, moments)
        rows.append((master.astype(gradient.dtype), gradient, moment, np.abs(square), master if has_master else None))
    return [list(column) for column in zip(*rows, strict=True)]


def launches(function, run):
    """How often `run` launches a kernel."""
    seen = []
    function.pre_run_hooks.append(lambda *_, **__: seen.append(1))
    try:
        run()
    finally:
        function.pre_run_hooks.clear()
    return len(seen)


@pytest.mark.parametrize("prepared", [pytest.param(True, marks=pytest.mark.host), False])
def test_lists_of_any_mix_in_one_launch(rng, prepared):
    lists = tensors(rng)
    step = np.array([3])
    exact = [reference.adamw(p, g, m, v, step, master=w) for p, g, m, v, w in zip(*lists, strict=True)]

    def run():
        if prepared:
            adamw_lists(TensorLists(*lists), step)
        else:
            adamw(*lists[:4], step, master=lists[4])

    assert launches(kernel.adamw_lists_kernel, run) == 1
    for parameter, moment, square, master, want in zip(lists[0], *lists[2:], exact, strict=True):
        for out, value in zip((parameter if master is None else master, moment, square), want, strict=True):
            assert_close(out, value)
        if master is not None:
            assert (parameter == master.astype(parameter.dtype)).all()


def test_lists_of_views_at_any_address(rng):
    whole = [random(rng, 6001) for _ in range(4)]
    whole[3] = np.abs(whole[3])
    before = [x.copy() for x in whole]
    views = [[x[1:4098], x[4098:]] for x in whole]
    exact = [reference.adamw(*arrays, 2) for arrays in zip(*views, strict=True)]
    adamw(*views, 2)
    for i, (parameter, moment, square) in enumerate(exact):
        assert_close(views[0][i], parameter)
        assert_close(views[2][i], moment)
        assert_close(views[3][i], square)
    assert all(x[0] == y[0] for x, y in zip(whole, before, strict=True)) and (whole[1] == before[1]).all()


@pytest.mark.host
def test_prepared_lists_follow_the_reference(rng):
    lists = tensors(rng, [((300,), "float32", "float32", False), ((33, 5), "float32", "float32", False)])
    prepared, step, rate = TensorLists(*lists), np.zeros(1, np.int64), np.array([0.01], np.float32)
    exact = [tuple(x.astype(np.float64) for x in (p, m, v)) for p, _, m, v, _ in zip(*lists, strict=True)]
    for _ in range(10):
        step += 1
        for i, gradient in enumerate(lists[1]):
            gradient[...] = random(rng, gradient.shape)
            exact[i] = reference.adamw(exact[i][0], gradient, *exact[i][1:], step, lr=0.01)
        adamw_lists(prepared, step, lr=rate)
    for parameter, want in zip(lists[0], exact, strict=True):
        assert_close(parameter, want[0], length=10)


@pytest.mark.host
def test_tables_are_kept_by_address_and_keep_no_array(rng):
    import weakref

    lists = tensors(rng, [((64,), "float32", "float32", False)])[:4]
    first = TensorLists.of(*lists, None)
    assert TensorLists.of(*lists, None) is first
    other = [lists[0], [lists[1][0].copy()], *lists[2:]]
    assert TensorLists.of(*other, None) is not first
    alive = weakref.ref(lists[0][0])
    del lists, other
    assert alive() is None


@pytest.mark.host
def test_empty_lists():
    lists = TensorLists([], [], [], [])
    assert (lists.chunks, lists.table.shape, lists.place, lists.kinds) == (0, (0, CHUNK_WORDS), "", ())
    adamw([], [], [], [], 1)
    adamw_lists(lists, 1)
    grids = []
    with recording(lambda _, grid: lambda *args, **kwargs: grids.append(grid)):
        adamw([], [], [], [], 1)
        adamw_lists(lists, 1)
    assert grids == [(0,), (0,)]
    with pytest.raises(ValueError, match=r"gradient: expected a list of 0 \(one for each parameter\), got 1"):
        adamw([], [np.ones(1, np.float32)], [], [], 1)
    with pytest.raises(ValueError, match="step: expected a count from 1"):
        adamw([], [], [], [], 0)


@pytest.mark.host
def test_list_errors(rng):
    x = random(rng, 8)
    with pytest.raises(ValueError, match=r"gradient: expected a list of 2"):
        adamw([x, x], [x], [x, x], [x, x], 1)
    with pytest.raises(ValueError, match=r"moment\[1\]: expected shape \(8,\)"):
        adamw([x, x], [x, x], [x, x[:4]], [x, x], 1)
    with pytest.raises(ValueError, match=r"square\[0\]: expected a contiguous array"):
        adamw([x[:4]], [x[:4]], [x[:4]], [x[::2]], 1)
    with pytest.raises(ValueError, match=r"master\[0\]: expected float32"):
        adamw([x], [x], [x], [x], 1, master=[x.astype(np.float16)])
    with pytest.raises(ValueError, match=r"gradient\[0\]: expected type float32, .*, got int32"):
        adamw([x], [x.astype(np.int32)], [x], [x], 1)
    with pytest.raises(ValueError, match=r"gradient\[0\]: expected an array, got None"):
        adamw([x], [None], [x], [x], 1)
    x.flags.writeable = False
    with pytest.raises(ValueError, match=r"parameter\[0\]: expected an array that can be written"):
        adamw([x], [x], [x.copy()], [x.copy()], 1)


class Elsewhere(np.ndarray):
    """Host memory that claims to be on the GPU with this number, in the way other libraries' arrays say it."""

    gpu = 0

    def __dlpack_device__(self):
        return 2, self.gpu

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.ctypes.data, False), "shape": self.shape, "typestr": self.dtype.str, "version": 3}


def on_gpu(number):
    array = np.ones(8, np.float32).view(Elsewhere)
    array.gpu = number
    return array


@pytest.mark.host
@pytest.mark.parametrize("role, index", [(role, index) for role in ROLES for index in (0, 1)][1:])
def test_lists_that_mix_devices_are_refused_by_name(role, index):
    for make, other, places in [(on_gpu, on_gpu(1), ("cuda:0", "cuda:1")),
                                (on_gpu, np.ones(8, np.float32), ("cuda:0", "cpu")),
                                (lambda _: np.ones(8, np.float32), on_gpu(1), ("cpu", "cuda:1"))]:  # fmt: skip
        lists = [[make(0), make(0)] for _ in ROLES]
        lists[ROLES.index(role)][index] = other
        message = rf"{role}\[{index}\]: expected an array on {places[0]} \(because .*, got one on {places[1]}\n"
        for call in (TensorLists, lambda *lists: adamw(*lists[:4], 1, master=lists[4])):
            with planning_for(DEFAULT_GPU), pytest.raises(ValueError, match=message):
                call(*lists)


@pytest.mark.host
@pytest.mark.parametrize("name", ["step", "lr"])
def test_step_and_rate_must_be_on_the_tensors_device(rng, name):
    lists = TensorLists(*tensors(rng, MIX[:1])[:4])
    value = {"step": np.ones(1, np.int64), "lr": np.ones(1, np.float32)}[name].view(Elsewhere)
    with pytest.raises(ValueError, match=rf"{name}: expected a number or an array on cpu .*, got one on cuda:0\n"):
        adamw_lists(lists, **{"step": 1, name: value})


@pytest.mark.parametrize("form", [np.int64, np.uint8, lambda n: np.array(n, np.int32), lambda n: np.array([[n]])])
def test_step_and_rate_in_every_form(rng, form):
    arrays = [random(rng, 64), random(rng, 64), random(rng, 64), np.abs(random(rng, 64))]
    exact = reference.adamw(*arrays, 3, lr=np.float32(0.25))
    rate = np.float32(0.25) if isinstance(form, type) else np.full((1,), 0.25, np.float32)
    lists = [[x.copy()] for x in arrays]
    adamw(*arrays, form(3), lr=rate)
    adamw(*lists, form(3), lr=rate)
    for out, listed, want in zip((arrays[0], *arrays[2:]), (lists[0], *lists[2:]), exact, strict=True):
        assert_close(out, want)
        assert_close(listed[0], want)


@pytest.mark.host
@pytest.mark.parametrize(
    "step, got",
    [
        (3.0, "3.0"),
        (np.float64(3), r"np.float64\(3.0\)"),
        (np.array([1, 2]), r"an array of shape \(2,\) and type int64"),
        (np.array([3.5]), r"an array of shape \(1,\) and type float64"),
        ([3.5], r"\[3.5\]"),
        ([3], r"\[3\]"),
        ("3", "'3'"),
        (None, "None"),
    ],
    ids=str,
)
def test_a_step_that_counts_nothing_is_refused_by_name(rng, step, got):
    x = random(rng, 8)
    lists = [[x.copy()] for _ in range(4)]
    prepared = TensorLists(*lists)
    for call in (lambda: adamw(x, x, x, x, step), lambda: adamw(*lists, step),
                 lambda: adamw_lists(prepared, step)):  # fmt: skip
        with pytest.raises(ValueError, match=rf"step: expected an integer, .* \(because .*\), got {got}\n"):
            call()
    for number in (0, -1, np.int64(0)):
        with pytest.raises(ValueError, match=rf"step: expected a count from 1 .*, got {number}\n"):
            adamw(x, x, x, x, number)
    for rate in (np.ones(2, np.float32), [0.1], "0.1", None):
        with pytest.raises(ValueError, match=r"lr: expected a number, or a float array of one element \(because "):
            adamw(x, x, x, x, 1, lr=rate)


def test_errors(rng):
    x = random(rng, 8)
    with pytest.raises(ValueError, match=r"betas\[1\]: expected a number in \[0, 1\)"):
        adamw(x, x, x, x, 1, betas=(0.9, 1.0))
    with pytest.raises(ValueError, match="gradient: expected shape"):
        adamw(x, x[:4], x, x, 1)
    with pytest.raises(ValueError, match="count from 1"):
        adamw(x, x, x, x, 0)
    assert adamw.mutates == ("parameter", "moment", "square", "master")
