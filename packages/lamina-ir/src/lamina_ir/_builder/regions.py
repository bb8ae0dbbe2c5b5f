"""`Builder` methods for primitives with nested programs: calls, branches and loops, whose bodies are programs or
functions."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .._types import dtypes
from .._util.short_repr import short_repr
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .literals import format_types
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from .._core.arg_checks import as_closed_jaxpr
from ..typing import Function, Value
from .._typing import Operand, ProgramSpec

__all__ = ["RegionBuilder"]


class RegionBuilder:
    """The part of `Builder` for primitives that hold programs."""

    _eqns: list[Eqn]
    op: Function
    _const: Callable[[str, Value], Var]
    _new: Callable[[ShapedArray], Var]
    _operands: Callable[..., list[Atom]]
    _written: Callable[..., ClosedJaxpr]

    def _body(self, call: str, program: ProgramSpec, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
        """Return a nested program: `program` itself, or the program that a function builds for operands of these
        types."""
        if callable(program) and not isinstance(program, (Jaxpr, ClosedJaxpr)):
            return self._written(program, *[a.strip_weak_type() for a in avals])
        return as_closed_jaxpr(call, program)

    def call(self, program: ProgramSpec, *xs: Operand, name: str = "f") -> tuple[Var, ...]:
        """Append a call of a program, an `xla_call`.

        Args:
          program: a program, or a function as for `build`.
          *xs: its operands.
          name: the name of the call.

        >>> from lamina_ir import Builder
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
                       call_jaxpr=self._body("Builder.call", program, [x.aval for x in operands]))

    def cond(self, pred: Operand, if_true: ProgramSpec, if_false: ProgramSpec, *xs: Operand) -> tuple[Var, ...]:
        """Append a choice of two programs, a `cond`.

        Args:
          pred: a scalar bool.
          if_true, if_false: programs, or functions as for `build`, with results of the same types.
          *xs: operands of both.
        """
        (pred,) = self._operands("Builder.cond", [pred])
        if pred.aval.shape or not dtypes.is_bool(pred.aval.dtype):
            raise DTypeError(f"Builder.cond: pred must be bool[]; got {pred.aval.str_long()}. Builder.switch takes a number")
        number = self.op("convert_element_type", pred, new_dtype=np.int32)
        return self._branches("Builder.cond", number, (if_false, if_true), xs)

    def switch(self, index: Operand, branches: Sequence[ProgramSpec], *xs: Operand) -> tuple[Var, ...]:
        """Append a choice of several programs, a `cond`.

        Args:
          index: the index of the branch that runs, int32; an index out of range selects the last branch.
          branches: programs, or functions as for `build`, with results of the same types.
          *xs: operands of all of them.

        >>> from lamina_ir import Builder
        >>> b = Builder()
        >>> i, x = b.input("i32[]"), b.input("f32[]")
        >>> program = b.build(*b.switch(i, [lambda b, x: b.op("sin", x), lambda b, x: b.op("neg", x)], x))
        >>> from lamina_ir import evaluate
        >>> evaluate(program, 1, 2.0)
        [array(-2., dtype=float32)]
        """
        if not isinstance(branches, (tuple, list)):
            raise TypeError(f"Builder.switch: branches must be a list of programs; got {short_repr(branches)}")
        return self._branches("Builder.switch", index, branches, xs)

    def _branches(self, call: str, index: Operand, branches: Sequence[ProgramSpec],
                  xs: Sequence[Operand]) -> tuple[Var, ...]:
        operands = self._operands(call, xs)
        avals = [x.aval for x in operands]
        return self.op("cond", index, *operands, branches=tuple([self._body(call, f, avals) for f in branches]))

    def while_loop(self, test: ProgramSpec, body: ProgramSpec, *init: Operand, test_consts: Sequence[Operand] = (),
                   body_consts: Sequence[Operand] = (), max_iters: int | None = None) -> tuple[Var, ...]:
        """Append a `while` loop.

        Args:
          test: a program, or a function as for `build`, of `test_consts` and the carries; returns a bool.
          body: likewise, of `body_consts` and the carries; returns the new carries.
          *init: the initial carries.
          test_consts, body_consts: further operands of test and body, the same in every iteration.
          max_iters: the most iterations; None for no bound.

        >>> from lamina_ir import Builder
        >>> b = Builder()
        >>> x = b.input("f32[]")
        >>> loop = b.while_loop(lambda b, y: b.op("lt", y, 100.0), lambda b, y: b.op("mul", y, 2.0), x)
        >>> from lamina_ir import evaluate
        >>> evaluate(b.build(*loop), 3.0)
        [array(192., dtype=float32)]
        """
        call = "Builder.while_loop"
        carry, tests, bodies = [self._operands(call, xs) for xs in (init, test_consts, body_consts)]
        test_avals, body_avals = [[a.aval for a in (*consts, *carry)] for consts in (tests, bodies)]
        return self.op("while", *tests, *bodies, *carry, cond_jaxpr=self._body(call, test, test_avals), cond_nconsts=len(tests),
                       body_jaxpr=self._body(call, body, body_avals), body_nconsts=len(bodies), max_iters=max_iters)

    def scan(self, body: ProgramSpec, init: Sequence[Operand] = (), xs: Sequence[Operand] = (), *,
             consts: Sequence[Operand] = (), length: int | None = None, reverse: bool = False,
             unroll: int = 1) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """Append a `scan`, a loop over the leading axis of arrays.

        Args:
          body: a program, or a function as for `build`, of `consts`, the carries, and a slice of each of `xs`; returns
            the new carries, then slices of the stacked results.
          init: the initial carries.
          xs: arrays with the same leading length.
          consts: further operands, the same in every iteration.
          length: the number of iterations; required if there are no `xs`.
          reverse: whether the last slice comes first.
          unroll: how many iterations a compiler unrolls.
        Returns:
          The final carries, and the stacked results.

        >>> from lamina_ir import Builder
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
        held_ops, carry, stacked = [self._operands(call, group) for group in (consts, init, xs)]
        for i, a in enumerate(stacked):
            if not a.aval.shape:
                raise ShapeError(f"{call}: xs[{i}] is scanned over and must have a leading axis; got {a.aval.str_long()}")
        if length is None:
            if not stacked:
                raise TypeError(f"{call}: length= is required if there are no xs")
            length = stacked[0].aval.shape[0]
        inner = [a.aval for a in (*held_ops, *carry)] + [shaped(a.aval.shape[1:], a.aval.dtype) for a in stacked]
        outs = self.op("scan", *held_ops, *carry, *stacked, jaxpr=self._body(call, body, inner), length=length, reverse=reverse,
                       num_carry=len(carry), num_consts=len(held_ops), unroll=unroll)
        return outs[:len(carry)], outs[len(carry):]

    def inline(self, program: ProgramSpec, *xs: Operand) -> tuple[Atom, ...]:
        """Append the equations of a program.

        Args:
          program: a program.
          *xs: its operands.
        Returns:
          Its results.

        >>> from lamina_ir import Builder, parse
        >>> b = Builder()
        >>> b.build(*b.inline(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), 2.0))
        { lambda ; . let a:f32[] = sin 2.0:f32[] in (a,) }
        """
        program = as_closed_jaxpr("Builder.inline", program)
        operands = self._operands("Builder.inline", xs)
        wanted = program.in_avals
        if len(operands) != len(wanted) or not all(a.aval.same_type(t) for a, t in zip(operands, wanted)):
            raise ShapeError(f"Builder.inline: the program takes {format_types(wanted)}; got "
                             f"{format_types([a.aval for a in operands])}")
        env: dict[Atom, Atom] = dict(zip(program.jaxpr.invars, operands))
        env.update([(v, self._const("Builder.inline: ", c)) for v, c in zip(program.jaxpr.constvars, program.consts)])
        for e in program.eqns:
            outvars = [self._new(v.aval) for v in e.outvars]
            self._eqns.append(Eqn(e.primitive, [env.get(a, a) for a in e.invars], outvars, e.params, e.source))
            env.update(zip(e.outvars, outvars))
        return tuple([env.get(a, a) for a in program.jaxpr.outvars])
