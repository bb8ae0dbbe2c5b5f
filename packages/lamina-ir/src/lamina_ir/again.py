"""What is better made again than handed over: cheap equations on what is there anyway.

Of an axis that runs in turns all positions of a residual lie in memory between two stages, and everything else one turn at a
time. So the second stage is handed little: a mask or a factor that a few cheap equations make of an operand, and of what all
positions share, it makes again.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from . import dtypes
from .arguments import EQN, Kind, takes
from .prims import elementwise
from .prims.collectives import axis_index_p, pmax_p, pmin_p
from .prims.custom import remat_p
from .program import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subprograms
from .rewrite import dce

__all__ = ["FEW", "compared", "is_cheap", "is_exact", "sparing"]

FEW = 16  # cheap equations that are made again for one value
_FAR = 64  # those, and with them the ones of what all positions share, which are next to nothing


_COMPARISONS = frozenset([elementwise.eq_p, elementwise.ge_p, elementwise.gt_p, elementwise.le_p, elementwise.lt_p,
                          elementwise.ne_p])


@takes(e=EQN)
def is_cheap(e: Eqn) -> bool:
    """Whether an equation is made again rather than its results kept, where all that it reads is there.

    Args:
      e: the equation.
    Returns:
      A truth value.

    >>> from lamina_ir import parse
    >>> text = "{ lambda ; a:f32[3]. let b:f32[3] = sin a c:f32[] = reduce_sum[axes=(0,)] b in (c,) }"
    >>> [is_cheap(e) for e in parse(text).eqns]
    [True, False]
    """
    if e.primitive.subprograms:
        inside = e.params["call_jaxpr"].eqns if e.primitive is remat_p and not e.params["prevent_cse"] else ()
        return 0 < len(inside) <= FEW and all(map(is_cheap, inside))
    return e.primitive is axis_index_p or e.primitive.family in ("elementwise", "shape")


_EXACT = frozenset([
    elementwise.abs_p, elementwise.bitcast_convert_type_p, elementwise.ceil_p, elementwise.clamp_p, elementwise.complex_p,
    elementwise.conj_p, elementwise.convert_element_type_p, elementwise.copy_p, elementwise.eq_p, elementwise.floor_p,
    elementwise.ge_p, elementwise.gt_p, elementwise.imag_p, elementwise.is_finite_p, elementwise.le_p, elementwise.lt_p,
    elementwise.max_p, elementwise.min_p, elementwise.ne_p, elementwise.neg_p, elementwise.real_p,
    elementwise.reduce_precision_p, elementwise.round_p, elementwise.select_p, elementwise.sign_p,
    elementwise.stop_gradient_p])  # of floats; abs and sign of complex numbers round


def is_exact(e: Eqn) -> bool:
    """Whether an equation that is made again gives the same to the last bit, whatever stands around it.

    Compilers join a product and a sum into one instruction that rounds once, or not, as it suits them.

    Args:
      e: the equation.
    Returns:
      A truth value.

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


_EQNS = Kind("a list of Eqns", lambda v: isinstance(v, (tuple, list)) and all(isinstance(e, Eqn) for e in v))


@takes(eqns=_EQNS)
def compared(eqns: Iterable[Eqn]) -> set[Any]:
    """Values whose extreme over an axis is taken, that are compared with something, and that must not be made again.

    Made again they might be rounded otherwise. Then none might equal the extreme, though one did before, and its
    derivative would be lost.

    Args:
      eqns: the equations of a program.
    Returns:
      A set of variables.

    >>> from lamina_ir import parse
    >>> largest = "pmax[axes=('i',) axis_index_groups=None]"
    >>> text = "{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[] = %s b d:bool[]{i} = eq b c in (d,) }"
    >>> program = parse(text % largest)
    >>> compared(program.eqns) == {program.eqns[0].outvars[0]}, compared(program.eqns[1:])
    (True, set())
    """
    made: dict[Any, Eqn] = {}
    exact: set[Any] = set()
    extremes: set[Any] = set()
    asked: list[Any] = []
    for e in eqns:
        made.update(dict.fromkeys(e.outvars, e))
        if is_exact(e) and all(a in exact for a in e.invars if type(a) is not Literal and a in made):
            exact.update(e.outvars)
        if e.primitive in (pmax_p, pmin_p):
            extremes.update(e.invars)
        elif _compares(e):
            asked += [a for a in e.invars if type(a) is not Literal]
    found = set()
    for v in asked:
        while v not in extremes and v in made and made[v].primitive.family == "shape" and made[v].invars:
            v = made[v].invars[0]
        if v in extremes and v in made and v not in exact:
            found.add(v)
    return found


def _compares(e: Eqn) -> bool:
    if e.primitive.subprograms:
        return any(s.memo("compares", lambda s=s: any(map(_compares, s.eqns))) for s in subprograms(e))
    return e.primitive in _COMPARISONS


class _Recipe(NamedTuple):
    """How to make a value: the numbers of equations, and what they begin with."""

    eqns: frozenset[int]
    roots: frozenset[Any]


def sparing(first: ClosedJaxpr, second: ClosedJaxpr, count: int, sizes: Mapping[Any, int]) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Two stages that hand over less, where the second can make again what it reads.

    Args:
      first: what runs now: gives `count` results, then residuals.
      second: takes the residuals, then more.
      count: how many results the first has besides residuals.
      sizes: of the axes along which all positions of a residual are kept: as its type says over which it differs.
    Returns:
      Two programs that are wired likewise; themselves where nothing is gained.

    >>> from lamina_ir import parse
    >>> one = parse("{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a c:f32[]{i} = cos a d:f32[]{i} = mul a 2.0:f32[] "
    ...             "in (b, c, d) }")
    >>> two = parse("{ lambda ; c:f32[]{i} d:f32[]{i} t:f32[]{i}. let e:f32[]{i} = mul c t f:f32[]{i} = mul e d in (f,) }")
    >>> one, two = sparing(one, two, 1, {"i": 9})
    >>> len(one.out_avals), len(two.in_avals), [e.primitive.name for e in two.eqns]
    (2, 2, ['cos', 'mul', 'mul', 'mul'])
    """
    jaxpr = first.jaxpr
    left = jaxpr.outvars[count:]
    held: dict[Any, None] = dict.fromkeys([v for v in left if type(v) is not Literal])
    recipes = _recipes(jaxpr, sizes)
    # Residuals that are made of the same go together: one of them alone may not be worth what they are made of.
    groups: dict[frozenset[Any], list[Any]] = {}
    for v in held:
        if v in recipes and not v.aval.over.isdisjoint(sizes):
            groups.setdefault(recipes[v].roots.difference(held), []).append(v)
    again: set[int] = set()
    for roots, values in groups.items():
        if _bytes(roots.difference(held), sizes) <= _bytes(values, sizes):
            again = again.union(*[recipes[v].eqns for v in values])
            held = {v: None for v in [*held, *roots] if v not in values}
    if not again:
        return first, second
    place = {v: k for k, v in enumerate([*jaxpr.constvars, *jaxpr.invars, *[v for e in jaxpr.eqns for v in e.outvars]])}
    new = sorted(held, key=place.__getitem__)
    one = ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.eqns, [*jaxpr.outvars[:count], *new]), first.consts)
    return dce(one, instantiate=True)[0], _behind([jaxpr.eqns[i] for i in sorted(again)], new, left, second)


def _recipes(jaxpr: Jaxpr, sizes: Mapping[Any, int]) -> dict[Any, _Recipe]:
    """How cheap equations make what they make. What takes too many is what others begin with."""
    found: dict[Any, _Recipe] = {}
    shared: set[int] = set()
    fixed = compared(jaxpr.eqns)
    for i, e in enumerate(jaxpr.eqns):
        if not is_cheap(e):
            continue
        if all(v.aval.over.isdisjoint(sizes) for v in e.outvars):
            shared.add(i)
        read = [v for v in e.invars if type(v) is not Literal]
        eqns = frozenset([i]).union(*[found[v].eqns for v in read if v in found])
        roots = frozenset([v for v in read if v not in found]).union(*[found[v].roots for v in read if v in found])
        if len(eqns) <= _FAR and len(eqns - shared) <= FEW:
            found.update(dict.fromkeys([v for v in e.outvars if v not in fixed], _Recipe(eqns, roots)))
    return found


def _bytes(values: Iterable[Any], sizes: Mapping[Any, int]) -> int:
    """The bytes of all positions; of what these share there is one, which is next to nothing."""
    return sum([v.aval.size * v.aval.dtype.itemsize * math.prod([sizes.get(n, 1) for n in v.aval.over]) for v in values
                if not v.aval.over.isdisjoint(sizes)])


def _behind(eqns: list[Eqn], ins: list[Any], outs: Iterable[Any], second: ClosedJaxpr) -> ClosedJaxpr:
    """The second stage behind equations that make what it reads (`outs`) of `ins`."""
    jaxpr = second.jaxpr
    own: dict[Any, Any] = {v: Var(v.aval) for v in [*ins, *[v for e in eqns for v in e.outvars]]}
    given = [own.get(v, v) for v in outs]
    read: dict[Any, Any] = dict(zip(jaxpr.invars, given))

    def renamed(e: Eqn, names: dict[Any, Any]) -> Eqn:
        return e.replace(invars=[a if type(a) is Literal else names.get(a, a) for a in e.invars],
                         outvars=[names.get(v, v) for v in e.outvars])

    return ClosedJaxpr(Jaxpr(jaxpr.constvars, [*[own[v] for v in ins], *jaxpr.invars[len(given):]],
                             [*[renamed(e, own) for e in eqns], *[renamed(e, read) for e in jaxpr.eqns]],
                             [a if type(a) is Literal else read.get(a, a) for a in jaxpr.outvars]), second.consts)
