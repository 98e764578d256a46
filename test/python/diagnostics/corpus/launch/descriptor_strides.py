"""A descriptor of an array whose rows are not contiguous."""

import numpy as np

import kiln
from kiln.tools.tensor_descriptor import TensorDescriptor


@kiln.jit
def kernel(desc):
    desc.store([0, 0], desc.load([0, 0]))


kernel[(1,)](TensorDescriptor.from_tensor(np.zeros((8, 8), np.float32).T, [4, 4]))
