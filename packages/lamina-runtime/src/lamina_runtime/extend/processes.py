"""Extension API for systems of several processes: the hooks of this package, and what an implementation of them needs.

A `ProcessGroup` connects this process with others. It installs itself by four hooks, whose defaults are those of a single
process:

- `set_client_maker(platform, make)`: makes jaxlib's client, which knows the devices of all processes;
- `set_launcher(launcher)`: launches each program over several processes. It is reset when the client is closed;
- `set_failure_monitor(monitor)`: knows which processes have failed, and explains errors of broken connections;
- `active_groups.append(group)`: exchanges small values for packages that store arrays.

`set_wait` replaces the wait for arrays on platforms whose collectives cannot be aborted.
"""
from typing import Any

from .. import _jaxlib
from .._array.arrays import host_value
from .._array.assemble import process_part
from .._array.transfer import _arg_aval as arg_aval
from .._backend import client_state, deletion, waiting
from .._backend.backends import (cpu_enable_async_dispatch, has_clients, local_devices, num_cpu_devices, process_count,
                                 process_index, reset, set_client_maker)
from .._backend.error_translation import find_callback_error
from .._backend.kept_memory import keep_freed_memory
from .._backend.launch_guards import MAX_HELD_BYTES
from .._backend.peer_errors import (CoordinatorLostError, FailureMonitor, LaunchFailedError, ProcessLostError,
                                    peer_error_for, set_failure_monitor)
from .._backend.waiting import set_wait
from .._compile import executable_cache
from .._execute.effects import effects_barrier, wait_at_exit
from .._jaxlib import LAUNCH_ERRORS, ArrayImpl, immortalize, make_cpu_client
from .._jaxlib import Sharding as JaxlibSharding
from .._jaxlib.cuda_plugin import make_client as make_gpu_client
from .._launch.error_consensus import AXIS, all_process_collective
from .._launch.process_group import (GatherSeries, HostGather, KeyValueStore, MultiProcessLauncher,
                                     MultiProcessProgram, ProcessGroup, active_groups, agreement,
                                     collective_report_seconds, collective_timeout_seconds)
from .._sharding.shardings import is_replicated, named_sharding, replicated_sharding, sharding_devices

__all__ = ["AXIS", "ArrayImpl", "COMPILATION_CODE", "CoordinatorLostError", "FailureMonitor", "GatherSeries", "HostGather",
           "JAXLIB_VERSION", "JaxlibSharding", "KeyValueStore", "LAUNCH_ERRORS", "LaunchFailedError", "MAX_HELD_BYTES",
           "MultiProcessLauncher", "MultiProcessProgram", "ProcessGroup", "ProcessLostError", "active_groups",
           "agreement", "all_process_collective", "arg_aval", "clear_fast_paths", "collective_report_seconds",
           "collective_timeout_seconds", "cpu_enable_async_dispatch", "effects_barrier", "find_callback_error",
           "has_clients", "has_wait_hook", "host_value", "immortalize", "is_ready", "is_replicated", "keep_freed_memory",
           "local_devices",
           "make_cpu_client", "make_gpu_client", "named_sharding", "num_cpu_devices", "peer_error_for",
           "process_count", "process_index", "process_part", "replicated_sharding", "reset", "set_client_maker",
           "set_failure_monitor", "set_launcher", "set_wait", "share_buffers", "sharding_devices", "sharding_of",
           "wait_at_exit", "wait_for", "wait_in_jaxlib"]

JAXLIB_VERSION = _jaxlib.VERSION
COMPILATION_CODE = executable_cache._CompileTask._compile.__code__  # of the function in which XLA compiles a program
is_ready, wait_in_jaxlib = deletion.is_ready, deletion.wait_for


def wait_for(x: Any) -> Any:
    """Wait until an array is computed, by the function of `set_wait`. Return it; raise the error of its program."""
    return waiting.wait_for(x)


def has_wait_hook() -> bool:
    """Return whether a function of `set_wait` is in force."""
    return waiting.has_hook


def clear_fast_paths() -> None:
    """Have the next call of each jitted function pass through Python."""
    _jaxlib.PjitFunctionCache.clear_all()


def sharding_of(x: Any) -> Any:
    """Return the sharding of an array, one object for equal shardings."""
    return x._sharding


def share_buffers(x: Any) -> Any:
    """Return another array over the buffers of `x`. It holds them, and becomes unusable when `x` is deleted."""
    return x._rewrap_with_aval_and_sharding(x.aval, x._sharding)


def set_launcher(launcher: MultiProcessLauncher) -> None:
    """Launch programs over several processes with `launcher`, as long as the current client is open."""
    client_state.current.launcher = launcher
