"""What a second process finds: nothing is parsed, emitted or compiled, and the result is the same."""

import os
import pathlib
import shutil
import subprocess
import sys

import kiln
import pytest

pytestmark = pytest.mark.cpu

PROGRAM = """
import sys
import numpy as np
import kiln
import kiln.language as kl

events = []
kiln.hooks.compile_end.add(lambda event: events.append(event.cached))

SCALE = kl.constexpr(3)

@kiln.jit
def helper(v):
    return v * SCALE

@kiln.jit
def kernel(x, y, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(y + i, helper(kl.load(x + i, mask=i < n)) + 1, mask=i < n)

x = np.arange(100, dtype=np.float32)
y = np.empty_like(x)
compiled = kernel[(2,)](x, y, 100, BLOCK=64)
assert (y == x * 3 + 1).all()
loaded = [m for m in ("kiln.frontend.entry", "kiln.frontend.emitter", "kiln._compiler") if m in sys.modules]
mapped = {line.split("/")[-1].split(".")[0] for line in open("/proc/self/maps") if "/kiln/_" in line}
print(events, loaded, sorted(mapped))
print(compiled.cache_key)
print(compiled.asm["asm"].split("\\n", 1)[1])
print(compiled.metadata)
print(compiled.n_regs, compiled.src.signature)
"""


def test_a_second_process_neither_parses_nor_emits_and_loads_no_compiler(place):
    cold = place.run(PROGRAM, fresh=True).split("\n", 1)
    everything = ["kiln.frontend.entry", "kiln.frontend.emitter", "kiln._compiler"]
    assert cold[0] == f"[False] {everything} ['_compiler', '_kiln']"
    warm = place.run(PROGRAM, fresh=True).split("\n", 1)
    assert warm[0] == "[True] [] ['_kiln']"
    assert warm[1] == cold[1], "stages are made of the stored tile IR when asked for"


def test_without_a_cache_nothing_is_kept(place):
    for _ in range(2):
        assert place.run(PROGRAM, kiln_cache=0).startswith("[False]")
    assert not place.root.exists()


def test_the_cache_of_a_user_is_below_the_cache_home(place):
    home = place.folder / "home"
    for expected in ("[False]", "[True]"):
        assert place.run(PROGRAM, kiln_cache=1, xdg_cache_home=home).startswith(expected)
    root = home / "kiln" / "artifacts"
    assert root.is_dir() and root.stat().st_mode & 0o777 == 0o700


def test_descriptors_that_a_kernel_makes_are_known_without_its_syntax_tree(place):
    program = """
    import sys
    import numpy as np
    import kiln
    import kiln.language as kl

    @kiln.jit
    def describe(x, n, stride):
        return kl.make_tensor_descriptor(x, shape=[n, n], strides=[stride, 1], block_shape=[8, 8])

    @kiln.jit
    def kernel(x, y, n, row):
        describe(y, n, row).store([0, 0], describe(x, n, row).load([0, 0]))

    print(kernel.find_strides(), "kiln.frontend.strides" in sys.modules)
    x, y = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros((8, 8), np.float32)
    kernel[(1,)](x, y, 8, 8)
    assert (x == y).all()
    """
    for parsed in (True, False):
        assert place.run(program, fresh=True) == f"(['row'], []) {parsed}\n"
    changed = program.replace("[stride, 1]", "[n, 1]").replace("8, 8)\n    assert", "8, 9)\n    assert")
    assert place.run(changed, fresh=True) == "(['n'], []) True\n"


def test_code_for_a_gpu_is_found_without_starting_the_assembler(place):
    from kiln import toolchain

    if toolchain.ptxas() is None:
        pytest.skip("there is no ptxas")
    program = """
    import sys
    import kiln
    import kiln.language as kl

    events = []
    kiln.hooks.compile_end.add(lambda event: events.append(event.cached))

    @kiln.jit
    def kernel(x, y, n, BLOCK: kl.constexpr):
        i = kl.arange(0, BLOCK)
        kl.store(y + i, kl.exp(kl.load(x + i, mask=i < n)), mask=i < n)

    for warps in (4, 8):
        compiled = kernel.warmup(kl.float32, kl.float32, 100, BLOCK=256, num_warps=warps)
    print(events, "subprocess" in sys.modules)
    print(compiled.cache_key, compiled.metadata, compiled.artifact.binary)
    print(compiled.asm["ptx"])
    """
    cold = place.run(program, fresh=True, kiln_target="sm_90a").split("\n", 1)
    warm = place.run(program, fresh=True, kiln_target="sm_90a").split("\n", 1)
    assert cold[0] == "[False, False] True" and warm[0] == "[True, True] False"
    assert warm[1] == cold[1] and ".target sm_90a" in warm[1]
    assert place.run(program, kiln_target="sm_100a").startswith("[False, False]")
    assert place.run(program, kiln_target="sm_90a", kiln_ptxas="none").startswith("[False, False]")


def test_a_broken_compiler_library_is_reported_and_cached_code_still_runs(tmp_path):
    package = pathlib.Path(kiln.__file__).parent
    (tmp_path / "kiln").mkdir()
    for file in package.iterdir():
        (tmp_path / "kiln" / file.name).symlink_to(file)
    (own,) = (tmp_path / "kiln").glob("_kiln.*.so")
    (compiler,) = (tmp_path / "kiln").glob("_compiler.*.so")
    shutil.copy(own.resolve(), tmp_path / "own")  # it looks for the compiler in its own folder
    own.unlink()
    (tmp_path / "own").rename(own)
    program = """
import numpy as np, kiln, kiln.language as kl

@kiln.jit
def fill(x, value, N: kl.constexpr):
    kl.store(x + kl.arange(0, N), value)

x = np.zeros(32, np.float32)
try:
    fill[(1,)](x, 3.0, N=32)
    print(x.sum())
except ImportError as problem:
    print(problem.name, problem)
"""
    (tmp_path / "program.py").write_text(program)

    def run(**switches):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "KILN_CACHE": str(tmp_path / "cache"), **switches}
        command = [sys.executable, str(tmp_path / "program.py")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert run() == "96.0\n"
    with open(compiler.resolve(), "rb") as file:
        head = bytearray(file.read(100_000))  # contains the build id
    head[18:20] = (183).to_bytes(2, "little")  # another machine's ELF header
    compiler.unlink()
    compiler.write_bytes(head)
    assert run() == "96.0\n", "kept code needs no compiler"
    told = run(KILN_CACHE="0")
    assert told.startswith(
        "kiln._compiler expected the compiler beside the runtime (because a kernel is to be compiled"
    )
    assert compiler.name in told, "what the loader says"
    compiler.unlink()
    assert "got: No module named 'kiln._compiler'; install Kiln anew" in run()
