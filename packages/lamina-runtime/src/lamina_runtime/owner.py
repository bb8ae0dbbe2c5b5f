"""What lives as long as the clients do: devices, placements, launches in flight, executables. All of it hangs on one owner, so
that closing that frees memory and threads, and what was made before works on the next.

Files keep their tables here and say with `when_closed` what has to happen first. Every owner has an epoch, and devices of its
own: keys hold one or the other, and what a thread makes for an owner that is closed meanwhile is not remembered. Arrays of a
closed owner can be read and moved with `device_put`; anything else raises.
"""
from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["Owner", "check_open", "close", "closed_clients", "is_closed", "let_go", "when_closed"]


class Owner:
    """The tables of one set of clients.

    Attributes:
      epoch: how many owners came before.
      clients: platform -> client; failures: platform -> why it could not be made.
      default, default_device: the client and device nobody has to name.
      by_process: platform (and a number) -> the (first so many) devices of each process, see `backends`.
      singles, lists, gspmds, faces: placements, see `shardings`.
      ways: (question, old placement, new one, shape) -> how arrays get there, see `on_device`; text of devices -> these.
      layouts: program -> the user's placements of its arguments and results, by their key, see `layouts`.
      numbers: float, int -> numbers of that type -> arrays of them on the default device, see `ready_numbers`.
      repeats: table of a function -> calls over several processes that it has seen, see `repeats`.
      windows: client -> programs with collectives in flight, see `safe_launch`.
      orders, pending: tokens of ordered effects, receipts of the others, see `effects`.
      executables, size: compiled programs by content and their bytes, see `compiling`.
      together: how programs over several processes are launched, see `together`; None where there is one process.
    """

    __slots__ = ("epoch", "clients", "failures", "default", "default_device", "by_process", "singles", "lists", "gspmds",
                 "faces", "ways", "layouts", "numbers", "repeats", "windows", "orders", "pending", "executables", "size",
                 "together")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.clients: dict[str, Any] = {}
        self.failures: dict[str, str] = {}
        self.default: Any = None
        self.default_device: Any = None
        self.by_process: dict[Any, tuple[Any, ...]] = {}
        self.singles: dict[Any, Any] = {}
        self.lists: dict[tuple[Any, ...], Any] = {}
        self.gspmds: dict[Any, Any] = {}
        self.faces: dict[Any, Any] = {}
        self.ways: dict[Any, Any] = {}
        self.layouts: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
        self.numbers: dict[type, dict[Any, Any]] = {float: {}, int: {}}
        self.repeats: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
        self.windows: dict[Any, Any] = {}
        self.orders: dict[Any, Any] = {}
        self.pending: deque[Any] = deque()
        self.executables: OrderedDict[Any, Any] = OrderedDict()  # the one used longest ago first
        self.size = 0
        self.together: Any = None


current = Owner(0)
_closed: weakref.WeakSet[Any] = weakref.WeakSet()
_closers: list[Callable[[Owner], None]] = []
lock = threading.RLock()  # held while a client is made


def when_closed(act: Callable[[Owner], None]) -> Callable[[Owner], None]:
    """Decorator of what is done with an owner that is about to be closed, or just was; the next one is in force already."""
    _closers.append(act)
    return act


def close() -> None:
    """Give up the clients and all that was made for them; the next use makes new ones."""
    global current
    with lock:
        gone = current
        for client in gone.clients.values():
            _closed.add(client)
        current = Owner(gone.epoch + 1)
    for act in _closers:  # without the lock: programs in flight may call Python, which may need a client
        act(gone)


def closed_clients() -> list[Any]:
    """Those given up that arrays still keep alive."""
    return list(_closed)


def is_closed(device: Any) -> bool:
    """Whether a device belongs to a client that was given up."""
    return current.epoch > 0 and device.client in _closed


def check_open(device: Any) -> None:
    """RuntimeError for a device of a client that was given up."""
    if current.epoch and is_closed(device):
        raise RuntimeError(f"{device} belongs to a client that was closed by backends.reset(). Take devices from "
                           "lamina.devices() again; what lies on it can still be read (np.asarray) and moved (device_put)")


def let_go(calls: Iterable[Any]) -> None:
    """Calls have refused something: weak references to jaxlib's objects. They keep the signatures they asked about, and these
    devices of clients that were given up."""
    if _closed:
        for reader in calls:
            call = reader()
            if call is not None:
                call._clear_cache()
