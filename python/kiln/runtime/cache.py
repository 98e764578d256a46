"""The artifact cache: code that one process has compiled is loaded by later ones.

One store (`runtime/cache` in C++, which describes how entries are stored) has two kinds of entries:

artifact   keyed by all that determines its bytes (tile IR, target, options, tools): object, metadata and tile IR
index      keyed by all that determines the tile IR (sources of the kernel and of all it reaches, specialisation,
           options, target, tools, the front end): the key of the artifact. A launch that finds it neither parses nor
           emits anything.

An artifact that can report source positions (prints, assertions, checks, line tables) has them in its key. The keys of
all others do not change with a comment or with the place of the file.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kiln import errors, knobs
from kiln.runtime import publishing

if TYPE_CHECKING:
    from kiln._kiln import Artifact, Cache, CacheEntry, Fields, Module
    from kiln.frontend.function import KernelFunction

ARTIFACT, INDEX, NOTE = "artifact", "index", "note"
OBJECT, METADATA, TILE = "object", "metadata.json", "tile.mlir"

# Compile options that do not affect the code, or that the index identifies by their contents.
_NOT_IN_INDEX = ("verify_each", "dump_directory", "crash_directory", "ptxas", "libdevice")

_stores: dict[tuple[str, int, bool], Cache | None] = {}
_warned: set[str] = set()


# -- The stores --------------------------------------------------------------------------------------------------------


def root() -> str:
    """The cache directory; empty if there is none."""
    setting = knobs.cache
    if setting.strip().lower() in ("0", "off", "false", "no"):
        return ""
    if setting.strip().lower() in ("", "1", "on", "true", "yes"):
        return os.path.join(knobs.user_cache(), "artifacts")
    return os.path.abspath(os.path.expanduser(setting))


def store() -> Cache | None:
    """The store that is read and written, including all that this process has published; None if there is none."""
    publishing.flush()
    return _store()


def _store() -> Cache | None:
    path = "" if knobs.frozen else root()
    return _open(path, False) if path else None


def shipped() -> Cache | None:
    """The read-only store, searched before the other one, and in frozen mode the only one; None if there is none."""
    path = knobs.frozen or knobs.cache_readonly
    return _open(os.path.abspath(os.path.expanduser(path)), True) if path else None


def _open(path: str, read_only: bool) -> Cache | None:
    from kiln import _kiln

    bound = 0 if read_only else knobs.cache_size
    place = (path, bound, read_only)
    if place not in _stores:
        try:
            _stores[place] = _kiln.Cache(path, read_only, bound)
        except OSError as problem:
            _stores[place] = None
            warn(f"{problem}; {'it is not used' if read_only else 'kernels are compiled for this process alone'}")
    return _stores[place]


def warn(message: str) -> None:
    """Gives each warning once per process."""
    if message in _warned:
        return
    _warned.add(message)
    import warnings

    warnings.warn(f"kiln's cache: {message}", RuntimeWarning, stacklevel=2)


def is_wanted() -> bool:
    """Whether compiles use the cache. Those that have to show or check their stages do not."""
    return bool(knobs.frozen) or (bool(root() or knobs.cache_readonly) and not (knobs.dump or knobs.verify_each))


def load(key: str) -> CacheEntry | None:
    """The entry with this key, from the first store that has it."""
    publishing.wait_for(key)
    for opened in (shipped(), _store()):
        if opened is None:
            continue
        entry, doubt = opened.load(key)
        if entry is not None:
            return entry
        if doubt:
            warn(f"entry {key[:12]} of {opened.path} is not used: {doubt}")
    return None


def set_aside(key: str, doubt: object) -> None:
    """Sets aside an entry that is intact but wrong; a compile then publishes another."""
    publishing.wait_for(key)
    opened = _store()
    if opened is not None:
        opened.set_aside(key)
    warn(f"entry {key[:12]} is not used: {doubt}")


def publish(kind: str, subject: str, fields: Fields, files: Mapping[str, bytes], **facts: str) -> None:
    """Adds an entry to the store, if there is one, in the background (`publishing`); a full or read-only disk only
    causes a warning."""
    opened = _store()
    if opened is None:
        return
    contents = dict(files)

    def write() -> None:
        try:
            opened.publish(kind, subject, fields, contents, facts)
        except OSError as problem:
            with contextlib.suppress(RuntimeWarning):  # turned into an error, it would be lost on this thread
                warn(f"{problem}; kernels are compiled for this process alone")

    publishing.write(fields.key(kind), write)


def is_told() -> bool:
    """Whether hits and misses are logged."""
    return knobs.is_told("cache")


def tell(message: str, *values: Any) -> None:
    knobs.tell("cache", message, *values)


# -- Why an entry is missing -------------------------------------------------------------------------------------------

Item = tuple[str, str, int]


def reason(kind: str, subject: str, fields: Fields) -> str:
    """The first field in which the nearest entry differs, in words."""
    for opened in (store(), shipped()):
        nearest = opened.nearest(kind, subject, fields) if opened is not None else None
        if nearest is not None:
            return difference(fields.items, nearest["fields"])
    return f"nothing is kept of it ({kind})"


def difference(now: Sequence[Item], before: Sequence[Item]) -> str:
    """The first field that has changed, in words."""
    known = {name: (value, size) for name, value, size in before}
    for name, value, size in now:
        if name not in known:
            return f"{name}: {_shown(value, size)}, before there was none"
        if known[name] != (value, size):
            before_it, now_it = _first_differing(known[name][0], value) if not size else (known[name][0], value)
            return f"{name}: {_shown(now_it, size)}, before {_shown(before_it, known[name][1])}"
    names = {name for name, _, _ in now}
    gone = [name for name, _, _ in before if name not in names]
    return f"{gone[0]}: none, before there was one" if gone else "the same fields in another order"


def _first_differing(before: str, now: str) -> tuple[str, str]:
    """The first line in which two texts differ, with its number."""
    if "\n" not in before and "\n" not in now:
        return before, now
    old, new = before.splitlines(), now.splitlines()
    place = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))

    def line(lines: list[str]) -> str:
        return f"{lines[place].strip()!r}" if place < len(lines) else "no such line"

    return line(old), f"line {place + 1}, {line(new)}"


def _shown(value: str, size: int) -> str:
    return f"{size} bytes ({value[:8]}…)" if size else value.removesuffix(" zero") or "nothing"


# -- Facts remembered between processes --------------------------------------------------------------------------------

_notes: dict[tuple[str, ...], str] = {}


def note(subject: str, about: Sequence[tuple[str, str]], newest: int, compute: Any) -> str:
    """`compute()`, remembered under the key `about`. A file written less than two seconds ago (`newest`, in
    nanoseconds) may be rewritten without a change of its timestamp, so its facts are not remembered."""
    place = (subject, *(text for pair in about for text in pair))
    if place in _notes:
        return _notes[place]
    from kiln import _kiln

    fields = _kiln.Fields(list(about))
    entry = load(fields.key(NOTE))
    text = entry.fact("text") if entry is not None else None
    if text is None:
        text = compute()
        if text and newest + 2_000_000_000 < time.time_ns():
            publish(NOTE, subject, fields, {}, text=text)
    _notes[place] = text
    return text


def front_end() -> str:
    """The digest of the running front end; empty if it cannot be determined."""
    from kiln.frontend import identity

    if not identity.AT_IMPORT:
        return ""
    about = [("folder", identity.folder()), ("files", identity.text())]
    return note("front end", about, identity.newest(), identity.digest)


def file_digest(path: str) -> str:
    """The digest of a file's contents; empty if there is no file."""
    from kiln import _kiln

    def compute() -> str:
        with open(path, "rb") as file:
            return _kiln.digest(file.read())

    try:
        return note_of_file("digest", path, compute)
    except OSError:
        return ""


def note_of_file(subject: str, path: str, compute: Any) -> str:
    """`compute()`, remembered as long as the file does not change."""
    status = os.stat(path)
    written = f"{status.st_mtime_ns} {status.st_size} {status.st_ino}"
    return note(subject, [("what", subject), ("file", os.path.abspath(path)), ("written", written)],
                status.st_mtime_ns, compute)  # fmt: skip


def descriptor_strides(kernel: KernelFunction) -> tuple[list[str], list[str]]:
    """The names of parameters and of fields that `kiln.frontend.strides` finds in the syntax trees of the kernel and of
    all it reaches."""

    def compute() -> str:
        from kiln.frontend.strides import descriptor_strides

        found = descriptor_strides(kernel)
        return f"{' '.join(sorted(found.names))}|{' '.join(sorted(found.fields))}"

    front = front_end() if is_wanted() and not kernel.reach.inexact else ""
    text = note("strides", [*kernel.reach.fields, ("front end", front)], 0, compute) if front else compute()
    names, _, fields = text.partition("|")
    return names.split(), fields.split()


# -- One compile -------------------------------------------------------------------------------------------------------


class Kept:
    """An artifact of an earlier compile, with the interface of `_kiln.Artifact`. It holds what a launch needs; anything
    else comes from the compiler, which is loaded for it. The metadata's format is part of the key, so it is read
    without another check."""

    def __init__(self, entry: CacheEntry, options: dict[str, Any]):
        self.key = entry.key
        self.binary = entry.read(OBJECT)
        self.metadata = entry.read(METADATA).decode()
        self._tile = entry.read(TILE)
        self._options = options
        self._whole: Artifact | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._whole is None:
            from kiln import _kiln

            self._whole = _kiln.restore(self._tile.decode(), self._options, self.binary, self.metadata, self.key)
        return getattr(self._whole, name)


class Lookup:
    """The cache lookup for one specialisation of a kernel."""

    def __init__(
        self,
        kernel: KernelFunction,
        parameters: Sequence[Any],
        options: dict[str, Any],
        disjoint: Sequence[bool],
    ):
        """`options`: the compile options, completed from the switches."""
        self.kernel = kernel
        self.options = options
        self.subject = kernel.__qualname__
        self.inexact = ""
        """Why there can be no index entry; empty if there may be one."""
        self._fields: list[tuple[str, str]] = self._describe(parameters, disjoint)
        self._plain: Fields | None = None
        self._located: Fields | None = None
        self._candidates: list[tuple[Fields, str]] = []
        self._asked: dict[str, dict[str, str]] = {}  # the facts of index entries that were read, by key

    # -- by the source ---------------------------------------------------------------------

    def _describe(self, parameters: Sequence[Any], disjoint: Sequence[bool]) -> list[tuple[str, str]]:
        """All that determines the artifact, found without emitting it."""
        from kiln import _kiln
        from kiln.frontend.function import Spelling

        reach = self.kernel.reach
        spelling = Spelling(list(reach.functions))
        known = len(reach.functions)
        fields = list(reach.fields)
        for parameter in parameters:
            fields.append((f"argument {parameter.name}", _spell(parameter, spelling)))
        # Jit functions passed as arguments.
        for function in spelling.functions[known:]:
            inner = function.reach
            fields.append((f"jit function {function.__qualname__}", inner.key))
            spelling.inexact += inner.inexact
        fields.append(("disjoint", "".join("01"[bool(alone)] for alone in disjoint)))
        for name, value in sorted(self.options.items()):
            if name not in _NOT_IN_INDEX:
                fields.append((f"option {name}", spelling.of(value)))
        fields.append(("libdevice", file_digest(self.options["libdevice"]) if "libdevice" in self.options else ""))
        fields.append(("target", _kiln.target_text(self.options["target"] or "cpu") or ""))
        fields.append(("switches", f"device_assert={knobs.device_assert}"))
        jit = (getattr(self.kernel, "debug", None), getattr(self.kernel, "version", None))
        fields.append(("debug and version", spelling.of(jit)))
        triton = sys.modules.get("kiln.as_triton.language")
        said = triton.spell_switches() if triton is not None else ""
        if said:
            fields.append(("triton", said))
        fields.append(("tools", repr(sorted(_kiln.toolchain().items()))))
        fields.append(("python", ".".join(map(str, sys.version_info[:2]))))
        front = front_end()
        fields.append(("front end", front))
        inexact = [*reach.inexact, *spelling.inexact]
        self.inexact = inexact[0] if inexact else "" if front else "the files of the front end changed"
        return fields

    def by_source(self) -> Kept | None:
        """The artifact, if an index entry leads to it."""
        from kiln import _kiln

        if self.inexact:
            tell("miss: %s cannot be found by its source (because of %s)", self.subject, self.inexact)
            return None
        self._plain = _kiln.Fields(self._fields)
        fields = self._plain
        entry = self._ask_index(fields)
        if entry is not None and entry.fact("located"):
            fields = self._with_places()
            entry = self._ask_index(fields)
        key = entry.fact("artifact") if entry is not None else None
        artifact = self._restore(key, self._doubt) if key else None
        if artifact is not None:
            tell("hit: %s by its source", self.subject)
        elif is_told():
            tell("miss: %s: %s", self.subject, reason(INDEX, self.subject, fields))
        return artifact

    def _ask_index(self, fields: Fields) -> CacheEntry | None:
        entry = load(fields.key(INDEX))
        if entry is not None:
            self._asked[entry.key] = entry.facts
        return entry

    def _doubt(self, entry: CacheEntry) -> str:
        """Why this cannot be the kernel's artifact, as far as that is known without the IR; empty if it may be."""
        from kiln import _kiln

        if entry.kind != ARTIFACT:
            return f"it leads to an entry of another kind ({entry.kind})"
        # The entry is named after the first kernel with this IR, which may be one of that name in another module.
        if entry.subject.rpartition(".")[2] not in (self.subject.rpartition(".")[2], self.kernel.__name__):
            return f"it leads to code of {entry.subject}"
        assert self._plain is not None
        target = [(name, value) for name, value, _ in self._plain.items if name == "target"]
        made_for = {name: value for name, value, _ in entry.fields}
        for name, value in (*target, *_kiln.toolchain().items()):
            if made_for.get(name) != value:
                return f"it leads to code of another {name}"
        return ""

    def _with_places(self) -> Fields:
        from kiln import _kiln

        if self._located is None:
            self._located = _kiln.Fields([*self._fields, ("places", repr(self.kernel.places))])
        return self._located

    def missing(self, parameters: Sequence[Any]) -> errors.FrozenError:
        """Why frozen mode has no code: the difference from the nearest variant in the bundle."""
        from kiln import _kiln
        from kiln.frontend.signature import array_names

        name = self.kernel.__name__
        variant = ", ".join(f"{parameter.name}={parameter.spelled}" for parameter in parameters)
        because = f"because {knobs.frozen} holds all code in frozen mode"
        bundle = shipped()
        if bundle is None:
            return errors.FrozenError(f"expected a bundle ({because}), got no folder that can be read", variant, name)
        others = [
            {field: value for field, value, _ in entry["fields"]}
            for entry in bundle.entries()
            if entry["kind"] == INDEX and entry["subject"] == self.subject
        ]
        if not others:
            return errors.FrozenError(f"expected code for this kernel ({because}), got none", variant, name)
        made_of = {field: value for field, value, _ in _kiln.Fields(self._fields).items}
        differing = [
            [field for field in {**made_of, **other} if made_of.get(field) != other.get(field)] for other in others
        ]
        fewest = min(map(len, differing))
        nearest = [other for other, fields in zip(others, differing, strict=True) if len(fields) == fewest]
        # Prefer a field in which all of the nearest variants differ, arguments first; else one of the first variant.
        fields = next(fields for fields in differing if len(fields) == fewest)
        common = [field for field in fields if all(made_of.get(field) != other.get(field) for other in nearest)]
        if not common:
            nearest = nearest[:1]
        first = min(common or fields, key=lambda field: not field.startswith("argument "), default="places")
        if first == "disjoint":
            bits = made_of[first] or ""
            overlapping = [
                array for array, alone in zip(array_names(tuple(parameters)), bits, strict=False) if alone == "0"
            ]
            return errors.FrozenError(
                f"expected arrays that overlap as those that were frozen ({because}), got"
                f" {' and '.join(overlapping) or 'none'} that may overlap others",
                variant, name,
            )  # fmt: skip
        kind, _, what = first.partition(" ")
        if kind not in ("argument", "option"):
            return errors.FrozenError(
                f"expected the {first} that the bundle was frozen with ({because}), got another", variant, name
            )
        expected = " or ".join(sorted({_spelled(other.get(first)) for other in nearest}))
        got = _spelled(made_of.get(first))
        if kind == "argument":
            return errors.FrozenError(f"expected {expected} ({because}), got {got}", variant, name, what)
        return errors.FrozenError(f"expected {what} to be {expected} ({because}), got {got}", variant, name)

    # -- by the IR -------------------------------------------------------------------------

    def by_module(self, module: Module, quiet: bool) -> Kept | None:
        """The artifact of a compile of the same IR. `quiet`: emitting the IR has shown the user nothing."""
        from kiln import _kiln

        if not quiet:
            self.inexact = "what it prints as it is compiled"
        for located in (False, True):
            fields, text = _kiln.artifact_fields(module, self.options, located)
            self._candidates.append((fields, text))
            artifact = self._restore(fields.key(ARTIFACT))
            if artifact is not None:
                tell("hit: %s by its IR", self.subject)
                self._publish_index(artifact)
                return artifact
        if is_told():
            tell("miss: %s: %s", self.subject, reason(ARTIFACT, self.subject, self._candidates[0][0]))
        return None

    def _restore(self, key: str, doubt: Callable[[CacheEntry], str] | None = None) -> Kept | None:
        entry = load(key)
        if entry is None:
            return None
        why = doubt(entry) if doubt is not None else ""
        if why:
            warn(f"the index entry of {self.subject} is not used: {why}")
            return None
        try:
            return Kept(entry, self.options)
        except (KeyError, ValueError) as problem:
            warn(f"entry {key[:12]} is not used: {problem}")
            return None

    # -- what a compile adds ---------------------------------------------------------------

    def keep(self, artifact: Artifact) -> None:
        """Publishes what was compiled."""
        # From the cache, the warning would never be given again.
        if any(diagnostic["severity"] == "warning" for diagnostic in artifact.diagnostics):
            return
        fields, text = self._candidates[artifact.located]
        files = {OBJECT: artifact.binary, METADATA: artifact.metadata.encode(), TILE: text.encode()}
        publish(ARTIFACT, self.subject, fields, files)
        self._publish_index(artifact)

    def _publish_index(self, artifact: Artifact | Kept) -> None:
        from kiln.frontend import identity

        if self.inexact or self._plain is None or not identity.is_current():
            return
        key = self._candidates[artifact.located][0].key(ARTIFACT)
        if artifact.located:
            self._lead(self._with_places(), artifact=key)
            self._lead(self._plain, located="by FILE:LINE")
        else:
            self._lead(self._plain, artifact=key)

    def _lead(self, fields: Fields, **facts: str) -> None:
        """Publishes an index entry with these facts, replacing one that has others."""
        opened, key = _store(), fields.key(INDEX)
        if opened is not None and self._asked.get(key, facts) != facts:
            opened.set_aside(key)
        publish(INDEX, self.subject, fields, {}, **facts)


def _spelled(field: str | None) -> str:
    """An argument or option of a key in the syntax of signatures: constants without their type, types without their
    padding."""
    if field is None:
        return "the default"
    field = field.removesuffix(" zero").removeprefix("constexpr ")
    kind, _, value = field.partition(" ")
    return value if kind in ("bool", "int", "float", "str", "NoneType") else field


def _spell(parameter: Any, spelling: Any) -> str:
    if parameter.kind == "constexpr":
        return f"constexpr {spelling.of(parameter.value)}"
    if parameter.kind == "tuple":
        items = ", ".join(_spell(item, spelling) for item in parameter.items)
        cls = spelling.of(parameter.cls) if parameter.cls is not None else ""
        return f"({items}) {parameter.fields} {cls}"
    return f"{parameter.spelled_type} {parameter.padding}"
