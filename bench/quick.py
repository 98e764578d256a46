"""Every row in about a minute: Kiln beside torch eager and a short search for the ceiling, 3 rounds, one process.

    python bench/quick.py [FAMILY …] [--only WORDS] [--json F …]

For working on a kernel; reported figures come from the whole suite.
"""

from __future__ import annotations

import sys

import suite

if __name__ == "__main__":
    sys.exit(suite.main(["--quick", "--no-warm", "--peers", "kiln,torch,ceiling", *sys.argv[1:]]))
