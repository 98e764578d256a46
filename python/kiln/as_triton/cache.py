"""`triton.runtime.cache`: a folder per key in which programs keep their own files."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

from kiln.as_triton import knobs

__all__ = ["CacheManager", "FileCacheManager", "default_cache_dir", "get_cache_manager", "knobs", "triton_key"]


def default_cache_dir() -> str:
    return knobs.cache.dir


def triton_key() -> str:
    """Identifies the compiler, on which compiled code depends besides its source."""
    from kiln import __version__, _kiln

    return _kiln.digest(f"{__version__}\0{json.dumps(_kiln.toolchain(), sort_keys=True)}".encode())


class CacheManager:
    """Files under one key."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        self.key = key

    def get_file(self, filename: str) -> str | None:
        raise NotImplementedError

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        raise NotImplementedError

    def get_group(self, filename: str) -> dict[str, str] | None:
        raise NotImplementedError

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        raise NotImplementedError


class FileCacheManager(CacheManager):
    """Files under one key in the user's cache directory; files appear atomically."""

    def __init__(self, key: str, override: bool = False, dump: bool = False):
        super().__init__(key, override, dump)
        root = knobs.cache.override_dir if override else knobs.cache.dump_dir if dump else knobs.cache.dir
        self.cache_dir = os.path.join(root, key)
        self.lock_path = None if override else os.path.join(self.cache_dir, "lock")
        if not override:
            os.makedirs(self.cache_dir, exist_ok=True)

    def _make_path(self, filename: str) -> str:
        return os.path.join(self.cache_dir, filename)

    def has_file(self, filename: str) -> bool:
        return os.path.exists(self._make_path(filename))

    def get_file(self, filename: str) -> str | None:
        return self._make_path(filename) if self.has_file(filename) else None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        content = data if isinstance(data, bytes) else str(data).encode()
        path = self._make_path(filename)
        with tempfile.NamedTemporaryFile("wb", dir=self.cache_dir, delete=False) as file:
            file.write(content)
        os.replace(file.name, path)
        return path

    def get_group(self, filename: str) -> dict[str, str] | None:
        path = self.get_file(f"__grp__{filename}")
        if path is None:
            return None
        with open(path, encoding="utf-8") as file:
            members = json.load(file)["child_paths"]
        return {name: member for name, member in members.items() if os.path.exists(member)}

    def put_group(self, filename: str, group: dict[str, str]) -> str:
        return self.put(json.dumps({"child_paths": group}), f"__grp__{filename}", binary=False)


def get_cache_manager(key: str) -> CacheManager:
    return (knobs.cache.manager_class or FileCacheManager)(key)
