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
from .check import check
from .errors import DTypeError, LaminaError, ProgramError, ShapeError
from .key_types import host_value
from .over import typed_equation
from .primitive import Primitive
from .program import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var
from .spelled import aval_spec, closed_program, primitive_of, settled_params
from .wiring import Wired

__all__ = ["Builder", "build"]

_NUMBERS = (bool, int, float, complex)
_SOME = shaped((), dtypes.BOOL)  # the type of a number that is not settled yet
_KINDS = (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex)


def _caller() -> Source:
    """The nearest line outside of this file."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        frame = frame.f_back
    return Source(frame.f_code, frame.f_lasti)


def _types(avals: Sequence[ShapedArray]) -> str:
    return ", ".join([a.long() for a in avals]) or "none"


class Builder:
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
        aval = _array_type(where, value)
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
        if type(value) in _NUMBERS:
            own = aval_of(value).dtype if dtype is None else aval_spec("Builder.literal", (), dtype).dtype
            return _number(where, value, own, weak_type)
        aval = _array_type(where, value)
        if aval.shape:
            raise ShapeError(f"{where}literals are scalars; got an array {aval.long()}. Builder.const takes it")
        own = aval.dtype if dtype is None else aval_spec("Builder.literal", (), dtype).dtype
        return Literal(np.asarray(host_value(value)).astype(own)[()], shaped((), own, weak_type))

    # --- operands
    def _atom(self, where: str, x: Any) -> Any:
        """What stands for `x` in an equation; a Python number is left as it is, until its type is known."""
        if type(x) in _NUMBERS or isinstance(x, Literal):
            return x
        if isinstance(x, Var):
            if isinstance(x, DropVar):
                raise ProgramError(f"{where}is a dropped result, which nothing can read")
            if x not in self._known and self._instead_of is None:
                raise ProgramError(f"{where}is a variable {x.aval.long()} of another program. A program reads its own inputs, "
                                   "constants and results; what a nested one needs is an operand of the op that holds it")
            return x
        aval = _array_type(where, x)
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
        params = settled_params(prim, params, [_SOME if type(a) in _NUMBERS else a.aval for a in atoms])
        wanted = operand_count(prim)
        if wanted is not None and wanted != len(atoms):
            raise ShapeError(f"op `{prim.name}`: takes {wanted} operand{'s' * (wanted != 1)}; got {len(atoms)}")
        operands = _with_numbers(prim, atoms, params)
        params, outs = _typed(prim, [a.aval for a in operands], params)
        outvars = [self._new(a) for a in outs]
        source = _caller() if self._instead_of is None else self._instead_of.source
        self._eqns.append(Eqn(prim, operands, outvars, params, source))
        return tuple(outvars) if prim.multiple else outvars[0]

    # --- ops that hold programs
    def call(self, program: Any, *xs: Any, name: str = "f") -> tuple[Var, ...]:
        """Call a program, by `xla_call`.

        Args:
          program: a program, or a function as `build` takes it.
          *xs: its operands.
          name: the name of the call.

        >>> b = Builder()
        >>> x = b.input("f32[]")
        >>> b.build(*b.call(lambda b, y: b.op("sin", y), x, name="wave"))
        { lambda ; a:f32[]. let
            b:f32[] = xla_call[
              call_jaxpr={ lambda ; c:f32[]. let d:f32[] = sin c in (d,) }
              name=wave
            ] a
          in (b,) }
        """
        operands = self._operands("Builder.call", xs)
        return self.op("xla_call", *operands, name=name,
                       call_jaxpr=_program("Builder.call", program, [x.aval for x in operands]))

    def cond(self, pred: Any, if_true: Any, if_false: Any, *xs: Any) -> tuple[Var, ...]:
        """One of two programs, by `cond`.

        Args:
          pred: a scalar truth value.
          if_true, if_false: programs, or functions as `build` takes them, with results of the same types.
          *xs: operands of both.
        """
        (pred,) = self._operands("Builder.cond", [pred])
        if pred.aval.shape or not dtypes.is_bool(pred.aval.dtype):
            raise DTypeError(f"Builder.cond: pred must be bool[]; got {pred.aval.long()}. Builder.switch takes a number")
        number = self.op("convert_element_type", pred, new_dtype=np.int32)
        return self._branches("Builder.cond", number, (if_false, if_true), xs)

    def switch(self, index: Any, branches: Sequence[Any], *xs: Any) -> tuple[Var, ...]:
        """One of several programs, by `cond`.

        Args:
          index: the number of the one that runs, int32; one that there is not stands for the last.
          branches: programs, or functions as `build` takes them, with results of the same types.
          *xs: operands of all of them.

        >>> b = Builder()
        >>> i, x = b.input("i32[]"), b.input("f32[]")
        >>> program = b.build(*b.switch(i, [lambda b, x: b.op("sin", x), lambda b, x: b.op("neg", x)], x))
        >>> from lamina_ir import evaluate
        >>> evaluate(program, 1, 2.0)
        [array(-2., dtype=float32)]
        """
        if not isinstance(branches, (tuple, list)):
            raise TypeError(f"Builder.switch: branches must be a list of programs; got {excerpt(branches)}")
        return self._branches("Builder.switch", index, branches, xs)

    def _branches(self, call: str, index: Any, branches: Sequence[Any], xs: Sequence[Any]) -> tuple[Var, ...]:
        operands = self._operands(call, xs)
        avals = [x.aval for x in operands]
        return self.op("cond", index, *operands, branches=tuple([_program(call, f, avals) for f in branches]))

    def while_loop(self, test: Any, body: Any, *init: Any, test_consts: Sequence[Any] = (), body_consts: Sequence[Any] = (),
                   max_iters: int | None = None) -> tuple[Var, ...]:
        """A loop as long as a test holds, by `while`.

        Args:
          test: a program, or a function as `build` takes it, of `test_consts` and what the loop carries; gives a truth value.
          body: likewise, of `body_consts` and what the loop carries; gives what it carries on.
          *init: what it carries first.
          test_consts, body_consts: what each of them reads in every turn.
          max_iters: at most so many turns.

        >>> b = Builder()
        >>> x = b.input("f32[]")
        >>> loop = b.while_loop(lambda b, y: b.op("lt", y, 100.0), lambda b, y: b.op("mul", y, 2.0), x)
        >>> from lamina_ir import evaluate
        >>> evaluate(b.build(*loop), 3.0)
        [array(192., dtype=float32)]
        """
        call = "Builder.while_loop"
        carry, tests, bodies = [self._operands(call, xs) for xs in (init, test_consts, body_consts)]
        held, run = [[a.aval for a in (*consts, *carry)] for consts in (tests, bodies)]
        return self.op("while", *tests, *bodies, *carry, cond_jaxpr=_program(call, test, held), cond_nconsts=len(tests),
                       body_jaxpr=_program(call, body, run), body_nconsts=len(bodies), max_iters=max_iters)

    def scan(self, body: Any, init: Sequence[Any] = (), xs: Sequence[Any] = (), *, consts: Sequence[Any] = (),
             length: int | None = None, reverse: bool = False, unroll: int = 1) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """A loop over the leading axis of arrays, by `scan`.

        Args:
          body: a program, or a function as `build` takes it, of `consts`, what the loop carries, and a slice of each of `xs`;
            gives what it carries on, then slices of what it stacks.
          init: what it carries first.
          xs: arrays of the same leading length.
          consts: what each turn reads.
          length: the number of turns; needed where there are no `xs`.
          reverse: whether the last slice comes first.
          unroll: how many turns a compiler writes out.
        Returns:
          What the last turn carries on, and what was stacked.

        >>> b = Builder()
        >>> xs = b.input("f32[4]")
        >>> def step(b, total, x):
        ...     total = b.op("add", total, x)
        ...     return total, total
        >>> (total,), (sums,) = b.scan(step, [np.float32(0)], [xs])
        >>> from lamina_ir import evaluate
        >>> evaluate(b.build(sums), [1., 2., 3., 4.])
        [array([ 1.,  3.,  6., 10.], dtype=float32)]
        """
        call = "Builder.scan"
        held, carry, stacked = [self._operands(call, group) for group in (consts, init, xs)]
        for i, a in enumerate(stacked):
            if not a.aval.shape:
                raise ShapeError(f"{call}: xs[{i}] is scanned over and must have a leading axis; got {a.aval.long()}")
        if length is None:
            if not stacked:
                raise TypeError(f"{call}: without xs it needs length=, the number of turns")
            length = stacked[0].aval.shape[0]
        inner = [a.aval for a in (*held, *carry)] + [shaped(a.aval.shape[1:], a.aval.dtype) for a in stacked]
        outs = self.op("scan", *held, *carry, *stacked, jaxpr=_program(call, body, inner), length=length, reverse=reverse,
                       num_carry=len(carry), num_consts=len(held), unroll=unroll)
        return outs[:len(carry)], outs[len(carry):]

    def inline(self, program: Any, *xs: Any) -> tuple[Atom, ...]:
        """The equations of a program, written out here.

        Args:
          program: a program.
          *xs: its operands.
        Returns:
          Its results.

        >>> from lamina_ir import parse
        >>> b = Builder()
        >>> b.build(*b.inline(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), 2.0))
        { lambda ; . let a:f32[] = sin 2.0:f32[] in (a,) }
        """
        program = closed_program("Builder.inline", program)
        operands = self._operands("Builder.inline", xs)
        wanted = program.in_avals
        if len(operands) != len(wanted) or not all(a.aval.same_type(t) for a, t in zip(operands, wanted)):
            raise ShapeError(f"Builder.inline: the program takes {_types(wanted)}; got {_types([a.aval for a in operands])}")
        env: dict[Any, Any] = dict(zip(program.jaxpr.invars, operands))
        env.update([(v, self._const("Builder.inline: ", c)) for v, c in zip(program.jaxpr.constvars, program.consts)])
        for e in program.eqns:
            outvars = [self._new(v.aval) for v in e.outvars]
            self._eqns.append(Eqn(e.primitive, [env.get(a, a) for a in e.invars], outvars, e.params, e.source))
            env.update(zip(e.outvars, outvars))
        return tuple([env.get(a, a) for a in program.jaxpr.outvars])

    def _operands(self, call: str, xs: Sequence[Any], what: str = "operand") -> list[Any]:
        """Variables and literals; a Python number has the type that lamina computes in."""
        if not isinstance(xs, (tuple, list)):
            raise TypeError(f"{call}: expected a list of operands; got {excerpt(xs)}")
        atoms = [self._atom(f"{call}: {what} {i} ", x) for i, x in enumerate(xs)]
        return [self.literal(a) if type(a) in _NUMBERS else a for a in atoms]

    # --- what comes out
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
            raise ProgramError(f"Builder.replacement: `{e.primitive.name}` has the results {_types(wanted)}; got {_types(got)}")
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
    b = Builder()
    out = f(b, *[b.input(t) for t in types])
    return b.build(*(out if type(out) in (tuple, list) else (out,)))


# --- what operands are ---------------------------------------------------------------------------------------------
def _array_type(where: str, x: Any) -> ShapedArray:
    """The type of an array or scalar, of its own dtype; of a Python number that which lamina computes in."""
    try:
        aval = aval_of(x)
    except TypeError:
        raise TypeError(f"{where}must be a variable, a literal, an array or a number; got {excerpt(x)}") from None
    dtype = getattr(x, "dtype", None)
    return shaped(aval.shape, aval.dtype if dtype is None else dtypes.as_dtype(dtype))


def _number(where: str, x: Any, dtype: np.dtype, weak: bool = False) -> Literal:
    """A Python number as a literal of this dtype."""
    kind = next((k for k, holds in enumerate(_KINDS) if holds(dtype)), -1)
    try:
        if _NUMBERS.index(type(x)) > kind or kind > 0 and type(x) is bool:
            raise OverflowError
        np.asarray(x, dtype)
    except (OverflowError, ValueError, TypeError):
        raise DTypeError(f"{where}{x!r} is no {dtypes.long_name(dtype)}") from None
    return Literal(_NUMBERS[kind](x), shaped((), dtype, weak))


def _with_numbers(prim: Primitive, atoms: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """The operands with literals for Python numbers: of the type that a nested program takes, or else of that of the operands
    beside them."""
    if not any(type(a) in _NUMBERS for a in atoms):
        return list(atoms)
    beside = [a.aval.dtype for a in atoms if type(a) not in _NUMBERS]
    found = []
    for i, a in enumerate(atoms):
        if type(a) in _NUMBERS:
            dtype = _type_inside(prim, params, len(atoms), i) or _type_beside(a, beside, prim.elementwise)
            a = _number(f"op `{prim.name}`: operand {i} ", a, dtype or aval_of(a).dtype)
        found.append(a)
    return found


def _type_inside(prim: Primitive, params: dict[str, Any], count: int, i: int) -> np.dtype | None:
    if prim.flow is None or not prim.flow.operands:
        return None
    try:
        return Wired(prim, params, count).type_inside(i).dtype
    except (LaminaError, LookupError):  # the op itself will say what does not fit
        return None


def _type_beside(x: Any, beside: Sequence[np.dtype], elementwise: bool) -> np.dtype | None:
    """The first dtype beside `x` that the number can have; where operands need not be of one type, integers stay integers."""
    kind = _NUMBERS.index(type(x))
    if kind == 0:
        return None
    last = len(_KINDS) if elementwise or kind > 1 else kind + 1
    return next((d for d in beside if any(holds(d) for holds in _KINDS[kind:last])), None)


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


def _program(call: str, program: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """A nested program: as it is, or as a function writes it for operands of these types."""
    if callable(program) and not isinstance(program, (Jaxpr, ClosedJaxpr)):
        return build(program, *[a.strong() for a in avals])
    return closed_program(call, program)
