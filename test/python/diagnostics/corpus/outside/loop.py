"""kl.range outside a kernel."""

import kiln.language as kl

for i in kl.range(4):
    pass
