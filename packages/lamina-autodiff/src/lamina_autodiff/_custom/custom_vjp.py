"""`custom_vjp`: a function with user-defined forward and backward rules; forward mode transposes the backward rule."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import ClosedJaxpr, Jaxpr, Primitive, ShapedArray, prims, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import AxisName, Function, Params, StaticValue, Tree, Value
from lamina_tracing.extend import (
    capture_scope, closes_over_tracers, constrain, function_name, keep_shardings, prepend_outer_values,
    stage_sharing_outer, Tracer, typeof)

from .._engine.arg_checks import zeros_of
from .._engine.replicated_cotangents import call_per_member, mean_over_replicas
from .rule_checks import SymbolicZero, check_type, tangent_aval, staging_rules, refuse_closures
from .._engine.jvp_trace import instantiate, JVPTrace
from .base import P, R, CustomRuleCall, CustomRuleFunction, refuse_late_closures
from .._engine.custom_vjp_pullback import Pullback, pullback_p
from .._engine.rule_kinds import drop_zeros, expand_by_mask
from .._typing import Tangent

__all__ = ["CustomVJPPrimal", "custom_vjp", "custom_vjp_primal_tree_values", "remat_opt_p"]

_NUMBERS = (bool, int, float, complex, np.generic)

# JAX's primitive of `defvjp(optimize_remat=True)`, for programs that look primitives up by name. No equation has it here.
remat_opt_p = Primitive("remat_opt", params=("num_consts", "num_res", "fwd_jaxpr", "fun_jaxpr_thunk"), multiple=True)


class CustomVJPPrimal:
    """Argument of a forward rule with `symbolic_zeros=True`: an array `value`, and whether it is `perturbed`."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Value, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


def custom_vjp_primal_tree_values(tree: Tree) -> Tree:
    """Replace each `CustomVJPPrimal` of a tree by its value.

    Args:
      tree: an argument of a forward rule with `symbolic_zeros=True`, or a part of it.
    Returns:
      The tree with the `value` of each.

    >>> custom_vjp_primal_tree_values([CustomVJPPrimal(1.0, True), CustomVJPPrimal(2.0, False)])
    [1.0, 2.0]
    """
    return trees.tree_map(lambda x: x.value if isinstance(x, CustomVJPPrimal) else x, tree,
                          is_leaf=lambda x: isinstance(x, CustomVJPPrimal))


class custom_vjp(CustomRuleFunction[P, R]):
    """A function with user-defined reverse-mode rules; calls that are not differentiated run the function itself.

    Args:
      fun: function of arrays and trees of them.
      nondiff_argnums: positions of arguments that are not differentiated and hold no traced values (functions,
        options); `bwd` gets them first.
      nondiff_argnames: names of such arguments.

    Derivative: set by `defvjp`. Forward mode (`jvp`, `jacfwd`) transposes the backward rule, which must then be linear
    in the cotangents; reverse mode runs it as it is.

    >>> from lamina_autodiff import grad, jvp
    >>> from lamina_tracing import lax
    >>> @custom_vjp
    ... def f(x, y):
    ...     return lax.mul(lax.sin(x), y)
    >>> f.defvjp(lambda x, y: (f(x, y), (lax.cos(x), lax.sin(x), y)), lambda r, g: (r[0] * g * r[2], r[1] * g))
    >>> grad(f)(0.0, 3.0)
    Array(3., dtype=float32, weak_type=True)
    >>> jvp(f, (0.0, 3.0), (1.0, 0.0))[1]
    Array(3., dtype=float32, weak_type=True)
    """

    kind = "custom_vjp"
    setters = "defvjp"
    fwd: Function | None = None
    bwd: Function | None = None

    def defvjp(self, fwd: Function, bwd: Function, symbolic_zeros: bool = False,
               optimize_remat: bool = False) -> None:
        """Set the rules.

        Args:
          fwd: takes the arguments of the function; returns (output, residuals), where residuals is any tree.
          bwd: `bwd(*nondiff_args, residuals, cotangent of the output)` returns a tuple with one cotangent per
            differentiated argument, of its tree, shapes and dtypes; None means zeros, for an argument or a subtree.
          symbolic_zeros: pass `CustomVJPPrimal` objects to `fwd`, and `SymbolicZero` objects to `bwd` for zero
            cotangents.
          optimize_remat: accepted for compatibility; checkpointed calls run `fwd` once per pass either way.
        """
        self.fwd, self.bwd = fwd, bwd
        self._set(symbolic_zeros)

    @override
    def _check_static(self, static: Sequence[StaticValue]) -> None:
        for n, x in zip(self.nondiff_argnums, static):
            if any(isinstance(leaf, Tracer) for leaf in trees.tree_leaves(x)):
                raise TypeError(f"custom_vjp of `{self.arguments.name}`: argument {n} is in nondiff_argnums but holds a traced "
                                "value; nondiff_argnums is for functions and plain Python values. Make it an ordinary "
                                "argument and return None as its cotangent")


class _Call(CustomRuleCall):
    """One call, on flat arguments."""

    prim = prims.custom_vjp_call_p
    rule_name, rule_description = "fwd", "forward rule"

    # --- the rules on flat values
    def forward(self, primals: Sequence[Value], active: Sequence[bool]) -> tuple[list[Value], list[Value], PyTreeDef]:
        """Run the forward rule; return (results, residual leaves, tree of the residuals)."""
        f = self.f
        assert f.fwd is not None
        given = [CustomVJPPrimal(p, on) for p, on in zip(primals, active)] if f.symbolic_zeros else primals
        args = f.arguments.join(trees.tree_unflatten(self.tree, given), self.static)
        pair = call_per_member(f.fwd, *args)
        outs, rest = self.pair(pair, "residuals")
        residuals, res_tree = trees.tree_flatten(rest)
        return outs, residuals, res_tree

    def backward(self, res_tree: PyTreeDef, residuals: Sequence[Value], cts: Sequence[Tangent],
                 out_avals: Sequence[ShapedArray], in_avals: Sequence[ShapedArray]) -> list[Tangent]:
        """Run the backward rule; return the cotangents of the arguments, None for zero."""
        f = self.f
        assert f.bwd is not None
        given = [ct if ct is not None else SymbolicZero(a) if f.symbolic_zeros else zeros_of(a)
                 for ct, a in zip(cts, out_avals)]
        back = call_per_member(f.bwd, *self.static, trees.tree_unflatten(res_tree, residuals),
                               trees.tree_unflatten(self.out_tree, given))
        where = f"custom_vjp of `{f.arguments.name}`: its backward rule `{function_name(f.bwd)}`"
        count = len(trees.treedef_children(self.tree))
        if isinstance(back, list):
            back = tuple(back)
        if not isinstance(back, tuple):
            raise TypeError(f"{where} must return a tuple with one cotangent per argument, {count}; got {type(back).__name__}. "
                            + ("Write (ct,) for one argument" if count == 1 else ""))
        if len(back) != count:
            raise TypeError(f"{where} must return one cotangent per argument, {count}; got a tuple of {len(back)}")
        found: list[Tangent] = []
        for i, (ct, child) in enumerate(zip(back, trees.treedef_children(self.tree))):
            parts = _flatten_cotangent(child, ct)
            if parts is None:
                raise TypeError(f"{where} must return a cotangent {i} of the structure of argument {i}, {child}; got "
                                f"{trees.tree_structure(ct, is_leaf=lambda x: x is None)}")
            found += parts

        # Lazy text: the path of an argument costs a traversal of the tree, and errors are rare.
        def check(i: int, ct: Tangent, a: ShapedArray) -> Tangent:
            return check_type(lambda: f"{where} returned a cotangent {self._path(i)} that", ct, a.strip_weak_type())

        return [check(i, ct, a) for i, (ct, a) in enumerate(zip(found, in_avals))]

    def _path(self, i: int) -> str:
        marked = trees.tree_unflatten(self.tree, list(range(self.tree.num_leaves)))
        for path, at in trees.tree_flatten_with_path(marked)[0]:
            if at == i:
                return f"of argument {path[0].idx}{trees.keystr(path[1:])}"
        return str(i)

    # --- transformations
    @override
    def push(self, trace: JVPTrace, args: Sequence[Value]) -> list[Value]:
        primals, tangents = trace.split(args)
        active = [t is not None for t in tangents]
        outs, residuals, res_tree = self.forward(primals, active)
        # A rule that closes over a differentiated value would lose the derivative with respect to it.
        refuse_closures("custom_vjp", self.f.arguments.name, trace, [*outs, *residuals])
        pull = Pullback(self, res_tree, residuals, [typeof(p).strip_weak_type() for p in primals], active,
                        [typeof(o).strip_weak_type() for o in outs])
        operands, given = pull.operands, drop_zeros(tangents)
        if trace.linear is None:
            found = pull.push([*operands, *given])
        else:
            # Over axes where replicated values count once, the rule works member by member: its tangents vary over the
            # axes of any operand, and are averaged afterwards for results that are replicated.
            overs = [o.varying_axes for o in pull.out_avals]
            axes: frozenset[AxisName] = frozenset().union(
                *overs, *[typeof(x).varying_axes for x in (*primals, *operands, *given)])
            wide = trace.linear.count_once & axes
            if wide:
                pull.out_avals = [o.with_varying_axes(o.varying_axes | wide) for o in pull.out_avals]
            found = trace.linear.record_typed(pullback_p, (*operands, *given), {"pull": pull}, pull.out_avals)
            if wide:
                found = [mean_over_replicas(t, over) for t, over in zip(found, overs)]
        joined = trace.join(outs, expand_by_mask(found, pull.out_active))
        kept = keep_shardings(outs)  # so that the rule gets cotangents with the shardings of the results
        return joined if kept is None else [constrain(x, params) for x, params in zip(joined, kept, strict=True)]

    @override
    def _stage(self, avals: Sequence[ShapedArray]) -> tuple[list[Value], Params, PyTreeDef]:
        f = self.f
        outer: list[Value] = []
        closed, places = stage_sharing_outer(outer, self.run, avals)
        out_avals = closed.out_avals
        inner = _Call(f, self.tree, self.static)
        inner.out_tree = self.out_tree
        on_in = tuple([tangent_aval(a) is not None for a in avals])
        on_out = tuple([tangent_aval(a) is not None for a in out_avals])

        # Rules are staged on first use: a rule may call its own function, so staging it now could recurse forever. A
        # rule that closes over traced values is staged now, because their traces end before the first use; the values
        # closed over become leading operands (`outer`).
        scope = capture_scope()
        general = _RulePair(inner, avals, out_avals, on_in)
        with staging_rules(f, avals, self.tree) as nested:
            stage_now = not nested and (outer or closes_over_tracers(f.fwd, f.bwd, self.static))
            if stage_now:
                fwd_program, fwd_at = stage_sharing_outer(outer, general.forward, avals)
                bwd_program, bwd_at = stage_sharing_outer(outer, partial(general.backward, on_out),
                                                          general.backward_avals(on_out))
        if stage_now:
            closed, fwd_program = prepend_outer_values(closed, places, outer), prepend_outer_values(fwd_program, fwd_at, outer)
            fwd_program, bwd_program = _move_closures_to_residuals(fwd_program, bwd_program, bwd_at,
                                                                   len(general.residual_avals))
            fwd = prims.Rule(function_name(f.fwd), lambda: fwd_program)
            bwd = prims.Rule(function_name(f.bwd), lambda: bwd_program)
        else:
            fwd, bwd = self._stage_later(general, on_in, on_out, scope, outer)
        return outer, dict(bwd=bwd, call_jaxpr=closed, fwd=fwd, name=f.arguments.name, num_consts=len(outer)), self.out_tree

    def _stage_later(self, general: _RulePair, on_in: tuple[bool, ...], on_out: tuple[bool, ...], scope: Function,
                     lead: Sequence[Value]) -> tuple[prims.Rule, prims.Rule]:
        """Return the rules, which are staged on first use. With `symbolic_zeros` there is a pair of programs for each
        set of arguments with a tangent, and a backward program for each set of results with a cotangent."""
        f = self.f

        def late(fun: Callable[..., Sequence[Value]], types: Callable[[], Sequence[ShapedArray]],
                 lead: Sequence[Value] = ()) -> ClosedJaxpr:
            found: list[Value] = []
            made = stage_sharing_outer(found, fun, types())[0]
            refuse_late_closures("custom_vjp", f.arguments.name, found)
            return prepend_outer_values(made, (), lead)

        def make_forward(pair: _RulePair, specialize: Function | None = None) -> prims.Rule:
            return prims.Rule(function_name(f.fwd), lambda: scope(lambda: late(pair.forward, lambda: pair.avals, lead)),
                              specialize=specialize)

        def make_backward(pair: _RulePair, fwd: prims.Rule, on: Sequence[bool]) -> ClosedJaxpr:
            fwd.program()  # first, because it determines the residuals that the backward rule takes
            return scope(lambda: late(partial(pair.backward, on), lambda: pair.backward_avals(on)))

        pairs: dict[tuple[bool, ...], tuple[_RulePair, prims.Rule]] = {}

        def special_pair(active: tuple[bool, ...]) -> tuple[_RulePair, prims.Rule]:
            if all(active):
                return general, fwd
            if active not in pairs:
                pair = _RulePair(general.call, general.avals, general.out_avals, _fill_mask(active, on_in))
                pairs.setdefault(active, (pair, make_forward(pair)))
            return pairs[active]

        def special_backward(active: tuple[bool, ...]) -> ClosedJaxpr:
            n = sum(on_in)
            return make_backward(*special_pair(active[:n]), _fill_mask(active[n:], on_out))

        zeros = f.symbolic_zeros
        fwd = make_forward(general, (lambda active: special_pair(active)[1].program()) if zeros else None)
        return fwd, prims.Rule(function_name(f.bwd), lambda: make_backward(general, fwd, on_out),
                               specialize=special_backward if zeros else None)


class _RulePair:
    """The forward and backward rule of a call on flat values, for one set of arguments that have a tangent."""

    def __init__(self, call: _Call, avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray],
                 active: Sequence[bool]) -> None:
        self.call, self.avals, self.out_avals, self.active = call, avals, out_avals, active
        # Set by `forward`: types of the residuals, their tree, and those that are Python or NumPy numbers, by position.
        self.residual_avals: list[ShapedArray] = []
        self.residual_tree: Any = None
        self.numbers: dict[int, Value] = {}

    def forward(self, *flat: Value) -> list[Value]:
        outs, residuals, self.residual_tree = self.call.forward(flat, self.active)
        self.call.check_outputs(outs, self.out_avals)
        # Numbers are no residuals of the program: the backward rule gets them as they are, and may branch on them.
        self.numbers = {i: r for i, r in enumerate(residuals) if isinstance(r, _NUMBERS)}
        arrays = [r for i, r in enumerate(residuals) if i not in self.numbers]
        self.residual_avals = [typeof(r) for r in arrays]
        return outs + arrays

    def backward(self, active: Sequence[bool], *flat: Value) -> list[Value]:
        """Take the residuals and the cotangents of the `active` results; return those of all inexact arguments."""
        n = len(self.residual_avals)
        arrays = iter(flat[:n])
        residuals = [self.numbers[i] if i in self.numbers else next(arrays) for i in range(self.residual_tree.num_leaves)]
        back = self.call.backward(self.residual_tree, residuals, expand_by_mask(flat[n:], active),
                                  [a.strip_weak_type() for a in self.out_avals], [a.strip_weak_type() for a in self.avals])
        return [instantiate(b, a) if b is not None else zeros_of(a) for b, a in zip(back, self.avals)
                if tangent_aval(a) is not None]

    def backward_avals(self, active: Sequence[bool]) -> list[ShapedArray]:
        return [*self.residual_avals, *[a.strip_weak_type() for a, on in zip(self.out_avals, active) if on]]


def _fill_mask(active: Sequence[bool], inexact: Sequence[bool]) -> tuple[bool, ...]:
    """Return flags of all values, given those of the inexact ones; the others are not active."""
    rest = iter(active)
    return tuple([on and next(rest) for on in inexact])


custom_vjp._call = _Call


def _flatten_cotangent(tree: PyTreeDef, ct: Tree) -> list[Tangent] | None:
    """Flatten a cotangent to the leaves of the argument's `tree`; return None if the structures do not match.

    None in the cotangent means zeros for the whole subtree of the argument. None in the argument is not a leaf: the
    corresponding part of the cotangent is dropped.
    """
    # None is a leaf here: it stands for a zero cotangent of a whole subtree.
    leaves, outer = trees.tree_flatten(ct, is_leaf=lambda x: x is None)
    try:
        parts = outer.flatten_up_to(trees.tree_unflatten(tree, range(tree.num_leaves)))
    except (TypeError, ValueError):
        return None
    found: list[Tangent] = []
    for x, part in zip(leaves, parts):
        if x is None:
            found += [None] * trees.tree_structure(part).num_leaves
        elif isinstance(part, int):
            found.append(x)
        elif part is not None:
            return None
    return found


def _move_closures_to_residuals(fwd: ClosedJaxpr, bwd: ClosedJaxpr, at: Sequence[int],
                           n_res: int) -> tuple[ClosedJaxpr, ClosedJaxpr]:
    """Turn the values that the backward rule closes over into residuals of the forward rule."""
    j, b = fwd.jaxpr, bwd.jaxpr
    lead, rest = b.invars[:len(at)], b.invars[len(at):]
    # The backward program gets only residuals and cotangents. So the forward rule returns the closed-over values,
    # which are operands of both, as further residuals.
    fwd = ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.eqns, [*j.outvars, *[j.invars[i] for i in at]], j.axis_names, j.effectful),
                      fwd.consts)
    bwd = ClosedJaxpr(Jaxpr(b.constvars, [*rest[:n_res], *lead, *rest[n_res:]], b.eqns, b.outvars, b.axis_names,
                            b.effectful), bwd.consts)
    return fwd, bwd
