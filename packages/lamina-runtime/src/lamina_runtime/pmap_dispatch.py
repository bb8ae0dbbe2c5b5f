"""`pmap` on several devices: one module in each device's own view, run as replicas.

Every device gets its row of a mapped operand: the array is split along the mapped axis, one row per device, wherever
that axis is, so no axis is ever moved. Repeated calls go through jaxlib's call object; the Python around it keeps
collectives in their window and watches donated arguments.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, ShapedArray, UnnamedAxis, Var, config, has_ordered_effects, prims, shaped,
                       subprograms, trees)
from lamina_lowering import SourceLine, instruction_lines, lower, replica_count, rows
from lamina_tracing import slots
from lamina_tracing.extend import (EVALUATION, MapSpec, StagedMap, Tracer, boundary, duck_types, filter_traceback, now,
                                   translated)

from . import (_jaxlib, backends, compiling, debug, dispatch, effects, execution, host_errors, leaving, safe_launch,
               shardings, stages)
from ._jaxlib import ArrayImpl
from .trees_cpp import REGISTRY

__all__ = ["PmapProgram", "make_pmap", "run_xla_pmap"]

_cache = _jaxlib.PjitFunctionCache(capacity=compiling.MOST_PROGRAMS)


class PmapProgram:
    """A mapped program compiled for its devices.

    Args:
      closed: the program of one device.
      axis_name, axis_size, in_axes, out_axes, devices, backend, donated: as in the params of `xla_pmap`.
    """

    def __init__(self, closed: ClosedJaxpr, name: str, axis_name: Any, axis_size: int, in_axes: Sequence[int | None],
                 out_axes: Sequence[int | None], devices: tuple[Any, ...] | None, backend: str | None,
                 donated: Sequence[bool], rules: Any) -> None:
        self.name, self.closed = name, closed
        self.params = dict(axis_name=axis_name, axis_size=axis_size, call_jaxpr=closed, in_axes=tuple(in_axes),
                           out_axes=tuple(out_axes), name=name)
        # Maps inside of this one take replicas of their own: each member of this axis stands on `copies` devices.
        replicas = axis_size * replica_count(closed)
        self.devices = where = _choose(name, replicas, axis_size, devices, backend)
        self.collective = replicas > 1 and _communicates(closed)
        if devices is None and closed.jaxpr.axis_names and backends.process_count(backend) > 1:
            raise RuntimeError(f"pmap of `{name}`: in several processes the mapped axis covers this process's devices "
                               "only. Say so with devices=lamina.local_devices(), or use jit on arrays placed over all "
                               "devices")
        if has_ordered_effects(closed):
            raise ValueError(f"pmap of `{name}`: ordered effects need a single device, and the devices of a pmap run at the "
                             "same time; use ordered=False")
        self.effectful = closed.jaxpr.effectful
        copies = replicas // axis_size
        # closed is one member's program; framed what a device runs; in_avals and out_avals are the caller's whole arrays.
        framed = _framed(closed, in_axes, out_axes)
        self.lowered = low = lower(framed, name=f"pmap_{name}", platform=backends.lowering_platform(where[0]),
                                   axis_env=[(axis_name, axis_size)], num_replicas=replicas, donated=donated, rules=rules)
        self.in_avals = [_whole(v, axis, axis_size) for v, axis in zip(closed.in_avals, in_axes)]
        self.out_avals = [_whole(v, axis, axis_size) for v, axis in zip(closed.out_avals, out_axes)]
        self.in_shardings = [_spread(where, a, axis, axis_size, copies) for a, axis in zip(self.in_avals, in_axes)]
        self.out_shardings = [_spread(where, a, axis, axis_size, copies) for a, axis in zip(self.out_avals, out_axes)]
        self.kept = low.kept_args
        everywhere = shardings.replicated(where)
        safe_launch.check_constants("pmap", name, low.const_args)
        self.const_args = [execution.place(c, everywhere) for c in low.const_args]
        self._const_shardings = [everywhere] * len(self.const_args)
        options = compiling.Options(num_replicas=replicas, together=replicas > 1 and bool(low.host_functions))
        self.loaded = execution.compile_logged(low, where, options, name, closed.in_avals)
        self.executable = self.loaded.executable
        self.handlers = [_jaxlib.result_handler(a, s, True) for a, s in zip(self.out_avals, self.out_shardings)]
        self.window = safe_launch.window_of(where[0].client)

    def run(self, flat: Sequence[Any]) -> list[Any]:
        """Run on flat arguments, wherever they are. The caller has seen to the window if `collective`."""
        args = list(self.const_args)
        args += [execution.place(x, s, a) for x, k, s, a in zip(flat, self.kept, self.in_shardings, self.in_avals) if k]
        if self.loaded.failures is not None:
            return self.loaded.failures.settled(f"pmap of `{self.name}`", lambda: self._launch(args))
        return self._launch(args)

    def _launch(self, args: list[Any]) -> list[Any]:
        if not self.effectful:
            return self.executable.execute_sharded(args).consume_with_handlers(self.handlers)
        found = self.executable.execute_sharded(args, with_tokens=True)
        outs = found.consume_with_handlers(self.handlers)
        receipt = found.consume_token()
        if self.loaded.failures is None:
            effects.launched(receipt)
        else:
            receipt.block_until_ready()
        return outs

    def fast_path(self, flat: Sequence[Any], out_tree: Any) -> Any:
        """None when an argument lies on as many devices as it should, but otherwise: jaxlib would not notice. None for
        programs that call the host, too: their errors are to be told apart."""
        if self.lowered.host_functions:
            return None
        for x, k, s in zip(flat, self.kept, self.in_shardings):
            if k and type(x) is ArrayImpl and x._sharding is not s and x._sharding != s:
                if x._sharding.num_devices == len(self.devices):
                    return None
        kept = [True] * len(self.const_args) + list(self.kept)
        ins = self._const_shardings + [s for s, k in zip(self.in_shardings, self.kept) if k]
        return execution.FastPath(self.executable, out_tree, ins, self.out_shardings, self.out_avals,
                                  [True] * len(self.out_avals), kept, [None] * len(ins), self.const_args)


def _too_few(sentence: str, rows: str, each: int) -> ValueError:
    """More rows than devices: how many rows there are in the user's words, and how many devices the maps inside take for
    each."""
    inside = "" if each == 1 else f", times {each} of the maps inside"
    error = ValueError(f"{sentence}: {rows}{inside}, one for each device. lamina.parallel.padded maps any number of rows, in "
                       "rounds")
    error.too_few = sentence, each  # type: ignore[attr-defined]
    return error


def _choose(name: str, replicas: int, axis_size: int, devices: tuple[Any, ...] | None,
            backend: str | None) -> tuple[Any, ...]:
    if devices is not None:
        found = backends.check_devices(f"pmap of `{name}`", devices)
        sentence = (f"pmap of `{name}`: compiling computation that requires {replicas} logical devices, but devices names "
                    f"{len(found)} (num_replicas={replicas}, num_partitions=1)")
        if len(found) < replicas:
            raise _too_few(sentence, f"the mapped axis has {axis_size} rows", replicas // axis_size)
        if len(found) > replicas and replicas == axis_size:
            raise ValueError(f"{sentence}: the mapped axis has {axis_size} rows, one for each device. Name as many devices")
        return found[:replicas]
    every = backends.local_devices(backend=backend)
    if len(every) < replicas:
        raise _too_few(f"pmap of `{name}`: compiling computation that requires {replicas} logical devices, but only "
                       f"{len(every)} XLA devices are available (num_replicas={replicas}, num_partitions=1)",
                       f"the mapped axis has {axis_size} rows", replicas // axis_size)
    return tuple(every[:replicas])


def _whole(part: ShapedArray, axis: int | None, size: int) -> ShapedArray:
    if axis is None:
        return part
    return shaped(part.shape[:axis] + (size,) + part.shape[axis:], part.dtype, part.weak_type)


def _spread(devices: tuple[Any, ...], aval: ShapedArray, axis: int | None, size: int, copies: int) -> Any:
    if axis is None:
        return shardings.replicated(devices)
    return shardings.mapped(devices, len(aval.shape), ((axis, size),), copies)


def _framed(closed: ClosedJaxpr, in_axes: Sequence[int | None], out_axes: Sequence[int | None]) -> ClosedJaxpr:
    """The program on what a device really holds: the mapped axis is there, with length one."""
    jaxpr = closed.jaxpr
    invars, eqns = [], []
    for v, axis in zip(jaxpr.invars, in_axes):
        if axis is None:
            invars.append(v)
        else:
            held = Var(_whole(v.aval, axis, 1))
            invars.append(held)
            eqns.append(_reshape(held, v))
    eqns += jaxpr.eqns
    outvars = []
    for o, axis in zip(jaxpr.outvars, out_axes):
        if axis is None:
            outvars.append(o)
        else:
            held = Var(_whole(o.aval, axis, 1))
            eqns.append(_reshape(o, held))
            outvars.append(held)
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, eqns, outvars, jaxpr.axis_names, jaxpr.effectful), closed.consts)


def _reshape(source: Any, target: Var) -> Eqn:
    return Eqn(prims.reshape_p, (source,), (target,), {"dimensions": None, "new_sizes": target.aval.shape})


def _communicates(closed: ClosedJaxpr) -> bool:
    """Whether devices wait for each other in this program."""
    todo, seen = [closed], {closed}  # programs may share programs that share programs
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive.name == "xla_pmap" or e.primitive.axis_params and e.primitive.name != "axis_index":
                return True
            fresh = [s for s in subprograms(e) if s not in seen]
            seen.update(fresh)
            todo += fresh
    return False


def _program(closed: ClosedJaxpr, name: str, axis_name: Any, axis_size: int, in_axes: Sequence[int | None],
             out_axes: Sequence[int | None], devices: tuple[Any, ...] | None, backend: str | None,
             donated: Sequence[bool]) -> PmapProgram:
    rules = rows(backends.lowering_platform(backends.client(backend).local_devices()[0]))
    called = UnnamedAxis if type(axis_name) is UnnamedAxis else axis_name  # no program mentions one
    key = ("pmap", name, called, axis_size, tuple(in_axes), tuple(out_axes), devices, backend, tuple(donated),
           rules.version, backends.generation())
    try:
        return compiling.remembered(closed, key, lambda: PmapProgram(closed, name, axis_name, axis_size, in_axes,
                                                                         out_axes, devices, backend, donated, rules))
    except _jaxlib.JaxRuntimeError as e:
        raise execution.failure("pmap", name, e) from e


def _launch(program: PmapProgram, flat: Sequence[Any], donated: Sequence[bool]) -> list[Any]:
    safe_launch.check_usable("pmap", program.name, flat)
    if any(donated):
        safe_launch.check_donation("pmap", program.name, flat, donated)
    try:
        outs = program.run(flat)
    except _jaxlib.JaxRuntimeError as e:
        raise execution.failure("pmap", program.name, e) from e
    if debug.wanted():
        debug.check_results(program.name, outs, program.closed, flat, mapped=program.params)
    return outs


def run_xla_pmap(args: Sequence[Any], params: dict[str, Any]) -> tuple[Any, ...]:
    """The evaluator's `xla_pmap`: run a mapped program on concrete arrays."""
    program = _program(params["call_jaxpr"], params["name"], params["axis_name"], params["axis_size"],
                       params["in_axes"], params["out_axes"], params["devices"], params["backend"],
                       (False,) * len(args))
    outs = _launch(program, args, ())
    if program.collective and program.window is not None:
        program.window.passed(outs)
    return tuple(outs)


def make_pmap(spec: MapSpec) -> Callable[..., Any]:
    """The callable of a `pmap`."""
    made_under = slots.dispatcher
    window: Any = None  # set once a program with collectives has been seen

    @boundary
    def miss(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool]:
        nonlocal window
        if leaving.staying:
            leaving.stay()
        if slots.dispatcher is not made_under:  # another one has moved in since
            return slots.dispatcher.pmap(spec)(*args, **kwargs), None, True
        others = config.generation.elsewhere()
        flat, tree, static = spec.split(args, kwargs)
        staged = spec.stage(args, kwargs, flat, tree, static)
        if spec.traced(staged, flat) or staged.closed.jaxpr.axis_names - {spec.axis_name}:
            return spec.call(staged, flat), None, True
        try:
            program = _program(staged.closed, spec.name, spec.axis_name, staged.size, staged.in_axes, staged.out_axes,
                               spec.devices, spec.backend, staged.donated)
        except ValueError as e:
            if not hasattr(e, "too_few"):
                raise
            sentence, each = e.too_few
            raise _too_few(sentence, spec.rows(staged, tree), each) from None
        if program.collective:
            window = program.window
        outs = _launch(program, flat, staged.donated)
        fast = program.fast_path(flat, staged.out_tree) if type(staged.out_tree) is _jaxlib.PyTreeDef else None
        return trees.tree_unflatten(staged.out_tree, outs), fast, others != config.generation.elsewhere()

    def plain(*args: Any, **kwargs: Any) -> Any:  # what jaxlib calls while jit is disabled
        return miss(*args, **kwargs)[0]

    call = dispatch.call_object(spec.name, plain, miss, (made_under,), sorted(spec.statics.nums), (), cache=_cache)
    call.__name__ = spec.name
    call.spec = spec

    def pmapped(*args: Any, **kwargs: Any) -> Any:
        try:
            out = call(*args, **kwargs)
        except Exception as e:
            if host_errors.is_failed_launch(e):
                raise execution.failure("pmap", spec.name, e) from e
            ours = translated(e, f"pmap of `{spec.name}`", args, kwargs, spec.statics)
            filter_traceback(ours)
            if ours is not e:
                raise ours from None
            raise
        if window is not None:
            _passed(window, out)
        return out

    if spec.donate_argnums:
        pmapped = _donating(spec, pmapped)
    functools.update_wrapper(pmapped, spec.fun, updated=())
    pmapped.spec = spec  # type: ignore[attr-defined]
    pmapped.lower = lambda *args, **kwargs: _lower(spec, args, kwargs)  # type: ignore[attr-defined]
    # Not jaxlib's bound methods: the collector does not see that they hold `call`.
    pmapped.clear_cache = lambda: call._clear_cache()  # type: ignore[attr-defined]
    pmapped._cache_size = lambda: call._cache_size()  # type: ignore[attr-defined]
    return pmapped


def _donating(spec: MapSpec, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, with the given-up arguments checked before and deleted after."""
    @boundary
    def pmapped(*args: Any, **kwargs: Any) -> Any:
        if now.trace is not EVALUATION:
            return call(*args, **kwargs)
        given = [x for i in spec.donate_argnums if i < len(args) for x in trees.tree_leaves(args[i])]
        if len({id(x) for x in given}) != len(given):
            safe_launch.check_donation("pmap", spec.name, given, [True] * len(given))
        return dispatch.called_giving("pmap", spec.name, call, given, args, kwargs)

    return pmapped


def _passed(window: Any, out: Any) -> None:
    window.passed([out] if type(out) is ArrayImpl else [x for x in REGISTRY.flatten(out)[0] if type(x) is ArrayImpl])


class LoweredPmap:
    """A lowered mapped call: `.as_text()`, `.compile()`."""

    def __init__(self, spec: MapSpec, staged: StagedMap, in_tree: Any) -> None:
        self._spec, self._staged, self.in_tree = spec, staged, in_tree
        self._program = _program(staged.closed, spec.name, spec.axis_name, staged.size, staged.in_axes,
                                 staged.out_axes, spec.devices, spec.backend, staged.donated)

    def as_text(self, dialect: str | None = None) -> str:
        """The module of one device as text; `dialect` is 'stablehlo' or 'hlo'."""
        return self._program.lowered.as_text(dialect or "stablehlo")

    def compile(self) -> CompiledPmap:
        """The call, compiled."""
        return CompiledPmap(self)


class CompiledPmap:
    """A compiled mapped call."""

    def __init__(self, lowered: LoweredPmap) -> None:
        self._lowered = lowered

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        low = self._lowered
        flat = stages.checked_arguments("pmap", low._spec, low.in_tree, low._program.in_avals, args, kwargs)
        safe_launch.check_usable("pmap", low._spec.name, flat)
        outs = _launch(low._program, flat, low._staged.donated)
        if low._program.collective and low._program.window is not None:
            low._program.window.passed(outs)
        return trees.tree_unflatten(low._staged.out_tree, outs)

    def cost_analysis(self) -> dict[str, float]:
        """The compiler's estimate for one device: 'flops', 'bytes accessed' (bytes), ..."""
        found = self._lowered._program.executable.cost_analysis()
        return found[0] if isinstance(found, (list, tuple)) else found

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results and temporaries on one device, as attributes."""
        return self._lowered._program.executable.get_compiled_memory_stats()

    def as_text(self) -> str:
        """The optimised HLO text."""
        return "\n".join(m.to_string() for m in self._lowered._program.executable.hlo_modules())

    def source_map(self) -> dict[int, SourceLine]:
        """The user's line of each equation, by the number it has in `as_text()` and in profiles."""
        return self._lowered._program.lowered.source_map()

    def instruction_lines(self) -> dict[str, tuple[SourceLine, ...]]:
        """The user's lines that each instruction comes from, its own first; see `Compiled.instruction_lines` of jit."""
        return instruction_lines(self.as_text(), self.source_map())


def _lower(spec: MapSpec, args: Any, kwargs: Any) -> LoweredPmap:
    flat, tree, static = spec.split(args, kwargs)
    types = [Tracer(EVALUATION, a) for a in duck_types("pmap", spec.name, flat, tree)]
    staged = spec.stage(args, kwargs, types, tree, static)
    if staged.outer:
        raise ValueError(f"pmap of `{spec.name}`: the function uses values of an enclosing transformation, so it "
                         "cannot be lowered by itself; pass them as arguments")
    return LoweredPmap(spec, staged, tree)
