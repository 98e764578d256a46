"""Compares the code that the library launches on a GPU with that of another commit, with no GPU.

    python test/kernels/same_code.py COMMIT [NAME ...]      NAME: a part of the names of calls, such as rms_norm

Every call of a wide sweep is planned as on an H200, with and without dependent launches, by both libraries (both with
the front end and the compiler of this tree), and its launches are compiled to PTX of sm_90a. The PTX must be the same
except for the names and positions of parameters and the numbering of registers: registers are renamed in the order in
which instructions other than parameter loads name them. A parameter of one must correspond to the same parameter of the
other wherever both are read; the table of these pairs is printed. PTX that differs is assembled: it must give the same
machine code (except for the places of parameters), or have no more instructions, in loops and in total, no more
registers and no more bytes spilled.
"""

from __future__ import annotations

import difflib
import functools
import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = (1, 44, 130, 777, 4096)
WIDTHS = (512, 896, 1000, 2048, 3584, 4096, 5120, 6656, 7168, 8192, 11008, 13824, 14336, 16384, 18944, 28672, 32768)
LONG = ((4096, 65536), (64, 131072), (4, 262144), (2, 1 << 21))
TYPES = ("float16", "bfloat16", "float32")


# ---- the sweep -------------------------------------------------------------------------------------------------------
def row_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of kernels that reduce rows: all plans, and the important forms of some."""
    from kiln.kernels import norm, softmax
    from kiln.kernels.case import blank, blank_like

    for dtype in TYPES:
        shapes = [(rows, n) for rows in ROWS for n in WIDTHS] + list(LONG) + [(4096, 64), (100_000, 96), (16384, 8192)]
        for rows, n in shapes:
            x, w, size = blank((rows, n), dtype), blank((n,), dtype), f"{rows}x{n} {dtype}"
            yield f"rms_norm {size}", lambda x=x, w=w: norm.rms_norm(x, w)
            yield f"residual_rms_norm {size}", lambda x=x, w=w: norm.residual_rms_norm(x, blank_like(x), w)
            yield f"layer_norm {size}", lambda x=x, w=w: norm.layer_norm(x, w, blank_like(w))
            yield f"softmax {size}", lambda x=x: softmax(x)
        for rows, n in ((1, 4096), (777, 1000), (4096, 96), (4096, 4096), (4096, 32768), (2, 1 << 21)):
            size = f"{rows}x{n} {dtype}"
            x, w = blank((rows, n), dtype), blank((n,), "float32")
            other = blank((rows, n), "float32" if dtype == "float16" else "float16")
            wide, residual = blank((rows, 2 * n), dtype)[:, ::2], blank_like(x)
            yield f"rms_norm before {size}", lambda x=x, w=w: norm.rms_norm(x, w, cast="before")
            yield f"rms_norm in place {size}", lambda x=x, w=w: norm.rms_norm(x, w, out=x)
            yield f"rms_norm to another type {size}", lambda x=x, w=w, o=other: norm.rms_norm(x, w, out=o)
            yield f"rms_norm strided {size}", lambda x=wide, w=w: norm.rms_norm(x, w)
            for rounded in (True, False):
                name = f"residual_rms_norm before, rounded {rounded} {size}"
                yield name, lambda x=x, o=other, w=w, r=rounded: norm.residual_rms_norm(
                    x, o, w, cast="before", round_sum=r)  # fmt: skip
            yield f"residual_rms_norm in place {size}", lambda x=x, o=residual, w=w: norm.residual_rms_norm(
                x, o, w, out=(x, o))  # fmt: skip
            yield f"layer_norm no bias {size}", lambda x=x, w=w: norm.layer_norm(x, w)
            yield f"layer_norm before {size}", lambda x=x, w=w: norm.layer_norm(x, w, blank_like(w), cast="before")
            yield f"layer_norm strided {size}", lambda x=wide, w=w: norm.layer_norm(x, w, blank_like(w))
            yield f"softmax strided {size}", lambda x=wide: softmax(x)
            yield f"softmax in place {size}", lambda x=x: softmax(x, out=x)


def flat_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of elementwise kernels."""
    from kiln.kernels import activation, elementwise, embedding, optimizer
    from kiln.kernels.case import blank, blank_like

    for dtype in TYPES:
        for tokens, size in ((1, 4096), (2048, 4096), (100_000, 1000), (777, 896)):
            table, ids = blank((32000, size), dtype), blank((tokens,), "int64")
            yield f"embedding {tokens}x{size} {dtype}", lambda t=table, i=ids: embedding(i, t)
        for rows in (*ROWS, 70_000):
            for n in WIDTHS if rows < 70_000 else (96, 512):
                size = f"{rows}x{n} {dtype}"
                x, both, bias = blank((rows, n), dtype), blank((rows, 2 * n), dtype), blank((n,), dtype)
                strided = both[:, ::2]
                yield f"swiglu {size}", lambda x=x: activation.swiglu(x, blank_like(x))
                yield f"swiglu halves {size}", lambda x=both: activation.swiglu(x)
                yield f"swiglu interleaved {size}", lambda x=both: activation.swiglu(x, layout="interleaved")
                yield f"swiglu strided {size}", lambda x=strided: activation.swiglu(x, x)
                for how in ("none", "tanh"):
                    yield f"bias_gelu {how} {size}", lambda x=x, b=bias, h=how: activation.bias_gelu(
                        x, b, approximate=h)  # fmt: skip
                yield f"bias_gelu no bias {size}", lambda x=x: activation.bias_gelu(x)
                yield f"bias_gelu strided {size}", lambda x=strided, b=bias: activation.bias_gelu(x, b)
    for dtype in (*TYPES, "int8", "bool"):
        for n in (1000, 1 << 24):
            x = blank((n,), dtype)
            yield f"add {n} {dtype}", lambda x=x: elementwise.add(x, blank_like(x))
    for dtype, moments in (("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16"),
                           ("float16", "float32")):  # fmt: skip
        for n in (1, 1000, 4096 * 64, 1 << 20, 1 << 24, 100_000_000):
            for master in (False, True):
                p, m, w = blank((n,), dtype), blank((n,), moments), blank((n,), "float32") if master else None
                for step in (3, blank((1,), "int64")):
                    yield f"adamw {n} {dtype} {moments} {master} {step}", lambda p=p, m=m, w=w, s=step: optimizer.adamw(
                        p, blank_like(p), m, blank_like(m), s, master=w)  # fmt: skip
    p, q = blank((1 << 20,), "float32"), blank((1000,), "bfloat16")
    for lists in ([p], [p, q], [q]):
        yield f"adamw lists {len(lists)}", lambda x=lists: optimizer.adamw(
            x, [blank_like(p) for p in x], [blank_like(p) for p in x], [blank_like(p) for p in x], 3)  # fmt: skip


def token_calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of kernels over tokens and heads."""
    from kiln.kernels import attention, decode_attention, rope
    from kiln.kernels.case import blank

    for dtype in TYPES:
        for tokens in (1, 44, 777, 4096):
            for heads, kv_heads, size in ((32, 8, 128), (14, 2, 64), (12, 0, 96), (7, 1, 80), (8, 8, 256)):
                q = blank((2, tokens, heads, size), dtype)
                k = blank((2, tokens, kv_heads, size), dtype) if kv_heads else None
                for part in (size, size // 2):
                    cos = blank((8192, part // 2), "float32")
                    places = {"": {}, " by positions": {"positions": blank((2, tokens), "int64")},
                              " from memory": {"offset": blank((1,), "int32")}}  # fmt: skip
                    for where, given in places.items():
                        for turned in (False, True):
                            name = f"rope {tokens} {heads}/{kv_heads}x{size} of {part} {dtype}{where} {turned}"
                            yield name, lambda q=q, k=k, c=cos, g=given, t=turned: rope(
                                q, k, c, c, interleaved=t, **g)  # fmt: skip
        for batch, heads, kv_heads, size, length in ((1, 32, 8, 128, 4096), (64, 32, 8, 128, 1000), (3, 14, 2, 64, 77),
                                                     (2, 8, 8, 256, 131072), (2, 7, 1, 80, 500)):  # fmt: skip
            q, cache = blank((batch, heads, size), dtype), blank((batch, length, kv_heads, size), dtype)
            lengths, name = blank((batch,), "int32"), f"decode {batch} {heads}/{kv_heads}x{size} {length} {dtype}"
            yield name, lambda q=q, c=cache, n=lengths: decode_attention(q, c, c, n)
            yield f"{name} lse", lambda q=q, c=cache, n=lengths: decode_attention(q, c, c, n, return_lse=True)
            pages, table = blank((100, 64, kv_heads, size), dtype), blank((batch, 1 + length // 64), "int32")
            yield f"{name} paged", lambda q=q, c=pages, n=lengths, t=table: decode_attention(
                q, c, c, n, block_table=t)  # fmt: skip
        for batch, heads, kv_heads, size, queries, tokens in (
            (1, 32, 8, 128, 4096, 4096), (2, 14, 2, 64, 1000, 1000), (1, 8, 8, 256, 512, 2048), (1, 7, 1, 80, 100, 333),
        ):  # fmt: skip
            q, k = blank((batch, queries, heads, size), dtype), blank((batch, tokens, kv_heads, size), dtype)
            strided = blank((batch, tokens, kv_heads, 2 * size), dtype)[..., ::2]
            for causal in (False, True):
                name = f"attention {batch} {heads}/{kv_heads}x{size} {queries}x{tokens} {dtype} {causal}"
                yield name, lambda q=q, k=k, c=causal: attention(q, k, k, causal=c)
                yield f"{name} lse", lambda q=q, k=k, c=causal: attention(q, k, k, causal=c, return_lse=True)
                yield f"{name} turned", lambda q=q, k=k, c=causal: attention(
                    q, k, k, causal=c, softmax_scale=-0.1)  # fmt: skip
                yield f"{name} strided", lambda q=q, k=strided, c=causal: attention(q, k, k, causal=c)


def calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    yield from row_calls()
    yield from flat_calls()
    yield from token_calls()


# ---- one library -----------------------------------------------------------------------------------------------------
def collect(names: list[str]) -> dict[str, list[tuple[str, tuple[int, ...], str, list[str]]]]:
    """For each call: the kernel, the grid, the PTX and the parameter names of each launch."""
    from kiln.frontend.signature import flat_parameters
    from kiln.kernels.launches import launches_of
    from kiln.kernels.machine import Machine, launch_options

    h200 = Machine(132, largest_cluster=16, l2_bytes=60 << 20)
    known: dict[Any, str] = {}
    found: dict[str, Any] = {}
    for name, run in calls():
        if names and not any(name.startswith(part) for part in names):
            continue
        for dependent in (False, True):
            with launch_options(**({"pdl": True} if dependent else {})):
                launches = launches_of(run, h200)
            of_call = found[name + " dependent" * dependent] = []
            for launch in launches:
                options = tuple(sorted(launch.options.items()))
                key = (launch.kernel.__qualname__, launch.kernel.cache_key, launch.parameters, launch.disjoint, options)
                if key not in known:
                    artifact = launch.compile("sm_90a", "ptx")
                    known[key] = str(artifact.output)
                flat = [p.name for p in flat_parameters(launch.parameters)]
                of_call.append((launch.kernel.__name__, launch.grid, known[key], flat))
    return found


# ---- two of them -----------------------------------------------------------------------------------------------------
_PARAMETER = re.compile(r"ld\.param\.[\w.]+\s+(.*), \[(\w+?)_param_(\d+)(\+\d+)?\]")
_REGISTER = re.compile(r"%[a-z]+\d+|\$L\w+|KERNEL_param_\d+")


def canonical(ptx: str, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The instructions with registers and labels numbered in order of appearance, and which register holds which
    parameter."""
    lines: list[str] = []
    holders: dict[str, str] = {}
    declared: list[str] = []
    for line in ptx.splitlines():
        text = line.split("//")[0].strip() if not line.lstrip().startswith("//") else ""
        if not text or text.startswith((".reg", ".loc", ".file", ".section", "}", "{ .reg")) or ".param ." in text:
            if ".param ." in text:
                declared.append(text)
            continue
        found = _PARAMETER.match(text)
        if found:
            place = int(found[3])
            for i, register in enumerate(found[1].strip("{}").split(",")):
                label = names[place] if place < len(names) else f"hidden {place - len(names)}"
                holders[register.strip()] = label + (found[4] or "") + (f"[{i}]" if "," in found[1] else "")
            continue
        lines.append(text)
    numbers: dict[str, str] = {}
    kernel = re.search(r"\.entry (\w+)", ptx)
    symbol = kernel[1] if kernel else ""

    def rename(match: re.Match[str]) -> str:
        old = match[0]
        return numbers.setdefault(old, f"{re.sub(r'[0-9].*', '', old)}#{len(numbers)}")

    # The address of a parameter may be taken, to choose between two.
    holders.update({f"KERNEL_param_{i}": f"address of {name}" for i, name in enumerate(names)})
    text = [_REGISTER.sub(rename, line.replace(symbol, "KERNEL") if symbol else line) for line in lines]
    return text, {numbers[register]: label for register, label in holders.items() if register in numbers}


class Machine(NamedTuple):
    """What ptxas makes of PTX."""

    registers: int
    spilled: int
    instructions: tuple[str, ...]
    """Without where they are, and which parameters they read."""

    def __str__(self) -> str:
        loop = len(self.loops)
        return (f"{self.registers} registers, {self.spilled} bytes spilled, {len(self.instructions)} instructions,"
                f" {loop} in loops")  # fmt: skip

    @property
    def loops(self) -> list[str]:
        """The instructions between targets of backward branches and those branches."""
        inside: set[int] = set()
        places = {match[1]: i for i, line in enumerate(self.instructions) if (match := re.match(r"(\.L\S*):", line))}
        for i, line in enumerate(self.instructions):
            target = re.search(r"BRA\S*.*`\((\.L\S*)\)", line)
            # The last branch of a kernel, to itself, is not a loop.
            if target and target[1] in places and places[target[1]] < i - 1:
                inside.update(range(places[target[1]] + 1, i + 1))
        return [self.instructions[i] for i in sorted(inside) if not self.instructions[i].endswith(":")]

    def no_worse_than(self, other: Machine) -> bool:
        return (
            self.spilled <= other.spilled
            and -(-self.registers // 8) <= -(-other.registers // 8)  # registers are allocated in eights
            and len(self.loops) <= len(other.loops)
            and len(self.instructions) <= len(other.instructions)
        )


@functools.cache
def assembled(ptx: str) -> Machine:
    from kiln import toolchain

    tool = toolchain.ptxas()
    assert tool is not None, "ptxas is needed to compare what differs"
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = pathlib.Path(folder, "x.ptx"), pathlib.Path(folder, "x.cubin")
        source.write_text(ptx)
        said = subprocess.run([tool.path, "-arch=sm_90a", "-v", str(source), "-o", str(cubin)],
                              capture_output=True, text=True, check=True).stderr  # fmt: skip
        sass = toolchain.disassemble(cubin.read_bytes())
    lines = []
    for line in sass.splitlines():
        match = re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?);", line)
        label = re.match(r"\s*(\.L\S*:)", line)
        if match or label:
            lines.append(re.sub(r"c\[0x0\]\[0x[0-9a-f]+\]", "c[]", (match or label)[1]).strip())
    while lines and lines[-1] == "NOP":
        lines.pop()
    return Machine(int(re.search(r"Used (\d+) registers", said)[1]),
                   int(re.search(r"(\d+) bytes spill stores", said)[1]), tuple(lines))  # fmt: skip


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Prints the differences; returns how many calls differ."""
    wrong = 0
    pairs: dict[tuple[str, str], dict[str, set[str]]] = {}
    seen: dict[tuple[str, str], str] = {}
    verdicts: dict[str, int] = {}
    shown = 0
    for name in old:
        problem = ""
        if len(old[name]) != len(new.get(name, ())):
            problem = f"{len(old[name])} launches, now {len(new.get(name, ()))}"
        for (old_kernel, old_grid, old_ptx, old_names), (kernel, grid, ptx, names) in zip(
            old[name], new.get(name, ()), strict=False
        ):
            if old_grid != grid:
                problem = problem or f"grid {old_grid}, now {grid}"
            a, held = canonical(old_ptx, old_names)
            b, now_held = canonical(ptx, names)
            table = pairs.setdefault((old_kernel, kernel), {})
            if a == b and held.keys() == now_held.keys():
                for register, label in held.items():
                    table.setdefault(label, set()).add(now_held[register])
                continue
            if (old_ptx, ptx) not in seen:
                before, now = assembled(old_ptx), assembled(ptx)
                same = before.instructions == now.instructions and before.registers == now.registers
                seen[old_ptx, ptx] = (
                    "same machine code" if same else "no worse" if now.no_worse_than(before) else "worse"
                )
                print(f"--- {name}: {old_kernel} / {kernel}: {seen[old_ptx, ptx]}\n    {before}\n    {now}")
                if not same and shown < 6:
                    shown += 1
                    print("\n".join(list(difflib.unified_diff(a, b, "old", "new", lineterm="", n=1))[:40]))
            verdicts[seen[old_ptx, ptx]] = verdicts.get(seen[old_ptx, ptx], 0) + 1
            if seen[old_ptx, ptx] == "worse":
                problem = problem or "code"
        if problem:
            wrong += 1
            print(f"DIFFERS {name}: {problem}")
    for (old_kernel, kernel), table in pairs.items():
        print(f"{old_kernel} / {kernel}: " + ", ".join(f"{a}={'|'.join(sorted(b))}" for a, b in sorted(table.items())))
    several = [label for table in pairs.values() for label, found in table.items() if len(found) > 1]
    count = len({ptx for launches in new.values() for _, _, ptx, _ in launches})
    print(f"{len(old)} calls, {count} kernels, {wrong} differ, not the same PTX: {verdicts};"
          f" parameters that stand for several: {several or 'none'}")  # fmt: skip
    return wrong + len(several)


def main() -> int:
    if sys.argv[1] == "--collect":
        pathlib.Path(sys.argv[2]).write_bytes(pickle.dumps(collect(json.loads(sys.argv[3]))))
        return 0
    commit, names = sys.argv[1], json.dumps(sys.argv[2:])
    package = pathlib.Path(__import__("kiln").__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        for name in ("old", "new"):
            home = pathlib.Path(folder, name, "kiln")
            home.mkdir(parents=True)
            for entry in os.listdir(package):
                if entry not in ("kernels", "__pycache__"):
                    (home / entry).symlink_to((package / entry).resolve())
            if name == "new":
                (home / "kernels").symlink_to(ROOT / "kernels")
            else:
                archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "kernels"], stdout=subprocess.PIPE,
                                         check=True)  # fmt: skip
                subprocess.run(["tar", "-x", "-C", str(home)], input=archive.stdout, check=True)
        found = []
        children = []
        for name in ("old", "new"):
            output = pathlib.Path(folder, name + ".pickle")
            environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(folder, name)), "PYTHONDONTWRITEBYTECODE": "1"}
            children.append((output, subprocess.Popen(
                [sys.executable, __file__, "--collect", str(output), names], env=environment)))  # fmt: skip
        for output, child in children:
            if child.wait():
                return 2
            found.append(pickle.loads(output.read_bytes()))
    return 1 if compare(*found) else 0


if __name__ == "__main__":
    sys.exit(main())
