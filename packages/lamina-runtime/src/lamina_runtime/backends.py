"""Devices: clients are made at first use, one per platform; the first platform that works is the default.

Platforms come from `config.platforms` (LAMINA_PLATFORMS, JAX_PLATFORMS), else a GPU plugin that is found, else the CPU;
`config.platform_name` says which of them is the default one.
The number of CPU devices comes from `config.num_cpu_devices`, else from XLA_FLAGS
(`--xla_force_host_platform_device_count=N`), and is settled when the client is made.
"""
from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lamina_ir import config
from lamina_ir.extend import new_generation
from lamina_tracing import slots

from . import _gpu, _jaxlib, gone, owner, safe_launch

__all__ = ["client", "default_backend", "default_device", "default_device_option", "device_count", "device_of",
           "devices", "generation", "get_backend", "host_count", "host_id", "host_ids", "in_use", "live_arrays",
           "local_device_count", "local_devices", "lowering_platform", "process_count", "process_index", "process_indices",
           "reset", "set_client_maker", "setup_tpu"]


def _before_use(name: str) -> Callable[[Any], None]:
    def check(value: Any) -> None:
        """Before the value is taken, so that a refused one is not kept."""
        if owner.current.clients and value != config.options[name].value:
            raise RuntimeError(f"config {name}: counts until a device is first used, and one has been; set it before the first "
                               "array")
    return check


def _platforms(value: str | None) -> None:
    if value is not None and not all(part.strip() for part in value.split(",")):
        raise ValueError(f"config platforms: expected names with commas between, as 'cuda,cpu', or None; got {value!r}")
    _before_use("platforms")(value)


def _platform(value: str | None) -> None:
    if value is not None and (not value.strip() or "," in value):
        raise ValueError(f"config platform_name: expected one name, as 'cpu', or None; got {value!r}. platforms takes several")
    _before_use("platform_name")(value)


def _count_of_devices(value: int | None) -> None:
    if value is not None and value < 1:
        raise ValueError(f"config num_cpu_devices: expected 1 or more, or None; got {value}")
    _before_use("num_cpu_devices")(value)


def _device(value: Any) -> None:
    if value is not None and not isinstance(value, (_jaxlib.Device, str)):
        raise ValueError("config default_device: expected a device, as lamina.devices() gives, the name of a platform, or "
                         f"None; got {value!r:.200}")


platforms = config.Option("platforms", None, kind=str, check=_platforms, means={"": None},
                          help="comma-separated platforms to try in order, as 'cuda,cpu'")
platform_name = config.Option("platform_name", None, kind=str, check=_platform, means={"": None},
                              help="the platform that is the default one, where others stay in reach")
num_cpu_devices = config.Option("num_cpu_devices", None, kind=int, check=_count_of_devices, means={-1: None},
                                help="how many devices the CPU client has (None: XLA_FLAGS)")
cpu_enable_async_dispatch = config.Option("cpu_enable_async_dispatch", True, choices=(True, False),
                                          check=_before_use("cpu_enable_async_dispatch"),
                                          help="calls on CPU devices return before their results are there")
default_device_option = config.Option("default_device", None, keyed=True, check=_device, means={"": None},
                                      help="where arrays that nobody placed go: a device or None")

_ALIASES = {"gpu": "cuda", "cuda": "cuda", "cpu": "cpu", "host": "cpu"}


def _cpu_client() -> Any:
    n = num_cpu_devices.value
    return _jaxlib.make_cpu_client(n, asynchronous=cpu_enable_async_dispatch.value)


_makers: dict[str, Callable[[], Any]] = {"cpu": _cpu_client, "cuda": _gpu.make_client}


def in_use() -> bool:
    """Whether a device has been used, so that clients exist."""
    return bool(owner.current.clients)


def set_client_maker(platform: str, make: Callable[[], Any]) -> Callable[[], Any]:
    """Make a platform's client with `make()`, as several processes do; returns what made it before."""
    before = _makers[platform]
    with config.generation.changing():  # programs with maps were traced for as many processes as there were
        _makers[platform] = make
        new_generation()
    return before


def _wanted() -> list[str]:
    named = platforms.value
    if named:
        return [_ALIASES.get(p.strip(), p.strip()) for p in named.split(",") if p.strip()]
    return (["cuda"] if _gpu.found() else []) + ["cpu"]


def client(platform: str | None = None) -> Any:
    """The client of a platform, made if need be; without a name, the default one."""
    here = owner.current
    if platform is None:
        if here.default is None:
            with owner.lock:
                if here.default is None:
                    here.default = _first_client()
        return here.default
    # Asked once without the lock, which is what nearly all calls do, and again inside of it.
    name = _ALIASES.get(platform, platform)
    found = here.clients.get(name)
    if found is not None:
        return found
    with owner.lock:
        found = here.clients.get(name)
        if found is None:
            make = _makers.get(name)
            if make is None or (platforms.value and name not in _wanted()):
                known = [n for n in (_wanted() if platforms.value else _makers) if n in _makers]
                raise RuntimeError(f"no platform {platform!r}; there are {', '.join(known) or 'none that are wanted'}")
            try:
                found = here.clients[name] = make()
            except gone.ProcessLostError:
                raise
            except Exception as e:
                raise RuntimeError(f"platform {platform!r} cannot be used: {e}") from e
        return found


def _first_client() -> Any:
    chosen = platform_name.value
    wanted = _wanted() if chosen is None else [_ALIASES.get(chosen, chosen)]
    explicit = bool(platforms.value or chosen)
    failures = owner.current.failures
    for name in wanted:
        try:
            return client(name)
        except gone.ProcessLostError:
            raise  # another platform would not be what the others use
        except RuntimeError as e:
            if explicit and len(wanted) == 1:
                raise
            failures[name] = str(e)
    raise RuntimeError("no platform can be used: " + "; ".join(failures.values()))


def generation() -> int:
    """How often the clients were given up: part of the key of whatever is made for devices that nobody named."""
    return owner.current.epoch


def reset() -> None:
    """Close the clients, once what they were asked for is done: memory and threads are freed as soon as no array of theirs is
    left. The next use makes new clients, on which functions made before run; `config.num_cpu_devices` and `platforms` can be
    set anew before it. Arrays of the old ones can be read and moved with `device_put`, and are refused by everything else.
    """
    owner.close()
    gc.collect()  # clients and what they made refer to each other


@owner.when_closed
def _forget_calls(gone: owner.Owner) -> None:
    _jaxlib.PjitFunctionCache.clear_all()  # calls that jaxlib runs by itself, on the old clients
    forget_closed()


def forget_closed() -> None:
    """Forget the programs of maps over devices of clients that were given up."""
    if owner.closed_clients():
        for forget in slots.on_devices_gone:
            forget(lambda d: isinstance(d, _jaxlib.Device) and owner.is_closed(d))


def get_backend(platform: str | None = None) -> Any:
    """jaxlib's client of a platform; `.platform` is its name.

    >>> get_backend("cpu").platform
    'cpu'
    """
    return client(platform)


def live_arrays(platform: str | None = None) -> list[Any]:
    """The arrays of a platform that are alive."""
    ours = {id(x) for table in owner.current.numbers.values() for x in table.values()}
    return [x for x in client(platform).live_arrays()
            if x.aval is not None and x.aval is not safe_launch.IN_FLIGHT and id(x) not in ours]


def setup_tpu(tpu_driver_version: Any = None) -> None:
    """For notebooks written for hosted TPUs: there is no TPU platform, so eight CPU devices stand in for its cores.

    Call it before the first array. A chosen number of devices, or another platform, is left alone.
    """
    with owner.lock:
        chosen = num_cpu_devices.value is not None or "device_count" in os.environ.get("XLA_FLAGS", "")
        if not in_use() and not chosen and _wanted() == ["cpu"]:
            num_cpu_devices.set(8)
    warnings.warn("setup_tpu: lamina has no TPU platform; programs run on CPU or GPU devices", stacklevel=2)


def devices(backend: str | None = None) -> list[Any]:
    """All devices of a backend (by default the default one), those of other processes included.

    >>> devices("cpu")[0].platform
    'cpu'
    """
    return sorted(client(backend).devices(), key=lambda d: d.id)


def local_devices(process_index: int | None = None, backend: str | None = None,
                  host_id: int | None = None) -> list[Any]:
    """The devices this process drives, or those of process `process_index` (once called `host_id`).

    Raises:
      ValueError: there is no such process.
    """
    if host_id is not None:
        if process_index is not None:
            raise TypeError(f"local_devices: process_index and host_id are one argument; got {process_index} and {host_id}")
        process_index = host_id
    c = client(backend)
    if process_index is None:
        return list(c.local_devices())
    known = process_indices(backend)
    if process_index not in known:
        raise ValueError(f"local_devices: process_index must be the number of a process; there are {known}, got "
                         f"{process_index!r}")
    return [d for d in devices(backend) if d.process_index == process_index]


def device_count(backend: str | None = None) -> int:
    """How many devices there are in all processes."""
    return int(client(backend).device_count())


def local_device_count(backend: str | None = None) -> int:
    """How many devices this process drives."""
    return int(client(backend).local_device_count())


def process_index(backend: str | None = None) -> int:
    """Number of this process, from 0."""
    return int(client(backend).process_index())


def process_count(backend: str | None = None) -> int:
    """How many processes work together."""
    return len(process_indices(backend))


def process_indices(backend: str | None = None) -> list[int]:
    """The numbers of all processes."""
    return sorted({d.process_index for d in client(backend).devices()})


def share(named: Sequence[Any] | None, backend: str | None = None) -> tuple[int, int]:
    """Which part of a map's rows is this process's: (own, all) of the named devices, or of the processes.

    >>> share(None)
    (1, 1)
    """
    if _makers["cpu"] is _cpu_client and _makers["cuda"] is _gpu.make_client:  # nobody joined, and no client is needed to know
        return 1, 1
    if named is None:
        return 1, len(by_process(backend))
    found = ours_of(named)
    return len(found.own), len(found.devices)


class Devices(tuple[Any, ...]):
    """Devices of which there may be thousands: their hash, which stands in the key of each call, is found once."""

    def __hash__(self) -> int:
        found = self.__dict__.get("hash")
        if found is None:
            found = self.__dict__["hash"] = super().__hash__()
        return found


class Ours(NamedTuple):
    """What there is to know of devices that a user names.

    Attributes:
      devices: they; what is none is left out.
      own: those of this process.
      rows: those of each process, in the order in which they come; whole: these one after the other.
    """

    devices: Devices
    own: Devices
    rows: tuple[Devices, ...]
    whole: Devices


def ours_of(named: Sequence[Any]) -> Ours:
    """`Ours` of devices, found once while the clients live."""
    known, key = owner.current.by_process, ("named", id(named))
    found = known.get(key)
    if found is None or found[0] is not named:
        every = Devices([d for d in named if isinstance(d, _jaxlib.Device)])
        rows: dict[int, list[Any]] = {}
        for d in every:
            rows.setdefault(d.process_index, []).append(d)
        whole = Devices([d for theirs in rows.values() for d in theirs])
        found = named, Ours(every, Devices([d for d in every if is_local(d)]), tuple(map(Devices, rows.values())), whole)
        if any(map(owner.is_closed, every)):  # not to be kept alive here
            return found[1]
        if len(known) >= _MOST_NAMED:
            known.clear()
        known[key] = found
    return found[1]


def checked(call: str, named: Sequence[Any]) -> Ours:
    """`ours_of` devices that `check_devices` has nothing against; asked once."""
    found, known, key = ours_of(named), owner.current.by_process, ("checked", id(named))
    if known.get(key) is not found:
        check_devices(call, named)
        if ("named", id(named)) in known:
            known[key] = found
    return found


_MOST_NAMED = 1024


def is_local(device: Any) -> bool:
    """Whether this process drives a device."""
    return bool(device.process_index == device.client.process_index())


def by_process(backend: str | None = None) -> tuple[tuple[Any, ...], ...]:
    """The devices of each process, the processes in order; asked of jaxlib once."""
    known, name = owner.current.by_process, client(backend).platform
    found = known.get(name)
    if found is None:
        rows: dict[int, list[Any]] = {}
        for d in devices(backend):
            rows.setdefault(d.process_index, []).append(d)
        found = known[name] = tuple([tuple(rows[p]) for p in sorted(rows)])
    return found


def first_of_each(rows: int, backend: str | None = None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first `rows` devices of each process, the processes in order, and those among them of this one; found once."""
    known, key = owner.current.by_process, (client(backend).platform, rows)
    found = known.get(key)
    if found is None:
        here, processes = client(backend).process_index(), by_process(backend)
        own = [theirs for theirs in processes if theirs[0].process_index == here]
        found = known[key] = Devices([d for theirs in processes for d in theirs[:rows]]), Devices(own[0][:rows] if own else ())
    return found


host_id, host_count, host_ids = process_index, process_count, process_indices


def default_backend() -> str:
    """Name of the default platform: 'cpu', 'gpu'.

    >>> isinstance(default_backend(), str)
    True
    """
    platform = client().platform
    return "gpu" if platform in ("cuda", "rocm") else platform


def lowering_platform(device: Any) -> str:
    """The name `lamina_lowering` knows a device's platform by: 'cpu', 'cuda', 'rocm', 'tpu'."""
    platform = device.platform
    if platform == "gpu":
        return "rocm" if "rocm" in device.client.platform_version.lower() else "cuda"
    return platform


def device_of(spec: Any) -> Any:
    """A device from a device or a platform name; TypeError for anything else."""
    if isinstance(spec, _jaxlib.Device):
        return spec
    if isinstance(spec, str):
        return local_devices(backend=spec)[0]
    raise TypeError(f"expected a device or a platform name; got {type(spec).__name__}: {spec!r}")


def devices_called(text: str) -> tuple[Any, ...]:
    """The devices that `cpu:3,1` names. RuntimeError where there are none of these numbers."""
    known = owner.current.ways
    found = known.get(text)
    if found is None:
        platform, _, numbers = text.partition(":")
        here = {d.id: d for d in devices(platform)}
        missing = [n for n in numbers.split(",") if int(n) not in here]
        if missing:
            raise RuntimeError(f"a program names the devices {missing} of platform {platform!r}; here the numbers are "
                               f"{sorted(here)}. Run it with as many devices as where it was made")
        found = known[text] = tuple([here[int(n)] for n in numbers.split(",")])
    return found


def default_device() -> Any:
    """Where arrays go that nobody placed."""
    chosen = default_device_option.value
    if chosen is not None:
        return device_of(chosen)
    here = owner.current
    if here.default_device is None:
        here.default_device = client().local_devices()[0]
    return here.default_device


def check_devices(call: str, given: Sequence[Any]) -> tuple[Any, ...]:
    """`given` as a tuple of distinct devices of one client."""
    found = tuple(given)
    for i, d in enumerate(found):
        if not isinstance(d, _jaxlib.Device):
            raise TypeError(f"{call}: devices[{i}] must be a device, as lamina.devices() gives; got {type(d).__name__}: {d!r}")
    if len(set(found)) != len(found):
        i, d = next((i, d) for i, d in enumerate(found) if d in found[:i])
        raise ValueError(f"{call}: devices[{i}] is {d}, which is named twice: devices[{found.index(d)}] is the same device")
    if len({id(d.client) for d in found}) > 1:
        raise ValueError(f"{call}: devices of several platforms cannot run one program; got {list(found)}")
    return found
