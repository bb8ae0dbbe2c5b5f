"""Staging: running a function on `StagingTracer`s writes down the program it computes."""
from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
from lamina_ir import avals as _avals
from lamina_ir import config
from lamina_ir.errors import LeakedTracerError
from lamina_ir.avals import ShapedArray
from lamina_ir.primitive import Primitive
from lamina_ir.program import ClosedJaxpr, Eqn, Jaxpr, Literal, Source, Var

from .trace import Trace, Tracer, bind, leak_error, now, tell_staging

__all__ = ["StagingTrace", "StagingTracer", "eval_jaxpr", "hide_frames_of", "is_own_file", "jaxpr_as_fun", "stage",
           "user_source"]

_check_leaks = config.check_tracer_leaks
_NUMBERS = frozenset((bool, int, float, complex))
_own_folders: list[str] = []
_is_own: dict[str, bool] = {}


def hide_frames_of(folder: str) -> None:
    """Count files under `folder` as ours: equations point at the nearest frame outside."""
    _own_folders.append(folder)
    _is_own.clear()


for _module in (__file__, _avals.__file__):
    hide_frames_of(_module.rsplit("/", 1)[0] + "/")


def is_own_file(name: str) -> bool:
    """Whether a file is ours, so that its frames are hidden."""
    own = _is_own.get(name)
    if own is None:
        own = _is_own[name] = name.startswith(tuple(_own_folders))
    return own


def user_source(depth: int = 1) -> Source | None:
    """The nearest caller outside the folders named with `hide_frames_of`."""
    frame = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        own = _is_own.get(name)
        if own is None:
            own = _is_own[name] = name.startswith(tuple(_own_folders))
        if not own:
            return Source(code, frame.f_lasti, now.scope)
        frame = frame.f_back  # type: ignore[assignment]
    return None


class StagingTracer(Tracer):
    """A variable of the program being written."""

    __slots__ = ("_var",)  # not `var`: that is a method of arrays

    def __init__(self, trace: Trace, aval: ShapedArray, var: Var) -> None:
        self._trace = trace
        self.aval = aval
        self._var = var


class StagingTrace(Trace):
    """Writes each op it is given as an equation."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.eqns: list[Eqn] = []
        self.consts: dict[int, tuple[Any, Var]] = {}
        self.process = self._write

    def argument(self, aval: ShapedArray) -> StagingTracer:
        return StagingTracer(self, aval, Var(aval))

    def _write(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        invars = [a._var if type(a) is StagingTracer and a._trace is self else self.lift(a) for a in args]
        if prim.multiple:
            out_avals = prim.infer(*[v.aval for v in invars], **params)
            outvars = [Var(a) for a in out_avals]
            self.eqns.append(Eqn(prim, invars, outvars, params, user_source(2)))
            return tuple([StagingTracer(self, v.aval, v) for v in outvars])
        aval = prim.infer(*[v.aval for v in invars], **params)
        var = Var(aval)
        self.eqns.append(Eqn(prim, invars, (var,), params, user_source(2)))
        return StagingTracer(self, aval, var)

    def lift(self, x: Any) -> Var | Literal:
        """The program's name for a value from outside: a literal for host scalars, else a constant."""
        if type(x) is StagingTracer and x._trace is self:
            return x._var
        kind = type(x)
        if kind in _NUMBERS:
            return Literal(x, _avals.aval_of(x))
        known = self.consts.get(id(x))
        if known is not None:
            return known[1]
        if isinstance(x, Tracer):
            if not x._trace.alive:
                raise leak_error(x, "a traced function")
            aval = x.aval
        else:
            aval = _avals.aval_of(x)
            if not aval.shape and isinstance(x, (np.ndarray, np.generic)):
                return Literal(np.asarray(x, aval.dtype)[()], aval)
        var = Var(aval)
        self.consts[id(x)] = (x, var)  # holding x keeps its id from being used again
        return var

    def finish(self, arguments: Sequence[StagingTracer], outs: Sequence[Any]) -> ClosedJaxpr:
        """The written program, from these arguments to these results."""
        outvars = [self.lift(o) for o in outs]
        values = [value for value, _ in self.consts.values()]
        constvars = [var for _, var in self.consts.values()]
        return ClosedJaxpr(Jaxpr(constvars, [a._var for a in arguments], self.eqns, outvars), values)


def stage(fun: Callable[..., Sequence[Any]], in_avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list[Any]]:
    """Run `fun` on arguments of these types and write down its program.

    Args:
      fun: takes one array per aval and returns a list of arrays.
      in_avals: the argument types.
    Returns:
      The program, and the values of enclosing traces it uses: they are its leading arguments. Concrete values it
      closes over are its constants.
    """
    if not _check_leaks.value:
        return _stage(fun, in_avals)
    made: list[Any] = []
    staged = _stage(fun, in_avals, made)
    _refuse_leaks(made[0])
    return staged


def _refuse_leaks(trace: Any) -> None:
    """LeakedTracerError when something still holds a value of an ended trace: `trace` is a weak reference to it."""
    gc.collect()
    alive = trace()
    if alive is None:
        return
    texts = []
    for x in gc.get_referrers(alive):
        if isinstance(x, Tracer) and len(texts) < 3:
            holders = {type(h).__name__ for h in gc.get_referrers(x) if not isinstance(h, FrameType)}
            texts.append(f"{x.aval.long()} (held by {', '.join(sorted(holders)) or 'nothing the collector knows'})")
    if texts:
        raise LeakedTracerError(f"checking_leaks: traced values outlive the function they were made in: {'; '.join(texts)}. "
                                "They were kept in a global, an attribute or a closure; return them instead")


def _stage(fun: Callable[..., Sequence[Any]], in_avals: Sequence[ShapedArray],
           made: list[Any] | None = None) -> tuple[ClosedJaxpr, list[Any]]:
    old_trace, old_depth = now.trace, now.depth
    trace = StagingTrace(old_depth + 1)
    if made is not None:
        made.append(weakref.ref(trace))
    now.trace, now.depth = trace, trace.level
    tell_staging()
    # A program is millions of small live objects, and no garbage: with the cyclic collector on, staging 16,000
    # equations took 1.4 to 2.5 times as long, and more than linearly.
    collecting = gc.isenabled()
    gc.disable()
    try:
        arguments = [trace.argument(a) for a in in_avals]
        closed = trace.finish(arguments, fun(*arguments))
    finally:
        if collecting:
            gc.enable()
        now.trace, now.depth = old_trace, old_depth
        tell_staging()
        trace.end()
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


def eval_jaxpr(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program by binding each equation, so that every transformation in force sees it."""
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts))
    env.update(zip(jaxpr.invars, args))
    for eqn in jaxpr.eqns:
        values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]  # type: ignore[index]
        out = bind(eqn.primitive, *values, **eqn.params)
        if eqn.primitive.multiple:
            env.update(zip(eqn.outvars, out))
        else:
            env[eqn.outvars[0]] = out
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]  # type: ignore[index]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a Python function of its arguments."""
    return lambda *args: eval_jaxpr(closed, args)


