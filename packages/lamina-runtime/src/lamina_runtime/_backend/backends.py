"""Make jaxlib clients and list their devices.

A client is made when its platform is first used. The first platform that works is the default one. The platforms are
those of `config.platforms` (LAMINA_PLATFORMS, JAX_PLATFORMS); if that is unset, a GPU plugin that is found, then the
CPU. `config.platform_name` overrides which one is the default.

The number of CPU devices is `config.num_cpu_devices`; if that is unset, XLA_FLAGS determines it
(`--xla_force_host_platform_device_count=N`). It is fixed when the client is made.
"""
from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lamina_ir import config
from lamina_ir.extend import invalidate_caches
from lamina_tracing import hooks
from lamina_ir.typing import Device, Value
from typing_extensions import override

from .._jaxlib import cuda_plugin
from .. import _jaxlib
from . import client_state, deletion, peer_errors
from .kept_memory import keep_freed_memory
from .._typing import Array, Client, SettingValue

__all__ = ["backends", "client", "client_epoch", "default_backend", "default_device", "default_device_option", "device_count",
           "devices", "get_backend", "has_clients", "host_count", "host_id", "host_ids", "live_arrays", "local_device_count",
           "local_devices", "lowering_platform", "process_count", "process_index", "process_indices", "reset",
           "resolve_device", "set_client_maker", "setup_tpu"]


def _check_before_use(name: str) -> Callable[[SettingValue], None]:
    # jaxlib reads these settings when it makes a client; later changes would have no effect.
    def check(value: SettingValue) -> None:
        """Run before the option is set, so that a refused value is not stored."""
        if client_state.current.clients and value != config.options[name].value:
            raise RuntimeError(f"config {name}: must be set before a device is first used, and one has been used; "
                               "set it before the first array")
    return check


def _check_platforms(value: str | None) -> None:
    if value is not None and not all(part.strip() for part in value.split(",")):
        raise ValueError("config platforms: expected comma-separated names, as 'cuda,cpu', or None; got "
                         f"{value!r}")
    _check_before_use("platforms")(value)


def _check_platform_name(value: str | None) -> None:
    if value is not None and (not value.strip() or "," in value):
        raise ValueError(f"config platform_name: expected one name, as 'cpu', or None; got {value!r}. platforms takes "
                         "several")
    _check_before_use("platform_name")(value)


def _check_num_cpu_devices(value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"config num_cpu_devices: expected 1 or more, or None; got {value}")
    _check_before_use("num_cpu_devices")(value)


def _check_default_device(value: SettingValue) -> None:
    if value is not None and not isinstance(value, (_jaxlib.Device, str)):
        raise ValueError("config default_device: expected a device of lamina.devices(), the name of a platform, or "
                         f"None; got {value!r:.200}")


platforms = config.Option("platforms", None, kind=str, check=_check_platforms, means={"": None},
                          help="comma-separated platforms to try in order, as 'cuda,cpu'")
platform_name = config.Option("platform_name", None, kind=str, check=_check_platform_name, means={"": None},
                              help="the default platform; the other platforms stay usable")
num_cpu_devices = config.Option("num_cpu_devices", None, kind=int, check=_check_num_cpu_devices, means={-1: None},
                                help="how many devices the CPU client has (None: XLA_FLAGS)")
cpu_enable_async_dispatch = config.Option("cpu_enable_async_dispatch", True, choices=(True, False),
                                          check=_check_before_use("cpu_enable_async_dispatch"),
                                          help="calls on CPU devices return before their results are computed")
default_device_option = config.Option("default_device", None, keyed=True, check=_check_default_device,
                                      means={"": None}, help="the device of uncommitted arrays: a device or None")

_ALIASES = {"gpu": "cuda", "cuda": "cuda", "cpu": "cpu", "host": "cpu"}


def _cpu_client() -> Client:
    keep_freed_memory()
    return _jaxlib.make_cpu_client(num_cpu_devices.value, asynchronous=cpu_enable_async_dispatch.value)


_makers: dict[str, Callable[[], Client]] = {"cpu": _cpu_client, "cuda": cuda_plugin.make_client}


def has_clients() -> bool:
    """Return whether clients exist, which means that a device has been used."""
    return bool(client_state.current.clients)


def set_client_maker(platform: str, make: Callable[[], Client]) -> Callable[[], Client]:
    """Set the function that makes a platform's client, for multi-process runs; return the previous one."""
    before = _makers[platform]
    # Programs with maps were traced for the previous number of processes. To the caches the change is one step, so no
    # thread can store such a program under the new key.
    with config.generation.changing():
        _makers[platform] = make
        invalidate_caches()
    return before


def _enabled_platforms() -> list[str]:
    names = platforms.value
    if names:
        return [_ALIASES.get(p.strip(), p.strip()) for p in names.split(",") if p.strip()]
    return (["cuda"] if cuda_plugin.is_available() else []) + ["cpu"]


def client(platform: str | None = None) -> Client:
    """Return the client of a platform (None: the default platform). Makes it on first use."""
    state = client_state.current
    if platform is None:
        if state.default_client is None:
            with client_state.lock:
                if state.default_client is None:
                    state.default_client = _make_default_client()
        return state.default_client
    # Double-checked locking: nearly all calls find the client without taking the lock.
    name = _ALIASES.get(platform, platform)
    found = state.clients.get(name)
    if found is not None:
        return found
    with client_state.lock:
        found = state.clients.get(name)
        is_new = found is None
        if found is None:
            make = _makers.get(name)
            # A platform that the user did not enable is refused, also if it would work.
            if make is None or (platforms.value and name not in _enabled_platforms()):
                known = [n for n in (_enabled_platforms() if platforms.value else _makers) if n in _makers]
                raise RuntimeError(f"no platform {platform!r}; there are {', '.join(known) or 'none enabled'}")
            try:
                found = state.clients[name] = make()
            except peer_errors.ProcessLostError:
                raise
            except Exception as e:
                raise RuntimeError(f"platform {platform!r} cannot be used: {e}") from e
    if is_new and state.launcher is not None:
        state.launcher.connect_local_devices()
    return found


def _make_default_client() -> Client:
    """Return the client of the first platform that works. RuntimeError if there is none."""
    chosen: str | None = platform_name.value
    candidates = _enabled_platforms() if chosen is None else [_ALIASES.get(chosen, chosen)]
    explicit = bool(platforms.value or chosen)
    failures = client_state.current.failures
    for name in candidates:
        try:
            return client(name)
        except peer_errors.ProcessLostError:
            raise  # the other processes use this platform, so falling back to another one would not help
        except RuntimeError as e:
            # The user's only choice: its own error, without the list of platforms that were tried.
            if explicit and len(candidates) == 1:
                raise
            failures[name] = str(e)
    raise RuntimeError("no platform can be used: " + "; ".join(failures.values()))


def client_epoch() -> int:
    """Return the number of times the clients were closed, for cache keys of objects on default devices."""
    return client_state.current.epoch


def reset() -> None:
    """Close the clients after the programs in flight have ended.

    Memory and threads are freed when no array of the old clients is left. The next use makes new clients, and functions
    jitted earlier recompile for them. Until then `config.num_cpu_devices` and `config.platforms` can be set again.
    Arrays of the old clients can be read, and moved with `device_put`; any other use raises an error.
    """
    client_state.close()
    gc.collect()  # clients are in reference cycles with the objects made for them


@client_state.on_close
def _clear_calls(closed: client_state.ClientState) -> None:
    _jaxlib.PjitFunctionCache.clear_all()  # the fast-path entries, which hold executables of the old clients
    evict_closed_devices()


def evict_closed_devices() -> None:
    """Drop the cached programs of maps over devices of closed clients."""
    if client_state.closed_clients():
        for forget in hooks.on_devices_closed:
            forget(lambda d: isinstance(d, _jaxlib.Device) and client_state.is_closed(d))


def get_backend(platform: str | None = None) -> Client:
    """Return jaxlib's client of a platform; its attribute `platform` is the name.

    >>> get_backend("cpu").platform
    'cpu'
    """
    return client(platform)


def backends(*, start: bool = True) -> dict[str, Client]:
    """Return jaxlib's clients that are in use, by platform: the default one, and those of platforms that were asked for.

    Args:
      start: whether to start the default client if no client is in use.

    >>> backends()["cpu"].platform
    'cpu'
    """
    if start:
        client()
    return dict(client_state.current.clients)


def live_arrays(platform: str | None = None) -> list[Array]:
    """Return the live arrays of a platform.

    Arrays that this package makes for its own use (cached scalars, the launch windows) are left out.
    """
    # Compared by identity: `==` of arrays is elementwise.
    internal = {id(x) for table in client_state.current.scalar_cache.values() for x in table.values()}
    return [x for x in client(platform).live_arrays()
            if x.aval is not None and x.aval is not deletion.INTERNAL_AVAL and not x._is_keeper and not x._is_emptied
            and id(x) not in internal]


def setup_tpu(tpu_driver_version: object = None) -> None:
    """Use eight CPU devices in place of the cores of a hosted TPU, for notebooks written for TPUs.

    There is no TPU platform. Call this before the first array. It does nothing if a number of devices or another
    platform was chosen.
    """
    with client_state.lock:
        chosen = num_cpu_devices.value is not None or "device_count" in os.environ.get("XLA_FLAGS", "")
        if not has_clients() and not chosen and _enabled_platforms() == ["cpu"]:
            num_cpu_devices.set(8)
    warnings.warn("setup_tpu: lamina has no TPU platform; programs run on CPU or GPU devices", stacklevel=2)


def devices(backend: str | None = None) -> list[Device]:
    """Return all devices of a backend (None: the default one), including those of other processes.

    >>> devices("cpu")[0].platform
    'cpu'
    """
    # By id, so that the order is the same in all processes.
    return sorted(client(backend).devices(), key=lambda d: d.id)


def local_devices(process_index: int | None = None, backend: str | None = None,
                  host_id: int | None = None) -> list[Device]:
    """Return the devices of this process, or those of process `process_index`.

    Args:
      process_index: the number of a process; None: this process.
      backend: the name of a platform; None: the default one.
      host_id: the older name of `process_index`.
    Raises:
      ValueError: there is no such process.
    """
    if host_id is not None:
        if process_index is not None:
            raise TypeError("local_devices: process_index and host_id are the same argument; got "
                            f"{process_index} and {host_id}")
        process_index = host_id
    c = client(backend)
    if process_index is None:
        return list(c.local_devices())
    known = process_indices(backend)
    if process_index not in known:
        raise ValueError(f"local_devices: process_index must be one of {known}; got {process_index!r}")
    return [d for d in devices(backend) if d.process_index == process_index]


def device_count(backend: str | None = None) -> int:
    """Return the number of devices of all processes."""
    return int(client(backend).device_count())


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process."""
    return int(client(backend).local_device_count())


def process_index(backend: str | None = None) -> int:
    """Return the number of this process, from 0."""
    return int(client(backend).process_index())


def process_count(backend: str | None = None) -> int:
    """Return the number of processes."""
    return len(process_indices(backend))


def process_indices(backend: str | None = None) -> list[int]:
    """Return the numbers of all processes."""
    return sorted({d.process_index for d in client(backend).devices()})


def process_share(named: Sequence[Device] | None, backend: str | None = None) -> tuple[int, int]:
    """Return which share of a mapped axis this process holds, as (local, global).

    These are numbers of devices if the map names devices, else of processes.

    >>> process_share(None)
    (1, 1)
    """
    # In a single-process run, answer without making a client.
    if _makers["cpu"] is _cpu_client and _makers["cuda"] is cuda_plugin.make_client:
        return 1, 1
    if named is None:
        return 1, len(devices_by_process(backend))
    found = device_group(named)
    return len(found.local), len(found.devices)


class Devices(tuple[Any, ...]):
    """A tuple of possibly thousands of devices with a cached hash: it is part of the key of each call."""

    @override
    def __hash__(self) -> int:
        found = self.__dict__.get("hash")
        if found is None:
            found = self.__dict__["hash"] = super().__hash__()
        return found


class DeviceGroup(NamedTuple):
    """The devices that a user passed to a map, grouped by process.

    Attributes:
      devices: the devices; values of other types are left out.
      local: the devices of this process.
      process_groups: the devices of each process, in order of their first appearance.
      in_process_order: the devices of `process_groups`, concatenated.
    """

    devices: Devices
    local: Devices
    process_groups: tuple[Devices, ...]
    in_process_order: Devices


def device_group(named: Sequence[Device]) -> DeviceGroup:
    """Return the `DeviceGroup` of a sequence of devices, cached by identity while the clients live.

    The cache entry holds the sequence, so that its id is not reused.
    """
    known, key = client_state.current.device_groups, ("named", id(named))
    found = known.get(key)
    if found is None or found[0] is not named:
        every = Devices([d for d in named if isinstance(d, _jaxlib.Device)])
        groups: dict[int, list[Device]] = {}
        for d in every:
            groups.setdefault(d.process_index, []).append(d)
        concatenated = Devices([d for group in groups.values() for d in group])
        local = Devices([d for d in every if is_local(d)])
        found = named, DeviceGroup(every, local, tuple(map(Devices, groups.values())), concatenated)
        if any(map(client_state.is_closed, every)):  # a cache entry would keep the closed client alive
            return found[1]
        if len(known) >= _MAX_GROUPS:
            known.clear()
        known[key] = found
    return found[1]


def checked_device_group(call: str, named: Sequence[Device]) -> DeviceGroup:
    """Return the `DeviceGroup` of devices that pass `check_devices`; the check runs once per sequence."""
    found, known, key = device_group(named), client_state.current.device_groups, ("checked", id(named))
    if known.get(key) is not found:
        check_devices(call, named)
        # If the table was cleared meanwhile, nothing holds the sequence, and its id may be reused.
        if ("named", id(named)) in known:
            known[key] = found
    return found


_MAX_GROUPS = 1024


def is_local(device: Device) -> bool:
    """Return whether a device belongs to this process."""
    return bool(device.process_index == device.client.process_index())


def devices_by_process(backend: str | None = None) -> tuple[tuple[Device, ...], ...]:
    """Return the devices of each process, in order of the processes (cached)."""
    known, name = client_state.current.device_groups, client(backend).platform
    found = known.get(name)
    if found is None:
        groups: dict[int, list[Device]] = {}
        for d in devices(backend):
            groups.setdefault(d.process_index, []).append(d)
        found = known[name] = tuple([tuple(groups[p]) for p in sorted(groups)])
    return found


def first_devices_of_processes(count: int, backend: str | None = None) -> tuple[tuple[Device, ...], tuple[Device, ...]]:
    """Return (the first `count` devices of each process, those of this process), in order of the processes (cached)."""
    known, key = client_state.current.device_groups, (client(backend).platform, count)
    found = known.get(key)
    if found is None:
        here, processes = client(backend).process_index(), devices_by_process(backend)
        own = [group for group in processes if group[0].process_index == here]
        found = known[key] = (Devices([d for group in processes for d in group[:count]]),
                              Devices(own[0][:count] if own else ()))
    return found


host_id, host_count, host_ids = process_index, process_count, process_indices


def default_backend() -> str:
    """Return the name of the default platform: 'cpu', 'gpu'.

    >>> isinstance(default_backend(), str)
    True
    """
    platform = client().platform
    return "gpu" if platform in ("cuda", "rocm") else platform


def lowering_platform(device: Device) -> str:
    """Return the name of a device's platform in `lamina_lowering`: 'cpu', 'cuda', 'rocm', 'tpu'."""
    platform = device.platform
    if platform == "gpu":
        return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"
    return platform


def resolve_device(spec: Device | str) -> Device:
    """Return a device, given itself or the name of its platform. TypeError for other values."""
    if isinstance(spec, _jaxlib.Device):
        return spec
    if isinstance(spec, str):
        return local_devices(backend=spec)[0]
    raise TypeError(f"expected a device or a platform name; got {type(spec).__name__}: {spec!r}")


def devices_from_text(text: str) -> tuple[Device, ...]:
    """Return the devices of a text such as `cpu:3,1` (cached). RuntimeError if a number does not exist."""
    known = client_state.current.reshard_plans
    found = known.get(text)
    if found is None:
        platform, _, numbers = text.partition(":")
        if platform == "abstract":
            raise ValueError("a program that was traced for an abstract mesh has no devices, so it cannot be compiled. Set a "
                             "mesh with devices, set_mesh(make_mesh(...)), or use eval_shape or make_jaxpr")
        by_id = {d.id: d for d in devices(platform)}
        missing = [n for n in numbers.split(",") if int(n) not in by_id]
        if missing:
            raise RuntimeError(f"a program names the devices {missing} of platform {platform!r}; here the numbers are "
                               f"{sorted(by_id)}. Run it with as many devices as where it was made")
        found = known[text] = tuple([by_id[int(n)] for n in numbers.split(",")])
    return found


def default_device() -> Device:
    """Return the device of uncommitted arrays."""
    chosen = default_device_option.value
    if chosen is not None:
        return resolve_device(chosen)
    state = client_state.current
    if state.default_device is None:
        # The first local device: other processes own the others, and no array of this process alone can be there.
        state.default_device = client().local_devices()[0]
    return state.default_device


def check_devices(call: str, values: Sequence[Value]) -> tuple[Device, ...]:
    """Return the devices as a tuple. TypeError or ValueError unless they are distinct devices of one client."""
    found = tuple(values)
    for i, d in enumerate(found):
        if not isinstance(d, _jaxlib.Device):
            raise TypeError(f"{call}: devices[{i}] must be a device, as lamina.devices() gives; got "
                            f"{type(d).__name__}: {d!r}")
    if len(set(found)) != len(found):
        i, d = next((i, d) for i, d in enumerate(found) if d in found[:i])
        raise ValueError(f"{call}: devices[{i}] is {d}, which is named twice: devices[{found.index(d)}] is the same "
                         "device")
    if len({id(d.client) for d in found}) > 1:
        raise ValueError(f"{call}: devices of several platforms cannot run one program; got {list(found)}")
    return found
