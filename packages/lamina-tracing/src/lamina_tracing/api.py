"""Public functions around tracing: inspect programs, name parts of them, and control when code runs.

- Inspect: `make_jaxpr`, `eval_shape`, `typeof`.
- Name: `named_call`, `named_scope`.
- Control: `disable_jit`, `ensure_compile_time_eval`.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, ParamSpec, TypeVar, overload

from typing_extensions import override
from lamina_ir import ClosedJaxpr, Jaxpr, ShapeDtypeStruct, ShapedArray, config, shaped, trees
from lamina_ir.extend import check_axis_name
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Sharding, Tree, Value

from ._core.explicit_shardings import add_shardings, analyze_results, explicit_meshes, find_sharding
from ._core.args import get_duck_typed_avals
from ._core.signature import function_name, wraps
from ._core.static_args import StaticArgs
from ._core.trace import (EVALUATION, AxisFrame, StateChange, Trace, extend_axis_env, trace_state, extend_name_stack,
                          notify_staging_hooks, staging_context)
from ._core import tracer
from ._core.tracer import Tracer
from ._jit.call_spec import stage_call
from ._diagnostics.tracebacks import api_boundary
from ._typing import Unchecked

__all__ = ["disable_jit", "ensure_compile_time_eval", "eval_shape", "make_jaxpr", "named_call", "named_scope",
           "typeof"]

P = ParamSpec("P")
R = TypeVar("R")


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """Run jitted functions primitive by primitive inside the block, so that values can be printed and debugged.

    Loops and branches become Python loops and branches. A `scan` of length 0 raises ValueError, because the types of
    its `ys` are unknown.

    >>> with disable_jit():
    ...     pass
    """
    return config.disable_jit(disable)


def ensure_compile_time_eval() -> AbstractContextManager[None]:
    """Run primitives on known values eagerly inside the block, even while a function is traced.

    >>> import numpy as np
    >>> from lamina_tracing import jit, lax
    >>> @jit
    ... def f(x):
    ...     with ensure_compile_time_eval():
    ...         n = int(lax.reduce_sum(np.int32([1, 2]), (0,)))
    ...     return lax.mul(x, n)
    >>> f(2.0)
    Array(6., dtype=float32, weak_type=True)
    """
    return _EagerEvaluation()


class _EagerEvaluation(StateChange):
    """Context manager that makes the evaluation trace current; interrupt-safe like `extend_axis_env` in trace.py."""

    __slots__ = ()

    @override
    def _read(self) -> Trace:
        return trace_state.trace

    @override
    def _change(self) -> None:
        trace_state.trace = EVALUATION
        notify_staging_hooks()

    @override
    def _leave(self) -> None:
        trace_state.trace = self._old
        notify_staging_hooks()


def _stage_tree(statics: StaticArgs, args: Sequence[Tree], kwargs: dict[str, Tree],
                axes: tuple[AxisFrame, ...] = ()) -> tuple[ClosedJaxpr, list[Value], PyTreeDef, Sequence[Sharding]]:
    """Stage a function of arrays or objects with shape and dtype.

    Returns:
      The program, the values of enclosing traces that it takes first, the tree of the result, and the sharding of each
      result over `Explicit` axes; () if they are unknown.
    """
    dynamic, named, static = statics.split(args, kwargs) if statics.any else (tuple(args), kwargs, ())
    flat, tree = trees.tree_flatten((dynamic, named))
    avals = get_duck_typed_avals(statics.call, function_name(statics.fun), flat, tree)
    names = frozenset([f.name for f in axes])
    avals = tuple([a.with_varying_axes(a.varying_axes | names) for a in avals])  # example arguments may vary over every axis
    if not explicit_meshes:
        closed, outer, out_tree = stage_call(statics, avals, tree, static)
        return closed, outer, out_tree, ()
    with staging_context(flat):
        avals = add_shardings(avals, flat)
        closed, outer, out_tree = stage_call(statics, avals, tree, static)
        return closed, outer, out_tree, analyze_results(closed, outer, avals) or ()


def _axis_frames(axis_env: Unchecked) -> tuple[AxisFrame, ...]:
    """Check `axis_env` and return the enclosing mapped axes that it lists."""
    pairs = tuple(axis_env or ())
    if not all(isinstance(p, (tuple, list)) and len(p) == 2 and isinstance(p[1], int) and p[1] > 0 for p in pairs):
        raise ValueError(f"axis_env: expected a sequence of (axis name, size) pairs with sizes of at least 1, as "
                         f"[('i', 4)]; got {axis_env!r}")
    names = [check_axis_name("axis_env", name) for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError(f"axis_env: each axis name may be given once; got {axis_env!r}")
    return tuple(AxisFrame(name, size) for name, size in pairs)


def _structs(closed: ClosedJaxpr, out_tree: PyTreeDef, shardings: Sequence[Sharding]) -> Tree:
    avals = closed.out_avals
    return trees.tree_unflatten(out_tree, [
        ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type, named_shape=a.named_shape, sharding=s)
        for a, s in zip(avals, shardings or (None,) * len(avals), strict=True)])


@overload
def make_jaxpr(fun: Callable[P, Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Hashable, int]] | None = None, return_shape: Literal[False] = False,
               abstracted_axes: object = None) -> Callable[P, ClosedJaxpr]: ...


@overload
def make_jaxpr(fun: Callable[P, Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Hashable, int]] | None = None, *, return_shape: Literal[True],
               abstracted_axes: object = None) -> Callable[P, tuple[ClosedJaxpr, Any]]: ...


@api_boundary
def make_jaxpr(fun: Function, static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Hashable, int]] | None = None, return_shape: bool = False,
               abstracted_axes: object = None) -> Function:
    """Return a function that returns the program (jaxpr) of `fun` for example arguments.

    Args:
      fun: function of arrays, numbers and trees of them.
      static_argnums: positions of arguments that are plain Python values.
      axis_env: (axis name, size) pairs in scope, as an enclosing `pmap` would bind them.
      return_shape: also return the tree of result shapes and dtypes.
      abstracted_axes: must be None: each program is staged for known sizes.
    Returns:
      A function of the same arguments (or anything with `shape` and `dtype`) that returns a `ClosedJaxpr`.

    >>> print(make_jaxpr(lambda x: x * 2.0)(3.0))
    { lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }
    """
    if not callable(fun):
        raise TypeError(f"make_jaxpr: expected a function; got {type(fun).__name__}")
    if abstracted_axes is not None:
        raise NotImplementedError("make_jaxpr: abstracted_axes must be None: a program is staged for known sizes; got "
                                  f"{abstracted_axes!r:.100}")
    statics = StaticArgs("make_jaxpr", fun, static_argnums, None)
    frames = _axis_frames(axis_env)

    @api_boundary
    def make(*args: Tree, **kwargs: Tree) -> ClosedJaxpr | tuple[ClosedJaxpr, Tree]:
        with extend_axis_env(*frames):
            closed, outer, out_tree, shardings = _stage_tree(statics, args, kwargs, frames)
        if outer:  # values of enclosing traces become constants of the returned program
            jaxpr = closed.jaxpr
            n = len(outer)
            closed = ClosedJaxpr(Jaxpr([*jaxpr.constvars, *jaxpr.invars[:n]], jaxpr.invars[n:], jaxpr.eqns,
                                       jaxpr.outvars), [*closed.consts, *outer])
        if not return_shape:
            return closed
        with extend_axis_env(*frames):
            return closed, _structs(closed, out_tree, shardings)

    wraps(fun)(make)
    make.__name__ = f"make_jaxpr({function_name(fun)})"
    return make


@api_boundary
def eval_shape(fun: Function, *args: Tree, **kwargs: Tree) -> Tree:
    """Compute the shapes and dtypes of the results of `fun` without running it.

    Args:
      fun: function of arrays, numbers and trees of them.
      args, kwargs: arguments, or objects with `shape` and `dtype`.
    Returns:
      The result's tree with a `ShapeDtypeStruct` at each leaf, with the shardings over `Explicit` mesh axes. A
      `ShapeDtypeStruct` that `fun` itself returns is unchanged.

    >>> eval_shape(lambda x: x * 2, ShapeDtypeStruct((2, 3), "float32"))
    ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """
    if not callable(fun):
        raise TypeError(f"eval_shape: expected a function; got {type(fun).__name__}: {fun!r:.60}")
    # for each result leaf the ShapeDtypeStruct that `fun` returned there, or None
    returned_structs: list[ShapeDtypeStruct | None] = []

    @wraps(fun)
    def replace_structs(*args: Tree, **kwargs: Tree) -> Tree:
        out = fun(*args, **kwargs)
        returned_structs[:] = [x if type(x) is ShapeDtypeStruct else None for x in trees.tree_leaves(out)]
        return trees.tree_map(lambda x: 0 if type(x) is ShapeDtypeStruct else x, out) if any(returned_structs) else out

    closed, _, out_tree, shardings = _stage_tree(StaticArgs("eval_shape", replace_structs, None, None), args, kwargs)
    found = _structs(closed, out_tree, shardings)
    if not any(returned_structs):
        return found
    return out_tree.unflatten([s or x for s, x in zip(returned_structs, trees.tree_leaves(found), strict=True)])


def typeof(x: Value | ShapeDtypeStruct) -> ShapedArray:
    """Return the type of a value: its shape, dtype and weak type.

    Args:
      x: array, number, traced value, or an object with shape and dtype such as a `ShapeDtypeStruct`.
    Returns:
      A `ShapedArray`. Of a traced value it also has the mapped axes over which the value varies. Of a value on a mesh
      with `Explicit` axes it has the sharding: it is printed as `float32[8@x,4]`.
    Raises:
      TypeError: `x` is something else.
      ShardingTypeError: the sharding of an operation from which a traced `x` follows is ambiguous.

    >>> typeof(3), typeof(ShapeDtypeStruct((2, 3), "float32"))
    (ShapedArray(int32[], weak_type=True), ShapedArray(float32[2,3]))
    """
    if isinstance(x, ShapeDtypeStruct):
        return shaped(x.shape, x.dtype, x.weak_type).with_sharding(_explicit_sharding(x, len(x.shape)))
    try:
        aval = tracer.typeof(x)
    except TypeError as error:
        raise type(error)(f"typeof: x: {error}") from None
    if isinstance(x, Tracer):
        return aval.with_sharding(find_sharding(x)) if explicit_meshes else aval
    return aval.with_sharding(_explicit_sharding(x, aval.ndim))


def _explicit_sharding(x: Value, ndim: int) -> Sharding:
    """Return the sharding of an array on a mesh with `Explicit` axes, with an entry for each dimension; else None."""
    sharding = getattr(x, "sharding", None)
    return None if sharding is None else getattr(sharding, "explicit_of_rank", lambda n: None)(ndim)


def named_call(fun: Callable[P, R], *, name: str | None = None) -> Callable[P, R]:
    """Wrap `fun` so that its equations have its name in their name stack: see `named_scope`.

    Args:
      fun: any function. It runs in the trace of its caller, so it may keep traced values.
      name: the name; by default that of `fun`.
    Returns:
      A function with the arguments and results of `fun`.
    Raises:
      TypeError: `fun` is not callable, or `name` is not a string.

    >>> make_jaxpr(named_call(lambda x: -x, name="flip"))(1.0).eqns[0].source.scope
    'flip'
    """
    if not callable(fun):
        raise TypeError(f"named_call: expected a function; got {type(fun).__name__}: {fun!r:.60}")
    called = function_name(fun) if name is None else name
    if not isinstance(called, str):
        raise TypeError(f"named_call: name must be a string; got {type(called).__name__}")

    @api_boundary
    @wraps(fun)
    def named(*args: P.args, **kwargs: P.kwargs) -> R:
        with extend_name_stack(called):
            return fun(*args, **kwargs)

    return named


def named_scope(name: str) -> AbstractContextManager[None]:
    """Add `name` to the name stack of equations staged in the block, or in the decorated function. Scopes nest.

    Profiles and the compiler's text show the operations under this name, for example `outer/inner/sin`.

    >>> with named_scope("inner"):
    ...     pass
    """
    if not isinstance(name, str):
        raise TypeError(f"named_scope: expected a string; got {type(name).__name__}")
    return extend_name_stack(name)
