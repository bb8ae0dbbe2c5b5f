"""A program compiled for one placement: lowered, compiled, its arguments placed, its results dressed."""
from __future__ import annotations

import time
import weakref
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from lamina_ir import (CallbackError, ClosedJaxpr, ExecutionError, config, has_ordered_effects, subprograms,
                       thread_order)
from lamina_ir.extend import Placement, Tiles, rows_of_results
from lamina_lowering import lower, rows
from lamina_parallel.extend import mesh_in_scope, placed
from lamina_tracing.extend import logger, told

from . import (_jaxlib, arrays, backends, compiling, debug, dumps, effects, gone, host_errors, launches, owner,
               safe_launch, shardings, together, transfers)
from ._jaxlib import ArrayImpl, SingleDeviceSharding
from .placing import device_names, mesh_told
from .weights import Effort, effort

__all__ = ["FastPath", "Program", "failure", "no_execution", "place", "program_for"]

no_execution = config.Option("no_execution", False, help="raise where a compiled program would run, that of an op included: a "
                             "program that only looks at others runs none")

# What jaxlib's call object reads to run a signature without Python.
FastPath = namedtuple("FastPath", "xla_executable out_pytree_def in_shardings out_shardings out_avals out_committed "
                                  "kept_var_bitvec in_device_local_layouts const_args")


def compile_logged(low: Any, devices: tuple[Any, ...], options: Any, call: str, name: str, closed: ClosedJaxpr) -> Any:
    """`compiling.compile`; with `config.log_compiles` what it cost is logged, with `config.dump_ir_to` the program written."""
    if dumps.dump_ir_to.value is not None:
        dumps.dump(call, name, low, closed)
    if not config.log_compiles.value:
        return compiling.compile(low, devices, options)
    start, before = time.perf_counter(), compiling.cache_stats()
    made = compiling.compile(low, devices, options)
    after = compiling.cache_stats()
    source = ("found in memory" if after.memory_hits > before.memory_hits else "loaded from disk"
              if after.disk_hits > before.disk_hits else "compiled")
    types = ", ".join(a.long() for a in closed.in_avals)
    logger.warning("`%s` (%s) for %s: %s in %.4f s", name, types, device_names(devices), source, time.perf_counter() - start)
    return made


class Program:
    """A compiled program with everything a launch needs.

    Args:
      call: who asked for it: `jit`, `pmap`, `evaluation`.
      closed: the program.
      name: of the function.
      placement: how it lies on devices.
      keep_unused: whether arguments nobody reads are passed on.
      overrides: the user's settings of the compiler.
      rules: the lowering rows.

    Attributes:
      in_shardings, out_shardings: jaxlib's, of every argument and result.
      worn: for a mesh and wished placements, how results are made in their names: (handlers, shardings).
      window: where launches whose devices wait for each other are counted, in one process; None for others.
      together, processes: how it is launched where its devices are of several processes, and which; None and () for others.
      met: whether its groups of devices have come together.
      pact: what `agreement` keeps of it.
    """

    __slots__ = ("call", "executable", "loaded", "lowered", "placement", "in_shardings", "out_shardings", "handlers",
                 "const_args", "kept", "window", "together", "processes", "met", "pact", "in_avals", "out_avals", "_closed",
                 "order", "effectful", "name", "worn", "_mesh", "__weakref__")

    def __init__(self, call: str, closed: ClosedJaxpr, name: str, placement: Placement, keep_unused: bool,
                 overrides: tuple[tuple[str, Any], ...], rules: Any) -> None:
        devices, here = placement.devices, placement.here
        self.call, self.name, self.placement = call, name, placement
        self._closed = weakref.ref(closed)  # which remembers this, and is there while anybody can ask for it
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        self.effectful = closed.jaxpr.effectful
        self.together, self.processes = together.over(devices)
        self.met = len(devices) == 1
        self.pact = None
        # Ordered effects pass a token through the program, as one more operand and result, always the last; never donated.
        self.order = None
        ordered = has_ordered_effects(closed)
        if ordered:
            if placement.members:
                raise ValueError(f"{call} of `{name}`: ordered effects need a single device, and the devices of a map run at "
                                 "the same time; use ordered=False")
            if len(devices) > 1:
                raise ValueError(f"jit of `{name}`: ordered effects need a single device; this program runs on "
                                 f"{len(devices)}. Use ordered=False")
            self.order = effects.order_of(devices[0])
            if placement.donated:
                placement = placement._replace(donated=(*placement.donated, False))
        self._mesh = mesh_told(closed) if placement.partitions > 1 or placement.members else None
        if self._mesh is not None and placement.members and placement.face:
            self._mesh = self._mesh.local_mesh  # of what is seen here
        kind = "pmap_" if self._mesh is None else "shard_map_"
        one_row = here[:len(here) // placement.rows]
        by_id = sorted(range(len(one_row)), key=lambda i: one_row[i].id) if placement.partitions > 1 else None
        self.lowered = low = lower(thread_order(closed) if ordered else closed, placement=placement, rules=rules,
                                   name=f"{kind if placement.members else ''}{name}", keep_unused=keep_unused,
                                   platform=backends.lowering_platform(devices[0]), partition_order=by_id)
        n_out = len(closed.out_avals)
        split = placement.partitions > 1
        free = tuple([t is None for t in placement.outs]) if placement.outs else (True,) * n_out
        if self.processes:
            overrides = (*_jaxlib.lone_overrides(low.platform), *overrides)
        cheap, rolled = effort(closed) if len(devices) == 1 else Effort()
        options = compiling.Options(*placement.grid, free if split else (), cheap,
                                    len(devices) > 1 and bool(getattr(low, "host_functions", ())),
                                    getattr(low, "shardy", False), overrides, rolled)
        self.loaded = compile_logged(low, devices, options, call, name, closed)
        self.executable = self.loaded.executable
        self.kept = low.kept_args[:-1] if ordered else low.kept_args
        whole = shardings.part if placement.face else shardings.tiled
        everywhere = whole(here, Tiles())
        self.in_shardings = [everywhere if t is None else whole(here, t) for t in placement.ins] or [
            everywhere] * len(self.kept)
        safe_launch.check_constants(call, name, low.const_args)
        self.const_args = [place(c, everywhere) for c in low.const_args]
        # The compiler has chosen where nobody wished anything; no tiles means a copy everywhere.
        found = self.executable.get_output_shardings() if split else None
        chosen = [Tiles()] * n_out if found is None else [_tiles(p) for p in found]
        if placement.face and split:  # the processes hold copies, as far as the compiler knows
            own = [devices.index(d) for d in one_row]
            chosen = rows_of_results(closed, placement, [t.part(own)[0] for t in chosen])
        wanted = placement.outs or (None,) * n_out
        self.out_shardings = [whole(here, c if t is None else t) for t, c in zip(wanted, chosen)]
        if self._mesh is not None and placement.members and (len(here) > 1 or not placement.face):
            self.out_shardings = [shardings.in_words(self._mesh, s, a.ndim)
                                  for s, a in zip(self.out_shardings, closed.out_avals)]
        if ordered:
            self.out_shardings.append(everywhere)
        avals = [*closed.out_avals, *low.out_avals[n_out:]]
        self.handlers = [_jaxlib.result_handler(a, s, placement.committed) for a, s in zip(avals, self.out_shardings)]
        self.worn: dict[Any, tuple[list[Any], list[Any]]] = {}
        # Launches whose devices wait for each other go through a window; those over several processes go one at a time.
        if self.together is not None:
            self.window = None
        elif placement.members:
            self.window = safe_launch.window_of(devices[0].client) if _names_collectives(closed) else None
        else:
            self.window = safe_launch.window_for(self.executable, devices[0]) if len(devices) > 1 else None

    @property
    def staged(self) -> ClosedJaxpr | None:
        """What was compiled, while anybody holds it."""
        return self._closed()

    def words(self, flat: Sequence[Any], layout: Any = None) -> tuple[list[Any], list[Any]]:
        """How results are made, and their placements, said in the names of a mesh of just the program's devices: that of the
        user's placements of arguments and results (a `Layout`), else of the arguments, that in scope, that of constraints."""
        placement = self.placement
        if placement.members or placement.face or not placement.committed:
            return self.handlers, self.out_shardings
        devices = placement.devices
        mesh: Any = None
        for x in flat:
            if type(x) is ArrayImpl and x._sharding._mesh is not None:
                mesh = x._sharding._mesh
                if mesh.flat_devices == devices:
                    break
        for other in (None if layout is None else layout.mesh, mesh, mesh_in_scope(), self._mesh):
            if other is not None and other.flat_devices == devices:
                return self._worn(other, None if layout is None else layout.outs)
        return self.handlers, self.out_shardings

    def _worn(self, mesh: Any, wished: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
        key = mesh, None if wished is None else tuple([0 if s is None else s.face for s in wished])
        found = self.worn.get(key)
        if found is None:
            if len(self.worn) > 64:
                self.worn.clear()
            avals = self.out_avals
            told = [s if s is not None and s._mesh is not None else shardings.in_words(mesh, p, a.ndim) for s, p, a in zip(
                wished or (None,) * len(avals), self.out_shardings, avals)] + self.out_shardings[len(avals):]
            handlers = [h if s is p else _jaxlib.result_handler(a, s, True) for h, s, p, a in zip(
                self.handlers, told, self.out_shardings, avals)] + self.handlers[len(avals):]
            found = self.worn[key] = handlers, told
        return found

    def run(self, flat: Sequence[Any], layout: Any = None) -> list[Any]:
        """Run on flat arguments, wherever they are; `layout` are the user's placements of arguments and results, or None."""
        if no_execution.ever and no_execution.value:
            raise RuntimeError(f"{self.call} of `{self.name}`: config no_execution is set, and this would run a compiled "
                               "program. Trace, lower and compile it instead (lower(...).compile()), or unset it")
        handlers = self.words(flat, layout)[0]
        args = list(self.const_args)
        if args:
            safe_launch.check_constants(self.call, self.name, args)
        args += [place(x, s, a) for x, k, s, a in zip(flat, self.kept, self.in_shardings, self.in_avals) if k]
        failures, failure = self.loaded.failures, None
        if failures is None:
            outs = self._started(args, handlers)
        else:
            try:
                outs = failures.settled(f"{self.call} of `{self.name}`", lambda: self._started(args, handlers))
            except CallbackError as e:
                if self.together is None:
                    raise
                outs, failure = [], e
        if self.window is not None:
            self.window.passed(outs)
        looks = debug.wanted()
        if looks or self.together is not None and failures is not None:
            closed = self._closed()
            assert closed is not None
            if self.together is not None:
                debug.settle(self.name, closed, self.placement, flat, outs, failure)
            else:
                # An op that is run by itself; of control flow the operation inside is wanted.
                eqns, several = closed.jaxpr.eqns, len(self.placement.devices) > 1
                alone = len(eqns) == 1 and eqns[0].source is None and not eqns[0].primitive.subprograms
                debug.check_results(self.name, outs, closed, flat, eqns[0].primitive.name if alone else None,
                                    self.placement if several or self.placement.members else None)
        if launches.watchers:
            launches.told(self, flat, outs)
        return list(outs)

    def _started(self, args: list[Any], handlers: list[Any]) -> Sequence[Any]:
        if self.together is not None:
            return self.together.launch(self, args, lambda: self._launch(args, handlers))
        if not self.met:
            self.met = True
            ordered = owner.current.together
            if ordered is not None:
                return ordered.alone(lambda: self._launch(args, handlers), args)
        return self._launch(args, handlers)

    def _launch(self, args: list[Any], handlers: list[Any]) -> list[Any]:
        order = self.order
        if not self.effectful:
            return self.executable.execute_sharded(args).consume_with_handlers(handlers)
        if order is None:
            found = self.executable.execute_sharded(args, with_tokens=True)
            outs = found.consume_with_handlers(handlers)
            self._launched(found.consume_token())
            return outs
        with order.lock:
            try:
                found = self.executable.execute_sharded([*args, order.token()], with_tokens=True)
            except _jaxlib.LAUNCH_ERRORS:
                order.failed()
                raise
            *outs, token = found.consume_with_handlers(handlers)
            order.passed(token)
            effects.launched(found.consume_token())
        return outs

    def _launched(self, receipt: Any) -> None:
        if self.loaded.failures is None:
            effects.launched(receipt)
        else:
            receipt.block_until_ready()

    def fast_path(self, flat: Sequence[Any], out_tree: Any, layout: Any = None) -> Any:
        """What lets jaxlib run the next call of this signature by itself; None where Python has to look on: at what a callback
        raises, at the other processes of a program over several, and at an argument that lies on as many devices as it should,
        but otherwise, which jaxlib would not notice."""
        if self.together is not None or self.lowered.host_functions or type(out_tree) is not _jaxlib.PyTreeDef:
            return None
        if launches.watchers:
            return None
        n = len(self.placement.devices)
        if (n > 1 or self.placement.members) and debug.wanted():  # which names devices, as the placement says
            return None
        for x, k, s in zip(flat, self.kept, self.in_shardings):
            if k and type(x) is ArrayImpl and x._sharding is not s and x._sharding != s:
                if x._sharding.num_devices == n and type(x._sharding) is not SingleDeviceSharding:
                    return None
        n_const, n_out = len(self.const_args), len(self.handlers)
        kept = [True] * n_const + list(self.kept)
        ins = [c._sharding for c in self.const_args] + [s for s, k in zip(self.in_shardings, self.kept) if k]
        return FastPath(self.executable, out_tree, ins, self.words(flat, layout)[1], self.out_avals,
                        [self.placement.committed] * n_out, kept, [None] * len(ins), self.const_args)


def _tiles(proto: Any) -> Tiles:
    tiles = _jaxlib.sharding_from_proto(proto)
    return Tiles.parse(str(tiles)) if tiles.is_tiled() else Tiles()


def _names_collectives(closed: ClosedJaxpr) -> bool:
    """Whether the members of a map wait for each other in this program."""
    todo, seen = [closed], {closed}  # programs may share programs that share programs
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive.axis_params and e.invars:
                return True
            fresh = [s for s in subprograms(e) if s not in seen]
            seen.update(fresh)
            todo += fresh
    return False


def place(x: Any, sharding: Any, aval: Any = None) -> Any:
    """An argument where the program expects it."""
    if type(x) is ArrayImpl:
        old = x._sharding
        if old is sharding or old == sharding:
            return x
        if old.num_devices == 1 and sharding.num_devices == 1:
            alone = arrays.alone(x)  # a program over processes takes it as it is
            if alone._sharding._device == shardings.sharding_devices(sharding)[0]:
                return alone
        if type(sharding) is SingleDeviceSharding and type(old) is SingleDeviceSharding:
            return arrays.put_pieces(x.aval, sharding, [x], [sharding._device], x._committed)
        if type(old) is SingleDeviceSharding and old.on_host and not x._committed and sharding.on_host:
            # Nobody chose its place, and the host sees the memory of CPUs: this takes half the time of cutting and sending.
            return transfers.spread(arrays.host_value(x), x.aval, sharding)
        return transfers._move(x, sharding)
    if type(sharding) is SingleDeviceSharding:
        return arrays.put(x, sharding._device, False, aval)
    return transfers.spread(x, aval if aval is not None else transfers._type_of("jit", x), sharding)


def program_for(call: str, closed: ClosedJaxpr, name: str, placement: Placement, keep_unused: bool = False,
                overrides: tuple[tuple[str, Any], ...] = (), rules: Any = None) -> Program:
    """The program compiled for a placement, remembered with it.

    Args:
      overrides: the user's settings of the compiler.
      rules: the lowering rows of a step that was lowered before; None, or of another platform: those in force.
    """
    closed = placed(closed)
    platform = backends.lowering_platform(placement.devices[0])
    if rules is None or rules.platform != platform:
        rules = rows(platform)
    # `_explain` reads this by position.
    key = ("xla", placement, keep_unused, rules.version, overrides, name if placement.members else None)

    def make() -> Program:
        if config.explain_cache_misses.value:
            _explain(closed, name, key)
        return Program(call, closed, name, placement, keep_unused, overrides, rules)

    return compiling.remembered(closed, key, make)


def _explain(closed: ClosedJaxpr, name: str, key: tuple[Any, ...]) -> None:
    """Say why a program that was compiled before is compiled again."""
    known = [k for k in closed.remembered() if isinstance(k, tuple) and k[0] == "xla"]
    if not known:
        return
    new: Placement = key[1]

    def reasons(old: tuple[Any, ...]) -> list[str]:
        found, was = [], old[1]
        if was.devices != new.devices:
            found.append(f"devices changed from {device_names(was.devices)} to {device_names(new.devices)}")
        if was.committed != new.committed:
            found.append("arguments are committed to their device now" if new.committed else "arguments are not committed to a "
                         "device now")
        for i, (a, b) in enumerate(zip(was.ins or new.ins, new.ins or was.ins)):
            if a != b:
                found.append(f"sharding of flat argument {i} changed from {_said(a)} to {_said(b)}")
        if was.donated != new.donated or old[2] != key[2]:
            found.append("donated or kept arguments changed")
        if old[3] != key[3]:
            found.append("lowering rules were redefined")
        if was.outs != new.outs:
            found.append("out_shardings changed")
        if old[4] != key[4]:
            found.append(f"compiler_options changed from {dict(old[4])} to {dict(key[4])}")
        return found

    told("compile", name, min(map(reasons, known), key=len) or ["it was forgotten"])  # the nearest of those known


def _said(tiles: Tiles | None) -> str:
    return "none" if tiles is None else tiles.text()


def failure(call: str, name: str, error: Exception) -> BaseException:
    """jaxlib's error in our words; the cause keeps its text. A callback's own exception becomes the cause's cause, and an
    interrupt or exit that it raised comes as it is."""
    raised = host_errors.original(error)
    if raised is not None:
        if not isinstance(raised, Exception):
            return raised
        error.__cause__ = raised
        return host_errors.kind_of(raised)(f"{call} of `{name}`: {raised}")
    lost = gone.instead(f"{call} of `{name}`", error)
    if lost is not None:
        return lost
    if "Disallowed" in str(error):
        return ExecutionError(f"{call} of `{name}`: the transfer guard refuses to move an argument: {error}. Move it with "
                            "device_put before the call, or allow it with lamina.transfer_guard('allow')")
    return ExecutionError(f"{call} of `{name}`: the compiled program could not be built or failed: {error}")
