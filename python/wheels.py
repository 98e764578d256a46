"""Builds one wheel per interpreter into dist/, checks its size, what it exports and needs, and that it runs.

One build folder serves all interpreters: only the four binding files are compiled again for each.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# 23 of the compiler; 2.3 of the runtime, which has LLVM's object loader of its own so as not to load the compiler.
LIMIT_MEGABYTES = 28
# The oldest C library the distribution's LLVM archives link against (arc4random).
PLATFORM = "manylinux_2_36_x86_64"
ALLOWED_NEEDS = ("libc.so", "libm.so", "libstdc++.so", "libgcc_s.so", "libdl.so", "libpthread.so", "ld-linux")
BUILD_REQUIREMENTS = ("scikit-build-core", "pybind11")


def run(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}")
    return result.stdout


def find(name: str) -> str | None:
    """The interpreter of that name: on PATH, else among those that pyenv or uv keep."""
    homes = (pathlib.Path.home() / ".pyenv/versions", pathlib.Path.home() / ".local/share/uv/python")
    kept = [str(path) for home in homes for path in sorted(home.glob(f"*/bin/{name}"), reverse=True)]
    for candidate in (shutil.which(name), *kept):
        # A shim may be on PATH with nothing behind it.
        if candidate and subprocess.run([candidate, "-c", "import venv"], capture_output=True).returncode == 0:
            return candidate
    return None


def pins() -> list[str]:
    text = pathlib.Path("pyproject.toml").read_text()
    return [pin for pin in re.findall(r'"([^"]+==[^"]+)"', text) if pin.split("==")[0] in BUILD_REQUIREMENTS]


def build(interpreter: str, folder: pathlib.Path, dist: pathlib.Path) -> pathlib.Path:
    venv = folder / f"venv-{pathlib.Path(interpreter).name}"
    python = str(venv / "bin" / "python")
    if not venv.exists():
        run(interpreter, "-m", "venv", str(venv))
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "wheel==0.45.1", *sorted(set(pins())))
    with tempfile.TemporaryDirectory() as staging:
        run(python, "-m", "pip", "wheel", ".", "-q", "--disable-pip-version-check", "--no-deps",
            "--no-build-isolation", "-w", staging, f"-Cbuild-dir={folder}/wheel",
            "-Ccmake.define.CMAKE_C_COMPILER=clang-22", "-Ccmake.define.CMAKE_CXX_COMPILER=clang++-22",
            f"-Ccmake.define.Python_EXECUTABLE={venv.absolute()}/bin/python")  # fmt: skip
        (wheel,) = pathlib.Path(staging).glob("*.whl")
        run(python, "-m", "wheel", "tags", "--remove", "--platform-tag", PLATFORM, str(wheel))
        (wheel,) = pathlib.Path(staging).glob("*.whl")
        return pathlib.Path(shutil.move(wheel, dist / wheel.name))


def check(wheel: pathlib.Path) -> None:
    size = wheel.stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as archive:
        paths = [
            archive.extract(name, folder)
            for module in ("_kiln", "_compiler")
            for name in archive.namelist()
            if f"/{module}." in name and name.endswith(".so")
        ]
        symbols = "".join(run("nm", "-D", "--defined-only", path) for path in paths)
        exported = re.findall(r" [TDBVW] (\S+)", symbols)
        library = archive.extract("kiln/lib/libkiln_runtime.so", folder)
        needed = [
            name for file in (*paths, library) for name in re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", file))
        ]
        for file in ("include/kiln/runtime.h", "include/kiln/runtime.hpp", "cmake/kilnConfig.cmake"):
            archive.getinfo(f"kiln/{file}")
    print(f"{wheel.name}  {size:.1f} MB  exports {', '.join(exported)}  needs {', '.join(needed)}")
    if size > LIMIT_MEGABYTES:
        raise SystemExit(f"expected at most {LIMIT_MEGABYTES} MB, got {size:.1f}")
    if exported != ["PyInit__kiln", "PyInit__compiler"]:
        raise SystemExit(f"expected one exported symbol of each extension, got {exported}")
    if strange := [name for name in needed if not name.startswith(ALLOWED_NEEDS)]:
        raise SystemExit(f"expected only the C and C++ run-time libraries to be needed, got {strange}")


def check_running(wheel: pathlib.Path, interpreter: str, folder: pathlib.Path) -> None:
    """Installs the wheel as a user would, apart from the source tree, and runs the README's kernel and the demo."""
    readme = pathlib.Path("README.md").read_text()
    example = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)[0]
    venv = (folder / f"venv-installed-{pathlib.Path(interpreter).name}").absolute()
    python = str(venv / "bin" / "python")
    if not venv.exists():
        run(interpreter, "-m", "venv", str(venv))
    pip = (python, "-m", "pip", "install", "-q", "--disable-pip-version-check")
    run(*pip, "numpy==2.3.5")
    run(*pip, "--no-deps", "--force-reinstall", str(wheel))
    with tempfile.TemporaryDirectory() as elsewhere:
        program = pathlib.Path(elsewhere) / "example.py"
        program.write_text(example)
        # Isolated: neither PYTHONPATH nor the working directory may lend it anything.
        run(python, "-I", str(program))
        run(str(venv / "bin" / "kiln"), "info")
        run(str(venv / "bin" / "kiln"), "bench", "--help")
        run(str(venv / "bin" / "kiln"), "config", "--cmake-dir")
        run(python, "-I", "-m", "kiln.demo", "--device", "cpu", "--only", "add")
        run(python, "-I", "-m", "compileall", "-q", str(next(venv.glob("lib/python*/site-packages/kiln"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--dist", type=pathlib.Path, default=pathlib.Path("dist"))
    parser.add_argument("interpreters", nargs="+")
    arguments = parser.parse_args()
    arguments.dist.mkdir(exist_ok=True)
    built = 0
    for name in arguments.interpreters:
        interpreter = find(name)
        if interpreter is None:
            print(f"{name}: not found on this machine, no wheel for it", file=sys.stderr)
            continue
        wheel = build(interpreter, arguments.build, arguments.dist)
        check(wheel)
        check_running(wheel, interpreter, arguments.build)
        built += 1
    if not built:
        raise SystemExit("no interpreter to build for")


if __name__ == "__main__":
    main()
