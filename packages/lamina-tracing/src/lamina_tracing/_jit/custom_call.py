"""Calls of functions with custom rules, and their dispatch to transformations.

A `CustomCall` is a function on flat arrays that a transformation may handle as one unit. `call_custom` passes it to the
top-level trace among its arguments, as `bind` does with a primitive. If no transformation uses the rules, the function
simply runs. A staging trace records one equation, whose rules are staged on first use.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Signature, signature
from typing import Any, TypeVar

import numpy as np
from lamina_ir import ClosedJaxpr, Jaxpr, Primitive, ShapedArray, Var, config, dtypes, trees
from lamina_ir.typing import Function, Params, Tree, Value

from . import hooks
from .._core.explicit_shardings import add_shardings
from .._core.signature import function_name
from .._core.array import HostArray
from .._core.source_lines import make_rule_source
from .._core.staging import stage
from .._core.trace import EVALUATION, AxisFrame, Trace, bind, trace_state, staging_context
from .._core.tracer import Tracer, typeof
from .._typing import AnyTrace

__all__ = ["CustomCall", "PositionalSignature", "call_custom", "capture_scope", "closes_over_tracers",
           "find_top_trace", "prepend_outer_values", "results_to_arrays", "stage_sharing_outer"]

T = TypeVar("T")


def find_top_trace(args: Sequence[Value]) -> Trace:
    """Find the trace that handles a primitive with these operands.

    Args:
      args: arrays, traced values, numbers.
    Returns:
      The trace of the highest level among the arguments and the thread's current trace.

    >>> find_top_trace([1.0, np.ones(2)]) is EVALUATION
    True
    """
    trace = trace_state.trace
    for a in args:
        if isinstance(a, Tracer) and a._trace.level > trace.level:
            trace = a._trace
    return trace


class CustomCall:
    """One call of a function with custom rules. A subclass defines `run`, `staged`, and a hook for each rule it has.

    - `run(*flat)`: run the function itself.
    - `staged(avals)`: return `(primitive, closed-over values, params)`, the call as an equation.
    - `push(trace, args)`: handle a differentiating trace.
    - `batch(trace, args, minded)`: handle a batching trace.

    Without a hook, the transformation is applied to the equation.

    >>> from lamina_ir import prims
    >>> class Doubled(CustomCall):
    ...     def run(self, x):
    ...         return [bind(prims.add_p, x, x)]
    >>> call_custom(Doubled(), [np.float32(3)])
    [Array(6., dtype=float32)]
    """

    def run(self, *flat: Value) -> list[Value]:
        """Run the function itself on flat arguments."""
        raise NotImplementedError

    def as_equation(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Value], Params]:
        """Return the call as an equation: (primitive, closed-over values, params). Those values lead the operands."""
        raise NotImplementedError

    def push(self, trace: AnyTrace, args: Sequence[Value]) -> list[Value]:
        """Handle the call under a differentiating trace."""
        return self.bind(args)

    def batch(self, trace: AnyTrace, args: Sequence[Value], rules_needed: bool) -> list[Value]:
        """Handle the call under a batching trace; `minded`: an outer transformation uses the rules."""
        return self.bind(args) if rules_needed else self.run(*args)

    def bind(self, args: Sequence[Value]) -> list[Value]:
        """Bind the call as one equation, so that every transformation of the arguments handles it."""
        with staging_context(args):
            prim, outer, params = self.as_equation(add_shardings([typeof(a) for a in args], args))
        return list(bind(prim, *outer, *args, **params))


_NUMBERS = (bool, int, float, complex, np.ndarray, np.generic)


def results_to_arrays(tree: Tree) -> Tree:
    """Convert Python and NumPy numbers in a function's result to arrays, if the function ran eagerly.

    Args:
      tree: the result.
    Returns:
      A tree of the same structure; `tree` itself while a program is staged.

    >>> results_to_arrays((1, 2.0))
    (Array(1, dtype=int32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    def array(x: Value) -> Value:
        if not isinstance(x, _NUMBERS) or isinstance(x, HostArray):
            return x
        aval = typeof(x)
        return x if aval.dtype == dtypes.float0 else hooks.evaluator.array(np.asarray(x, aval.dtype), aval)

    return trees.tree_map(array, tree) if trace_state.trace is EVALUATION else tree


def call_custom(call: CustomCall, args: Sequence[Value]) -> list[Value]:
    """Dispatch a call of a function with custom rules to the top trace among its arguments.

    Args:
      call: the call.
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
    return find_top_trace(args).process_custom_call(call, args)


def capture_scope() -> Callable[[Callable[[], T]], T]:
    """Capture the current settings and mapped axes, for a rule that is staged later.

    Returns:
      A function `scope(make)`, which returns `make()` evaluated under them.

    >>> from lamina_ir import dtypes
    >>> with config.enable_x64():
    ...     scope = capture_scope()
    >>> scope(lambda: typeof(1.0).dtype)
    dtype('float64')
    """
    # Without the traces that map the axes: they may have ended when the rule is staged. Collectives then bind to the
    # program of the rule.
    axes = tuple(AxisFrame(f.name, f.size) for f in trace_state.axes)
    settings = config.cache_key()

    def scope(make: Callable[[], T]) -> T:
        with config.restoring_settings(settings):
            old, source = trace_state.axes, trace_state.source
            try:
                # The rule must see the axes of the call, not those at its first use, which may be outside of the map.
                trace_state.axes, trace_state.source = axes, make_rule_source()
                return make()
            finally:
                trace_state.axes, trace_state.source = old, source

    return scope


def stage_sharing_outer(outer: list[Value], fun: Callable[..., Sequence[Value]],
                        avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list[int]]:
    """Stage a function, and append the values of enclosing traces that it uses to a list shared by several programs.

    Args:
      outer: the list.
      fun: takes one array per aval and returns a list of arrays.
      avals: the argument types.
    Returns:
      The program, whose leading arguments are those values, and their positions in `outer`.

    >>> outer = []
    >>> closed, places = stage_sharing_outer(outer, lambda x: [x + x], [typeof(1.0)])
    >>> print(closed, places)
    { lambda ; a:f32[]. let b:f32[] = add a a in (b,) } []
    """
    closed, found = stage(fun, avals)
    # All programs of one call take the same operands, so each value is in the shared list once.
    places = []
    for x in found:
        # By identity: tracers define no equality.
        at = next((i for i, y in enumerate(outer) if y is x), None)
        if at is None:
            at = len(outer)
            outer.append(x)
        places.append(at)
    return closed, places


def prepend_outer_values(closed: ClosedJaxpr, places: Sequence[int], outer: Sequence[Value]) -> ClosedJaxpr:
    """Make a program of `stage_sharing_outer` take all outer values as its leading arguments.

    Args:
      closed: the program.
      places: positions in `outer` of the values it takes, as returned by `stage_sharing_outer`.
      outer: all outer values.
    Returns:
      A program that takes all outer values, then its own arguments. Unused ones are ignored.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    >>> len(prepend_outer_values(closed, [1], [np.ones(2), np.float32(3)]).in_avals)
    2
    """
    if len(places) == len(outer) and list(places) == list(range(len(outer))):
        return closed
    jaxpr, n = closed.jaxpr, len(places)
    lead = [Var(typeof(x)) for x in outer]
    # Values that only other programs of the call use become unused arguments.
    for at, v in zip(places, jaxpr.invars):
        lead[at] = v
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, lead + jaxpr.invars[n:], jaxpr.eqns, jaxpr.outvars, jaxpr.axis_names,
                             jaxpr.effectful), closed.consts)


def closes_over_tracers(*values: Any, depth: int = 3) -> bool:
    """Return whether functions close over traced values, looking into closures, partials and pytrees.

    Args:
      *values: functions, or any objects.
      depth: how many levels of nested functions to inspect.
    Returns:
      A bool. Traced values in global variables are not found.

    >>> closes_over_tracers(lambda x: x)
    False
    >>> _ = stage(lambda x: print(closes_over_tracers(lambda: x)) or [x], [typeof(1.0)])
    True
    """
    for x in values:
        if isinstance(x, Tracer):
            return True
        if depth and x is not None and not isinstance(x, (int, float, str)):
            # A heuristic: `depth` limits the search. A closure that it misses is found when the rule is staged, which
            # then reports an error.
            contents: list[Any] = []
            for cell in getattr(x, "__closure__", None) or ():
                try:
                    contents.append(cell.cell_contents)
                except ValueError:  # the variable is not assigned yet
                    pass
            if hasattr(x, "func") and hasattr(x, "args"):  # functools.partial
                contents += [x.func, *x.args, *x.keywords.values()]
            if isinstance(x, (tuple, list, dict)):
                contents += trees.tree_leaves(x)
            if contents and closes_over_tracers(*contents, depth=depth - 1):
                return True
    return False


class PositionalSignature:
    """Convert arguments to positional ones: `resolve(args, kwargs)` places keyword arguments and fills in defaults.

    Args:
      call: name of the transformation, for messages.
      fun: the function.

    `resolve` raises TypeError if the arguments do not fit the signature, or if one is keyword-only.

    >>> PositionalSignature("custom_vjp", lambda x, y=2: None).resolve((), {"x": 1})
    (1, 2)
    """

    def __init__(self, call: str, fun: Function) -> None:
        self.call, self.fun = call, fun
        self._signature: Signature | None = None
        self._has_no_defaults: bool | None = None  # None: the signature was not read yet

    def resolve(self, args: tuple[Tree, ...], kwargs: dict[str, Tree]) -> tuple[Tree, ...]:
        """Return all arguments by position; TypeError if they do not fit the signature, or if one is keyword-only."""
        if self._has_no_defaults is None:
            try:
                self._signature = signature(self.fun)
            except (TypeError, ValueError):
                self._signature = None
            self._has_no_defaults = self._signature is None or all(
                p.default is p.empty for p in self._signature.parameters.values())
        if not kwargs and self._has_no_defaults:
            return args
        name = function_name(self.fun)
        if self._signature is None:
            raise TypeError(f"{self.call} of `{name}`: keyword arguments {sorted(kwargs)} have no known position, because "
                            "the function has no readable signature; pass them by position")
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{self.call} of `{name}`: {e}") from None
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"{self.call} of `{name}`: argument `{next(iter(bound.kwargs))}` can only be given by keyword, but "
                            "rules take all arguments by position; make it positional or bind it with functools.partial")
        return bound.args
