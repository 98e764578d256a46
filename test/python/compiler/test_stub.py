"""The stub of the extension module names exactly what the module has."""

from __future__ import annotations

import ast
import pathlib

import kiln
from kiln import _kiln


def _stub() -> ast.Module:
    return ast.parse((pathlib.Path(kiln.__file__).parent / "_kiln.pyi").read_text())


def _public(names) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_stub_and_the_module_have_the_same_names():
    named = {node.name for node in _stub().body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    assert named == _public(dir(_kiln))


def test_classes_have_the_same_members():
    for node in _stub().body:
        if isinstance(node, ast.ClassDef):
            members = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
            assert _public(members) == _public(vars(getattr(_kiln, node.name))), node.name
