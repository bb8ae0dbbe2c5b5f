"""`custom_vjp`: a function with a reverse derivative of its own; forward mode transposes that. `custom_gradient`."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import LaminaError, dtypes, prims, trees
from lamina_ir.avals import ShapedArray
from lamina_ir.primitive import Primitive
from lamina_tracing.extend import (Tracer, eval_jaxpr, function_name, holds_tracers, in_scope, lead_with, stage_onto,
                                   typeof)

from .checks import zeros_of
from .custom_rules import SymbolicZero, check_type, differential, in_progress, refuse_closures
from .jvp import instantiate
from .programs import transpose_program
from .ruled import RuledCall, RuledFunction, refuse_late_closures
from .tables import transpose_rules

__all__ = ["CustomVJPPrimal", "custom_gradient", "custom_vjp", "forward_of", "pullback_p"]


class CustomVJPPrimal:
    """What a forward rule with `symbolic_zeros=True` gets for each array: its `value`, and whether it is `perturbed`."""

    __slots__ = ("value", "perturbed")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed


class custom_vjp(RuledFunction):
    """A function whose reverse derivative is given by rules; calls that nothing differentiates run the function itself.

    Args:
      fun: function of arrays and trees of them.
      nondiff_argnums: positions of arguments that are not differentiated and hold no traced values (functions, options);
        `bwd` gets them first.
      nondiff_argnames: their names.

    Derivative: `defvjp` sets it. Forward mode (`jvp`, `jacfwd`) transposes the backward rule, which must then be linear
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
    Array(3., dtype=float32)
    """

    kind = "custom_vjp"
    setters = "defvjp"
    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False,
               optimize_remat: bool = False) -> None:
        """Set the rules.

        Args:
          fwd: takes what the function takes; returns (output, residuals), residuals being any tree.
          bwd: `bwd(*nondiff_args, residuals, cotangent of the output)` returns a tuple with one cotangent per
            differentiated argument, of its tree, shapes and dtypes; None stands for zeros.
          symbolic_zeros: give `fwd` `CustomVJPPrimal` objects and `bwd` `SymbolicZero` objects for zero cotangents.
          optimize_remat: accepted for compatibility; checkpointed calls run `fwd` once per pass either way.
        """
        self.fwd, self.bwd = fwd, bwd
        self._set(symbolic_zeros)

    def _check_static(self, static: Sequence[Any]) -> None:
        for n, x in zip(self.nondiff_argnums, static):
            if any(isinstance(leaf, Tracer) for leaf in trees.tree_leaves(x)):
                raise TypeError(f"custom_vjp of `{self.arguments.name}`: argument {n} is in nondiff_argnums but holds a traced "
                                "value; nondiff_argnums is for functions and plain Python values. Make it an ordinary "
                                "argument and return None as its cotangent")


class _Call(RuledCall):
    """One call, on flat arguments."""

    prim = prims.custom_vjp_call_p
    rule_name, rule_words = "fwd", "forward rule"

    # --- the rules on flat values
    def forward(self, primals: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        """(results, residual leaves, tree of the residuals)."""
        f = self.f
        assert f.fwd is not None
        seen = [CustomVJPPrimal(p, on) for p, on in zip(primals, active)] if f.symbolic_zeros else primals
        args = f.arguments.join(trees.tree_unflatten(self.tree, seen), self.static)
        pair = f.fwd(*args)
        outs, rest = self.pair(pair, "residuals")
        residuals, res_tree = trees.tree_flatten(rest)
        return outs, residuals, res_tree

    def backward(self, res_tree: Any, residuals: Sequence[Any], cts: Sequence[Any], out_avals: Sequence[ShapedArray],
                 in_avals: Sequence[ShapedArray]) -> list[Any]:
        """Cotangents of the arguments; None for zero."""
        f = self.f
        assert f.bwd is not None
        seen = [ct if ct is not None else SymbolicZero(a) if f.symbolic_zeros else zeros_of(a)
                for ct, a in zip(cts, out_avals)]
        back = f.bwd(*self.static, trees.tree_unflatten(res_tree, residuals), trees.tree_unflatten(self.out_tree, seen))
        where = f"custom_vjp of `{f.arguments.name}`: its backward rule `{function_name(f.bwd)}`"
        count = len(trees.treedef_children(self.tree))
        if isinstance(back, list):
            back = tuple(back)
        if not isinstance(back, tuple):
            raise TypeError(f"{where} must return a tuple with one cotangent per argument, {count}; got {type(back).__name__}. "
                            + ("Write (ct,) for one argument" if count == 1 else ""))
        if len(back) != count:
            raise TypeError(f"{where} must return one cotangent per argument, {count}; got a tuple of {len(back)}")
        found: list[Any] = []
        for i, (ct, child) in enumerate(zip(back, trees.treedef_children(self.tree))):
            if ct is None:
                found += [None] * child.num_leaves
                continue
            leaves, tree = trees.tree_flatten(ct, is_leaf=lambda x: x is None)
            wanted = trees.tree_structure(trees.tree_unflatten(child, [0] * child.num_leaves), is_leaf=lambda x: x is None)
            if tree != wanted:
                raise TypeError(f"{where} must return a cotangent {i} of the structure of argument {i}, {child}; got {tree}")
            marked = trees.tree_leaves(trees.tree_unflatten(child, list(range(child.num_leaves))), is_leaf=lambda x: x is None)
            found += [x for x, m in zip(leaves, marked) if m is not None]
        return [check_type(lambda i=i: f"{where} returned a cotangent {self._path(i)} that", ct, a.strong())  # type: ignore[misc]
                for i, (ct, a) in enumerate(zip(found, in_avals))]

    def _path(self, i: int) -> str:
        marked = trees.tree_unflatten(self.tree, list(range(self.tree.num_leaves)))
        for path, at in trees.tree_flatten_with_path(marked)[0]:
            if at == i:
                return f"of argument {path[0].idx}{trees.keystr(path[1:])}"
        return str(i)

    # --- transformations
    def push(self, trace: Any, args: Sequence[Any]) -> list[Any]:
        primals, tangents = trace.split(args)
        active = [t is not None for t in tangents]
        outs, residuals, res_tree = self.forward(primals, active)
        refuse_closures("custom_vjp", self.f.arguments.name, trace, [*outs, *residuals])
        pull = _Pull(self, res_tree, residuals, [typeof(p).strong() for p in primals], active,
                     [typeof(o).strong() for o in outs])
        held = pull.operands
        given = [t for t in tangents if t is not None]
        if trace.linear is None:
            found = pull.push([*held, *given])
        else:
            found = trace.linear.row(pullback_p, (*held, *given), {"pull": pull}, pull.out_avals)
        rest = iter(found)
        return trace.join(outs, [next(rest) if on else None for on in pull.out_active])

    def _stage(self, avals: Sequence[ShapedArray]) -> Any:
        f = self.f
        outer: list[Any] = []
        closed, places = stage_onto(outer, self.run, avals)
        out_avals = closed.out_avals
        inner = _Call(f, self.tree, self.static)
        inner.out_tree = self.out_tree
        kept: dict[str, Any] = {}
        on_in = [differential(a) is not None for a in avals]
        on_out = [differential(a) is not None for a in out_avals]

        def forward(*flat: Any) -> list[Any]:
            outs, residuals, kept["tree"] = inner.forward(flat, on_in)
            inner.check_outputs(outs, out_avals)
            kept["avals"] = [typeof(r) for r in residuals]
            return outs + residuals

        def backward(*flat: Any) -> list[Any]:
            rest = iter(flat[len(kept["avals"]):])
            cts = [next(rest) if on else None for on in on_out]
            back = inner.backward(kept["tree"], flat[:len(kept["avals"])], cts, [a.strong() for a in out_avals],
                                  [a.strong() for a in avals])
            return [instantiate(b, a) if b is not None else zeros_of(a) for b, a, on in zip(back, avals, on_in) if on]

        def backward_avals() -> list[ShapedArray]:
            return [*kept["avals"], *[a.strong() for a, on in zip(out_avals, on_out) if on]]

        scope = in_scope()
        with in_progress(f, avals, self.tree) as within:
            now_or_never = not within and (outer or holds_tracers(f.fwd, f.bwd, self.static))
            if now_or_never:
                fwd_program, fwd_at = stage_onto(outer, forward, avals)
                bwd_program, bwd_at = stage_onto(outer, backward, backward_avals())
        if now_or_never:
            closed, fwd_program = lead_with(closed, places, outer), lead_with(fwd_program, fwd_at, outer)
            fwd_program, bwd_program = _hand_over(fwd_program, bwd_program, bwd_at, len(kept["avals"]))
            fwd = prims.Rule(function_name(f.fwd), lambda: fwd_program)
            bwd = prims.Rule(function_name(f.bwd), lambda: bwd_program)
        else:
            def late(fun: Any, types: Callable[[], Any], lead: Sequence[Any] = ()) -> Any:
                found: list[Any] = []
                made = stage_onto(found, fun, types())[0]
                refuse_late_closures("custom_vjp", f.arguments.name, found)
                return lead_with(made, (), lead)

            fwd = prims.Rule(function_name(f.fwd), lambda: scope(lambda: late(forward, lambda: avals, outer)))
            bwd = prims.Rule(function_name(f.bwd), lambda: (fwd.program(), scope(lambda: late(backward, backward_avals)))[1])
        return outer, dict(bwd=bwd, call_jaxpr=closed, fwd=fwd, name=f.arguments.name, num_consts=len(outer)), self.out_tree


custom_vjp._call = _Call


def _hand_over(fwd: Any, bwd: Any, at: Sequence[int], n_res: int) -> Any:
    """What the backward rule closes over, as residuals of the forward rule."""
    from lamina_ir.program import ClosedJaxpr, Jaxpr
    j, b = fwd.jaxpr, bwd.jaxpr
    lead, rest = b.invars[:len(at)], b.invars[len(at):]
    fwd = ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.eqns, [*j.outvars, *[j.invars[i] for i in at]], j.axis_names, j.effectful),
                      fwd.consts)
    bwd = ClosedJaxpr(Jaxpr(b.constvars, [*rest[:n_res], *lead, *rest[n_res:]], b.eqns, b.outvars, b.axis_names,
                            b.effectful), bwd.consts)
    return fwd, bwd


class _Pull:
    """The backward rule of one call with its residuals; what a row of a linear program holds."""

    def __init__(self, call: _Call, res_tree: Any, residuals: Sequence[Any], in_avals: Sequence[ShapedArray],
                 active: Sequence[bool], out_avals: Sequence[ShapedArray]) -> None:
        self.call, self.res_tree = call, res_tree
        self.in_avals, self.active, self.all_out = in_avals, active, out_avals
        self.out_active = [dtypes.is_inexact(a.dtype) for a in out_avals]
        self.out_avals = [a for a, on in zip(out_avals, self.out_active) if on]
        self.traced = [isinstance(r, Tracer) for r in residuals]
        self.operands = [r for r, on in zip(residuals, self.traced) if on]  # the others are known here and now
        self.plain = [r for r, on in zip(residuals, self.traced) if not on]

    def back(self, held: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the active arguments."""
        some, plain, rest = iter(held), iter(self.plain), iter(cts)
        residuals = [next(some) if on else next(plain) for on in self.traced]
        full = [next(rest) if on else None for on in self.out_active]
        found = self.call.backward(self.res_tree, residuals, full, self.all_out, self.in_avals)
        return [b for b, on in zip(found, self.active) if on]

    def push(self, args: Sequence[Any]) -> list[Any]:
        """Tangents of the inexact results, by transposing the backward rule."""
        n = len(self.operands)
        held, tangents = args[:n], args[n:]
        avals = [a for a, on in zip(self.in_avals, self.active) if on]

        def run(*xs: Any) -> list[Any]:
            return [instantiate(b, a) if b is not None else zeros_of(a) for b, a in zip(self.back(xs[:n], xs[n:]), avals)]

        outer: list[Any] = []
        closed, _ = stage_onto(outer, run, [*[typeof(h) for h in held], *self.out_avals])
        program = forward_of(closed, len(outer) + n, self.call.f.arguments.name)
        return eval_jaxpr(program, [*outer, *held, *[instantiate(t, a) for t, a in zip(tangents, avals)]])


def forward_of(closed: Any, n_held: int, name: str) -> Any:
    """The program (held, tangents) -> tangents whose transpose in the later operands is `closed`."""
    outs = closed.out_avals
    linear = (False,) * n_held + (True,) * (len(closed.in_avals) - n_held)
    try:
        found = transpose_program(closed, linear, (True,) * len(outs))
    except (LaminaError, TypeError, AttributeError, AssertionError) as e:
        raise TypeError(f"jvp of `{name}`, a custom_vjp: forward mode transposes its backward rule, which must be linear in "
                        f"the cotangents; it is not: {e}. Use reverse mode (grad, vjp, jacrev), or define the function "
                        "with custom_jvp") from e
    if all(found.active_out):
        return found.program

    def whole() -> Any:
        from lamina_tracing.extend import stage

        def run(*xs: Any) -> list[Any]:
            rest = iter(eval_jaxpr(found.program, xs))
            return [next(rest) if on else zeros_of(v) for v, on in zip(closed.in_avals[n_held:], found.active_out)]
        return stage(run, found.program.in_avals)[0]

    return closed.memo(("forward_of", n_held), whole)


def _pull_infer(*avals: Any, pull: _Pull) -> list[ShapedArray]:
    return pull.out_avals


pullback_p = Primitive("pullback", params=("pull",), family="custom", infer=_pull_infer, multiple=True)


def _pullback_transpose(cts: Sequence[Any], *args: Any, pull: _Pull) -> Any:
    n = len(pull.operands)
    found = pull.back(args[:n], list(cts))
    return found[0] if len(args) == 1 else [None] * n + found


transpose_rules[pullback_p] = _pullback_transpose


def custom_gradient(fun: Callable[..., Any]) -> Any:
    """A function that gives its value together with its own pullback.

    Args:
      fun: `fun(*args) -> (output, vjp)`, where `vjp(cotangent of the output)` gives the cotangents of the arguments: one
        value for one argument, else a tuple.
    Returns:
      A function of the same arguments that returns `output`. Forward mode and higher orders work as for `custom_vjp`.

    >>> from lamina_autodiff import grad
    >>> grad(custom_gradient(lambda x: (x * x, lambda g: g * x)))(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    from .closures import closure_convert

    @functools.wraps(fun, updated=())
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> Any:
        pair = fun(*args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not callable(pair[1]):
            raise TypeError(f"custom_gradient: `{function_name(fun)}` must return a pair (output, vjp function)")
        out, rule = pair
        like = trees.tree_map(lambda o: zeros_of(typeof(o)), out)
        converted, held = closure_convert(rule, like)
        return out, _Held(converted, held, len(args))

    def bwd(held: _Held, ct: Any) -> Any:
        back = held.rule(ct, *held.values)
        return (back,) if held.count == 1 and not (isinstance(back, tuple) and len(back) == 1) else tuple(back)

    wrapped = custom_vjp(value)
    wrapped.defvjp(fwd, bwd)
    return wrapped


class _Held:
    """A converted vjp function and the values it needs: a residual."""

    def __init__(self, rule: Any, values: list[Any], count: int) -> None:
        self.rule, self.values, self.count = rule, values, count


trees.register_pytree_node(_Held, lambda h: (tuple(h.values), (h.rule, h.count)),
                           lambda aux, values: _Held(aux[0], list(values), aux[1]))
