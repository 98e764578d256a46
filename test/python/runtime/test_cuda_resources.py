"""Exhausted GPU resources: errors say what is known. Uses a driver that has no GPU (fake_cuda.py)."""

import pickle

import fake_cuda
import pytest
from kiln import errors

pytestmark = pytest.mark.skipif(fake_cuda.library() is None, reason="the build has no tests (kiln_fake_cuda)")

HELPERS = """

def refused(call, kind=errors.ResourceError):
    try:
        call()
    except errors.KilnError as error:
        assert type(error) is kind, (type(error), error)
        return error
    raise AssertionError("nothing was refused")


x = CudaArray(np.zeros(64, np.float32))
"""


def run(tmp_path, program, **environment):
    fake_cuda.run(tmp_path, program, fake_cuda.DOUBLE + HELPERS, **environment)


def test_too_many_resources_for_a_launch(tmp_path):
    run(
        tmp_path,
        """
    double[(1,)](x, x, 64, BLOCK=64, num_warps=8)
    fake.fakeForce(b"cuLaunchKernelEx", 701)
    error = refused(lambda: double[(1,)](x, x, 64, BLOCK=64, num_warps=8))
    text = str(error)
    assert text.startswith("double: out of resources of one block: cannot launch double ("), text
    assert "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES" in text
    assert "a block has 256 threads of 24 registers, and 0 bytes of shared memory" in text
    assert text.endswith("hint: reduce num_warps, or set maxnreg")
    assert (error.resource, error.required, error.available) == ("resources of one block", None, None)
    # The device goes on.
    fake.fakeForce(b"cuLaunchKernelEx", 0)
    double[(1,)](x, x, 64, BLOCK=64, num_warps=8)
    """,
    )


def test_no_memory_for_a_launch(tmp_path):
    run(
        tmp_path,
        """
    double[(1,)](x, x, 64, BLOCK=64)
    fake.fakeForce(b"cuLaunchKernelEx", 2)
    error = refused(lambda: double[(1,)](x, x, 64, BLOCK=64))
    text = str(error)
    assert text.startswith("double: out of memory: cannot launch double ("), text
    assert "CUDA_ERROR_OUT_OF_MEMORY" in text and "required" not in text and "available" not in text
    fake.fakeSetFunctionAttribute(3, 4096)
    other = refused(lambda: double[(1,)](x, x, 64, BLOCK=32))
    assert "each thread that is resident has 4096 bytes of local memory" in str(other), other
    """,
    )


def test_no_memory_for_staged_arrays_says_how_much_there_is(tmp_path):
    run(
        tmp_path,
        """
    host = np.zeros(4 << 20, np.float32)
    fake.fakeForce(b"cuMemAlloc_v2", 2)
    error = refused(lambda: double[(1,)](host, host, 64, BLOCK=64))
    assert error.resource == "memory of CUDA device 0" and error.required >= host.nbytes, error
    assert error.available == 3 << 20
    assert f"out of memory of CUDA device 0: required {error.required}, available {3 << 20}" in str(error)
    """,
        KILN_TARGET="cuda",
        KILN_STAGE_ARRAYS="1",
    )


def test_no_memory_outside_of_a_launch(tmp_path):
    run(
        tmp_path,
        """
    double[(1,)](x, x, 64, BLOCK=64)
    for code, resource in [(2, "memory"), (701, "resources of one block")]:
        fake.fakeForce(b"cuCtxSynchronize", code)
        error = refused(kiln.synchronize)
        assert error.resource == resource and "cannot wait for CUDA device 0: CUDA_ERROR_" in error.detail, error
    """,
    )


def test_pdl_is_a_bool(tmp_path):
    run(
        tmp_path,
        """
    host = np.zeros(64, np.float32)
    for name in ("pdl", "launch_pdl"):
        for array in (x, host):
            for value in ("x", 1, 0, "", [True]):
                error = refused(lambda: double[(1,)](array, array, 64, BLOCK=64, **{name: value}), errors.LaunchError)
                assert f"argument '{name}': expected True or False, got {value!r}" in str(error), error
            for value in (True, False, None):
                double[(1,)](array, array, 64, BLOCK=64, **{name: value})
    assert [line.split(" pdl ")[1][0] for line in launches()] == ["1", "0", "0"] * 2
    """,
    )


@pytest.mark.parametrize(
    "error",
    [
        errors.ResourceError("memory", detail="cannot launch", option="the tiles", kernel="k"),
        errors.ResourceError("registers", 3, 2, "num_warps"),
    ],
)
def test_a_resource_error_travels(error):
    for other in (pickle.loads(pickle.dumps(error)), error.of("k")):
        assert (other.resource, other.required, other.available, other.option, other.detail) == (
            error.resource, error.required, error.available, error.option, error.detail
        )  # fmt: skip
    assert str(error.of("other")).startswith("other: out of ")
