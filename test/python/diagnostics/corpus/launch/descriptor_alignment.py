"""A descriptor whose rows do not start at multiples of 16 bytes."""

import numpy as np

import kiln
from kiln.tools.tensor_descriptor import TensorDescriptor


@kiln.jit
def kernel(desc):
    desc.store([0, 0], desc.load([0, 0]))


kernel[(1,)](TensorDescriptor.from_tensor(np.zeros((8, 7), np.float32), [4, 4]))
