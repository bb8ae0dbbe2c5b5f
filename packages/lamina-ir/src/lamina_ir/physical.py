"""Programs without keys: each key's words lie along one more, last axis of uint32. What devices run is made so.

`random_wrap` and `random_unwrap` vanish. An op that moves elements moves each word as it would move the key: it is applied to
one word of all keys at a time, with its params as they are. So no op has a row for keys, and what computes with elements has
refused them when its type was asked for.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import prims
from ._stack_depth import roomy
from .arguments import AVAL, CLOSED, takes
from .avals import ShapedArray, shaped
from .dtypes import BOOL, is_key, words_of
from .errors import DTypeError
from .program import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subprograms
from .rewrite import map_subprograms, remember

__all__ = ["has_keys", "physical", "physical_aval", "words_array"]

_U32 = np.dtype("uint32")


@takes(aval=AVAL)
def physical_aval(aval: ShapedArray) -> ShapedArray:
    """The type that stands for a type of keys in programs without keys; other types stand for themselves.

    Args:
      aval: a type.
    Returns:
      A type.

    >>> from lamina_ir.dtypes import key_type
    >>> physical_aval(shaped((3,), key_type("fry")))
    ShapedArray(uint32[3,2])
    """
    if not is_key(aval.dtype):
        return aval
    return shaped((*aval.shape, words_of(aval.dtype)), _U32).differing(aval.over)


def words_array(x: Any) -> Any:
    """The words of keys.

    Args:
      x: a NumPy array of keys, or what has them as `words`.
    Returns:
      uint32 with one more axis.

    >>> from lamina_ir.dtypes import key_type
    >>> words_array(np.zeros(3, key_type("fry"))).shape
    (3, 2)
    """
    own = getattr(x, "words", None)
    if own is not None:
        return own
    a = np.asarray(x)
    return np.ascontiguousarray(a).view(_U32).reshape((*a.shape, words_of(a.dtype)))


@takes(program=CLOSED)
def has_keys(program: ClosedJaxpr) -> bool:
    """Whether a value of the program, or of one nested in it, is a key.

    Args:
      program: any program.
    Returns:
      A truth value.

    >>> from lamina_ir import parse
    >>> has_keys(parse("{ lambda ; a:key<fry>[3]. let in (a,) }"))
    True
    """
    return program.memo("has keys", lambda: _any_key(program))


@roomy()
def _any_key(program: ClosedJaxpr) -> bool:
    jaxpr = program.jaxpr
    if any(is_key(v.aval.dtype) for v in (*jaxpr.constvars, *jaxpr.invars)):
        return True
    for e in jaxpr.eqns:
        if e.primitive.family == "random_keys" or any(is_key(v.aval.dtype) for v in e.outvars):
            return True
        if e.primitive.subprograms and any(map(has_keys, subprograms(e))):
            return True
    return False


@takes(program=CLOSED)
def physical(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program on the words of its keys; itself where it has none.

    Args:
      program: any program.
    Returns:
      One whose arguments, results and constants of type `key<...>[s]` are `uint32[s, words]`.
    Raises:
      DTypeError: an op is applied to keys that neither moves them nor compares them.

    >>> from lamina_ir import parse
    >>> physical(parse("{ lambda ; a:key<fry>[3]. let b:key<fry>[] = squeeze[dimensions=(0,)] a in (b,) }")).in_avals
    [ShapedArray(uint32[3,2])]
    """
    if not has_keys(program):
        return program
    with roomy():
        return program.memo("physical", lambda: _Maker().closed(program))


# Ops that move elements, or choose among them, whatever these are.
_MOVE = frozenset("""all_gather all_to_all broadcast_in_dim concatenate copy dynamic_slice dynamic_update_slice expand_dims
gather pbroadcast ppermute reshape rev scatter select sharding_constraint slice squeeze stop_gradient transpose""".split())


class _Maker:
    """One program being made, with what is made of those nested in it."""

    def __init__(self) -> None:
        self.inner = remember(physical, "physical")

    def closed(self, program: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        self.env: dict[Any, Atom] = {}
        self.eqns: list[Eqn] = []
        self.literals: dict[Var, Any] = {}  # keys that stood in equations, whose words are constants
        constvars, invars = [self.bound(v) for v in jaxpr.constvars], [self.bound(v) for v in jaxpr.invars]
        for e in jaxpr.eqns:
            self.equation(e)
        outvars = [self.read(a) for a in jaxpr.outvars]
        consts = [words_array(c) if is_key(v.aval.dtype) else c for v, c in zip(jaxpr.constvars, program.consts)]
        return ClosedJaxpr(Jaxpr([*constvars, *self.literals], invars, self.eqns, outvars), [*consts, *self.literals.values()])

    def bound(self, v: Var) -> Var:
        """What is bound in place of `v`."""
        if not is_key(v.aval.dtype):
            return v
        new = self.env[v] = type(v)(physical_aval(v.aval))
        return new

    def read(self, a: Atom) -> Atom:
        if type(a) is not Literal:
            return self.env.get(a, a)
        if not is_key(a.aval.dtype):
            return a
        words = Var(physical_aval(a.aval))
        self.literals[words] = words_array(np.asarray(a.val, a.aval.dtype))
        return words

    def emit(self, e: Eqn, prim: Any, operands: Sequence[Atom], **params: Any) -> Var:
        out = Var(prim.infer(*[a.aval for a in operands], **params))
        over = frozenset().union(*[a.aval.over for a in operands])
        out.aval = out.aval.differing(over)
        self.eqns.append(Eqn(prim, list(operands), [out], params, e.source))
        return out

    def equation(self, e: Eqn) -> None:
        prim, ins = e.primitive, [self.read(a) for a in e.invars]
        if prim.family == "random_keys":
            self.env[e.outvars[0]] = ins[0]
            return
        keyed = [is_key(a.aval.dtype) for a in (*e.invars, *e.outvars)]
        if prim.subprograms and (any(keyed) or any(map(has_keys, subprograms(e)))):
            params = dict(map_subprograms(e, self.inner).params)
            for name, atoms in (("in_specs", e.invars), ("out_specs", e.outvars)):
                if name in params:  # the words of a key stay together
                    params[name] = tuple([(*entries, None) if is_key(a.aval.dtype) else entries
                                          for entries, a in zip(params[name], atoms, strict=True)])
            self.eqns.append(Eqn(prim, ins, [self.bound(v) for v in e.outvars], params, e.source))
        elif not any(keyed):
            self.eqns.append(e if ins == list(e.invars) else Eqn(prim, ins, e.outvars, e.params, e.source))
        elif prim is prims.optimization_barrier_p:
            self.eqns.append(Eqn(prim, ins, [self.bound(v) for v in e.outvars], e.params, e.source))
        elif prim is prims.convert_element_type_p:  # to what they are: others are refused
            self.env[e.outvars[0]] = ins[0]
        elif prim is prims.eq_p or prim is prims.ne_p:
            self.compared(e, ins)
        elif prim.name in _MOVE:
            self.moved(e, ins)
        else:
            types = ", ".join(a.aval.long() for a in e.invars)
            raise DTypeError(f"{prim.name}: keys are no numbers, and this op does not take them; got {types}. "
                             "random.key_data(keys) gives their words")

    def word(self, e: Eqn, a: Atom, j: int) -> Atom:
        """The words number `j` of keys."""
        shape = a.aval.shape
        here = self.emit(e, prims.slice_p, [a], start_indices=(0,) * (len(shape) - 1) + (j,),
                         limit_indices=(*shape[:-1], j + 1), strides=None)
        return self.emit(e, prims.squeeze_p, [here], dimensions=(len(shape) - 1,))

    def moved(self, e: Eqn, ins: list[Atom]) -> None:
        out = e.outvars[0]
        parts = []
        for j in range(words_of(out.aval.dtype)):
            operands = [self.word(e, new, j) if is_key(old.aval.dtype) else new for old, new in zip(e.invars, ins)]
            part = Var(shaped(out.aval.shape, _U32).differing(out.aval.over))
            self.eqns.append(Eqn(e.primitive, operands, [part], e.params, e.source))
            parts.append(self.emit(e, prims.expand_dims_p, [part], dimensions=(len(out.aval.shape),)))
        self.env[out] = self.emit(e, prims.concatenate_p, parts, dimension=len(out.aval.shape))

    def compared(self, e: Eqn, ins: list[Atom]) -> None:
        found: Any = None
        for j in range(words_of(e.invars[0].aval.dtype)):
            one = self.emit(e, e.primitive, [self.word(e, a, j) for a in ins])
            joined = prims.and_p if e.primitive is prims.eq_p else prims.or_p
            found = one if found is None else self.emit(e, joined, [found, one])
        assert found is not None and found.aval.dtype == BOOL
        self.env[e.outvars[0]] = found
