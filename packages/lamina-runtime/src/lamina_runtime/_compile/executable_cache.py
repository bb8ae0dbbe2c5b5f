"""Cache executables by content: in memory, and on disk for later processes (`disk_cache`).

The key is a digest of the module's bytecode and the compile options. The memory cache is LRU with limits on number and
bytes: an executable takes far more than its stored form. Reloading a small one from disk is much faster than compiling it.
"""
from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from lamina_ir import ClosedJaxpr, config, ExecutionError
from lamina_ir.interfaces import Compiler
from lamina_ir.typing import CacheKey, Device
from lamina_tracing.extend import logger

from .. import _jaxlib
from . import background, compiler as compile_compiler, disk_cache
from .._backend import client_state, deletion, error_translation, fork_state, progress, shutdown
from .._sharding import shardings
from .tier_switch import TierSwitch
from .._typing import Client, CompilerOptions, DeviceList, Executable, JaxlibCompileOptions, OptionPairs

if TYPE_CHECKING:
    from lamina_lowering import Lowered

__all__ = ["CacheStats", "CompileSettings", "LoadedExecutable", "MAX_PROGRAMS", "cache_stats",
           "check_compiler_options", "clear_memory", "compile", "evict", "load", "memoize", "memory_usage"]

_get_id = attrgetter("id")
_P = TypeVar("_P", bound=Any)  # a program with an attribute `loaded`
disable_most_optimizations = config.Option("disable_most_optimizations", False, keyed=True,
                                           help="compile faster to slower programs, to find faults of an optimisation")
MAX_PROGRAMS = 1024
MAX_BYTES = 1 << 29
_EVICTIONS_PER_TRIM = 256  # evicted executables after which freed memory is returned to the system
# XLA's compiler recurses over nested regions and calls, in threads with fixed stacks. jaxlib 0.10.2 crashes (SIGSEGV)
# between 170 and 200 nested calls, and between 200 and 250 nested scans, conds or whiles.
MAX_NESTING = 128
MAX_EQUATIONS = 1 << 22  # each takes the compiler about 0.5 ms and 20 kB
# Estimated memory of an executable, in bytes: a constant, plus its serialised size times _PER_STORED (or the size of
# its module's bytecode times _PER_CODE). Measured.
_BASE, _PER_STORED, _PER_CODE = 1 << 16, 20, 500
# Executables with a serialised size up to _RELOAD_MAX_BYTES are deserialised after compiling, which frees the memory
# that the compiler used for them. Measured with jaxlib 0.10.2: a program of one kernel (6 kB) is read in 0.5 ms and
# then takes 0.13 MB instead of 0.23 MB. Larger ones do not pay: one of 60 kernels (118 kB) takes 17 ms and then 3.3 MB
# instead of 2.0 MB; one of 900 kernels takes 350 ms, nearly as long as compiling it. The first 512 programs of a
# process are not reloaded: that would save 50 MB in total and make each of their first calls about 1 ms slower (of 7 to
# 16 ms).
_RELOAD_MAX_BYTES = 1 << 14
_RELOAD_MIN_PROGRAMS = 512


class CompileSettings(NamedTuple):
    """Compile options of a module."""

    num_replicas: int = 1
    num_partitions: int = 1
    propagate: tuple[bool, ...] = ()   # per result: whether the partitioner may choose its sharding
    cheap: bool = False                # small programs: fast compilation with cheaper emitters
    continue_after_error: bool = False   # multi-device programs: an exception in a callback stops no device
    shardy: bool = False               # partition with Shardy, because the program contains maps
    compiler_options: OptionPairs = ()   # the user's compiler options
    rolled_loops: bool = False         # LLVM does not unroll loops
    loop_threshold: int = 0            # loops over fewer bytes become one kernel; 0: XLA's default


def check_compiler_options(call: str, options: CompilerOptions | None) -> OptionPairs:
    """Return the user's `compiler_options` as sorted pairs. TypeError unless they are a dict of names and scalars."""
    if not options:
        return ()
    if not isinstance(options, dict) or not all(isinstance(k, str) for k in options):
        raise TypeError(f"{call}: compiler_options: expected a dict of names and values; got {options!r:.80}")
    for k, v in options.items():
        if not isinstance(v, (bool, int, float, str)):
            raise TypeError(f"{call}: compiler_options: {k!r} must be a bool, number or string; got {type(v).__name__}")
    return tuple(sorted(options.items()))


class CacheStats(NamedTuple):
    """Counts of programs found in memory, found on disk, compiled, and stored on disk.

    They start with the process, or with the latest `clear_memory`.
    """

    memory_hits: int = 0
    disk_hits: int = 0
    misses: int = 0
    stored: int = 0


class LoadedExecutable:
    """An executable in the memory cache.

    Attributes:
      executable: jaxlib's executable.
      key: the cache key.
      size: estimated bytes of memory.
      failures: collects the exceptions of its callbacks, if it continues after them; else None.
      device: the first of its devices.
      memo_keys: program -> keys of the program's memo entries that use this executable.
      payload: the bytes from which it was deserialized, as jaxlib cannot serialize it again; None if it was compiled.
      tier: `optimized`, or `first` until the executable is replaced by the optimised one.
      job: the compilation of the optimised executable, if it has not ended.
      job_error: why that compilation failed, until a warning has said so; "" if it did not.
      switch: decides when several processes replace the executable; None if this process decides alone.
    """

    __slots__ = ("executable", "key", "size", "failures", "memo_keys", "device", "payload", "tier", "job", "job_error",
                 "switch", "__weakref__")

    def __init__(self, executable: Executable, key: object, size: int, device: Device,
                 failures: error_translation.CallbackFailures | None = None, payload: bytes | None = None) -> None:
        self.payload = payload
        self.executable, self.key, self.size, self.device, self.failures = executable, key, size, device, failures
        self.memo_keys: weakref.WeakKeyDictionary[ClosedJaxpr, set[CacheKey]] = weakref.WeakKeyDictionary()
        self.tier = "optimized"
        self.job: background.Job | None = None
        self.job_error = ""
        self.switch: TierSwitch | None = None

    def is_final(self, name: str) -> bool:
        """Return whether the executable stays; if the optimised one could not be compiled, warn once."""
        if self.job is not None:
            return False
        if self.job_error:
            reason, self.job_error = self.job_error, ""
            warnings.warn(f"lamina could not optimize `{name}` in the background: {reason}. Its calls are slower; "
                          "lamina.config.update('compile_tiers', 'optimized') compiles later programs once", RuntimeWarning,
                          stacklevel=4)
        return True

    def wait(self) -> bool:
        """Wait until no compilation is pending. Return whether the executable is the optimised one."""
        job = self.job
        if job is not None:
            job.wait()
        return self.tier == "optimized"

    def finish(self, optimized: LoadedExecutable | None, error: str) -> None:
        """Take over the optimised executable; None: `error` says why it could not be compiled."""
        replaced = self.executable  # destroyed outside the lock
        with _lock:
            if optimized is not None:
                state = client_state.current
                if state.executables.get(self.key) is self:
                    state.executable_bytes += optimized.size - self.size
                self.executable, self.size, self.payload = optimized.executable, optimized.size, optimized.payload
                self.tier = optimized.tier
            self.job_error, self.job = error, None
        del replaced


_lock = threading.Lock()
_evicted = 0  # executables evicted since freed memory was last returned to the system
_dead_keys: deque[CacheKey] = deque()  # keys of executables whose only program has been collected
_compile_locks: dict[CacheKey, threading.Lock] = {}  # held while the executable of a key is compiled
_counts = {"memory_hits": 0, "disk_hits": 0, "misses": 0, "stored": 0}


def cache_stats() -> CacheStats:
    """Return the counters of this process."""
    return CacheStats(**_counts)


def memory_usage() -> tuple[int, int]:
    """Return (number of executables in memory, their estimated bytes)."""
    state = client_state.current
    return len(state.executables), state.executable_bytes


def clear_memory() -> None:
    """Drop the executables in memory (those in use stay alive) and reset the counters."""
    with _lock:
        client_state.current.executables.clear()
        client_state.current.executable_bytes = 0
        for name in _counts:
            _counts[name] = 0


def _count(name: str) -> None:
    with _lock:
        _counts[name] += 1


def check_size(lowered: Lowered) -> None:
    """Raise an error for a module that would crash XLA's compiler (RecursionError), or take too long (ValueError)."""
    size = getattr(lowered, "size", None)  # absent in the output of other lowerings
    if size is None:
        return
    if size.nesting > MAX_NESTING:
        raise RecursionError(f"compile of `{lowered.name}`: its control flow and calls are nested {size.nesting} "
                             f"levels deep, `{size.deepest}` innermost; XLA crashes at about 200, so at most "
                             f"{MAX_NESTING} levels are compiled. Use one lax.switch for a chain of conds, "
                             "lax.fori_loop or lax.scan for a recursive function, or jit the inner part and call it "
                             "from Python")
    if size.equations > MAX_EQUATIONS:
        raise ValueError(f"compile of `{lowered.name}`: XLA inlines every call, which makes {size.equations:,} "
                         f"equations of this program; at most {MAX_EQUATIONS:,} are compiled. Use lax.fori_loop or "
                         "lax.scan for repeated steps, or jit the inner part and call it from Python")


def compile(lowered: Lowered, devices: tuple[Device, ...], options: CompileSettings,
            has_two_tiers: bool = False) -> LoadedExecutable:
    """Return the executable of a lowered program, from the caches or the compiler.

    If several threads request the same program, one compiles it and the others wait.

    Args:
      lowered: the result of `lamina_lowering.lower`.
      devices: one per (replica, partition), in row-major order.
      options: the compile options.
      has_two_tiers: whether the executable may be one of the first tier, which is replaced later.
    Raises:
      RecursionError: control flow and calls are nested too deeply.
      ValueError: the program is too long once its calls are inlined.
      RuntimeError: this is a forked child.
    """
    if fork_state.is_disabled:
        fork_state.refuse()
    compiler = compile_compiler.compiler_for(lowered)
    check_size(lowered)
    if disable_most_optimizations.ever_enabled and disable_most_optimizations.value:
        options = options._replace(compiler_options=(*_jaxlib.UNOPTIMISED, *options.compiler_options))
    if needs := getattr(lowered, "needs", None):
        _jaxlib.register_kernels(needs)
    # A program with host callbacks holds Python functions, so no other program or process can use its executable.
    if getattr(lowered, "host_functions", ()):
        deletion.note_foreign_threads()
        _count("misses")
        failures = error_translation.CallbackFailures() if options.continue_after_error else None
        functions = [error_translation.guard_callback(f, failures) for f in lowered.host_functions]
        settings = _compile_options(options, tuple(d.id for d in devices))
        with progress.operation(f"compiling `{lowered.name}`"):
            made = compiler.compile(lowered, devices, settings, functions)
        return LoadedExecutable(made, object(), _BASE + _PER_CODE * len(lowered.bytecode()), devices[0], failures)
    from hashlib import sha256  # noqa: PLC0415 (imported late: it costs a process that compiles nothing a millisecond or two)
    code = lowered.bytecode()
    digest = sha256(code)
    digest.update(repr(options).encode())
    if compiler.name != "xla":
        digest.update(compiler.name.encode())
    state = client_state.current
    switch = None
    if has_two_tiers and len({d.process_index for d in devices}) > 1:
        digest.update(b"two tiers")  # not the executable of calls that never run the first tier
        switch = state.tier_switches.setdefault((digest.digest(), devices), TierSwitch())
    key = (digest.digest(), devices)
    with _lock:
        key_lock = _compile_locks.setdefault(key, threading.Lock())
    with key_lock:
        with _lock:
            found = state.executables.get(key)
            if found is not None:
                state.executables.move_to_end(key)
                _counts["memory_hits"] += 1
        try:
            if found is None:
                path = disk_cache.cache_path(key[0], devices) if disk_cache.compilation_cache.value else None
                task = _CompileTask(compiler, lowered, len(code), key, devices, options, path, switch)
                found = None if path is None else task.load(path)
                if found is None:
                    found = task.compile(has_two_tiers and type(compiler) is compile_compiler.XLACompiler)
                _insert(found)
        finally:
            # A thread that comes now may make a new lock while others still wait for this one. That is harmless: all
            # of them look into the table first.
            _compile_locks.pop(key, None)
    return found


def load(lowered: Lowered, devices: tuple[Device, ...], options: CompileSettings, payload: bytes) -> LoadedExecutable:
    """Return a deserialized executable of a lowered program, which no cache holds.

    Args:
      lowered, devices, options: as for `compile`, with the values with which it was compiled.
      payload: the bytes of jaxlib's `serialize`.
    Raises:
      ExecutionError: jaxlib rejects the bytes.
    """
    if fork_state.is_disabled:
        fork_state.refuse()
    if needs := getattr(lowered, "needs", None):
        _jaxlib.register_kernels(needs)
    found = _deserialize(devices[0].client, payload, shardings.device_list(devices),
                         _compile_options(options, tuple([d.id for d in devices])))
    if found is None:
        raise ExecutionError(f"load of `{lowered.name}`: jaxlib cannot read the executable. Serialize it again with this build")
    return LoadedExecutable(found, object(), _BASE + _PER_STORED * len(payload), devices[0], payload=payload)


class _CompileTask(NamedTuple):
    """A program to be compiled, with its key in the memory cache."""

    compiler: Compiler
    lowered: Lowered
    code_size: int
    key: tuple[bytes, tuple[Device, ...]]
    devices: tuple[Device, ...]
    options: CompileSettings
    path: str | None  # its file in the disk cache; None: it is not stored
    switch: TierSwitch | None = None

    def load(self, path: str) -> LoadedExecutable | None:
        """Return the executable from its file in the disk cache; None if it is not there."""
        payload = disk_cache.read(path)
        found = None if payload is None else self._deserialize(payload)
        if found is not None:
            _count("disk_hits")
        return found

    def compile(self, has_two_tiers: bool) -> LoadedExecutable:
        """Return a compiled executable: the optimised one, or one of the first tier that is replaced later."""
        with progress.operation(f"compiling `{self.lowered.name}`"):
            is_quick = has_two_tiers and not (self.switch is not None and self.switch.is_optimized)
            made = self._compile_first_tier() if is_quick else self._compile_optimized()
        made.switch = self.switch
        _count("misses")
        return made

    def _compile_first_tier(self) -> LoadedExecutable:
        """Compile quickly, and submit the optimising compilation. The disk cache gets only the result of the latter."""
        quick = self.options._replace(cheap=True, compiler_options=(*_jaxlib.UNOPTIMISED, *self.options.compiler_options))
        loaded = self._wrap(self._compile(quick))
        reference, is_logged = weakref.ref(loaded), bool(config.log_compiles.value)  # settings of this thread
        loaded.job = background.Job(self.lowered.name, self.devices[0], lambda: self._optimize(reference, is_logged))
        loaded.tier = "first"
        if self.switch is None:
            return loaded if background.submit(loaded.job) else self._compile_optimized()
        if self.switch.error:
            loaded.job = None
        elif not background.submit(loaded.job):
            # The other processes run the first tier, too.
            loaded.job = None
            self.switch.note_compiled(None, "no thread could be started")
        return loaded

    def _optimize(self, reference: weakref.ref[LoadedExecutable], is_logged: bool) -> None:
        """Replace an executable of the first tier, unless it has been freed."""
        if reference() is None:
            return
        made, error, start = None, "", time.perf_counter()
        try:
            made = self._compile_optimized()
        except BaseException as e:  # out of memory, for example
            error = f"{type(e).__name__}: {e}"
        loaded = reference()
        if loaded is not None:
            # Arrays of the results have the shardings that the partitioner chose in the first tier.
            if made is not None and self.options.propagate and _result_shardings(made) != _result_shardings(loaded):
                made, error = None, "the compiler chose other shardings for the results"
            if self.switch is None:
                loaded.finish(made, error)
            else:
                loaded.job = None
                self.switch.note_compiled(made, error)
            if is_logged:
                logger.warning("`%s`: %s in the background in %.4f s", self.lowered.name,
                               f"failed ({error})" if error else "optimized", time.perf_counter() - start)

    def _compile_optimized(self) -> LoadedExecutable:
        path, start = self.path, time.perf_counter()
        made = self._compile(self.options)
        seconds = time.perf_counter() - start
        if path is None:
            return self._wrap(made)
        try:
            payload = made.serialize()
        except Exception:  # not every platform can serialise every program
            return self._wrap(made)
        if disk_cache.should_store(seconds, len(payload)) and disk_cache.store(path, payload):
            _count("stored")
        found = None
        if len(payload) <= _RELOAD_MAX_BYTES and len(client_state.current.executables) >= _RELOAD_MIN_PROGRAMS:
            found = self._deserialize(payload)
        return found or LoadedExecutable(made, self.key, _BASE + _PER_STORED * len(payload), self.devices[0])

    def _compile(self, options: CompileSettings) -> Executable:
        thread = threading.get_ident()
        shutdown.compiling_threads.add(thread)
        try:
            return self.compiler.compile(self.lowered, self.devices, self._settings(options))
        finally:
            shutdown.compiling_threads.discard(thread)

    def _settings(self, options: CompileSettings) -> JaxlibCompileOptions:
        return _compile_options(options, tuple(map(_get_id, self.devices)))

    def _wrap(self, made: Executable) -> LoadedExecutable:
        return LoadedExecutable(made, self.key, _BASE + _PER_CODE * self.code_size, self.devices[0])

    def _deserialize(self, payload: bytes) -> LoadedExecutable | None:
        found = _deserialize(self.devices[0].client, payload, shardings.device_list(self.devices),
                             self._settings(self.options))
        if found is None:
            return None
        return LoadedExecutable(found, self.key, _BASE + _PER_STORED * len(payload), self.devices[0], payload=payload)


def _result_shardings(loaded: LoadedExecutable) -> list[str]:
    """Return the texts of the shardings of the results of a partitioned program."""
    return [str(_jaxlib.sharding_from_proto(p)) for p in loaded.executable.get_output_shardings() or ()]


def _deserialize(client: Client, payload: bytes, device_list: DeviceList,
                 settings: JaxlibCompileOptions) -> Executable | None:
    """Return a deserialised executable; None if jaxlib rejects it."""
    try:
        return client.deserialize_executable(payload, device_list, settings)
    except Exception:  # damaged, or written by another build of jaxlib
        return None


@lru_cache(maxsize=1024)
def _compile_options(options: CompileSettings, ids: tuple[int, ...]) -> JaxlibCompileOptions:
    """Return jaxlib's `CompileOptions` for devices with these ids."""
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
    env_overrides = (_jaxlib.cheap_overrides() if options.cheap else []) + list(options.compiler_options)
    if env_overrides:
        o.env_option_overrides = env_overrides
    extra: dict[str, str] = {}
    if options.rolled_loops:
        extra["xla_cpu_disable_loop_unrolling"] = ""
    if options.loop_threshold:
        extra["xla_cpu_small_while_loop_byte_threshold"] = str(options.loop_threshold)
    return _jaxlib.add_extra_options(o, extra) if extra else o


# --- the memory cache ---------------------------------------------------------------------------------------------
# Executables are referenced from two places: the LRU table `executables`, and memo entries of programs (`memoize`). So
# an eviction must remove both, which `LoadedExecutable.memo_keys` makes possible.
def memoize(closed: ClosedJaxpr, key: tuple[CacheKey, ...], make: Callable[[], _P]) -> _P:
    """Memoize `make()` with a program until its executable is evicted.

    The result must have an attribute `loaded` with the `LoadedExecutable`.
    """
    compiler = compile_compiler.compiler().name
    key = key if compiler == "xla" else (*key, compiler)
    made = closed.memo(key, make)
    if not _insert(made.loaded, closed, key):
        closed.drop_memo(key)
    return made


def evict(loaded: LoadedExecutable) -> None:
    """Remove an executable from the memory cache and from the memo entries of its programs."""
    with _lock:
        state = client_state.current
        if state.executables.get(loaded.key) is loaded:
            del state.executables[loaded.key]
            state.executable_bytes -= loaded.size
        entries = _memo_entries([loaded])
    for closed, key in entries:
        closed.drop_memo(key)


@client_state.on_close
def _evict_all(closed_state: client_state.ClientState) -> None:
    with _lock:
        evicted = list(closed_state.executables.values())
        closed_state.executables.clear()
        entries = _memo_entries(evicted)
    for closed, key in entries:
        closed.drop_memo(key)


def _memo_entries(evicted: Iterable[LoadedExecutable]) -> list[tuple[ClosedJaxpr, CacheKey]]:
    return [(closed, key) for loaded in evicted for closed, keys in loaded.memo_keys.items() for key in keys]


def _on_program_collected(key: CacheKey) -> None:
    """Drop the executable of a program with host callbacks after the program was garbage-collected.

    This finalizer can run in a thread that holds `_lock`, so it must not wait for the lock. If the lock is taken, the
    next insertion drops the executable.
    """
    _dead_keys.append(key)
    if _lock.acquire(blocking=False):
        try:
            evicted = _pop_dead()
        finally:
            _lock.release()
        del evicted  # destroys the executables, outside the lock


def _pop_dead() -> list[LoadedExecutable]:
    """Remove and return the executables of `_dead_keys`. The caller holds `_lock`."""
    if not _dead_keys:
        return []
    state = client_state.current
    popped = [state.executables.pop(_dead_keys.popleft(), None) for _ in range(len(_dead_keys))]
    found = [loaded for loaded in popped if loaded is not None]
    state.executable_bytes -= sum(loaded.size for loaded in found)
    return found


def _insert(loaded: LoadedExecutable, program: ClosedJaxpr | None = None, memo_key: CacheKey | None = None) -> bool:
    """Insert an executable or mark it as recently used; evict others if the limits are exceeded.

    Args:
      loaded: the executable.
      program, memo_key: the memo entry that references it, if any.
    Returns:
      False if the client of the executable was closed meanwhile: then it is not inserted.
    """
    global _evicted
    with _lock:
        state = client_state.current
        if state.epoch and client_state.is_closed(loaded.device):
            return False
        memory = state.executables
        if program is not None:
            loaded.memo_keys.setdefault(program, set()).add(memo_key)
        if memory.get(loaded.key) is loaded:
            memory.move_to_end(loaded.key)
            return True
        # A program with host callbacks: free the executable, and the objects its callbacks close over, with the
        # program.
        if program is not None and type(loaded.key) is object:
            weakref.finalize(program, _on_program_collected, loaded.key).atexit = False
        evicted = _pop_dead()
        old = memory.pop(loaded.key, None)
        if old is not None:
            state.executable_bytes -= old.size
            evicted.append(old)
        memory[loaded.key] = loaded
        state.executable_bytes += loaded.size
        too_large = state.executable_bytes > MAX_BYTES
        # Evict down to half the limit, so that jaxlib's caches are seldom cleared (below).
        limit = MAX_BYTES // 2 if too_large else MAX_BYTES
        while len(memory) > 1 and (len(memory) > MAX_PROGRAMS or state.executable_bytes > limit):
            evicted.append(memory.popitem(last=False)[1])
            state.executable_bytes -= evicted[-1].size
        _evicted += len(evicted)
        trim = _evicted >= _EVICTIONS_PER_TRIM
        if trim:
            _evicted = 0
        entries = _memo_entries(evicted) if evicted else ()
    for closed, key in entries:
        closed.drop_memo(key)
    # jaxlib's fast-path caches limit the number of their entries, not their bytes, and hold executables. Programs in
    # use get new entries at their next call.
    if too_large:
        _jaxlib.PjitFunctionCache.clear_all()
    if trim:  # otherwise the memory fragments that the compiler frees add up
        _jaxlib.release_free_memory()
    return True
