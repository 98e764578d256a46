"""The caret is under the expression after tabs and wide characters."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.jit
def kernel(x, größe):
	if größe > 0: kl.store(x + größe, "äöü")


kernel[(1,)](X, 7)
