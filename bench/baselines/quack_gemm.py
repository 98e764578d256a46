"""Products by quack, for gemm.py to tune: its kernel with configurations of our choosing.

Its own tuner compiles and times some forty configurations of a product, which takes a minute. We use the few of them
that can win on Hopper: large tiles that two groups share or alternate on, in clusters of two; few rows as columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from quack import gemm_interface
from quack.gemm_config import GemmConfig


def configs(m: int) -> Iterator[GemmConfig]:
    """Configurations worth timing for ``m`` rows."""
    few = m <= 64
    for rows, columns, by_turns, cluster in (
        (128, 128, True, (1, 2) if few else (2, 1)), (128, 128, True, (2, 1) if few else (1, 2)),
        (128, 192, True, (2, 1)), (128, 160, True, (2, 1)), (128, 256, False, (2, 1)), (256, 128, False, (2, 1)),
        (256, 192, False, (2, 1)),
    ):  # fmt: skip
        if not few or columns == 128:
            yield GemmConfig(tile_m=rows, tile_n=columns, pingpong=by_turns, cluster_m=cluster[0],
                             cluster_n=cluster[1], swap_ab=few, is_dynamic_persistent=False)  # fmt: skip


def bind(config: GemmConfig, *, b_rows: bool, alpha: float, beta: float) -> Callable[..., None]:
    """A function of (a, b, c, out)."""
    terms = {"alpha": alpha, "beta": beta} if beta else {}

    def launch(a: Any, b: Any, c: Any, out: Any) -> None:
        gemm_interface.gemm_tuned.fn(a, b.T if b_rows else b, out, c if beta else None, config=config, **terms)

    return launch
