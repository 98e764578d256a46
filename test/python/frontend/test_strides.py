"""Which arguments are strides of tensor descriptors, found by name in the source."""

from __future__ import annotations

import kiln.language as kl
import pytest
from kiln.frontend.function import KernelFunction
from kiln.frontend.strides import descriptor_strides
from kiln.runtime.jit import jit


def makes(x, y, m, n, s, t, u, v, unused):
    pitch = kl.cdiv(n, 8) * 8
    a = kl.make_tensor_descriptor(x, [m, n], [s, 1], [8, 16])
    b = kl.make_tensor_descriptor(y, (m, n), block_shape=(4, 8, 16), strides=(t * 2, pitch, 1))
    c = kl.load(x + u * v)
    return a, b, c


def makes_none(x, s):
    return kl.load(x + s)


@jit
def of_fields(x, ROWS: kl.constexpr):
    if x.flat is None:
        return kl.make_tensor_descriptor(x.data, [x.rows], [x.step], [ROWS])
    return kl.make_tensor_descriptor(x.data, [x.rows, x.columns], [x.step, 1], [ROWS, ROWS])


@jit
def of_parameters(data, rows, step):
    return kl.make_tensor_descriptor(data, [rows, rows], [step, 1], [8, 16])


@jit
def between(x, data, far, near):
    a = of_fields(x, 16)
    b = of_parameters(data, near, step=far)
    return a, b


@jit
def calls_itself(data, s, again):
    if again:
        calls_itself(data, s, False)
    return kl.make_tensor_descriptor(data, [s, s], [s, 1], [8, 16])


def through_calls(x, data, outer, other, N):
    step = outer
    return between(x, data, step * 2, near=N)


def of_a_field_handed_on(x, data):
    return of_parameters(data, x.rows, x.pitch)


def of_an_item(data, strides, n):
    return kl.make_tensor_descriptor(data, [n, n], [strides[0], 1], [8, 16])


@pytest.mark.parametrize(
    "function, names, fields",
    [
        (makes, "n s t", ""),
        (makes_none, "", ""),
        (through_calls, "outer", "step"),
        (of_a_field_handed_on, "", "pitch"),
        (of_an_item, "strides", ""),
        (calls_itself.fn, "s", ""),
    ],
)
def test_strides_are_found(function, names, fields):
    found = descriptor_strides(KernelFunction(function))
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    assert {name for name in found.names if name in parameters} == set(names.split())
    assert found.fields - {"cdiv"} == set(fields.split())


async def waits(x, s):
    kl.make_tensor_descriptor(x, [s], [s, 1], [16])


def test_uncompilable_functions_have_no_strides():
    """Compiling it reports the error."""
    assert not descriptor_strides(KernelFunction(waits)).names


def test_the_library_s_products_are_known():
    from kiln.kernels.gemm import kernel

    functions = [f for f in vars(kernel).values() if isinstance(f, KernelFunction)]
    fields = {f.__name__: descriptor_strides(f).fields for f in functions}
    assert {"row_stride", "column_stride", "batch_stride"} <= fields["matmul_kernel"]
