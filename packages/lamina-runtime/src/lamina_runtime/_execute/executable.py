"""Compile a program for one placement, and launch it: place its arguments, run it, wrap its results."""
from __future__ import annotations

import time
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, cast

from lamina_ir import CallbackError, ClosedJaxpr, ExecutionError, ShapedArray, config, thread_effect_token
from lamina_ir.extend import Placement, Tiles, collect_facts, join_member_tiles, lower_keys
from lamina_parallel.extend import mesh_in_scope, lower_xmaps
from lamina_tracing.extend import logger, log_cache_miss
from lamina_ir.typing import CacheKey, Device, Sharding, Value
from lamina_ir.trees import PyTreeDef
from lamina_parallel import Mesh

from .. import _jaxlib
from .._array import arrays, transfer
from .._backend import backends, client_state, error_translation, launch_guards, memory_errors, peer_errors
from .._compile import compile_tiers, dump_ir, executable_cache, lowering
from .._debug import nan_checks
from . import effects
from .._launch import observers, process_group
from .._sharding import shardings
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from .._placement.resolve import device_names, program_mesh
from .._compile.compile_effort import CompileEffort, compile_effort
from .._compile.small_loops import loop_byte_threshold
from .._typing import Array, Executable, LaunchReceipt, LoweringRules, OpSharding, OptionPairs, ResultHandler

if TYPE_CHECKING:
    from lamina_lowering import Lowered
    from .._compile.stored_lowering import StoredLowering

__all__ = ["CompiledProgram", "FastPath", "compile_variant", "get_or_compile", "make_execution_error", "no_execution",
           "place_arg"]

no_execution = config.Option("no_execution", False, help="raise an error instead of running a compiled program, also "
                                                         "for "
                             "a single primitive; for tools that only trace, lower and compile")

# The tuple that jaxlib's call object needs to run a signature without Python. jaxlib reads the fields by name.
_get_sharding = attrgetter("_sharding")
FastPath = namedtuple("FastPath", "xla_executable out_pytree_def in_shardings out_shardings out_avals out_committed "
                                  "kept_var_bitvec in_device_local_layouts const_args")


class UserShardingsLike(Protocol):
    """The part of `_dispatch.user_shardings.UserShardings` that a launch uses."""

    @property
    def outs(self) -> tuple[Sharding | None, ...]: ...
    @property
    def mesh(self) -> Mesh | None: ...


def compile_and_log(low: Lowered, devices: tuple[Device, ...], options: executable_cache.CompileSettings, call: str,
                    name: str, closed: ClosedJaxpr, has_two_tiers: bool) -> executable_cache.LoadedExecutable:
    """Compile a lowered program; log it with `config.log_compiles`, and write it to a file with `config.dump_ir_to`."""
    if dump_ir.dump_ir_to.value is not None:
        dump_ir.dump(call, name, low, closed)
    if not (config.log_compiles.ever_enabled and config.log_compiles.value):
        return executable_cache.compile(low, devices, options, has_two_tiers)
    start, stats_before = time.perf_counter(), executable_cache.cache_stats()
    executable = executable_cache.compile(low, devices, options, has_two_tiers)
    source = {"memory": "found in memory", "disk": "loaded from disk", "compiled": "compiled" if
              executable.tier == "optimized" else "compiled quickly"}[_executable_source(stats_before)]
    types = ", ".join(a.str_long() for a in closed.in_avals)
    logger.warning("`%s` (%s) for %s: %s in %.4f s", name, types, device_names(devices), source,
                   time.perf_counter() - start)
    return executable


def _executable_source(before: executable_cache.CacheStats) -> str:
    """Return where the last executable comes from: `memory`, `disk` or `compiled`; `before` are the counts before."""
    after = executable_cache.cache_stats()
    return ("memory" if after.memory_hits > before.memory_hits else "disk" if after.disk_hits > before.disk_hits
            else "compiled")


class CompiledProgram:
    """A compiled program with everything a launch needs.

    Args:
      call: the kind of call: `jit`, `pmap`, `evaluation`.
      closed: the program.
      name: the name of the function.
      placement: its devices and shardings.
      keep_unused: whether unused arguments are passed to the executable.
      compiler_options: the user's options of the compiler.
      rules: the lowering rules; None: the current ones.
      payload: the serialized executable, which is loaded; None: the program is compiled.
      allow_tiers: whether the first calls may run an executable that is not optimised.
      reasons: for watchers of compilations: why it is compiled again.
      lowered: the lowered program, if it is known.

    Attributes:
      loaded: the executable in the memory cache, which may be replaced by an optimised one between two calls.
      in_shardings, out_shardings: jaxlib shardings of all arguments and results.
      result_handlers: jaxlib objects that wrap the device buffers of each result as an array.
      named_results: (mesh, user shardings) -> (result handlers, shardings) with NamedShardings over that mesh.
      window: the window of its launches; None if it has one device, or spans processes.
      launch_lock: held during a launch; None if it has one device.
      launcher, processes: if its devices belong to several processes, the launcher and the process numbers; else None
        and ().
      first_launch_done: whether its devices have connected to each other, which happens in the first launch.
      launch_group: the data that the launch consistency check stores for it.
      used_args: for each argument whether the executable takes it.
      effect_order: the sequence of ordered effects of its device; None if it has none.
      donation_checked: whether unusable donations were looked for.
    """

    __slots__ = ("call", "loaded", "lowered", "placement", "in_shardings", "out_shardings", "result_handlers",
                 "const_args", "used_args", "window", "launch_lock", "launcher", "processes", "first_launch_done",
                 "launch_group", "in_avals", "out_avals",
                 "_closed", "effect_order", "effectful", "name", "named_results", "donation_checked", "_mesh", "__weakref__")

    def __init__(self, call: str, closed: ClosedJaxpr, name: str, placement: Placement, keep_unused: bool,
                 compiler_options: OptionPairs, rules: LoweringRules | None, payload: bytes | None = None,
                 allow_tiers: bool = False, reasons: Sequence[str] = (), lowered: StoredLowering | None = None) -> None:
        devices, facts = placement.devices, collect_facts(closed)
        self.call, self.name, self.placement = call, name, placement
        self._closed = weakref.ref(closed)  # weak, because the program's memo holds this object
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        self.effectful = closed.jaxpr.effectful
        self.launcher: process_group.MultiProcessLauncher | None = None
        self.processes: tuple[int, ...] = ()
        if client_state.current.launcher is not None:
            self.launcher, self.processes = process_group.multi_process_launcher(devices)
        self.first_launch_done = len(devices) == 1
        self.launch_group = None
        self.donation_checked = not placement.donated
        self.effect_order = self._find_effect_order() if facts.has_ordered_effects else None
        self._mesh = _program_mesh_of(closed, placement)
        start, stats = time.perf_counter(), executable_cache.cache_stats()
        self.lowered = cast("Lowered", lowered) if lowered is not None else self._lower(closed, keep_unused, rules)
        lowered_at = time.perf_counter()
        self.loaded = self._compile(closed, compiler_options, payload, allow_tiers)
        compiled_at, source = time.perf_counter(), _executable_source(stats)
        ordered = self.effect_order is not None
        self.used_args = self.lowered.used_args[:-1] if ordered else self.lowered.used_args
        # In the local view jaxlib sees only the devices of this process, and must not take a part for a single-device
        # array.
        make_sharding = shardings.process_part_sharding if placement.local_devices else shardings.tiled_sharding
        here = placement.local_devices or devices
        everywhere = make_sharding(here, Tiles())
        self.in_shardings = [everywhere] * len(self.used_args)
        if placement.in_tiles:
            self.in_shardings = [everywhere if t is None else make_sharding(here, t) for t in placement.in_tiles]
        self.const_args: list[Array] = []
        if self.lowered.const_args:
            launch_guards.check_constants(call, name, self.lowered.const_args)
            self.const_args = [place_arg(c, everywhere) for c in self.lowered.const_args]
        self.out_shardings = [everywhere if t is None else make_sharding(here, t) for t in self._result_tiles(closed)]
        if self._mesh is not None and placement.one_member_per_device and (len(here) > 1 or not placement.local_devices):
            self.out_shardings = [shardings.as_named_sharding(self._mesh, s, a.ndim)
                                  for s, a in zip(self.out_shardings, self.out_avals)]
        if ordered:
            self.out_shardings.append(everywhere)
        avals = [*self.out_avals, *self.lowered.out_avals[len(self.out_avals):]]
        self.result_handlers = [_jaxlib.result_handler(a, s, placement.committed) for a, s in zip(avals, self.out_shardings)]
        self.named_results: dict[CacheKey, tuple[list[ResultHandler], list[Sharding]]] = {}
        window = launch_guards.client_window(devices[0].client) if len(devices) > 1 else None
        self.launch_lock = None if window is None else window.lock
        self.window = window if self.launcher is None else None
        if observers.compilation_watchers:
            observers.notify_compiled(observers.Compilation(call, name, self, lowered_at - start, compiled_at - lowered_at,
                                                            source, tuple(reasons)))

    def _find_effect_order(self) -> effects.EffectOrder:
        """Return the sequence of ordered effects of the device.

        Ordered effects pass a token through the program, as its last operand and last result. It is never donated.
        """
        devices = self.placement.devices
        if self.placement.one_member_per_device:
            raise ValueError(f"{self.call} of `{self.name}`: ordered effects need a single device, and the devices of a map "
                             "run at the same time; use ordered=False")
        if len(devices) > 1:
            raise ValueError(f"jit of `{self.name}`: ordered effects need a single device; this program runs on "
                             f"{len(devices)}. Use ordered=False")
        return effects.get_effect_order(devices[0])

    def _member_devices(self) -> tuple[Device, ...]:
        """The devices of one member, if the members of a map are lowered as if each were a process; else those visible."""
        here = self.placement.visible_devices
        return here[:len(here) // self.placement.local_members]

    def _lower(self, closed: ClosedJaxpr, keep_unused: bool, rules: LoweringRules | None) -> Lowered:
        placement, prefix, by_id = self.placement, "", None
        if rules is None:
            rules = lowering.merged_rules(backends.lowering_platform(placement.devices[0]))
        if self.effect_order is not None:
            closed = thread_effect_token(closed)
            if placement.donated:
                # The token is one more operand.
                placement = placement._replace(donated=(*placement.donated, False))
        if placement.one_member_per_device:
            prefix = "pmap_" if self._mesh is None else "shard_map_"
        if placement.partitions > 1:
            devices = self._member_devices()
            # Partition numbers follow the order of the device list; the text of a sharding numbers devices by id.
            by_id = sorted(range(len(devices)), key=lambda i: devices[i].id)
        return lowering.lower(closed, placement=placement, rules=rules, name=f"{prefix}{self.name}", keep_unused=keep_unused,
                     platform=rules.platform, partition_order=by_id)

    def _compile(self, closed: ClosedJaxpr, compiler_options: OptionPairs,
                 payload: bytes | None, allow_tiers: bool) -> executable_cache.LoadedExecutable:
        placement, low = self.placement, self.lowered
        unspecified: tuple[bool, ...] = ()
        if placement.partitions > 1:
            # Only these results may be sharded by the partitioner; the others have the user's sharding.
            unspecified = tuple([t is None for t in placement.out_tiles]) or (True,) * len(self.out_avals)
        has_own_options = bool(compiler_options)
        if self.processes:
            compiler_options = (*_jaxlib.multi_process_overrides(low.platform), *compiler_options)
        is_parallel = len(placement.devices) > 1
        fast_compile, rolled_loops = CompileEffort() if is_parallel else compile_effort(closed)
        size = getattr(low, "size", None)  # absent in the output of other lowerings
        has_loops = size is None or size.nesting > 0
        options = executable_cache.CompileSettings(
            placement.replicas, placement.partitions, unspecified, fast_compile,
            is_parallel and bool(getattr(low, "host_functions", ())), getattr(low, "shardy", False), compiler_options,
            rolled_loops, loop_byte_threshold(closed) if has_loops and not is_parallel and low.platform == "cpu" else 0)
        if payload is not None:
            return executable_cache.load(low, placement.devices, options, payload)
        has_two_tiers = allow_tiers and not (has_own_options or fast_compile) and self._has_two_tiers(closed)
        return compile_and_log(low, placement.devices, options, self.call, self.name, closed, has_two_tiers)

    def _has_two_tiers(self, closed: ClosedJaxpr) -> bool:
        low = self.lowered
        # A switch at the same launch needs the comparison of every launch. In their own programs, several processes often
        # compute the same values each, and would replace the executables at different times.
        launcher = client_state.current.launcher
        if launcher is not None and not (self.processes and process_group.agreement.value == "every"
                                         and launcher.store is not None):
            return False
        if low.platform != "cpu" or bool(getattr(low, "host_functions", ())):
            return False
        if nan_checks.is_enabled() or executable_cache.disable_most_optimizations.value:
            return False
        return compile_tiers.has_two_tiers(closed)

    def _result_tiles(self, closed: ClosedJaxpr) -> Sequence[Tiles | None]:
        """Return the tiles of the results: the user's, else those that the compiler chose. None means replicated."""
        placement = self.placement
        chosen: Sequence[Tiles | None] = (None,) * len(self.out_avals)
        compiler_shardings = self.executable.get_output_shardings() if placement.partitions > 1 else None
        if compiler_shardings is not None:
            chosen = [_tiles_from_proto(p) for p in compiler_shardings]
        if placement.local_devices and placement.partitions > 1:
            # Each process holds a replica as far as XLA knows; take the part in this process.
            own = [placement.devices.index(d) for d in self._member_devices()]
            chosen = join_member_tiles(closed, placement, [(t or Tiles()).block_on(own)[0] for t in chosen])
        return [c if t is None else t for t, c in zip(placement.out_tiles, chosen)] if placement.out_tiles else chosen

    @property
    def executable(self) -> Executable:
        """jaxlib's executable, with which the next call runs."""
        return self.loaded.executable

    @property
    def is_replaced_later(self) -> bool:
        """Whether an optimised executable will replace the current one."""
        return self.loaded.job is not None

    @property
    def source_program(self) -> ClosedJaxpr | None:
        """The source program; None if it has been freed."""
        return self._closed()

    def result_shardings(self, flat: Sequence[Value],
                         user_shardings: UserShardingsLike | None = None) -> tuple[list[ResultHandler], list[Sharding]]:
        """Return result handlers and shardings, as NamedShardings if a mesh over exactly these devices is known.

        The mesh is looked up in: the user shardings, the arguments, the mesh in scope, the sharding constraints.
        """
        placement = self.placement
        if placement.one_member_per_device or placement.local_devices or not placement.committed:
            return self.result_handlers, self.out_shardings
        devices = placement.devices
        mesh: Mesh | None = None
        for x in flat:
            if type(x) is ArrayImpl and x._sharding._mesh is not None:
                mesh = x._sharding._mesh
                if mesh.flat_devices == devices:
                    break
        for other in (None if user_shardings is None else user_shardings.mesh, mesh, mesh_in_scope(), self._mesh):
            if other is not None and other.flat_devices == devices:
                return self._name_results(other, None if user_shardings is None else user_shardings.outs)
        return self.result_handlers, self.out_shardings

    def _name_results(self, mesh: Mesh,
                      user_outs: Sequence[Sharding | None] | None) -> tuple[list[ResultHandler], list[Sharding]]:
        # Shardings that place alike but have other names differ in their `alias_id`.
        key = mesh, None if user_outs is None else tuple([0 if s is None else s.alias_id for s in user_outs])
        found = self.named_results.get(key)
        if found is None:
            if len(self.named_results) > 64:
                self.named_results.clear()
            avals = self.out_avals
            shardings_out = [s if s is not None and s._mesh is not None else shardings.as_named_sharding(mesh, p, a.ndim)
                             for s, p, a in zip(user_outs or (None,) * len(avals), self.out_shardings, avals)]
            shardings_out += self.out_shardings[len(avals):]
            handlers = [h if s is p else _jaxlib.result_handler(a, s, True) for h, s, p, a in zip(
                self.result_handlers, shardings_out, self.out_shardings, avals)] + self.result_handlers[len(avals):]
            found = self.named_results[key] = handlers, shardings_out
        return found

    def run(self, flat: Sequence[Value], user_shardings: UserShardingsLike | None = None) -> list[Array]:
        """Launch on flat arguments with any placement, and return the flat results.

        `user_shardings` are those of arguments and results, or None.
        """
        if no_execution.ever_enabled and no_execution.value:
            raise RuntimeError(f"{self.call} of `{self.name}`: config no_execution is set, and this would run a "
                               "compiled program. Trace, lower and compile it instead (lower(...).compile()), or unset "
                               "it")
        if observers.wrappers and not observers.state.is_wrapping:
            return observers.call_wrappers(self, flat, lambda: self._run_translated(flat, user_shardings))
        # The names of results depend on the arguments, not on the program: one executable serves several meshes.
        handlers = self.result_shardings(flat, user_shardings)[0]
        args = list(self.const_args)
        if args:
            launch_guards.check_constants(self.call, self.name, args)
        args += [place_arg(x, s, a) for x, k, s, a in zip(flat, self.used_args, self.in_shardings, self.in_avals) if k]
        failures, failure = self.loaded.failures, None
        if failures is None:
            outs = self._start_in_window(args, handlers)
        else:
            try:
                outs = failures.launch_and_wait(f"{self.call} of `{self.name}`", lambda: self._start(args, handlers))
            except CallbackError as e:
                if self.launcher is None:
                    raise
                # The error is exchanged below: the other processes would wait for this one in the next collective.
                outs, failure = [], e
            if self.window is not None:
                self.window.note_launch(outs)
        checked = (config.debug_nans.ever_enabled or config.debug_infs.ever_enabled) and nan_checks.is_enabled()
        if checked or self.launcher is not None and failures is not None:
            closed = self._closed()
            assert closed is not None
            if self.launcher is not None:
                nan_checks.check_results_multi_process(self.name, closed, self.placement, flat, outs, failure)
            else:
                # Name the primitive if this is the program of one eager primitive. For control flow, find the equation
                # inside.
                eqns, is_parallel = closed.jaxpr.eqns, len(self.placement.devices) > 1
                is_single_primitive = len(eqns) == 1 and eqns[0].source is None and not eqns[0].primitive.subprograms
                nan_checks.check_results(self.name, outs, closed, flat,
                                    eqns[0].primitive.name if is_single_primitive else None,
                                    self.placement if is_parallel or self.placement.one_member_per_device else None)
        if observers.watchers:
            observers.notify(self, flat, outs)
        return list(outs)

    def _run_translated(self, flat: Sequence[Value], user_shardings: UserShardingsLike | None) -> list[Array]:
        """Run for a wrapper of launches, which gets the errors of this package."""
        try:
            return self.run(flat, user_shardings)
        except _jaxlib.JaxRuntimeError as e:
            raise make_execution_error(self.call, self.name, e, flat, program=self.source_program) from e

    def _start_in_window(self, args: list[Value], handlers: list[ResultHandler]) -> Sequence[Array]:
        """Launch, and wait if too many programs are in flight."""
        window = self.window
        if window is None or not window.is_limited:
            return self._start(args, handlers)
        if client_state.current.launcher is not None:  # it may launch in another thread, which needs the lock
            outs = self._start(args, handlers)
            window.note_launch(outs)
            return outs
        with window.lock:  # until this launch is counted
            outs = self._start(args, handlers)
            window.note_launch(outs)
        return outs

    def _start(self, args: list[Value], handlers: list[ResultHandler]) -> Sequence[Array]:
        if self.launcher is not None:
            return self.launcher.launch(self, args, lambda: self._launch_agreed(args, handlers))
        launcher, is_first = client_state.current.launcher, not self.first_launch_done
        self.first_launch_done = True
        if launcher is not None and is_first:
            # Several devices of one process also connect through Gloo. A loss must not cut the connections of this
            # group.
            return launcher.launch_local_first(lambda: self._launch(args, handlers), args)
        if launcher is not None and launcher.is_stuck:
            return launcher.run_in_new_thread(lambda: self._launch(args, handlers))
        return self._launch(args, handlers)

    def _launch_agreed(self, args: list[Value], handlers: list[ResultHandler]) -> list[Array]:
        """Launch when all processes of the program have agreed on it, and are at the same launch."""
        switch = self.loaded.switch
        if switch is not None:
            assert self.launcher is not None and self.launcher.store is not None
            switch.before_launch(self, self.launcher.store, int(self.placement.devices[0].client.process_index()))
        return self._launch(args, handlers)

    def _launch(self, args: list[Value], handlers: list[ResultHandler]) -> list[Array]:
        order = self.effect_order
        if not self.effectful:
            return self._execute(args).consume_with_handlers(handlers)
        if order is None:
            result = self._execute(args, with_tokens=True)
            outs = result.consume_with_handlers(handlers)
            self._note_launch(result.consume_token())
            return outs
        # From reading the token to storing the next one. Two launches with one token would run in any order.
        with order.lock:
            try:
                result = self.executable.execute_sharded([*args, order.token()], with_tokens=True)
            except _jaxlib.LAUNCH_ERRORS:
                order.reset()
                raise
            *outs, token = result.consume_with_handlers(handlers)
            order.set_token(token)
            effects.note_launch(result.consume_token())
        return outs

    def _execute(self, args: list[Value], with_tokens: bool = False) -> Any:
        """Launch, while no other thread launches a program on several devices."""
        launcher = client_state.current.launcher
        # Another thread may be in a launch that never ends.
        if self.launch_lock is None or launcher is not None and launcher.is_stuck:
            return self.executable.execute_sharded(args, with_tokens=with_tokens)
        with self.launch_lock:
            return self.executable.execute_sharded(args, with_tokens=with_tokens)

    def _note_launch(self, receipt: LaunchReceipt) -> None:
        # With collected failures the launch is waited for here: `launch_and_wait` must see the errors of its own
        # callbacks.
        if self.loaded.failures is None:
            effects.note_launch(receipt)
        else:
            receipt.block_until_ready()

    def fast_path(self, flat: Sequence[Value], out_tree: PyTreeDef,
                  user_shardings: UserShardingsLike | None = None) -> FastPath | None:
        """Return the data with which jaxlib runs further calls of this signature without Python; None if it must not.

        Python is needed for:

        - an executable that is replaced later;
        - launches over several processes, and launches after one that never ends;
        - errors of callbacks, and NaN checks on several devices;
        - watchers and wrappers of launches;
        - results that are not a jaxlib tree;
        - an argument with the right number of devices but another sharding: jaxlib would use its shards unchanged.
        """
        if self.launcher is not None or self.lowered.host_functions or type(out_tree) is not _jaxlib.PyTreeDef:
            return None
        if not self.loaded.is_final(self.name):
            return None
        if observers.watchers or observers.wrappers:
            return None
        if client_state.current.launcher is not None and client_state.current.launcher.is_stuck:
            return None
        n = len(self.placement.devices)
        if (n > 1
            or self.placement.one_member_per_device) and nan_checks.is_enabled():  # its report names devices of the placement
            return None
        for x, k, s in zip(flat, self.used_args, self.in_shardings):
            if k and type(x) is ArrayImpl and x._sharding is not s and x._sharding != s:
                # jaxlib asks `shard_arg_fallback` only if the number of devices differs.
                if x._sharding.num_devices == n and type(x._sharding) is not SingleDeviceSharding:
                    return None
        n_const, n_out = len(self.const_args), len(self.result_handlers)
        # jaxlib prepends the constants to the arguments.
        used_args = [True] * n_const + list(self.used_args)
        in_shardings = [*map(_get_sharding, self.const_args), *compress(self.in_shardings, self.used_args)]
        return FastPath(self.executable, out_tree, in_shardings, self.result_shardings(flat, user_shardings)[1], self.out_avals,
                        [self.placement.committed] * n_out, used_args, [None] * len(in_shardings), self.const_args)


def _tiles_from_proto(proto: OpSharding) -> Tiles:
    tiles = _jaxlib.sharding_from_proto(proto)
    return Tiles.parse(str(tiles)) if tiles.is_tiled() else Tiles()


def _program_mesh_of(closed: ClosedJaxpr, placement: Placement) -> Mesh | None:
    """Return the mesh that names the devices of the results; None if the program names none."""
    if placement.partitions == 1 and not placement.one_member_per_device:
        return None
    mesh = program_mesh(closed)
    is_local_view = mesh is not None and placement.one_member_per_device and placement.local_devices
    return mesh.local_mesh if is_local_view else mesh


def place_arg(x: Value, sharding: Sharding, aval: ShapedArray | None = None) -> Array:
    """Return an argument with the sharding that the program expects."""
    if type(x) is ArrayImpl:
        # The cheapest case first: most arguments are the results of an earlier call.
        old = x._sharding
        if old is sharding or old == sharding:
            return x
        if old.num_devices == 1 and sharding.num_devices == 1:
            # A part of an array over processes that is on one device: it can be used without a copy.
            single = arrays.as_single_device_array(x)
            if single._sharding._device == shardings.sharding_devices(sharding)[0]:
                return single
        if type(sharding) is SingleDeviceSharding and type(old) is SingleDeviceSharding:
            return arrays.put_pieces(x.aval, sharding, [x], [sharding._device], x._committed)
        if type(old) is SingleDeviceSharding and old.on_host and not x._committed and sharding.on_host:
            # Not committed, and CPU memory can be read by the host: slicing on the host takes half the time of slicing
            # on the device and copying.
            return transfer.put_with_sharding(arrays.host_value(x), x.aval, sharding)
        return transfer._move_array(x, sharding)
    if type(sharding) is SingleDeviceSharding:
        return arrays.put(x, sharding._device, False, aval)
    return transfer.put_with_sharding(x, aval if aval is not None else transfer._arg_aval("jit", x), sharding)


def get_or_compile(call: str, closed: ClosedJaxpr, name: str, placement: Placement, keep_unused: bool = False,
                compiler_options: OptionPairs = (), rules: LoweringRules | None = None,
                allow_tiers: bool = False) -> CompiledProgram:
    """Return the program compiled for a placement, from the cache if it is there.

    Args:
      call, closed, name, placement, keep_unused: as for `CompiledProgram`.
      compiler_options: the user's options of the compiler.
      rules: the lowering rules of a call that is already lowered; None, or those of another platform: the current
        rules.
      allow_tiers: whether the first calls may run an executable that is not optimised, if the setting `compile_tiers`
        admits it; otherwise the call waits for the optimised one.
    """
    allow_tiers = allow_tiers and compile_tiers.compile_tiers.value == "auto"
    if collect_facts(closed).has_xmap:
        closed = lower_xmaps(closed)
    platform = backends.lowering_platform(placement.devices[0])
    if rules is None or rules.platform != platform:
        rules = lowering.merged_rules(platform)
    # `_explain_miss` reads this tuple by position.
    key = ("xla", placement, keep_unused, rules.version, compiler_options, name if placement.one_member_per_device else None,
           # When processes replace the executable must not depend on other calls of one of them.
           allow_tiers and client_state.current.launcher is not None)

    def make() -> CompiledProgram:
        is_explained = config.explain_cache_misses.ever_enabled and config.explain_cache_misses.value
        reasons = _explain_miss(closed, key) if is_explained or observers.compilation_watchers else ()
        if is_explained and reasons:
            log_cache_miss("compile", name, reasons)
        return CompiledProgram(call, closed, name, placement, keep_unused, compiler_options, rules, None, allow_tiers, reasons)

    made = executable_cache.memoize(closed, key, make)
    if not allow_tiers and made.loaded.tier != "optimized" and not made.loaded.wait():
        executable_cache.evict(made.loaded)
        made = executable_cache.memoize(closed, key, make)  # raises the error of the compilation in the background
    return made


def prepare_program(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a staged program as it is lowered: without primitives whose rule is a program, random keys and `xmap`."""
    closed = lower_keys(lowering.expand_primitives(closed))
    return lower_xmaps(closed) if collect_facts(closed).has_xmap else closed


def compile_variant(program: CompiledProgram, closed: ClosedJaxpr, donated: Sequence[bool] = (),
                    in_tiles: Sequence[Tiles] = (), out_tiles: Sequence[Tiles | None] = ()) -> CompiledProgram:
    """Compile a changed program for the devices of a compiled one. It is not cached in memory.

    Args:
      program: the compiled program.
      closed: the changed program. Its first arguments and results are those of `program`; it may have further results.
      donated: for each argument whether it is donated; (): as in `program`.
      in_tiles: the placement of each argument; (): as in `program`.
      out_tiles: the placement of each result, None where the compiler chooses; (): as in `program`.
    """
    old = program.placement
    placement = old._replace(donated=tuple(donated) or old.donated, in_tiles=tuple(in_tiles) or old.in_tiles,
                             out_tiles=tuple(out_tiles) or old.out_tiles)
    rules = lowering.merged_rules(backends.lowering_platform(placement.devices[0]))
    return CompiledProgram(program.call, prepare_program(closed), program.name, placement, False, (), rules)


def _explain_miss(closed: ClosedJaxpr, key: tuple[Any, ...]) -> Sequence[str]:
    """Return why a program that was compiled before is compiled again: the differences from the most similar cached key.

    Empty if it was not compiled before.
    """
    known = [k for k in closed.memo_keys() if isinstance(k, tuple) and k[0] == "xla"]
    if not known:
        return []
    new: Placement = key[1]

    def reasons(old: tuple[Any, ...]) -> list[str]:
        found, old_placement = [], old[1]
        if old_placement.devices != new.devices:
            found.append(f"devices changed from {device_names(old_placement.devices)} to {device_names(new.devices)}")
        if old_placement.committed != new.committed:
            found.append("arguments are committed to their device now" if new.committed else
                         "arguments are not committed to a device now")
        for i, (a, b) in enumerate(zip(old_placement.in_tiles or new.in_tiles, new.in_tiles or old_placement.in_tiles)):
            if a != b:
                found.append(f"sharding of flat argument {i} changed from {_format_tiles(a)} to {_format_tiles(b)}")
        if old_placement.donated != new.donated or old[2] != key[2]:
            found.append("donated or used arguments changed")
        if old[3] != key[3]:
            found.append("lowering rules were redefined")
        if old_placement.out_tiles != new.out_tiles:
            found.append("out_shardings changed")
        if old[4] != key[4]:
            found.append(f"compiler_options changed from {dict(old[4])} to {dict(key[4])}")
        return found

    return min(map(reasons, known), key=len) or ["it was evicted from the cache"]


def _format_tiles(tiles: Tiles | None) -> str:
    return "none" if tiles is None else tiles.text()


def make_execution_error(call: str, name: str, error: Exception, flat: Iterable[Value] = (),
                         describe: Callable[[int], str] | None = None, program: ClosedJaxpr | None = None) -> BaseException:
    """Convert a jaxlib error to an error of this package; the original becomes its cause.

    If a callback raised an exception, that exception becomes the cause of the original. KeyboardInterrupt and
    SystemExit of a callback are returned unchanged. If memory is exhausted, the result is an OutOfMemoryError, which
    describes the memory of `program`. If another thread deleted one of the arguments `flat` during the
    launch, the result is a DeletedArrayError with its name, `describe(i)`.
    """
    try:
        launch_guards.check_usable(call, name, flat, *([] if describe is None else [describe]))
    except launch_guards.DeletedArrayError as e:
        return e
    callback_error = error_translation.find_callback_error(error)
    if callback_error is not None:
        if not isinstance(callback_error, Exception):
            return callback_error
        error.__cause__ = callback_error
        return error_translation.callback_error_class(callback_error)(f"{call} of `{name}`: {callback_error}")
    peer_error = peer_errors.peer_error_for(f"{call} of `{name}`", error)
    if peer_error is not None:
        return peer_error
    if memory_errors.is_memory_error(error):
        return memory_errors.make_memory_error(f"{call} of `{name}`", error, program, None, list(flat), describe)
    if "Disallowed" in str(error):
        return ExecutionError(f"{call} of `{name}`: the transfer guard refuses to move an argument: {error}. Move it "
                              "with device_put before the call, or allow it with lamina.transfer_guard('allow')")
    return ExecutionError(f"{call} of `{name}`: the compiled program could not be built or failed: {error}")
