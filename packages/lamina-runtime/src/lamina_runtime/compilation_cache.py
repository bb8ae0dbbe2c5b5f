"""Public functions of the cache of compiled programs: statistics, directory, size limit, on and off.

A program found in memory or on disk is a hit; a program that the compiler had to compile is a miss. The keys are
described in `_compile.executable_cache`, the checks of files in `_compile.disk_cache`. The settings are
`config.compilation_cache` (on or off), `config.compilation_cache_dir` and `config.compilation_cache_max_bytes`; each
has an environment variable.
"""
from __future__ import annotations

import os
from contextlib import AbstractContextManager

from ._compile import executable_cache, disk_cache
from ._compile.executable_cache import CacheStats, cache_stats
from ._compile.disk_cache import cache_dir

__all__ = ["CacheStats", "clear", "directory", "disabled", "enable", "is_enabled", "reset_cache", "set_cache_dir",
           "set_directory", "set_max_bytes", "size", "stats", "trim"]


def stats() -> CacheStats:
    """Return the counts since the process began.

    They are `memory_hits`, `disk_hits`, `misses` (compiled) and `stored` (written to disk).

    >>> stats()._fields
    ('memory_hits', 'disk_hits', 'misses', 'stored')
    """
    return cache_stats()


def directory() -> str | None:
    """Return the directory of the cache; None if the cache is off or the directory is not trusted."""
    return cache_dir() if is_enabled() else None


def set_directory(path: str | os.PathLike[str] | None) -> None:
    """Set the directory of the cache; None restores the default one.

    The next compilation creates it with mode 0700. A directory is not used if it belongs to another user, or if other
    users may write to it.
    """
    disk_cache.compilation_cache_dir.set(None if path is None else os.path.abspath(os.path.expanduser(path)))


set_cache_dir = set_directory


def enable(on: bool = True) -> None:
    """Switch the on-disk cache on or off for the process. The cache in memory is always on."""
    disk_cache.compilation_cache.set(on)


def is_enabled() -> bool:
    """Return whether compiled programs are stored on disk."""
    return disk_cache.is_enabled()


def disabled() -> AbstractContextManager[None]:
    """Context in which the on-disk cache is off.

    >>> with disabled():
    ...     directory() is None
    True
    """
    return disk_cache.compilation_cache(False)


def set_max_bytes(limit: int) -> None:
    """Limit the directory to `limit` bytes. The least recently used programs are deleted first."""
    if limit < 0:
        raise ValueError(f"set_max_bytes: expected a number of bytes; got {limit}")
    disk_cache.compilation_cache_max_bytes.set(int(limit))


def size() -> int:
    """Return the number of bytes on disk."""
    folder = directory()
    return 0 if folder is None else sum(s.st_size for _, s in disk_cache.list_files(folder))


def trim(limit: int | None = None) -> int:
    """Delete the least recently used programs until at most `limit` bytes are left (default: the setting).

    Returns:
      The number of deleted programs.
    """
    folder = directory()
    if folder is None:
        return 0
    if limit is None:
        limit = int(disk_cache.compilation_cache_max_bytes.value)
        return 0 if limit < 0 else disk_cache.trim(folder, limit)
    return disk_cache.trim(folder, limit)


def clear(disk: bool = False) -> None:
    """Drop the programs in memory and reset the counters. With `disk`, also delete the programs on disk."""
    executable_cache.clear_memory()
    folder = directory() if disk else None
    if folder is not None:
        disk_cache.trim(folder, -1)


def reset_cache() -> None:
    """Drop the programs in memory and reset the counters."""
    clear()
