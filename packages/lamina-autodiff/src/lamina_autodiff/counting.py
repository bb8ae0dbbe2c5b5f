"""Values that are the same on all members of a mapped axis count once: `config.replicated_counts_once`.

Then a variable whose type does not differ over an axis is one value, and an operation that uses it beside values that do differ
takes it to each member first. That is linear, so transposed it is a sum over the members; it is written nowhere, and so the sum
is made here, wherever a cotangent reaches its variable: over the axes over which the operation works and the variable does not
differ. A cotangent that does not differ either stands for equal ones, one per member. See docs/collectives.md.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import Primitive, UnnamedAxis, config, dtypes, prims
from lamina_ir.extend import Wired, axis_names_of
from lamina_tracing import lax
from lamina_tracing.extend import Tracer, bind, now, scalar, typeof

__all__ = ["by_members", "counted_axes", "fitted", "narrowed", "summed"]

Axes = frozenset[Any]
_NONE: Axes = frozenset()


def counted_axes() -> Axes:
    """The names of the mapped axes in scope, if values that do not differ over them count once."""
    if not now.axes or not config.replicated_counts_once.value:
        return _NONE
    return frozenset([f.name for f in now.axes if type(f.name) is not UnnamedAxis])


def by_members(fun: Callable[..., Any], *args: Any) -> Any:
    """A rule of `custom_vjp` is written for one member, and what it differentiates is that member's: the default reading."""
    if not counted_axes():
        return fun(*args)
    with config.replicated_counts_once(False):
        return fun(*args)


def narrowed(t: Any, over: Axes) -> Any:
    """The tangent of a result that is one value over all but these axes, from its members' equal ones: their mean, so that each
    of them gets an equal part of the cotangent."""
    names = tuple(sorted(typeof(t).over - over, key=repr))
    if not names:
        return t
    total, = bind(prims.psum_p, t, axes=names, axis_index_groups=None)
    return lax.mul(total, scalar(1 / math.prod([lax.axis_size(name) for name in names]), typeof(t).dtype))


def fitted(ct: Any, wide: Axes, over: Axes) -> Any:
    """A cotangent of a variable that differs over these axes, from one of its copies on the members of wider ones."""
    mine = typeof(ct).over
    missing = (wide | mine) - over
    if not missing or typeof(ct).dtype == dtypes.float0:
        return ct
    differs = tuple(sorted(missing & mine, key=repr))
    if differs:
        ct, = bind(prims.psum_p, ct, axes=differs, axis_index_groups=None)
    alike = math.prod([lax.axis_size(name) for name in missing - mine])
    return ct if alike == 1 else lax.mul(ct, scalar(alike, typeof(ct).dtype))


def summed(prim: Primitive, args: Sequence[Any], params: dict[str, Any], out: Any, back: Any, kind: type) -> Any:
    """What the transpose of an op gave for its operands, each as a cotangent of the operand's variable; `kind` is the class of
    variables."""
    overs = [(a.aval if isinstance(a, Tracer) else typeof(a)).over for a in args]
    flow = prim.flow
    if flow is not None and flow.operands:  # within its programs it has been done
        w = Wired(prim, params, len(args))
        wides = overs if flow.binds else [w.type_inside(i).over for i in range(len(args))]
    else:
        results = out if prim.multiple else (out,)
        wides = [_NONE.union(*overs, *[o.aval.over for o in results], axis_names_of(prim, params))] * len(args)
    found = [b if b is None or type(a) is not kind else fitted(b, wide, over)
             for a, b, wide, over in zip(args, (back,) if len(args) == 1 else back, wides, overs)]
    return found[0] if len(args) == 1 else found
