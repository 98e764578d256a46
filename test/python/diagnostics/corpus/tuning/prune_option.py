"""A way of pruning that does not exist."""

import kiln
import kiln.language as kl


@kiln.autotune(configs=[kiln.Config({"BLOCK": 32})], key=["n"], prune_configs_by={"early_prune": None})
@kiln.jit
def kernel(x, n, BLOCK: kl.constexpr):
    kl.store(x + kl.arange(0, BLOCK), n)
