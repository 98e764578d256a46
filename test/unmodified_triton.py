"""Runs programs that were written for Triton, unmodified, from checkouts that you have: tutorials, tests of libraries.

    python test/unmodified_triton.py tutorials  DIR/triton/python/tutorials
    python test/unmodified_triton.py liger      DIR/Liger-Kernel            test/transformers/test_softmax.py
    python test/unmodified_triton.py fla        DIR/flash-linear-attention  tests/ops/test_simple_gla.py -k chunk
    python test/unmodified_triton.py flaggems   DIR/FlagGems                tests/test_reduction_ops.py
    python test/unmodified_triton.py triton     DIR/triton                  python/test/unit/language/test_core.py

Nothing is downloaded: check out https://github.com/triton-lang/triton (release 3.6), linkedin/Liger-Kernel,
fla-org/flash-linear-attention and FlagOpen/FlagGems, and run this with a Python that has torch, pytest and the
library's requirements (transformers, einops, pandas, tabulate, PyYAML, …) and can import Kiln: PYTHONPATH=build/python.
Triton need not be installed, and is not used if it is. Arguments after the directory are passed to pytest.

Kernels and tests are not changed. On a machine without a GPU the *host* code of the libraries is made to use the CPU
as its device (HOST_CODE and pretend_cpu_device below); tests that name "cuda" themselves need a GPU. Failures are shown
as they happen, with a summary at the end. Triton's own unit tests take `--device`, which is cpu if there is no GPU;
their helpers (triton._internal_testing) come from the checkout.

Results of earlier runs; each failure was looked into:
- Liger's cross entropy at 32,000 columns: compared with float64, 894 elements of torch's reference are outside the
  test's tolerance and none of the kernel's. Its bf16 GEGLU passes.
- Liger's GRPO gives NaN: one of its own loads reads past the end of an array; KILN_CHECK=bounds names it.
- flash-linear-attention's deltaformer in f16: no NaN in its tests, nor in 18 cases whose buffers were filled with NaN.
- Files of the libraries run one after another on two busy cores, one or two cases of each test, with 12 to 25 s for a
  case and 45 to 60 s for a file. 166 files of 208 were begun; the rest need several GPUs, other compilers or data sets,
  or are models. flash-linear-attention: 226 passed, 47 too slow, 32 cut off with their file, 13 failed. FlagGems: 203,
  4, 7, 10; Liger: 239, 13, 11, 26. Fixed since: tl.core.get_int_dtype in a kernel (3), a typed address as an argument
  (3), TRITON_CACHE_MANAGER (1), and in this harness caplog (2) and torch.cpu.manual_seed (2). The other failures are in
  host code: it asks for a driver (7), CUDA tensors (9), other versions of transformers (19), variables that exist only
  for GPUs (1), a package that the environment lacks (1).
- Liger tests that a second backward through a gradient written in place fails with Liger's own message; the message
  is torch's, as Kiln counts the writes of kernels and autograd notices first.
- FlagGems' addcdiv in f16 and bf16 at 16x7x57x32x29: torch.randn draws zeros on the CPU (some 200 places of 5,924,352
  have 0 / 0 in bf16), where reference and kernel are both NaN and the test treats NaNs as unequal; it passes if they
  count as equal. Its where_self_out asks for a GPU, and processes that it spawns look for a driver.
- Of 1,860 specialisations that these tests made on the CPU, 1,857 also compiled for sm_90a, and 3 ran out of shared
  memory (fixed since).
- Of 1,495 specialisations of 285 kernels that they ask for on the CPU (tuners: three configurations; collected without
  running them, so without tests whose reference takes long) 659 were compiled, each kernel at least once, for sm_80
  (623), sm_89 (447), sm_90a (447), sm_100a (447) and sm_120a (457), to machine code: 2,421 compiles, of which 9 failed
  with an internal compiler error, by two causes, both fixed since; 338 spill; none ran out of shared memory.
- flash-linear-attention once more on the CPU, two cases of each test, 80 to 95 s for a case, at the lowest priority on
  a busy machine: 17 files of the other two thirds were begun. All 14 tests of test_parallax.py passed; of the rest 30
  passed, 18 were skipped, 6 took too long, and 3 files took more than 120 s to import. None failed.
- On the PTX emulator with plans for sm_90a, small cases of 29 tests of its ops, 25 s for a case: 17 passed, 12 took
  too long, no results were wrong. parallax_decode_kernel, one of those fixed, passed there for sm_80.
- On an H200, the first and the last case of each test, 15 processes, 20 to 32 s for a test, tuners with two
  configurations, torch.compile off (TORCHDYNAMO_DISABLE=1: inductor inspects Triton's backends, of which Kiln has
  none; 28 tests). Liger: 396 passed, none failed. FlagGems: 690 passed, 11 failed: 4 too slow; 4 assign a constexpr
  a second time and 1 did not compile, both fixed since; 2 count processes that write a cache of its own.
  flash-linear-attention, a third of its files: 129 passed, 12 too slow, 2 need a newer Triton, 5 fixed since, 2
  numerical (gradients that are 0 in exact arithmetic; 0.0054 where 0.005 is allowed, of a model in bf16).
- Triton's own tests on a GPU: of 3,125, 2,128 assert text of its IR or of PTX (in 153 of them, about warp
  specialisation and locality of threads, before numbers are compared; in nearly all others after correct numbers), 891
  the wording of errors or of kernels' prints; 47 cases expect errors for reductions that Kiln supports.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import types
from typing import Any

# Module → its text and the replacement, on a machine without a GPU. Only host code that selects the device.
HOST_CODE = {
    # "if device == 'cpu': device = 'cuda'"
    "fla.utils._device": ("        device = 'cuda'\n", "        device = 'cpu'\n"),
    # FlagGems has no vendor whose device is the CPU: use the generic one with another device.
    "_nvidia": ('device_name="cuda"', 'device_name="cpu"'),
}

# Environment of a library's tests on a machine without a GPU.
ENVIRONMENT = {
    "flaggems": {"GEMS_VENDOR": "nvidia"},
}

# Where a checkout has its packages.
SOURCES = {"liger": "src", "fla": "", "flaggems": "src", "triton": ""}

# Tutorials in numerical order, with what each prints at the end on success.
TUTORIALS = {
    "01-vector-add": "maximum difference between torch and triton",
    "02-fused-softmax": "",
    "03-matrix-multiplication": "Triton and Torch match",
    "04-low-memory-dropout": "output (seed = 512)",
    "05-layer-norm": "",
    "06-fused-attention": "",
    "07-extern-functions": "maximum difference between torch and triton",
    "08-grouped-gemm": "",
    "10-block-scaled-matmul": "",
    "11-programmatic-dependent-launch": "",
}


class Patched(importlib.machinery.SourceFileLoader):
    """Loads a module of HOST_CODE with its text replaced."""

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = self.get_data(path).decode()
        old, new = HOST_CODE[fullname]
        if old not in text:
            raise SystemExit(f"{path}: expected {old.strip()!r} in it; the library has changed, see HOST_CODE")
        return self.source_to_code(text.replace(old, new).encode(), path)


class PatchingFinder(importlib.machinery.PathFinder):
    """Finds the modules of HOST_CODE wherever the usual finder does."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in HOST_CODE:
            return None
        spec = super().find_spec(fullname, path, target)
        if spec is not None and spec.origin:
            spec.loader = Patched(fullname, spec.origin)
        return spec


class ShowAtOnce:
    """A pytest plugin that shows failures as they happen, and counts."""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            text = report.longreprtext.strip().splitlines()
            shown = [line for line in text if line.startswith("E ")][:4] or text[-1:]
            print(f"\nFAILED {report.nodeid} ({report.when})\n" + "\n".join(f"    {line[:200]}" for line in shown))
            sys.stdout.flush()


class Philox:
    """The part of a device's generator that FlagGems uses: a seed and how many numbers were drawn."""

    def __init__(self, torch: Any):
        self.state = torch.tensor([2025, 0], dtype=torch.int64).view(torch.uint8)

    def get_state(self) -> Any:
        return self.state.clone()

    def set_state(self, state: Any) -> None:
        self.state = state


def pretend_cpu_device() -> None:
    """Makes `torch.cpu` provide what host code asks of `torch.cuda`: one device with number 0."""
    import contextlib

    import torch

    if torch.cuda.is_available():
        return
    cpu: Any = torch.cpu
    cpu.current_device = lambda: 0
    cpu.device = lambda index=None: contextlib.nullcontext()
    cpu.set_stream = lambda stream: None
    cpu.empty_cache = lambda: None
    cpu.manual_seed = torch.manual_seed
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    facts = types.SimpleNamespace(
        name="cpu", total_memory=memory, multi_processor_count=os.cpu_count() or 1, major=0, minor=0
    )
    cpu.get_device_properties = lambda device=None: facts
    cpu.default_generators = [Philox(torch)]
    torch.cuda.get_device_name = lambda device=None: "cpu"  # type: ignore[assignment]
    sys.meta_path.insert(0, PatchingFinder)  # type: ignore[arg-type]


def load_testing_helpers(root: str) -> None:
    """Loads `triton._internal_testing`, which Triton's own tests import; it belongs to its tests, not to what Kiln
    replaces."""
    name = "triton._internal_testing"
    path = pathlib.Path(root, "python", "triton", "_internal_testing.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    # Reference products that Triton's tests compute with its own cuBLAS binding.
    compiler, library = types.ModuleType("triton._C"), types.ModuleType("triton._C.libtriton")
    library.nvidia = types.SimpleNamespace(cublas=types.SimpleNamespace(CublasLt=Cublas))  # type: ignore[attr-defined]
    compiler.libtriton = library  # type: ignore[attr-defined]
    sys.modules.update({"triton._C": compiler, "triton._C.libtriton": library})


def reach_programs() -> None:
    """Makes Kiln visible to programs that tests start in another Python, through sitecustomize."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    text = "import kiln.as_triton\nkiln.as_triton.install(children=True)\n"
    pathlib.Path(folder.name, "sitecustomize.py").write_text(text)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder.name, *map(os.path.abspath, filter(None, sys.path))])


class Cublas:
    """`triton._C.libtriton.nvidia.cublas.CublasLt`, implemented with torch."""

    def __init__(self, workspace: Any):
        pass

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """c = a @ bᵀ"""
        import torch

        c.copy_(torch.matmul(a.to(torch.float32), b.to(torch.float32).T))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """d = alpha · a @ bᵀ + beta · c"""
        import torch

        d.copy_(alpha * torch.matmul(a.to(torch.float32), b.to(torch.float32).T) + beta * c.to(torch.float32))


def tests_of(what: str, root: str, words: list[str]) -> int:
    """Runs pytest in this process, in the checkout."""
    import kiln.as_triton

    kiln.as_triton.install(children=True)
    import pytest
    import torch

    root = os.path.abspath(root)
    sys.path[:0] = [os.path.join(root, SOURCES[what]), root]
    os.chdir(root)
    if not torch.cuda.is_available():
        os.environ.update(ENVIRONMENT.get(what, {}))
    pretend_cpu_device()
    if what == "triton":
        load_testing_helpers(root)
        reach_programs()
        words = [*words, "--device", "cuda" if torch.cuda.is_available() else "cpu"]
    quiet = ["-q", "-p", "no:cacheprovider", "-o", "log_cli=false", "--tb=short", "--show-capture=no", "-rN"]
    return int(pytest.main([*quiet, *words], plugins=[ShowAtOnce()]))


# Tutorials that are also tests: run their smallest cases.
TESTED = {"06-fused-attention": "64-128-2-1]"}


def tutorial(path: str, benchmarks: bool) -> int:
    """Runs one tutorial as `kiln run --as-triton` does, without its benchmarks, which take hours on a CPU."""
    import runpy

    import kiln.as_triton
    import kiln.testing

    kiln.as_triton.install()
    if not benchmarks:
        kiln.testing.Mark.run = lambda self, *args, **kwargs: None  # type: ignore[method-assign]
    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    selected = TESTED.get(pathlib.Path(path).stem)
    if selected:
        import pytest

        return int(pytest.main(["-q", "-p", "no:cacheprovider", "--tb=line", path, "-k", selected]))
    runpy.run_path(path, run_name="__main__")
    return 0


def tutorials(folder: str, timeout: int, benchmarks: bool, words: list[str]) -> int:
    """Runs each tutorial in a separate process; returns how many failed."""
    failed = 0
    for name, sign in TUTORIALS.items():
        path = pathlib.Path(folder, name + ".py").resolve()
        if words and not any(name.startswith(word) for word in words):
            continue
        command = [sys.executable, __file__, "tutorial", str(path), *(["--benchmarks"] if benchmarks else [])]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
            text = (done.stdout + done.stderr).strip()
            ok = done.returncode == 0 and sign in text
        except subprocess.TimeoutExpired:
            text, ok = f"no end within {timeout} s", False
        failed += not ok
        last = text.splitlines()[-1][:120] if text else ""
        print(f"{'pass' if ok else 'FAIL'}  {name:34} {last}", flush=True)
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tutorials", "tutorial", *SOURCES))
    parser.add_argument("path", help="the checkout, or the folder of the tutorials")
    parser.add_argument("--benchmarks", action="store_true", help="also run the benchmarks of tutorials")
    parser.add_argument("--seconds", type=int, default=300, help="time limit for each tutorial (default: 300)")
    options, words = parser.parse_known_args()
    if options.what == "tutorial":
        return tutorial(options.path, options.benchmarks)
    if options.what == "tutorials":
        return tutorials(options.path, options.seconds, options.benchmarks, words)
    return tests_of(options.what, options.path, words)


if __name__ == "__main__":
    sys.exit(main())
