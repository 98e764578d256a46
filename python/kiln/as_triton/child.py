"""Imported by the server that children are forked from: triton is Kiln in each (children.py)."""

from kiln import as_triton

as_triton.install(children=True)
