"""The semantics of the language: typing rules, and the IR that each operation becomes.

The front end and the values of kernels call the functions exported here for Python's own syntax; functions of the
language call the files.
"""

from .arithmetic import (
    compare,
    condition,
    logical_and,
    logical_not,
    logical_or,
    unary,
    where,
)
from .build import constant
from .cast import bitcast, cast
from .descriptor import make_handle
from .operand import describe, number_type, to_tensor
from .operators import binary
from .promotion import broadcast_pair, common_type, promote
from .shape import subscript, transpose

__all__ = [
    "binary",
    "bitcast",
    "broadcast_pair",
    "cast",
    "common_type",
    "compare",
    "condition",
    "constant",
    "describe",
    "logical_and",
    "logical_not",
    "logical_or",
    "make_handle",
    "number_type",
    "promote",
    "subscript",
    "to_tensor",
    "transpose",
    "unary",
    "where",
]
