"""Compiled programs, found again by their content: in memory, and on disk for the next process (`disk_cache`).

The key is a digest of the module's bytecode and the compile options. In memory the executables used longest ago are let
go when there are many or they are large: one of them costs a tenth of a megabyte and more, and loading it from disk
again half a millisecond, where compiling takes ten or more.
"""
from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, config
from lamina_ir.seams import Compiler

from . import _jaxlib, compilers, disk_cache, host_errors, owner, shardings

__all__ = ["CacheStats", "Loaded", "MOST_PROGRAMS", "Options", "cache_stats", "clear_memory", "compile", "overrides",
           "remembered", "resident"]

disable_most_optimizations = config.Option("disable_most_optimizations", False, keyed=True,
                                           help="compile quickly to slow programs, to see whether an optimisation is at fault")
MOST_PROGRAMS = 1024
MOST_BYTES = 1 << 29
_GIVE_BACK = 256
# XLA's compiler recurses over nested regions and calls in threads whose stacks are fixed: with jaxlib 0.10.2 it ends the
# process (SIGSEGV) between 170 and 200 nested calls and between 200 and 250 nested scans, conds or whiles.
MOST_NESTED = 128
MOST_EQUATIONS = 1 << 22  # some 0.5 ms and 20 kB of the compiler's each
# Memory an executable takes, measured: so much, and so many times its stored form (or its module's bytecode).
_BASE, _PER_STORED, _PER_CODE = 1 << 16, 20, 500
# Stored forms up to this size are read back after compiling. Measured with jaxlib 0.10.2: a program of one kernel (6 kB)
# takes 0.5 ms to read and then 0.13 MB instead of 0.23, as what the compiler needed meanwhile goes; one of 60 kernels (118
# kB) takes 17 ms and 3.3 MB instead of 2.0, one of 900 kernels 350 ms, most of what its compilation took. The first programs of
# a process are not: for the 50 MB that they take together, none of their first calls pays (a millisecond of 7 to 16).
_READ_BACK = 1 << 14
_READ_BACK_FROM = 512


class Options(NamedTuple):
    """How a module is compiled."""

    num_replicas: int = 1
    num_partitions: int = 1
    propagate: tuple[bool, ...] = ()   # per result: whether the partitioner may choose its sharding
    cheap: bool = False                # for programs of a few equations: compile in half the time
    together: bool = False             # of several devices, none of which may stop in a callback
    shardy: bool = False               # split by Shardy's rules: maps stand inside
    overrides: tuple[tuple[str, Any], ...] = ()   # the user's settings of the compiler
    rolled: bool = False               # loops stay loops: their turns are not written out one behind the other


def overrides(call: str, options: Any) -> tuple[tuple[str, Any], ...]:
    """The user's `compiler_options` in one order. TypeError unless they are a dict of names and plain values."""
    if not options:
        return ()
    if not isinstance(options, dict) or not all(isinstance(k, str) for k in options):
        raise TypeError(f"{call}: compiler_options: expected a dict of names and values; got {options!r:.80}")
    for k, v in options.items():
        if not isinstance(v, (bool, int, float, str)):
            raise TypeError(f"{call}: compiler_options: {k!r} must be a bool, number or string; got {type(v).__name__}")
    return tuple(sorted(options.items()))


class CacheStats(NamedTuple):
    """Counts since the process began (or `clear_memory`): found in memory, found on disk, compiled, stored."""

    memory_hits: int = 0
    disk_hits: int = 0
    misses: int = 0
    stored: int = 0


class Loaded:
    """An executable in memory.

    Attributes:
      executable: jaxlib's.
      key: what it is found by.
      size: bytes of memory it takes, estimated.
      failures: where exceptions of its callbacks are kept, if it goes on after them.
      device: the first of those it runs on.
      holders: program -> the keys under which that remembers something made of this executable.
    """

    __slots__ = ("executable", "key", "size", "failures", "holders", "device")

    def __init__(self, executable: Any, key: Any, size: int, device: Any,
                 failures: host_errors.Failures | None = None) -> None:
        self.executable, self.key, self.size, self.device, self.failures = executable, key, size, device, failures
        self.holders: weakref.WeakKeyDictionary[ClosedJaxpr, set[Any]] = weakref.WeakKeyDictionary()


_lock = threading.Lock()
_left = 0  # how many went since freed memory was last given back
_ended: deque[Any] = deque()  # keys of executables that nobody can find again
_being_made: dict[Any, threading.Lock] = {}
_counts = {"memory_hits": 0, "disk_hits": 0, "misses": 0, "stored": 0}


def cache_stats() -> CacheStats:
    """The counters of this process."""
    return CacheStats(**_counts)


def resident() -> tuple[int, int]:
    """(how many executables are held in memory, their estimated bytes)."""
    here = owner.current
    return len(here.executables), here.size


def clear_memory() -> None:
    """Forget the executables held in memory (those in use stay alive) and reset the counters."""
    with _lock:
        owner.current.executables.clear()
        owner.current.size = 0
        for name in _counts:
            _counts[name] = 0


def _count(name: str) -> None:
    with _lock:
        _counts[name] += 1


def check_size(lowered: Any) -> None:
    """RecursionError or ValueError for a module that XLA would end the process over, or never be done with."""
    size = getattr(lowered, "size", None)  # of what other lowerings make their compilers know
    if size is None:
        return
    if size.nesting > MOST_NESTED:
        raise RecursionError(f"compile of `{lowered.name}`: its control flow and calls stand {size.nesting} levels deep in one "
                             f"another, `{size.deepest}` innermost; XLA ends the process at some 200, so at most {MOST_NESTED} "
                             "are compiled. Use one lax.switch for a chain of conds, lax.fori_loop or lax.scan for a function "
                             "that calls itself, or jit the inner part and call it from Python")
    if size.equations > MOST_EQUATIONS:
        raise ValueError(f"compile of `{lowered.name}`: XLA copies a function into each place that calls it, which makes "
                         f"{size.equations:,} equations of this program; at most {MOST_EQUATIONS:,} are compiled. Use "
                         "lax.fori_loop or lax.scan for what is done again and again, or jit the inner part and call it from "
                         "Python")


def compile(lowered: Any, devices: tuple[Any, ...], options: Options) -> Loaded:
    """The executable of a lowered program. Threads that ask for the same one wait for the first.

    Args:
      lowered: what `lamina_lowering.lower` gave.
      devices: one per (replica, partition), in row-major order.
      options: how.
    Raises:
      RecursionError: control flow and calls stand too deep in one another.
      ValueError: the program is too long once its calls are copied.
    """
    by = compilers.accepting(lowered)
    check_size(lowered)
    if disable_most_optimizations.value:
        options = options._replace(overrides=(*_jaxlib.UNOPTIMISED, *options.overrides))
    if needs := getattr(lowered, "needs", None):
        _jaxlib.provide(needs)
    if getattr(lowered, "host_functions", ()):  # it holds Python functions, so it is of this program and this process alone
        _count("misses")
        failures = host_errors.Failures() if options.together else None
        functions = [host_errors.guarded(f, failures) for f in lowered.host_functions]
        made = by.compile(lowered, devices, _settings(options, tuple(d.id for d in devices)), functions)
        return Loaded(made, object(), _BASE + _PER_CODE * len(lowered.bytecode()), devices[0], failures)
    from hashlib import sha256  # a millisecond or two of a process that compiles nothing
    code = lowered.bytecode()
    digest = sha256(code)
    digest.update(repr(options).encode())
    if by.name != "xla":
        digest.update(by.name.encode())
    here = owner.current
    key = (digest.digest(), devices)
    with _lock:
        turn = _being_made.setdefault(key, threading.Lock())
    with turn:
        with _lock:
            found = here.executables.get(key)
            if found is not None:
                here.executables.move_to_end(key)
                _counts["memory_hits"] += 1
        try:
            if found is None:
                found = _from_disk_or_compiler(by, lowered, key, devices, options)
                _enter(found)
        finally:
            _being_made.pop(key, None)
    return found


def _from_disk_or_compiler(by: Compiler, lowered: Any, key: Any, devices: tuple[Any, ...], options: Options) -> Loaded:
    where = shardings.device_list(devices)
    settings = _settings(options, tuple(d.id for d in devices))
    path = disk_cache.path_of(key[0], devices)
    payload = None if path is None else disk_cache.read(path)
    if payload is not None:
        found = _deserialized(devices[0].client, payload, where, settings)
        if found is not None:
            _count("disk_hits")
            return Loaded(found, key, _BASE + _PER_STORED * len(payload), devices[0])
    start = time.perf_counter()
    made = by.compile(lowered, devices, settings)
    seconds = time.perf_counter() - start
    _count("misses")
    if path is None:
        return Loaded(made, key, _BASE + _PER_CODE * len(lowered.bytecode()), devices[0])
    try:
        payload = made.serialize()
    except Exception:  # not every program of every platform can be
        return Loaded(made, key, _BASE + _PER_CODE * len(lowered.bytecode()), devices[0])
    if disk_cache.worth_keeping(seconds, len(payload)) and disk_cache.store(path, payload):
        _count("stored")
    if len(payload) <= _READ_BACK and len(owner.current.executables) >= _READ_BACK_FROM:
        made = _deserialized(devices[0].client, payload, where, settings) or made
    return Loaded(made, key, _BASE + _PER_STORED * len(payload), devices[0])


def _deserialized(client: Any, payload: bytes, where: Any, settings: Any) -> Any:
    try:
        return client.deserialize_executable(payload, where, settings)
    except Exception:  # damaged, or of another build of jaxlib
        return None


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
        b.use_shardy_partitioner = options.shardy
        if options.propagate:
            b.allow_spmd_sharding_propagation_to_output = list(options.propagate)
    chosen = (_jaxlib.cheap_overrides() if options.cheap else []) + list(options.overrides)
    if chosen:
        o.env_option_overrides = chosen
    return _jaxlib.rolled(o) if options.rolled else o


# --- what stays in memory -----------------------------------------------------------------------------------------
def remembered(closed: ClosedJaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """`make()`, an object with a `loaded`, remembered with `closed` until the executable has to leave."""
    by = compilers.compiler().name
    key = key if by == "xla" else (*key, by)
    made = closed.memo(key, make)
    if not _enter(made.loaded, closed, key):
        closed.forget(key)
    return made


@owner.when_closed
def _forget_all(gone: owner.Owner) -> None:
    with _lock:
        leaving = list(gone.executables.values())
        gone.executables.clear()
        holders = _holders(leaving)
    for closed, name in holders:
        closed.forget(name)


def _holders(leaving: Iterable[Loaded]) -> list[tuple[ClosedJaxpr, Any]]:
    return [(closed, name) for gone in leaving for closed, names in gone.holders.items() for name in names]


def _end(key: Any) -> None:
    """Let an executable go that is of one program alone: the program is no more."""
    _ended.append(key)
    if _lock.acquire(blocking=False):  # else the collector has interrupted a block of ours, and the next time will do
        try:
            leaving = _take_ended()
        finally:
            _lock.release()
        del leaving


def _take_ended() -> list[Loaded]:
    """Called with `_lock` held."""
    here = owner.current
    found = [gone for gone in [here.executables.pop(_ended.popleft(), None) for _ in range(len(_ended))] if gone is not None]
    here.size -= sum(gone.size for gone in found)
    return found


def _enter(loaded: Loaded, holder: ClosedJaxpr | None = None, held_as: Any = None) -> bool:
    """Note that an executable is used, and let others go if there are too many now. False for one of clients that were
    given up meanwhile."""
    global _left
    with _lock:
        here = owner.current
        if owner.is_closed(loaded.device):
            return False
        memory = here.executables
        if holder is not None:
            loaded.holders.setdefault(holder, set()).add(held_as)
        if memory.get(loaded.key) is loaded:
            memory.move_to_end(loaded.key)
            return True
        if holder is not None and type(loaded.key) is object:  # what its host functions close over goes with it
            weakref.finalize(holder, _end, loaded.key).atexit = False
        leaving = _take_ended()
        old = memory.pop(loaded.key, None)
        if old is not None:
            here.size -= old.size
            leaving.append(old)
        memory[loaded.key] = loaded
        here.size += loaded.size
        large = here.size > MOST_BYTES
        most = MOST_BYTES // 2 if large else MOST_BYTES
        while len(memory) > 1 and (len(memory) > MOST_PROGRAMS or here.size > most):
            leaving.append(memory.popitem(last=False)[1])
            here.size -= leaving[-1].size
        _left += len(leaving)
        give_back = _left >= _GIVE_BACK
        if give_back:
            _left = 0
        holders = _holders(leaving)
    for closed, name in holders:
        closed.forget(name)
    if large:  # jaxlib's call objects bound their number only; those in use come back with their next call
        _jaxlib.PjitFunctionCache.clear_all()
    if give_back:  # else the gaps the compiler leaves add up
        _jaxlib.give_back_memory()
    return True
