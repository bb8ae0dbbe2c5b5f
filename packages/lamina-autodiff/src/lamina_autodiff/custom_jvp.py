"""`custom_jvp`: a function with a forward derivative of its own."""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import config, prims, trees
from lamina_ir.avals import ShapedArray
from lamina_tracing.extend import (EVALUATION, CustomCall, call_custom, flat_types, function_name, holds_tracers, in_scope,
                                   lead_with, now, stage_onto, typeof)

from .custom_rules import (Arguments, SymbolicZero, check_type, differential, in_progress, output_path,
                           refuse_closures, zero_tangent)
from .jvp import add_tangents, instantiate

__all__ = ["custom_jvp"]

_MOST_PROGRAMS = 512


class custom_jvp:
    """A function whose derivative is given by a rule; calls that nothing differentiates run the function itself.

    Args:
      fun: function of arrays and trees of them.
      nondiff_argnums: positions of arguments that are not differentiated (functions, options); rules get them first.
      nondiff_argnames: their names.

    Derivative: `defjvp` or `defjvps` set it; reverse mode transposes it, so it must be linear in the tangents.

    >>> from lamina_autodiff import grad
    >>> from lamina_tracing import lax
    >>> @custom_jvp
    ... def f(x, y):
    ...     return lax.mul(lax.sin(x), y)
    >>> f.defjvps(lambda t, ans, x, y: lax.mul(lax.mul(lax.cos(x), t), y), lambda t, ans, x, y: lax.mul(lax.sin(x), t))
    >>> grad(f)(0.0, 3.0)
    Array(3., dtype=float32, weak_type=True)
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = (),
                 nondiff_argnames: str | Sequence[str] = ()) -> None:
        self.arguments = Arguments("custom_jvp", fun, nondiff_argnums, nondiff_argnames)
        self.fun = fun
        self.nondiff_argnums = self.arguments.nondiff
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False
        self._programs: dict[Any, Any] = {}
        functools.update_wrapper(self, fun, updated=())

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule.

        Args:
          jvp: `jvp(*nondiff_args, primals, tangents) -> (output, tangent of the output)`; `primals` and `tangents` are
            tuples with one entry per differentiated argument.
          symbolic_zeros: show zero tangents as `SymbolicZero` objects instead of arrays.
        Returns:
          `jvp`, so that this can be used as a decorator.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        self._programs.clear()
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule per argument: `f(tangent, output, *primals)` gives its share of the output's tangent; None for
        an argument without derivative. Not with `nondiff_argnums`."""
        if self.nondiff_argnums:
            raise TypeError(f"custom_jvp of `{self.arguments.name}`: defjvps cannot be used with nondiff_argnums; use defjvp")

        def jvp(primals: Any, tangents: Any) -> Any:
            if len(jvps) != len(primals):
                raise TypeError(f"custom_jvp of `{self.arguments.name}`: defjvps was given {len(jvps)} rules for "
                                f"{len(primals)} arguments")
            out = self(*primals)
            flat, tree = trees.tree_flatten(out)
            total: list[Any] = [None] * len(flat)
            for rule, t in zip(jvps, tangents):
                if rule is not None and not all(type(x) is SymbolicZero for x in trees.tree_leaves(t)):
                    found = tree.flatten_up_to(rule(t, out, *primals))
                    total = [add_tangents(a, b) for a, b in zip(total, found)]
            return out, trees.tree_unflatten(tree, [zero_tangent(typeof(o), False) if t is None else t
                                                    for o, t in zip(flat, total)])

        jvp.__name__ = f"{self.arguments.name}_jvps"
        self.defjvp(jvp, symbolic_zeros=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if now.depth == 0 and now.trace is EVALUATION and self.jvp is not None:
            return self.fun(*args, **kwargs)
        if self.jvp is None:
            raise AttributeError(f"custom_jvp: `{self.arguments.name}` has no derivative rule yet; set one with defjvp or "
                                 "defjvps")
        dyn, static = self.arguments.split(self.arguments.resolve(args, kwargs))
        flat, tree = trees.tree_flatten(dyn)
        flat_types("custom_jvp", self.arguments.name, flat, trees.tree_structure((dyn, {})))
        call = _Call(self, tree, static)
        outs = call_custom(call, flat)
        return trees.tree_unflatten(call.out_tree, outs)


class _Call(CustomCall):
    """One call, on flat arguments."""

    def __init__(self, f: custom_jvp, tree: Any, static: tuple[Any, ...]) -> None:
        self.f, self.tree, self.static = f, tree, static
        self.out_tree: Any = None

    def run(self, *flat: Any) -> list[Any]:
        args = self.f.arguments.join(trees.tree_unflatten(self.tree, flat), self.static)
        outs, self.out_tree = trees.tree_flatten(self.f.fun(*args))
        return outs

    def rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The user's rule on flat values: results, and their tangents, None for zero."""
        f = self.f
        assert f.jvp is not None
        seen = [zero_tangent(typeof(p), f.symbolic_zeros) if t is None else t for p, t in zip(primals, tangents)]
        pair = f.jvp(*self.static, tuple(trees.tree_unflatten(self.tree, primals)),
                     tuple(trees.tree_unflatten(self.tree, seen)))
        where = f"custom_jvp of `{f.arguments.name}`: its rule `{function_name(f.jvp)}`"
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{where} must return a pair (output, tangent of the output); got "
                            f"{type(pair).__name__}" + (f" of {len(pair)}" if isinstance(pair, (tuple, list)) else ""))
        outs, tree = trees.tree_flatten(pair[0])
        douts, dtree = trees.tree_flatten(pair[1], is_leaf=lambda x: x is None)
        if dtree != tree:
            raise TypeError(f"{where} must return output and tangent of the same structure; got {tree} and {dtree}")
        if self.out_tree is not None and self.out_tree != tree:
            raise TypeError(f"{where} must return an output of the structure `{f.arguments.name}` returns, {self.out_tree}; "
                            f"got {tree}")
        self.out_tree = tree
        found = [check_type(lambda i=i: f"{where} returned a tangent of output{output_path(tree, i)} that", t,  # type: ignore[misc]
                            typeof(o).strong()) for i, (o, t) in enumerate(zip(outs, douts))]
        return outs, found

    def push(self, trace: Any, args: Sequence[Any]) -> list[Any]:
        primals, tangents = trace.split(args)
        outs, found = self.rule(primals, tangents)
        refuse_closures("custom_jvp", self.f.arguments.name, trace, [*outs, *found])
        return trace.join(outs, found)

    def staged(self, avals: Sequence[ShapedArray]) -> Any:
        f = self.f
        try:
            key: Any = (tuple(avals), self.tree, self.static, tuple([(a.name, a.size) for a in now.axes]), config.cache_key())
            known = f._programs.get(key)
        except TypeError:  # a static argument that is not hashable
            key = known = None
        if known is None:
            known = self._stage(avals)
            if key is not None and not known[0]:
                if len(f._programs) >= _MOST_PROGRAMS:
                    f._programs.clear()
                f._programs[key] = known
        outer, params, self.out_tree = known
        return prims.custom_jvp_call_p, outer, params

    def _stage(self, avals: Sequence[ShapedArray]) -> Any:
        outer: list[Any] = []
        closed, places = stage_onto(outer, self.run, avals)
        out_avals = closed.out_avals
        inner = _Call(self.f, self.tree, self.static)
        inner.out_tree = self.out_tree
        active = [differential(a) is not None for a in avals]

        def both(*flat: Any) -> list[Any]:
            rest = iter(flat[len(avals):])
            outs, found = inner.rule(flat[:len(avals)], [next(rest) if on else None for on in active])
            inner.check_outputs(outs, out_avals)
            return outs + [instantiate(t, o) for o, t in zip(outs, found) if differential(typeof(o)) is not None]

        wide = [*avals, *[a.strong() for a, on in zip(avals, active) if on]]
        scope = in_scope()
        with in_progress(self.f, avals, self.tree) as within:
            now_or_never = not within and (outer or holds_tracers(self.f.jvp, self.static))
            if now_or_never:
                program, at = stage_onto(outer, both, wide)
        if now_or_never:
            closed, program = lead_with(closed, places, outer), lead_with(program, at, outer)
            rule = prims.Rule(function_name(self.f.jvp), lambda: program)
        else:
            def make() -> Any:
                found: list[Any] = []
                made = stage_onto(found, both, wide)[0]
                refuse_late_closures(self.f.arguments.call, self.f.arguments.name, found)
                return lead_with(made, (), outer)
            rule = prims.Rule(function_name(self.f.jvp), lambda: scope(make))
        return outer, dict(call_jaxpr=closed, jvp=rule, name=self.f.arguments.name, num_consts=len(outer)), self.out_tree

    def check_outputs(self, outs: Sequence[Any], wanted: Sequence[ShapedArray]) -> None:
        """TypeError unless the rule's output is of the types the function returns."""
        for i, (o, a) in enumerate(zip(outs, wanted)):
            got = typeof(o)
            if not got.same_type(a):
                raise TypeError(f"custom_jvp of `{self.f.arguments.name}`: its rule `{function_name(self.f.jvp)}` must return "
                                f"output{output_path(self.out_tree, i)} as {a.long()}, as `{self.f.arguments.name}` does; got "
                                f"{got.long()}")


def refuse_late_closures(call: str, name: str, found: Sequence[Any]) -> None:
    if found:
        raise TypeError(f"{call} of `{name}`: a rule closes over a traced value, {found[0].aval.long()}, in a way that could "
                        "not be seen when the call was staged; pass the value as an argument")
