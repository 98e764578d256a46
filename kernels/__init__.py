"""Kiln's kernel library (``kiln.kernels``): one folder per family.

``kernel.py`` holds the kernels and the functions that launch them, ``reference.py`` the same mathematics in numpy and
float64, ``configs.py`` tile sizes and the cases that ``make demo`` shows, ``README.md`` what is computed and where it
rounds. ``rows.py``, ``flat.py`` and ``machine.py`` choose launches, ``launches.py`` lists them without launching.
"""

FAMILIES = (
    "elementwise",
    "softmax",
    "norm",
    "rope",
    "activation",
    "embedding",
    "optimizer",
    "reduce",
    "gemm",
    "attention",
)
