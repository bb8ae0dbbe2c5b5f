"""Hold the state that lives as long as the clients: shardings, launches in flight, executables.

One object holds all of it. Closing it frees memory and threads, and functions jitted earlier recompile for the next
clients. Other modules store their tables here and register clean-up functions with `on_close`.

Each `ClientState` has an epoch and its own devices, and cache keys contain one of the two. If the state is closed while
another thread makes an object for it, that object is not cached. Arrays of closed clients can be read, and moved with
`device_put`; any other use raises an error.
"""
from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

from lamina_ir.typing import CacheKey, Device, Sharding
from lamina_ir import ClosedJaxpr

from .._typing import Array, CallObject, Client, DeviceList, LaunchReceipt, UserShardings

__all__ = ["ClientState", "check_open", "clear_call_caches", "close", "closed_clients", "is_closed", "on_close"]


class ClientState:
    """The tables of one set of clients.

    Attributes:
      epoch: number of earlier states.
      clients: platform -> client; failures: platform -> why its client could not be made.
      default_client, default_device: the client of the default platform, its first local device.
      device_groups: keys of several kinds -> devices grouped by process, see `_backend.backends`.
      single_shardings, device_lists, gspmd_shardings: interned jaxlib objects, see `_sharding.shardings`.
      sharding_aliases: (mesh, spec) -> named shardings by rank; devices and grid -> positional sharding.
      reshard_plans: (function, old sharding, new sharding, shape) -> its result, see `_array.reshard`; text -> devices.
      user_shardings: program -> key -> user shardings of arguments and results, see `_dispatch.user_shardings`.
      scalar_cache: float or int -> number -> array on the default device, see `_array.scalar_cache`.
      call_caches: cache of a function -> its multi-process calls, see `_dispatch.multi_process_call_cache`.
      windows: client -> window of collectives in flight, see `_backend.launch_guards`.
      effect_order, pending_effects: tokens of ordered effects, results of the others, see `_execute.effects`.
      executables, executable_bytes: compiled programs by content, their memory, see `_compile.executable_cache`.
      tier_switches: content of programs over several processes -> when they change tiers, see `_compile.tier_switch`.
      launcher: launches programs that span processes, see `_launch.process_group`; None in a single process.
    """

    __slots__ = ("epoch", "clients", "failures", "default_client", "default_device", "device_groups", "single_shardings",
                 "device_lists", "gspmd_shardings", "sharding_aliases", "reshard_plans", "user_shardings",
                 "scalar_cache", "call_caches", "windows",
                 "effect_order", "pending_effects", "executables", "executable_bytes", "tier_switches",
                 "launcher")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.clients: dict[str, Client] = {}
        self.failures: dict[str, str] = {}
        self.default_client: Client | None = None
        self.default_device: Device | None = None
        self.device_groups: dict[CacheKey, tuple[Any, ...]] = {}
        self.single_shardings: dict[Device, Sharding] = {}
        self.device_lists: dict[tuple[Device, ...], DeviceList] = {}
        self.gspmd_shardings: dict[CacheKey, Sharding] = {}
        self.sharding_aliases: dict[CacheKey, Any] = {}
        self.reshard_plans: dict[CacheKey, Any] = {}
        self.user_shardings: weakref.WeakKeyDictionary[ClosedJaxpr, dict[CacheKey, UserShardings]] = (
            weakref.WeakKeyDictionary())
        self.scalar_cache: dict[type, dict[int | float | str, Array | None]] = {float: {}, int: {}}
        self.call_caches: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self.windows: dict[Client, Any] = {}
        self.effect_order: dict[Device, Any] = {}
        self.pending_effects: deque[LaunchReceipt] = deque()
        self.executables: OrderedDict[CacheKey, Any] = OrderedDict()  # least recently used first
        self.executable_bytes = 0
        self.tier_switches: dict[CacheKey, Any] = {}
        self.launcher: Any = None


current = ClientState(0)
_closed_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_close_callbacks: list[Callable[[ClientState], None]] = []
lock = threading.RLock()  # held while a client is made


def on_close(callback: Callable[[ClientState], None]) -> Callable[[ClientState], None]:
    """Register a function that runs when the clients are closed (decorator).

    It gets the closed state. `current` is already the next one.
    """
    _close_callbacks.append(callback)
    return callback


def close() -> None:
    """Close the clients and drop all state made for them; the next use makes new clients."""
    global current
    with lock:
        closed = current
        for client in closed.clients.values():
            # Weak: arrays of a closed client keep it alive, this table must not.
            _closed_clients.add(client)
        current = ClientState(closed.epoch + 1)
    # The callbacks wait for programs in flight. Those may call Python functions that need a client, so the lock must
    # not be held here.
    for callback in _close_callbacks:
        callback(closed)


def closed_clients() -> list[Client]:
    """Return the closed clients that arrays still keep alive."""
    return list(_closed_clients)


def is_closed(device: Device) -> bool:
    """Return whether a device belongs to a closed client."""
    # The first test is for speed: most processes never close a client.
    return current.epoch > 0 and device.client in _closed_clients


def check_open(device: Device) -> None:
    """Raise RuntimeError for a device of a closed client."""
    if current.epoch and is_closed(device):
        raise RuntimeError(f"{device} belongs to a client that was closed by clear_backends(). Take devices from "
                           "lamina.devices() again. Arrays on it can still be read (np.asarray) and moved (device_put)")


def clear_call_caches(calls: Iterable[Callable[[], CallObject | None]]) -> None:
    """Clear the signature caches of call objects (given as weak references) after they raised an error.

    jaxlib keeps a cache entry for a signature whose cache miss raised, and its key holds devices: here those of closed
    clients.
    """
    if _closed_clients:
        for reference in calls:
            call = reference()
            if call is not None:
                call._clear_cache()
