"""`python -m kiln.cli` is the console script `kiln`."""

import sys

from kiln.cli import main

sys.exit(main())
