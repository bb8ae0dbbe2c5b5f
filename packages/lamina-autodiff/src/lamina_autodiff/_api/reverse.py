"""`vjp`, `grad`, `value_and_grad`, `linear_transpose`: reverse-mode derivatives."""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, overload, runtime_checkable

from typing_extensions import override
from lamina_ir import config, dtypes, LeakedTracerError, shaped, ShapedArray, ShapeError, trees
from lamina_ir.extend import check_axis_names
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import (EVALUATION, api_boundary, constrain, is_counted_once, get_duck_typed_avals, function_name,
                                   keep_shardings, trace_state, get_function_source, stage, typeof, wraps)

from .._engine.arg_checks import (match_weak_type, check_function, check_input, check_scalar_output, resolve_argnums,
                                  check_cotangents, get_leaf_avals, scalar_like, zeros_of)
from .forward import _flat_function
from .._engine.linear_function import LinearFunction
from .._engine.linearize import LinearProgram, linearize_flat, record_linear
from .._engine.rule_kinds import expand_by_mask
from .._typing import Tangent

__all__ = ["grad", "linear_transpose", "value_and_grad", "vjp"]

P = ParamSpec("P")
R = TypeVar("R")
X = TypeVar("X")
Aux = TypeVar("Aux")


@runtime_checkable
class LinearizedFunction(Protocol):
    """The linearization of a function at a point, as reverse mode uses it.

    Attributes:
      outs: one entry per flat result; reverse mode truncates it to the results that get cotangents.

    >>> class Half:
    ...     def __init__(self, outs):
    ...         self.outs = outs
    ...     def backward(self, cts, *, free=False):
    ...         return [lax.mul(ct, 0.5) for ct in cts]
    >>> isinstance(Half([1.0]), LinearizedFunction)
    True
    """

    outs: Sequence[Tangent]

    def backward(self, cts: Sequence[Tangent], *, free: bool = False) -> Sequence[Tangent]:
        """Return the cotangents of the active arguments, None for zero. `free` marks the last call: drop residuals."""
        ...


# `linearize(fun, flat_primals, active)` returns the flat results and a LinearizedFunction
Linearize = Callable[[Callable[..., Sequence[Value]], Sequence[Value], Sequence[bool]], tuple[list[Value], Any]]


def _linearize_tree(call: str, fun: Function, args: Sequence[Tree], has_aux: bool,
                    linearize: Linearize, source: Function | None = None, positions: Sequence[int] = ()) -> tuple[
        Sequence[ShapedArray], list[bool], PyTreeDef, list[Value], Any, PyTreeDef, PyTreeDef, int]:
    """Linearize a function of trees with `linearize`, which works on flat arguments."""
    flat, tree = trees.tree_flatten(tuple(args))
    avals = get_leaf_avals(call, fun, flat, tree)
    active = [dtypes.is_inexact(a.dtype) for a in avals]
    run, info = _flat_function(fun, tree, has_aux, call, source, positions)
    kept = keep_shardings(flat)
    if kept is not None:
        run = _constrain_arguments(run, kept)
    out, program = linearize(run, flat, active)
    if kept is not None:
        program.kept_shardings = kept
    out_tree, aux_tree, n = info
    # Auxiliary results have no cotangents. Without them, equations that only they need are dead.
    program.outs = program.outs[:n]
    return avals, active, tree, out, program, out_tree, aux_tree, n


def _constrain_arguments(run: Function, kept: Sequence[Any]) -> Function:
    """Return a function that constrains its arguments to the shardings that they have, and so their cotangents."""
    return lambda *xs: run(*[constrain(x, params) for x, params in zip(xs, kept, strict=True)])


def _pull(fun: Function | None, program: LinearizedFunction, avals: Sequence[ShapedArray], active: Sequence[bool],
          cts: Sequence[Tangent], free: bool = False) -> list[Value]:
    """Return the cotangents of all inputs; equations bound outside transpose rules get the line of `def fun`."""
    line = trace_state.source
    if fun is not None and line is None and trace_state.trace is not EVALUATION:
        trace_state.source = get_function_source(fun)
    elif fun is not None and getattr(program, "kept_shardings", None) is not None:
        source = get_function_source(fun)  # marked as a part of the transpose
        trace_state.source = None if source is None else source.backward()
    try:
        return _pull_back(program, avals, active, cts, free)
    finally:
        trace_state.source = line


def _pull_back(program: LinearizedFunction, avals: Sequence[ShapedArray], active: Sequence[bool],
               cts: Sequence[Tangent], free: bool) -> list[Value]:
    # The cotangent of a weakly typed argument, such as a Python scalar, is weakly typed too.
    flat = expand_by_mask(program.backward(cts, free=free), active)
    found = [zeros_of(a) if ct is None else match_weak_type(ct, a) if a.weak_type else ct for a, ct in zip(avals, flat)]
    kept = getattr(program, "kept_shardings", None)
    if kept is not None:  # zeros get the shardings of their arguments
        found = [constrain(x, params) if ct is None else x for x, ct, params in zip(found, flat, kept)]
    return found


@dataclasses.dataclass(eq=False)
class _Pull:
    """Apply the linear program of a `vjp` to a cotangent: check it and restore trees."""

    fun: Function | None  # equations outside the transpose rules get its line; not pickled
    name: str
    tree: PyTreeDef
    avals: Sequence[ShapedArray]
    active: Sequence[bool]
    out_tree: PyTreeDef
    out_avals: Sequence[ShapedArray]
    sum_axes: list[tuple[Hashable, ...]]  # per flat primal, the reduce_axes to sum its cotangent over

    def __call__(self, program: LinearizedFunction, *given: Tree) -> Tree:
        if len(given) != 1:
            raise TypeError(f"vjp of `{self.name}`: the vjp function takes one argument, a cotangent of the "
                            f"output's tree; got {len(given)}")
        flat_ct, ct_tree = trees.tree_flatten(given[0])
        if ct_tree != self.out_tree:
            raise ShapeError(f"vjp: the cotangent must have the tree of the output of `{self.name}`, {self.out_tree}; "
                             f"got {ct_tree}")
        cts = _pull(self.fun, program, self.avals, self.active, check_cotangents("vjp", self.out_avals, flat_ct))
        return trees.tree_unflatten(self.tree, _sum_over_axes(cts, self.sum_axes))

    @override
    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        # Without the function, which may be a lambda and cannot be pickled then.
        return _Pull, (None, self.name, self.tree, self.avals, self.active, self.out_tree, self.out_avals, self.sum_axes)


@overload
def vjp(fun: Callable[..., R], *primals: Tree, has_aux: Literal[False] = False,
        reduce_axes: Sequence[Hashable] = ()) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...


@overload
def vjp(fun: Callable[..., tuple[X, Aux]], *primals: Tree, has_aux: Literal[True],
        reduce_axes: Sequence[Hashable] = ()) -> tuple[X, Callable[[Any], tuple[Any, ...]], Aux]: ...


@overload
def vjp(fun: Function, *primals: Tree, has_aux: bool, reduce_axes: Sequence[Hashable] = ()) -> Any: ...


@api_boundary
def vjp(fun: Function, *primals: Tree, has_aux: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Any:
    """Compute the value of `fun` and its vector-Jacobian product function.

    Args:
      fun: function of arrays and trees of them.
      primals: the point, one entry per argument.
      has_aux: whether `fun` returns (output, auxiliary data).
      reduce_axes: names of mapped axes. Cotangents of arguments that are replicated over such an axis are summed over
        it.
    Returns:
      (output, `f_vjp`), and the auxiliary data if `has_aux`; `f_vjp(ct)` returns a tuple, one entry per
      argument, of the argument's tree, shapes and dtypes (dtype `float0` for integers). `f_vjp` is a pytree of its
      residuals: `jit` can return and take it, and it can be a residual of `custom_vjp`.
    Raises:
      TypeError, ValueError: the cotangent does not match the output.

    >>> y, f_vjp = vjp(lambda x, y: x * y, 3.0, 4.0)
    >>> f_vjp(1.0)
    (Array(4., dtype=float32, weak_type=True), Array(3., dtype=float32, weak_type=True))
    """
    check_function("vjp", fun)
    return vjp_impl(linearize_flat, fun, primals, has_aux, reduce_axes)


def vjp_impl(linearize: Linearize, fun: Function, primals: Sequence[Tree], has_aux: bool,
             reduce_axes: Sequence[Hashable]) -> tuple[Tree, ...]:
    """Implement `vjp` with a given linearizer."""
    avals, active, tree, out, program, out_tree, aux_tree, n = _linearize_tree("vjp", fun, primals, has_aux, linearize)
    out_avals, name = [typeof(o) for o in out[:n]], function_name(fun)
    pull = _Pull(fun, name, tree, avals, active, out_tree, out_avals, _find_sum_axes("vjp", avals, reduce_axes))
    recorded = isinstance(program, LinearProgram)
    f_vjp = LinearFunction(f"vjp of {name}", program, pull) if recorded else functools.partial(api_boundary(pull), program)
    value = trees.tree_unflatten(out_tree, out[:n])
    return (value, f_vjp, trees.tree_unflatten(aux_tree, out[n:])) if has_aux else (value, f_vjp)


def _find_sum_axes(call: str, avals: Sequence[ShapedArray], axes: Sequence[Hashable]) -> list[tuple[Hashable, ...]]:
    """Return for each flat primal the axes over which it is replicated; its cotangent is summed over these.

    A primal that varies over an axis has a separate cotangent on each member. The list is empty if nothing is summed.
    """
    axes = check_axis_names(f"{call}: reduce_axes", axes) if axes != () else axes
    for name in axes:
        lax.axis_size((name,))  # raises if the axis is not bound
    each = [name for name in axes if not is_counted_once(name)]  # over the others the cotangent is summed already
    return [tuple([name for name in each if name not in a.varying_axes]) for a in avals] if each else []


def _sum_over_axes(cts: Sequence[Value], sum_axes: Sequence[tuple[Hashable, ...]]) -> Sequence[Value]:
    """Sum each flat cotangent over its axes."""
    if not sum_axes:
        return cts
    return [lax.psum(g, axes) if axes and g.dtype != dtypes.float0 else g for g, axes in zip(cts, sum_axes, strict=True)]


@api_boundary
def value_and_grad(fun: Callable[P, R], argnums: int | Sequence[int] = 0, has_aux: bool = False,
                   holomorphic: bool = False, allow_int: bool = False,
                   reduce_axes: Sequence[Hashable] = ()) -> Callable[P, tuple[R, Tree]]:
    """Make a function that returns the value of `fun` and its gradient.

    Args: as for `grad`.
    Returns:
      A function returning (value, gradient); with `has_aux` ((value, auxiliary data), gradient).

    >>> value_and_grad(lambda x: x * x)(3.0)
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    return value_and_grad_impl(linearize_flat, "value_and_grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)


def value_and_grad_impl(linearize: Linearize, call: str, fun: Function, argnums: Tree, has_aux: bool,
                        holomorphic: bool, allow_int: bool, reduce_axes: Sequence[Hashable]) -> Function:
    """Implement `value_and_grad` with a given linearizer."""
    if not callable(fun):
        raise TypeError(f"{call}: expected a function; got {type(fun).__name__}")

    @api_boundary
    def value_and_gradient(*args: Tree, **kwargs: Tree) -> tuple[Tree, Tree]:
        nums = resolve_argnums(call, fun, argnums, args)

        # Only the chosen arguments are differentiated; the others keep their values.
        def chosen(*xs: Tree) -> Tree:
            # The commonest case, without a copy of the arguments.
            if len(nums) == len(args) == 1:
                return fun(*xs, **kwargs)
            full = list(args)
            for n, x in zip(nums, xs):
                full[n] = x
            return fun(*full, **kwargs)

        chosen.__name__ = function_name(fun)
        avals, active, tree, out, program, out_tree, aux_tree, n = _linearize_tree(
            call, chosen, [args[i] for i in nums], has_aux, linearize, fun, nums)
        sum_axes = _find_sum_axes(call, avals, reduce_axes)
        for a in avals:
            check_input(call, fun, a, holomorphic, allow_int)
        check_scalar_output(call, fun, out[:n], out_tree, holomorphic)
        # x* = J^T 1. The program is pulled back only once, so residuals are freed on the way.
        seed = scalar_like(1, typeof(out[0]))
        flat = _pull(fun, program, avals, active, [seed], free=True)
        grads = trees.tree_unflatten(tree, _sum_over_axes(flat, sum_axes))
        value = trees.tree_unflatten(out_tree, out[:n])
        if has_aux:
            value = (value, trees.tree_unflatten(aux_tree, out[n:]))
        return value, grads if isinstance(argnums, (tuple, list, range)) else grads[0]

    return wraps(fun)(value_and_gradient)


@api_boundary
def grad(fun: Callable[P, Tree], argnums: int | Sequence[int] = 0, has_aux: bool = False, holomorphic: bool = False,
         allow_int: bool = False, reduce_axes: Sequence[Hashable] = ()) -> Callable[P, Tree]:
    """Make a function that returns the gradient of a scalar-valued function.

    Args:
      fun: function whose output is one scalar.
      argnums: which positional argument(s) to differentiate; a tuple gives a tuple of gradients.
      has_aux: whether `fun` returns (output, auxiliary data); the result is then (gradient, auxiliary data).
      holomorphic: whether `fun` is a holomorphic function of complex inputs.
      allow_int: whether integer inputs are allowed; their gradient has dtype `float0`.
      reduce_axes: names of mapped axes. Gradients of arguments that are replicated over such an axis are summed over
        it; gradients of varying arguments stay separate on each member.
    Returns:
      A function of the same arguments; gradients have the trees, shapes and dtypes of the arguments.
    Raises:
      TypeError: the output is not a scalar, or an input or output has a dtype that these options do not allow.

    >>> grad(lambda x: x * x)(3.0)
    Array(6., dtype=float32, weak_type=True)
    """
    return grad_impl(linearize_flat, fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)


def grad_impl(linearize: Linearize, fun: Function, argnums: Tree, has_aux: bool, holomorphic: bool, allow_int: bool,
              reduce_axes: Sequence[Hashable]) -> Function:
    """Implement `grad` with a given linearizer."""
    both = value_and_grad_impl(linearize, "grad", fun, argnums, has_aux, holomorphic, allow_int, reduce_axes)

    @api_boundary
    def gradient(*args: Tree, **kwargs: Tree) -> Tree:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wraps(fun)(gradient)


@api_boundary
def linear_transpose(fun: Function, *primals: Tree, reduce_axes: Sequence[Hashable] = ()) -> Function:
    """Make the transpose of a function that is linear in all its arguments.

    Args:
      fun: a linear function.
      primals: arguments, or objects with `shape` and `dtype`; only their types are read.
      reduce_axes: as for `vjp`.
    Returns:
      A function from a cotangent of the output to a tuple with one cotangent per argument.
    Raises:
      TypeError: arguments or results are booleans, or some are integers and others are not.
      TypeError: `fun` is not linear; the message names the first nonlinear operation, its operands and its source line.

    >>> linear_transpose(lambda x: x * 2.0, 1.0)(3.0)
    (Array(6., dtype=float32, weak_type=True),)
    """
    check_function("linear_transpose", fun)
    flat, tree = trees.tree_flatten(primals)
    avals = get_duck_typed_avals("linear_transpose", function_name(fun), flat, trees.tree_structure((primals, {})))
    run, info = _flat_function(fun, tree, False, "linear_transpose")
    if config.check_tracer_leaks.value:  # leaked tracers are found by staging: a linear program holds its own variables
        stage(run, avals)
    program = record_linear(run, avals, function_name(fun))
    out_tree = info[0]
    out_avals = [o.aval if hasattr(o, "number") else shaped(typeof(o).shape, typeof(o).dtype) for o in program.outs]
    # True: inexact, None: integer, False: another dtype. A linear map must not mix the first two.
    kinds = [dtypes.is_inexact(a.dtype) or (dtypes.is_integer(a.dtype) and None) for a in (*avals, *out_avals)]
    if len(set(kinds)) > 1 or False in kinds:
        raise TypeError(f"linear_transpose of `{function_name(fun)}`: arguments and results must all be of real or complex "
                        f"dtypes, or all integers; got {', '.join(a.str_long() for a in avals)} -> "
                        f"{', '.join(a.str_long() for a in out_avals)}")
    integers = None in kinds
    sum_axes = _find_sum_axes("linear_transpose", avals, reduce_axes)

    @api_boundary
    def transposed(ct: Tree) -> Tree:
        flat_ct, ct_tree = trees.tree_flatten(ct)
        if ct_tree != out_tree:
            raise TypeError(f"linear_transpose: the cotangent must have the tree of the output, {out_tree}; got {ct_tree}")
        leaves = check_cotangents("linear_transpose", out_avals, flat_ct, integers)
        try:
            back = program.backward(leaves)
        except LeakedTracerError as e:  # the transpose rule of a loop used a linear variable as a known value
            raise TypeError(f"linear_transpose: `{function_name(fun)}` is not linear: in the body of a loop or branch, "
                            "operands of a nonlinear primitive depend on the arguments") from e
        cts = [(lax.full(a.shape, 0, a.dtype) if integers else zeros_of(a)) if b is None else match_weak_type(b, a)
               for a, b in zip(avals, back)]
        return trees.tree_unflatten(tree, _sum_over_axes(cts, sum_axes))

    return transposed


