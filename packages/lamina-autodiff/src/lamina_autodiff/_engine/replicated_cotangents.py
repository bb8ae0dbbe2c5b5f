"""Cotangents of values that are replicated over a mapped axis and count once.

A replicated value (one that does not vary over the axis) counts once in derivatives taken outside the map, and inside
with `config.replicated_counts_once`. An operation that combines it with a varying value first broadcasts it to the
members of the axis. The broadcast is implicit: no equation records it. It is linear, and its transpose is a sum over
the members. So this module inserts the sum (`psum`) for each cotangent of a replicated variable, over the axes over
which the operation works and the variable does not vary. A replicated cotangent means equal cotangents, one per member:
its sum is a multiplication by the axis size. See docs/design/collectives.md.

The cotangents of several uses are added first and reduced once, when the equation that binds the variable is
transposed. Loops do the same: the cotangent of a loop constant is accumulated unreduced over the iterations and reduced
after the loop.
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Iterator, Sequence

from lamina_ir import ClosedJaxpr, config, dtypes, Primitive, prims, ShapedArray, subprograms, UnnamedAxis
from lamina_ir.extend import RegionView, find_axis_names
from lamina_ir.typing import AxisName, Function, Params, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, Tracer, bind, extend_axis_env, is_counted_once, trace_state, scalar, typeof

from .._typing import Outputs, Tangent

__all__ = ["accumulate_cotangent", "call_per_member", "find_unreduced_axes", "get_count_once_axes", "get_named_axes",
           "mean_over_replicas", "outside_map_context", "reduce_cotangent", "scale_unreduced"]

Axes = frozenset[AxisName]
_NO_AXES: Axes = frozenset()


def get_count_once_axes() -> Axes:
    """Return the names of the mapped axes in scope over which a replicated value counts once."""
    if not trace_state.axes or not config.replicated_counts_once.value:
        return _NO_AXES
    return frozenset([f.name for f in trace_state.axes if is_counted_once(f.name)])


def get_named_axes() -> Axes:
    """Return the names of all named axes in scope."""
    return frozenset([f.name for f in trace_state.axes if type(f.name) is not UnnamedAxis])


@contextlib.contextmanager
def outside_map_context(axes: Sequence[tuple[Hashable, int]], body: ClosedJaxpr) -> Iterator[None]:
    """Context for deriving the program of a map: its axes are in scope, and replicated values count once over them.

    Args:
      axes: (name, size) of each axis that the map binds, outermost first.
      body: the program of the map. An axis whose name is bound again inside is left out, because types cannot
        distinguish two axes of one name.

    >>> from lamina_ir import parse
    >>> with outside_map_context((("i", 4),), parse("{ lambda ; a:f32[]{i}. let in (a,) }")):
    ...     is_counted_once("i"), is_counted_once("j")
    (True, False)
    """
    found = config.replicated_counts_once.value
    if found is not True:
        mine = frozenset([name for name, _ in axes if type(name) is not UnnamedAxis])
        # An inner map that binds the same name hides the axis, so inside, the name must not count once.
        found = ((found or _NO_AXES) - mine | mine - body.memo("binds", lambda: _bound_in(body))) or False
    with config.replicated_counts_once(found), extend_axis_env(*[AxisFrame(name, size) for name, size in axes]):
        yield


def _bound_in(body: ClosedJaxpr) -> Axes:
    """Return the names of the axes that maps inside a program bind."""
    found = _NO_AXES
    todo, seen = [body], {body}  # `seen`: a program that is called several times is visited once
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive.subprograms:
                if e.primitive.region_signature.axis_binding:  # type: ignore[union-attr]
                    found |= e.primitive.region_signature.axis_binding.names(e.params)  # type: ignore[union-attr]
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh
    return found


def call_per_member(fun: Function, *args: Tree) -> Tree:
    """Call a `custom_vjp` rule with `replicated_counts_once` off: rules are written for one member."""
    if not get_count_once_axes():
        return fun(*args)
    with config.replicated_counts_once(False):
        return fun(*args)


def mean_over_replicas(t: Value, over: Axes) -> Value:
    """Return the mean of a tangent over the axes that are not in `over`, over which its primal is replicated.

    The members' tangents are equal, so the mean is the tangent itself; transposed, each member gets an equal share of
    the cotangent. Nothing changes for derivatives taken outside the map: there the map's transpose chooses a member.
    """
    names = tuple(sorted(typeof(t).varying_axes - over, key=repr))
    if not names or config.replicated_counts_once.value is not True:
        return t
    total, = bind(prims.psum_p, t, axes=names, axis_index_groups=None)
    return lax.mul(total, scalar(1 / math.prod([lax.axis_size((name,)) for name in names]), typeof(t).dtype))


def accumulate_cotangent(parts: dict[Axes, Value] | None, ct: Value, wide: Axes, over: Axes,
                         count_once: Axes) -> dict[Axes, Value]:
    """Add a cotangent to those accumulated for a variable; return {axes still to be reduced: sum of the cotangents}.

    Args:
      parts: the cotangents so far, or None; modified in place.
      ct: cotangent of the variable as used by an operation over the axes `wide`.
      wide: the axes over which the operation works.
      over: the axes over which the variable varies.
      count_once: the axes over which a replicated value counts once.
    """
    aval = typeof(ct)
    missing = _NO_AXES if aval.dtype == dtypes.float0 else count_once & (wide | aval.varying_axes) - over
    ct, names = _sum_equal(ct, missing - aval.varying_axes), missing & aval.varying_axes
    if parts is None:
        return {names: ct}
    # Cotangents that need the same sum are added first, so that they take one collective together.
    parts[names] = bind(prims.add_p, parts[names], ct) if names in parts else ct
    return parts


def _sum_equal(ct: Value, names: Axes) -> Value:
    """Return the sum of cotangents that are equal on all members of these axes: a multiplication by their number."""
    n = math.prod([lax.axis_size((name,)) for name in names])
    return ct if n == 1 else lax.mul(ct, scalar(n, typeof(ct).dtype))


def scale_unreduced(cts: Sequence[Value], avals: Sequence[ShapedArray], overs: Sequence[Axes]) -> list[Value]:
    """Scale the unreduced cotangents that a transposed program returns, where they turned out to be replicated.

    A transposed program may leave sums to its caller: over the axes over which its results vary (`avals`) and its
    variables do not (`overs`). If its input cotangents vary over fewer axes, some results are replicated over such an
    axis. Their sum over that axis is a multiplication, which is done here.
    """
    count_once = get_count_once_axes()
    if not count_once:
        return list(cts)
    return [_sum_equal(ct, count_once & a.varying_axes - over - typeof(ct).varying_axes)
            for ct, a, over in zip(cts, avals, overs)]


def reduce_cotangent(parts: dict[Axes, Value] | None, allow_unreduced: bool = False) -> Tangent:
    """Reduce accumulated cotangents to the cotangent of a variable; `allow_unreduced` lets it keep its varying axes."""
    if parts is None:
        return None
    total = None
    for names, ct in parts.items():
        # An unreduced result can be one array only. So with parts over different axes all of them are reduced.
        if names and not (allow_unreduced and len(parts) == 1):
            ct, = bind(prims.psum_p, ct, axes=tuple(sorted(names, key=repr)), axis_index_groups=None)
        total = ct if total is None else bind(prims.add_p, total, ct)
    return total


def find_unreduced_axes(prim: Primitive, args: Sequence[Value], params: Params, out: Outputs) -> Sequence[Axes]:
    """Return for each operand the axes over which the equation works and its transpose leaves the sum to the caller."""
    overs = [(a.aval if isinstance(a, Tracer) else typeof(a)).varying_axes for a in args]
    flow = prim.region_signature
    if flow is not None and flow.operands:  # the transposed subprograms have reduced over their inner axes
        w = RegionView(prim, params, len(args))
        return overs if flow.axis_binding else [w.inner_aval(i).varying_axes for i in range(len(args))]
    results = out if prim.multiple else (out,)
    return [_NO_AXES.union(*overs, *[o.aval.varying_axes for o in results], find_axis_names(prim, params))] * len(args)
