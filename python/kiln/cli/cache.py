"""`kiln cache`: lists, checks and cleans the compile cache, and says why a kernel was compiled again."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from kiln import errors, knobs


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser("cache", help="show, check and clean the compile cache")
    parser.add_argument("--root", help="folder of the cache (default: KILN_CACHE)")
    inner = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    ls = inner.add_parser("ls", help="list entries: key, kind, size, age, kernel")
    ls.add_argument("kernel", nargs="?", help="list only this kernel's entries")
    ls.set_defaults(run=_list)
    inner.add_parser("stat", help="show where the cache is and how much space it takes").set_defaults(run=_stat)
    inner.add_parser("verify", help="check every byte and set damaged entries aside").set_defaults(run=_verify)
    gc = inner.add_parser("gc", help="evict the least recently used entries, and leftovers of dead processes")
    gc.add_argument("--size", help="size to shrink to, such as 100M (default: KILN_CACHE_SIZE)")
    gc.set_defaults(run=_collect)
    why = inner.add_parser("why", help="show how a kernel's last compile differs from earlier ones")
    why.add_argument("kernel", help="name, such as softmax")
    why.set_defaults(run=_why)


def _path(options: argparse.Namespace) -> str:
    from kiln.runtime import cache

    path = os.path.abspath(os.path.expanduser(options.root)) if options.root else cache.root()
    if not path:
        raise errors.UserError("expected a cache (because KILN_CACHE is off), got none: name one with --root")
    return path


def _open(path: str, write: bool = False) -> Any:
    """The store; None where there is none yet. Opened to `write`, its folder is closed to others."""
    from kiln import _kiln

    return _kiln.Cache(path, read_only=not write) if os.path.lexists(path) else None


def _mode(path: str) -> int:
    """The permission bits that the cache folder keeps: those of an existing folder; 0700 (its user alone) for a new
    one."""
    return os.stat(path).st_mode & 0o777 if os.path.isdir(path) else 0o700


def _of(entry: dict[str, Any], kernel: str | None) -> bool:
    subject = entry.get("subject", "")
    return kernel is None or subject == kernel or subject.endswith("." + kernel)


def _entries(store: Any, kernel: str | None) -> list[dict[str, Any]]:
    """The entries of a kernel, at least one; without a kernel, all entries."""
    entries = store.entries() if store else []
    found = [entry for entry in entries if _of(entry, kernel)]
    if kernel is not None and not found:
        near = errors.near_match(kernel, sorted({entry.get("subject", "") for entry in entries}))
        raise errors.UserError(
            f"nothing is kept of a kernel {kernel!r}" + (f"; did you mean {near!r}?" if near else "")
        )
    return found


def _list(options: argparse.Namespace) -> int:
    entries = _entries(_open(_path(options)), options.kernel)
    for entry in sorted(entries, key=lambda entry: (entry["used"], entry["key"]), reverse=True):
        print(
            f"{entry['key'][:16]}  {entry['kind'] or 'damaged':<8}  {_size(entry['bytes']):>9}  "
            f"{_age(entry['used']):>9}  {entry.get('subject', '')}"
        )
    return 0


def _stat(options: argparse.Namespace) -> int:
    store = _open(_path(options))
    entries = store.entries() if store else []
    print(f"folder      {store.path if store else 'none yet'}")
    for kind in sorted({entry["kind"] for entry in entries}):
        of_kind = [entry for entry in entries if entry["kind"] == kind]
        print(f"{kind or 'damaged':<10}  {_count(len(of_kind))}, {_size(sum(entry['bytes'] for entry in of_kind))}")
    bound = _size(knobs.cache_size) if knobs.cache_size else "no bound"
    print(f"size        {_size(sum(entry['bytes'] for entry in entries))} of {bound}")
    aside = os.path.join(store.path, "quarantine") if store else ""
    if os.path.isdir(aside):
        print(f"set aside   {_count(len(os.listdir(aside)))} in {aside}")
    return 0


def _verify(options: argparse.Namespace) -> int:
    path = _path(options)
    own = _mode(path) == 0o700
    store = _open(path, write=own)
    bad = 0
    entries = store.entries() if store else []
    for entry in entries:
        _, doubt = store.load(entry["key"])
        if doubt:
            bad += 1
            print(f"{entry['key'][:16]}  {entry.get('subject', '')}: {doubt}")
    whole = _count(len(entries) - bad)
    print(f"{whole} whole, {bad} not" + (" and set aside" if bad and own else ""))
    return 1 if bad else 0


def _collect(options: argparse.Namespace) -> int:
    path = _path(options)
    if _mode(path) != 0o700:
        raise errors.UserError(
            f"expected a folder of mode 700 (because only its user may use a cache, and other folders stay as they"
            f" are), got {path} of mode {_mode(path):o}"
        )
    store = _open(path, write=True)
    size = _parse_size(options.size) if options.size is not None else knobs.cache_size or 2**63
    if store is None:
        print("nothing to remove")
        return 0
    done = store.collect(size)
    print(
        f"removed {_count(done['removed_entries'])}, {_size(done['removed_bytes'])}; "
        f"{done['entries']} stay, {_size(done['bytes'])}"
    )
    return 0


def _parse_size(text: str) -> int:
    try:
        return knobs.parse_bytes(text)
    except ValueError as error:
        raise errors.UserError(f"{error}, got {text!r}") from None


def _why(options: argparse.Namespace) -> int:
    from kiln import _kiln
    from kiln.runtime import cache

    store = _open(_path(options))
    subjects = sorted({entry["subject"] for entry in _entries(store, options.kernel)})
    for subject in subjects:
        for kind in (cache.INDEX, cache.ARTIFACT):
            recent = store.recent(kind, subject)
            # The entry keyed with source positions is more specific than the index entry that leads to it.
            recent = [entry for entry in recent if "located" not in entry["facts"]]
            if recent:
                break
        else:
            continue
        last = recent[0]
        nearest = store.nearest(kind, subject, _kiln.Fields.of_items(last["fields"]))
        if nearest is None:
            print(f"{subject}: compiled once, {last['key'][:16]}")
        else:
            print(f"{subject}: {cache.difference(last['fields'], nearest['fields'])}")
    return 0


def _count(entries: int) -> str:
    return f"{entries} entry" if entries == 1 else f"{entries} entries"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _age(used: float) -> str:
    seconds = max(0.0, time.time() - used)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return "now"
