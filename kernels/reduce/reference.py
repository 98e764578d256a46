"""Sum and top-k in numpy."""

import numpy as np


def sum_all(x):
    return np.asarray(np.asarray(x, np.float64).sum())


def topk(x, k):
    wide = np.asarray(x, np.float64)
    order = np.where(np.isnan(wide), np.inf, wide)
    nan = np.isnan(wide)
    index = np.lexsort((np.broadcast_to(np.arange(wide.shape[-1]), wide.shape), -order, ~nan), axis=-1)[..., :k]
    return np.take_along_axis(wide, index, axis=-1), index
