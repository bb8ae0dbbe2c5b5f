"""Staging: trace a function to a program (jaxpr) by running it on `StagingTracer`s."""
from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from typing_extensions import override
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Source, UnnamedAxis, Var, aval_of, check,
                       config)
from lamina_ir.extend import check_key_uses, stack_depth, infer_equation_types
from lamina_ir.typing import AxisName, Params, Value

from .array import HostArray
from .signature import function_name
from .source_lines import NOWHERE, UserRuleSource, drop_cached_caller, set_staging_code, find_user_source
from .tracer_provenance import check_tracing_allowed
from .trace import Trace, bind, leak_error, trace_state, on_trace_begin, notify_staging_hooks
from .tracer import Tracer
from .._typing import Outputs, SourceState, StagedFunctionInfo

__all__ = ["StagingTrace", "StagingTracer", "are_lasting", "eval_jaxpr", "jaxpr_as_fun", "stage"]

_get_var = attrgetter("_var")
_NUMBERS = frozenset((bool, int, float, complex))
_enable_checks, _debug_key_reuse, _check_leaks = config.enable_checks, config.debug_key_reuse, config.check_tracer_leaks


class StagingTracer(Tracer):
    """Tracer for a variable of the program being staged.

    Args:
      trace: the trace that stages the program.
      aval: the variable's type.
      var: the variable.

    >>> _ = stage(lambda x: print(type(x).__name__, x.aval) or [x], [ShapedArray((2,), np.dtype("float32"))])
    StagingTracer float32[2]
    """

    __slots__ = ("_var",)  # not `var`, which is a method of arrays

    _trace: StagingTrace

    def __init__(self, trace: StagingTrace, aval: ShapedArray, var: Var) -> None:
        self._trace = trace
        self.aval = aval
        self._var = var


class StagingTrace(Trace):
    """Trace that records each primitive as an equation. `stage` makes one for each program.

    Args:
      level: greater than the level of every enclosing trace.

    Attributes:
      bound: the names of the mapped axes in scope when it began.

    >>> _ = stage(lambda x: print(type(trace_state.trace).__name__) or [x], [aval_of(1.0)])
    StagingTrace
    """

    bound_axis_names: frozenset[AxisName] = frozenset()
    argument_vars: Sequence[Var] = ()  # variables of `arguments`, after tracing
    sharded_arguments: dict[Var, ShapedArray] | None = None  # arguments whose types have shardings
    sharding_analysis: object = None  # the shardings of variables, once one was read; see explicit_shardings.py

    def __init__(self, level: int) -> None:
        self.level = level
        self.eqns: list[Eqn] = []
        self.consts: dict[int, tuple[Value, Var]] = {}
        self.arguments: list[StagingTracer] = []
        outside = trace_state.trace
        # Nested programs share snapshots of host arrays (one copy of each) and `Source`s with the enclosing program.
        is_nested = type(outside) is StagingTrace
        self.snapshots: dict[tuple[int, np.dtype], tuple[np.ndarray, np.ndarray]] = (
            outside.snapshots if is_nested else {})  # type: ignore[attr-defined]
        self.sources: dict[int, Source] = outside.sources if is_nested else {}  # type: ignore[assignment]
        if trace_state.axes:
            self.bound_axis_names = frozenset([f.name for f in trace_state.axes if type(f.name) is not UnnamedAxis])
            self.set_handler(self._process_with_axes)

    def new_argument(self, aval: ShapedArray) -> StagingTracer:
        if type(aval) is not ShapedArray:
            if aval.is_reference:
                return aval.new_argument(self, Var(aval))  # type: ignore[attr-defined]
            if aval.sharding is not None:
                return self._new_sharded_argument(aval)
        return StagingTracer(self, aval, Var(aval))

    def _new_sharded_argument(self, aval: ShapedArray) -> StagingTracer:
        """Return an argument whose type has a sharding. The types of the program have none."""
        plain = aval.without_sharding()
        var = Var(plain)
        if self.sharded_arguments is None:
            self.sharded_arguments = {}
        self.sharded_arguments[var] = aval
        return StagingTracer(self, plain, var)

    @override
    def process(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        # The search for the source line starts at the caller of `bind` (depth 3), because each inspected frame costs as
        # much as the rest of an equation. A loop instead of comprehensions: before Python 3.12 a comprehension is a
        # function call, which for one or two operands costs as much as its work.
        invars, avals = [], []
        for a in args:
            var = a._var if type(a) is StagingTracer and a._trace is self else self.lift(a)
            invars.append(var)
            avals.append(var.aval)
        if prim.multiple:
            out_avals = prim.infer(*avals, **params)
            if prim.subprograms and (prim.region_signature.axis_binding or any(a.varying_axes for a in out_avals)):  # type: ignore[union-attr]
                params, out_avals = infer_equation_types(prim, avals, params, self.bound_axis_names, out_avals)
            outvars = [Var(a) for a in out_avals]
            self.eqns.append(Eqn(prim, invars, outvars, params, find_user_source(3, self.sources)))
            return tuple([StagingTracer(self, v.aval, v) for v in outvars])
        aval = prim.infer(*avals, **params)
        var = Var(aval)
        self.eqns.append(Eqn(prim, invars, (var,), params, find_user_source(3, self.sources)))
        return StagingTracer(self, aval, var)

    def _process_with_axes(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        """Do the work of `process` while mapped axes are bound: types then record the axes over which values vary."""
        invars, avals = [], []
        for a in args:
            var = a._var if type(a) is StagingTracer and a._trace is self else self.lift(a)
            invars.append(var)
            avals.append(var.aval)
        params, out_avals = infer_equation_types(prim, avals, params, self.bound_axis_names)
        outvars = tuple([Var(a) for a in out_avals]) if prim.multiple else (Var(out_avals),)
        self.eqns.append(Eqn(prim, invars, outvars, params, find_user_source(3, self.sources)))
        if prim.multiple:
            return tuple([StagingTracer(self, v.aval, v) for v in outvars])
        return StagingTracer(self, out_avals, outvars[0])

    def lift(self, x: Value) -> Var | Literal:
        """Return the program's atom for a value: its variable, a literal for a host scalar, or a constant variable."""
        if type(x) is StagingTracer and x._trace is self:
            return x._var
        kind = type(x)
        if kind in _NUMBERS:
            return Literal(x, aval_of(x))
        entry = self.consts.get(id(x))
        if entry is not None:
            return entry[1]
        if isinstance(x, Tracer):
            if not x._trace.alive:
                info = self.function_info
                raise leak_error(x, "a traced function" if info is None else f"{info[0]} of `{function_name(info[1])}`")
            aval = x.aval
        else:
            aval = aval_of(x)
            if not aval.shape and isinstance(x, (np.ndarray, np.generic)):
                return Literal(np.asarray(x, aval.dtype)[()], aval)
        var = Var(aval)
        self.consts[id(x)] = (x, var)  # the reference to x prevents reuse of its id
        return var

    def _snapshot(self, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Copy a host array to a read-only array of this dtype; return it unchanged if it is read-only already.

        The owner may write to the array later, and the program may be lowered long after tracing.
        """
        if not x.flags.writeable and x.base is None and x.dtype == dtype:
            return x
        entry = self.snapshots.get((id(x), dtype))
        if entry is None:
            with np.errstate(over="ignore"):
                copy = np.array(x, dtype)
            copy.flags.writeable = False
            entry = self.snapshots[id(x), dtype] = x, copy  # the reference to x prevents reuse of its id
        return entry[1]

    def to_jaxpr(self, arguments: Sequence[StagingTracer], outs: Sequence[Value]) -> ClosedJaxpr:
        """Return the recorded program from these arguments to these results."""
        outvars = [*map(self.lift, outs)]
        invars = self.argument_vars = [*map(_get_var, arguments)]
        if not self.consts:
            return ClosedJaxpr(Jaxpr([], invars, self.eqns, outvars), [])
        values = [self._snapshot(x, var.aval.dtype) if isinstance(x, np.ndarray) and not isinstance(x, HostArray) else x
                  for x, var in self.consts.values()]
        constvars = [var for _, var in self.consts.values()]
        return ClosedJaxpr(Jaxpr(constvars, invars, self.eqns, outvars), values)


def stage(fun: Callable[..., Sequence[Value]], in_avals: Sequence[ShapedArray],
          function_info: StagedFunctionInfo | None = None) -> tuple[ClosedJaxpr, list[Value]]:
    """Run a function on tracers of these types and return its program.

    Args:
      fun: takes one array per aval and returns a list of arrays.
      in_avals: the argument types.
      function_info: for errors: (call, the user's function, the tree of its arguments or None, positions of static
        arguments).
    Returns:
      The program, and the values of enclosing traces that it uses, which are its leading arguments. Concrete values
      that it closes over are its constants.
    Raises:
      RuntimeError: config no_tracing is set, and `function_info` names a user's function.

    >>> closed, outer = stage(lambda x: [x * x], [aval_of(1.0)])
    >>> print(closed, outer)
    { lambda ; a:f32[]. let b:f32[] = mul a a in (b,) } []
    """
    if function_info is not None and config.no_tracing.ever_enabled:
        check_tracing_allowed(function_info[0], function_info[1])
    before = trace_state.trace, trace_state.depth, trace_state.scope, trace_state.source
    source = before[3]
    trace = StagingTrace(before[1] + 1)
    # A program consists of very many small live objects and no garbage. With the cyclic garbage collector on, staging
    # 16,000 equations took 1.4 to 2.5 times as long, and grew more than linearly.
    gc_was_enabled = gc.isenabled()
    try:  # the outer `try` restores state if an interrupt (Ctrl-C) hits the inner `finally`
        try:
            if trace.level > stack_depth.USUAL_LEVELS:
                stack_depth.raise_limit(trace.level, trace)
            if _check_leaks.ever_enabled:
                for hook in on_trace_begin:
                    hook(trace)
            # The name stack starts empty: the program may be cached, and the equation that calls it adds the outer
            # names.
            trace_state.trace, trace_state.depth, trace_state.scope = trace, trace.level, ""
            # If a source line is set, this program is derived from another one. Equations without a line of their own
            # then take the line of the equation that calls the program.
            if type(source) is UserRuleSource:
                trace_state.source = UserRuleSource("", NOWHERE, source.stop)
            elif source is not None:
                trace_state.source = NOWHERE
            notify_staging_hooks()
            gc.disable()
            trace.function_info = function_info
            # No comprehension: Python 3.12 and 3.13 inline it, and an exception that a `sys.settrace` function raises
            # inside an inlined comprehension skips every `finally`.
            arguments = trace.arguments = list(map(trace.new_argument, in_avals))
            closed = trace.to_jaxpr(arguments, fun(*arguments))
            if _enable_checks.ever_enabled or _debug_key_reuse.ever_enabled:
                _check_staged(closed)
        finally:
            _end_staging(trace, before, gc_was_enabled)
    except BaseException:
        _end_staging(trace, before, gc_was_enabled)
        raise
    finally:
        drop_cached_caller(sys._getframe())
    return _pass_outer_values(closed) if closed.consts else (closed, [])


def are_lasting(outer: Sequence[Value]) -> bool:
    """Return whether a program that uses these values of enclosing traces is the same in each call.

    Mutable references that were made outside of all transformations are; a program reads and writes their values.

    >>> are_lasting([]), are_lasting([2.0])
    (True, False)
    """
    return not outer or all(isinstance(x, Tracer) and x.aval.is_reference and getattr(x, "is_lasting", False) for x in outer)


def _check_staged(closed: ClosedJaxpr) -> None:
    """Run the checks of a staged program that are turned on."""
    if _enable_checks.value:
        check(closed)
    if _debug_key_reuse.value:
        check_key_uses(closed)


def _pass_outer_values(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Value]]:
    """Make values of enclosing traces among the constants the leading arguments; return the program and these values.

    As operands they are handled by their traces; the other constants stay concrete values.
    """
    outer = [c for c in closed.consts if isinstance(c, Tracer)]
    if not outer:
        return closed, outer
    jaxpr = closed.jaxpr
    pairs = list(zip(closed.consts, jaxpr.constvars))
    lead = [v for c, v in pairs if isinstance(c, Tracer)]
    rest = [(c, v) for c, v in pairs if not isinstance(c, Tracer)]
    jaxpr = Jaxpr([v for _, v in rest], lead + jaxpr.invars, jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names,
                  jaxpr.effectful)
    return ClosedJaxpr(jaxpr, [c for c, _ in rest]), outer


def _end_staging(trace: StagingTrace, before: tuple[Trace, int, str, SourceState], gc_was_enabled: bool) -> None:
    """Restore the state that `stage` changed, and end the trace. May run twice."""
    trace_state.trace, trace_state.depth, trace_state.scope, trace_state.source = before
    trace.arguments = []  # arguments reference their trace; without this cycle it is freed at once
    if gc_was_enabled:
        gc.enable()
    notify_staging_hooks()
    if trace.level > stack_depth.USUAL_LEVELS:
        stack_depth.restore_limit(trace)
    trace.end()


set_staging_code(stage.__code__)


def eval_jaxpr(closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
    """Run a program by binding each equation with its source line, so that every active transformation handles it.

    Args:
      closed: the program.
      args: its arguments, as many as it takes.
    Returns:
      A list of results.

    >>> from lamina_ir import parse
    >>> eval_jaxpr(parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"), [np.float32(3)])
    [Array(6., dtype=float32)]
    """
    jaxpr = closed.jaxpr
    env: dict[Var, Value] = dict(zip(jaxpr.constvars, closed.consts))
    env.update(zip(jaxpr.invars, args))
    # outer_source: for equations without a line. base: name stack around all of them. part: of the derivative, for all
    # lines.
    outer_source, base = trace_state.source, trace_state.scope
    scope = base
    part = outer_source.part if type(outer_source) is UserRuleSource else ""
    try:
        for eqn in jaxpr.eqns:
            values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]
            source = eqn.source
            if source is None:
                trace_state.source = outer_source
                if scope != base:
                    trace_state.scope = scope = base
            else:
                if base:
                    source = source.in_scope(base)
                if part and not source.part:
                    source = source.replace(source.scope, part)
                trace_state.source = source
                if source.scope != scope:
                    trace_state.scope = scope = source.scope
            out = bind(eqn.primitive, *values, **eqn.params)
            if eqn.primitive.multiple:
                env.update(zip(eqn.outvars, out))
            else:
                env[eqn.outvars[0]] = out
    finally:
        trace_state.source, trace_state.scope = outer_source, base
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Value]]:
    """Return a program as a Python function.

    Args:
      closed: the program.
    Returns:
      A function that takes the program's arguments one by one and returns a list of results.

    >>> from lamina_ir import parse
    >>> jaxpr_as_fun(parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"))(np.float32(3))
    [Array(6., dtype=float32)]
    """
    return lambda *args: eval_jaxpr(closed, args)


