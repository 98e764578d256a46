"""A kernel whose source cannot be found."""

import numpy as np

import kiln

X = np.zeros(64, np.float32)

namespace = {}
exec("\n".join(["def kernel(x):", "    pass"]), namespace)
kiln.jit(namespace["kernel"])[(1,)](X)
