"""Remove psum, pmax and pmin of values that are replicated over the axis, since they need no communication.

This is done only when a map is complete. Inside a map the transpose of a psum sums the cotangents of the members, which
may differ, so differentiation there must still see the psum. Seen from outside of the map, both forms are the same
function.
"""
from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from .._types import dtypes
from .. import prims
from .._util.recursion_limit import with_recursion_limit
from .._core.arg_checks import CLOSED_JAXPR, MAPPING, check_args
from .._types.avals import shaped
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from ..typing import AxisName, Params

__all__ = ["drop_redundant_collectives"]

_REDUCTIONS = frozenset([prims.psum_p, prims.pmax_p, prims.pmin_p])


@check_args(closed=CLOSED_JAXPR, sizes=MAPPING)
def drop_redundant_collectives(closed: ClosedJaxpr, sizes: Mapping[AxisName, int]) -> ClosedJaxpr:
    """Replace psum, pmax and pmin over axes over which their operand does not vary.

    Such a psum becomes a product with the axis size; such a pmax or pmin becomes its operand.

    Args:
      closed: a program whose types have their varying axes.
      sizes: the size of each axis.
    Returns:
      A program, memoized with `closed`; `closed` itself if nothing changes.

    >>> from lamina_ir import parse
    >>> text = ("{ lambda ; a:f32[]{i} b:f32[]. let c:f32[] d:f32[] = psum[axes=('i',) axis_index_groups=None] a b "
    ...         "in (c, d) }")
    >>> print(drop_redundant_collectives(parse(text), {"i": 4}))
    { lambda ; a:f32[]{i} b:f32[]. let
        c:f32[] = psum[axes=('i',) axis_index_groups=None] a
        d:f32[] = mul b 4.0:f32[]
      in (c, d) }
    """
    with with_recursion_limit():
        return _drop_in_program(closed, sizes)


def _drop_in_program(closed: ClosedJaxpr, sizes: Mapping[AxisName, int]) -> ClosedJaxpr:
    if not sizes or closed.jaxpr.axis_names.isdisjoint(sizes):
        return closed
    return closed.memo(("without needless", frozenset(sizes.items())), lambda: _rewrite_program(closed, sizes)) or closed


def _rewrite_program(closed: ClosedJaxpr, sizes: Mapping[AxisName, int]) -> ClosedJaxpr | None:
    jaxpr = closed.jaxpr
    eqns: list[Eqn] = []
    replacements: dict[Atom, Atom] = {}  # result -> the operand that replaces it
    changed = False
    for e in jaxpr.eqns:
        if replacements and not replacements.keys().isdisjoint(e.invars):
            e = e.replace(invars=[replacements.get(v, v) for v in e.invars])
        found = _drop_in_eqn(e, sizes, replacements)
        changed = changed or len(found) != 1 or found[0] is not e
        eqns += found
    if not changed:
        return None
    outvars = [replacements.get(v, v) for v in jaxpr.outvars]
    made = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, outvars), closed.consts)
    if "source" in closed.memo_keys():
        source = closed.memo("source", lambda: None)
        made.memo("source", lambda: source)
    return made


def _drop_in_eqn(e: Eqn, sizes: Mapping[AxisName, int], same: dict[Atom, Atom]) -> list[Eqn]:
    p, params = e.primitive, e.params
    if p in _REDUCTIONS and params["axis_index_groups"] is None:
        return _drop_axes(e, sizes, same)
    if not p.subprograms:
        return [e]
    if p.region_signature.axis_binding:  # type: ignore[union-attr]
        shadowed = p.region_signature.axis_binding.names(params)  # type: ignore[union-attr]
        # Inside, an equal name means the axis of the inner map.
        sizes = {n: size for n, size in sizes.items() if n not in shadowed}
    new: Params = {}
    for name in p.subprograms:
        value = params[name]
        if isinstance(value, ClosedJaxpr):
            new[name] = _drop_in_program(value, sizes)
        elif isinstance(value, tuple):
            made = tuple([_drop_in_program(v, sizes) for v in value])
            new[name] = value if all(a is b for a, b in zip(made, value)) else made
    return [e] if all(params[n] is v for n, v in new.items()) else [e.replace(params={**params, **new})]


def _drop_axes(e: Eqn, sizes: Mapping[AxisName, int], same: dict[Atom, Atom]) -> list[Eqn]:
    axes = e.params["axes"]
    # For each operand, the axes that still need communication.
    rest = [tuple([n for n in axes if n not in sizes or n in v.aval.varying_axes]) for v in e.invars]
    if all(r == axes for r in rest):
        return [e]
    # Operands that are still reduced over the same axes stay in one equation, so that they take one communication.
    found: list[Eqn] = []
    for some in dict.fromkeys(rest):
        at = [i for i, r in enumerate(rest) if r == some]
        ins: list[Atom] = [e.invars[i] for i in at]
        outs = [e.outvars[i] for i in at]
        no_factor = some == axes or e.primitive is not prims.psum_p
        if some:
            totals = outs if no_factor else [Var(v.aval) for v in outs]
            found.append(e.replace(invars=ins, outvars=totals, params={**e.params, "axes": some}))
            ins = [*totals]
        elif no_factor:
            same.update(zip(outs, ins))
        if not no_factor:
            # psum of a replicated value multiplies it by the number of members; pmax and pmin leave it as it is.
            n = math.prod([sizes[n] for n in axes if n not in some])
            found += [made for x, out in zip(ins, outs) for made in _multiply(e, x, out, n)]
    return found


def _multiply(e: Eqn, x: Atom, out: Var, n: int) -> list[Eqn]:
    """Return equations for `out = n x`, rounded once; integers wrap around as their sum does."""
    dtype = x.aval.dtype
    if dtypes.is_float(dtype) and dtype.itemsize < 4 and int(np.asarray(n).astype(dtype).astype(np.float64)) != n:
        wide = np.dtype("float32")  # `n` is not representable in the small type
        a, b = [Var(shaped(x.aval.shape, wide).with_varying_axes(out.aval.varying_axes)) for _ in range(2)]
        return [_convert(e, x, a), *_multiply(e, a, b, n), _convert(e, b, out)]
    # `astype` wraps around, as the sum would; `np.asarray(n, dtype)` raises.
    value = np.asarray(n).astype(np.int64).astype(dtype)[()]
    return [e.replace(primitive=prims.mul_p, invars=[x, Literal(value, shaped((), dtype, x.aval.weak_type))], outvars=(out,),
                      params={})]


def _convert(e: Eqn, x: Atom, out: Var) -> Eqn:
    return e.replace(primitive=prims.convert_element_type_p, invars=[x], outvars=(out,),
                     params={"new_dtype": out.aval.dtype, "weak_type": out.aval.weak_type})
