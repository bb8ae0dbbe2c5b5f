"""Staging: running a function on `StagingTracer`s writes down the program it computes."""
from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, Primitive, ShapedArray, Source, UnnamedAxis, Var, aval_of, check,
                       config)
from lamina_ir.extend import check_key_uses, stack_depth, typed_equation

from .array import HostArray
from .lines import NOWHERE, Within, forget_caller, staged_by, user_source
from .origins import check_may_trace
from .trace import Trace, bind, leak_error, now, on_begin, tell_staging
from .tracer import Tracer

__all__ = ["StagingTrace", "StagingTracer", "eval_jaxpr", "jaxpr_as_fun", "stage"]

_NUMBERS = frozenset((bool, int, float, complex))
# What is staged, for errors: (call, function, tree of its arguments or None, static positions); see origins.py.
About = tuple[str, Callable[..., Any], Any, Collection[int]]

class StagingTracer(Tracer):
    """A variable of the program being written.

    Args:
      trace: what writes the program.
      aval: the variable's type.
      var: the variable.

    >>> _ = stage(lambda x: print(type(x).__name__, x.aval) or [x], [ShapedArray((2,), np.dtype("float32"))])
    StagingTracer float32[2]
    """

    __slots__ = ("_var",)  # not `var`: that is a method of arrays

    _trace: StagingTrace

    def __init__(self, trace: StagingTrace, aval: ShapedArray, var: Var) -> None:
        self._trace = trace
        self.aval = aval
        self._var = var


class StagingTrace(Trace):
    """Writes each op it is given as an equation. `stage` makes one for each program.

    Args:
      level: larger than the level of every trace it runs inside of.

    Attributes:
      bound: the names of the mapped axes in scope when it began.

    >>> _ = stage(lambda x: print(type(now.trace).__name__) or [x], [aval_of(1.0)])
    StagingTrace
    """

    bound: frozenset[Any] = frozenset()

    def __init__(self, level: int) -> None:
        self.level = level
        self.eqns: list[Eqn] = []
        self.consts: dict[int, tuple[Any, Var]] = {}
        self.arguments: list[StagingTracer] = []
        self.about: About | None = None
        outside = now.trace
        # Programs inside this one take their snapshots of host arrays together with it, one copy of each, and share lines.
        inside = type(outside) is StagingTrace
        self.snapshots: dict[Any, tuple[Any, Any]] = outside.snapshots if inside else {}  # type: ignore[attr-defined]
        self.sources: dict[int, Source] = outside.sources if inside else {}  # type: ignore[assignment]
        if now.axes:
            self.bound = frozenset([f.name for f in now.axes if type(f.name) is not UnnamedAxis])
            self.hand_to(self._among_axes)

    def argument(self, aval: ShapedArray) -> StagingTracer:
        return StagingTracer(self, aval, Var(aval))

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        # Each frame that is looked at costs as much as the rest of an equation, so the look for lines begins behind `bind`.
        # One loop: before Python 3.12 a comprehension is a call, as dear as what it does for one operand or two.
        invars, avals = [], []
        for a in args:
            var = a._var if type(a) is StagingTracer and a._trace is self else self.lift(a)
            invars.append(var)
            avals.append(var.aval)
        if prim.multiple:
            out_avals = prim.infer(*avals, **params)
            if prim.subprograms and (prim.flow.binds or any(a.over for a in out_avals)):  # type: ignore[union-attr]
                params, out_avals = typed_equation(prim, avals, params, self.bound, out_avals)
            outvars = [Var(a) for a in out_avals]
            self.eqns.append(Eqn(prim, invars, outvars, params, user_source(3, self.sources)))
            return tuple([StagingTracer(self, v.aval, v) for v in outvars])
        aval = prim.infer(*avals, **params)
        var = Var(aval)
        self.eqns.append(Eqn(prim, invars, (var,), params, user_source(3, self.sources)))
        return StagingTracer(self, aval, var)

    def _among_axes(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """`process` while mapped axes are bound: types say over which of them values differ."""
        invars, avals = [], []
        for a in args:
            var = a._var if type(a) is StagingTracer and a._trace is self else self.lift(a)
            invars.append(var)
            avals.append(var.aval)
        params, found = typed_equation(prim, avals, params, self.bound)
        outvars = tuple([Var(a) for a in found]) if prim.multiple else (Var(found),)
        self.eqns.append(Eqn(prim, invars, outvars, params, user_source(3, self.sources)))
        if prim.multiple:
            return tuple([StagingTracer(self, v.aval, v) for v in outvars])
        return StagingTracer(self, found, outvars[0])

    def lift(self, x: Any) -> Var | Literal:
        """The program's name for a value from outside: a literal for host scalars, else a constant."""
        if type(x) is StagingTracer and x._trace is self:
            return x._var
        kind = type(x)
        if kind in _NUMBERS:
            return Literal(x, aval_of(x))
        known = self.consts.get(id(x))
        if known is not None:
            return known[1]
        if isinstance(x, Tracer):
            if not x._trace.alive:
                raise leak_error(x, "a traced function")
            aval = x.aval
        else:
            aval = aval_of(x)
            if not aval.shape and isinstance(x, (np.ndarray, np.generic)):
                return Literal(np.asarray(x, aval.dtype)[()], aval)
        var = Var(aval)
        self.consts[id(x)] = (x, var)  # holding x keeps its id from being used again
        return var

    def _snapshot(self, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """A host array as it is now, in the dtype it has in programs: its owner may write to it, and the program may be lowered
        long after."""
        if not x.flags.writeable and x.base is None and x.dtype == dtype:
            return x
        known = self.snapshots.get((id(x), dtype))
        if known is None:
            with np.errstate(over="ignore"):
                copy = np.array(x, dtype)
            copy.flags.writeable = False
            known = self.snapshots[id(x), dtype] = x, copy  # holding x keeps its id from being used again
        return known[1]

    def finish(self, arguments: Sequence[StagingTracer], outs: Sequence[Any]) -> ClosedJaxpr:
        """The written program, from these arguments to these results."""
        outvars = [self.lift(o) for o in outs]
        values = [self._snapshot(x, var.aval.dtype) if isinstance(x, np.ndarray) and not isinstance(x, HostArray) else x
                  for x, var in self.consts.values()]
        constvars = [var for _, var in self.consts.values()]
        return ClosedJaxpr(Jaxpr(constvars, [a._var for a in arguments], self.eqns, outvars), values)


def stage(fun: Callable[..., Sequence[Any]], in_avals: Sequence[ShapedArray],
          about: About | None = None) -> tuple[ClosedJaxpr, list[Any]]:
    """Run a function on arguments of these types and write down its program.

    Args:
      fun: takes one array per aval and returns a list of arrays.
      in_avals: the argument types.
      about: in whose name, for errors about what is traced: (call, the user's function, the tree of its arguments or None,
        positions of static ones).
    Returns:
      The program, and the values of enclosing traces it uses: they are its leading arguments. Concrete values it
      closes over are its constants.
    Raises:
      RuntimeError: config no_tracing is set, and `about` names a function of the user's.

    >>> closed, outer = stage(lambda x: [x * x], [aval_of(1.0)])
    >>> print(closed, outer)
    { lambda ; a:f32[]. let b:f32[] = mul a a in (b,) } []
    """
    if about is not None and config.no_tracing.ever:
        check_may_trace(about[0], about[1])
    before = now.trace, now.depth, now.scope, now.source
    source = before[3]
    trace = StagingTrace(before[1] + 1)
    # A program is millions of small live objects, and no garbage: with the cyclic collector on, staging 16,000
    # equations took 1.4 to 2.5 times as long, and more than linearly.
    collecting = gc.isenabled()
    try:  # an interrupt may strike anywhere, in the inner `finally` too
        try:
            if trace.level > stack_depth.ENOUGH:
                stack_depth.enter(trace.level, trace)
            for tell in on_begin:
                tell(trace)
            # Names in a program are its own: it may be kept, and the names around it come with the equation that calls it.
            now.trace, now.depth, now.scope = trace, trace.level, ""
            # Where a line is in force this is a program derived from another, and what its equations do not bring along
            # themselves belongs to whoever calls it.
            if type(source) is Within:
                now.source = Within("", NOWHERE, source.stop)
            elif source is not None:
                now.source = NOWHERE
            tell_staging()
            gc.disable()
            trace.about = about
            # no comprehension: inlined (Python 3.12, 3.13), what a trace function raises inside it passes by every `finally`
            arguments = trace.arguments = list(map(trace.argument, in_avals))
            closed = trace.finish(arguments, fun(*arguments))
            if config.enable_checks.value:
                check(closed)
            if config.debug_key_reuse.value:
                check_key_uses(closed)
        finally:
            _unstage(trace, before, collecting)
    except BaseException:
        _unstage(trace, before, collecting)
        raise
    finally:
        forget_caller(sys._getframe())
    # As operands, values of enclosing traces are seen by those traces; constants of a program are values for good.
    outer = [c for c in closed.consts if isinstance(c, Tracer)]
    if not outer:
        return closed, outer
    jaxpr = closed.jaxpr
    pairs = list(zip(closed.consts, jaxpr.constvars))
    lead = [v for c, v in pairs if isinstance(c, Tracer)]
    rest = [(c, v) for c, v in pairs if not isinstance(c, Tracer)]
    opened = Jaxpr([v for _, v in rest], lead + jaxpr.invars, jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names,
                   jaxpr.effectful)
    return ClosedJaxpr(opened, [c for c, _ in rest]), outer


def _unstage(trace: StagingTrace, before: tuple[Any, ...], collecting: bool) -> None:
    """End what `stage` began; once more does no harm."""
    now.trace, now.depth, now.scope, now.source = before
    trace.arguments, trace.about = [], None  # the arguments refer to their trace: without the circle it goes at once
    if collecting:
        gc.enable()
    tell_staging()
    if trace.level > stack_depth.ENOUGH:
        stack_depth.leave(trace)
    trace.end()


staged_by(stage.__code__)


def eval_jaxpr(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program by binding each equation, so that every transformation in force sees it, with its line in force.

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
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts))
    env.update(zip(jaxpr.invars, args))
    # within: in force for equations without a line; base: the names around all of them; part: what all their lines are.
    within, base = now.source, now.scope
    scope = base
    part = within.part if type(within) is Within else ""
    try:
        for eqn in jaxpr.eqns:
            values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]  # type: ignore[index]
            source = eqn.source
            if source is None:
                now.source = within
                if scope != base:
                    now.scope = scope = base
            else:
                if base:
                    source = source.inside(base)
                if part and not source.part:
                    source = source.like(source.scope, part)
                now.source = source
                if source.scope != scope:
                    now.scope = scope = source.scope
            out = bind(eqn.primitive, *values, **eqn.params)
            if eqn.primitive.multiple:
                env.update(zip(eqn.outvars, out))
            else:
                env[eqn.outvars[0]] = out
    finally:
        now.source, now.scope = within, base
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]  # type: ignore[index]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a Python function of its arguments.

    Args:
      closed: the program.
    Returns:
      A function that takes its arguments one by one and gives a list of results.

    >>> from lamina_ir import parse
    >>> jaxpr_as_fun(parse("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"))(np.float32(3))
    [Array(6., dtype=float32)]
    """
    return lambda *args: eval_jaxpr(closed, args)


