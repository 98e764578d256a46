"""No test sees the user's artifact cache or writes to it: tests of the cache make their own.

Memory that nobody touches is not filled either: launches that are only planned read nothing of arrays but shapes.
"""

import ctypes
import functools
import os

os.environ["KILN_CACHE"] = "0"
os.environ.pop("KILN_CACHE_READONLY", None)

M_PERTURB = -6  # of mallopt


def _unfilled(function):
    """malloc overwrites what it gives under MALLOC_PERTURB_. Arrays that are only planned for have gigabytes, and
    would take more time than their kernels take to compile."""
    mallopt = ctypes.CDLL(None).mallopt

    @functools.wraps(function)
    def call(*args, **kwargs):
        mallopt(M_PERTURB, 0)
        try:
            return function(*args, **kwargs)
        finally:
            mallopt(M_PERTURB, int(os.environ["MALLOC_PERTURB_"]))

    return call


def pytest_configure():
    if int(os.environ.get("MALLOC_PERTURB_", "0")):
        from kiln.kernels import case, launches

        # Before anything imports them.
        case.blank, launches.launches_of = _unfilled(case.blank), _unfilled(launches.launches_of)
