"""A program made ready for one placement: lowered, compiled, its arguments placed, its results dressed.

Three placements: one device; several devices as partitions, where the compiler splits a program over arguments that
are already split; and several devices as replicas, for programs with `xla_pmap` inside.
"""
from __future__ import annotations

import re
import time
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from lamina_ir import (CallbackError, ClosedJaxpr, ExecutionError, ShapedArray, config, has_ordered_effects,
                       thread_order, walk)
from lamina_lowering import lower, replica_count, rows
from lamina_tracing.extend import logger, told

from . import (_jaxlib, arrays, backends, compiling, debug, effects, host_errors, safe_launch,
               shardings, transfers)
from ._jaxlib import ArrayImpl, SingleDeviceSharding

__all__ = ["FastPath", "Placement", "Program", "failure", "placement_of", "program_for",
           "texts_of"]

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
    # What the call says comes first, then where its arguments were put on purpose, then the default.
    if device is not None:
        chosen = (backends.device_of(device),)
    elif backend is not None:
        chosen = (backends.local_devices(backend=backend)[0],)
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
        if backends.process_count(backend) > 1 and closed.memo("meets", lambda: any(
                e.primitive.axis_params and e.invars for e in walk(closed))):
            raise RuntimeError(f"{call} of `{name}`: in several processes a pmap inside of a program covers this process's "
                               "devices only, and its collectives would not reach the others. Call pmap by itself, with "
                               "devices=lamina.local_devices() if that is meant, or use jit on arrays placed over all devices")
        return Placement((_replica_devices(call, name, closed, replicas, chosen, backend), False, "replicas"))
    if chosen is None:
        chosen = (backends.default_device(),)
    return Placement((chosen, committed, "one" if len(chosen) == 1 else "partitions"))


def compile_logged(low: Any, devices: tuple[Any, ...], options: Any, name: str, avals: Sequence[ShapedArray]) -> Any:
    """`compiling.compile`; with `config.log_compiles` what it cost is logged."""
    if not config.log_compiles.value:
        return compiling.compile(low, devices, options)
    start, before = time.perf_counter(), compiling.cache_stats()
    made = compiling.compile(low, devices, options)
    after = compiling.cache_stats()
    source = ("found in memory" if after.memory_hits > before.memory_hits else "loaded from disk"
              if after.disk_hits > before.disk_hits else "compiled")
    logger.warning("`%s` (%s) for %s: %s in %.4f s", name, ", ".join(a.long() for a in avals), _names(devices), source,
                   time.perf_counter() - start)
    return made


def _names(where: tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(str, where)) + "]"


def _replica_devices(call: str, name: str, closed: ClosedJaxpr, replicas: int, chosen: tuple[Any, ...] | None,
                     backend: str | None) -> tuple[Any, ...]:
    if chosen is not None and len(chosen) == replicas:
        return chosen
    if chosen is not None and backend is None:
        backend = chosen[0].platform
    every = backends.local_devices(backend=backend)
    if len(every) < replicas:
        raise ValueError(f"{call} of `{name}`: compiling computation that requires {replicas} logical devices, but "
                         f"only {len(every)} XLA devices are available (num_replicas={replicas}, num_partitions=1)")
    return tuple(every[:replicas])


class Program:
    """A compiled program with everything a launch needs."""

    __slots__ = ("executable", "loaded", "lowered", "placement", "in_sharding", "in_shardings", "out_shardings", "handlers",
                 "const_args", "kept", "window", "closed", "order", "effectful",
                 "name")

    def __init__(self, closed: ClosedJaxpr, name: str, placement: Placement, in_sharding: Any,
                 in_shardings: list[Any] | None, donated: Sequence[bool], keep_unused: bool,
                 wanted: Sequence[Any] = (), overrides: tuple[tuple[str, Any], ...] = (), rules: Any = None) -> None:
        devices, committed, kind = placement
        self.closed = closed
        self.name = name
        self.placement = placement
        self.in_sharding = in_sharding
        n_out = len(closed.out_avals)
        wanted = wanted or (None,) * n_out
        texts = None if in_shardings is None else [_text(s) for s in in_shardings]
        partitions = len(devices) if kind == "partitions" else 1
        order = sorted(range(partitions), key=lambda i: devices[i].id) if partitions > 1 else None
        self.effectful = closed.jaxpr.effectful
        # Ordered effects pass a token through the program, as one more operand and result, always the last; never donated.
        self.order = None
        ordered = has_ordered_effects(closed)
        if ordered:
            if len(devices) > 1:
                raise ValueError(f"jit of `{name}`: ordered effects need a single device; this program runs on "
                                 f"{len(devices)}. Use ordered=False")
            self.order = effects.order_of(devices[0])
            donated = (*donated, False) if donated else ()
        self.lowered = low = lower(thread_order(closed) if ordered else closed, name=name,
                                   platform=backends.lowering_platform(devices[0]), num_partitions=partitions,
                                   partition_order=order, donated=donated, in_shardings=texts, keep_unused=keep_unused,
                                   rules=rules,
                                   out_shardings=texts_of(wanted) if partitions > 1 else None)
        options = compiling.Options(low.num_replicas, partitions,
                                        tuple(s is None for s in wanted) if partitions > 1 else (),
                                        kind == "one" and is_cheap(closed),
                                        kind != "one" and bool(low.host_functions), overrides)
        self.loaded = compile_logged(low, devices, options, name, closed.in_avals)
        self.executable = self.loaded.executable
        self.kept = low.kept_args[:-1] if ordered else low.kept_args
        self.in_shardings = in_shardings or [in_sharding] * len(self.kept)
        safe_launch.check_constants("jit", name, low.const_args)
        self.const_args = [place(c, in_sharding) for c in low.const_args]
        if kind == "partitions":
            # The compiler has chosen where nobody wished anything; no tiles means a copy everywhere.
            found = self.executable.get_output_shardings()
            tiles = [None] * n_out if found is None else [_jaxlib.sharding_from_proto(p) for p in found]
            self.out_shardings = [s if s is not None else shardings.replicated(devices) if t is None or not t.is_tiled() else
                                  shardings.gspmd(devices, t) for s, t in zip(wanted, tiles)]
        elif kind == "replicas":
            self.out_shardings = [shardings.replicated(devices)] * n_out
        else:
            self.out_shardings = [in_sharding] * len(low.out_avals)
        self.handlers = [_jaxlib.result_handler(a, s, committed)
                         for a, s in zip(low.out_avals, self.out_shardings)]
        # Launches whose devices wait for each other go through a window, and never past Python.
        quiet = kind == "one" or (kind == "partitions" and not _communicates(self.executable))
        self.window = None if quiet else safe_launch.window_of(devices[0].client)

    def run(self, flat: Sequence[Any]) -> list[Any]:
        """Run on flat arguments, wherever they are."""
        args = list(self.const_args)
        if args:
            safe_launch.check_constants("jit", self.name, args)
        args += [place(x, s, a) for x, k, s, a in zip(flat, self.kept, self.in_shardings, self.closed.in_avals) if k]
        if self.loaded.failures is not None:
            outs = self.loaded.failures.settled(f"jit of `{self.name}`", lambda: self._launch(args))
        else:
            outs = self._launch(args)
        if self.window is not None:
            self.window.passed(outs)
        if self.placement.kind == "replicas":
            outs = [_first_copy(o) for o in outs]
        if config.debug_nans.value or config.debug_infs.value:
            eqns = self.closed.jaxpr.eqns
            # An op that is run by itself; of control flow the operation inside is wanted.
            alone = len(eqns) == 1 and eqns[0].source is None and not eqns[0].primitive.subprograms
            debug.check_results(self.name, outs, self.closed, flat, eqns[0].primitive.name if alone else None)
        return outs

    def _launch(self, args: list[Any]) -> list[Any]:
        order = self.order
        if not self.effectful:
            return self.executable.execute_sharded(args).consume_with_handlers(self.handlers)
        if order is None:
            found = self.executable.execute_sharded(args, with_tokens=True)
            outs = found.consume_with_handlers(self.handlers)
            self._launched(found.consume_token())
            return outs
        with order.lock:
            try:
                found = self.executable.execute_sharded([*args, order.token()], with_tokens=True)
            except _jaxlib.LAUNCH_ERRORS:
                order.failed()
                raise
            *outs, token = found.consume_with_handlers(self.handlers)
            order.passed(token)
            effects.launched(found.consume_token())
        return outs

    def _launched(self, receipt: Any) -> None:
        if self.loaded.failures is None:
            effects.launched(receipt)
        else:
            receipt.block_until_ready()

    def fast_path(self, out_tree: Any) -> Any:
        """What lets jaxlib run the next call of this signature by itself; None where Python has to look on."""
        if self.window is not None or self.placement.kind == "replicas":
            return None
        if self.lowered.host_functions or type(out_tree) is not _jaxlib.PyTreeDef:
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
    return closed.memo("cheap", lambda: _weigh(closed, {}) <= _FEW)


def _weigh(closed: ClosedJaxpr, known: dict[ClosedJaxpr, int]) -> int:
    """Equations, those of called programs among them, up to one more than a few; `known` has programs seen before."""
    count = 0
    for e in closed.jaxpr.eqns:
        family = e.primitive.family
        if family not in _CHEAP or (family not in _PLAIN and any(v.aval.size > _SMALL for v in e.invars)):
            return _FEW + 1
        if e.primitive.name == "xla_call":
            called = e.params["call_jaxpr"]
            if called not in known:
                known[called] = _weigh(called, known)
            count += known[called]
        else:
            count += 1
        if count > _FEW or e.primitive.name == "xla_pmap":
            return _FEW + 1
    return count


def _text(sharding: Any) -> str:
    return str(sharding._to_xla_hlo_sharding(0))


def texts_of(wanted: Sequence[Any]) -> list[str | None]:
    """Placements as the lowering takes them."""
    return [None if s is None else _text(s) for s in wanted]


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
                donated: tuple[bool, ...] = (), keep_unused: bool = False, layout: Any = None,
                overrides: tuple[tuple[str, Any], ...] = (), rules: Any = None) -> Program:
    """The program compiled for a placement, remembered with it.

    Args:
      layout: the `layouts.Layout` of the user's placements, or None.
      overrides: the user's settings of the compiler.
      rules: the lowering rows of a step that was lowered before; None, or of another platform: those in force.
    """
    devices, committed, kind = placement
    platform = backends.lowering_platform(devices[0])
    if rules is None or rules.platform != platform:
        rules = rows(platform)
    # ins: where each argument is expected; as it lies, if it is spread over these devices, or where the user wants it.
    if kind == "one":
        where = shardings.single(devices[0])
        ins = None
    else:
        where = shardings.replicated(devices)
        ins = [x._sharding if kind == "partitions" and type(x) is ArrayImpl and len(
            x._sharding._internal_device_list) > 1 else where for x in flat]
        if layout is not None:
            ins = [s if w is None else w for s, w in zip(ins, layout.ins)]
    outs = () if layout is None else layout.outs
    # `_explain` reads this by position.
    key = ("xla", devices, committed, kind, tuple(ins) if ins and kind == "partitions" else None, donated, keep_unused,
           rules.version, outs, overrides)
    if kind == "replicas":
        ins = None

    def make() -> Program:
        if config.explain_cache_misses.value:
            _explain(closed, name, key)
        return Program(closed, name, placement, where, ins, donated, keep_unused, outs, overrides, rules)

    return compiling.remembered(closed, key, make)


def _explain(closed: ClosedJaxpr, name: str, key: tuple[Any, ...]) -> None:
    """Say why a program that was compiled before is compiled again."""
    known = [k for k in closed.remembered() if isinstance(k, tuple) and k[0] == "xla"]
    if not known:
        return

    def reasons(old: tuple[Any, ...]) -> list[str]:
        found = []
        if old[1] != key[1]:
            found.append(f"devices changed from {_names(old[1])} to {_names(key[1])}")
        if old[2] != key[2]:
            found.append("arguments are committed to their device now" if key[2] else "arguments are not committed to a "
                         "device now")
        if old[4] != key[4]:
            for i, (a, b) in enumerate(zip(old[4] or (None,) * 99, key[4] or (None,) * 99)):
                if a != b:
                    found.append(f"sharding of flat argument {i} changed from {a} to {b}")
        if old[5:7] != key[5:7]:
            found.append("donated or kept arguments changed")
        if old[7] != key[7]:
            found.append("lowering rules were redefined")
        if old[8] != key[8]:
            found.append("out_shardings changed")
        if old[9] != key[9]:
            found.append(f"compiler_options changed from {dict(old[9])} to {dict(key[9])}")
        return found

    told("compile", name, min(map(reasons, known), key=len) or ["it was forgotten"])  # the nearest of those known


def failure(call: str, name: str, error: Exception) -> BaseException:
    """jaxlib's error in our words; the cause keeps its text. A callback's own exception becomes the cause's cause, and an
    interrupt or exit that it raised comes as it is."""
    raised = host_errors.original(error)
    if raised is not None:
        if not isinstance(raised, Exception):
            return raised
        error.__cause__ = raised
        return CallbackError(f"{call} of `{name}`: {raised}")
    if "Disallowed" in str(error):
        return ExecutionError(f"{call} of `{name}`: the transfer guard refuses to move an argument: {error}. Move it with "
                            "device_put before the call, or allow it with lamina.transfer_guard('allow')")
    return ExecutionError(f"{call} of `{name}`: the compiled program could not be built or failed: {error}")
