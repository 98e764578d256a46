"""No test sees the user's artifact cache, nor leaves anything there: tests of the cache make their own."""

import os

os.environ["KILN_CACHE"] = "0"
os.environ.pop("KILN_CACHE_READONLY", None)
