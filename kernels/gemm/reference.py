"""The product in float64."""

import numpy as np


def matmul(a, b, *_):
    return np.asarray(a, np.float64) @ np.asarray(b, np.float64)
