"""Build programs by hand: a `Builder` appends one equation after the other; `build` runs a function with a builder.

The builder fills in default params, infers types by the primitives' type rules, and converts numbers and arrays to
literals and constants. The resulting program has passed `check`.
"""
from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._util.short_repr import short_repr
from .._core.arg_checks import FUNCTION, count_operands, raise_type_rule_error
from .._types.avals import ShapedArray, aval_of, shaped
from .regions import RegionBuilder
from .._passes.verify import check
from ..errors import ProgramError, ShapeError
from .._types.key_dtypes import read_on_host
from .literals import NUMBER_TYPES, infer_array_type, make_number_literal, format_types, convert_numbers
from .._passes.varying_axes import infer_equation_types
from .._core.primitive import Primitive
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var
from .normalize import parse_aval, as_primitive, normalize_params
from ..typing import Function, ParamValue, Params, Value
from .._typing import DTypeSpec, Operand, TypeSpec
from .._util.former_names import former_parameters

__all__ = ["Builder", "build"]

_SOME = shaped((), dtypes.BOOL)  # placeholder type of a Python number whose type is not known yet
_OWN = (__name__, RegionBuilder.__module__)


def _caller() -> Source:
    """Return the innermost source line outside of the builder's modules."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _OWN and frame.f_back is not None:
        frame = frame.f_back
    return Source(frame.f_code, frame.f_lasti)


class Builder(RegionBuilder):
    """Builds one program, from its inputs to its results.

    Operands are variables and literals of the builder, Python numbers, NumPy scalars and arrays. A Python number
    becomes a literal of the dtype of the other operands if it is representable in it. A NumPy scalar becomes a literal
    of its own type. An array becomes a constant (a copy). Nothing is narrowed to 32 bits.

    Args:
      replacing: an equation that the new equations replace, for `rewrite`. They may read its operands, and get its
        source. Such a builder ends with `replacement`.

    >>> b = Builder()
    >>> x = b.input("f32[3]")
    >>> total = b.op("reduce_sum", b.op("mul", x, 2.0), axes=(0,))
    >>> b.build(total)
    { lambda ; a:f32[3]. let
        b:f32[3] = mul a 2.0:f32[]
        c:f32[] = reduce_sum[axes=(0,)] b
      in (c,) }
    """

    @former_parameters(instead_of="replacing")
    def __init__(self, *, replacing: Eqn | None = None) -> None:
        if replacing is not None and not isinstance(replacing, Eqn):
            raise TypeError(f"Builder: replacing must be an Eqn; got {short_repr(replacing)}")
        self._replaced = replacing
        self._invars: list[Var] = []
        self._consts: list[tuple[Var, np.ndarray, Value]] = []  # with the array that was given
        self._eqns: list[Eqn] = []
        self._known: set[Var] = set()

    @override
    def __repr__(self) -> str:
        return f"<Builder: {len(self._invars)} inputs, {len(self._eqns)} equations>"

    @override
    def _new(self, aval: ShapedArray) -> Var:
        v = Var(aval)
        self._known.add(v)
        return v

    # --- what a program begins with
    def input(self, type: TypeSpec, dtype: DTypeSpec = None, *, weak_type: bool = False) -> Var:
        """Add an argument to the program.

        Args:
          type: its type: text as in programs, a `ShapedArray`, anything with a shape and a dtype; or, with `dtype`, a
            shape.
          dtype: its dtype, if `type` is a shape.
          weak_type: whether the type is weak.
        Returns:
          The variable.
        Raises:
          ShapeError, DTypeError: `type` is not a type.

        >>> b = Builder()
        >>> b.input("f32[8,3]"), b.input((8, 3), "float32"), b.input(np.zeros((8, 3), np.float32))
        (Var(f32[8,3]), Var(f32[8,3]), Var(f32[8,3]))
        """
        if self._replaced is not None:
            raise ProgramError("Builder.input: a builder that replaces an equation cannot add inputs; use the operands of the "
                               "equation")
        v = self._new(parse_aval("Builder.input", type, dtype, weak_type))
        self._invars.append(v)
        return v

    def const(self, value: Value) -> Var:
        """Add a constant to the program: a copy of an array. The same array is added once.

        Args:
          value: an array or a number.
        Raises:
          TypeError: it is neither.
          ProgramError: the builder replaces an equation; only a whole program can have constants.
        """
        return self._const("Builder.const: ", value)

    @override
    def _const(self, where: str, value: Value) -> Var:
        aval = infer_array_type(where, value)
        if self._replaced is not None:
            raise ProgramError(f"{where}the array {aval.str_long()} would become a constant, which the replacement of an "
                               "equation cannot have; compute it from literals, or pass it as an input of the program")
        array = np.array(read_on_host(value), aval.dtype)
        for v, stored, given in self._consts:
            if given is value and stored.tobytes() == array.tobytes():  # else the caller has modified it since
                return v
        array.flags.writeable = False
        v = self._new(aval)
        self._consts.append((v, array, value))
        return v

    def literal(self, value: Value, dtype: DTypeSpec = None, *, weak_type: bool = False) -> Literal:
        """Return a scalar literal.

        Args:
          value: a number, or an array without axes.
          dtype: its dtype. Default: its own; for a Python number the default dtype of its kind.
          weak_type: whether the type is weak.
        Raises:
          TypeError: it is not a scalar, or not representable in the dtype.

        >>> Builder().literal(2, "bfloat16")
        Literal(2.0, bf16[])
        """
        where = "Builder.literal: "
        if type(value) in NUMBER_TYPES:
            own = aval_of(value).dtype if dtype is None else parse_aval("Builder.literal", (), dtype).dtype
            return make_number_literal(where, value, own, weak_type)
        aval = infer_array_type(where, value)
        if aval.shape:
            raise ShapeError(f"{where}literals are scalars; got an array {aval.str_long()}. Builder.const takes it")
        own = aval.dtype if dtype is None else parse_aval("Builder.literal", (), dtype).dtype
        return Literal(np.asarray(read_on_host(value)).astype(own)[()], shaped((), own, weak_type))

    # --- operands
    def _atom(self, where: str, x: Operand) -> Operand:
        """Convert an operand to an atom. A Python number is returned unchanged, because its type is not known yet."""
        if type(x) in NUMBER_TYPES or isinstance(x, Literal):
            return x
        if isinstance(x, Var):
            if isinstance(x, DropVar):
                raise ProgramError(f"{where}is a dropped result, which cannot be read")
            if x not in self._known and self._replaced is None:
                raise ProgramError(f"{where}is a variable {x.aval.str_long()} of another program. Use this program's inputs, "
                                   "constants and results; pass values to a nested program as operands of its equation")
            return x
        aval = infer_array_type(where, x)
        if aval.shape or dtypes.is_key(aval.dtype):
            return self._const(where, x)
        return Literal(np.asarray(read_on_host(x)).astype(aval.dtype)[()], aval)

    @override
    def op(self, prim: Primitive | str, *xs: Operand, **params: ParamValue) -> Var | tuple[Var, ...]:
        """Append an equation that applies a primitive.

        Args:
          prim: the primitive or its name.
          *xs: its operands.
          **params: its params. Omitted params get the primitive's defaults, or usual values if there are any. Lists
            become tuples, and names of dtypes become dtypes. A nested program is a `ClosedJaxpr`, or a `Jaxpr` without
            constants.
        Returns:
          The variable of the result; a tuple of variables for a primitive with several results.
        Raises:
          ProgramError, TypeError: unknown primitive, a variable of another program, or operands or params that do not
            fit.
          ShapeError, DTypeError: raised by the type rule of the primitive.

        >>> from lamina_ir import prims
        >>> b = Builder()
        >>> x = b.input("i32[4]")
        >>> b.op(prims.sort_p, x, dimension=0)
        (Var(i32[4]),)
        >>> b.op("reduce_sum", x, axis=0)
        Traceback (most recent call last):
        TypeError: op `reduce_sum`: it has no param axis; its params are axes. Did you mean axes?
        """
        prim = as_primitive("Builder.op", prim)
        atoms = [self._atom(f"op `{prim.name}`: operand {i} ", x) for i, x in enumerate(xs)]
        params = normalize_params(prim, params, [_SOME if type(a) in NUMBER_TYPES else a.aval for a in atoms])
        wanted = count_operands(prim)
        if wanted is not None and wanted != len(atoms):
            raise ShapeError(f"op `{prim.name}`: takes {wanted} operand{'s' * (wanted != 1)}; got {len(atoms)}")
        operands = convert_numbers(prim, atoms, params)
        params, outs = _infer_types(prim, [a.aval for a in operands], params)
        outvars = [self._new(a) for a in outs]
        source = _caller() if self._replaced is None else self._replaced.source
        self._eqns.append(Eqn(prim, operands, outvars, params, source))
        return tuple(outvars) if prim.multiple else outvars[0]

    @override
    def _operands(self, call: str, xs: Sequence[Operand], what: str = "operand") -> list[Atom]:
        """Convert operands to atoms; a Python number gets the default dtype of its kind."""
        if not isinstance(xs, (tuple, list)):
            raise TypeError(f"{call}: expected a list of operands; got {short_repr(xs)}")
        atoms = [self._atom(f"{call}: {what} {i} ", x) for i, x in enumerate(xs)]
        return [self.literal(a) if type(a) in NUMBER_TYPES else a for a in atoms]

    # --- results
    @classmethod
    @override
    def _written(cls, f: Function, *types: TypeSpec) -> ClosedJaxpr:
        """Return the program that `f` builds with a new builder."""
        b = cls()
        out = f(b, *[b.input(t) for t in types])
        return b.build(*(out if type(out) in (tuple, list) else (out,)))

    def build(self, *results: Operand) -> ClosedJaxpr:
        """Return the program with these results. The builder can be used further, to build another program.

        Args:
          *results: variables, literals, numbers and arrays.
        Raises:
          ProgramError: the program is not well formed, or the builder replaces an equation.

        >>> b = Builder()
        >>> x = b.input("f32[]")
        >>> b.build(x, 1.0)
        { lambda ; a:f32[]. let  in (a, 1.0:f32[]) }
        """
        if self._replaced is not None:
            raise ProgramError("Builder.build: this builder replaces an equation; call replacement(...) instead")
        outs = self._results("Builder.build", results)
        program = ClosedJaxpr(Jaxpr([v for v, _, _ in self._consts], self._invars, self._eqns, outs),
                              [array for _, array, _ in self._consts])
        check(program)
        return program

    def replacement(self, *results: Operand) -> tuple[list[Eqn], list[Atom]]:
        """Return the equations and results that replace the equation, in the form that `rewrite` expects.

        Args:
          *results: the values that replace the equation's results.
        Raises:
          ProgramError: the number or the types of the results are not those of the equation.

        >>> from lamina_ir import parse, rewrite
        >>> def doubled(e):
        ...     b = Builder(replacing=e)
        ...     return b.replacement(b.op("mul", e.invars[0], 2.0)) if e.primitive.name == "add" else None
        >>> rewrite(parse("{ lambda ; a:f32[]. let b:f32[] = add a a in (b,) }"), doubled)
        { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
        """
        e = self._replaced
        if e is None:
            raise ProgramError("Builder.replacement: this builder does not replace an equation; call build(...) instead")
        outs = self._results("Builder.replacement", results)
        wanted, got = [v.aval for v in e.outvars], [a.aval for a in outs]
        if len(wanted) != len(got) or not all(a.same_type(b) for a, b in zip(wanted, got)):
            raise ProgramError(f"Builder.replacement: results must have the types of those of `{e.primitive.name}`, "
                               f"{format_types(wanted)}; got {format_types(got)}")
        return self._eqns, outs

    def _results(self, call: str, results: Sequence[Operand]) -> list[Atom]:
        if len(results) == 1 and type(results[0]) in (tuple, list):
            raise TypeError(f"{call}: pass results as separate arguments, {call.split('.')[1]}(*results); got one "
                            f"{type(results[0]).__name__} of {len(results[0])}")
        return self._operands(call, results, "result")


def build(f: Function, *types: TypeSpec) -> ClosedJaxpr:
    """Build a program with a function.

    Args:
      f: called with a `Builder` and a variable for each type; returns a result, or a tuple or list of results.
      *types: the types of the program's inputs, as for `Builder.input`.
    Returns:
      A program that has passed `check`. Each equation has the line of `f` that appended it as source.
    Raises:
      TypeError, ProgramError, ShapeError, DTypeError: raised by the builder; the message names the primitive and the
        operand or param.

    >>> program = build(lambda b, x, y: b.op("add", b.op("sin", x), y), "f32[3]", "f32[3]")
    >>> program
    { lambda ; a:f32[3] b:f32[3]. let c:f32[3] = sin a d:f32[3] = add c b in (d,) }
    >>> from lamina_ir import evaluate
    >>> evaluate(program, np.zeros(3), np.ones(3))
    [array([1., 1., 1.], dtype=float32)]
    """
    if not FUNCTION.test(f):
        raise TypeError(f"build: expected a function of a Builder and of variables; got {short_repr(f)}")
    return Builder._written(f, *types)


# --- types ----------------------------------------------------------------------------------------------------------
def _infer_types(prim: Primitive, avals: list[ShapedArray], params: Params) -> tuple[Params, Sequence[ShapedArray]]:
    """Return the params, with nested programs annotated for these operands, and the types of the results."""
    try:
        outs = prim.infer(*avals, **params)
    except Exception as error:  # a type rule may raise anything for malformed operands
        raise_type_rule_error("Builder.op", error, prim, avals, params)
        raise
    params, out = infer_equation_types(prim, avals, params, frozenset(), outs)
    return params, out if prim.multiple else [out]
