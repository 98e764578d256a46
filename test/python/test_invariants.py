"""Checks on the source what ARCHITECTURE.md says must not occur."""

import ast
import functools
import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'#include ["<]([^">]+)[">]')


def includes(folder: str) -> dict[str, list[str]]:
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".h", ".cpp")]
    assert files, folder
    return {str(path.relative_to(ROOT)): INCLUDE.findall(path.read_text()) for path in files}


@pytest.mark.parametrize("folder,forbidden,allowed", [
    ("dialects", r"(compiler|runtime|python)/", r"^$"),
    ("runtime", r"(mlir|dialects|compiler|python)/", r"^$"),
    ("compiler", r"(runtime|python)/", r"runtime/(artifact/.*|support/.*|launch/Abi\.h)$"),
])  # fmt: skip
def test_includes(folder, forbidden, allowed):
    wrong = [
        f"{path}: {name}"
        for path, names in includes(folder).items()
        for name in names
        if re.match(forbidden, name) and not re.match(allowed, name)
    ]
    assert not wrong


def rooms() -> dict[str, list[str]]:
    """What each C++ folder may include, by ARCHITECTURE.md's table: folders, or path prefixes."""
    table = re.findall(r"^\| `([\w/]+)` \|.*\|([^|]*)\|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    short = {"all": "", "all of compiler": "compiler", "dialects": "dialects"}
    allowed: dict[str, list[str]] = {}
    for folder, may in table:
        if folder.split("/")[0] in ("dialects", "compiler", "runtime") or folder == "python/bindings":
            names = [name.strip().strip("`") for name in may.split(",") if name.strip()]
            allowed[folder] = [short.get(name, name if "/" in name else f"compiler/{name}") for name in names]
    return allowed


def room_of(path: str, folders: list[str]) -> str | None:
    inside = [folder for folder in folders if path.startswith(folder + "/")]
    return max(inside, key=len, default=None)


def test_rooms_include_what_the_table_says():
    allowed = rooms()
    assert len(allowed) > 15
    for names in allowed.values():
        assert all(not name or (ROOT / name).is_dir() for name in names), names
    wrong, without = [], set()
    for top in ("dialects", "compiler", "runtime", "python/bindings"):
        for path, names in includes(top).items():
            here = room_of(path, list(allowed))
            if here is None:
                without.add(path)
                continue
            for name in names:
                if re.match(r"(dialects|compiler|runtime|python)/", name) and name != "runtime/launch/Abi.h":
                    if not any(name.startswith(may) for may in (here + "/", *allowed[here])):
                        wrong.append(f"{path}: {name}")
    assert not wrong
    # Files that belong to no room: the precompiled header of the dialects, kiln-opt.
    assert {pathlib.Path(path).parts[:2] for path in without} <= {
        ("dialects", "Pch.h"),
        ("dialects", "Pch.cpp"),
        ("compiler", "tools"),
    }


def test_barriers_are_emitted_in_one_place():
    """So that kiln-verify-barriers, which uses the same function as that place, sees every one."""
    barrier = re.compile(
        r"nvvm\.(barrier|bar\.warp)|NVVM::(Barrier|Cluster)|\bbar\.(sync|red|arrive)\b|barrier\.c(ta|luster)\."
    )
    folders = ("compiler/conversion/kgpu_to_nvvm", "compiler/transforms", "compiler/codegen")
    emitting = [
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.cpp")
        if barrier.search(path.read_text())
    ]
    assert emitting == ["compiler/conversion/kgpu_to_nvvm/Barrier.cpp"]


def test_layouts_are_made_in_one_place():
    """Other code changes digits through a LayoutBuilder, or uses a named constructor."""
    made = [str(path.relative_to(ROOT)) for top in ("dialects", "compiler") for path in (ROOT / top).rglob("*.cpp")
            if "Layout::create(" in path.read_text()]  # fmt: skip
    assert made and all(path.startswith("dialects/layout/") for path in made)


def python_files(*folders: str) -> list[pathlib.Path]:
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def test_only_knobs_reads_the_environment():
    readers = [
        str(path.relative_to(ROOT))
        for path in python_files("python/kiln", "kernels")
        if path.name != "knobs.py" and re.search(r"os\.environ|getenv", path.read_text())
    ]
    assert readers == []


def test_the_front_end_knows_no_target():
    names = re.compile(r"\b(avx\w*|sm_\d+|znver\d|x86|nvptx|cuda)\b", re.IGNORECASE)
    wrong = [str(path) for path in python_files("python/kiln/frontend") if names.search(path.read_text())]
    assert wrong == []


def test_kernels_use_kiln_alone():
    allowed = sys.stdlib_module_names | {"kiln", "numpy", "ml_dtypes", "torch"}
    imported = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
    for path in python_files("kernels"):
        assert set(imported.findall(path.read_text())) <= allowed, path


def test_every_room_has_a_kernel_readme():
    families = [path.parent for path in (ROOT / "kernels").glob("*/kernel.py")]
    for family in families:
        for name in ("reference.py", "cases.py", "README.md"):
            assert (family / name).exists(), f"{family.name}/{name}"


# What C++ reads of Python objects by name, by whose names they are.
ATTRIBUTES = {
    "arrays": {
        "__array_interface__", "__cuda_array_interface__", "__dlpack__", "__dlpack_device__", "_cdata", "base",
        "byteorder", "data_ptr", "device", "dtype", "index", "is_cpu", "itemsize", "layout", "nbytes", "numel",
        "numpy", "requires_grad", "shape", "type", "untyped_storage",
    },
    "functions of torch": {"_len_torch_dispatch_stack", "increment_version", "is_initialized"},
    "tensor descriptors, tuples, constants": {"_fields", "base", "block_shape", "padding", "shape", "strides", "value"},
    "Python": {
        "__dataclass_params__", "__dict__", "__getitem__", "__module__", "bit_length", "copy", "frozen", "join",
        "register", "split", "stderr",
    },
    "a parameter, when a launcher is made": {
        "annotation_type", "default", "do_not_specialize", "do_not_specialize_on_alignment", "has_default",
        "is_constexpr", "kind", "name",
    },
    "other data of Kiln": {"_interpreter", "_launch", "constexpr", "loaded", "pre_run_hooks", "run", "strides"},
}  # fmt: skip


def test_cpp_calls_no_function_of_kilns_python_by_name():
    """What belongs to one kernel or tuner is handed over as callables, whose types are in _kiln.pyi; PythonSide.cpp has
    the rest, and finds it when the first launcher is made or the first kernel compiled."""
    texts = {path.name: path.read_text() for path in (ROOT / "python/bindings").rglob("*.cpp")}
    side = texts.pop("PythonSide.cpp")
    found = re.findall(r'load\("([\w.]+)"\)\.attr\("(\w+)"\)', side)
    assert len(found) == side.count('load("') > 8
    for module, name in found:
        body = ast.parse((ROOT / "python" / (module.replace(".", "/") + ".py")).read_text()).body
        assert name in {node.name for node in body if isinstance(node, DEFINITIONS)}, f"{module}.{name}"
    imports = {name for text in texts.values() for name in re.findall(r'import\("(kiln[\w.]*)"', text)}
    assert imports == {"kiln._kiln", "kiln._compiler"}
    read = re.compile(
        r'(?:\battr|InternFromString)\("(\w+)"\)|'
        r'(?:GetAttrString|CallMethod|[gG]etOptionalAttribute|hasAttribute)\([^"]*?"(\w+)"'
    )
    named = {name for text in texts.values() for names in read.findall(text) for name in names if name}
    assert named == set().union(*ATTRIBUTES.values())


@functools.cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def bound_twice(text: str) -> list[str]:
    """The functions and classes of a module, and the methods of a class, that redefine an earlier one of the same
    name."""

    def adds_to_another(node: ast.AST) -> bool:
        kinds = (".setter", ".getter", ".deleter", "overload", ".register")
        return any(ast.unparse(by).split("(")[0].endswith(kinds) for by in getattr(node, "decorator_list", []))

    def look(scope: ast.Module | ast.ClassDef) -> None:
        seen: set[str] = set()
        for node in scope.body:
            if not isinstance(node, DEFINITIONS) or adds_to_another(node):
                continue
            if node.name in seen:
                found.append(f"{node.lineno}: {node.name}")
            seen.add(node.name)
            if isinstance(node, ast.ClassDef):
                look(node)

    found: list[str] = []
    names = re.findall(r"^ *(?:async def|def|class) (\w+)", text, re.MULTILINE)
    if len(names) != len(set(names)):  # otherwise there is nothing to find, and parsing takes most of the time
        look(ast.parse(text))
    return found


def test_no_function_or_class_replaces_another_of_its_name():
    """The first of two such tests would never run, and a kernel is looked up in its file by name."""
    wrong, looked_at = [], 0
    for path in python_files("test", "kernels", "python/kiln", "bench"):
        looked_at += 1
        wrong += [f"{path.relative_to(ROOT)}:{place}" for place in bound_twice(path.read_text())]
    assert looked_at > 400 and wrong == []


def test_a_name_bound_twice_is_found():
    text = "@kiln.jit\ndef add(x):\n    pass\n\n\ndef {}(x):\n    def add():\n        pass\n"
    assert bound_twice(text.format("add")) == ["6: add"] and bound_twice(text.format("sub")) == []
    methods = "class Case:\n    {}\n    def size(self): ...\n    {}\n    def size(self, n): ...\n"
    assert bound_twice(methods.format("@property", "@size.setter")) == []
    assert bound_twice(methods.format("@property", "@property")) == ["5: size"]


PACKAGES = (("python/kiln", "kiln"), ("kernels", "kiln.kernels"), ("bench", ""), ("test/emulator", ""))


def modules() -> dict[str, pathlib.Path]:
    """The Python files of the packages, by the names under which they are imported."""
    found = {}
    for folder, package in PACKAGES:
        for path in (ROOT / folder).rglob("*.py"):
            parts = [*filter(None, [package]), *path.relative_to(ROOT / folder).with_suffix("").parts]
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: pathlib.Path, text: str, known: set[str], functions: bool) -> set[str]:
    """The files that importing a file imports; with `functions`, also those imported inside its functions."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) and not functions:
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                module = ".".join([*base, *filter(None, [child.module])])
                found.update(
                    f"{module}.{alias.name}" if f"{module}.{alias.name}" in known else module for alias in child.names
                )
            visit(child)

    visit(parsed(text))
    return (found & known) - {name}


def python_rooms() -> dict[str, list[str]]:
    """What each folder of the package may import, by ARCHITECTURE.md's table: modules, or whole packages."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `python/kiln/(\w+)` \|.*\|([^|]*)\|$", text, re.MULTILINE)
    names = {room: re.findall(r"`([\w.]+)`", may) for room, may in rows if "all of" not in may}
    return {room: ["kiln." + name for name in found] for room, found in names.items()}


def imported_elsewhere(room: str, known: dict[str, pathlib.Path]) -> set[str]:
    """Modules of other rooms that files of a room import, at module level or in functions; files outside any room are
    open to all."""
    found: set[str] = set()
    for name, path in known.items():
        if name.startswith(f"kiln.{room}.") or name == f"kiln.{room}":
            found |= imported(name, path, path.read_text(), set(known), functions=True)
    packages = {path.parent.name for path in (ROOT / "python/kiln").glob("*/__init__.py")} | {"kernels"}
    return {name for name in found if name.split(".")[1:2] and name.split(".")[1] in packages - {room}}


@pytest.mark.parametrize("room", python_rooms())
def test_python_rooms_import_what_the_table_says(room):
    allowed = python_rooms()[room]
    wrong = [name for name in imported_elsewhere(room, modules())
             if not any(name == may or name.startswith(may + ".") for may in allowed)]  # fmt: skip
    assert wrong == []


def test_the_table_lists_every_python_room_and_nothing_that_no_file_imports():
    known, rows = modules(), python_rooms()
    packages = {path.parent.name for path in (ROOT / "python/kiln").glob("*/__init__.py")}
    assert packages == {*rows, "as_triton", "cli", "tools"}
    for room, allowed in rows.items():
        names = imported_elsewhere(room, known)
        idle = [may for may in allowed if not may.startswith("kiln._kiln")
                and not any(name == may or name.startswith(may + ".") for name in names)]  # fmt: skip
        assert idle == [], room


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Files that import one another in a cycle, or nothing."""
    done: set[str] = set()

    def follow(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name not in done:
            for other in sorted(graph[name]):
                if ring := follow(other, [*path, name]):
                    return ring
            done.add(name)
        return []

    return next((ring for name in sorted(graph) if (ring := follow(name, []))), [])


# Imports inside functions that close a ring, by importing file: without them no files import one another.
RINGS = {
    "kiln.frontend.function": {"kiln.frontend.struct"},
    "kiln.kernels.gemm.configs": {"kiln.kernels.gemm.tuned"},
    "kiln.language.semantic.cast": {"kiln.language.semantic.arithmetic"},
    "kiln.language.types": {"kiln.language.semantic.operand"},
    "kiln.language.values": {"kiln.language.semantic"},
    "kiln.runtime.autotuner": {"kiln.runtime.torch_graph"},
    "kiln.runtime.jit": {"kiln.runtime.torch_graph"},
}


def reaches(graph: dict[str, set[str]], start: str, end: str) -> bool:
    seen, left = set(), [start]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += graph[name]
    return end in seen


def import_graph(functions: bool) -> dict[str, set[str]]:
    known = modules()
    return {name: imported(name, path, path.read_text(), set(known), functions) for name, path in known.items()}


def test_no_files_import_one_another():
    graph = import_graph(functions=False)
    assert len(graph) > 200 and sum(map(len, graph.values())) > 200
    assert cycle_in(graph) == []


def test_imports_inside_functions_close_only_known_rings():
    """ARCHITECTURE.md says why these exist; the list may only shrink."""
    graph = import_graph(functions=True)
    for name, others in RINGS.items():
        assert others <= graph[name], f"{name}: delete {sorted(others - graph[name])} from RINGS"
    without = {name: found - RINGS.get(name, set()) for name, found in graph.items()}
    assert cycle_in(without) == []
    for name, others in RINGS.items():
        for other in others:
            assert reaches(without, other, name), f"delete {name} -> {other} from RINGS: it closes no ring"


def test_a_ring_is_found():
    files = {"a": "import b", "b": "def run():\n    import c", "c": "from a import x", "d": "import a"}
    for functions, ring in ((True, ["a", "b", "c", "a"]), (False, [])):
        graph = {
            name: imported(name, pathlib.Path(name + ".py"), text, set(files), functions)
            for name, text in files.items()
        }
        assert cycle_in(graph) == ring
