"""Import and configure jaxlib, and hide the differences between its versions.

This is the only module of the package that imports jaxlib. It detects features instead of comparing versions where
jaxlib shows them.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from lamina_ir.typing import Value

from .._typing import (
    Array, Client, HloTiles, JaxlibCompileOptions, JaxlibDevice,
    JaxlibSharding, JaxlibState, OpSharding, OptionPairs, ResultHandler, SettingValue)

MIN_VERSION, VERSION_BOUND = (0, 10, 2), (0, 13)


class _RefuseJax:
    """Import hook that refuses `import jax`: jax would overwrite the methods set on jaxlib's array class."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None,
                  target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != "jax" or importlib.machinery.PathFinder.find_spec(name, path) is None:
            return None
        return importlib.machinery.ModuleSpec(name, _RefuseJax)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: object) -> None:
        return None

    @staticmethod
    def exec_module(module: object) -> None:
        raise ImportError("jax cannot be imported in a process that has imported lamina_runtime: both would own "
                          "jaxlib's one array class. Use a process for each")


def _import_jaxlib() -> str:
    """Check that jax is not loaded and that jaxlib fits, import jaxlib, and return its version."""
    if getattr(sys.modules.get("jax"), "__name__", None) == "jax":  # and not lamina under this name
        raise ImportError("lamina_runtime cannot be imported in a process that has imported jax: both would own "
                          "jaxlib's one array class. Use a process for each")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # read once, when the shared library is loaded
    try:
        from jaxlib.version import __version__ as found  # noqa: PLC0415 (after TF_CPP_MIN_LOG_LEVEL is set)
    except ImportError as e:
        raise ImportError("lamina_runtime needs jaxlib >=0.10.2,<0.13, which is not installed; "
                          "pip install 'jaxlib>=0.10.2,<0.13'") from e
    numbers = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in found.split(".")[:3])
    if not MIN_VERSION <= numbers < VERSION_BOUND:
        raise ImportError(f"lamina_runtime needs jaxlib >=0.10.2,<0.13; found {found}. "
                          "pip install 'jaxlib>=0.10.2,<0.13'")
    # jaxlib imports this module of jax for every single-device array that it makes itself (the shards of an array).
    # A None entry makes that import fail at once. Without the entry it costs 30 us per shard, or it loads jax, which
    # then overwrites the methods of the array class. jaxlib imports `jax.core` only once, so no entry is made for it:
    # SciPy and others look for that name in sys.modules and expect a module.
    sys.modules["jax._src.sharding_impls"] = None  # type: ignore[assignment]
    sys.meta_path.insert(0, _RefuseJax)
    return found


VERSION = _import_jaxlib()
VERSION_NUMBERS = tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in VERSION.split(".")[:3])

from jaxlib import cpu_feature_guard  # noqa: E402

cpu_feature_guard.check_cpu_features()  # before loading the large library, for a clear message on an old processor

# set_typed_ndarray_type segfaults unless this was imported before.
from jaxlib import weakref_lru_cache as _weakref_lru_cache  # noqa: E402, F401
from jaxlib import _jax, utils, xla_client as xc  # noqa: E402
from lamina_ir import ShapedArray, config  # noqa: E402

from . import lapack_registration  # noqa: E402

ArrayImpl = xc.ArrayImpl
Device = xc.Device
DeviceList = xc.DeviceList
HloSharding = xc.HloSharding
Sharding = xc.Sharding
SingleDeviceSharding = xc.SingleDeviceSharding
GSPMDSharding = xc.GSPMDSharding
JaxRuntimeError = _jax.JaxRuntimeError
LAUNCH_ERRORS = (JaxRuntimeError, ValueError)  # of a failed run: 0.10.2 raises ValueError out of pjit, 0.12 the other
PyTreeRegistry = _jax.pytree.PyTreeRegistry
PyTreeDef = _jax.pytree.PyTreeDef
pytree = _jax.pytree
pjit = _jax.pjit
PjitFunctionCache = _jax.PjitFunctionCache
PjitFunction = _jax.PjitFunction
wait_for = ArrayImpl.block_until_ready  # the original, before `_array.methods` replaces it
delete = ArrayImpl.delete
batched_device_put = _jax.batched_device_put
batched_block_until_ready = _jax.batched_block_until_ready
COPY_DURING_CALL = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
ZERO_COPY = xc.HostBufferSemantics.ZERO_COPY
to_dlpack = _jax.buffer_to_dlpack_managed_tensor


# --- process-wide state ------------------------------------------------------------------------------------------
UNSET = _jax.config.unset


def new_state(name: str, value: object, keyed: bool = True) -> JaxlibState:
    """Make a setting that jaxlib's call path reads: global, with thread-local overrides.

    A `keyed` setting is part of the cache key of every call, so that changing it causes cache misses.
    """
    return _jax.config.Config(name, value, include_in_jit_key=keyed, include_in_trace_context=keyed)


x64_state = new_state("enable_x64", False)
disable_jit_state = new_state("disable_jit", False)
post_hook_state = new_state("post_hook", None, keyed=False)
_jax.jax_jit.set_enable_x64_state(x64_state)
_jax.jax_jit.set_disable_jit_state(disable_jit_state)
_jax.jax_jit.set_post_hook_state(post_hook_state)


def state_watcher(state: JaxlibState) -> Callable[[SettingValue, bool], None]:
    """Return a watcher for `config.Option.watch` that keeps `state` equal to the option."""
    def on_change(value: SettingValue, is_local: bool) -> None:
        if is_local:
            state.set_local(UNSET if value is config.UNSET else value)
        else:
            state.set_global(value)
    return on_change


# jaxlib defers the release of references that it drops on threads without the GIL. The callback is a C function, which
# ignores its last two arguments: Python discards a KeyboardInterrupt that is raised in a Python function called here.
_call_no_args = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.py_object] * 3)(("PyObject_CallNoArgs", ctypes.pythonapi))
gc.callbacks.append(functools.partial(_call_no_args, _jax.collect_garbage))


def set_transfer_guard(direction: str, level: str | None, is_local: bool) -> None:
    """Set jaxlib's transfer guard level for one direction; None removes the thread-local level."""
    guards = _jax.guard_lib
    state = guards.thread_local_state() if is_local else guards.global_state()
    setattr(state, direction, None if level is None else getattr(guards.TransferGuardLevel, level.upper()))


@contextlib.contextmanager
def explicit_transfer(kind: str) -> Iterator[None]:
    """Context in which transfers count as explicit; `kind` is 'put' or 'get'."""
    state, name = _jax.guard_lib.thread_local_state(), f"explicit_device_{kind}"
    old = getattr(state, name)
    setattr(state, name, True)
    try:
        yield
    finally:
        setattr(state, name, old)


def set_log_level(level: int) -> None:
    """Drop jaxlib's log lines below `level`: 1 logs warnings, 2 errors, 3 only fatal errors."""
    utils.absl_set_min_log_level(level)


@contextlib.contextmanager
def suppress_warnings() -> Iterator[None]:
    """Context in which jaxlib logs errors only."""
    level = int(os.environ.get("TF_CPP_MIN_LOG_LEVEL") or 0)
    set_log_level(max(level, 2))
    try:
        yield
    finally:
        set_log_level(level)


def import_submodule(name: str) -> Any:
    """Import a submodule of jaxlib that few programs need."""
    return importlib.import_module(f"jaxlib.{name}")


def release_free_memory() -> None:
    """Return freed memory from glibc's allocator to the system; does nothing with another allocator."""
    if not sys.platform.startswith("linux"):
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


# --- clients -----------------------------------------------------------------------------------------------------
_STRAGGLER_FLAG = "--xla_cpu_collective_call_terminate_timeout_seconds"


def make_cpu_client(num_devices: int | None, **more: object) -> Client:
    """Make a CPU client. If `num_devices` is None, XLA_FLAGS determines the number.

    XLA aborts the process if a participant of a collective is a minute late. The in-flight window of `launch_guards`
    already excludes the deadlock that this limit is for, so the limit is raised. jaxlib parses XLA_FLAGS once, when the
    first client is made, and aborts on unknown flags; all supported versions know this one.
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


def include_dir() -> str:
    """Return the directory of jaxlib's C++ headers."""
    return f"{xc.__file__.rpartition('/')[0]}/include"


def profile_server(port: int) -> object:
    """Start a profiler server at a port; it runs as long as the returned object lives."""
    return import_submodule("_profiler").start_server(port)


def profiler_classes() -> tuple[Any, Any]:
    """Return jaxlib's classes (TraceMe, ProfilerSession)."""
    _profiler = import_submodule("_profiler")
    return _profiler.TraceMe, _profiler.ProfilerSession


def profile_reader_classes() -> tuple[Any, Any, Any, Any]:
    """Return jaxlib's classes (ProfileData, ProfilePlane, ProfileLine, ProfileEvent)."""
    module = import_submodule("_profile_data")
    return module.ProfileData, module.ProfilePlane, module.ProfileLine, module.ProfileEvent


def profile_recorder() -> Any:
    """Return jaxlib's module with `ProfileOptions` and `register_subprocess`."""
    return import_submodule("_profiler")


# Before 0.12 a CPU client launches programs on the threads that also run them. Each device allows 32 executions in
# flight. With more queued, the launches occupy threads that an earlier collective still needs: a deadlock.
COLLECTIVES_BLOCK_LAUNCHES = VERSION_NUMBERS < (0, 12)


# --- arrays ------------------------------------------------------------------------------------------------------
make_error_array = _jax._make_error_array
# Whether `_replace_with` accepts arrays that were deleted or donated.
REPLACES_DELETED = VERSION_NUMBERS < (0, 12)
_HAS_SKIP = "_skip_checks" in (xc.array_result_handler.__doc__ or "")


# (aval, sharding, whether it is committed) -> the function that makes the array of one result. With its checks on,
# jaxlib 0.10.2 calls a Python method of the array class for every result.
result_handler: Callable[[ShapedArray, JaxlibSharding, bool], ResultHandler] = (
    partial(xc.array_result_handler, _skip_checks=True) if _HAS_SKIP else xc.array_result_handler)


def copy_to_device_list(arrays: Sequence[Value], lists: Sequence[Any], shardings: Sequence[JaxlibSharding],
                        copy: bool | Sequence[bool]) -> list[Array]:
    """Copy arrays between devices, shard by shard.

    Without `copy` (for all arrays, or for each), a buffer that is already on its device is shared instead.
    """
    if isinstance(copy, bool):
        semantics = [_ALWAYS if copy else _SHARED] * len(arrays)
    else:
        semantics = [_ALWAYS if c else _SHARED for c in copy]
    return _jax.batched_copy_array_to_devices_with_sharding(arrays, lists, shardings, semantics)


_ALWAYS, _SHARED = xc.ArrayCopySemantics.ALWAYS_COPY, xc.ArrayCopySemantics.REUSE_INPUT


def layout_text(array: Array) -> str:
    """Return XLA's text for the memory layout of a single-device array, e.g. `{1,0}`."""
    return str(array._pjrt_layout)


def from_dlpack(capsule: object, device: JaxlibDevice) -> Array:
    """Make a single-device array (without aval) over the memory of a DLPack capsule."""
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)


# --- kernels -----------------------------------------------------------------------------------------------------
_registered: set[str] = set()
_register_lock = threading.Lock()


def register_kernels(needs: Iterable[str]) -> None:
    """Register the kernel libraries that a program calls, once each. LAPACK loads scipy's library."""
    for name in needs:
        if name not in _registered:
            with _register_lock:
                if name not in _registered:
                    _LIBRARIES[name]()
                    _registered.add(name)


def _register_lapack() -> None:
    lapack = import_submodule("lapack")
    for platform, targets in lapack.registrations().items():
        for name, function, version in targets:
            xc.register_custom_call_target(name, function, platform=platform, api_version=version)
    with lapack_registration.importable_tables():
        lapack._lapack.initialize()


_LIBRARIES = {"lapack": _register_lapack}


# --- compiling ---------------------------------------------------------------------------------------------------
DeviceAssignment = xc.DeviceAssignment
CompileOptions = xc.CompileOptions
_HAS_FUSION_SWITCH = VERSION_NUMBERS < (0, 11)


def cheap_overrides() -> list[tuple[str, bool]]:
    """Return compile settings that halve the compile time of a very small program without slowing it down."""
    return [("xla_cpu_use_fusion_emitters", False)] if _HAS_FUSION_SWITCH else []


def add_extra_options(options: JaxlibCompileOptions, extra: Mapping[str, str]) -> JaxlibCompileOptions:
    """Return compile options with entries of the map `xla_backend_extra_options`.

    Neither attributes nor overrides can set it. So the entries are appended to the serialised options: a Protocol Buffer
    parser merges concatenated messages.

    Args:
      options: jaxlib's compile options.
      extra: names and values; together fewer than 100 bytes each.
    """
    entries = [_field(3, _field(3, _field(_EXTRA_OPTIONS, _field(1, name.encode()) + _field(2, value.encode()))))
               for name, value in extra.items()]
    return CompileOptions.ParseFromString(options.SerializeAsString() + b"".join(entries))


def _field(number: int, content: bytes) -> bytes:
    """Encode a field of fewer than 128 bytes [Protocol Buffers, Encoding: length-delimited]."""
    tag = number << 3 | 2
    return (bytes((tag,)) if tag < 128 else bytes((tag & 127 | 128, tag >> 7))) + bytes((len(content),)) + content


_EXTRA_OPTIONS = 500  # in DebugOptions, which is field 3 of ExecutableBuildOptions, field 3 of CompileOptions

# Compile settings for nearly no optimisation.
UNOPTIMISED: OptionPairs = (("xla_backend_optimization_level", 0),
                                            ("xla_llvm_disable_expensive_passes", True))


def multi_process_overrides(platform: str) -> OptionPairs:
    """Return the compile settings for a program that spans processes, so that each process compiles independently.

    On GPUs, XLA shards the autotuning of kernels over the processes by default. If one of them failed or compiled a
    different program, the others would wait forever.
    """
    return (("xla_gpu_shard_autotuning", False),) if platform == "cuda" else ()


def module_cost(client: Client, module: object) -> dict[str, float]:
    """Return the compiler's cost estimate of a module before optimisation (flops, bytes accessed, ...)."""
    return dict(_jax.hlo_module_cost_analysis(client, module))


def immortalize(x: object) -> None:
    """Leak a reference to an object. In a forked child, the destructor of a client waits for threads it lacks."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


def sharding_from_proto(proto: OpSharding) -> HloTiles:
    """Return the `HloSharding` of an `OpSharding`."""
    return HloSharding.from_proto(proto)
