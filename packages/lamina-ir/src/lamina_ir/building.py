"""Programs written by hand: a `Builder` takes one op after the other, `build` makes a program of a function that uses one.

What the op needs besides is filled in or refused here: params in words, types by the op's own rule, numbers and arrays as
literals and constants. What comes out has passed `check`.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import dtypes
from ._excerpt import excerpt
from .arguments import FUNCTION, operand_count, refuse_misfit
from .avals import ShapedArray, aval_of, shaped
from .building_nested import HoldsPrograms
from .check import check
from .errors import ProgramError, ShapeError
from .key_types import host_value
from .numbers_by_hand import NUMBERS, array_type, number, types_text, with_numbers
from .over import typed_equation
from .primitive import Primitive
from .program import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var
from .spelled import aval_spec, primitive_of, settled_params

__all__ = ["Builder", "build"]

_SOME = shaped((), dtypes.BOOL)  # the type of a number that is not settled yet
_OWN = (__name__, HoldsPrograms.__module__)


def _caller() -> Source:
    """The nearest line outside of these files."""
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__") in _OWN and frame.f_back is not None:
        frame = frame.f_back
    return Source(frame.f_code, frame.f_lasti)


class Builder(HoldsPrograms):
    """A program while it is written, from its inputs to its results.

    Operands are variables and literals that a builder gave, Python numbers, NumPy scalars and arrays. A Python number becomes
    a literal of the type of the operands beside it, as far as it can have that type; a NumPy scalar one of its own type; an
    array a constant, copied. Nothing is narrowed to 32 bits.

    Args:
      instead_of: an equation in whose place the new ones are to stand, as `rewrite` wants them. They may read what it reads,
        and come from its line; `replacement` ends the builder.

    >>> b = Builder()
    >>> x = b.input("f32[3]")
    >>> total = b.op("reduce_sum", b.op("mul", x, 2.0), axes=(0,))
    >>> b.build(total)
    { lambda ; a:f32[3]. let
        b:f32[3] = mul a 2.0:f32[]
        c:f32[] = reduce_sum[axes=(0,)] b
      in (c,) }
    """

    def __init__(self, *, instead_of: Eqn | None = None) -> None:
        if instead_of is not None and not isinstance(instead_of, Eqn):
            raise TypeError(f"Builder: instead_of must be an Eqn; got {excerpt(instead_of)}")
        self._instead_of = instead_of
        self._invars: list[Var] = []
        self._consts: list[tuple[Var, np.ndarray, Any]] = []  # with the array that was given
        self._eqns: list[Eqn] = []
        self._known: set[Var] = set()

    def __repr__(self) -> str:
        return f"<Builder: {len(self._invars)} inputs, {len(self._eqns)} equations>"

    def _new(self, aval: ShapedArray) -> Var:
        v = Var(aval)
        self._known.add(v)
        return v

    # --- what a program begins with
    def input(self, type: Any, dtype: Any = None, *, weak_type: bool = False) -> Var:
        """A new argument of the program.

        Args:
          type: its type: text as in programs, a `ShapedArray`, anything with a shape and a dtype; with `dtype` the shape.
          dtype: its element type, where `type` is a shape.
          weak_type: whether the type is weak.
        Returns:
          The variable.
        Raises:
          ShapeError, DTypeError: it is no type.

        >>> b = Builder()
        >>> b.input("f32[8,3]"), b.input((8, 3), "float32"), b.input(np.zeros((8, 3), np.float32))
        (Var(f32[8,3]), Var(f32[8,3]), Var(f32[8,3]))
        """
        if self._instead_of is not None:
            raise ProgramError("Builder.input: what stands in place of an equation reads what that reads, and has no inputs")
        v = self._new(aval_spec("Builder.input", type, dtype, weak_type))
        self._invars.append(v)
        return v

    def const(self, value: Any) -> Var:
        """A constant of the program: a copy of an array, of its own shape and dtype; once for each array.

        Args:
          value: an array or a number.
        Raises:
          TypeError: it is neither.
          ProgramError: in a builder `instead_of` an equation, as constants belong to whole programs.
        """
        return self._const("Builder.const: ", value)

    def _const(self, where: str, value: Any) -> Var:
        aval = array_type(where, value)
        if self._instead_of is not None:
            raise ProgramError(f"{where}the array {aval.long()} would be a constant of the program, and what stands in place "
                               "of an equation can have none; make it of literals, or an input of the program")
        array = np.array(host_value(value), aval.dtype)
        for v, held, given in self._consts:
            if given is value and held.tobytes() == array.tobytes():  # else it was changed in between
                return v
        array.flags.writeable = False
        v = self._new(aval)
        self._consts.append((v, array, value))
        return v

    def literal(self, value: Any, dtype: Any = None, *, weak_type: bool = False) -> Literal:
        """A scalar that is written into the program.

        Args:
          value: a number, or an array without axes.
          dtype: its element type; default: its own, of a Python number that which lamina computes in.
          weak_type: whether the type is weak.
        Raises:
          TypeError: it is no scalar, or has no such dtype.

        >>> Builder().literal(2, "bfloat16")
        Literal(2.0, bf16[])
        """
        where = "Builder.literal: "
        if type(value) in NUMBERS:
            own = aval_of(value).dtype if dtype is None else aval_spec("Builder.literal", (), dtype).dtype
            return number(where, value, own, weak_type)
        aval = array_type(where, value)
        if aval.shape:
            raise ShapeError(f"{where}literals are scalars; got an array {aval.long()}. Builder.const takes it")
        own = aval.dtype if dtype is None else aval_spec("Builder.literal", (), dtype).dtype
        return Literal(np.asarray(host_value(value)).astype(own)[()], shaped((), own, weak_type))

    # --- operands
    def _atom(self, where: str, x: Any) -> Any:
        """What stands for `x` in an equation; a Python number is left as it is, until its type is known."""
        if type(x) in NUMBERS or isinstance(x, Literal):
            return x
        if isinstance(x, Var):
            if isinstance(x, DropVar):
                raise ProgramError(f"{where}is a dropped result, which nothing can read")
            if x not in self._known and self._instead_of is None:
                raise ProgramError(f"{where}is a variable {x.aval.long()} of another program. A program reads its own inputs, "
                                   "constants and results; what a nested one needs is an operand of the op that holds it")
            return x
        aval = array_type(where, x)
        if aval.shape or dtypes.is_key(aval.dtype):
            return self._const(where, x)
        return Literal(np.asarray(host_value(x)).astype(aval.dtype)[()], aval)

    def op(self, prim: Primitive | str, *xs: Any, **params: Any) -> Any:
        """Apply an op.

        Args:
          prim: the primitive or its name.
          *xs: its operands.
          **params: its params. Those left out have the primitive's defaults, or their usual values, where there are any; lists
            become tuples, and names of dtypes dtypes. A nested program is a `ClosedJaxpr`, or a `Jaxpr` without constants.
        Returns:
          The variable of the result; a tuple of them for an op with several.
        Raises:
          ProgramError, TypeError: no such op, another program's variable, operands or params that do not fit the op.
          ShapeError, DTypeError: operands of types that the op refuses, in its own words.

        >>> from lamina_ir import prims
        >>> b = Builder()
        >>> x = b.input("i32[4]")
        >>> b.op(prims.sort_p, x, dimension=0)
        (Var(i32[4]),)
        >>> b.op("reduce_sum", x, axis=0)
        Traceback (most recent call last):
        TypeError: op `reduce_sum`: it has no param axis; its params are axes. Did you mean axes?
        """
        prim = primitive_of("Builder.op", prim)
        atoms = [self._atom(f"op `{prim.name}`: operand {i} ", x) for i, x in enumerate(xs)]
        params = settled_params(prim, params, [_SOME if type(a) in NUMBERS else a.aval for a in atoms])
        wanted = operand_count(prim)
        if wanted is not None and wanted != len(atoms):
            raise ShapeError(f"op `{prim.name}`: takes {wanted} operand{'s' * (wanted != 1)}; got {len(atoms)}")
        operands = with_numbers(prim, atoms, params)
        params, outs = _typed(prim, [a.aval for a in operands], params)
        outvars = [self._new(a) for a in outs]
        source = _caller() if self._instead_of is None else self._instead_of.source
        self._eqns.append(Eqn(prim, operands, outvars, params, source))
        return tuple(outvars) if prim.multiple else outvars[0]

    def _operands(self, call: str, xs: Sequence[Any], what: str = "operand") -> list[Any]:
        """Variables and literals; a Python number has the type that lamina computes in."""
        if not isinstance(xs, (tuple, list)):
            raise TypeError(f"{call}: expected a list of operands; got {excerpt(xs)}")
        atoms = [self._atom(f"{call}: {what} {i} ", x) for i, x in enumerate(xs)]
        return [self.literal(a) if type(a) in NUMBERS else a for a in atoms]

    # --- what comes out
    @classmethod
    def _written(cls, f: Callable[..., Any], *types: Any) -> ClosedJaxpr:
        """The program that `f` writes with a builder of its own."""
        b = cls()
        out = f(b, *[b.input(t) for t in types])
        return b.build(*(out if type(out) in (tuple, list) else (out,)))

    def build(self, *results: Any) -> ClosedJaxpr:
        """The program with these results. More may be written afterwards, and another program built.

        Args:
          *results: variables, literals, numbers and arrays.
        Raises:
          ProgramError: the program is not well formed, or the builder stands in place of an equation.

        >>> b = Builder()
        >>> x = b.input("f32[]")
        >>> b.build(x, 1.0)
        { lambda ; a:f32[]. let  in (a, 1.0:f32[]) }
        """
        if self._instead_of is not None:
            raise ProgramError("Builder.build: a builder in place of an equation ends with replacement(...)")
        outs = self._results("Builder.build", results)
        program = ClosedJaxpr(Jaxpr([v for v, _, _ in self._consts], self._invars, self._eqns, outs),
                              [array for _, array, _ in self._consts])
        check(program)
        return program

    def replacement(self, *results: Any) -> tuple[list[Eqn], list[Atom]]:
        """What a function that `rewrite` calls gives for the equation this builder stands for.

        Args:
          *results: what takes the place of each of the equation's results.
        Raises:
          ProgramError: the results are not as many, or not of the types, of the equation's.

        >>> from lamina_ir import parse, rewrite
        >>> def doubled(e):
        ...     b = Builder(instead_of=e)
        ...     return b.replacement(b.op("mul", e.invars[0], 2.0)) if e.primitive.name == "add" else None
        >>> rewrite(parse("{ lambda ; a:f32[]. let b:f32[] = add a a in (b,) }"), doubled)
        { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
        """
        e = self._instead_of
        if e is None:
            raise ProgramError("Builder.replacement: is for Builder(instead_of=equation); a whole program ends with build(...)")
        outs = self._results("Builder.replacement", results)
        wanted, got = [v.aval for v in e.outvars], [a.aval for a in outs]
        if len(wanted) != len(got) or not all(a.same_type(b) for a, b in zip(wanted, got)):
            raise ProgramError(f"Builder.replacement: `{e.primitive.name}` has the results {types_text(wanted)}; got "
                               f"{types_text(got)}")
        return self._eqns, outs

    def _results(self, call: str, results: Sequence[Any]) -> list[Any]:
        if len(results) == 1 and type(results[0]) in (tuple, list):
            raise TypeError(f"{call}: give results one by one, {call.split('.')[1]}(*results); got one "
                            f"{type(results[0]).__name__} of {len(results[0])}")
        return self._operands(call, results, "result")


def build(f: Callable[..., Any], *types: Any) -> ClosedJaxpr:
    """The program that a function writes.

    Args:
      f: called with a `Builder` and a variable for each type; gives a result, or a tuple or list of them.
      *types: the types of the program's inputs, as `Builder.input` takes them.
    Returns:
      A program that has passed `check`. Each equation knows the line of `f` that wrote it.
    Raises:
      TypeError, ProgramError, ShapeError, DTypeError: what the builder refuses, with the op, the operand or param, what came
        and what was expected.

    >>> program = build(lambda b, x, y: b.op("add", b.op("sin", x), y), "f32[3]", "f32[3]")
    >>> program
    { lambda ; a:f32[3] b:f32[3]. let c:f32[3] = sin a d:f32[3] = add c b in (d,) }
    >>> from lamina_ir import evaluate
    >>> evaluate(program, np.zeros(3), np.ones(3))
    [array([1., 1., 1.], dtype=float32)]
    """
    if not FUNCTION.test(f):
        raise TypeError(f"build: expected a function of a Builder and of variables; got {excerpt(f)}")
    return Builder._written(f, *types)


# --- what ops say ---------------------------------------------------------------------------------------------------
def _typed(prim: Primitive, avals: list[ShapedArray], params: dict[str, Any]) -> tuple[dict[str, Any], Sequence[ShapedArray]]:
    """The params, with nested programs of types for these operands, and the types of the results."""
    try:
        outs = prim.infer(*avals, **params)
    except Exception as error:  # a type rule fed with nonsense may fail in any way
        refuse_misfit("Builder.op", error, prim, avals, params)
        raise
    params, out = typed_equation(prim, avals, params, frozenset(), outs)
    return params, out if prim.multiple else [out]
