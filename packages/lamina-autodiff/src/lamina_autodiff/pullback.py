"""The backward rule of one `custom_vjp` call as a row of a linear program: run as it stands, or transposed to go forwards."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import LaminaError, Primitive, ShapedArray, UnboundAxisError, dtypes
from lamina_tracing.extend import Tracer, eval_jaxpr, now, rule_lines, stage, stage_onto, typeof

from .checks import outside_of_map, zeros_of
from .counting import by_members
from .jvp import instantiate
from .programs import transpose_program
from .rows import spread
from .tables import transpose_rules

__all__ = ["Pullback", "forward_of", "pullback_p"]


class Pullback:
    """The backward rule of one call with its residuals; what a row of a linear program holds."""

    def __init__(self, call: Any, res_tree: Any, residuals: Sequence[Any], in_avals: Sequence[ShapedArray],
                 active: Sequence[bool], out_avals: Sequence[ShapedArray]) -> None:
        self.call, self.res_tree = call, res_tree
        self.in_avals, self.active, self.all_out = in_avals, active, out_avals
        self.out_active = [dtypes.is_inexact(a.dtype) for a in out_avals]
        self.out_avals = [a for a, on in zip(out_avals, self.out_active) if on]
        self.traced = [isinstance(r, Tracer) for r in residuals]
        self.operands = [r for r, on in zip(residuals, self.traced) if on]  # the others are known here and now
        self.plain = [r for r, on in zip(residuals, self.traced) if not on]
        self.axes = [f.name for f in now.axes]

    def back(self, held: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the active arguments."""
        some, plain = iter(held), iter(self.plain)
        residuals = [next(some) if on else next(plain) for on in self.traced]
        full = spread(cts, self.out_active)
        line, now.source = now.source, rule_lines("backward")
        try:
            found = self.call.backward(self.res_tree, residuals, full, self.all_out, self.in_avals)
        except UnboundAxisError as e:
            better = outside_of_map(self.axes, self.call.f.arguments.name)
            if better is None:
                raise
            raise better from e
        finally:
            now.source = line
        return [b for b, on in zip(found, self.active) if on]

    def push(self, args: Sequence[Any]) -> list[Any]:
        """Tangents of the inexact results, by transposing the backward rule."""
        n = len(self.operands)
        held, tangents = args[:n], args[n:]
        avals = [a for a, on in zip(self.in_avals, self.active) if on]

        def run(*xs: Any) -> list[Any]:
            return [instantiate(b, a) if b is not None else zeros_of(a) for b, a in zip(self.back(xs[:n], xs[n:]), avals)]

        # The rule computes J' y*, linear in y*; J t is its transpose in y*, at the same residuals.
        outer: list[Any] = []
        closed, _ = stage_onto(outer, run, [*[typeof(h) for h in held], *self.out_avals])
        program = forward_of(closed, len(outer) + n, self.call.f.arguments.name)
        return eval_jaxpr(program, [*outer, *held, *[instantiate(t, a) for t, a in zip(tangents, avals)]])


def forward_of(closed: Any, n_held: int, name: str) -> Any:
    """The program (held, tangents) -> tangents whose transpose in the later operands is `closed`."""
    outs = closed.out_avals
    linear = (False,) * n_held + (True,) * (len(closed.in_avals) - n_held)
    try:
        found = by_members(transpose_program, closed, linear, (True,) * len(outs))
    except (LaminaError, TypeError, AttributeError, AssertionError) as e:
        raise TypeError(f"jvp of `{name}`, a custom_vjp: forward mode transposes its backward rule, which must be linear in "
                        f"the cotangents; it is not: {e}. Use reverse mode (grad, vjp, jacrev), or define the function "
                        "with custom_jvp") from e
    if all(found.active_out):
        return found.program

    def whole() -> Any:
        def run(*xs: Any) -> list[Any]:
            rest = iter(eval_jaxpr(found.program, xs))
            return [next(rest) if on else zeros_of(v) for v, on in zip(closed.in_avals[n_held:], found.active_out)]
        return stage(run, found.program.in_avals)[0]

    return closed.derived(("forward_of", n_held), whole)


def _pull_infer(*avals: Any, pull: Pullback) -> list[ShapedArray]:
    return pull.out_avals


pullback_p = Primitive("pullback", params=("pull",), family="custom", infer=_pull_infer, multiple=True,
                       over=lambda total, names, params, bound: [a.over for a in params["pull"].out_avals])


def _pullback_transpose(cts: Sequence[Any], *args: Any, pull: Pullback) -> Any:
    n = len(pull.operands)
    found = pull.back(args[:n], list(cts))
    return found[0] if len(args) == 1 else [None] * n + found


transpose_rules[pullback_p] = _pullback_transpose
