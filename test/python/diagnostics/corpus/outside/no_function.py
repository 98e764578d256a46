"""Something that is no function is decorated."""

import kiln

kiln.jit(7)
