"""Embedding in numpy."""

import numpy as np


def embedding(ids, table):
    return np.asarray(table, np.float64)[ids]
