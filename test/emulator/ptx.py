"""Reads the PTX of one kernel into instructions whose operands are rows of a table of values.

Registers, special registers, immediates and symbols all become rows: an instruction reads a row and need not know what
kind of operand it was. Only the form that LLVM's NVPTX and Kiln's inline assembly print is understood; anything else is
an error that names it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# A thread's registers follow the rows that are the same for every kernel, in this order.
SPECIAL = [
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid") for axis in "xyz"),
    "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank", "%cluster_nctarank", "%laneid", "%smid", "%warpid",
]  # fmt: skip
# Shared memory does not begin at 0, so that an uninitialised pointer is out of bounds.
SHARED_BASE = 1024
# Registers of a multiprocessor.
REGISTER_FILE = 65536
# Where arguments are, for code that computes which one it loads.
ARGUMENTS_BASE = 1 << 45
ARGUMENTS_ROOM = 1 << 16
TYPE = re.compile(r"[usfb](8|16|32|64|128)|bf16|(f16|bf16|f32|u16|s16)x2|e[45]m[32](x2)?|tf32|pred")
FLOAT = re.compile(r"0[fF]([0-9A-Fa-f]{8})|0[dD]([0-9A-Fa-f]{16})")
ADDRESS = re.compile(r"\[\s*([%$\w]+)\s*([+-]?)\s*([+-]?\w+)?\s*(?:,\s*\{([^}]*)\}\s*)?\]")
INTEGER = re.compile(r"(-?)(0[xX][0-9A-Fa-f]+|\d+)U?")


class Unsupported(Exception):
    """The text has something that this emulator does not know."""


class Fault(Exception):
    """The program did something that a GPU would reject, or would not do the same way twice."""


@dataclass(frozen=True)
class Address:
    """`coordinates`: of an element in the array that a tensor map at the address describes."""

    row: int
    offset: int
    parameter: bool = False
    coordinates: tuple[int, ...] = ()


@dataclass
class Instruction:
    """`operands`: rows; tuples of rows for `{…}`; an Address for `[…]`; None for `_`; text for a label."""

    name: str
    modifiers: tuple[str, ...]
    operands: list[Any]
    line: int
    text: str
    predicate: int | None = None
    negated: bool = False
    run: Any = None
    types: tuple[str, ...] = field(init=False)
    vector: int = field(init=False)
    # Registers of warpgroup products that it reads and writes.
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.types = tuple(m for m in self.modifiers if TYPE.fullmatch(m))
        self.vector = next((int(m[1:]) for m in self.modifiers if re.fullmatch(r"v[248]", m)), 1)

    @property
    def type(self) -> str:
        return self.types[-1] if self.types else ""

    def one_of(self, *names: str) -> str:
        """The modifier among `names`, or an empty string."""
        return next((m for m in self.modifiers if m in names), "")

    def __str__(self) -> str:
        # Accumulators have up to 128 registers.
        text = self.text if len(self.text) <= 200 else f"{self.text[:120]} … {self.text[-40:]}"
        return f"PTX line {self.line}: {text}"


@dataclass
class Kernel:
    name: str
    threads: int
    cluster: int
    parameters: list[tuple[str, int, int]]
    instructions: list[Instruction]
    constants: dict[int, int]
    rows: int
    registers: int

    @property
    def parameter_bytes(self) -> int:
        return max((offset + size for _, offset, size in self.parameters), default=0)


def parse(text: str) -> Kernel:
    """The kernel of a module; a module holds one."""
    # Comments are removed but lines stay: messages name lines of the original file.
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text, flags=re.S)
    text = _inline_calls(re.sub(r"//[^\n]*", "", text))
    head = re.search(r"\.visible\s+\.entry\s+([\w$]+)\s*\((.*?)\)([^{]*)\{", text, re.S)
    if head is None:
        raise Unsupported("no .visible .entry")
    prefix = text[: head.start()]
    for line in prefix.splitlines():
        if line.strip() and not re.match(r"\s*\.(version|target|address_size|file|extern\s+\.shared)", line):
            raise Unsupported(f"declaration: {line.strip()}")
    shared = re.search(r"\.extern\s+\.shared[^;]*?(\w+)\[\]", prefix)
    threads = _directive(head[3], "reqntid", [32])
    cluster = _directive(head[3], "reqnctapercluster", [1])
    if any(n != 1 for n in threads[1:] + cluster[1:]):
        raise Unsupported("blocks or clusters of more than one dimension")
    parameters = _parameters(head[2])
    first = text.count("\n", 0, head.end()) + 1
    reader = _Reader({name: offset for name, offset, _ in parameters}, shared[1] if shared else "")
    instructions = reader.read(text[head.end() :], first)
    # By default, each thread has as many registers as fit at launch.
    most = min(REGISTER_FILE // _directive(head[3], "minnctapersm", [1])[0] // threads[0] // 8 * 8, 256)
    registers = _directive(head[3], "maxnreg", [most])[0]
    return Kernel(head[1], threads[0], cluster[0], parameters, instructions, reader.constants, reader.rows, registers)


FUNCTION = re.compile(r"^\.func\s+\(\.param \.(\w+) (\w+)\)\s+(\w+)\s*\(([^)]*)\)\s*", re.M)
CALL = re.compile(
    r"\{\s*(?:\.param [^;]*;\s*)*((?:st\.param[^;]*;\s*)*)call\.uni \((\w+)\), (\w+), \(([\w, ]*)\);\s*"
    r"ld\.param\.(\w+)\s+(\S+), \[\2\];\s*\}"
)


def _inline_calls(text: str) -> str:
    """The module with its numeric functions inlined at their calls, on the call's line."""
    bodies: dict[str, tuple[str, str, list[str], str]] = {}
    while (head := FUNCTION.search(text)) is not None:
        end = head.end()
        if text[end] == "{":
            end = text.index("\n}", end) + 2
            body = " ".join(text[head.end() + 1 : end - 1].split())
            names = re.findall(r"\.param \.\w+ (\w+)", head[4])
            bodies[head[3]] = (head[1], head[2], names, body)
        else:  # a declaration
            end = text.index(";", end) + 1
        text = text[: head.start()] + "\n" * text.count("\n", head.start(), end) + text[end:]

    def inline(call: re.Match[str]) -> str:
        if call[3] not in bodies:
            raise Unsupported(f"call of {call[3]}")
        kind, result, names, body = bodies[call[3]]
        passed = dict(re.findall(r"st\.param\.\w+\s+\[(\w+)\], ([^;]+);", call[1]))
        lines = ["{"]
        for given, name in zip(re.findall(r"\w+", call[4]), names, strict=True):
            form = re.search(rf"ld\.param\.(\w+) \S+, \[{name}\]", body)
            lines.append(f".reg .{form[1] if form else kind} %in_{name}; mov.{kind} %in_{name}, {passed[given]};")
            body = re.sub(rf"ld\.param(\.\w+) (\S+), \[{name}\]", rf"mov\1 \2, %in_{name}", body)
        body = re.sub(rf"st\.param(\.\w+) \[{result}\]", r"mov\1 %out_value", body)
        body = re.sub(r"\bret;", "bra $end_of_call;", body)
        lines += [f".reg .{kind} %out_value; {{", body, "$end_of_call: }", f"mov.{call[5]} {call[6]}, %out_value;", "}"]
        return " ".join(lines) + "\n" * call[0].count("\n")

    return CALL.sub(inline, text)


def _directive(text: str, name: str, default: list[int]) -> list[int]:
    found = re.search(rf"\.{name}\s+([\d, ]+)", text)
    return [int(n) for n in found[1].split(",")] if found else default


def _parameters(text: str) -> list[tuple[str, int, int]]:
    """Name, offset and size of each, one after the other at natural alignment: the kernel ABI."""
    found, end = [], 0
    for one in filter(None, (part.strip() for part in text.split(","))):
        form = re.match(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.[usfb](\d+)\b.*?([\w$]+)(?:\[(\d+)\])?$", one, re.S)
        if form is None:
            raise Unsupported(f"parameter: {one}")
        size = int(form[2]) // 8
        align = int(form[1] or size)
        end = -(-end // align) * align
        size *= int(form[4] or 1)
        found.append((form[3], end, size))
        end += size
    return found


class _Reader:
    def __init__(self, parameters: dict[str, int], shared: str):
        self.parameters, self.shared = parameters, shared
        self.named = {name: row for row, name in enumerate(SPECIAL)}
        self.rows = len(SPECIAL)
        self.constants: dict[int, int] = {}
        self.values: dict[int, int] = {}
        # What each pair of braces declares. Inline assembly has its own registers and labels.
        self.local: dict[tuple[int, ...], set[str]] = {}
        self.known: dict[tuple[str, tuple[int, ...]], int] = {}

    def read(self, code: str, line: int) -> list[Instruction]:
        statements = self._statements(code, line)
        labels: dict[str, int] = {}
        kept = []
        for text, scope, at in statements:
            if text.endswith(":"):
                labels[self._name(text[:-1], scope)] = len(kept)
            elif text.startswith((".reg", ".pragma")):
                pass
            elif text.startswith("."):
                raise Unsupported(f"PTX line {at}: declaration {text}")
            else:
                kept.append((text, scope, at))
        instructions = [self._instruction(*statement) for statement in kept]
        for instruction in instructions:
            if instruction.name == "bra":
                target = instruction.operands[0]
                if target not in labels:
                    raise Unsupported(f"{instruction}: no such label")
                instruction.operands = [labels[target]]
        return instructions

    def _statements(self, code: str, line: int) -> list[tuple[str, tuple[int, ...], int]]:
        """Statements and labels, each with its braces and its line; records declarations."""
        found: list[tuple[str, tuple[int, ...], int]] = []
        scope: tuple[int, ...] = ()
        scopes, word, start = 0, "", line
        for piece in re.split(r"([{};\n]|(?<!:):(?!:))", code):
            if piece == "\n":
                line += 1
                if re.match(r"\.(loc|pragma|file)\b", word.strip()):
                    word = ""
                word += " "
            elif piece == "{" and not word.strip():
                scopes += 1
                scope = (*scope, scopes)
            elif piece == "}" and not word.strip():
                if not scope:
                    return found
                scope = scope[:-1]
            elif piece == ";" or (piece == ":" and re.fullmatch(r"[$\w]+", word.strip())):
                text = " ".join(word.split())
                if text:
                    found.append((text + (":" if piece == ":" else ""), scope, start))
                    if piece == ":":
                        self.local.setdefault(scope, set()).add(text)
                    elif text.startswith(".reg"):
                        names = re.sub(r"^(\.\w+ )+", "", text).split(",")
                        self.local.setdefault(scope, set()).update(name.strip().split("<")[0] for name in names)
                word = ""
            else:
                if not word.strip():
                    start = line
                word += piece
        raise Unsupported("the kernel has no end")

    def _name(self, name: str, scope: tuple[int, ...]) -> str:
        """A unique name: with the braces that declare it."""
        stem = name if any(name in names for names in self.local.values()) else re.sub(r"\d+$", "", name)
        while scope and stem not in self.local.get(scope, ()):
            scope = scope[:-1]
        return name + "".join(f"@{n}" for n in scope)

    def _row(self, text: str, scope: tuple[int, ...]) -> int:
        if (text, scope) not in self.known:
            self.known[text, scope] = self._find_row(text, scope)
        return self.known[text, scope]

    def _find_row(self, text: str, scope: tuple[int, ...]) -> int:
        if text in self.named and text.startswith("%") and text in SPECIAL:
            return self.named[text]
        if found := FLOAT.fullmatch(text):
            return self._constant(int(found[1] or found[2], 16))
        if found := INTEGER.fullmatch(text):
            return self._constant(int(found[1] + found[2], 0) & 0xFFFFFFFFFFFFFFFF)
        if re.fullmatch(r"\d+\.\d+", text):
            return self._constant(int(np.float32(text).view(np.uint32)))
        if text == self.shared:
            return self._constant(SHARED_BASE)
        if text in self.parameters:
            return self._constant(ARGUMENTS_BASE + self.parameters[text])
        name = self._name(text, scope)
        if name not in self.named:
            declared = self.local.get(tuple(int(n) for n in name.split("@")[1:]), set())
            if text not in declared and re.sub(r"\d+$", "", text) not in declared:
                raise Unsupported(f"operand {text}")
            self.named[name] = self._new()
        return self.named[name]

    def _constant(self, value: int) -> int:
        if value not in self.values:
            row = self.values[value] = self._new()
            self.constants[row] = value
        return self.values[value]

    def _new(self) -> int:
        self.rows += 1
        return self.rows - 1

    def _operand(self, text: str, scope: tuple[int, ...]) -> Any:
        if text == "_":
            return None
        if text.startswith("{"):
            return tuple(None if part.strip() == "_" else self._row(part.strip(), scope)
                         for part in text[1:-1].split(","))  # fmt: skip
        if text.startswith("["):
            base, sign, offset, places = ADDRESS.fullmatch(text).groups()  # type: ignore[union-attr]
            distance = int(offset or "0", 0) * (-1 if sign == "-" else 1)
            if places:
                coordinates = tuple(self._row(part.strip(), scope) for part in places.split(","))
                return Address(self._row(base, scope), distance, coordinates=coordinates)
            if base in self.parameters:
                return Address(0, self.parameters[base] + distance, parameter=True)
            return Address(self._row(base, scope), distance)
        return self._row(text, scope)

    def _instruction(self, text: str, scope: tuple[int, ...], line: int) -> Instruction:
        whole, predicate, negated = text, None, False
        if text.startswith("@"):
            guard, text = text.split(None, 1)
            negated = guard[1] == "!"
            predicate = self._row(guard.lstrip("@!"), scope)
        name, _, rest = text.partition(" ")
        op, *modifiers = name.split(".")
        modifiers = [m for m in ".".join(modifiers).replace("::", "\0").split(".") if m]
        modifiers = [m.replace("\0", "::") for m in modifiers]
        parts = [p.strip() for p in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", rest) if p.strip()]
        if op == "bra":
            operands: list[Any] = [self._name(parts[0], scope)]
        else:
            try:
                operands = [
                    tuple(self._operand(half.strip(), scope) for half in part.split("|"))
                    if "|" in part
                    else self._operand(part, scope)
                    for part in (p.lstrip("!") if op == "setp" else p for p in parts)
                ]
            except (Unsupported, AttributeError) as error:
                raise Unsupported(f"PTX line {line}: {whole}: {error}") from error
        made = Instruction(op, tuple(modifiers), operands, line, whole, predicate, negated)
        if op == "setp" and parts[-1].startswith("!"):
            made.modifiers += ("not_last",)
        return made
