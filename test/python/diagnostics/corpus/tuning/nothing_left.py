"""Pruning leaves no configuration."""

import numpy as np

import kiln
import kiln.language as kl

X = np.zeros(64, np.float32)


@kiln.autotune(
    configs=[kiln.Config({"BLOCK": 32}), kiln.Config({"BLOCK": 64})],
    key=["n"],
    prune_configs_by={"early_config_prune": lambda configs, arguments, **kwargs: []},
)
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)


kernel[(1,)](X, 7)
