"""Vector add in float64."""

import numpy as np


def add(x, y):
    return np.asarray(x, np.float64) + np.asarray(y, np.float64)
