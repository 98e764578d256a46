"""A block shape of another rank than the array."""

import numpy as np

from kiln.tools.tensor_descriptor import TensorDescriptor

TensorDescriptor.from_tensor(np.zeros((8, 8), np.float32), [4])
