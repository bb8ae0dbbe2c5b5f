"""Linear functions that `vjp` and `linearize` return: trees of the values they hold, so that `jit`, loops and rules may
take and return them."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lamina_ir import trees
from lamina_tracing.extend import boundary

from .linear import LinearProgram, LinearTrace, LinearTracer, is_linear

__all__ = ["LinearFunction"]


class LinearFunction:
    """A function that applies a linear program; a node of trees whose leaves are the arrays the program holds.

    It can be read as a partial application: `f(*given)` is `f.func(*f.args, *given, **f.keywords)`, where `f.args` is the
    list of those arrays and `f.func` holds none.

    >>> from lamina_autodiff import vjp
    >>> import numpy as np
    >>> from lamina_tracing import lax
    >>> pull = vjp(lambda x: lax.mul(lax.sin(x), 2.0), np.float32(0.0))[1]
    >>> trees.tree_leaves(pull), trees.tree_map(lambda held: held * 10, pull)(np.float32(1.0))
    ([Array(1., dtype=float32)], (Array(20., dtype=float32),))
    """

    def __init__(self, name: str, program: LinearProgram, apply: Callable[..., Any], form: _Form | None = None) -> None:
        self.__name__ = self.__qualname__ = name
        self._program, self._apply, self._form = program, apply, form

    @boundary
    def __call__(self, *args: Any) -> Any:
        return self._apply(self._program, *args)

    @property
    def func(self) -> Callable[..., Any]:
        return _flatten(self)[1].applied

    @property
    def args(self) -> tuple[list[Any]]:
        return (_flatten(self)[0],)

    @property
    def keywords(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        return f"<{self.__name__}>"

    def __reduce__(self) -> Any:
        """Pickles hold its values and what else it is, without what was differentiated."""
        values, form = _flatten(self)
        return form.fill, (values,)


class _Hole:
    """The place of a held value in a form."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _Form:
    """What a linear function is besides the values it holds; equal to itself only."""

    def __init__(self, function: LinearFunction) -> None:
        program = function._program
        self.name, self.apply, self.count = function.__name__, function._apply, program.count
        self.counted, self.overs = program.counted, program.overs
        trace = LinearTrace(0)  # variables of the record's own trace would keep the values in it alive
        variables: dict[int, LinearTracer] = {}
        holes: dict[int, _Hole] = {}

        def kept(x: Any) -> Any:
            if is_linear(x):
                return variables.setdefault(x.number, LinearTracer(trace, x.aval, x.number))
            return holes.setdefault(id(x), _Hole(len(holes))) if hasattr(x, "dtype") and hasattr(x, "shape") else x

        self.ins = [kept(v) for v in program.ins]
        self.outs = [kept(o) if is_linear(o) else None for o in program.outs]
        self.rows = [(prim, [kept(a) for a in args], _emptied(params),
                      tuple([kept(o) for o in out]) if prim.multiple else kept(out), line)
                     for prim, args, params, out, line in program.needed()]

    def values(self, program: LinearProgram) -> list[Any]:
        """The values a program of this form holds."""
        found = {h.number: a for (_, form, *_), (_, args, *_) in zip(self.rows, program.needed())
                 for h, a in zip(form, args) if type(h) is _Hole}
        return [found[i] for i in range(len(found))]

    def fill(self, values: list[Any]) -> LinearFunction:
        """The linear function that holds these values."""
        rows = [(prim, [values[a.number] if type(a) is _Hole else a for a in args], params, out, line)
                for prim, args, params, out, line in self.rows]
        program = LinearProgram(rows, self.count, self.ins, self.outs, self.counted, self.overs)
        return LinearFunction(self.name, program, self.apply, self)

    def applied(self, values: list[Any], *given: Any) -> Any:
        """The linear function that holds these values, at `given`."""
        return self.fill(values)(*given)


def _emptied(params: dict[str, Any]) -> dict[str, Any]:
    """Params without values that were traced: those of a custom rule stand among the row's operands too."""
    if "pull" not in params:
        return params
    pull = copy.copy(params["pull"])
    pull.operands = [None] * len(pull.operands)
    return {**params, "pull": pull}


def _flatten(function: LinearFunction) -> tuple[list[Any], _Form]:
    if function._form is None:
        function._form = _Form(function)
    return function._form.values(function._program), function._form


trees.register_pytree_node(LinearFunction, _flatten, lambda form, values: form.fill(list(values)))
