"""kl.static_range of a float outside a kernel."""

import kiln.language as kl

for i in kl.static_range(4.5):
    pass
