"""NVRTC: CUDA C to a cubin, in process. The library is found and loaded when it is first used."""

from __future__ import annotations

import ctypes
import functools
import glob
import importlib.util
import os
import re
from collections.abc import Iterator, Sequence

from kiln import errors, knobs


class CudaCompilationError(errors.UserError):
    """CUDA C that does not compile, with NVRTC's log.

    line    of the first error in the source, counted from 1; 0 if unknown
    log     everything NVRTC said
    """

    def __init__(self, message: str, name: str = "", line: int = 0, log: str = ""):
        super().__init__(message)
        self.name, self.line, self.log = name, line, log

    def __reduce__(self) -> tuple:
        return type(self), (str(self), self.name, self.line, self.log)


def compile_to_cubin(source: str, name: str, row: str, options: Sequence[str]) -> tuple[bytes, str]:
    """The cubin for a row of the target table, and the symbol that `name` has in it."""
    library = _library()
    file = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', name) or 'source'}.cu"
    program = ctypes.c_void_p()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), file.encode(), 0, None, None))
    try:
        _check(library, library.nvrtcAddNameExpression(program, name.encode()))
        full = [f"--gpu-architecture={row}", "--std=c++17", "-lineinfo", *_include_options(), *options]
        encoded = (ctypes.c_char_p * len(full))(*(option.encode() for option in full))
        if library.nvrtcCompileProgram(program, len(full), encoded) != 0:
            raise _explain(source, name, file, _text(library, program, "ProgramLog"))
        symbol = ctypes.c_char_p()
        _check(library, library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(symbol)))
        return _bytes(library, program, "CUBIN"), (symbol.value or b"").decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def nvrtc_version() -> tuple[int, int]:
    """The release of NVRTC in use."""
    return _version(_library())


def _version(library: ctypes.CDLL) -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(library, library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def nvrtc_path() -> str:
    """Where NVRTC was found."""
    return _library()._name


# -- Errors ------------------------------------------------------------------------------------------------------------


def _explain(source: str, name: str, file: str, log: str) -> CudaCompilationError:
    first = re.search(rf"^{re.escape(file)}\((\d+)\):.*error", log, re.MULTILINE)
    line = int(first[1]) if first else 0
    lines = source.splitlines()
    text = [f"CUDA C of {name!r} does not compile"]
    if 0 < line <= len(lines):
        text[0] += f": line {line}"
        text.append(f"{line:5} | {lines[line - 1]}")
    text.append(log.strip())
    return CudaCompilationError("\n".join(text), name, line, log)


def _check(library: ctypes.CDLL, result: int) -> None:
    if result != 0:
        raise errors.InternalError(f"NVRTC: {library.nvrtcGetErrorString(result).decode()}")


def _bytes(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(size.value, 1))
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw[: size.value]


def _text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    return _bytes(library, program, what).rstrip(b"\0").decode(errors="replace")


# -- Finding -----------------------------------------------------------------------------------------------------------


def _library() -> ctypes.CDLL:
    return _load(knobs.nvrtc, knobs.cuda_home() or "")


@functools.cache
def _load(setting: str, home: str) -> ctypes.CDLL:
    tried = []
    for path in [setting] if setting else _candidates(home):
        try:
            library = ctypes.CDLL(path)
            library.nvrtcGetErrorString.restype = ctypes.c_char_p
            _ = library.nvrtcGetCUBIN
            _load_builtins(library)
        except (OSError, AttributeError) as error:
            tried.append(f"{path}: {error}")
            continue
        return library
    hint = "set KILN_NVRTC to the library, or install the package nvidia-cuda-nvrtc (pip install 'kiln[cuda]')"
    raise errors.UserError("NVRTC is not installed" + "".join(f"\n  {line}" for line in tried) + f"\nhint: {hint}")


def _load_builtins(library: ctypes.CDLL) -> None:
    """NVRTC opens a second library by its bare name when it compiles, and the loader does not look in the folder of a
    Python package: once opened by its path, the name is known."""
    folder = os.path.dirname(library._name)
    major, minor = _version(library)
    builtins = os.path.join(folder, f"libnvrtc-builtins.so.{major}.{minor}")
    if folder and os.path.isfile(builtins):
        ctypes.CDLL(builtins)


def _candidates(home: str) -> Iterator[str]:
    """Python packages first: they are pinned beside this one. Then the toolkit, then what the loader finds."""
    for folder in _package("nvidia"):
        # cu13/lib for CUDA 13, cuda_nvrtc/lib before; newest first. Not the builtins library beside it.
        for inside in ("cu13", "cu*", "cuda_nvrtc"):
            yield from sorted(glob.glob(os.path.join(folder, inside, "lib", "libnvrtc.so.[0-9]*")), reverse=True)
    for root in filter(None, (home, "/usr/local/cuda")):
        for inside in ("lib64", "lib", "targets/x86_64-linux/lib"):
            yield from sorted(glob.glob(os.path.join(root, inside, "libnvrtc.so*")))[:1]
    for folder in _package("torch"):
        yield from sorted(glob.glob(os.path.join(folder, "lib", "libnvrtc*.so*")))
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


def _include_options() -> list[str]:
    """The toolkit's headers (cuda_fp16.h, …) where they lie beside the library; nothing of Kiln needs them."""
    folder = os.path.dirname(nvrtc_path())
    places = [os.path.join(os.path.dirname(folder), "include")]
    places += [os.path.join(root, "include") for root in (knobs.cuda_home(), "/usr/local/cuda") if root]
    return [f"--include-path={place}" for place in places if os.path.isfile(os.path.join(place, "cuda_fp16.h"))][:1]


def _package(name: str) -> list[str]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    return list(spec.submodule_search_locations or []) if spec else []
