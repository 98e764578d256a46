"""The pass's requirements on a launch are sufficient: where they hold, no program divides by less than one.

Divisors are random expressions of arguments and program indices. Python evaluates what the pass requires, and the
divisor of every program for many grids. KILN_FUZZ_DIVISORS (150) sets how many.
"""

from __future__ import annotations

import itertools
import linecache
import os
import random
import re
import subprocess
from pathlib import Path

import kiln
import kiln.language as kl
from kiln import compiler, frontend
from kiln.cli.signature import parse_signature

COUNT = int(os.environ.get("KILN_FUZZ_DIVISORS", "150"))
BUILD = Path(__file__).resolve().parents[3] / os.environ.get("KILN_BUILD", "build")
PASS = "builtin.module(func.func(kiln-require-divisors))"
MOST = 2**19


def draw_number(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(["m", "n", "x", "x", "y", "px", str(draw.choice([-3, 0, 1, 2, 5, 8]))])
    a, b = draw_number(draw, depth - 1), draw_number(draw, depth - 1)
    ways = ["({a} + {b})", "({a} - {b})", "({a} - {b})", "({a} * 4)", "({a} * -2)", "(m * {b})", "({a} // 3)",
            "kl.cdiv({a}, 4)", "(m - {b})", "({a} // (n * 2))", "({a} % n)", "min({a}, {b})", "min({a}, {b})",
            "max({a}, {b})", "({a} * {b})"]  # fmt: skip
    return draw.choice(ways).format(a=a, b=b)


def kernel_of(lines: list[str], index: int) -> kiln.JITFunction:
    every = ["first, y, px = kl.program_id(0), kl.program_id(1), kl.num_programs(0)", *lines]
    text = f"def divides_{index}(out, m, n):\n" + "".join(f"    {line}\n" for line in every)
    name = f"<divisor {index}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict = {"kl": kl}
    exec(compile(text, name, "exec"), scope)
    return kiln.jit(scope[f"divides_{index}"])


def requirements(kernel: kiln.JITFunction, attribute: str = ", kgpu.describe_pointers") -> list[str]:
    """The pass's requirements on a launch of the kernel."""
    module = frontend.emit(kernel, parse_signature("out=*i32, m=i32, n=i32", kernel), "divides", target="sm_90a")
    text = compiler.compile(module, {"target": "sm_90a", "to": "opt"}).output
    text = re.sub(r"(kiln\.target = \{[^\n]*\})\} \{", rf"\1{attribute}}} {{", text, count=1)
    command = [str(BUILD / "compiler" / "tools" / "kiln-opt"), "-", f"--pass-pipeline={PASS}"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found = re.search(r"kgpu\.positive = \[(.*?)\]", done.stdout)
    return re.findall(r'"([^"]*)"', found[1]) if found else []


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def compute(text: str, m: int, n: int, grid: tuple[int, int]) -> int | None:
    known = {"$1": m, "$2": n, "last0": grid[0] - 1, "last1": grid[1] - 1, "programs0": grid[0], "programs1": grid[1]}
    ways = {"+": int.__add__, "-": int.__sub__, "*": int.__mul__, "min": min, "max": max,
            "/": quotient, "%": lambda a, b: a - quotient(a, b) * b}  # fmt: skip
    stack: list[int] = []
    for word in text.split(" "):
        if word in ways:
            b, a = stack.pop(), stack.pop()
            if word in "/%" and b == 0:
                return None
            stack.append(ways[word](a, b))
        else:
            stack.append(known[word] if word in known else int(word))
    (number,) = stack
    return number


class Wide(int):
    """An integer of a kernel, with C's quotients and remainders."""

    def __add__(self, other):
        return Wide(int(self) + int(other))

    def __sub__(self, other):
        return Wide(int(self) - int(other))

    def __mul__(self, other):
        return Wide(int(self) * int(other))

    def __floordiv__(self, other):
        if int(other) == 0:
            raise ZeroDivisionError
        return Wide(quotient(int(self), int(other)))

    def __mod__(self, other):
        return self - (self // other) * other

    __radd__ = __add__

    def __rmul__(self, other):
        return self * other

    def __rsub__(self, other):
        return Wide(int(other)) - self

    def __rfloordiv__(self, other):
        return Wide(int(other)) // self


class Language:
    @staticmethod
    def cdiv(a, b):
        return (Wide(a) + b - 1) // b


def test_the_requirements_suffice_for_every_program():
    draw = random.Random(int(os.environ.get("KILN_FUZZ_SEED", "0")))
    asked = held = 0
    for index in range(COUNT):
        number = draw_number(draw, draw.choice([2, 3, 4]))
        # Every fourth kernel has a loop over tiles.
        looped = index % 4 == 3
        body = [f"d = {number}", "kl.store(out + x, (x + 1000) // d)"]
        lines = ["for x in range(first, m, 3):", *("    " + line for line in body)] if looped else ["x = first", *body]
        kernel = kernel_of(lines, index)
        texts = requirements(kernel)
        if not texts:
            continue
        asked += 1
        code = compile(number, "divisor", "eval")
        for m, n, grid in itertools.product([0, 1, 5, 9, 40], [0, 1, 3, 17], [(1, 1), (4, 1), (7, 3), (30, 2)]):
            numbers = [compute(text, m, n, grid) for text in texts]
            if not all(number is not None and number > 0 for number in numbers):
                continue
            scope = {"kl": Language, "m": Wide(m), "n": Wide(n), "px": Wide(grid[0])}
            for first, y in itertools.product(range(grid[0]), range(grid[1])):
                for x in range(first, m, 3) if looped else [first]:
                    scope |= {"x": Wide(x), "y": Wide(y)}
                    try:
                        divisor = eval(code, scope)
                    except ZeroDivisionError:
                        continue  # the program already divides by zero
                    assert divisor > 0, (lines, texts, m, n, grid, first, x, y)
                    held += 1
    assert asked > COUNT // 15 and held > 1000, (asked, held)


GROUPED = [
    "tiles, across, x = kl.cdiv(m, 128), kl.cdiv(n, 256), first",
    "height = min(tiles - x // (8 * across) * 8, 8)",
    "kl.store(out + x, x % (8 * across) // height)",
]


def test_group_heights_are_checked_for_the_last_program():
    (text,) = requirements(kernel_of(GROUPED, 1000))
    for m, n in [(128, 256), (1, 1), (4096, 4096), (1000, 5000)]:
        tiles = -(-m // 128) * -(-n // 256)
        assert compute(text, m, n, (tiles, 1)) > 0
        assert compute(text, m, n, (tiles + 8 * -(-n // 256), 1)) <= 0


def test_only_launches_that_check_counts_have_requirements():
    assert requirements(kernel_of(GROUPED, 1001), "") == []


def test_loops_over_tiles_are_no_longer_than_a_grid():
    """The iteration count is a product, which must not overflow. Only loops around a loop that multiplies are
    considered."""
    lines = [
        "i, j = kl.arange(0, 16), kl.arange(0, 16)[:, None]",
        "for t in range(first, m * n, px):",
        "    total = kl.zeros((16, 16), kl.float32) + t",
        "    for k in range(0, n):",
        "        ones = kl.full((16, 16), 1.0, kl.float16)",
        "        total = kl.dot(ones, ones, total)",
        "    kl.store(out + t * 256 + i + j * 16, total.to(kl.int32))",
    ]
    texts = requirements(kernel_of(lines, 1002))
    assert len(texts) == 2
    for m, n, fits in [(7, 9, True), (0, 5, True), (1, MOST, True), (2, MOST, False), (2**30, 2**30, False)]:
        assert all(compute(text, m, n, (4, 1)) > 0 for text in texts) == fits, (m, n)
