"""Compares the coordinates and owners that kiln-kgpu-to-nvvm emits with random layouts, thread by thread."""

from __future__ import annotations

import random
import re
import subprocess
import sys

Digits = list[tuple[int, int]]  # radix and basis, fastest first
WARPS = 4
KERNEL = """
#l = {layout}
module attributes {{kgpu.num_warps = {warps} : i32}} {{
  func.func public @k(%x: !tile.ptr<i32>) attributes {{tile.kernel}} {{
    %r = tile.make_range 0 to {side} : tensor<{side}xi32, #l>
    tile.inline_asm "show $0;" "r" (%r) : (tensor<{side}xi32, #l>) -> ()
    %s = tile.splat %x : !tile.ptr<i32> -> tensor<{side}x!tile.ptr<i32>, #l>
    %p = tile.addptr %s, %r : tensor<{side}x!tile.ptr<i32>, #l>, tensor<{side}xi32, #l>
    tile.store %p, %r {{cache = #tile<cache cs>}} : tensor<{side}x!tile.ptr<i32>, #l>, tensor<{side}xi32, #l>
    return
  }}
}}
"""


def random_layout(rng: random.Random) -> tuple[int, int, list[Digits]]:
    """Side, log2 of its power-of-two part, digits of reg, lane and warp: any invertible matrix, distributed at
    random."""
    odd, bits = rng.choice([1, 1, 3, 5, 7, 31]), rng.randint(1, 9)
    columns = [1 << i for i in range(bits)]
    for _ in range(3 * bits):
        i, j = rng.randrange(bits), rng.randrange(bits)
        if i != j:
            columns[i] ^= columns[j]
    lanes = rng.randint(0, min(5, bits))
    warps = rng.randint(0, min(2, bits - lanes))
    lane = [(2, c) for c in columns[:lanes]] + [(2, 0)] * (5 - lanes)
    warp = [(2, c) for c in columns[lanes : lanes + warps]] + [(2, 0)] * (2 - warps)
    reg = [(2, c) for c in columns[lanes + warps :]]
    rng.shuffle(lane)
    rng.shuffle(warp)
    if rng.random() < 0.3:
        reg.append((2, 0))
    if odd > 1:
        reg.insert(rng.randint(0, len(reg)), (odd, 1 << bits))
    return odd << bits, bits, [reg, lane, warp]


def spell(side: int, coords: list[Digits]) -> str:
    def digits(name: str, list_: Digits) -> str:
        return f" {name} " + " ".join((f"{r}*" if r != 2 else "") + f"({b})" for r, b in list_) if list_ else ""

    return f"#layout.map<digits [{side}]{''.join(map(digits, ('reg', 'lane', 'warp'), coords))}>"


def place(digits: Digits, value: int) -> tuple[int, int]:
    """The XORed and the added part of a coordinate at `value`."""
    low = high = 0
    for radix, basis in digits:
        value, digit = divmod(value, radix)
        if radix == 2:
            low ^= basis * digit
        else:
            high += basis * digit
    return low, high


OPS = {
    "addi": lambda a, b: a + b, "muli": lambda a, b: a * b, "andi": lambda a, b: a & b, "xori": lambda a, b: a ^ b,
    "shrui": lambda a, b: a >> b, "divui": lambda a, b: a // b, "remui": lambda a, b: a % b,
    "eq": lambda a, b: int(a == b), "ne": lambda a, b: int(a != b),
}  # fmt: skip


def parse(code: str) -> list[tuple[str, str, list[str]]]:
    """The ops in order: name, result, operands."""
    ops = []
    for line in map(str.strip, code.splitlines()):
        if found := re.match(r"(%\S+) = arith\.constant (-?\d+) :", line):
            ops.append(("constant", found[1], [found[2]]))
        elif found := re.match(r"(%\S+) = llvm\.call_intrinsic \"llvm\.nvvm\.read\.ptx\.sreg\.tid\.x\"", line):
            ops.append(("thread", found[1], []))
        elif found := re.match(r"(%\S+) = arith\.(?:cmpi )?(\w+),? (%\w+), (%\w+)", line):
            ops.append((found[2], found[1], [found[3], found[4]]))
        elif found := re.match(r"(%\S+) = llvm\.getelementptr %\w+\[(%?\w+)\]", line):
            ops.append(("copy" if found[2].startswith("%") else "constant", found[1], [found[2]]))
        elif '"show $0;"' in line:
            ops.append(("show", "", [re.search(r"\" (%\w+) :", line)[1]]))
        elif "st.global.cs" in line:
            kind = "write if" if '"@$' in line else "write"
            ops.append((kind, "", re.search(r"\" (%.*?) : \(", line)[1].split(", ")))
    return ops


def run(ops: list[tuple[str, str, list[str]]], thread: int) -> tuple[list[int], list[tuple[int, int]]]:
    """The values that one thread prints and writes, as (index, value)."""
    env: dict[str, int] = {}
    shown, written = [], []
    for kind, result, operands in ops:
        if kind == "constant":
            env[result] = int(operands[0])
        elif kind == "thread":
            env[result] = thread
        elif kind == "copy":
            env[result] = env[operands[0]]
        elif kind == "show":
            shown.append(env[operands[0]])
        elif kind.startswith("write"):
            values = operands[1:]
            if kind == "write" or env[values.pop()]:
                start = env.get(operands[0], 0)  # the argument itself, if nothing is added
                written += [(start + i, env[value]) for i, value in enumerate(values)]
        else:
            env[result] = OPS[kind](env[operands[0]], env[operands[1]])
    return shown, written


def check(side: int, bits: int, coords: list[Digits], code: str) -> None:
    reg, lane, warp = coords
    registers = 1
    for radix, _ in reg:
        registers *= radix
    ops = parse(code)
    writes: list[tuple[int, int]] = []
    for thread in range(32 * WARPS):
        shown, written = run(ops, thread)
        parts = [place(lane, thread % 32), place(warp, thread // 32)]
        wanted = []
        for number in range(registers):
            low, high = place(reg, number)
            for more_low, more_high in parts:
                low, high = low ^ more_low, high + more_high
            wanted.append(low + high)
        assert shown == wanted, f"{spell(side, coords)}: thread {thread}: expected {wanted}, got {shown}"
        writes += written
    assert sorted(writes) == [(i, i) for i in range(side)], f"{spell(side, coords)}: written {sorted(writes)}"


def main() -> None:
    rng = random.Random(7)
    layouts = [random_layout(rng) for _ in range(int(sys.argv[1]))]
    text = "// -----\n".join(KERNEL.format(layout=spell(s, c), side=s, warps=WARPS) for s, _, c in layouts)
    passes = ["--kiln-set-target=target=sm_90a", "--kiln-kgpu-to-nvvm", "--canonicalize", "--cse"]
    done = subprocess.run(
        ["kiln-opt", "-", "--split-input-file", *passes], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    codes = done.stdout.split("// -----")
    assert len(codes) == len(layouts), f"expected {len(layouts)} modules, got {len(codes)}"
    for (side, bits, coords), code in zip(layouts, codes, strict=True):
        check(side, bits, coords, code)


if __name__ == "__main__":
    main()
