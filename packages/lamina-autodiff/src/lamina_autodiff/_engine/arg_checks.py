"""Validate the arguments of the derivative functions; errors name the argument."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from lamina_ir import DTypeError, ShapedArray, ShapeError, UnboundAxisError, dtypes, prims, trees
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import AxisName, Function, Tree, Value
from lamina_tracing import lax, hooks
from lamina_tracing.extend import EVALUATION, HostArray, argument_path, bind, function_name, trace_state, scalar, typeof

from .._typing import Tangent

__all__ = ["check_cotangents", "check_function", "check_input", "check_output_dtype", "check_scalar_output",
           "check_tangents", "float0_zeros", "get_leaf_avals", "match_weak_type", "resolve_argnums", "scalar_like",
           "unbound_axes_error", "zeros_of"]

_reads_arguments = True  # `typeof` is called on user data here: warn if it narrows 64-bit NumPy data


def check_function(call: str, fun: object) -> None:
    """Raise TypeError if `fun` is not callable."""
    if not callable(fun):
        raise TypeError(f"{call}: expected a function; got {type(fun).__name__}: {fun!r:.60}")


def resolve_argnums(call: str, fun: Function, argnums: Tree, args: Sequence[Value]) -> tuple[int, ...]:
    """Return the positions to differentiate, as nonnegative ints."""
    if isinstance(argnums, (list, tuple, range)):
        nums = tuple(argnums)
    else:
        nums = (argnums,)
    found = []
    for n in nums:
        if not hasattr(n, "__index__"):
            raise TypeError(f"{call}: argnums expects an int or a sequence of ints; got {argnums!r}")
        try:
            n = n.__index__()
        except TypeError:
            raise TypeError(f"{call}: argnums expects an int or a sequence of ints; got {argnums!r:.80}") from None
        if not -len(args) <= n < len(args):
            raise ValueError(f"{call}: argnums {n} is out of range: `{function_name(fun)}` was called with {len(args)} "
                             "positional arguments")
        found.append(n % len(args))
    if len(set(found)) != len(found):
        raise ValueError(f"{call}: argnums {argnums!r} names an argument twice")
    return tuple(found)


def get_leaf_avals(call: str, fun: Function, flat: Sequence[Value], tree: PyTreeDef) -> list[ShapedArray]:
    """Return the avals of the argument leaves; raise TypeError if a leaf is not an array or a number."""
    found = []
    for i, x in enumerate(flat):
        try:
            found.append(typeof(x))
            if found[-1].is_reference:
                raise TypeError(f"no derivative with respect to a mutable reference, {found[-1].str_long()}. "
                                "Differentiate with respect to its value, ref[...]")
        except TypeError as e:
            where = argument_path(trees.tree_structure((trees.tree_unflatten(tree, flat), {})), i)
            raise TypeError(f"{call} of `{function_name(fun)}`: {where}: {e}") from None
    return found


def check_input(call: str, fun: Function, aval: ShapedArray, holomorphic: bool, allow_int: bool) -> None:
    """Raise TypeError if an argument of this type cannot be differentiated with these options."""
    name = function_name(fun)
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"{call} of `{name}`: holomorphic=True needs complex inputs; got {aval.str_long()}")
    elif dtypes.is_complex(aval.dtype) and call in ("jacfwd",):
        raise TypeError(f"{call} of `{name}`: inputs must be real; got {aval.str_long()}. Pass holomorphic=True for a "
                        "holomorphic function, or use jacrev")
    elif not dtypes.is_inexact(aval.dtype) and not allow_int:
        raise TypeError(f"{call} of `{name}`: inputs must be of a real or complex dtype; got {aval.str_long()}. Convert with "
                        "astype(float), or pass allow_int=True for a float0 derivative")


def check_scalar_output(call: str, fun: Function, flat: Sequence[Value], tree: PyTreeDef, holomorphic: bool) -> None:
    """Raise TypeError unless the function returned one scalar of a differentiable dtype."""
    name = function_name(fun)
    if tree.num_leaves != 1 or not trees.treedef_is_leaf(tree):
        raise TypeError(f"{call}: needs a scalar output; `{name}` returned a tree of {len(flat)} arrays {tree}. Return one "
                        "scalar (has_aux=True for more), or use lamina.jacrev")
    aval = typeof(flat[0])
    if aval.shape:
        raise TypeError(f"{call}: needs a scalar output; `{name}` returned {aval.str_long()}. Sum it, or use lamina.jacrev")
    check_output_dtype(call, fun, aval, holomorphic)


def check_output_dtype(call: str, fun: Function, aval: ShapedArray, holomorphic: bool) -> None:
    """Raise TypeError unless the output is real, or complex with `holomorphic=True`."""
    name = function_name(fun)
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"{call} of `{name}`: holomorphic=True needs a complex output; got {aval.str_long()}")
    elif dtypes.is_complex(aval.dtype):
        raise TypeError(f"{call} of `{name}`: needs a real output; got {aval.str_long()}. Pass holomorphic=True for a "
                        "holomorphic function, or take its real part")
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(f"{call} of `{name}`: needs a real output; got {aval.str_long()}")


def check_tangents(call: str, primals: Sequence[Value], tangents: Sequence[Value],
                   paths: Callable[[int], str]) -> list[Value]:
    """Check flat tangents against the primals or their avals; return them with None for integers."""
    found: list[Value] = []
    for i, (p, t) in enumerate(zip(primals, tangents)):
        a = p if isinstance(p, ShapedArray) else typeof(p)
        want = dtypes.tangent_dtype(a.dtype)
        if want == dtypes.float0:
            dtype = getattr(t, "dtype", None)
            if dtype != dtypes.float0:
                raise DTypeError(f"{call}: the tangent of {paths(i)}, {a.str_long()}, must have dtype float0; got "
                                 f"{typeof(t).str_long()}. Make it with numpy.zeros(shape, lamina.float0)")
            found.append(None)
            continue
        b = typeof(t)
        if b.shape != a.shape:
            raise ShapeError(f"{call}: primal and tangent of {paths(i)} must have the same shape; got {a.str_long()} and "
                             f"{b.str_long()}")
        if b.dtype != want:
            if not b.weak_type or not dtypes.is_inexact(b.dtype):
                raise DTypeError(f"{call}: primal and tangent of {paths(i)} must have the same dtype; got {a.str_long()} and "
                                 f"{b.str_long()}. Convert the tangent with astype")
            t = lax.convert_element_type(t, want)
        found.append(t)
    return found


def check_cotangents(call: str, outs: Sequence[Value], cts: Sequence[Value], integers: bool = False) -> list[Tangent]:
    """Check flat cotangents against the avals of the results; return them with None for integer results.

    With `integers=True`, integer cotangents are kept: `linear_transpose` also transposes linear maps of integers.
    """
    found: list[Tangent] = []
    for i, (o, ct) in enumerate(zip(outs, cts)):
        want = o.dtype if integers else dtypes.tangent_dtype(o.dtype)
        if want == dtypes.float0:
            found.append(None)
            continue
        if getattr(ct, "dtype", None) == dtypes.float0:
            raise DTypeError(f"{call}: cotangent {i} must be {o.str_long()}; got float0")
        b = typeof(ct)
        if b.shape != o.shape:
            raise ShapeError(f"{call}: cotangent {i} must have the shape of the output, {o.str_long()}; got {b.str_long()}")
        if b.dtype != want:
            if not b.weak_type:
                raise DTypeError(f"{call}: cotangent {i} must have the dtype of the output, {o.str_long()}; got "
                                 f"{b.str_long()}. Convert it with astype")
            ct = lax.convert_element_type(ct, want)
        elif b.weak_type and not hasattr(ct, "shape"):  # a Python number; rules may read its shape
            ct = scalar_like(ct, o)
        found.append(ct)
    return found


def scalar_like(value: complex, aval: ShapedArray) -> Value:
    """Return `value` as a rank-0 array of the dtype and weak type of `aval`; rules may read its shape."""
    if not aval.weak_type:
        return scalar(value, aval.dtype)
    host = np.asarray(value, aval.dtype)
    return hooks.evaluator.array(host, aval) if trace_state.trace is EVALUATION else HostArray.of(host, aval)


def match_weak_type(x: Value, aval: ShapedArray) -> Value:
    """Make `x` weakly typed if `aval` is, so that derivatives of Python numbers promote like Python numbers."""
    if aval.weak_type and not typeof(x).weak_type:
        return bind(prims.convert_element_type_p, x, new_dtype=aval.dtype, weak_type=True)
    return x


def float0_zeros(aval: ShapedArray) -> np.ndarray:
    """Return the tangent or cotangent of an integer: zeros of dtype float0."""
    return np.zeros(aval.shape, dtypes.float0)


def zeros_of(aval: ShapedArray) -> Value:
    """Return an array of zeros of the tangent type of `aval`."""
    if not dtypes.is_inexact(aval.dtype):
        return float0_zeros(aval)
    if not aval.shape and trace_state.trace is EVALUATION:
        return hooks.evaluator.array(np.zeros((), aval.dtype), aval)
    return lax.broadcast_in_dim(scalar(0, aval.dtype), aval.shape, ())


def unbound_axes_error(axes: Iterable[AxisName], name: str | None = None) -> UnboundAxisError | None:
    """Return an error if a backward rule runs outside the map of one of the `axes`; None if all are bound."""
    bound = [f.name for f in trace_state.axes]
    unbound = [axis for axis in axes if axis not in bound]
    if not unbound:
        return None
    rule = "the backward rule of a custom_vjp" if name is None else f"custom_vjp of `{name}`: its backward rule"
    return UnboundAxisError(
        f"{rule} has collectives over {', '.join(map(repr, unbound))}, but no argument of the call is mapped by that "
        "vmap, so the call and its rule are outside of it and run once, not for each member. Map an argument (broadcast it, "
        "and give it an axis in in_axes), differentiate inside of the mapped function, or use pmap, whose members all run "
        "the rule")
