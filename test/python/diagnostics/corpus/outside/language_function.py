"""A function of the language called outside a kernel."""

import kiln.language as kl

kl.arange(0, 64)
