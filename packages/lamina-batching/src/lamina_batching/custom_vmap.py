"""`custom_vmap`: a function with a user-defined batching rule; `sequential_vmap`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override
from lamina_ir import Primitive, prims, ShapedArray, trees
from lamina_tracing import lax
from lamina_tracing.extend import (
    call_custom, CustomCall, EVALUATION, function_name, get_arg_avals, make_rule_source, PositionalSignature,
    results_to_arrays, stage_sharing_outer, trace_state, wraps)
from lamina_ir.typing import Function, Params, Tree, Value
from lamina_ir.trees import PyTreeDef

from .batch_trace import BatchTrace


__all__ = ["custom_vmap", "sequential_vmap"]


class custom_vmap:
    """A function with a user-defined batching rule.

    Args:
      fun: function of arrays and trees of them.

    Derivative: that of `fun`; under `vmap` it is the derivative of the rule.

    >>> from lamina_batching import vmap
    >>> from lamina_tracing import lax
    >>> import numpy as np
    >>> @custom_vmap
    ... def f(x):
    ...     return lax.sin(x)
    >>> @f.def_vmap
    ... def rule(axis_size, in_batched, x):
    ...     return lax.cos(x), in_batched[0]
    >>> vmap(f)(np.zeros(2, np.float32))
    Array([1., 1.], dtype=float32)
    """

    def __init__(self, fun: Function) -> None:
        if not callable(fun):
            raise TypeError(f"custom_vmap: expected a function; got {type(fun).__name__}")
        self.fun = fun
        self.name = function_name(fun)
        self.vmap_rule: Function | None = None
        self._resolve = PositionalSignature("custom_vmap", fun).resolve
        wraps(fun)(self)

    def def_vmap(self, vmap_rule: Function) -> Function:
        """Set the batching rule.

        Args:
          vmap_rule: `vmap_rule(axis_size, in_batched, *args) -> (output, out_batched)`. `in_batched` is a list with one
            tree of bools per argument; arguments marked True are batched at axis 0. `out_batched` is a tree of bools
            like the output, or one bool for all of it.
        Returns:
          `vmap_rule`, so that this can be used as a decorator.
        """
        self.vmap_rule = vmap_rule
        return vmap_rule

    def __call__(self, *args: Tree, **kwargs: Tree) -> Tree:
        if self.vmap_rule is None:
            raise AttributeError(f"custom_vmap: `{self.name}` has no batching rule yet; set one with def_vmap")
        # Nothing is transformed, so the rule cannot be needed: run the function without staging it.
        if trace_state.depth == 0 and trace_state.trace is EVALUATION:
            return results_to_arrays(self.fun(*args, **kwargs))
        flat, tree = trees.tree_flatten(self._resolve(args, kwargs))
        # Called for its errors, which name the argument.
        get_arg_avals("custom_vmap", self.name, flat, trees.tree_structure((trees.tree_unflatten(tree, flat), {})))
        call = _Call(self, tree)
        outs = call_custom(call, flat)
        return trees.tree_unflatten(call.out_tree, outs)


class _Call(CustomCall):
    """One call, on flat arguments."""

    out_tree: PyTreeDef  # set by `run`

    def __init__(self, f: custom_vmap, tree: PyTreeDef) -> None:
        self.f, self.tree = f, tree

    @override
    def run(self, *flat: Value) -> list[Value]:
        outs, self.out_tree = trees.tree_flatten(self.f.fun(*trees.tree_unflatten(self.tree, flat)))
        return outs

    @override
    def batch(self, trace: BatchTrace, args: Sequence[Value], rules_needed: bool) -> list[Value]:
        # Staged and bound as one equation; its batching rule runs the user's rule. So outer traces see the call, not
        # the rule.
        return self.bind(args)

    def rule(self, size: int, batched: Sequence[bool], args: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        """Run the user's rule on flat values; return (results, which of them are batched)."""
        f = self.f
        assert f.vmap_rule is not None
        line, trace_state.source = trace_state.source, make_rule_source()
        try:
            pair = f.vmap_rule(size, list(trees.tree_unflatten(self.tree, batched)), *trees.tree_unflatten(self.tree, args))
        finally:
            trace_state.source = line
        where = f"custom_vmap of `{f.name}`: its rule `{function_name(f.vmap_rule)}`"
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{where} must return a pair (output, out_batched); got {type(pair).__name__}")
        outs, tree = trees.tree_flatten(pair[0])
        if tree != self.out_tree:
            raise TypeError(f"{where} must return an output of the structure `{f.name}` returns, {self.out_tree}; got {tree}")
        try:
            flags = trees.broadcast_prefix(pair[1], pair[0])
        except ValueError as e:
            raise TypeError(f"{where} must return an out_batched like its output, {tree}; got {pair[1]!r}: {e}") from None
        return outs, [bool(b) for b in flags]

    @override
    def as_equation(self, avals: Sequence[ShapedArray]) -> tuple[Primitive, list[Value], Params]:
        outer: list[Value] = []
        closed, _ = stage_sharing_outer(outer, self.run, avals)
        assert self.f.vmap_rule is not None
        rule = prims.Rule(function_name(self.f.vmap_rule), call=self.rule)
        return prims.custom_vmap_call_p, outer, dict(call_jaxpr=closed, name=self.f.name, num_consts=len(outer), rule=rule)


def sequential_vmap(f: Function) -> custom_vmap:
    """Make a function whose `vmap` runs the examples sequentially.

    >>> from lamina_batching import vmap
    >>> import numpy as np
    >>> vmap(sequential_vmap(lambda x: x * 2))(np.arange(3.0))
    Array([0., 2., 4.], dtype=float32)
    """
    wrapped = custom_vmap(f)

    def rule(axis_size: int, in_batched: Tree, *args: Tree) -> Any:
        flat, tree = trees.tree_flatten(args)
        flags = trees.tree_leaves(in_batched)
        results = []
        for i in range(axis_size):
            one = [lax.index_in_dim(x, i, 0, False) if b else x for x, b in zip(flat, flags)]
            results.append(f(*trees.tree_unflatten(tree, one)))
        stacked = trees.tree_map(lambda *xs: lax.concatenate([lax.expand_dims(x, (0,)) for x in xs], 0), *results)
        return stacked, trees.tree_map(lambda _: True, stacked)

    rule.__name__ = wrapped.name
    wrapped.def_vmap(rule)
    return wrapped
