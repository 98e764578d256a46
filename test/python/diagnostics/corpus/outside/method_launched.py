"""A method of a plain class is launched."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


class Scaler:
    @kiln.jit
    def kernel(self, x):
        kl.store(x, kl.load(x) * 2)


Scaler().kernel[(1,)](X)
