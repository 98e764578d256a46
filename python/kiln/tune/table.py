"""Files of tuned choices, which ship with a package: JSON, sorted, one choice a line, made by `kiln tune`.

    {"about": {"format": 1, "kiln": "0.1.0", …},
     "tuned": [
      {"kernel": "gemm", "device": {…}, "of": {"m": 16, …}, "choice": {…}, "milliseconds": 0.0121, "code": "…"},
      …]}

`of` is the problem, `choice` the chosen configuration, `code` a digest of the kernel's source, and `device` the
machine, as described by `kiln.tune.store.device_identity`. Choices for another source or machine are ignored.
"""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kiln import errors
from kiln.tune.configs import Config

FORMAT = 1


class Choice(NamedTuple):
    """One line of a table."""

    kernel: str
    device: dict[str, Any]
    of: dict[str, Any]
    choice: dict[str, Any]
    milliseconds: float
    code: str = ""

    @property
    def place(self) -> str:
        """The key under which there is at most one choice."""
        return json.dumps([self.kernel, self.device, self.of], sort_keys=True)


class Table:
    """Choices by key."""

    def __init__(self, choices: Iterable[Choice] = ()):
        self._choices = {choice.place: choice for choice in choices}

    def __iter__(self) -> Any:
        return iter(self._choices.values())

    def __len__(self) -> int:
        return len(self._choices)

    def add(self, choice: Choice) -> None:
        """Adds a choice, replacing any with the same key."""
        self._choices[choice.place] = choice

    def of(self, kernel: str, device: Mapping[str, Any], code: str = "") -> list[Choice]:
        """Choices for a kernel on a machine."""
        wanted = json.loads(json.dumps(device))
        return [c for c in self if c.kernel == kernel and c.device == wanted and code in ("", c.code)]

    def text(self) -> str:
        from kiln import __version__, _kiln

        about = {"format": FORMAT, "kiln": __version__, "toolchain": _kiln.toolchain()}
        lines = [json.dumps(c._asdict(), sort_keys=True) for c in sorted(self, key=_order)]
        rows = ",\n  ".join(lines)
        return f'{{"about": {json.dumps(about, sort_keys=True)},\n "tuned": [\n  {rows}\n ]}}\n'

    def write(self, path: str) -> None:
        """Writes the file atomically."""
        folder = os.path.dirname(os.path.abspath(path))
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(self.text())
        os.chmod(file.name, 0o644)
        os.replace(file.name, path)


def _order(choice: Choice) -> tuple[Any, ...]:
    """The sort key, with numbers in numeric order: 16 rows before 128."""
    sides = [(name, (0, value) if isinstance(value, (int, float)) else (1, str(value))) for name, value in
             sorted(choice.of.items())]  # fmt: skip
    return choice.kernel, json.dumps(choice.device, sort_keys=True), sides


def parse(text: str, path: str) -> Table:
    """The table in a file's text; an error names the file."""
    try:
        content = json.loads(text)
        if content["about"]["format"] != FORMAT:
            found = content["about"]["format"]
            raise errors.UserError(f"{path}: expected a table of format {FORMAT}, got {found!r}; run `kiln tune` again")
        return Table(Choice(**line) for line in content["tuned"])
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise errors.UserError(
            f"{path}: expected a file that `kiln tune` wrote, got something else ({problem})"
        ) from None


_NOTHING = Table()


def read(path: str) -> Table:
    """The table in a file; an empty one if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return _NOTHING
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=32)
def _read(path: str, written: int, size: int) -> Table:
    with open(path, encoding="utf-8") as file:
        return parse(file.read(), path)


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The distance of two problems, by the logarithms of their numbers. Infinite if anything else differs."""
    if one.keys() != other.keys():
        return math.inf
    found = 0.0
    for name, value in one.items():
        there = other[name]
        if value == there:
            continue
        number = all(isinstance(v, (int, float)) and not isinstance(v, bool) and v > 0 for v in (value, there))
        if not number:
            return math.inf
        found += math.log(value / there) ** 2
    return math.sqrt(found)


def find(choices: Sequence[Choice], of: Mapping[str, Any], configs: Sequence[Config],
         expected: Callable[[Config], float] | None = None) -> Config | None:  # fmt: skip
    """The configuration that a table has for a key: the key's own; else, among keys that differ only in numbers, the
    fastest one by `expected`, the kernel's cost model, or that of the nearest key if there is no model."""
    here = json.loads(json.dumps(dict(of), default=str))
    known = {json.dumps(config.all_kwargs(), sort_keys=True, default=str): config for config in configs}
    there = []
    for choice in choices:
        config = known.get(json.dumps(choice.choice, sort_keys=True, default=str))
        far = distance(choice.of, here)
        if config is None or math.isinf(far):
            continue
        if far == 0:
            return config
        there.append((far, choice.place, config))
    if not there:
        return None
    if expected is not None:
        return min(there, key=lambda found: (expected(found[2]), found[0], found[1]))[2]
    return min(there, key=lambda found: found[:2])[2]
