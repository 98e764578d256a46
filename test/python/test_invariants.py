"""What ARCHITECTURE.md says is absent, checked on the source."""

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
    """What each folder of C++ may include, by ARCHITECTURE.md's table: folders, or the beginnings of some."""
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
    # What holds no room: the precompiled header of the dialects, kiln-opt.
    assert {pathlib.Path(path).parts[:2] for path in without} <= {
        ("dialects", "Pch.h"),
        ("dialects", "Pch.cpp"),
        ("compiler", "tools"),
    }


def test_barriers_are_emitted_in_one_place():
    """So that kiln-verify-barriers, which asks the same function as that place, has seen every one."""
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
        for name in ("reference.py", "configs.py", "README.md"):
            assert (family / name).exists(), f"{family.name}/{name}"
