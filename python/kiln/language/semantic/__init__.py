"""The semantics of the language: typing rules, and the IR that each operation becomes.

The front end calls the functions exported here for Python's own syntax, and `kiln.language.core` for functions.
"""

from .arithmetic import (
    binary,
    compare,
    condition,
    logical_and,
    logical_not,
    logical_or,
    unary,
    where,
)
from .cast import bitcast, cast
from .promotion import broadcast_pair, common_type, describe, number_type, promote, to_tensor
from .shape import subscript

__all__ = [
    "binary",
    "bitcast",
    "broadcast_pair",
    "cast",
    "common_type",
    "compare",
    "condition",
    "describe",
    "logical_and",
    "logical_not",
    "logical_or",
    "number_type",
    "promote",
    "subscript",
    "to_tensor",
    "unary",
    "where",
]
