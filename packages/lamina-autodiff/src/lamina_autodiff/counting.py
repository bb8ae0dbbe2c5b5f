"""Values that are the same on all members of a mapped axis count once: in derivatives from outside of its map, and inside with
`config.replicated_counts_once`.

Then a variable whose type does not differ over an axis is one value, and an operation that uses it beside values that do differ
takes it to each member first. That is linear, so transposed it is a sum over the members; it is written nowhere, and so the sum
is made here, of the cotangents that reach a variable: over the axes over which the operation works and the variable does not
differ. A cotangent that does not differ either stands for equal ones, one per member. See docs/collectives.md.

Those of several uses are added first, and summed over members when the variable's own row is reached: one sum for all uses. A
loop goes on so: what its turns give for an operand that is held is added up as it is, and summed behind the loop.
"""
from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Primitive, UnnamedAxis, config, dtypes, prims, subprograms
from lamina_ir.extend import Wired, axis_names_of
from lamina_tracing import lax
from lamina_tracing.extend import AxisFrame, Tracer, bind, bound_axes, counts_once, now, scalar, typeof

__all__ = ["by_members", "counted_axes", "from_outside", "gathered", "named_axes", "narrowed", "reach", "still_open",
           "whole"]

Axes = frozenset[Any]
_NONE: Axes = frozenset()


def counted_axes() -> Axes:
    """The names of the mapped axes in scope over which values that do not differ count once."""
    if not now.axes or not config.replicated_counts_once.value:
        return _NONE
    return frozenset([f.name for f in now.axes if counts_once(f.name)])


def named_axes() -> Axes:
    """The names of all mapped axes in scope that have one."""
    return frozenset([f.name for f in now.axes if type(f.name) is not UnnamedAxis])


@contextlib.contextmanager
def from_outside(axes: Sequence[tuple[Hashable, int]], body: ClosedJaxpr) -> Iterator[None]:
    """A block in which derivatives of a map's program are made: its axes are in scope, and over these one value counts once.

    Args:
      axes: (name, size) of each axis that the map binds, outermost first.
      body: its program. An axis whose name is bound again in it is left out: inside, types do not tell the two apart.

    >>> from lamina_ir import parse
    >>> with from_outside((("i", 4),), parse("{ lambda ; a:f32[]{i}. let in (a,) }")):
    ...     counts_once("i"), counts_once("j")
    (True, False)
    """
    found = config.replicated_counts_once.value
    if found is not True:
        mine = frozenset([name for name, _ in axes if type(name) is not UnnamedAxis])
        found = ((found or _NONE) - mine | mine - body.memo("binds", lambda: _bound_in(body))) or False
    with config.replicated_counts_once(found), bound_axes(*[AxisFrame(name, size) for name, size in axes]):
        yield


def _bound_in(body: ClosedJaxpr) -> Axes:
    """The axes that maps within a program bind."""
    found = _NONE
    todo, seen = [body], {body}  # programs that are called twice are looked through once
    for program in todo:
        for e in program.jaxpr.eqns:
            if e.primitive.subprograms:
                if e.primitive.flow.binds:  # type: ignore[union-attr]
                    found |= e.primitive.flow.binds.names(e.params)  # type: ignore[union-attr]
                fresh = [s for s in subprograms(e) if s not in seen]
                seen.update(fresh)
                todo += fresh
    return found


def by_members(fun: Callable[..., Any], *args: Any) -> Any:
    """A rule of `custom_vjp` is written for one member, and what it differentiates is that member's: the default reading."""
    if not counted_axes():
        return fun(*args)
    with config.replicated_counts_once(False):
        return fun(*args)


def narrowed(t: Any, over: Axes) -> Any:
    """The tangent of a result that is one value over all but these axes, from its members' equal ones: their mean, so that each
    of them gets an equal part of the cotangent. From outside each member keeps its own; where there is to be one, the map says
    which is taken."""
    names = tuple(sorted(typeof(t).over - over, key=repr))
    if not names or config.replicated_counts_once.value is not True:
        return t
    total, = bind(prims.psum_p, t, axes=names, axis_index_groups=None)
    return lax.mul(total, scalar(1 / math.prod([lax.axis_size((name,)) for name in names]), typeof(t).dtype))


def gathered(parts: dict[Axes, Any] | None, ct: Any, wide: Axes, over: Axes, counted: Axes) -> dict[Axes, Any]:
    """The cotangents of a variable so far and another one: by the axes over which they are still to be summed, their sums.

    Args:
      parts: those so far, which are changed.
      ct: of a copy of it on the members of axes `wide`.
      over: the axes over which the variable differs.
      counted: those over which one value counts once.
    """
    aval = typeof(ct)
    missing = _NONE if aval.dtype == dtypes.float0 else counted & (wide | aval.over) - over
    ct, names = _alike(ct, missing - aval.over), missing & aval.over
    if parts is None:
        return {names: ct}
    parts[names] = bind(prims.add_p, parts[names], ct) if names in parts else ct
    return parts


def _alike(ct: Any, names: Axes) -> Any:
    """The sum of the members' cotangents, which are equal over these axes."""
    n = math.prod([lax.axis_size((name,)) for name in names])
    return ct if n == 1 else lax.mul(ct, scalar(n, typeof(ct).dtype))


def still_open(cts: Sequence[Any], avals: Sequence[Any], overs: Sequence[Axes]) -> list[Any]:
    """Cotangents that a transposed program has left to be summed over the axes over which its own results differ, `avals`, and
    their variables, `overs`, do not. Given cotangents that differ over less its results may be equal: those are summed here."""
    counted = counted_axes()
    return [_alike(ct, counted & a.over - over - typeof(ct).over) if counted else ct for ct, a, over in zip(cts, avals, overs)]


def whole(parts: dict[Axes, Any] | None, open: bool = False) -> Any:
    """The cotangent of a variable, from those gathered. One that is `open` may be left to be summed, as its type says."""
    if parts is None:
        return None
    total = None
    for names, ct in parts.items():
        if names and not (open and len(parts) == 1):
            ct, = bind(prims.psum_p, ct, axes=tuple(sorted(names, key=repr)), axis_index_groups=None)
        total = ct if total is None else bind(prims.add_p, total, ct)
    return total


def reach(prim: Primitive, args: Sequence[Any], params: dict[str, Any], out: Any) -> Sequence[Axes]:
    """For each operand of an op, the axes over which the op works that its transpose leaves to be summed."""
    overs = [(a.aval if isinstance(a, Tracer) else typeof(a)).over for a in args]
    flow = prim.flow
    if flow is not None and flow.operands:  # within its programs it has been done
        w = Wired(prim, params, len(args))
        return overs if flow.binds else [w.type_inside(i).over for i in range(len(args))]
    results = out if prim.multiple else (out,)
    return [_NONE.union(*overs, *[o.aval.over for o in results], axis_names_of(prim, params))] * len(args)
