"""A program made ready for one placement: lowered, compiled, its arguments placed, its results dressed.

Three placements: one device; several devices as partitions, where the compiler splits a program over arguments that
are already split; and several devices as replicas, for programs with `xla_pmap` inside.
"""
from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from lamina_ir import config
from lamina_ir.program import ClosedJaxpr
from lamina_lowering import lower, replica_count, table_version

from . import _jaxlib, arrays, backends as _devices, compile_cache, debug, safe_launch, shardings, transfers
from ._jaxlib import ArrayImpl, SingleDeviceSharding

__all__ = ["FastPath", "Placement", "Program", "failure", "placement_of", "program_for"]

# What jaxlib's call object reads to run a signature without Python.
FastPath = namedtuple("FastPath", "xla_executable out_pytree_def in_shardings out_shardings out_avals out_committed "
                                  "kept_var_bitvec in_device_local_layouts const_args")


class Placement(tuple):
    """`(devices, committed, kind)`; kind is `one`, `partitions` or `replicas`."""

    devices = property(lambda self: self[0])
    committed = property(lambda self: self[1])
    kind = property(lambda self: self[2])


def placement_of(call: str, name: str, flat: Sequence[Any], closed: ClosedJaxpr, device: Any = None,
                 backend: str | None = None) -> Placement:
    """Where a call with these arguments runs. ValueError when they are committed to different devices."""
    replicas = closed.memo("replicas", lambda: replica_count(closed))
    chosen: tuple[Any, ...] | None = None
    if device is not None:
        chosen = (_devices.device_of(device),)
    elif backend is not None:
        chosen = (_devices.local_devices(backend=backend)[0],)
    else:
        for x in flat:
            if type(x) is ArrayImpl and x._committed:
                sharding = x._sharding
                here = sharding._internal_device_list
                if chosen is None:
                    chosen = tuple(here)
                elif here != shardings.device_list(chosen):
                    raise ValueError(f"{call} of `{name}`: arguments are committed to different devices: "
                                     f"{_names(chosen)} and {_names(tuple(here))} ({x.aval.long()}). Move them with "
                                     "device_put")
    committed = chosen is not None
    if replicas > 1:
        return Placement((_replica_devices(call, name, closed, replicas, chosen, backend), False, "replicas"))
    if chosen is None:
        chosen = (_devices.default_device(),)
    return Placement((chosen, committed, "one" if len(chosen) == 1 else "partitions"))


def _names(where: tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(str, where)) + "]"


def _replica_devices(call: str, name: str, closed: ClosedJaxpr, replicas: int, chosen: tuple[Any, ...] | None,
                     backend: str | None) -> tuple[Any, ...]:
    if chosen is not None and len(chosen) == replicas:
        return chosen
    if chosen is not None and backend is None:
        backend = chosen[0].platform
    every = _devices.local_devices(backend=backend)
    if len(every) < replicas:
        raise ValueError(f"{call} of `{name}`: compiling computation that requires {replicas} logical devices, but "
                         f"only {len(every)} XLA devices are available (num_replicas={replicas}, num_partitions=1)")
    return tuple(every[:replicas])


class Program:
    """A compiled program with everything a launch needs."""

    __slots__ = ("executable", "lowered", "placement", "in_sharding", "in_shardings", "out_shardings", "handlers",
                 "const_args", "kept", "window", "closed")

    def __init__(self, closed: ClosedJaxpr, name: str, placement: Placement, in_sharding: Any,
                 in_shardings: list[Any] | None, donated: Sequence[bool], keep_unused: bool) -> None:
        devices, committed, kind = placement
        self.closed = closed
        self.placement = placement
        self.in_sharding = in_sharding
        n_out = len(closed.out_avals)
        texts = None if in_shardings is None else [_text(s) for s in in_shardings]
        partitions = len(devices) if kind == "partitions" else 1
        self.lowered = low = lower(closed, name=name, platform=_devices.lowering_platform(devices[0]),
                                   num_partitions=partitions, donated=donated, in_shardings=texts,
                                   keep_unused=keep_unused)
        options = compile_cache.Options(low.num_replicas, partitions, (True,) * n_out if partitions > 1 else (),
                                        kind == "one" and is_cheap(closed))
        self.executable = compile_cache.compile(low, devices, options)
        self.kept = low.kept_args
        self.in_shardings = in_shardings or [in_sharding] * len(self.kept)
        self.const_args = [place(c, in_sharding) for c in low.const_args]
        if kind == "partitions":
            found = self.executable.get_output_shardings()
            tiles = [None] * n_out if found is None else [_jaxlib.sharding_from_proto(p) for p in found]
            self.out_shardings = [shardings.replicated(devices) if t is None or not t.is_tiled() else
                                  shardings.gspmd(devices, t) for t in tiles]
        elif kind == "replicas":
            self.out_shardings = [shardings.replicated(devices)] * n_out
        else:
            self.out_shardings = [in_sharding] * n_out
        self.handlers = [_jaxlib.result_handler(a, s, committed)
                         for a, s in zip(low.out_avals, self.out_shardings)]
        quiet = kind == "one" or (kind == "partitions" and not _communicates(self.executable))
        self.window = None if quiet else safe_launch.window_of(devices[0].client)

    def run(self, flat: Sequence[Any]) -> list[Any]:
        """Run on flat arguments, wherever they are."""
        args = list(self.const_args)
        args += [place(x, s, a) for x, k, s, a in zip(flat, self.kept, self.in_shardings, self.closed.in_avals) if k]
        outs = self.executable.execute_sharded(args).consume_with_handlers(self.handlers)
        if self.window is not None and outs:
            self.window.passed(outs[0])
            if self.placement.kind == "replicas":
                outs = [_first_copy(o) for o in outs]
        if config.debug_nans.value:
            debug.check_nans(self.lowered.name, outs)
        return outs

    def fast_path(self, out_tree: Any) -> Any:
        """What lets jaxlib run the next call of this signature by itself; None where Python has to look on."""
        if self.window is not None or type(out_tree) is not _jaxlib.PyTreeDef:
            return None
        n_const, n_out = len(self.const_args), len(self.handlers)
        kept = [True] * n_const + list(self.kept)
        n_in = sum(kept)
        ins = [self.in_sharding] * n_const + [s for s, k in zip(self.in_shardings, self.kept) if k]
        return FastPath(self.executable, out_tree, ins, self.out_shardings,
                        self.lowered.out_avals, [self.placement.committed] * n_out, kept, [None] * n_in,
                        self.const_args)


_COLLECTIVE = re.compile(r"all-reduce|all-gather|all-to-all|collective-|reduce-scatter")


def _communicates(executable: Any) -> bool:
    """Whether the compiler has put collectives into a partitioned program."""
    return any(_COLLECTIVE.search(m.to_string()) for m in executable.hlo_modules())


_PLAIN = frozenset(("elementwise", "shape", "indexing", "calls"))
_CHEAP = _PLAIN | {"reductions", "sorting"}
_FEW, _SMALL = 12, 1 << 14


def is_cheap(closed: ClosedJaxpr) -> bool:
    """Whether the cheap compile settings serve a program as well: a few equations, none that gains from fused loops.

    Measured on 1 to 8 equations, jaxlib 0.10.2: half the compile time; run times of elementwise, shape and indexing ops
    are equal or better at every size, of reductions equal for small arrays and up to 1.6 times longer for large ones.
    """
    return closed.memo("cheap", lambda: _weigh(closed) <= _FEW)


def _weigh(closed: ClosedJaxpr) -> int:
    count = 0
    for e in closed.jaxpr.eqns:
        family = e.primitive.family
        if family not in _CHEAP or (family not in _PLAIN and any(v.aval.size > _SMALL for v in e.invars)):
            return _FEW + 1
        count += _weigh(e.params["call_jaxpr"]) if e.primitive.name == "xla_call" else 1
        if count > _FEW or e.primitive.name == "xla_pmap":
            return _FEW + 1
    return count


def _text(sharding: Any) -> str:
    return str(sharding._to_xla_hlo_sharding(0))


def _first_copy(x: Any) -> Any:
    """A replicated result as an array of the first device, free to move."""
    where = shardings.single(x._sharding._internal_device_list[0])
    return _jaxlib.result_handler(x.aval, where, False)([x._arrays[0]])


def place(x: Any, sharding: Any, aval: Any = None) -> Any:
    """An argument where the program expects it."""
    if type(x) is ArrayImpl:
        old = x._sharding
        if old is sharding or old == sharding:
            return x
        if type(sharding) is SingleDeviceSharding and type(old) is SingleDeviceSharding:
            return arrays.put_pieces(x.aval, sharding, [x], [sharding._device], x._committed)
        return transfers._move(x, sharding)
    if type(sharding) is SingleDeviceSharding:
        return arrays.put(x, sharding._device, False, aval)
    return transfers.spread(x, aval if aval is not None else transfers._type_of("jit", x), sharding)


def program_for(closed: ClosedJaxpr, name: str, placement: Placement, flat: Sequence[Any],
                donated: tuple[bool, ...] = (), keep_unused: bool = False) -> Program:
    """The program compiled for a placement, remembered with it."""
    devices, committed, kind = placement
    if kind == "one":
        where = shardings.single(devices[0])
        ins = None
    else:
        where = shardings.replicated(devices)
        ins = [x._sharding if kind == "partitions" and type(x) is ArrayImpl and len(
            x._sharding._internal_device_list) > 1 else where for x in flat]
    key = ("xla", devices, committed, kind, tuple(ins) if ins and kind == "partitions" else None, donated, keep_unused,
           table_version(_devices.lowering_platform(devices[0])))
    if kind == "replicas":
        return closed.memo(key, lambda: Program(closed, name, placement, where, None, donated, keep_unused))
    return closed.memo(key, lambda: Program(closed, name, placement, where, ins, donated, keep_unused))


def failure(call: str, name: str, error: Exception) -> RuntimeError:
    """jaxlib's error in our words; the cause keeps its text."""
    return RuntimeError(f"{call} of `{name}`: the compiled program could not be built or failed: {error}")
