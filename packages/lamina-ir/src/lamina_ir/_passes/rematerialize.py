"""Rematerialization: choose residuals that are cheaper to recompute than to store.

Along an axis that runs serially (one position after the other), the residuals of all positions are stored between two
stages, while all other values exist for one position at a time. So the number of residuals decides the memory. A
residual such as a mask or a factor, which a few cheap equations compute from an operand and from values that all
positions share, is therefore recomputed in the second stage.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .._types import dtypes
from .._core.arg_checks import EQN, ArgType, check_args
from ..prims import elementwise
from ..prims.collectives import axis_index_p, pmax_p, pmin_p
from ..prims.custom import remat_p
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subprograms
from .._core.rewrite import dce
from ..typing import AxisName

__all__ = ["MAX_CHEAP_EQNS", "find_compared_values", "is_cheap", "is_exact", "recompute_cheap_residuals"]

MAX_CHEAP_EQNS = 16  # most cheap equations that are recomputed for one residual
_MAX_EQNS = 64  # the same, also counting equations on values that all positions share, whose cost is negligible


_COMPARISONS = frozenset([elementwise.eq_p, elementwise.ge_p, elementwise.gt_p, elementwise.le_p, elementwise.lt_p,
                          elementwise.ne_p])


@check_args(e=EQN)
def is_cheap(e: Eqn) -> bool:
    """Return whether recomputing an equation from its operands costs less than storing its results.

    Args:
      e: the equation.
    Returns:
      True for elementwise and shape primitives, and for small checkpointed calls of these.

    >>> from lamina_ir import parse
    >>> text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[] = reduce_sum[axes=(0,)] b in (c,) }"
    >>> [is_cheap(e) for e in parse(text).eqns]
    [True, False]
    """
    if e.primitive.subprograms:
        inside = e.params["call_jaxpr"].eqns if e.primitive is remat_p and not e.params["prevent_cse"] else ()
        return 0 < len(inside) <= MAX_CHEAP_EQNS and all(map(is_cheap, inside))
    return e.primitive is axis_index_p or e.primitive.family in ("elementwise", "shape")


_EXACT = frozenset([
    elementwise.abs_p, elementwise.bitcast_convert_type_p, elementwise.ceil_p, elementwise.clamp_p, elementwise.complex_p,
    elementwise.conj_p, elementwise.convert_element_type_p, elementwise.copy_p, elementwise.eq_p, elementwise.floor_p,
    elementwise.ge_p, elementwise.gt_p, elementwise.imag_p, elementwise.is_finite_p, elementwise.le_p, elementwise.lt_p,
    elementwise.max_p, elementwise.min_p, elementwise.ne_p, elementwise.neg_p, elementwise.real_p,
    elementwise.reduce_precision_p, elementwise.round_p, elementwise.select_p, elementwise.sign_p,
    elementwise.stop_gradient_p])  # on floats; abs and sign of complex numbers round


def is_exact(e: Eqn) -> bool:
    """Return whether recomputing an equation gives bitwise equal results in any surrounding program.

    For most arithmetic it does not: a compiler may fuse a product and a sum into one instruction that rounds once (FMA)
    in one program and not in the other.

    Args:
      e: the equation.
    Returns:
      True if the results do not depend on the surrounding program.

    >>> from lamina_ir import parse
    >>> [is_exact(e) for e in parse("{ lambda ; a:f32[3]. let b:f32[3] = abs a c:f32[3] = sin b in (c,) }").eqns]
    [True, False]
    """
    p, given = e.primitive, [a.aval.dtype for a in e.invars]
    if p.subprograms:
        return p is remat_p and all(map(is_exact, e.params["call_jaxpr"].eqns))
    if p.family != "elementwise":
        return p is axis_index_p or p.family == "shape"
    if any(map(dtypes.is_complex, given)) and p in (elementwise.abs_p, elementwise.sign_p):
        return False
    return p in _EXACT or not any(map(dtypes.is_inexact, given))


_EQNS = ArgType("a list of Eqns", lambda v: isinstance(v, (tuple, list)) and all(isinstance(e, Eqn) for e in v))


@check_args(eqns=_EQNS)
def find_compared_values(eqns: Iterable[Eqn]) -> set[Atom]:
    """Find values that must not be recomputed: values with a pmax or pmin over an axis that are also compared.

    The derivative of a maximum goes to the elements that are equal to it. Recomputed values may be rounded differently,
    so that none is equal to the stored maximum, and the derivative would be lost.

    Args:
      eqns: the equations of a program.
    Returns:
      The set of variables of such values.

    >>> from lamina_ir import parse
    >>> largest = "pmax[axes=('i',) axis_index_groups=None]"
    >>> text = "{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[] = %s b d:bool[]{i} = eq b c in (d,) }"
    >>> program = parse(text % largest)
    >>> find_compared_values(program.eqns) == {program.eqns[0].outvars[0]}, find_compared_values(program.eqns[1:])
    (True, set())
    """
    made: dict[Atom, Eqn] = {}
    exact: set[Atom] = set()
    reduced: set[Atom] = set()
    compared_values: list[Atom] = []
    for e in eqns:
        made.update(dict.fromkeys(e.outvars, e))
        if is_exact(e) and all(a in exact for a in e.invars if type(a) is not Literal and a in made):
            exact.update(e.outvars)
        if e.primitive in (pmax_p, pmin_p):
            reduced.update(e.invars)
        elif _compares(e):
            compared_values += [a for a in e.invars if type(a) is not Literal]
    found = set()
    for v in compared_values:
        # A comparison with the maximum often reads a reshaped or broadcast copy of the reduced value.
        while v not in reduced and v in made and made[v].primitive.family == "shape" and made[v].invars:
            v = made[v].invars[0]
        # An operand of the program is stored in any case, and exact equations give the same bits again.
        if v in reduced and v in made and v not in exact:
            found.add(v)
    return found


def _compares(e: Eqn) -> bool:
    if e.primitive.subprograms:
        return any(s.memo("compares", lambda s=s: any(map(_compares, s.eqns))) for s in subprograms(e))
    return e.primitive in _COMPARISONS


class _Recipe(NamedTuple):
    """How to recompute a value: the indices of the equations, and the values they start from."""

    eqns: frozenset[int]
    roots: frozenset[Var]


def recompute_cheap_residuals(first: ClosedJaxpr, second: ClosedJaxpr, count: int,
                              sizes: Mapping[AxisName, int]) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Reduce the residuals between two stages by recomputing cheap ones in the second stage.

    Args:
      first: the first stage; returns `count` results, then residuals.
      second: the second stage; takes the residuals, then other operands.
      count: the number of results of `first` before the residuals.
      sizes: axis name -> size, for the axes along which residuals of all positions are stored. The type of a residual
        states over which of them it varies.
    Returns:
      Two programs with the same interface except for the residuals; the given ones if nothing is gained.

    >>> from lamina_ir import parse
    >>> one = parse("{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[]{i} = cos a d:f32[]{i} = mul a 2.0:f32[] "
    ...             "in (b, c, d) }")
    >>> two = parse("{ lambda ; c:f32[]{i} d:f32[]{i} t:f32[]{i}. let e:f32[]{i} = mul c t f:f32[]{i} = mul e d in (f,) }")
    >>> one, two = recompute_cheap_residuals(one, two, 1, {"i": 9})
    >>> len(one.out_avals), len(two.in_avals), [e.primitive.name for e in two.eqns]
    (2, 2, ['cos', 'mul', 'mul', 'mul'])
    """
    jaxpr = first.jaxpr
    residuals = jaxpr.outvars[count:]
    stored: dict[Var, None] = dict.fromkeys([v for v in residuals if type(v) is not Literal])
    recipes = _find_recipes(jaxpr, sizes)
    # Group residuals that are computed from the same roots: storing the roots instead may pay off for all of them
    # together, but not for one alone.
    groups: dict[frozenset[Var], list[Var]] = {}
    for v in stored:
        if v in recipes and not v.aval.varying_axes.isdisjoint(sizes):
            groups.setdefault(recipes[v].roots.difference(stored), []).append(v)
    recomputed: set[int] = set()
    for roots, values in groups.items():
        # Roots that are stored already, also for an earlier group, cost nothing.
        if _stored_bytes(roots.difference(stored), sizes) <= _stored_bytes(values, sizes):
            recomputed = recomputed.union(*[recipes[v].eqns for v in values])
            stored = {v: None for v in [*stored, *roots] if v not in values}
    if not recomputed:
        return first, second
    place = {v: k for k, v in enumerate([*jaxpr.constvars, *jaxpr.invars, *[v for e in jaxpr.eqns for v in e.outvars]])}
    # The roots come from sets. In the order of the program, equal programs get equal interfaces.
    new = sorted(stored, key=place.__getitem__)
    one = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, [*jaxpr.outvars[:count], *new]), first.consts)
    # The first stage no longer returns the recomputed values, so what computed only them is dead code.
    return dce(one, instantiate=True)[0], _prepend([jaxpr.eqns[i] for i in sorted(recomputed)], new, residuals, second)


def _find_recipes(jaxpr: Jaxpr, sizes: Mapping[AxisName, int]) -> dict[Atom, _Recipe]:
    """Find a recipe for each value that cheap equations compute. If a recipe would have too many equations, the value
    has none and is a root of later ones."""
    found: dict[Atom, _Recipe] = {}
    shared: set[int] = set()
    not_recomputable = find_compared_values(jaxpr.eqns)
    for i, e in enumerate(jaxpr.eqns):
        if not is_cheap(e):
            continue
        # Values that all positions share are computed once, not per position, so they do not count as work.
        if all(v.aval.varying_axes.isdisjoint(sizes) for v in e.outvars):
            shared.add(i)
        # A value without a recipe is a root: it must be stored if anything is recomputed from it.
        read = [v for v in e.invars if type(v) is not Literal]
        eqns = frozenset([i]).union(*[found[v].eqns for v in read if v in found])
        roots = frozenset([v for v in read if v not in found]).union(*[found[v].roots for v in read if v in found])
        if len(eqns) <= _MAX_EQNS and len(eqns - shared) <= MAX_CHEAP_EQNS:
            found.update(dict.fromkeys([v for v in e.outvars if v not in not_recomputable], _Recipe(eqns, roots)))
    return found


def _stored_bytes(values: Iterable[Var], sizes: Mapping[AxisName, int]) -> int:
    """Sum the bytes of all positions. Values that all positions share are stored once, which is negligible."""
    return sum([v.aval.size * v.aval.dtype.itemsize * math.prod([sizes.get(n, 1) for n in v.aval.varying_axes]) for v in values
                if not v.aval.varying_axes.isdisjoint(sizes)])


def _prepend(eqns: list[Eqn], ins: list[Var], outs: Iterable[Atom], second: ClosedJaxpr) -> ClosedJaxpr:
    """Prepend to the second stage the equations that compute its former residuals `outs` from the new ones `ins`."""
    jaxpr = second.jaxpr
    # New variables, because the second program may bind those of the first itself.
    own: dict[Atom, Var] = {v: Var(v.aval) for v in [*ins, *[v for e in eqns for v in e.outvars]]}
    given: list[Atom] = [own.get(v, v) for v in outs]
    read: dict[Atom, Atom] = dict(zip(jaxpr.invars, given))

    def renamed(e: Eqn, names: Mapping[Atom, Atom]) -> Eqn:
        return e.replace(invars=[a if type(a) is Literal else names.get(a, a) for a in e.invars],
                         outvars=[names.get(v, v) for v in e.outvars])

    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [*[own[v] for v in ins], *jaxpr.invars[len(given):]],
                             [*[renamed(e, own) for e in eqns], *[renamed(e, read) for e in jaxpr.eqns]],
                             [a if type(a) is Literal else read.get(a, a) for a in jaxpr.outvars]), second.consts)
