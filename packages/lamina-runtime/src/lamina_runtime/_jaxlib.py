"""The one door to jaxlib: every private name, every difference between its versions, and the process-wide set-up.

Nothing else in this package imports jaxlib. Differences are found by asking jaxlib what it offers, not by version.
"""
from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

LOWEST, BELOW = (0, 10, 2), (0, 13)


class _RefuseJax:
    """Import hook: `import jax` after us gets one clear line instead of a half-broken array class."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name != "jax" or importlib.machinery.PathFinder.find_spec(name, path) is None:
            return None
        return importlib.machinery.ModuleSpec(name, _RefuseJax)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> None:
        return None

    @staticmethod
    def exec_module(module: Any) -> None:
        raise ImportError("jax cannot be imported in a process that has imported lamina_runtime: both would own "
                          "jaxlib's one array class. Use a process for each")


def _open() -> str:
    """Check that this process can hold us, import jaxlib, and return its version."""
    if "jax" in sys.modules:
        raise ImportError("lamina_runtime cannot be imported in a process that has imported jax: both would own "
                          "jaxlib's one array class. Use a process for each")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read once, when the shared library is loaded
    try:
        from jaxlib.version import __version__ as found  # after TF_CPP_MIN_LOG_LEVEL is set
    except ImportError as e:
        raise ImportError("lamina_runtime needs jaxlib >=0.10.2,<0.13, which is not installed; "
                          "pip install 'jaxlib>=0.10.2,<0.13'") from e
    numbers = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in found.split(".")[:3])
    if not LOWEST <= numbers < BELOW:
        raise ImportError(f"lamina_runtime needs jaxlib >=0.10.2,<0.13; found {found}. "
                          "pip install 'jaxlib>=0.10.2,<0.13'")
    # jaxlib makes the sharding of every single-device array by importing this module of jax. Blocked, the import
    # fails at once; unblocked it would cost 30 us per array, or load jax and hand it our array class. `jax.core`, which it
    # imports once, stays free: SciPy and others look for that name in sys.modules and expect a module there.
    sys.modules["jax._src.sharding_impls"] = None  # type: ignore[assignment]
    sys.meta_path.insert(0, _RefuseJax)
    return found


VERSION = _open()
VERSION_NUMBERS = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in VERSION.split(".")[:3])

from jaxlib import cpu_feature_guard  # noqa: E402

cpu_feature_guard.check_cpu_features()  # before the large library, for a clean message on an old processor

from jaxlib import weakref_lru_cache as _weakref_lru_cache  # noqa: E402, F401  needed before typed values exist
from jaxlib import _jax, utils, xla_client as xc  # noqa: E402
from lamina_ir import config  # noqa: E402

from . import lapack_tables  # noqa: E402

ArrayImpl = xc.ArrayImpl
Device = xc.Device
DeviceList = xc.DeviceList
HloSharding = xc.HloSharding
Sharding = xc.Sharding
SingleDeviceSharding = xc.SingleDeviceSharding
GSPMDSharding = xc.GSPMDSharding
JaxRuntimeError = _jax.JaxRuntimeError
LAUNCH_ERRORS = (JaxRuntimeError, ValueError)  # a failed run raises either, by version
PyTreeRegistry = _jax.pytree.PyTreeRegistry
PyTreeDef = _jax.pytree.PyTreeDef
pytree = _jax.pytree
pjit = _jax.pjit
PjitFunctionCache = _jax.PjitFunctionCache
PjitFunction = _jax.PjitFunction
wait_for = ArrayImpl.block_until_ready  # jaxlib's own, before arrays get theirs
delete = ArrayImpl.delete
batched_device_put = _jax.batched_device_put
batched_block_until_ready = _jax.batched_block_until_ready
COPY_DURING_CALL = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
ZERO_COPY = xc.HostBufferSemantics.ZERO_COPY
to_dlpack = _jax.buffer_to_dlpack_managed_tensor


# --- process-wide state ------------------------------------------------------------------------------------------
UNSET = _jax.config.unset


def new_state(name: str, value: Any, keyed: bool = True) -> Any:
    """A thread-local-over-global setting jaxlib's call path reads; `keyed` ones are part of every signature."""
    return _jax.config.Config(name, value, include_in_jit_key=keyed, include_in_trace_context=keyed)


x64_state = new_state("enable_x64", False)
disable_jit_state = new_state("disable_jit", False)
post_hook_state = new_state("post_hook", None, keyed=False)
_jax.jax_jit.set_enable_x64_state(x64_state)
_jax.jax_jit.set_disable_jit_state(disable_jit_state)
_jax.jax_jit.set_post_hook_state(post_hook_state)


def watch_into(state: Any) -> Callable[[Any, bool], None]:
    """A watcher for `config.Option.watch` that keeps `state` equal to the option."""
    def tell(value: Any, is_local: bool) -> None:
        if is_local:
            state.set_local(UNSET if value is config.UNSET else value)
        else:
            state.set_global(value)
    return tell


def _collect(phase: str, info: Any) -> None:
    _jax.collect_garbage()  # references jaxlib dropped on threads without the interpreter lock


gc.callbacks.append(_collect)


def set_transfer_guard(direction: str, level: str | None, is_local: bool) -> None:
    """Set what jaxlib does about transfers; None ends a thread's own level."""
    guards = _jax.guard_lib
    state = guards.thread_local_state() if is_local else guards.global_state()
    setattr(state, direction, None if level is None else getattr(guards.TransferGuardLevel, level.upper()))


@contextlib.contextmanager
def explicit_transfer(kind: str) -> Iterator[None]:
    """A block whose transfers were asked for; `kind` is 'put' or 'get'."""
    state, name = _jax.guard_lib.thread_local_state(), f"explicit_device_{kind}"
    old = getattr(state, name)
    setattr(state, name, True)
    try:
        yield
    finally:
        setattr(state, name, old)


def quiet(level: int) -> None:
    """Drop jaxlib's log lines below `level`: 1 keeps warnings, 2 errors, 3 nothing but crashes."""
    utils.absl_set_min_log_level(level)


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """A block in which jaxlib logs errors only."""
    usual = int(os.environ.get("TF_CPP_MIN_LOG_LEVEL") or 0)
    quiet(max(usual, 2))
    try:
        yield
    finally:
        quiet(usual)


def load(name: str) -> Any:
    """A module of jaxlib that few programs need, imported when one does."""
    # the one place for all of them
    return importlib.import_module(f"jaxlib.{name}")


def give_back_memory() -> None:
    """Return the freed memory that glibc's allocator keeps to the system; nothing where there is another one."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


# --- clients -----------------------------------------------------------------------------------------------------
_STRAGGLER_FLAG = "--xla_cpu_collective_call_terminate_timeout_seconds"


def make_cpu_client(num_devices: int | None, **more: Any) -> Any:
    """A CPU client. `num_devices` None leaves the number to XLA_FLAGS.

    A participant of a collective that is a minute late would end the process; the in-flight window already excludes
    deadlock, so that limit is lifted. The flag is known to every jaxlib in our range (an unknown one aborts).
    """
    flags = os.environ.get("XLA_FLAGS")
    if _STRAGGLER_FLAG not in (flags or ""):
        os.environ["XLA_FLAGS"] = f"{flags or ''} {_STRAGGLER_FLAG}=1000000".strip()
    try:
        if num_devices is not None:
            more["num_devices"] = num_devices
        return xc.make_cpu_client(**more)
    finally:
        if flags is None:
            os.environ.pop("XLA_FLAGS", None)
        else:
            os.environ["XLA_FLAGS"] = flags


_NEVER = 10**7  # seconds, four months; it counts in nanoseconds


def new_service(address: str, processes: int, limit: int, leaving: int) -> Any:
    """The service that processes connect to. `recoverable`: else the loss of one process ends all others. It counts nobody as
    silent, which would end that process when it wakes: the lobby does."""
    return _jax.get_distributed_runtime_service(address, processes, heartbeat_timeout=_NEVER,
                                                cluster_register_timeout=limit, shutdown_timeout=leaving,
                                                recoverable=True)


def new_distributed_client(address: str, rank: int, limit: int, leaving: int) -> Any:
    """A client of that; `limit` and `leaving` are the seconds in which it connects and leaves."""
    return _jax.get_distributed_runtime_client(address, rank, init_timeout=limit, shutdown_timeout=leaving,
                                               heartbeat_timeout=_NEVER, shutdown_on_destruction=False,
                                               use_compression=True)


def gloo_collectives(client: Any, host: str) -> Any:
    """Collectives between processes on CPUs; this one listens at `host`."""
    return _jax.make_gloo_tcp_collectives(distributed_client=client, hostname=host)


def include_dir() -> str:
    """The folder of jaxlib's headers."""
    return f"{xc.__file__.rpartition('/')[0]}/include"


def profile_server(port: int) -> Any:
    """A server of profiles at a port, while the object lives."""
    return load("_profiler").start_server(port)


def load_profiler() -> tuple[Any, Any]:
    """(class of annotations, class of recordings)."""
    _profiler = load("_profiler")
    return _profiler.TraceMe, _profiler.ProfilerSession


# Before 0.12 a CPU client launches programs on the threads that run them, so that queued collectives block each other.
COLLECTIVES_BLOCK_LAUNCHES = VERSION_NUMBERS < (0, 12)


# --- arrays ------------------------------------------------------------------------------------------------------
_HAS_SKIP = "_skip_checks" in (xc.array_result_handler.__doc__ or "")


def result_handler(aval: Any, sharding: Any, committed: bool) -> Any:
    """What makes the array of one result."""
    if _HAS_SKIP:
        return xc.array_result_handler(aval, sharding, committed, _skip_checks=True)
    return xc.array_result_handler(aval, sharding, committed)


def copy_to_device_list(arrays: Sequence[Any], lists: Sequence[Any], shardings: Sequence[Any],
                        copy: bool | Sequence[bool]) -> list[Any]:
    """Copies between devices, shard by shard; without `copy` (of all, or of each) a buffer already in place is shared."""
    if isinstance(copy, bool):
        how = [_ALWAYS if copy else _SHARED] * len(arrays)
    else:
        how = [_ALWAYS if c else _SHARED for c in copy]
    return _jax.batched_copy_array_to_devices_with_sharding(arrays, lists, shardings, how)


_ALWAYS, _SHARED = xc.ArrayCopySemantics.ALWAYS_COPY, xc.ArrayCopySemantics.REUSE_INPUT


def layout_text(array: Any) -> str:
    """The compiler's words for how an array on one device lies in memory, as `{1,0}`."""
    return str(array._pjrt_layout)


def from_dlpack(capsule: Any, device: Any) -> Any:
    """A single-device array (without aval) over the memory in a DLPack capsule."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)


# --- kernels -----------------------------------------------------------------------------------------------------
_provided: set[str] = set()
_provide_lock = threading.Lock()


def provide(needs: Iterable[str]) -> None:
    """Register the kernel libraries programs call; LAPACK loads scipy's, once."""
    for name in needs:
        if name not in _provided:
            with _provide_lock:
                if name not in _provided:
                    _LIBRARIES[name]()
                    _provided.add(name)


def _provide_lapack() -> None:
    lapack = load("lapack")
    for platform, targets in lapack.registrations().items():
        for name, function, version in targets:
            xc.register_custom_call_target(name, function, platform=platform, api_version=version)
    with lapack_tables.shown():
        lapack._lapack.initialize()


_LIBRARIES = {"lapack": _provide_lapack}


# --- compiling ---------------------------------------------------------------------------------------------------
DeviceAssignment = xc.DeviceAssignment
CompileOptions = xc.CompileOptions
_HAS_FUSION_SWITCH = VERSION_NUMBERS < (0, 11)


def cheap_overrides() -> list[tuple[str, Any]]:
    """Compile settings that halve the compile time of a very small program and do not slow it."""
    return [("xla_cpu_use_fusion_emitters", False)] if _HAS_FUSION_SWITCH else []


def rolled(options: Any) -> Any:
    """The same settings, with which LLVM leaves loops as they are. `xla_backend_extra_options` is a map that no attribute and
    no override sets, so it is written behind what they come to as a Protocol Buffer, whose reader merges the two."""
    return CompileOptions.ParseFromString(options.SerializeAsString() + _ROLLED)


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes, of less than 128 of them [Protocol Buffers, Encoding: length-delimited]."""
    tag = number << 3 | 2
    return (bytes((tag,)) if tag < 128 else bytes((tag & 127 | 128, tag >> 7))) + bytes((len(content),)) + content


_EXTRA_OPTIONS = 500  # in DebugOptions, which is field 3 of ExecutableBuildOptions, field 3 of CompileOptions
_ROLLED = _field(3, _field(3, _field(_EXTRA_OPTIONS, _field(1, b"xla_cpu_disable_loop_unrolling") + _field(2, b""))))

# Compile settings of a program that is to be compiled with next to no optimisation.
UNOPTIMISED: tuple[tuple[str, Any], ...] = (("xla_backend_optimization_level", 0), ("xla_llvm_disable_expensive_passes", True))


def lone_overrides(platform: str) -> tuple[tuple[str, Any], ...]:
    """Compile settings with which a process compiles a program of several processes without waiting for theirs. On GPUs they
    would share the search for the fastest kernels: one that compiles another program, or is lost, would never be done."""
    return (("xla_gpu_shard_autotuning", False),) if platform == "cuda" else ()


def hlo_cost(client: Any, module: Any) -> dict[str, float]:
    """The compiler's estimate of what a module costs, before optimisation."""
    return dict(_jax.hlo_module_cost_analysis(client, module))


def keep_for_ever(x: Any) -> None:
    """Have an object outlive the interpreter: a client's destructor waits for threads that a forked child has not."""

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


def sharding_from_proto(proto: Any) -> Any:
    return HloSharding.from_proto(proto)
