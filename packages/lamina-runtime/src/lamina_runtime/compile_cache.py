"""Compiled programs, found again by their content: in memory, and on disk for the next process.

The key is a digest of the module's bytecode, the compile options, jaxlib's version and the processor. Loading a stored
executable takes half a millisecond where compiling takes ten or more. Files hold machine code, so the folder must
belong to the user alone: it is made with rights 0700, and one that others own or may write to is refused.
`config.compilation_cache` (LAMINA_COMPILATION_CACHE, or LAMINA_CACHE=0) switches the disk part off.
"""
from __future__ import annotations

import hashlib
import os
import stat
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import config

from . import _jaxlib, host_errors, shardings
from ._version import __version__

__all__ = ["CacheStats", "Options", "cache_dir", "cache_stats", "clear_memory", "compile"]

compilation_cache = config.Option("compilation_cache", True, help="keep compiled programs on disk for later processes")
compilation_cache_dir = config.Option("compilation_cache_dir", None, help="folder of the on-disk cache")
compilation_cache_max_bytes = config.Option("compilation_cache_max_bytes", 1 << 30,
                                            help="size the on-disk cache is kept under")

_IN_MEMORY = 4096
_MAGIC = b"lamina executable 1\n"


class Options(NamedTuple):
    """How a module is compiled."""

    num_replicas: int = 1
    num_partitions: int = 1
    propagate: tuple[bool, ...] = ()   # per result: whether the partitioner may choose its sharding
    cheap: bool = False                # for programs of a few equations: compile in half the time


class CacheStats(NamedTuple):
    """Counts since the process began (or `clear_memory`): found in memory, found on disk, compiled, stored."""

    memory_hits: int = 0
    disk_hits: int = 0
    misses: int = 0
    stored: int = 0


_lock = threading.Lock()
_memory: OrderedDict[Any, Any] = OrderedDict()
_counts = {"memory_hits": 0, "disk_hits": 0, "misses": 0, "stored": 0}


def cache_stats() -> CacheStats:
    """The counters of this process."""
    return CacheStats(**_counts)


def clear_memory() -> None:
    """Forget the executables held in memory (those in use stay alive) and reset the counters."""
    with _lock:
        _memory.clear()
        for name in _counts:
            _counts[name] = 0


def compile(lowered: Any, devices: tuple[Any, ...], options: Options) -> Any:
    """jaxlib's loaded executable for a lowered program.

    Args:
      lowered: what `lamina_lowering.lower` gave.
      devices: one per (replica, partition), in row-major order.
      options: how.
    """
    if lowered.host_functions:  # it holds Python functions, so it is of this program and this process alone
        _counts["misses"] += 1
        return _compiled(lowered.module, devices, options, [host_errors.guarded(f) for f in lowered.host_functions])
    if lowered.needs:
        _jaxlib.provide(lowered.needs)
    code = lowered.bytecode()
    digest = hashlib.sha256(code)
    digest.update(repr(options).encode())
    key = (digest.digest(), devices)
    with _lock:
        found = _memory.get(key)
        if found is not None:
            _memory.move_to_end(key)
            _counts["memory_hits"] += 1
            return found
    found = _from_disk_or_compiler(code, digest.digest(), devices, options)
    with _lock:
        _memory[key] = found
        while len(_memory) > _IN_MEMORY:
            _memory.popitem(last=False)
    return found


def _from_disk_or_compiler(code: bytes, program: bytes, devices: tuple[Any, ...], options: Options) -> Any:
    client = devices[0].client
    where = shardings.device_list(devices)
    settings = _settings(options, tuple(d.id for d in devices))
    path = _path(program, devices)
    if path is not None:
        payload = _read(path)
        if payload is not None:
            try:
                found = client.deserialize_executable(payload, where, settings)
            except Exception:
                pass
            else:
                _counts["disk_hits"] += 1
                return found
    found = _compiled(code, devices, options)
    _counts["misses"] += 1
    if path is not None:
        _store(path, found)
    return found


def _compiled(code: Any, devices: tuple[Any, ...], options: Options, host_functions: Sequence[Any] = ()) -> Any:
    more = (list(host_functions),) if host_functions else ()
    arguments = (code, shardings.device_list(devices), _settings(options, tuple(d.id for d in devices)), *more)
    compile_and_load = devices[0].client.compile_and_load
    if options.num_partitions > 1:
        with _jaxlib.without_warnings():  # each compilation warns that this partitioner will be replaced
            return compile_and_load(*arguments)
    return compile_and_load(*arguments)


@lru_cache(maxsize=1024)
def _settings(options: Options, ids: tuple[int, ...]) -> Any:
    r, p = options.num_replicas, options.num_partitions
    o = _jaxlib.CompileOptions()
    o.num_replicas, o.num_partitions = r, p
    o.device_assignment = _jaxlib.DeviceAssignment.create(np.array(ids, np.int32).reshape(r, p))
    b = o.executable_build_options
    b.num_replicas, b.num_partitions = r, p
    if p > 1:
        b.use_spmd_partitioning = True
        b.use_shardy_partitioner = False
        if options.propagate:
            b.allow_spmd_sharding_propagation_to_output = list(options.propagate)
    if options.cheap:
        o.env_option_overrides = _jaxlib.cheap_overrides()
    return o


# --- disk -------------------------------------------------------------------------------------------------------
@lru_cache(maxsize=1)
def _host() -> bytes:
    """What machine code depends on besides the program: jaxlib, this package, processor, flags."""
    import platform  # here and below: seldom needed, and not free to import
    digest = hashlib.sha256()
    processor = platform.processor()
    try:
        with open("/proc/cpuinfo") as f:
            lines = f.read().split("\n\n")[0].splitlines()
        processor += "".join(line for line in lines if line.startswith(("flags", "Features", "model name")))
    except OSError:
        pass
    for part in (_jaxlib.VERSION, __version__, sys.platform, platform.machine(), processor,
                 os.environ.get("XLA_FLAGS", "")):
        digest.update(part.encode() + b"\0")
    return digest.digest()


def on_disk() -> bool:
    """Whether compiled programs are kept on disk."""
    return bool(compilation_cache.value) and os.environ.get("LAMINA_CACHE", "1") not in ("0", "off", "false")


def _path(program: bytes, devices: tuple[Any, ...]) -> str | None:
    if not on_disk():
        return None
    folder = cache_dir()
    if folder is None:
        return None
    d = devices[0]
    if d.client.process_index() or any(x.process_index for x in devices):
        return None  # several processes: each would need all of the program's parts
    kind = f"{d.platform}\0{d.device_kind}\0{d.client.platform_version}\0{len(devices)}".encode()
    name = hashlib.sha256(program + _host() + kind).hexdigest()
    return os.path.join(folder, name[:2], name)


def cache_dir() -> str | None:
    """The folder of the on-disk cache, made and checked; None when there is none to be trusted."""
    named = compilation_cache_dir.value or os.environ.get("LAMINA_CACHE_DIR")
    if not named:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        if not os.path.isabs(base):
            return None
        named = os.path.join(base, "lamina", "executables")
    return _checked(os.fspath(named))


@lru_cache(maxsize=16)
def _checked(folder: str) -> str | None:
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
        if not _trusted(found):
            warnings.warn(f"lamina does not use the compilation cache {folder}: the folder belongs to someone else, or "
                          "others may write to it; chmod 700 it, or set LAMINA_CACHE_DIR", stacklevel=2)
            return None
        return folder
    except OSError:
        return None


def _trusted(found: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: str) -> bytes | None:
    """The stored executable; None when there is none or the file is damaged."""
    try:
        with open(path, "rb") as f:
            if not _trusted(os.fstat(f.fileno())):
                return None
            data = f.read()
        os.utime(path)  # the oldest are dropped first
    except OSError:
        return None
    start = len(_MAGIC) + 32
    if not data.startswith(_MAGIC) or hashlib.sha256(data[start:]).digest() != data[len(_MAGIC):start]:
        return None
    return data[start:]


_since_trim = os.urandom(1)[0]  # so that short processes trim now and then too


def _store(path: str, executable: Any) -> None:
    global _since_trim
    try:
        payload = executable.serialize()
    except Exception:
        return
    folder = os.path.dirname(path)
    try:
        import tempfile
        os.makedirs(folder, mode=0o700, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write(_MAGIC + hashlib.sha256(payload).digest())
                f.write(payload)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError:
        return
    _counts["stored"] += 1
    _since_trim += 1
    if _since_trim >= 256:
        _since_trim = 0
        trim(os.path.dirname(folder), int(compilation_cache_max_bytes.value))


def trim(folder: str, limit: int) -> int:
    """Delete the files used longest ago until the folder holds at most `limit` bytes; returns how many went."""
    found = []
    for sub in os.scandir(folder):
        if sub.is_dir(follow_symlinks=False):
            for f in os.scandir(sub.path):
                try:
                    s = f.stat(follow_symlinks=False)
                except OSError:
                    continue
                found.append((s.st_mtime, s.st_size, f.path))
    total = sum(size for _, size, _ in found)
    gone = 0
    for _, size, path in sorted(found):
        if total <= limit:
            break
        try:
            os.unlink(path)
        except OSError:
            continue
        total -= size
        gone += 1
    return gone
