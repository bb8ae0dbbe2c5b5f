"""Linear functions that `vjp` and `linearize` return.

They are pytrees whose leaves are the residuals, so `jit`, loops and rules can take and return them.
"""
from __future__ import annotations

import copy
from typing import Any

from typing_extensions import override
from lamina_ir import trees
from lamina_ir.typing import Function, Params, Tree, Value
from lamina_tracing.extend import api_boundary

from .._typing import LinearEqn
from .linearize import LinearProgram, LinearTrace, LinearTracer, is_linear

__all__ = ["LinearFunction"]


class LinearFunction:
    """A function that applies a linear program; a pytree node whose leaves are the arrays that the program holds.

    It has the interface of `functools.partial`: `f(*given)` is `f.func(*f.args, *given, **f.keywords)`. `f.args` is
    `([arrays],)`, and `f.func` holds no arrays.

    >>> from lamina_autodiff import vjp
    >>> import numpy as np
    >>> from lamina_tracing import lax
    >>> pull = vjp(lambda x: lax.mul(lax.sin(x), 2.0), np.float32(0.0))[1]
    >>> trees.tree_leaves(pull), trees.tree_map(lambda held: held * 10, pull)(np.float32(1.0))
    ([Array(1., dtype=float32)], (Array(20., dtype=float32),))
    """

    def __init__(self, name: str, program: LinearProgram, apply: Function, form: _Form | None = None) -> None:
        self.__name__ = self.__qualname__ = name
        self._program, self._apply, self._form = program, apply, form

    @api_boundary
    def __call__(self, *args: Tree) -> Tree:
        return self._apply(self._program, *args)

    @property
    def func(self) -> Function:
        return _flatten(self)[1].apply_to

    @property
    def args(self) -> tuple[list[Value]]:
        return (_flatten(self)[0],)

    @property
    def keywords(self) -> dict[str, object]:
        return {}

    @override
    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    @override
    def __reduce__(self) -> tuple[Function, tuple[list[Value]]]:
        """Pickle the arrays and the form; the differentiated function is left out."""
        values, form = _flatten(self)
        return form.fill, (values,)


class _Placeholder:
    """The position of an array in a form."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _Form:
    """The structure of a linear function without its arrays; the static part of the pytree. Compared by identity."""

    def __init__(self, function: LinearFunction) -> None:
        program = function._program
        self.name, self.apply, self.count = function.__name__, function._apply, program.count
        self.count_once, self.out_axes = program.count_once, program.out_axes
        trace = LinearTrace(0)  # variables of the original trace would keep its values alive
        variables: dict[int, LinearTracer] = {}
        placeholders: dict[int, _Placeholder] = {}

        def strip(x: Value) -> Any:
            if is_linear(x):
                return variables.setdefault(x.number, LinearTracer(trace, x.aval, x.number))
            is_array = hasattr(x, "dtype") and hasattr(x, "shape")
            return placeholders.setdefault(id(x), _Placeholder(len(placeholders))) if is_array else x

        self.ins = [strip(v) for v in program.ins]
        self.outs = [strip(o) if is_linear(o) else None for o in program.outs]
        self.eqns = [(prim, [strip(a) for a in args], _without_residuals(params),
                      tuple([strip(o) for o in out]) if prim.multiple else strip(out), line)
                     for prim, args, params, out, line in program.live_eqns()]

    def values(self, program: LinearProgram) -> list[Value]:
        """Return the arrays that a program of this form holds, in the order of the placeholders."""
        found = {h.number: a for (_, form, *_), (_, args, *_) in zip(self.eqns, program.live_eqns())
                 for h, a in zip(form, args) if type(h) is _Placeholder}
        return [found[i] for i in range(len(found))]

    def fill(self, values: list[Value]) -> LinearFunction:
        """Return the linear function with these arrays."""
        eqns: list[LinearEqn] = [
            (prim, [values[a.number] if type(a) is _Placeholder else a for a in args], params, out, line)
            for prim, args, params, out, line in self.eqns]
        program = LinearProgram(eqns, self.count, self.ins, self.outs, self.count_once, self.out_axes)
        return LinearFunction(self.name, program, self.apply, self)

    def apply_to(self, values: list[Value], *given: Tree) -> Tree:
        """Apply the linear function with these arrays to `given`."""
        return self.fill(values)(*given)


def _without_residuals(params: Params) -> Params:
    """Drop the traced residuals of a custom rule from its params; they are operands of the equation too."""
    if "pull" not in params:
        return params
    pull = copy.copy(params["pull"])
    pull.operands = [None] * len(pull.operands)
    return {**params, "pull": pull}


def _flatten(function: LinearFunction) -> tuple[list[Value], _Form]:
    if function._form is None:
        function._form = _Form(function)
    return function._form.values(function._program), function._form


trees.register_pytree_node(LinearFunction, _flatten, lambda form, values: form.fill(list(values)))
