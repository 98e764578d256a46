"""Imported by the server that forks child processes: `import triton` gives Kiln in each of them (children.py)."""

from kiln import as_triton

as_triton.install(children=True)
