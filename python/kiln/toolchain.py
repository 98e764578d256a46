"""Finds NVIDIA's tools where they are installed: ptxas, nvdisasm, libdevice. Kiln runs without them.

Each is looked for once: the switch that names it, the CUDA toolkit (CUDA_HOME, /usr/local/cuda, PATH), NVIDIA's Python
packages, and those inside an installed triton or torch. Without ptxas the driver assembles PTX when a kernel is loaded.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kiln import errors, knobs

# The newest PTX that each release of ptxas reads; a later release reads at least the last of these.
_PTX_OF_RELEASE = {
    (11, 0): 70, (11, 1): 71, (11, 2): 72, (11, 3): 73, (11, 4): 74, (11, 5): 75, (11, 6): 76, (11, 7): 77,
    (11, 8): 78, (12, 0): 80, (12, 1): 81, (12, 2): 82, (12, 3): 83, (12, 4): 84, (12, 5): 85, (12, 6): 85,
    (12, 7): 86, (12, 8): 87, (12, 9): 88, (13, 0): 90,
}  # fmt: skip


class Tool(NamedTuple):
    """One program or file of the toolkit."""

    path: str
    version: str  #: "13.0.88"; empty for a file
    found: str  #: how it was found: "KILN_PTXAS", "CUDA toolkit", "package nvidia", ...


def ptx_version(release: tuple[int, int]) -> int:
    """The newest PTX (major * 10 + minor) that this release of CUDA reads, as far as is known."""
    known = [version for known_release, version in _PTX_OF_RELEASE.items() if known_release <= release]
    return max(known, default=min(_PTX_OF_RELEASE.values()))


def ptxas() -> Tool | None:
    """The assembler in use, or None: the driver assembles."""
    return _program("ptxas", knobs.ptxas)


def nvdisasm() -> Tool | None:
    """The disassembler in use, or None."""
    return _program("nvdisasm", knobs.nvdisasm)


def libdevice() -> Tool | None:
    """CUDA's device library, or None."""
    return _file("libdevice.10.bc", knobs.libdevice)


def options() -> dict[str, Any]:
    """The tools for compiling for an NVIDIA GPU, as options of `_kiln.compile`."""
    result: dict[str, Any] = {}
    assembler = ptxas()
    if assembler is not None:
        release = tuple(int(part) for part in assembler.version.split(".")[:2])
        result["ptxas"], result["ptxas_version"] = assembler.path, assembler.version
        result["ptx_version"] = ptx_version((release[0], release[1]))
    else:
        driver = _driver_release()
        if driver is not None:
            result["ptx_version"] = ptx_version(driver)
    library = libdevice()
    if library is not None:
        result["libdevice"] = library.path
    return result


def disassemble(cubin: bytes) -> str:
    """The SASS of a cubin; of one compiled with `line_info`, with comments that name the lines of the source."""
    if not cubin.startswith(b"\x7fELF"):
        raise errors.UserError("expected a cubin (because PTX that the driver assembles has no SASS here), got PTX")
    tool = nvdisasm()
    if tool is None:
        raise errors.UserError(
            "expected nvdisasm (because SASS is its output), found none: set KILN_NVDISASM, or install the package "
            "nvidia-cuda-nvdisasm"
        )
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(prefix="kiln-sass") as folder:
        path = os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(cubin)
        done = subprocess.run(
            [tool.path, "-c", "--print-line-info", path],
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",
        )
    if done.returncode:
        raise errors.InternalError(f"{tool.path} failed: {done.stderr.strip()}", stage="sass")
    return done.stdout


# -- Looking -----------------------------------------------------------------------------------------------------------


def _program(name: str, setting: str) -> Tool | None:
    return _find_program(name, setting, knobs.cuda_home() or "")


@functools.cache
def _find_program(name: str, setting: str, home: str) -> Tool | None:
    if setting == "none":
        return None
    if setting:
        version = _version(setting)
        if version is None:
            raise errors.UserError(f"KILN_{name.upper()}: expected the program {name}, got {setting!r}")
        return Tool(setting, version, f"KILN_{name.upper()}")
    for path, found in _candidates(os.path.join("bin", name), home):
        version = _version(path)
        if version is not None:
            return Tool(path, version, found)
    return None


def _file(name: str, setting: str) -> Tool | None:
    return _find_file(name, setting, knobs.cuda_home() or "")


@functools.cache
def _find_file(name: str, setting: str, home: str) -> Tool | None:
    if setting == "none":
        return None
    if setting:
        if not os.path.isfile(setting):
            raise errors.UserError(f"KILN_LIBDEVICE: no such file: {setting}")
        return Tool(setting, "", "KILN_LIBDEVICE")
    for path, found in _candidates(os.path.join("nvvm", "libdevice", name), home):
        if os.path.isfile(path):
            return Tool(path, "", found)
    return None


def _candidates(inside: str, home: str) -> Iterator[tuple[str, str]]:
    """Places where `inside`, a path within a toolkit, may be."""
    name = os.path.basename(inside)
    if home:
        yield os.path.join(home, inside), "CUDA_HOME"
    yield os.path.join("/usr/local/cuda", inside), "CUDA toolkit"
    for folder in os.get_exec_path():  # `shutil`, which knows more, takes milliseconds to import
        yield os.path.join(folder, name), "PATH"
    for folder in _package("nvidia"):
        for toolkit in ("cu13", "cuda_nvcc", "nvvm", "cuda_nvdisasm", "cu12"):
            yield os.path.join(folder, toolkit, inside), "package nvidia"
    for folder in _package("triton"):
        for place in ("bin", "lib"):
            yield os.path.join(folder, "backends", "nvidia", place, name), "package triton"
    for folder in _package("torch"):
        yield os.path.join(folder, "bin", name), "package torch"


def _package(name: str) -> list[str]:
    # Finding a package's folder does not import it (torch takes seconds).
    import importlib.util

    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or []) if spec else []


def _version(path: str) -> str | None:
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return None
    from kiln.runtime import cache

    # Starting a program takes longer than loading code, so its version is remembered; a failure is not.
    try:
        return cache.note_of_file("version", path, lambda: _ask_version(path))
    except _Silent:
        return None


class _Silent(Exception):
    """A program that does not print its version."""


def _ask_version(path: str) -> str:
    import subprocess

    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, encoding="utf-8", errors="backslashreplace", timeout=30
        ).stdout
    except (OSError, subprocess.SubprocessError):
        raise _Silent from None
    match = re.search(r"\bV(\d+\.\d+\.\d+)", said)
    if not match:
        raise _Silent
    return match[1]


def _driver_release() -> tuple[int, int] | None:
    """The CUDA release of the installed driver; None without one."""
    from kiln.cuda import devices

    return devices.driver_version() if devices.is_available() else None
