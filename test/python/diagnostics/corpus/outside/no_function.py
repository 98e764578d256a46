"""The decorated object is not a function."""

import kiln

kiln.jit(7)
