"""Launching: jit functions, the tuner, and the words of launch errors.

jit.py         `kiln.jit`: a kernel function that can be launched; compiled kernels
autotuner.py   `kiln.autotune`, `kiln.heuristics`, `kiln.Config`
interface.py   `kernel[grid](...)`, what all of these have in common
explain.py     errors of a launch: what was expected, which argument, the caller's line
"""

from __future__ import annotations
