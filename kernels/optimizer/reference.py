"""AdamW in float64; returns the new parameter, moment and square, and changes nothing."""

import numpy as np


def adamw(
    parameter, gradient, moment, square, step, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, master=None
):
    value = np.asarray(parameter if master is None else master, np.float64)
    slope = np.asarray(gradient, np.float64)
    time = int(np.asarray(step).reshape(-1)[0])
    first = betas[0] * np.asarray(moment, np.float64) + (1 - betas[0]) * slope
    second = betas[1] * np.asarray(square, np.float64) + (1 - betas[1]) * slope * slope
    value = value * (1 - lr * weight_decay)
    value = value - lr * (first / (1 - betas[0] ** time)) / (np.sqrt(second / (1 - betas[1] ** time)) + eps)
    return value, first, second
