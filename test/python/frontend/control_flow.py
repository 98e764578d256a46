"""Integer programs that compare control flow with Python itself: some written by hand, some drawn at random."""

from __future__ import annotations

import random

# Each defines f(n, m). Integers stay small, so that 32 bits never overflow.
PROGRAMS = {
    "early_return": """
if n > m:
    return n - m
return m
""",
    "return_in_nested_if": """
r = 0
if n > 2:
    if m > 2:
        return 100
    r = n
else:
    r = m
r += 5
return r
""",
    "return_in_loop": """
for i in range(n):
    if i * i > m:
        return i
return -1
""",
    "return_in_nested_loops": """
s = 0
for i in range(n):
    for j in range(m):
        s += i * j
        if s > 20:
            return s * 100 + i * 10 + j
return s
""",
    "break_and_continue": """
s = 0
for i in range(n):
    if i == 2:
        continue
    if i == m:
        break
    s += i
return s
""",
    "break_keeps_values": """
last = -1
for i in range(n):
    last = i
    if i > m:
        last = i * 2
        break
    last = last + 100
return last
""",
    "while_with_break": """
i = 0
while i < n:
    i += 1
    if i == m:
        break
    if i % 2 == 0:
        continue
    i += 1
return i
""",
    "while_true": """
i = 0
while True:
    i += m + 1
    if i > n:
        break
return i
""",
    "continue_in_both": """
s = 0
for i in range(n):
    if i > m:
        if i > 3:
            continue
        s += 10
    else:
        s += 1
        continue
    s += 100
return s
""",
    "break_inner_only": """
s = 0
for i in range(n):
    for j in range(5):
        if j > i:
            break
        s += 1
    s += 10
return s
""",
    "downwards": """
s = 0
for i in range(n, -3, -2):
    s = s * 3 + i
return s
""",
    "step_of_unknown_sign": """
s = 7
for i in range(n, 9, m - 2):
    s = s * 2 + i
return s
""",
    "swap_in_loop": """
a = 0
b = 1
for i in range(n):
    a, b = b, a + b
return a
""",
    "static_loop_with_exits": """
s = 0
for i in kl.static_range(5):
    if i == m:
        continue
    if i == n:
        break
    s += i + 1
return s
""",
    "return_from_static_loop": """
s = 1
for i in kl.static_range(4):
    s = s * 2
    if s > n:
        return s
    for j in range(m):
        if j == 2:
            return -s
        s += j
return 0
""",
    "tuple_carried": """
t = (0, (n, 1))
for i in range(m):
    t = (t[0] + 1, (t[1][1], t[1][0] + i))
return t[0] * 100 + t[1][0] * 10 + t[1][1]
""",
    "chained_and_logic": """
r = 0
if 1 < n <= 4 and not m == 3:
    r = 1
elif n < m or m > 6:
    r = 2
return r * 10 + (5 if n > m > 0 else 6)
""",
    "walrus": """
s = 0
i = 0
while (k := i * i) < n:
    s += k
    i += 1
return s * 10 + k
""",
    "dead_code_after_exit": """
for i in range(n):
    if i > m:
        break
    else:
        continue
    return 77
return 5 + n
""",
    "defined_where_used": """
for i in range(n):
    if i > m:
        if i > 4:
            continue
        k = 1
    else:
        k = 2
    m += k
return m
""",
    "return_in_while_in_if": """
if n > 3:
    while m < 10:
        m += n
        if m == 9:
            return 1
    m += 1
else:
    return m
return m + 2
""",
    "triple": """
s = 0
for i in range(n):
    j = 0
    while j < m:
        for k in range(3):
            if k == j:
                continue
            s += 1
            if s == 11:
                return 1000 + i
        j += 1
        if s > 30:
            break
    if s > 40:
        break
return s
""",
}


class _Generator:
    """Draws statements over the variables a, b, c and the arguments n, m, all of them always defined."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counter = 0

    def emit(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def operand(self) -> str:
        return self.random.choice(["a", "b", "c", "n", "m", "1", "2", "3"])

    def condition(self) -> str:
        test = f"{self.operand()} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {self.operand()}"
        if self.random.random() < 0.25:
            test += f" {self.random.choice(['and', 'or'])} {self.operand()} < {self.operand()}"
        return f"not ({test})" if self.random.random() < 0.1 else test

    def value(self) -> str:
        # Masking keeps the values small and nonnegative.
        x, y = self.operand(), self.operand()
        return self.random.choice(
            [f"({x} + {y}) & 63", f"({x} * 3 + {y}) & 63", f"({x} ^ {y}) & 63", f"({x} if {self.condition()} else {y})"]
        )

    def block(self, depth: int, budget: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, budget)

    def statement(self, depth: int, budget: int) -> None:
        kind = self.random.random()
        if budget <= 0 or kind < 0.3:
            self.emit(depth, f"{self.random.choice('abc')} = {self.value()}")
        elif kind < 0.6:
            self.emit(depth, f"if {self.condition()}:")
            self.block(depth + 1, budget - 1)
            if self.random.random() < 0.5:
                self.emit(depth, "else:")
                self.block(depth + 1, budget - 1)
        elif kind < 0.8:
            self.loop(depth, budget)
        elif kind < 0.88 and self.loops:
            self.emit(depth, f"if {self.condition()}:")
            self.emit(depth + 1, self.random.choice(["break", "continue"]))
        elif kind < 0.93 and self.loops:
            self.emit(depth, self.random.choice(["break", "continue"]))
        else:
            self.emit(depth, f"if {self.condition()}:")
            self.emit(depth + 1, f"return {self.operand()}")

    def loop(self, depth: int, budget: int) -> None:
        self.counter += 1
        index = f"i{self.counter}"
        form = self.random.random()
        if form < 0.5:
            bounds = self.random.choice(
                [f"{self.operand()} & 7", "1, 5", f"6, {self.operand()} & 3, -2", "0, 7, m - 3"]
            )
            self.emit(depth, f"for {index} in range({bounds}):")
        elif form < 0.7:
            self.emit(depth, f"for {index} in kl.static_range({self.random.randint(1, 3)}):")
        else:
            # A while loop that terminates: nothing else changes its counter, which is incremented first.
            self.emit(depth, f"{index} = 0")
            self.emit(depth, f"while {index} < 5 and ({self.condition()}):")
            self.emit(depth + 1, f"{index} += 1")
        self.emit(depth + 1, f"{self.random.choice('abc')} = ({self.operand()} + {index}) & 63")
        self.loops += 1
        self.block(depth + 1, budget - 1)
        self.loops -= 1


def generate(seed: int) -> str:
    """The body of a function f(n, m)."""
    generator = _Generator(seed)
    generator.emit(0, "a = 1")
    generator.emit(0, "b = 2")
    generator.emit(0, "c = n")
    generator.block(0, 3)
    generator.block(0, 3)
    generator.emit(0, "return a * 10000 + b * 100 + c")
    return "\n".join(generator.lines)


SIDE = 8
"""Programs run for every n and m below this."""


def source(statements: str) -> str:
    """A jit function f with these statements, and a kernel that stores f(n, m) at its position in a 2-d grid."""
    lines = "\n".join("    " + line for line in statements.strip("\n").split("\n"))
    return f"""
@jit
def f(n, m):
{lines}

@jit
def kernel(out):
    n = kl.program_id(0)
    m = kl.program_id(1)
    kl.store(out + n * {SIDE} + m, f(n, m))

@jit
def direct(out, n, m):
    kl.store(out, f(n, m))
"""


class _PlainLanguage:
    """Stands for `kl` when Python itself runs a program."""

    static_range = range


def run_in_python(statements: str, n: int, m: int) -> int:
    """What the statements return when Python runs them."""
    lines = "\n".join("    " + line for line in statements.strip("\n").split("\n"))
    namespace: dict = {"kl": _PlainLanguage, "range": _range}
    exec(f"def f(n, m):\n{lines}", namespace)
    return namespace["f"](n, m)


def _range(*bounds: int) -> range:
    """Python's range, except that a step of 0 gives no iterations, as in kernels, which cannot report it."""
    return range(0) if len(bounds) == 3 and bounds[2] == 0 else range(*bounds)
