"""`vjp`, `grad`, `value_and_grad`, `linear_transpose`: derivatives pulled back."""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload, runtime_checkable

from lamina_ir import LeakedTracerError, ShapeError, config, dtypes, shaped, trees
from lamina_ir.extend import axis_names
from lamina_tracing import lax
from lamina_tracing.extend import (EVALUATION, boundary, counts_once, duck_types, function_name, now, source_of_function,
                                   stage, typeof)

from .checks import (as_weak_as, check_function, check_input, check_scalar_output, chosen_arguments, cotangent_leaves,
                     leaf_types, number_like, zeros_of)
from .forward import _flat_function
from .linear_function import LinearFunction
from .linear import LinearProgram, linearize_flat, record_linear
from .rows import spread

__all__ = ["grad", "linear_transpose", "value_and_grad", "vjp"]

P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X")
Aux = TypeVar("Aux")


@runtime_checkable
class Pulling(Protocol):
    """The linear part of a function at a point, to be pulled back through.

    Attributes:
      outs: one entry per flat result; cut to those that have cotangents.

    >>> class Half:
    ...     def __init__(self, outs):
    ...         self.outs = outs
    ...     def backward(self, cts, *, free=False):
    ...         return [lax.mul(ct, 0.5) for ct in cts]
    >>> isinstance(Half([1.0]), Pulling)
    True
    """

    outs: Any

    def backward(self, cts: Sequence[Any], *, free: bool = False) -> Sequence[Any]:
        """The cotangents of the active arguments from those of the results, None for zero; `free`: this is the only time."""
        ...


# `by(fun, flat primals, which are active)`: the flat results, and how cotangents are pulled back
Linearize = Callable[[Callable[..., Sequence[Any]], Sequence[Any], Sequence[bool]], tuple[list[Any], Any]]


def _linearized(call: str, fun: Callable[..., Any], args: Sequence[Any], has_aux: bool, by: Linearize) -> Any:
    flat, tree = trees.tree_flatten(tuple(args))
    avals = leaf_types(call, fun, flat, tree)
    active = [dtypes.is_inexact(a.dtype) for a in avals]
    run, info = _flat_function(fun, tree, has_aux, call)
    out, program = by(run, flat, active)
    out_tree, aux_tree, n = info
    program.outs = program.outs[:n]
    return avals, active, tree, out, program, out_tree, aux_tree, n


def _pull(fun: Callable[..., Any] | None, program: Pulling, avals: Sequence[Any], active: Sequence[bool],
          cts: Sequence[Any], free: bool = False) -> list[Any]:
    """The cotangents of all inputs; what is done around the rows has the line of the function's `def`."""
    line = now.source
    if fun is not None and line is None and now.trace is not EVALUATION:
        now.source = source_of_function(fun)
    try:
        return _pulled(program, avals, active, cts, free)
    finally:
        now.source = line


def _pulled(program: Pulling, avals: Sequence[Any], active: Sequence[bool], cts: Sequence[Any],
            free: bool) -> list[Any]:
    return [zeros_of(a) if ct is None else as_weak_as(ct, a) if a.weak_type else ct
            for a, ct in zip(avals, spread(program.backward(cts, free=free), active))]


@dataclasses.dataclass(eq=False)
class _Pull:
    """How the linear function of a `vjp` is applied."""

    fun: Callable[..., Any] | None  # whose line the equations around the rows get; pickles leave it out
    name: str
    tree: Any
    avals: Sequence[Any]
    active: Sequence[bool]
    out_tree: Any
    out_avals: Sequence[Any]
    shared: list[tuple[Hashable, ...]]

    def __call__(self, program: Pulling, *given: Any) -> Any:
        if len(given) != 1:
            raise TypeError(f"vjp of `{self.name}`: the function that pulls back takes one argument, a cotangent of the "
                            f"output's tree; got {len(given)}")
        flat_ct, ct_tree = trees.tree_flatten(given[0])
        if ct_tree != self.out_tree:
            raise ShapeError(f"vjp: the cotangent must have the tree of the output of `{self.name}`, {self.out_tree}; "
                             f"got {ct_tree}")
        cts = _pull(self.fun, program, self.avals, self.active, cotangent_leaves("vjp", self.out_avals, flat_ct))
        return trees.tree_unflatten(self.tree, _reduced(cts, self.shared))

    def __reduce__(self) -> Any:
        return _Pull, (None, self.name, self.tree, self.avals, self.active, self.out_tree, self.out_avals, self.shared)


@overload
def vjp(fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False,
        reduce_axes: Sequence[Hashable] = ()) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...


@overload
def vjp(fun: Callable[..., tuple[X, Aux]], *primals: Any, has_aux: Literal[True],
        reduce_axes: Sequence[Hashable] = ()) -> tuple[X, Callable[[Any], tuple[Any, ...]], Aux]: ...


@overload
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool, reduce_axes: Sequence[Hashable] = ()) -> Any: ...


@boundary
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Any:
    """The value of `fun` and the function that pulls cotangents of its output back to its arguments.

    Args:
      fun: function of arrays and trees of them.
      primals: the point, one entry per argument.
      has_aux: whether `fun` returns (output, auxiliary data).
      reduce_axes: names of mapped axes. The cotangents of arguments that are the same on all members of such an axis, which
        `fun` broadcasts over it, are summed over it.
    Returns:
      (output, `f_vjp`), and the auxiliary data if `has_aux`; `f_vjp(ct)` returns a tuple, one entry per
      argument, of the argument's tree, shapes and dtypes (dtype `float0` for integers). `f_vjp` is a tree of the arrays
      it holds: `jit` can return and take it, and it can be a residual of `custom_vjp`.
    Raises:
      TypeError, ValueError: the cotangent does not fit the output.

    >>> y, f_vjp = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> f_vjp(1.0)
    (Array(4., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
    """
    check_function("vjp", fun)
    return vjp_by(linearize_flat, fun, primals, has_aux, reduce_axes)


def vjp_by(by: Linearize, fun: Callable[..., Any], primals: Sequence[Any], has_aux: bool,
           reduce_axes: Sequence[Hashable]) -> Any:
    """`vjp` with another way to pull back."""
    avals, active, tree, out, program, out_tree, aux_tree, n = _linearized("vjp", fun, primals, has_aux, by)
    out_avals, name = [typeof(o) for o in out[:n]], function_name(fun)
    shared = _shared("vjp", avals, reduce_axes)

    pull = _Pull(fun, name, tree, avals, active, out_tree, out_avals, shared)
    recorded = isinstance(program, LinearProgram)
    f_vjp = LinearFunction(f"vjp of {name}", program, pull) if recorded else functools.partial(boundary(pull), program)
    value = trees.tree_unflatten(out_tree, out[:n])
    return (value, f_vjp, trees.tree_unflatten(aux_tree, out[n:])) if has_aux else (value, f_vjp)


def _shared(call: str, avals: Sequence[Any], axes: Any) -> list[tuple[Hashable, ...]]:
    """For each flat primal those of the axes over which it is broadcast: over which it does not differ. A primal that differs
    has a cotangent of its own at each member."""
    axes = axis_names(f"{call}: reduce_axes", axes) if axes != () else axes
    for name in axes:
        lax.axis_size((name,))  # it must be bound
    each = [name for name in axes if not counts_once(name)]  # where one value counts once its gradient is the sum already
    return [tuple([name for name in each if name not in a.over]) for a in avals] if each else []


def _reduced(cts: Sequence[Any], shared: Sequence[tuple[Hashable, ...]]) -> Sequence[Any]:
    """Flat cotangents, each summed over the axes over which its primal is broadcast."""
    if not shared:
        return cts
    return [lax.psum(g, axes) if axes and g.dtype != dtypes.float0 else g for g, axes in zip(cts, shared, strict=True)]


@boundary
def value_and_grad(fun: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False,
                   holomorphic: bool = False, allow_int: bool = False,
                   reduce_axes: Sequence[Hashable] = ()) -> Callable[P, tuple[R, Any]]:
    """A function that returns the value of `fun` and its gradient.

    Args: as for `grad`.
    Returns:
      A function returning (value, gradient); with `has_aux` ((value, auxiliary data), gradient).

    >>> value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    return value_and_grad_by(linearize_flat, "value_and_grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)


def value_and_grad_by(by: Linearize, call: str, fun: Callable[..., Any], argnums: Any, has_aux: bool, holomorphic: bool,
                      allow_int: bool, reduce_axes: Sequence[Hashable]) -> Callable[..., Any]:
    """`value_and_grad` with another way to pull back."""
    if not callable(fun):
        raise TypeError(f"{call}: expected a function; got {type(fun).__name__}")

    @boundary
    def value_and_gradient(*args: Any, **kwargs: Any) -> Any:
        nums = chosen_arguments(call, fun, argnums, args)

        def chosen(*xs: Any) -> Any:
            if len(nums) == len(args) == 1:
                return fun(*xs, **kwargs)
            full = list(args)
            for n, x in zip(nums, xs):
                full[n] = x
            return fun(*full, **kwargs)

        chosen.__name__ = function_name(fun)
        avals, active, tree, out, program, out_tree, aux_tree, n = _linearized(call, chosen, [args[i] for i in nums],
                                                                               has_aux, by)
        shared = _shared(call, avals, reduce_axes)
        for a in avals:
            check_input(call, fun, a, holomorphic, allow_int)
        check_scalar_output(call, fun, out[:n], out_tree, holomorphic)
        # x* = J' 1. No one pulls back twice, so the record is given up while it is walked.
        seed = number_like(1, typeof(out[0]))
        flat = _pull(fun, program, avals, active, [seed], free=True)
        grads = trees.tree_unflatten(tree, _reduced(flat, shared))
        value = trees.tree_unflatten(out_tree, out[:n])
        if has_aux:
            value = (value, trees.tree_unflatten(aux_tree, out[n:]))
        return value, grads if isinstance(argnums, (tuple, list, range)) else grads[0]

    return functools.update_wrapper(value_and_gradient, fun, updated=())


@boundary
def grad(fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Callable[P, Any]:
    """A function that returns the gradient of a scalar-valued function.

    Args:
      fun: function whose output is one scalar.
      argnums: which positional argument(s) to differentiate; a tuple gives a tuple of gradients.
      has_aux: whether `fun` returns (output, auxiliary data); the result is then (gradient, auxiliary data).
      holomorphic: whether `fun` is a holomorphic function of complex inputs.
      allow_int: whether integer inputs are allowed; their gradient has dtype `float0`.
      reduce_axes: names of mapped axes. The gradients by arguments that are the same on all members of such an axis, which
        `fun` broadcasts over it, are summed over it; those by others are each member's own.
    Returns:
      A function of the same arguments; gradients have the trees, shapes and dtypes of the arguments.
    Raises:
      TypeError: the output is no scalar, or an input or output has a dtype that cannot be differentiated as asked.

    >>> grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    return grad_by(linearize_flat, fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)


def grad_by(by: Linearize, fun: Callable[..., Any], argnums: Any, has_aux: bool, holomorphic: bool, allow_int: bool,
            reduce_axes: Sequence[Hashable]) -> Callable[..., Any]:
    """`grad` with another way to pull back."""
    both = value_and_grad_by(by, "grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return functools.update_wrapper(gradient, fun, updated=())


@boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Hashable] = ()) -> Callable[..., Any]:
    """The transpose of a function that is linear in all its arguments.

    Args:
      fun: a linear function.
      primals: arguments, or anything with `shape` and `dtype`; only their types are read.
      reduce_axes: as for `vjp`.
    Returns:
      A function from a cotangent of the output to a tuple with one cotangent per argument.
    Raises:
      TypeError: arguments or results are booleans, or some are integers and others are not.
      TypeError: `fun` is not linear; names the first op that is not, its operands and the line it stands in.

    >>> linear_transpose(lambda x: x * 2.0, 1.0)(3.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_function("linear_transpose", fun)
    flat, tree = trees.tree_flatten(primals)
    avals = duck_types("linear_transpose", function_name(fun), flat, trees.tree_structure((primals, {})))
    run, info = _flat_function(fun, tree, False, "linear_transpose")
    if config.check_tracer_leaks.value:  # a linear program holds its own variables: what else does is seen on a staged one
        stage(run, avals)
    program = record_linear(run, avals, function_name(fun))
    out_tree = info[0]
    out_avals = [o.aval if hasattr(o, "number") else shaped(typeof(o).shape, typeof(o).dtype) for o in program.outs]
    kinds = [dtypes.is_inexact(a.dtype) or (dtypes.is_integer(a.dtype) and None) for a in (*avals, *out_avals)]
    if len(set(kinds)) > 1 or False in kinds:
        raise TypeError(f"linear_transpose of `{function_name(fun)}`: arguments and results must all be of real or complex "
                        f"dtypes, or all integers; got {', '.join(a.long() for a in avals)} -> "
                        f"{', '.join(a.long() for a in out_avals)}")
    integers = None in kinds
    shared = _shared("linear_transpose", avals, reduce_axes)

    @boundary
    def transposed(ct: Any) -> Any:
        flat_ct, ct_tree = trees.tree_flatten(ct)
        if ct_tree != out_tree:
            raise TypeError(f"linear_transpose: the cotangent must have the tree of the output, {out_tree}; got {ct_tree}")
        leaves = cotangent_leaves("linear_transpose", out_avals, flat_ct, integers)
        try:
            back = program.backward(leaves)
        except LeakedTracerError as e:  # the row of a loop has treated a linear variable as known
            raise TypeError(f"linear_transpose: `{function_name(fun)}` is not linear: in the body of a loop or branch, "
                            "operands of an op that is not linear depend on the arguments") from e
        cts = [(lax.full(a.shape, 0, a.dtype) if integers else zeros_of(a)) if b is None else as_weak_as(b, a)
               for a, b in zip(avals, back)]
        return trees.tree_unflatten(tree, _reduced(cts, shared))

    return transposed


