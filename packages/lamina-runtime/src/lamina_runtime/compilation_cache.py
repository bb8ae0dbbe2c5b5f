"""The cache of compiled programs, for its users: what it did, where it is, how large it may be, and its switch.

Programs found in memory or on disk are hits, those the compiler had to make are misses. How programs are keyed is in
`compiling`, what is trusted on disk in `disk_cache`. The settings are also `config.compilation_cache` (the switch),
`config.compilation_cache_dir` and `config.compilation_cache_max_bytes`, each with its environment variable.
"""
from __future__ import annotations

import os
from contextlib import AbstractContextManager

from . import compiling, disk_cache
from .compiling import CacheStats, cache_stats
from .disk_cache import cache_dir

__all__ = ["CacheStats", "clear", "directory", "disabled", "enable", "is_enabled", "reset_cache", "set_cache_dir",
           "set_directory", "set_max_bytes", "size", "stats", "trim"]


def stats() -> CacheStats:
    """Counts since the process began: `memory_hits`, `disk_hits`, `misses` (compiled), `stored` (written to disk).

    >>> stats()._fields
    ('memory_hits', 'disk_hits', 'misses', 'stored')
    """
    return cache_stats()


def directory() -> str | None:
    """The folder in use; None when the cache is off or its folder cannot be trusted."""
    return cache_dir() if is_enabled() else None


def set_directory(path: str | os.PathLike[str] | None) -> None:
    """Keep programs in another folder from now on; None goes back to the default one.

    The folder is made, with rights for its owner alone, at the next compilation. One that belongs to someone else, or
    that others may write to, is not used.
    """
    disk_cache.compilation_cache_dir.set(None if path is None else os.path.abspath(os.path.expanduser(path)))


set_cache_dir = set_directory


def enable(on: bool = True) -> None:
    """Switch the on-disk cache on or off for the process. Programs in memory are found in any case."""
    disk_cache.compilation_cache.set(on)


def is_enabled() -> bool:
    """Whether compiled programs are kept on disk."""
    return disk_cache.is_on()


def disabled() -> AbstractContextManager[None]:
    """A block in which nothing is read from disk nor written there.

    >>> with disabled():
    ...     directory() is None
    True
    """
    return disk_cache.compilation_cache(False)


def set_max_bytes(limit: int) -> None:
    """Keep the folder under `limit` bytes: the programs used longest ago go first."""
    if limit < 0:
        raise ValueError(f"set_max_bytes: expected a number of bytes; got {limit}")
    disk_cache.compilation_cache_max_bytes.set(int(limit))


def size() -> int:
    """Bytes on disk."""
    folder = directory()
    return 0 if folder is None else sum(s.st_size for _, s in disk_cache.files(folder))


def trim(limit: int | None = None) -> int:
    """Delete the programs used longest ago until at most `limit` bytes (default: the setting) are left; how many went."""
    folder = directory()
    if folder is None:
        return 0
    if limit is None:
        limit = int(disk_cache.compilation_cache_max_bytes.value)
        return 0 if limit < 0 else disk_cache.trim(folder, limit)
    return disk_cache.trim(folder, limit)


def clear(disk: bool = False) -> None:
    """Forget the programs held in memory and reset the counters; with `disk`, delete the stored ones too."""
    compiling.clear_memory()
    folder = directory() if disk else None
    if folder is not None:
        disk_cache.trim(folder, -1)


def reset_cache() -> None:
    """Forget the programs held in memory and reset the counters."""
    clear()
