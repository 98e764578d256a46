"""Signatures of `kiln compile`: how text becomes the parameters of a kernel."""

from __future__ import annotations

import pytest
from kiln.cli.signature import split


@pytest.mark.parametrize(
    "text, parts",
    [
        ("x=*fp32:16, n=i32", ["x=*fp32:16", "n=i32"]),
        ("d=tensordesc<fp32[64,64]>, BLOCK=64", ["d=tensordesc<fp32[64,64]>", "BLOCK=64"]),
        ("shape=(1, 2, 3), name='a,b'", ["shape=(1, 2, 3)", "name='a,b'"]),
        ("", []),
        (" x=i32 , ", ["x=i32"]),
    ],
)
def test_commas_inside_brackets_and_quotes_do_not_split(text, parts):
    assert split(text) == parts
