"""No test sees the user's artifact cache, nor leaves anything there: those about the cache make one of their own."""

import os

os.environ["KILN_CACHE"] = "0"
os.environ.pop("KILN_CACHE_READONLY", None)
