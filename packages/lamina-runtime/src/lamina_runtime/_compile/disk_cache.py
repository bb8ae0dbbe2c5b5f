"""Cache executables on disk for later processes: one file each, in a directory that belongs to the user.

The files contain machine code. So the directory is created with mode 0700, and directories and files that other users
own or may write to are not used.

A file is written under a temporary name and then renamed. It begins with a digest of its name (the cache key) and its
content. So a file that a crash or a full disk left incomplete is not read, nor is one that was copied to another name.
`config.compilation_cache` (LAMINA_COMPILATION_CACHE, or LAMINA_CACHE=0) switches the cache off.
"""
from __future__ import annotations

import os
import re
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from lamina_ir import ExecutionError, config
from lamina_ir.typing import Device

from .. import _jaxlib
from .._version import __version__
from .._typing import SettingValue

__all__ = ["cache_dir", "cache_path", "host_digest", "is_enabled", "list_files", "read", "should_store", "store", "trim"]


def _check_folder(value: SettingValue) -> None:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError("config compilation_cache_dir: expected a folder, or None for the default one; got "
                         f"{value!r:.200}")


def _check_limit(value: int) -> None:
    if value < -1:
        raise ValueError("config compilation_cache_max_bytes: expected a number of bytes, or -1 for no limit; got "
                         f"{value}")


compilation_cache = config.Option("compilation_cache", True, aliases=("enable_compilation_cache",),
                                  help="store compiled programs on disk for later processes")
compilation_cache_dir = config.Option("compilation_cache_dir", None, check=_check_folder, means={"": None},
                                      help="folder of the on-disk cache")
compilation_cache_max_bytes = config.Option("compilation_cache_max_bytes", 1 << 30,
                                            aliases=("compilation_cache_max_size",), check=_check_limit,
                                            help="maximum size of the on-disk cache in bytes; -1: no limit")
persistent_cache_min_compile_time_secs = config.Option(
    "persistent_cache_min_compile_time_secs", 0.0,
    help="only programs with at least this compile time are stored on disk")
persistent_cache_min_entry_size_bytes = config.Option(
    "persistent_cache_min_entry_size_bytes", 0, help="only programs of at least this many bytes are stored on disk")
raise_persistent_cache_errors = config.Option("raise_persistent_cache_errors", False,
                                              help="raise an error instead of a warning if the disk cache is unusable")

_MAGIC = b"lamina executable 2\n"
_CACHE_FILE = r"[0-9a-f]{64}\Z|\.new-"
_ABANDONED_SECONDS = 3600  # a file that still has its temporary name after this time is deleted
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


# --- the directory ------------------------------------------------------------------------------------------------
def is_enabled() -> bool:
    """Return whether compiled programs are stored on disk."""
    return bool(compilation_cache.value) and os.environ.get("LAMINA_CACHE", "1") not in ("0", "off", "false")


def cache_dir() -> str | None:
    """Return the directory of the on-disk cache, created and checked; None if it is not trusted or cannot be made."""
    folder = compilation_cache_dir.value or os.environ.get("LAMINA_CACHE_DIR")
    if not folder:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(base):
            return None
        folder = os.path.join(base, "lamina", "executables")
    return _make_folder(os.path.expanduser(os.fspath(folder)))


@lru_cache(maxsize=16)
def _make_folder(folder: str) -> str | None:
    """Create a directory and check who may write to it. Return None and warn if it cannot be used."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_trusted(os.stat(folder)):
            _report(f"lamina does not use the compilation cache {folder}: the folder belongs to another user, or other "
                    "users may write to it; chmod 700 it, or set LAMINA_CACHE_DIR")
            return None
        return folder
    except OSError as e:
        _report(f"lamina cannot store compiled programs on disk: {folder}: {e.strerror or e}. Set LAMINA_CACHE_DIR to "
                "a folder you may write to, or LAMINA_CACHE=0")
        return None


@lru_cache(maxsize=64)  # so that each text is shown once
def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _report(text: str) -> None:
    if raise_persistent_cache_errors.value:
        raise ExecutionError(text)
    _warn(text)


def should_store(seconds: float, size: int) -> bool:
    """Return whether to store a program on disk, by its compile time and its size in bytes."""
    return (seconds >= persistent_cache_min_compile_time_secs.value
            and size >= persistent_cache_min_entry_size_bytes.value)


def _is_trusted(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _sha256(data: bytes = b"") -> Any:
    from hashlib import sha256  # noqa: PLC0415 (imported late: it costs a process that compiles nothing a millisecond or two)
    return sha256(data)


@lru_cache(maxsize=1)
def host_digest() -> bytes:
    """Return a digest of what machine code depends on besides the program: jaxlib, this package, processor, flags."""
    # Machine code for one processor may crash on another with the same name of the architecture, so its features
    # count.
    digest = _sha256()
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_IDENTIFIER", "")
    processor = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            lines = f.read(1 << 14).split("\n\n")[0].splitlines()
        processor = "".join(line for line in lines if line.startswith(("flags", "Features", "model name")))
    except OSError:
        import platform  # noqa: PLC0415 (for systems without /proc; it may start a process to find out)
        processor = platform.processor()
    for part in (_jaxlib.VERSION, __version__, sys.platform, machine, processor, os.environ.get("XLA_FLAGS", "")):
        digest.update(part.encode() + b"\0")
    return digest.digest()


def cache_path(program: bytes, devices: tuple[Device, ...]) -> str | None:
    """Return the path of a program's file, given the digest of its code and options; None if it is not cached."""
    if not is_enabled():
        return None
    folder = cache_dir()
    if folder is None:
        return None
    d = devices[0]
    if d.client.process_index() or any(x.process_index for x in devices):
        return None  # programs that span processes are not cached: each process would need all parts of the program
    kind = f"{d.platform}\0{d.device_kind}\0{d.client.platform_version}\0{len(devices)}".encode()
    # Two characters are a subfolder: folders with tens of thousands of files are slow on some file systems.
    name = _sha256(program + host_digest() + kind).hexdigest()
    return os.path.join(folder, name[:2], name)


# --- reading and writing ------------------------------------------------------------------------------------------
def read(path: str) -> bytes | None:
    """Return the serialised executable; None if there is none or the file is damaged."""
    try:
        with open(os.open(path, _READ_FLAGS), "rb") as f:
            if not _is_trusted(os.fstat(f.fileno())):
                return None
            data = f.read()
    except OSError:
        return None
    try:
        os.utime(path)  # `trim` deletes the files with the oldest times first
    except OSError:  # a read-only directory
        pass
    # Magic, SHA-256 digest, payload.
    start = len(_MAGIC) + 32
    payload = data[start:]
    return payload if data[:start] == _MAGIC + _file_digest(path, payload) else None


def _file_digest(path: str, payload: bytes) -> bytes:
    digest = _sha256(os.path.basename(path).encode())
    digest.update(payload)
    return digest.digest()


def store(path: str, payload: bytes) -> bool:
    """Write an executable to its file. Return whether that worked; errors are reported as a warning, once."""
    folder, name = os.path.split(path)
    # Process and thread in the name: several may store the same program at once. The last rename wins, with equal
    # content.
    temporary = os.path.join(folder, f".new-{os.getpid()}-{threading.get_ident()}-{name[:8]}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600),
                      "wb") as f:
                f.write(_MAGIC + _file_digest(path, payload))
                f.write(payload)
            os.replace(temporary, path)
        except BaseException:
            try:
                os.unlink(temporary)
            except OSError:
                pass
            raise
    except FileNotFoundError:  # another process has just deleted the directory
        return False
    except OSError as e:
        top = os.path.dirname(folder)
        _report(f"lamina cannot write to the compilation cache {top}: {e.strerror or e}. Programs are compiled again "
                "in the next process; free disk space, set LAMINA_CACHE_DIR to another folder, or LAMINA_CACHE=0")
        return False
    _space.spend(len(payload), os.path.dirname(folder))
    return True


raise_persistent_cache_errors.watch(lambda value, is_local: _make_folder.cache_clear())  # check again, to raise


# --- size ---------------------------------------------------------------------------------------------------------
class _Space:
    """The bytes that this process may write before it measures the directory again: 1/16 of the limit.

    Measuring scans all files. So its cost per byte written does not depend on the number of files and processes. The
    directory exceeds its limit by at most 1/16 per process. The first budget is random, so that short processes measure
    the directory sometimes, too.
    """

    def __init__(self) -> None:
        self._left: float | None = None
        self._lock = threading.Lock()

    def spend(self, size: int, folder: str) -> None:
        """Subtract `size` bytes; if the budget is used up, trim the directory."""
        limit = int(compilation_cache_max_bytes.value)
        if limit < 0:
            return
        with self._lock:
            left = os.urandom(1)[0] / 256 * limit / 16 if self._left is None else min(self._left, limit / 16)
            left -= size
            self._left = limit / 16 if left < 0 else left
        if left < 0:
            trim(folder, limit - limit // 16)


_space = _Space()


def list_files(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """Yield the files that the cache wrote to its directory; other files are ignored."""
    try:
        subdirs = [s for s in os.scandir(folder) if len(s.name) == 2 and s.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for subdir in subdirs:
        try:
            for f in os.scandir(subdir.path):
                if re.match(_CACHE_FILE, f.name) and f.is_file(follow_symlinks=False):
                    yield f, f.stat(follow_symlinks=False)
        except OSError:  # another process deleted it meanwhile
            continue


def trim(folder: str, limit: int) -> int:
    """Delete the least recently used files until at most `limit` bytes are left. Return the number of deleted files."""
    oldest_unfinished = time.time() - _ABANDONED_SECONDS
    found = []
    for f, s in list_files(folder):
        abandoned = f.name.startswith(".new-") and s.st_mtime < oldest_unfinished
        found.append((0.0 if abandoned else s.st_mtime, s.st_size, f.path, abandoned))
    total = sum(size for _, size, _, _ in found)
    deleted = 0
    for _, size, path, abandoned in sorted(found):
        if total <= limit and not abandoned:
            break
        try:
            os.unlink(path)
        except OSError:
            continue
        total -= size
        deleted += 1
    return deleted
