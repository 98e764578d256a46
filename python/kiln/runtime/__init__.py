"""Launching: jit functions, the tuner, and the text of launch errors.

jit.py         `kiln.jit`: a kernel function that can be launched; compiled kernels
autotuner.py   `kiln.autotune`, `kiln.heuristics`, `kiln.Config`
interface.py   `kernel[grid](...)`, the interface that all of these share
explain.py     errors of a launch: what was expected, which argument, the caller's line
"""

from __future__ import annotations
