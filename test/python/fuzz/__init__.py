"""Random typed tile programs, run by Kiln and by a plain numpy evaluation of the same program.

kinds.py       element types: promotion, rounding, samples      program.py    what a program is; its Python text
evaluate.py    values with error bounds, memory, instances      operation.py  the table of operations and their form
elementwise.py, shapes.py, combining.py, memory.py, control.py  the operations: drawing, text and meaning of each
generate.py    drawing a program                                check.py      running one under Kiln, comparing
reduce.py      making a failing program small                   run.py        the command; test_fuzz.py the test

The meaning of each operation follows the language's description; no code is shared with Kiln.
"""
