"""Calls of functions with rules of their own: how a call finds the transformation that wants the rule.

A `CustomCall` is a function on flat arrays that a transformation may treat as a whole. `call_custom` hands it to the deepest
trace among its arguments, as `bind` does with an op; while nothing minds the rules it simply runs. Under a staging
trace it becomes one equation, whose rules are staged when first asked for.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Jaxpr, Primitive, ShapedArray, Var, config, trees

from . import slots
from .parameters import function_name
from .array import HostArray
from .lines import rule_lines
from .stage import stage
from .trace import EVALUATION, AxisFrame, Trace, bind, now, staged_for
from .tracer import Tracer, typeof

__all__ = ["CustomCall", "Positional", "arrays_of", "call_custom", "deepest", "holds_tracers", "in_scope", "lead_with",
           "stage_onto"]


def deepest(args: Sequence[Any]) -> Trace:
    """The trace that handles an op on these arguments.

    Args:
      args: arrays, traced values, numbers.
    Returns:
      The trace of the highest level among them; where none is traced, the one in force.

    >>> deepest([1.0, np.ones(2)]) is EVALUATION
    True
    """
    trace = now.trace
    for a in args:
        if isinstance(a, Tracer) and a._trace.level > trace.level:
            trace = a._trace
    return trace


class CustomCall:
    """One call of a function with rules. A subclass gives `run` and `staged`, and the hooks it has rules for.

    - `run(*flat)`: the function itself.
    - `staged(avals)`: `(primitive, values closed over, params)`, the call as an equation.
    - `push(trace, args)`: under a differentiating trace; `batch(trace, args, minded)`: under a batching one.

    What it has no hook for happens to its equation.

    >>> from lamina_ir import prims
    >>> class Doubled(CustomCall):
    ...     def run(self, x):
    ...         return [bind(prims.add_p, x, x)]
    >>> call_custom(Doubled(), [np.float32(3)])
    [Array(6., dtype=float32)]
    """

    def run(self, *flat: Any) -> list[Any]:
        """The function itself, on flat arguments."""
        raise NotImplementedError

    def staged(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Any], dict[str, Any]]:
        """(primitive, values closed over, params): the call as an equation on those values and then the arguments."""
        raise NotImplementedError

    def push(self, trace: Any, args: Sequence[Any]) -> list[Any]:
        """Under a differentiating trace."""
        return self.bind(args)

    def batch(self, trace: Any, args: Sequence[Any], minded: bool) -> list[Any]:
        """Under a batching trace; `minded`: whether a transformation further out wants the rules."""
        return self.bind(args) if minded else self.run(*args)

    def bind(self, args: Sequence[Any]) -> list[Any]:
        """As one equation, through whatever transformations the arguments are in."""
        with staged_for(args):
            prim, outer, params = self.staged([typeof(a) for a in args])
        return list(bind(prim, *outer, *args, **params))


_NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)


def arrays_of(tree: Any) -> Any:
    """A function's result with arrays for Python's and NumPy's numbers, where it ran on known values.

    Args:
      tree: the result.
    Returns:
      A tree of the same structure; `tree` itself while a program is staged.

    >>> arrays_of((1, 2.0))
    (Array(1, dtype=int32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    def array(x: Any) -> Any:
        if not isinstance(x, _NUMBERS) or isinstance(x, HostArray):
            return x
        aval = typeof(x)
        return slots.evaluator.array(np.asarray(x, aval.dtype), aval)

    return trees.tree_map(array, tree) if now.trace is EVALUATION else tree


def call_custom(call: CustomCall, args: Sequence[Any]) -> list[Any]:
    """Call a function that has rules, in the deepest transformation among its arguments.

    Args:
      call: this call of it.
      args: flat arguments: arrays, traced values, numbers.
    Returns:
      A list of results.

    >>> from lamina_ir import prims
    >>> class Doubled(CustomCall):
    ...     def run(self, x):
    ...         return [bind(prims.add_p, x, x)]
    >>> call_custom(Doubled(), [np.float32(3)])
    [Array(6., dtype=float32)]
    """
    return deepest(args).custom(call, args)


def in_scope() -> Callable[[Callable[[], Any]], Any]:
    """Settings and mapped axes as they are now, for a rule that is staged later.

    Returns:
      A function `scope(make)`, which gives what `make()` gives in them.

    >>> from lamina_ir import dtypes
    >>> with config.enable_x64():
    ...     scope = in_scope()
    >>> scope(lambda: typeof(1.0).dtype)
    dtype('float64')
    """
    axes = tuple(AxisFrame(f.name, f.size) for f in now.axes)
    settings = config.cache_key()

    def scope(make: Callable[[], Any]) -> Any:
        with config.restored(settings):
            old, source = now.axes, now.source
            try:
                now.axes, now.source = axes, rule_lines()
                return make()
            finally:
                now.axes, now.source = old, source

    return scope


def stage_onto(outer: list[Any], fun: Callable[..., Sequence[Any]],
               avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list[int]]:
    """Stage a function; values of enclosing traces it uses are added to a list that several programs share.

    Args:
      outer: the list.
      fun: takes one array per aval and returns a list of arrays.
      avals: the argument types.
    Returns:
      The program, whose leading arguments are those values, and where in `outer` they are.

    >>> outer = []
    >>> closed, places = stage_onto(outer, lambda x: [x + x], [typeof(1.0)])
    >>> print(closed, places)
    { lambda ; a:f32[]. let b:f32[] = add a a in (b,) } []
    """
    closed, found = stage(fun, avals)
    # One list for all programs of a call, each value once: they are to take the same operands.
    places = []
    for x in found:
        at = next((i for i, y in enumerate(outer) if y is x), None)
        if at is None:
            at = len(outer)
            outer.append(x)
        places.append(at)
    return closed, places


def lead_with(closed: ClosedJaxpr, places: Sequence[int], outer: Sequence[Any]) -> ClosedJaxpr:
    """A program of `stage_onto`, taking all outer values as its leading arguments.

    Args:
      closed: the program.
      places: which of the outer values it takes, as `stage_onto` said.
      outer: all of them.
    Returns:
      A program that takes them all, and then its own arguments.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    >>> len(lead_with(closed, [1], [np.ones(2), np.float32(3)]).in_avals)
    2
    """
    if len(places) == len(outer) and list(places) == list(range(len(outer))):
        return closed
    jaxpr, n = closed.jaxpr, len(places)
    lead = [Var(typeof(x)) for x in outer]
    for at, v in zip(places, jaxpr.invars):
        lead[at] = v
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, lead + jaxpr.invars[n:], jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names,
                             jaxpr.effectful), closed.consts)


def holds_tracers(*values: Any, depth: int = 3) -> bool:
    """Whether functions close over traced values, as far as their closures, partials and trees show it.

    Args:
      *values: functions, or anything.
      depth: how many functions within functions to look into.
    Returns:
      A truth value. A global that is traced is not seen.

    >>> holds_tracers(lambda x: x)
    False
    >>> _ = stage(lambda x: print(holds_tracers(lambda: x)) or [x], [typeof(1.0)])
    True
    """
    for x in values:
        if isinstance(x, Tracer):
            return True
        if depth and x is not None and not isinstance(x, (int, float, str)):
            found: list[Any] = []
            for cell in getattr(x, "__closure__", None) or ():
                try:
                    found.append(cell.cell_contents)
                except ValueError:  # not bound yet
                    pass
            if hasattr(x, "func") and hasattr(x, "args"):  # functools.partial
                found += [x.func, *x.args, *x.keywords.values()]
            if isinstance(x, (tuple, list, dict)):
                found += trees.tree_leaves(x)
            if found and holds_tracers(*found, depth=depth - 1):
                return True
    return False


class Positional:
    """Arguments by position: `resolve(args, kwargs)` puts keywords where they belong and fills in defaults.

    Args:
      call: what is being done with the function, for the message.
      fun: the function.

    `resolve` raises TypeError where the arguments do not fit, or one can only be given by keyword.

    >>> Positional("custom_vjp", lambda x, y=2: None).resolve((), {"x": 1})
    (1, 2)
    """

    def __init__(self, call: str, fun: Callable[..., Any]) -> None:
        self.call, self.fun = call, fun
        self._signature: Any = None
        self._plain: bool | None = None

    def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """TypeError when the arguments do not fit, or one can only be given by keyword."""
        if self._plain is None:
            try:
                self._signature = signature(self.fun)
            except (TypeError, ValueError):
                self._signature = None
            self._plain = self._signature is None or all(
                p.default is p.empty for p in self._signature.parameters.values())
        if not kwargs and self._plain:
            return args
        name = function_name(self.fun)
        if self._signature is None:
            raise TypeError(f"{self.call} of `{name}`: keyword arguments {sorted(kwargs)} have no known position, because "
                            "the function shows no signature; pass them by position")
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{self.call} of `{name}`: {e}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"{self.call} of `{name}`: argument `{next(iter(bound.kwargs))}` can only be given by keyword, but "
                            "rules take all arguments by position; make it positional or bind it with functools.partial")
        return bound.args
