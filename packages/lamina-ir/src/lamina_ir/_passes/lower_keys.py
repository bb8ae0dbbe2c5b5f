"""Lower PRNG keys: replace each array of keys by its uint32 data, with one more, last axis. Devices run such programs.

Arrays of float0, which hold no data, become arrays of booleans of the same shape.

`random_wrap` and `random_unwrap` disappear. A primitive that moves elements is applied to one uint32 of all keys at a
time, with unchanged params, and the results are concatenated. So no primitive needs a lowering rule for keys.
Primitives that compute with elements reject keys in their type rules.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import prims
from .._util.recursion_limit import with_recursion_limit
from .._core.arg_checks import AVAL, CLOSED_JAXPR, check_args
from .._types.avals import ShapedArray, shaped
from .._types.dtypes import BOOL, float0, is_key, key_size
from ..errors import DTypeError
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subprograms
from .._core.rewrite import map_subprograms, RegionMemo
from .program_facts import collect_facts
from ..typing import ParamValue, Value
from .._core.primitive import Primitive, get_primitives

__all__ = ["get_key_data", "has_keys", "lower_key_aval", "lower_keys"]

_U32 = np.dtype("uint32")


@check_args(aval=AVAL)
def lower_key_aval(aval: ShapedArray) -> ShapedArray:
    """Return the type that replaces a type of keys or of float0 in lowered programs; other types are returned unchanged.

    Args:
      aval: a type.
    Returns:
      The type of the keys' words, `[..., words per key]`.

    >>> from lamina_ir import shaped
    >>> from lamina_ir.dtypes import key_type
    >>> lower_key_aval(shaped((3,), key_type("fry")))
    ShapedArray(uint32[3,2])
    """
    if aval.dtype == float0:
        return shaped(aval.shape, BOOL).with_varying_axes(aval.varying_axes)
    if not is_key(aval.dtype):
        return aval
    return shaped((*aval.shape, key_size(aval.dtype)), _U32).with_varying_axes(aval.varying_axes)


def get_key_data(x: Value) -> Value:
    """Return the data of keys or of float0 values in lowered programs.

    Args:
      x: a NumPy array of keys or of float0, or an object with the data of keys as `key_data`.
    Returns:
      A uint32 array with one more axis; for float0 an array of False.

    >>> from lamina_ir.dtypes import key_type
    >>> get_key_data(np.zeros(3, key_type("fry"))).shape
    (3, 2)
    """
    own = getattr(x, "key_data", None)
    if own is not None:
        return own
    a = np.asarray(x)
    if a.dtype == float0:
        return np.zeros(a.shape, BOOL)
    return np.ascontiguousarray(a).view(_U32).reshape((*a.shape, key_size(a.dtype)))


@check_args(program=CLOSED_JAXPR)
def has_keys(program: ClosedJaxpr) -> bool:
    """Return whether a value of a program, or of one nested in it, is a key or of dtype float0.

    Args:
      program: any program.
    Returns:
      True if any value is a key.

    >>> from lamina_ir import parse
    >>> has_keys(parse("{ lambda ; a:key<fry>[3]. let in (a,) }"))
    True
    """
    return collect_facts(program).has_keys


@check_args(program=CLOSED_JAXPR)
def lower_keys(program: ClosedJaxpr) -> ClosedJaxpr:
    """Replace the keys of a program by their uint32 data, and float0 by bool; other programs are returned unchanged.

    Args:
      program: any program.
    Returns:
      A program whose arguments, results and constants of type `key<...>[s]` are `uint32[s, n]`; of float0[s] `bool[s]`.
    Raises:
      DTypeError: a primitive that neither moves nor compares elements is applied to keys.

    >>> from lamina_ir import parse
    >>> lower_keys(parse("{ lambda ; a:key<fry>[3]. let b:key<fry>[] = squeeze[dimensions=(0,)] a in (b,) }")).in_avals
    [ShapedArray(uint32[3,2])]
    """
    if not has_keys(program):
        return program
    with with_recursion_limit():
        return program.memo("physical", lambda: _KeyLowering().lower_program(program))


# Primitives that move or select elements without computing with them.
_MOVE = get_primitives("""all_gather all_to_all broadcast_in_dim concatenate copy dynamic_slice dynamic_update_slice expand_dims
gather ppermute reshape rev scatter select sharding_constraint slice squeeze stop_gradient transpose""")


def _is_lowered(dtype: np.dtype) -> bool:
    return dtype.names is not None  # keys and float0; no other dtype is structured


class _KeyLowering:
    """Lowers the keys of one program, and memoizes the lowered nested programs."""

    def __init__(self) -> None:
        self.inner = RegionMemo(lower_keys, "physical")

    def lower_program(self, program: ClosedJaxpr) -> ClosedJaxpr:
        jaxpr = program.jaxpr
        self.env: dict[Atom, Atom] = {}
        self.eqns: list[Eqn] = []
        self.literals: dict[Var, Value] = {}  # data of keys that were literals; literals are scalars, so it becomes constants
        constvars, invars = [self.replace_var(v) for v in jaxpr.constvars], [self.replace_var(v) for v in jaxpr.invars]
        for e in jaxpr.eqns:
            self.lower_equation(e)
        outvars = [self.read(a) for a in jaxpr.outvars]
        consts = [get_key_data(c) if _is_lowered(v.aval.dtype) else c for v, c in zip(jaxpr.constvars, program.consts)]
        return ClosedJaxpr(Jaxpr([*constvars, *self.literals], invars, self.eqns, outvars), [*consts, *self.literals.values()])

    def replace_var(self, v: Var) -> Var:
        """Return the variable that replaces `v`."""
        if not _is_lowered(v.aval.dtype):
            return v
        new = self.env[v] = type(v)(lower_key_aval(v.aval))
        return new

    def read(self, a: Atom) -> Atom:
        if type(a) is not Literal:
            return self.env.get(a, a)
        if a.aval.dtype == float0:
            return Literal(False, lower_key_aval(a.aval))
        if not is_key(a.aval.dtype):
            return a
        data = Var(lower_key_aval(a.aval))
        # The data of a scalar key is a vector, which no literal can be.
        self.literals[data] = get_key_data(np.asarray(a.val, a.aval.dtype))
        return data

    def emit(self, e: Eqn, prim: Primitive, operands: Sequence[Atom], **params: ParamValue) -> Var:
        # The primitives used here are plain, so their results vary over the axes of the operands (see `varying_axes`).
        out = Var(prim.infer(*[a.aval for a in operands], **params))
        axes = frozenset().union(*[a.aval.varying_axes for a in operands])
        out.aval = out.aval.with_varying_axes(axes)
        self.eqns.append(Eqn(prim, list(operands), [out], params, e.source))
        return out

    def lower_equation(self, e: Eqn) -> None:
        prim, ins = e.primitive, [self.read(a) for a in e.invars]
        if prim.family == "random_keys":
            # `random_wrap` and `random_unwrap`: a key and its data are the same array now.
            self.env[e.outvars[0]] = ins[0]
            return
        keyed = [_is_lowered(a.aval.dtype) for a in (*e.invars, *e.outvars)]
        if prim.subprograms and (any(keyed) or any(map(has_keys, subprograms(e)))):
            # Operand counts do not change: each array of keys becomes one array. Axis numbers in params count from the
            # front, so the new last axis does not move them.
            params = dict(map_subprograms(e, self.inner).params)
            for name, atoms in (("in_specs", e.invars), ("out_specs", e.outvars)):
                if name in params:  # a shard_map must not split the data of a key
                    params[name] = tuple([(*entries, None) if is_key(a.aval.dtype) else entries
                                          for entries, a in zip(params[name], atoms, strict=True)])
            self.eqns.append(Eqn(prim, ins, [self.replace_var(v) for v in e.outvars], params, e.source))
        elif not any(keyed):
            self.eqns.append(e if ins == list(e.invars) else Eqn(prim, ins, e.outvars, e.params, e.source))
        elif prim is prims.optimization_barrier_p:
            self.eqns.append(Eqn(prim, ins, [self.replace_var(v) for v in e.outvars], e.params, e.source))
        elif prim is prims.convert_element_type_p:  # to the same type: the type rule rejects all others
            self.env[e.outvars[0]] = ins[0]
        elif prim.family != "callbacks" and not any(is_key(a.aval.dtype) for a in (*e.invars, *e.outvars)):  # float0
            self.eqns.append(Eqn(prim, ins, [self.replace_var(v) for v in e.outvars], e.params, e.source))
        elif prim is prims.eq_p or prim is prims.ne_p:
            self.lower_comparison(e, ins)
        elif prim in _MOVE:
            self.lower_move(e, ins)
        else:
            types = ", ".join(a.aval.str_long() for a in e.invars)
            if not any(is_key(a.aval.dtype) for a in (*e.invars, *e.outvars)):
                raise DTypeError(f"{prim.name}: expected numbers; got {types}. float0 values, the tangents of integers, hold "
                                 "no data; leave them out")
            raise DTypeError(f"{prim.name}: expected numbers; got PRNG keys, {types}. Use random.key_data(keys) for the raw "
                             "uint32 data")

    def extract_word(self, e: Eqn, a: Atom, j: int) -> Atom:
        """Return element `j` of the data of all keys."""
        # With one uint32 per key the array has the shape of the keys, so the params of `e`, such as axes, stay valid.
        shape = a.aval.shape
        here = self.emit(e, prims.slice_p, [a], start_indices=(0,) * (len(shape) - 1) + (j,),
                         limit_indices=(*shape[:-1], j + 1), strides=None)
        return self.emit(e, prims.squeeze_p, [here], dimensions=(len(shape) - 1,))

    def lower_move(self, e: Eqn, ins: list[Atom]) -> None:
        out = e.outvars[0]
        parts = []
        for j in range(key_size(out.aval.dtype)):
            operands = [self.extract_word(e, new, j) if is_key(old.aval.dtype) else new for old, new in zip(e.invars, ins)]
            part = Var(shaped(out.aval.shape, _U32).with_varying_axes(out.aval.varying_axes))
            self.eqns.append(Eqn(e.primitive, operands, [part], e.params, e.source))
            parts.append(self.emit(e, prims.expand_dims_p, [part], dimensions=(len(out.aval.shape),)))
        self.env[out] = self.emit(e, prims.concatenate_p, parts, dimension=len(out.aval.shape))

    def lower_comparison(self, e: Eqn, ins: list[Atom]) -> None:
        found: Var | None = None
        for j in range(key_size(e.invars[0].aval.dtype)):
            one = self.emit(e, e.primitive, [self.extract_word(e, a, j) for a in ins])
            # Keys are equal if all their data is; they differ if any is.
            combine = prims.and_p if e.primitive is prims.eq_p else prims.or_p
            found = one if found is None else self.emit(e, combine, [found, one])
        assert found is not None and found.aval.dtype == BOOL
        self.env[e.outvars[0]] = found
