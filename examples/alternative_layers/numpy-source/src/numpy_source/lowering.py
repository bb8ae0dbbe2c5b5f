"""Programs as NumPy source text: a function of Python per program, a line per equation.

A primitive with an equivalent NumPy function is written with it (`v2 = np.sin(v1)`). The others use their NumPy
implementation in lamina_ir (`v3 = op("cumsum", v2, **P[0])`), so none is missing. Nested programs are separate
functions, each written once. The text needs only numpy, lamina-ir and `P`, the params it refers to.
"""
from __future__ import annotations

import keyword
from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Literal, Primitive, evaluate_primitive, prims
from lamina_ir.extend import Placement, unbound_axis_error
from lamina_lowering._default import *
from lamina_lowering._default import __all__ as _names

__all__ = list(_names)
__contract__ = 1
__version__ = "0.1.0"

PLAIN = {prims.neg_p: "negative", prims.sin_p: "sin", prims.cos_p: "cos", prims.tanh_p: "tanh", prims.exp_p: "exp",
         prims.log_p: "log", prims.log1p_p: "log1p", prims.expm1_p: "expm1", prims.sqrt_p: "sqrt", prims.floor_p: "floor",
         prims.ceil_p: "ceil", prims.add_p: "add", prims.sub_p: "subtract", prims.mul_p: "multiply", prims.eq_p: "equal",
         prims.ne_p: "not_equal", prims.lt_p: "less", prims.le_p: "less_equal", prims.gt_p: "greater", prims.ge_p:
         "greater_equal", prims.and_p: "bitwise_and", prims.or_p: "bitwise_or", prims.xor_p: "bitwise_xor", prims.not_p:
         "invert", prims.select_p: "where"}


class Lowered:
    """A program as source text; its attributes are those of `lamina_ir.interfaces.Lowered`.

    Attributes:
      text: the source.
      main: its function, of NumPy arrays.
    """

    format = "numpy-source"
    const_args: list[Any] = []
    donation: tuple[tuple[int, int | None], ...] = ()

    def __init__(self, closed: ClosedJaxpr, name: str, platform: str, placement: Placement, text: str,
                 params: list[Any]) -> None:
        self.name, self.platform, self.placement, self.text, self.params = name, platform, placement, text, params
        self.in_avals, self.out_avals = list(closed.in_avals), list(closed.out_avals)
        self.used_args = (True,) * len(self.in_avals)
        scope: dict[str, Any] = {"np": np, "op": evaluate_by_name, "P": params}
        exec(compile(text, f"<lowered {name}>", "exec"), scope)
        self.main = scope["main"]

    def bytecode(self) -> bytes:
        types = [f"{[a.str_short() for a in avals]}" for avals in (self.in_avals, self.out_avals)]
        return "\n".join([self.platform, *types, self.text, *map(_key, self.params)]).encode()

    def as_text(self, dialect: str = "numpy", debug_info: bool = False) -> str:
        if dialect != "numpy":
            raise ValueError(f"as_text: this lowering writes NumPy source, dialect='numpy'; got {dialect!r}")
        return self.text

    def run(self, args: Sequence[Any]) -> list[np.ndarray]:
        """Return the results as NumPy arrays."""
        with np.errstate(all="ignore"):
            found = self.main(*[np.asarray(x, a.dtype) for x, a in zip(args, self.in_avals)])
        return [np.asarray(x, a.dtype) for x, a in zip(found, self.out_avals)]


def _key(param: Any) -> str:
    return f"{param.dtype}{param.shape}{param.tobytes()!r}" if isinstance(param, np.ndarray) else repr(param)


def evaluate_by_name(name: str, params: dict[str, Any], *args: Any) -> Any:
    """Evaluate a primitive with its NumPy implementation in lamina_ir."""
    return evaluate_primitive(params["primitive"], args, params["params"])


def lower(closed_jaxpr: ClosedJaxpr, *, name: str = "main", platform: str = "cpu", placement: Placement | None = None,
          axis_env: Sequence[tuple[Any, int]] = (), **settings: Any) -> Lowered:
    """Lower a program to NumPy source text; `settings` of other lowerings are ignored."""
    for axis in closed_jaxpr.jaxpr.axis_names:
        raise unbound_axis_error(axis, [name for name, _ in axis_env])  # the text is for a complete program
    writer = _Writer()
    writer.function(closed_jaxpr, "main")
    return Lowered(closed_jaxpr, name, platform, placement or Placement(()), "\n\n".join(writer.functions), writer.params)


class _Writer:
    """The functions written so far, and their params `P`."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.params: list[Any] = []
        self.known: dict[int, str] = {}

    def _param(self, value: Any) -> str:
        self.params.append(value)
        return f"P[{len(self.params) - 1}]"

    def function(self, closed: ClosedJaxpr, hint: str) -> str:
        found = self.known.get(id(closed))
        if found is not None:
            return found
        hint = hint if hint.isidentifier() and not keyword.iskeyword(hint) else "program"
        name = self.known[id(closed)] = f"{hint}_{len(self.known)}" if self.known else hint
        at = {v: self._param(np.asarray(c)) for v, c in zip(closed.jaxpr.constvars, closed.consts)}
        at.update({v: f"x{i}" for i, v in enumerate(closed.jaxpr.invars)})

        def read(a: Any) -> str:
            return self._param(np.asarray(a.val, a.aval.dtype)) if type(a) is Literal else at[a]

        lines = [f"def {name}({', '.join(f'x{i}' for i in range(len(closed.jaxpr.invars)))}):"]
        for e in closed.jaxpr.eqns:
            text = self._call(e.primitive, e.params, [read(a) for a in e.invars])
            at.update({v: f"v{len(at) + i}" for i, v in enumerate(e.outvars)})
            left = ", ".join(at[v] for v in e.outvars) + "," * (e.primitive.multiple and len(e.outvars) == 1)
            lines.append(f"{left} = {text}" if left else text)
        outs = [read(a) for a in closed.jaxpr.outvars]
        lines.append(f"return ({', '.join(outs)}{',' * (len(outs) == 1)})")
        self.functions.append("\n    ".join(lines))
        return name

    def _call(self, prim: Primitive, params: dict[str, Any], args: Sequence[str]) -> str:
        if prim in PLAIN:
            return f"np.{PLAIN[prim]}({', '.join(args)})"
        if prim is prims.xla_call_p:
            return f"{self.function(params['call_jaxpr'], params['name'])}({', '.join(args)})"
        return f"op({', '.join([repr(prim.name), self._param({'primitive': prim, 'params': params}), *args])})"
