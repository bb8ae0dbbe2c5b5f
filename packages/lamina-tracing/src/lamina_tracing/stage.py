"""Staging: running a function on `StagingTracer`s writes down the program it computes."""
from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
from lamina_ir import avals as _avals
from lamina_ir.avals import ShapedArray
from lamina_ir.extend import room
from lamina_ir.primitive import Primitive
from lamina_ir.program import ClosedJaxpr, Eqn, Jaxpr, Literal, Source, Var, subprograms

from .trace import Trace, Tracer, bind, leak_error, now, on_begin, scoped, tell_staging

__all__ = ["StagingTrace", "StagingTracer", "eval_jaxpr", "forget_source", "hide_frames_of", "is_own_file", "jaxpr_as_fun",
           "stage", "user_source", "warn_user"]

_NUMBERS = frozenset((bool, int, float, complex))
_own_folders: list[str] = []
_is_own: dict[str, bool] = {}
_callers: dict[int, tuple[Any, ...]] = {}  # id of the frame of a running `stage` -> what `_caller_of` found


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
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        own = _is_own.get(name)
        if own is None:
            own = _is_own[name] = name.startswith(tuple(_own_folders))
        if not own:
            return Source(code, frame.f_lasti, now.scope)
        if code is _STAGE:
            caller = _caller_of(frame)
            return Source(caller[0], caller[1], now.scope) if caller else None
        frame = frame.f_back
    return None


def _caller_of(frame: FrameType | None) -> tuple[Any, ...]:
    """`(code, lasti)` of the nearest outside caller of a running `stage`, empty where there is none.

    It stays the same while that call runs, so it is kept: with 500 programs nested in one another, each of their
    equations would look through the frames of all of them.
    """
    passed, caller = [], ()
    while frame is not None:
        code = frame.f_code
        if not is_own_file(code.co_filename):
            caller = code, frame.f_lasti
            break
        if code is _STAGE:
            known = _callers.get(id(frame))
            if known is not None:
                caller = known
                break
            passed.append(id(frame))
        frame = frame.f_back
    _callers.update(dict.fromkeys(passed, caller))
    return caller


def forget_source(closed: ClosedJaxpr, source: Source | None) -> None:
    """Take this line out of a program's equations: it is that of the caller the program was staged for."""
    if source is None:
        return
    for eqn in closed.jaxpr.eqns:
        own = eqn.source
        if own is not None and own.code is source.code and own.lasti == source.lasti:
            eqn.source = None
        if eqn.primitive.subprograms:
            for inner in subprograms(eqn):
                forget_source(inner, source)


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning that shows the nearest caller's line outside of our folders."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and is_own_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


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
    old_trace, old_depth, scope = now.trace, now.depth, now.scope
    trace = StagingTrace(old_depth + 1)
    deep = trace.level > room.ENOUGH
    if deep:
        room.enter(trace.level)
    for tell in on_begin:
        tell(trace)
    # Names in a program are its own: it may be kept, and the names around it come with the equation that calls it.
    now.trace, now.depth, now.scope = trace, trace.level, ""
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
        now.trace, now.depth, now.scope = old_trace, old_depth, scope
        _callers.pop(id(sys._getframe()), None)
        tell_staging()
        if deep:
            room.leave()
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


_STAGE = stage.__code__


def eval_jaxpr(closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """Run a program by binding each equation, so that every transformation in force sees it."""
    jaxpr = closed.jaxpr
    env: dict[Var, Any] = dict(zip(jaxpr.constvars, closed.consts))
    env.update(zip(jaxpr.invars, args))
    for eqn in jaxpr.eqns:
        values = [v.val if type(v) is Literal else env[v] for v in eqn.invars]  # type: ignore[index]
        source = eqn.source
        if source is None or not source.scope:
            out = bind(eqn.primitive, *values, **eqn.params)
        else:
            with scoped(source.scope):
                out = bind(eqn.primitive, *values, **eqn.params)
        if eqn.primitive.multiple:
            env.update(zip(eqn.outvars, out))
        else:
            env[eqn.outvars[0]] = out
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]  # type: ignore[index]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The program as a Python function of its arguments."""
    return lambda *args: eval_jaxpr(closed, args)


