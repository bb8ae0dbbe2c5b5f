"""A runtime without jaxlib: one CPU, any number of nominal devices, programs run as NumPy source text.

It installs the evaluator hook and uses the dispatcher of lamina-tracing. Functions that need a compiler or devices with
separate memories (HLO, shardings, profiles, several processes) raise an error with their name when they are used.
"""
from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import lamina_runtime
import numpy as np
from lamina_ir import ClosedJaxpr, aval_of, config, trees
from lamina_lowering import lower
from lamina_tracing import hooks
from lamina_tracing.extend import HostArray, Tracer

__contract__ = 1
__version__ = "0.1.0"
accepts = frozenset(("numpy-source",))
Array = HostArray
devices_asked = config.Option("num_cpu_devices", int(os.environ.get("LAMINA_NUM_CPU_DEVICES", "1")),
                              help="the number of nominal devices; all of them are this process")
config.Option("platforms", None, kind=str, help="ignored: programs always run in this process")


class SourceEvaluator(hooks.NumPyEvaluator):
    """Run programs by their source text, and single primitives as in lamina-tracing."""

    def program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        if closed.jaxpr.effectful or closed.jaxpr.axis_names:
            return super().program(closed, args)  # the NumPy evaluator handles iterations, members and the order of effects
        lowered = closed.memo("numpy_source", lambda: lower(closed, name="program"))
        if lowered.format not in accepts:
            raise TypeError(f"lowering made a program in the format {lowered.format!r}, and numpy_source.runtime accepts "
                            f"{', '.join(accepts)}; choose LAMINA_LAYERS=lowering=numpy_source.lowering, or another runtime")
        return [self.array(v, a) for v, a in zip(lowered.run(args), closed.out_avals)]

    def device_put(self, x: Any, device: Any) -> Any:
        return device_put(x, device)


class Device:
    """A nominal device."""

    platform = device_kind = "numpy"
    process_index = host_id = 0

    def __init__(self, id: int) -> None:
        self.id = self.local_hardware_id = id

    def __repr__(self) -> str:
        return f"NumPyDevice(id={self.id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash((Device, self.id))


def devices(backend: str | None = None) -> list[Device]:
    """Return the devices; their number is the setting `num_cpu_devices`."""
    if backend not in (None, "cpu", "numpy"):
        raise RuntimeError(f"devices: there is no backend {backend!r} here, only numpy")
    asked = max([devices_asked.value, *[int(part.split("=")[1]) for part in os.environ.get("XLA_FLAGS", "").split()
                                        if part.startswith("--xla_force_host_platform_device_count=")]])
    return [Device(i) for i in range(asked)]


local_devices = lambda process_index=None, backend=None, host_id=None: devices(backend)


def device_count(backend: str | None = None) -> int:
    return len(devices(backend))


class Backend:
    """The result of `get_backend`: the name of the platform, and its devices."""

    platform = platform_version = "numpy"
    devices = local_devices = staticmethod(devices)
    device_count = local_device_count = staticmethod(device_count)


def get_backend(platform: Any = None) -> Backend:
    devices(platform)
    return Backend()


local_device_count = device_count
process_count = host_count = lambda backend=None: 1
process_index = host_id = lambda backend=None: 0
process_indices = host_ids = lambda backend=None: [0]
default_backend = lambda: "numpy"
lowering_platform = lambda device: "numpy"
clear_caches = clear_backends = clear_memory = effects_barrier = lambda: None
live_arrays = lambda platform=None: []


def block_until_ready(x: Any) -> Any:
    return x


def device_get(x: Any) -> Any:
    return trees.tree_map(lambda leaf: leaf if isinstance(leaf, Tracer) else np.array(leaf), x)


def device_put(x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None) -> Any:
    def put(leaf: Any) -> Any:
        return leaf if isinstance(leaf, (Tracer, HostArray)) else hooks.evaluator.array(np.asarray(leaf), aval_of(leaf))
    return trees.tree_map(put, x)


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    if len(shards) != len(devices):
        raise ValueError(f"device_put_sharded: len(shards) = {len(shards)} must equal len(devices) = {len(devices)}")
    return trees.tree_map(lambda *leaves: device_put(np.stack([np.asarray(leaf) for leaf in leaves])), *shards)


def device_put_replicated(x: Any, devices: Sequence[Any]) -> Any:
    return device_put_sharded([x] * len(devices), devices)


def make_array_from_callback(shape: Sequence[int], sharding: Any, data_callback: Callable[..., Any]) -> Any:
    return device_put(data_callback(tuple([slice(0, n) for n in shape])))


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[str], *, devices: Any = None) -> Any:
    from lamina_parallel import Mesh  # lamina_parallel is not a dependency of this package

    chosen = globals()["devices"]() if devices is None else devices
    return Mesh(np.array(chosen[:int(np.prod(axis_shapes))], object).reshape(axis_shapes), axis_names)


def default_device(device: Any = None) -> Any:
    return contextlib.nullcontext()


def transfer_guard(level: Any = None) -> Any:
    return contextlib.nullcontext()  # there are no transfers


transfer_guard_device_to_device = transfer_guard_device_to_host = transfer_guard_host_to_device = transfer_guard


class _Unsupported(type):
    """Metaclass of unsupported classes: they can be used in annotations and `isinstance`, but not instantiated."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__}: numpy_source.runtime has none: it has no compiler, and one memory for all "
                                  "devices; use lamina_runtime (LAMINA_LAYERS=runtime=default)")

    def __instancecheck__(cls, x: Any) -> bool:
        return False


def __getattr__(name: str) -> Any:
    if name not in lamina_runtime.__all__:  # possibly a submodule, which is then imported
        raise AttributeError(name)
    made = globals()[name] = _Unsupported(name, (), {})
    return made


hooks.set_evaluator(SourceEvaluator())
