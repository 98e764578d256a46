"""A padding that does not exist."""

import numpy as np

from kiln.tools.tensor_descriptor import TensorDescriptor

TensorDescriptor.from_tensor(np.zeros((8, 8), np.float32), [4, 4], padding="one")
