"""The backward rule of a `custom_vjp` call as an equation of a linear program.

Reverse mode runs the rule; forward mode transposes it.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, dtypes, LaminaError, Primitive, ShapedArray, UnboundAxisError
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Value
from lamina_tracing.extend import Tracer, eval_jaxpr, trace_state, make_rule_source, stage, stage_sharing_outer, typeof

from .arg_checks import unbound_axes_error, zeros_of
from .replicated_cotangents import call_per_member
from .jvp_trace import instantiate
from .jaxpr_derivatives import transpose_program
from .rule_kinds import expand_by_mask
from .rule_tables import transpose_rules
from .._typing import Cotangents, Tangent

__all__ = ["Pullback", "pullback_p", "transpose_backward_rule"]


class Pullback:
    """The backward rule of one call with its residuals; the `pull` parameter of a `pullback` equation."""

    def __init__(self, call: Any, res_tree: PyTreeDef, residuals: Sequence[Value], in_avals: Sequence[ShapedArray],
                 active: Sequence[bool], out_avals: Sequence[ShapedArray]) -> None:
        self.call, self.res_tree = call, res_tree
        self.in_avals, self.active, self.all_out_avals = in_avals, active, out_avals
        self.out_active = [dtypes.is_inexact(a.dtype) for a in out_avals]
        self.out_avals = [a for a, on in zip(out_avals, self.out_active) if on]
        # Concrete residuals, which need not be arrays, stay in the object. Traced ones become operands, so that
        # transformations of the linear program see them.
        self.is_traced = [isinstance(r, Tracer) for r in residuals]
        self.operands = [r for r, on in zip(residuals, self.is_traced) if on]  # only traced residuals become operands
        self.known = [r for r, on in zip(residuals, self.is_traced) if not on]
        self.axes = [f.name for f in trace_state.axes]

    def pull_back(self, operands: Sequence[Value], cts: Sequence[Value]) -> list[Tangent]:
        """Run the backward rule; return the cotangents of the active arguments."""
        traced, known = iter(operands), iter(self.known)
        residuals = [next(traced) if on else next(known) for on in self.is_traced]
        full = expand_by_mask(cts, self.out_active)
        line, trace_state.source = trace_state.source, make_rule_source("backward")
        try:
            found = self.call.backward(self.res_tree, residuals, full, self.all_out_avals, self.in_avals)
        except UnboundAxisError as e:
            # The rule runs when the pullback is called, which may be outside of the map of the forward pass.
            better = unbound_axes_error(self.axes, self.call.f.arguments.name)
            if better is None:
                raise
            raise better from e
        finally:
            trace_state.source = line
        return [b for b, on in zip(found, self.active) if on]

    def push(self, args: Sequence[Value]) -> list[Value]:
        """Return the tangents of the inexact results by transposing the backward rule."""
        n = len(self.operands)
        residuals, tangents = args[:n], args[n:]
        avals = [a for a, on in zip(self.in_avals, self.active) if on]

        def run(*xs: Value) -> list[Value]:
            return [instantiate(b, a) if b is not None else zeros_of(a) for b, a in zip(self.pull_back(xs[:n], xs[n:]), avals)]

        # The backward rule computes J^T y*, which is linear in y*. Its transpose in y*, at the same residuals, is J t.
        outer: list[Value] = []
        closed, _ = stage_sharing_outer(outer, run, [*[typeof(r) for r in residuals], *self.out_avals])
        program = transpose_backward_rule(closed, len(outer) + n, self.call.f.arguments.name)
        return eval_jaxpr(program, [*outer, *residuals, *[instantiate(t, a) for t, a in zip(tangents, avals)]])


def transpose_backward_rule(closed: ClosedJaxpr, n_residuals: int, name: str) -> ClosedJaxpr:
    """Return the program (residuals, tangents) -> tangents whose transpose is the backward rule `closed`."""
    outs = closed.out_avals
    linear = (False,) * n_residuals + (True,) * (len(closed.in_avals) - n_residuals)
    try:
        found = call_per_member(transpose_program, closed, linear, (True,) * len(outs))
    except (LaminaError, TypeError, AttributeError, AssertionError) as e:
        raise TypeError(f"jvp of `{name}`, a custom_vjp: forward mode transposes its backward rule, which must be linear in "
                        f"the cotangents; it is not: {e}. Use reverse mode (grad, vjp, jacrev), or define the function "
                        "with custom_jvp") from e
    if all(found.active_out):
        return found.program

    def fill_zeros() -> ClosedJaxpr:  # results with a zero tangent as arrays of zeros
        def run(*xs: Value) -> list[Value]:
            rest = iter(eval_jaxpr(found.program, xs))
            return [next(rest) if on else zeros_of(v) for v, on in zip(closed.in_avals[n_residuals:], found.active_out)]
        return stage(run, found.program.in_avals)[0]

    return closed.memo_with_settings(("forward_of", n_residuals), fill_zeros)


def _pull_infer(*avals: ShapedArray, pull: Pullback) -> list[ShapedArray]:
    return pull.out_avals


pullback_p = Primitive("pullback", params=("pull",), family="custom", infer=_pull_infer, multiple=True,
                       varying_axes=lambda total, names, params, bound: [a.varying_axes for a in params["pull"].out_avals])


def _pullback_transpose(cts: Sequence[Value], *args: Value, pull: Pullback) -> Cotangents:
    n = len(pull.operands)
    found = pull.pull_back(args[:n], list(cts))
    # Residuals are known values, not linear variables: None. A rule for one operand returns a bare value.
    return found[0] if len(args) == 1 else [None] * n + found


transpose_rules[pullback_p] = _pullback_transpose
