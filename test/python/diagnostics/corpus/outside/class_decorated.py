"""A class is decorated."""

import kiln


@kiln.jit
class Kernel:
    pass
