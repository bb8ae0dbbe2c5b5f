"""Optimizers of trees made of optimizers of arrays, and the state they keep.

An optimizer of one array is three functions: `init(x)` gives its state, `update(i, g, state)` that after step i with the
gradient g, and `get_params(state)` the array. `optimizer` lets them work on every leaf of a tree of parameters.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from typing_extensions import override
from lamina_ir import trees
from lamina_tracing import Array
from lamina_tracing.extend import rename_errors

__all__ = ["InitFn", "JoinPoint", "Optimizer", "OptimizerState", "Params", "ParamsFn", "State", "Step", "UpdateFn", "Updates",
           "optimizer", "pack_optimizer_state", "unpack_optimizer_state"]

Step: TypeAlias = int | Array
Params: TypeAlias = Any  # a tree of arrays
State: TypeAlias = Any  # that of one array, a tree
Updates: TypeAlias = Any  # a tree like Params


class OptimizerState(NamedTuple):
    """What an optimizer keeps: the parameters and what it remembers of them. A tree, whose leaves are the arrays."""

    packed_state: Any  # for each leaf of the parameters the leaves of its state
    tree_def: Any  # structure of the parameters
    subtree_defs: Any  # for each leaf of the parameters the structure of its state


trees.register_pytree_node(OptimizerState, lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
                           lambda defs, packed: OptimizerState(packed[0], *defs))

InitFn: TypeAlias = Callable[[Params], OptimizerState]
UpdateFn: TypeAlias = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn: TypeAlias = Callable[[OptimizerState], Params]


class Optimizer(NamedTuple):
    """Three functions that change parameters step by step, also taken as `init, update, get_params = optimizer`."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def _check_state(call: str, state: Any) -> OptimizerState:
    if not isinstance(state, OptimizerState):
        raise TypeError(f"{call}: expected the OptimizerState that the optimizer's init gives; got {type(state).__name__}")
    return state


def _unpack_states(state: OptimizerState) -> list[State]:
    """The state of each leaf of the parameters."""
    return [trees.tree_unflatten(tree, leaves) for tree, leaves in zip(state.subtree_defs, state.packed_state, strict=True)]


def _pack_states(tree: Any, states: list[State]) -> OptimizerState:
    flat = [trees.tree_flatten(s) for s in states]
    return OptimizerState(tuple(list(leaves) for leaves, _ in flat), tree, tuple(inner for _, inner in flat))


def optimizer(opt_maker: Callable[..., tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]],
              ) -> Callable[..., Optimizer]:
    """Makes an optimizer of trees of one of arrays.

    Args:
      opt_maker: gives, of its own arguments, three functions: `init(x)` a state, any tree; `update(i, g, state)` the state
        after step `i` with the gradient `g`; `get_params(state)` the array.
    Returns:
      A function of the arguments of `opt_maker` that gives an `Optimizer`: `init` takes a tree of parameters, `update` a
      step, a tree of gradients and an `OptimizerState`, and `get_params` that state. All three may be transformed and
      compiled, the step being traced or not.
    Raises:
      TypeError: `opt_maker` is no function; by `update`, where the gradients form another tree than the parameters, or the
        new state of an array another one than the old; by `update` and `get_params`, where there is no OptimizerState.

    Source: meaning of `jax.example_libraries.optimizers.optimizer`.

    >>> @optimizer
    ... def signs(step_size):
    ...     return (lambda x: x), (lambda i, g, x: x - step_size * np.sign(g)), (lambda x: x)
    >>> init, update, get_params = signs(0.5)
    >>> get_params(update(0, {"w": np.array([3., -2.])}, init({"w": np.array([1., 1.])})))
    {'w': array([0.5, 1.5])}
    """
    if not callable(opt_maker):
        raise TypeError(f"optimizer: opt_maker must be a function that returns init, update and get_params; "
                        f"got {type(opt_maker).__name__}")
    name = getattr(opt_maker, "__name__", "optimizer")
    named = rename_errors(opt_maker, name)

    @functools.wraps(opt_maker)
    def tree_opt_maker(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = (rename_errors(fun, name) for fun in named(*args, **kwargs))

        def init_fn(x0_tree: Params) -> OptimizerState:
            leaves, tree = trees.tree_flatten(x0_tree)
            return _pack_states(tree, [init(x) for x in leaves])

        def update_fn(i: Step, grad_tree: Updates, opt_state: OptimizerState) -> OptimizerState:
            tree = _check_state(f"{name}: update", opt_state).tree_def
            gradients, found = trees.tree_flatten(grad_tree)
            if found != tree:
                raise TypeError(f"{name}: update: the gradients form another tree than the parameters; got {found}, expected "
                                f"{tree}")
            new = _pack_states(tree,
                               [update(i, g, s) for g, s in zip(gradients, _unpack_states(opt_state), strict=True)])
            for before, after in zip(opt_state.subtree_defs, new.subtree_defs, strict=True):
                if before != after:
                    raise TypeError(f"{name}: update: the state of an array keeps its tree; got {after}, expected {before}")
            return new

        def params_fn(opt_state: OptimizerState) -> Params:
            states = _unpack_states(_check_state(f"{name}: get_params", opt_state))
            return trees.tree_unflatten(opt_state.tree_def, [get_params(s) for s in states])

        return Optimizer(init_fn, update_fn, params_fn)
    return tree_opt_maker


class JoinPoint:
    """Where the tree of parameters ends and the state of one of them begins, in what `unpack_optimizer_state` gives.

    A leaf to functions of trees.
    """

    def __init__(self, subtree: State) -> None:
        self.subtree = subtree

    @override
    def __repr__(self) -> str:
        return f"JoinPoint({self.subtree!r})"


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """The state of an optimizer as a plain tree, to keep in a file.

    Args:
      opt_state: what `init` or `update` of an optimizer gives.
    Returns:
      A tree like the parameters, with a `JoinPoint` in the place of each array; its `subtree` is that array's state.
    Raises:
      TypeError: `opt_state` is no OptimizerState.

    Source: meaning of `jax.example_libraries.optimizers.unpack_optimizer_state`.

    >>> from lamina_nn.optimizers import momentum
    >>> unpack_optimizer_state(momentum(0.1, 0.9).init_fn({"w": np.ones(2, np.float32)}))["w"].subtree
    (array([1., 1.], dtype=float32), Array([0., 0.], dtype=float32))
    """
    state = _check_state("unpack_optimizer_state", opt_state)
    return trees.tree_unflatten(state.tree_def, [JoinPoint(s) for s in _unpack_states(state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """The state of an optimizer, of what `unpack_optimizer_state` gave.

    Args:
      marked_pytree: a tree whose leaves are `JoinPoint`s.
    Returns:
      The state.
    Raises:
      TypeError: a leaf is no `JoinPoint`.

    Source: meaning of `jax.example_libraries.optimizers.pack_optimizer_state`.

    >>> state = pack_optimizer_state({"w": JoinPoint((1., 0.))})
    >>> state.packed_state
    ([1.0, 0.0],)
    """
    points, tree = trees.tree_flatten(marked_pytree)
    for point in points:
        if not isinstance(point, JoinPoint):
            raise TypeError(f"pack_optimizer_state: every leaf must be a JoinPoint; got {type(point).__name__}")
    return _pack_states(tree, [point.subtree for point in points])
