"""Compiled programs on disk, for the next process: one file each, in a folder that must be the user's own.

Files hold machine code, so the folder is made with rights 0700, and folders and files that others own or may write to
are not used. A file is written under another name and then renamed, and begins with a digest of its own name, which is
its key, and of the rest: what another process, a crash or a full disk leaves behind is either whole or not read, and a
file that was copied or moved to another's place is not read either. `config.compilation_cache`
(LAMINA_COMPILATION_CACHE, or LAMINA_CACHE=0) switches it off.
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

from . import _jaxlib
from ._version import __version__

__all__ = ["cache_dir", "files", "is_on", "path_of", "read", "store", "trim", "worth_keeping"]


def _folder(value: Any) -> None:
    if value is not None and not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"config compilation_cache_dir: expected a folder, or None for the usual one; got {value!r:.200}")


def _limit(value: int) -> None:
    if value < -1:
        raise ValueError(f"config compilation_cache_max_bytes: expected a number of bytes, or -1 for no limit; got {value}")


compilation_cache = config.Option("compilation_cache", True, also=("enable_compilation_cache",),
                                  help="keep compiled programs on disk for later processes")
compilation_cache_dir = config.Option("compilation_cache_dir", None, check=_folder, means={"": None},
                                      help="folder of the on-disk cache")
compilation_cache_max_bytes = config.Option("compilation_cache_max_bytes", 1 << 30, also=("compilation_cache_max_size",),
                                            check=_limit, help="bytes the on-disk cache is kept under; -1: no limit")
persistent_cache_min_compile_time_secs = config.Option("persistent_cache_min_compile_time_secs", 0.0,
                                                       help="only programs that took so long to compile are kept on disk")
persistent_cache_min_entry_size_bytes = config.Option("persistent_cache_min_entry_size_bytes", 0,
                                                      help="only programs of so many bytes and more are kept on disk")
raise_persistent_cache_errors = config.Option("raise_persistent_cache_errors", False,
                                              help="a cache on disk that cannot be used is an error instead of a warning")

_MAGIC = b"lamina executable 2\n"
_OURS = re.compile(r"[0-9a-f]{64}\Z|\.new-")
_UNFINISHED_SECONDS = 3600  # a file still under its first name after so long was given up
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


# --- where --------------------------------------------------------------------------------------------------------
def is_on() -> bool:
    """Whether compiled programs are kept on disk."""
    return bool(compilation_cache.value) and os.environ.get("LAMINA_CACHE", "1") not in ("0", "off", "false")


def cache_dir() -> str | None:
    """The folder of the on-disk cache, made and checked; None when there is none to be trusted."""
    named = compilation_cache_dir.value or os.environ.get("LAMINA_CACHE_DIR")
    if not named:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(base):
            return None
        named = os.path.join(base, "lamina", "executables")
    return _checked(os.path.expanduser(os.fspath(named)))


@lru_cache(maxsize=16)
def _checked(folder: str) -> str | None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _trusted(os.stat(folder)):
            _tell(f"lamina does not use the compilation cache {folder}: the folder belongs to someone else, or others may "
                  "write to it; chmod 700 it, or set LAMINA_CACHE_DIR")
            return None
        return folder
    except OSError as e:
        _tell(f"lamina keeps no compiled programs on disk: {folder}: {e.strerror or e}. Set LAMINA_CACHE_DIR to a folder "
              "you may write to, or LAMINA_CACHE=0")
        return None


@lru_cache(maxsize=64)  # each once
def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def _tell(text: str) -> None:
    if raise_persistent_cache_errors.value:
        raise ExecutionError(text)
    _warn(text)


def worth_keeping(seconds: float, size: int) -> bool:
    """Whether a program that took so long to compile and is so large is to be kept on disk."""
    return (seconds >= persistent_cache_min_compile_time_secs.value
            and size >= persistent_cache_min_entry_size_bytes.value)


def _trusted(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _sha256(data: bytes = b"") -> Any:
    from hashlib import sha256  # a millisecond or two of a process that compiles nothing
    return sha256(data)


@lru_cache(maxsize=1)
def _host() -> bytes:
    """What machine code depends on besides the program: jaxlib, this package, processor, flags."""
    digest = _sha256()
    machine = os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_IDENTIFIER", "")
    processor = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            lines = f.read(1 << 14).split("\n\n")[0].splitlines()
        processor = "".join(line for line in lines if line.startswith(("flags", "Features", "model name")))
    except OSError:
        import platform  # where there is no such file; it may start a process to find out
        processor = platform.processor()
    for part in (_jaxlib.VERSION, __version__, sys.platform, machine, processor, os.environ.get("XLA_FLAGS", "")):
        digest.update(part.encode() + b"\0")
    return digest.digest()


def path_of(program: bytes, devices: tuple[Any, ...]) -> str | None:
    """The file of a program, by the digest of its code and options; None when it is not to be kept."""
    if not is_on():
        return None
    folder = cache_dir()
    if folder is None:
        return None
    d = devices[0]
    if d.client.process_index() or any(x.process_index for x in devices):
        return None  # several processes: each would need all of the program's parts
    kind = f"{d.platform}\0{d.device_kind}\0{d.client.platform_version}\0{len(devices)}".encode()
    name = _sha256(program + _host() + kind).hexdigest()
    return os.path.join(folder, name[:2], name)


# --- reading and writing ------------------------------------------------------------------------------------------
def read(path: str) -> bytes | None:
    """The stored executable; None when there is none or the file is damaged."""
    try:
        with open(os.open(path, _READ_FLAGS), "rb") as f:
            if not _trusted(os.fstat(f.fileno())):
                return None
            data = f.read()
    except OSError:
        return None
    try:
        os.utime(path)  # the oldest are dropped first
    except OSError:  # a folder that may only be read
        pass
    start = len(_MAGIC) + 32
    payload = data[start:]
    return payload if data[:start] == _MAGIC + _seal(path, payload) else None


def _seal(path: str, payload: bytes) -> bytes:
    digest = _sha256(os.path.basename(path).encode())
    digest.update(payload)
    return digest.digest()


def store(path: str, payload: bytes) -> bool:
    """Whether the executable now is in its file. What goes wrong is a warning, once, and no more than that."""
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".new-{os.getpid()}-{threading.get_ident()}-{name[:8]}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o600),
                      "wb") as f:
                f.write(_MAGIC + _seal(path, payload))
                f.write(payload)
            os.replace(temporary, path)
        except BaseException:
            try:
                os.unlink(temporary)
            except OSError:
                pass
            raise
    except FileNotFoundError:  # someone has just cleared the folder
        return False
    except OSError as e:
        top = os.path.dirname(folder)
        _tell(f"lamina cannot write to the compilation cache {top}: {e.strerror or e}. Programs are compiled again in the "
              "next process; make room there, set LAMINA_CACHE_DIR to another folder, or LAMINA_CACHE=0")
        return False
    _space.spend(len(payload), os.path.dirname(folder))
    return True


raise_persistent_cache_errors.watch(lambda value, is_local: _checked.cache_clear())  # what was a warning may be an error now


# --- size ---------------------------------------------------------------------------------------------------------
class _Space:
    """Bytes this process may write before it looks at the size of the folder: a sixteenth of the limit.

    So there is one look per so many bytes, however many files and processes there are, and a folder is over its limit
    by a sixteenth per process at most. The first amount is random, so that short processes look now and then too.
    """

    def __init__(self) -> None:
        self._left: float | None = None
        self._lock = threading.Lock()

    def spend(self, size: int, folder: str) -> None:
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


def files(folder: str) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    """The cache's own files in its folder; what else lies there is left alone."""
    try:
        subs = [s for s in os.scandir(folder) if len(s.name) == 2 and s.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for sub in subs:
        try:
            for f in os.scandir(sub.path):
                if _OURS.match(f.name) and f.is_file(follow_symlinks=False):
                    yield f, f.stat(follow_symlinks=False)
        except OSError:  # another process was faster
            continue


def trim(folder: str, limit: int) -> int:
    """Delete the files used longest ago until the folder holds at most `limit` bytes; returns how many went."""
    old = time.time() - _UNFINISHED_SECONDS
    found = []
    for f, s in files(folder):
        given_up = f.name.startswith(".new-") and s.st_mtime < old
        found.append((0.0 if given_up else s.st_mtime, s.st_size, f.path, given_up))
    total = sum(size for _, size, _, _ in found)
    gone = 0
    for _, size, path, given_up in sorted(found):
        if total <= limit and not given_up:
            break
        try:
            os.unlink(path)
        except OSError:
            continue
        total -= size
        gone += 1
    return gone
