"""No test sees the user's artifact cache or writes to it: tests of the cache make their own."""

import os

os.environ["KILN_CACHE"] = "0"
os.environ.pop("KILN_CACHE_READONLY", None)
