"""The library's style: short kernels with few parameters, next to formulas that quote their lines.

Checked on the source. The bounds are what a kernel author would call readable; if a kernel exceeds one, split it or
group its arguments in a view.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2] / "kernels"
LINES = 60
PARAMETERS = {"rms_norm_kernel": 8, "layer_norm_kernel": 10}
MOST_PARAMETERS = 14
BODY = {"rms_norm_kernel": 15}


def jit_functions() -> dict[str, ast.FunctionDef]:
    found = {}
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "kiln.jit" in map(ast.unparse, node.decorator_list):
                found[f"{path.relative_to(ROOT)}::{node.name}"] = node
    return found


FUNCTIONS = jit_functions()
KERNELS = {name: node for name, node in FUNCTIONS.items() if name.endswith("_kernel")}


def test_the_library_is_looked_at():
    assert len(KERNELS) > 25 and len(FUNCTIONS) > 100
    assert {*PARAMETERS, *BODY} <= {node.name for node in KERNELS.values()}


def lines_of_body(node: ast.FunctionDef) -> int:
    """Lines of the body, without the docstring."""
    body = node.body[1:] if ast.get_docstring(node) and node.body[1:] else node.body
    return body[-1].end_lineno - body[0].lineno + 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_short(name):
    node = FUNCTIONS[name]
    assert lines_of_body(node) <= LINES


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_take_few_parameters(name):
    node = KERNELS[name]
    arguments = node.args
    assert not (arguments.vararg or arguments.kwarg or arguments.posonlyargs)
    count = len(arguments.args) + len(arguments.kwonlyargs)
    assert count <= PARAMETERS.get(node.name, MOST_PARAMETERS)
    assert node.name not in BODY or lines_of_body(node) <= BODY[node.name]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_say_what_they_compute(name):
    assert ast.get_docstring(KERNELS[name])


@pytest.mark.parametrize("path", ROOT.rglob("*.py"), ids=lambda path: str(path.relative_to(ROOT)))
def test_layout_is_the_formatters(path):
    assert "fmt: " not in path.read_text()


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


TABLE = r"^\|.*\bformula\b.*\n\|[-| ]+\n((?:\|.*\n)+)"


def quotes(readme: str) -> list[tuple[str, list[str]]]:
    """The rows of tables that have a column of formulas, each with the code in its last column."""
    rows = [row for table in re.findall(TABLE, readme, re.MULTILINE) for row in table.splitlines()]
    cells = [row.replace(r"\|", "\0").split("|")[-2].replace("\0", "|") for row in rows]
    return [(row, re.findall(r"`([^`]+)`", cell)) for row, cell in zip(rows, cells, strict=True)]


def quoted(readme: str) -> list[str]:
    return [line for _, lines in quotes(readme) for line in lines]


def stands_in(quote: str, source: str) -> bool:
    """Whether a line of the source matches; … stands for any text."""
    pattern = ".*?".join(re.escape(squeezed(part)) for part in quote.split("…"))
    return any(re.search(pattern, squeezed(line)) for line in source.splitlines())


FAMILIES = sorted(path.parent.name for path in ROOT.glob("*/kernel.py"))


def documents(family: str) -> str:
    return "\n".join(path.read_text() for path in sorted((ROOT / family).glob("*.md")))


@pytest.mark.parametrize("family", FAMILIES)
def test_formulas_quote_existing_lines(family):
    source = "\n".join(path.read_text() for path in sorted((ROOT / family).glob("*.py")))
    lines = quoted(documents(family))
    assert lines
    assert [line for line in lines if not stands_in(line.replace("Group.", "").replace("Rule.", ""), source)] == []


@pytest.mark.parametrize("family", FAMILIES)
def test_each_formula_quotes_a_line_of_code(family):
    for row, lines in quotes(documents(family)):
        assert lines and not any(re.fullmatch(r"[\w.]+", line) for line in lines), row


@pytest.mark.parametrize("name", KERNELS)
def test_each_kernel_has_a_formula(name):
    family, kernel = pathlib.PurePath(name).parts[0], name.split("::")[1]
    tables = [match.group() for match in re.finditer(TABLE, documents(family), re.MULTILINE)]
    assert f"`{kernel}`" in "".join(tables)


def test_a_line_that_has_changed_is_found():
    source = "    rstd = kl.rsqrt(x.mean(total) + eps)\n"
    assert stands_in("rstd = kl.rsqrt(… + eps)", source) and not stands_in("rstd = kl.rsqrt(total)", source)
    assert quoted("| function | in b |\n|---|---|\n| y | `f(x \\| 1)` |\n") == []
    assert quoted("| formula | in b |\n|---|---|\n| y | `f(x \\| 1)` |\n") == ["f(x | 1)"]
