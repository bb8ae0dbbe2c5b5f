"""`custom_jvp`: a function with a user-defined JVP rule."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from typing_extensions import override
from lamina_ir import ClosedJaxpr, dtypes, prims, ShapedArray, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Params, Tree, Value
from lamina_tracing.extend import (
    capture_scope, closes_over_tracers, function_name, prepend_outer_values, stage_sharing_outer, staging_context,
    typeof)

from .rule_checks import (SymbolicZero, check_type, tangent_aval, staging_rules, output_path, refuse_closures,
                          zero_tangent)
from .._engine.arg_checks import float0_zeros
from .._engine.jvp_trace import add_tangents, instantiate, JVPTrace
from .base import P, R, CustomRuleCall, CustomRuleFunction, refuse_late_closures
from .._engine.rule_kinds import expand_by_mask
from .._typing import Tangent

__all__ = ["custom_jvp"]


class custom_jvp(CustomRuleFunction[P, R]):
    """A function with a user-defined JVP rule; calls that are not differentiated run the function itself.

    Args:
      fun: function of arrays and trees of them.
      nondiff_argnums: positions of arguments that are not differentiated (functions, options); rules get them first.
      nondiff_argnames: names of such arguments.

    Derivative: set by `defjvp` or `defjvps`. Reverse mode transposes the rule, so it must be linear in the tangents.

    >>> from lamina_autodiff import grad
    >>> from lamina_tracing import lax
    >>> @custom_jvp
    ... def f(x, y):
    ...     return lax.mul(lax.sin(x), y)
    >>> f.defjvps(lambda t, ans, x, y: lax.mul(lax.mul(lax.cos(x), t), y), lambda t, ans, x, y: lax.mul(lax.sin(x), t))
    >>> grad(f)(0.0, 3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    kind = "custom_jvp"
    setters = "defjvp or defjvps"
    jvp: Function | None = None
    # Makes the zero tangent of an integer or boolean argument for a rule; `as_jax` sets that of the release.
    zero_of_integer: ClassVar[Callable[[ShapedArray], Value]] = staticmethod(float0_zeros)

    def defjvp(self, jvp: Function, symbolic_zeros: bool = False) -> Function:
        """Set the rule.

        Args:
          jvp: `jvp(*nondiff_args, primals, tangents) -> (output, tangent of the output)`; `primals` and `tangents` are
            tuples with one entry per differentiated argument.
          symbolic_zeros: pass zero tangents as `SymbolicZero` objects instead of arrays.
        Returns:
          `jvp`, so that this can be used as a decorator.
        """
        self.jvp = jvp
        self._set(symbolic_zeros)
        return jvp

    def defjvps(self, *jvps: Function | None) -> None:
        """Set one rule per argument: `f(tangent, output, *primals)` returns its summand of the output's tangent.

        None means that the output does not depend on the argument. Cannot be combined with `nondiff_argnums`.
        """
        if self.nondiff_argnums:
            raise TypeError(f"custom_jvp of `{self.arguments.name}`: defjvps cannot be used with nondiff_argnums; use defjvp")

        function: Function = self

        def jvp(primals: Sequence[Tree], tangents: Sequence[Tree]) -> tuple[Tree, Tree]:
            if len(jvps) != len(primals):
                raise TypeError(f"custom_jvp of `{self.arguments.name}`: defjvps was given {len(jvps)} rules for "
                                f"{len(primals)} arguments")
            out = function(*primals)
            flat, tree = trees.tree_flatten(out)
            total: list[Tangent] = [None] * len(flat)
            for rule, t in zip(jvps, tangents):
                if rule is not None and not all(type(x) is SymbolicZero for x in trees.tree_leaves(t)):
                    found = tree.flatten_up_to(rule(t, out, *primals))
                    total = [add_tangents(a, b) for a, b in zip(total, found)]
            return out, trees.tree_unflatten(tree, [zero_tangent(typeof(o), False) if t is None else t
                                                    for o, t in zip(flat, total)])

        jvp.__name__ = f"{self.arguments.name}_jvps"
        self.defjvp(jvp, symbolic_zeros=True)


class _Call(CustomRuleCall):
    """One call, on flat arguments."""

    prim = prims.custom_jvp_call_p
    rule_name, rule_description = "jvp", "rule"

    def rule(self, primals: Sequence[Value], tangents: Sequence[Tangent]) -> tuple[list[Value], list[Tangent]]:
        """Run the user's rule on flat values; return results and their tangents, None for zero."""
        f = self.f
        assert f.jvp is not None
        given = [self._zero_of(p) if t is None else t for p, t in zip(primals, tangents)]
        pair = f.jvp(*self.static, tuple(trees.tree_unflatten(self.tree, primals)),
                     tuple(trees.tree_unflatten(self.tree, given)))
        outs, pushed = self.pair(pair, "tangent of the output")
        douts, dtree = trees.tree_flatten(pushed, is_leaf=lambda x: x is None)
        if dtree != self.out_tree:  # None in the output is not a leaf, so it has no tangent
            output_leaves, tree = trees.tree_flatten(pair[0], is_leaf=lambda x: x is None)
            if dtree != tree:
                raise TypeError(f"{self.where} must return output and tangent of the same structure; got {self.out_tree} "
                                f"and {dtree}")
            douts = [t for o, t in zip(output_leaves, douts) if o is not None]

        def check(i: int, o: Value, t: Tangent) -> Tangent:
            return check_type(lambda: f"{self.where} returned a tangent of output{output_path(self.out_tree, i)} that", t,
                              typeof(o).strip_weak_type())

        return outs, [check(i, o, t) for i, (o, t) in enumerate(zip(outs, douts))]

    def _zero_of(self, primal: Value) -> Value:
        aval, f = typeof(primal), self.f
        if f.symbolic_zeros or dtypes.is_inexact(aval.dtype):
            return zero_tangent(aval, f.symbolic_zeros)
        return type(f).zero_of_integer(aval)

    @override
    def push(self, trace: JVPTrace, args: Sequence[Value]) -> list[Value]:
        primals, tangents = trace.split(args)
        with staging_context(primals):  # if the primals are traced, the rule is traced, even if the tangents are constants
            outs, found = self.rule(primals, tangents)
        refuse_closures("custom_jvp", self.f.arguments.name, trace, [*outs, *found])
        return trace.join(outs, found)

    @override
    def _stage(self, avals: Sequence[ShapedArray]) -> tuple[list[Value], Params, PyTreeDef]:
        outer: list[Value] = []
        closed, places = stage_sharing_outer(outer, self.run, avals)
        out_avals = closed.out_avals
        inner = _Call(self.f, self.tree, self.static)
        inner.out_tree = self.out_tree
        inexact = [tangent_aval(a) is not None for a in avals]

        def both(active: Sequence[bool], *flat: Value) -> list[Value]:
            outs, found = inner.rule(flat[:len(avals)], expand_by_mask(flat[len(avals):], active))
            inner.check_outputs(outs, out_avals)
            return outs + [instantiate(t, o) for o, t in zip(outs, found) if tangent_aval(typeof(o)) is not None]

        def stage_rule(outer: list[Value], active: Sequence[bool]) -> tuple[ClosedJaxpr, list[int]]:
            wide = [*avals, *[a.strip_weak_type() for a, on in zip(avals, active) if on]]
            return stage_sharing_outer(outer, partial(both, active), wide)

        # The rule is staged on first use: it may call its own function, so staging it now could recurse forever. If it
        # closes over traced values, it is staged now, because their traces end before the first use.
        scope = capture_scope()
        with staging_rules(self.f, avals, self.tree) as nested:
            stage_now = not nested and (outer or closes_over_tracers(self.f.jvp, self.static))
            if stage_now:
                program, at = stage_rule(outer, inexact)
        if stage_now:
            closed, program = prepend_outer_values(closed, places, outer), prepend_outer_values(program, at, outer)
            rule = prims.Rule(function_name(self.f.jvp), lambda: program)
        else:
            def make(active: Sequence[bool]) -> ClosedJaxpr:
                found: list[Value] = []
                made = stage_rule(found, active)[0]
                refuse_late_closures(self.f.arguments.call, self.f.arguments.name, found)
                return prepend_outer_values(made, (), outer)

            def specialize(active: tuple[bool, ...]) -> ClosedJaxpr:
                on = iter(active)
                return scope(lambda: make([is_inexact and next(on) for is_inexact in inexact]))

            rule = prims.Rule(function_name(self.f.jvp), lambda: scope(lambda: make(inexact)),
                              specialize=specialize if self.f.symbolic_zeros else None)
        return outer, dict(call_jaxpr=closed, jvp=rule, name=self.f.arguments.name, num_consts=len(outer)), self.out_tree


custom_jvp._call = _Call
