"""Find the equation of a program that makes the first NaN or infinity, with the NumPy evaluator."""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._core.axis_env import PROCESSES
from .._core.jaxpr import ClosedJaxpr, Eqn
from .._core.loop_context import format_axes, format_iterations, running_axis_positions, running_iterations
from .._types import dtypes
from ..typing import Value
from .evaluator import evaluate, observing_equations

__all__ = ["NonFinite", "find_nonfinite_equation", "nonfinite_kind"]


class NonFinite(NamedTuple):
    """The equation that made the first NaN or infinity.

    Attributes:
      eqn: the equation.
      operands: its operands, on the device where it occurs.
      kind: "a NaN" or "an infinity".
      where: the text " at LINE, in iteration 3 of `scan`", with the position on mapped axes.
    """

    eqn: Eqn
    operands: list[np.ndarray]
    kind: str
    where: str


def nonfinite_kind(x: Value) -> str | None:
    """Return "a NaN" or "an infinity" if an array has one; else None.

    >>> nonfinite_kind(np.float32([1, np.nan])), nonfinite_kind(np.int32([1]))
    ('a NaN', None)
    """
    a = np.asarray(x)
    if not dtypes.is_inexact(a.dtype) or np.isfinite(a).all():
        return None
    return "a NaN" if np.isnan(a).any() else "an infinity"


class _Stop(Exception):
    """Raised to stop the evaluation at the equation that was searched for."""


def find_nonfinite_equation(program: ClosedJaxpr, arguments: Sequence[Value]) -> NonFinite | None:
    """Evaluate a program with NumPy up to the equation that makes the first NaN; without one, the first infinity.

    A NaN is made from operands without NaNs, perhaps from infinities; an infinity from finite operands.

    Args:
      program: the program.
      arguments: one value per invar.
    Returns:
      The equation; None if there is none.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sub a 1.0:f32[] c:f32[] = log b in (c,) }")
    >>> find_nonfinite_equation(program, [0.0]).eqn.primitive.name
    'log'
    """
    found: dict[str, NonFinite] = {}

    def observe(eqn: Eqn, operands: Value, results: Value) -> None:
        if eqn.primitive.subprograms:
            return  # the equations inside were observed
        for members in results:
            for i, x in enumerate(members):
                kind = nonfinite_kind(x)
                if kind is None or kind in found:
                    continue
                ins = [np.asarray(xs[i]) for xs in operands]
                before = {nonfinite_kind(a) for a in ins}
                if "a NaN" in before or kind == "an infinity" and kind in before:
                    continue
                found[kind] = NonFinite(eqn, ins, kind, _describe_place(eqn, i))
                if kind == "a NaN":
                    raise _Stop

    try:
        with observing_equations(observe), np.errstate(all="ignore"):
            evaluate(program, *arguments)
    except _Stop:
        pass
    return found.get("a NaN") or found.get("an infinity")


def _describe_place(eqn: Eqn, member: int) -> str:
    line = f" at {eqn.source}" if eqn.source is not None else ""
    axes = format_axes([a for a in running_axis_positions(member) if a.name is not PROCESSES])
    return f"{line}{format_iterations(running_iterations())}{f', at {axes}' if axes else ''}"
