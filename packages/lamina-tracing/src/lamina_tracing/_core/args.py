"""Flatten arguments and results of transformed functions, compute their types, and name each leaf in errors."""
from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from lamina_ir import DTypeError, ShapedArray, ShapeError, aval_of, config, shaped, trees
from lamina_ir.dtypes import as_dtype, canonicalize
from lamina_ir.typing import AxisName, Function, Tree, Value
from lamina_ir.trees import PyTreeDef

from .source_lines import is_library_file, warn_user
from .signature import argument_name
from .trace import axis_frame
from .tracer import Tracer, has_jax_array, read_jax_array, stack_object_arrays, typeof
from .array import DTypeLike
from .._typing import KeyPath

__all__ = ["argument_path", "find_called_name", "flatten_args", "flatten_results", "get_arg_avals",
           "get_duck_typed_avals", "resolve_requested_dtype", "result_path", "unsorted_dict_error"]


def resolve_requested_dtype(spec: DTypeLike) -> np.dtype:
    """Return the dtype of a caller's `dtype=` argument under the 64-bit setting.

    If the result is narrower than the requested dtype, a UserWarning points at the caller's line. Data, and Python's
    `float`, `int` and `complex`, are narrowed here without a warning; see x64_warning.py.

    Args:
      spec: a dtype, type, name or scalar-type object.
    Returns:
      A NumPy dtype.
    Raises:
      ValueError: the result is narrower than requested, and config explicit_x64_dtypes is 'error'.

    >>> resolve_requested_dtype(float)
    dtype('float32')
    """
    found = canonicalize(spec)
    if type(spec) is type and spec in _PYTHON:
        return found
    requested = as_dtype(spec)
    if requested is not found and requested != found:
        if config.explicit_x64_dtypes.value == "error":
            raise ValueError(f"{requested.name} was requested, but 64 bits are off, and config explicit_x64_dtypes is "
                             f"'error'. Use {found.name}, or set config enable_x64")
        warn_user(f"{requested.name} was requested, but 64 bits are off, so this is {found.name}. Use {found.name}, or "
                  "set config enable_x64")
    return found


_PYTHON = frozenset((bool, int, float, complex))
_reads_arguments = True  # marks this module for x64_warning.py: values whose type is computed here are user data


def flatten_args(call: str, name: str, args: Sequence[Tree], kwargs: dict[str, Tree]) -> tuple[list[Value], PyTreeDef]:
    """Flatten the arguments of a call.

    Args:
      call: name of the transformation, such as "jit".
      name: the function's name.
      args, kwargs: the arguments.
    Returns:
      (leaves, structure of `(args, kwargs)`).
    Raises:
      TypeError: a dict has keys that do not sort against each other; the message names the argument.

    >>> flatten_args("jit", "f", (1, {"a": 2}), {})[0]
    [1, 2]
    """
    try:
        return trees.tree_flatten((tuple(args), kwargs))
    except (TypeError, ValueError) as e:
        raise unsorted_dict_error(f"{call} of `{name}`", args, kwargs) or e from None


def unsorted_dict_error(lead: str, args: Sequence[Tree], kwargs: dict[str, Tree]) -> TypeError | None:
    """Return an error about the first dict among the arguments whose keys cannot be sorted, or None."""
    return trees.unsorted_keys_error((tuple(args), kwargs), None, _argument, lead)


def _argument(path: KeyPath) -> str:
    return ("args" if path and getattr(path[0], "idx", None) == 0 else "kwargs") + trees.keystr(path[1:])


def _path(tree: PyTreeDef, leaf: int) -> KeyPath:
    marked = trees.tree_unflatten(tree, list(range(tree.num_leaves)))
    return next((path for path, at in trees.tree_flatten_with_path(marked)[0] if at == leaf), ())


def argument_path(tree: PyTreeDef, leaf: int, fun: Function | None = None, static: Collection[int] = ()) -> str:
    """Return the path of a flat argument, for error messages.

    Args:
      tree: the structure of `(args, kwargs)`.
      leaf: the number of the argument.
      fun: the function, whose parameter names are used; None: use positions instead.
      static: positions of arguments that are not in the tree.
    Returns:
      Text such as `params['w']`; without a function `args[0]['w']` or `kwargs['x']`.

    >>> tree = trees.tree_structure((({"w": 0},), {"x": 0}))
    >>> argument_path(tree, 0), argument_path(tree, 1)
    ("args[0]['w']", "kwargs['x']")
    >>> argument_path(tree, 0, lambda n, params, x: x, static=[0])
    "params['w']"
    """
    path = _path(tree, leaf)
    if not path:
        return f"argument {leaf}"
    if fun is None:
        return _argument(path)
    at = getattr(path[1], "idx", None)
    if at is None:  # by keyword
        return f"{path[1].key}{trees.keystr(path[2:])}"
    for n in sorted(static):
        at += n <= at
    return argument_name(fun, at) + trees.keystr(path[2:])


def result_path(tree: PyTreeDef, leaf: int) -> str:
    """Return the path of a flat result, for error messages.

    Args:
      tree: the structure of the function's result.
      leaf: the number of the result.
    Returns:
      Text such as `output['loss']`.

    >>> result_path(trees.tree_structure((0, {"loss": 0})), 1)
    "output[1]['loss']"
    """
    return f"output{trees.keystr(_path(tree, leaf))}"


def get_arg_avals(call: str, name: str, flat: Sequence[Value], tree: PyTreeDef, library: Sequence[str] | None = None
               ) -> tuple[ShapedArray, ...]:
    """Return the types of flat arguments.

    If `flat` is a list, objects with `__jax_array__` are replaced in place by the arrays they return.

    Args:
      call: name of the transformation, such as "jit".
      name: the function's name.
      flat: arrays, traced values, numbers.
      tree: the structure of `(args, kwargs)` before flattening.
      library: parameter names of a library function. Errors then name only the function, not that it is jitted.
    Returns:
      A tuple of types.
    Raises:
      TypeError: one is not an array or number; the message names the argument.
      DTypeError: one has a dtype that arrays cannot have.
      OverflowError: a Python integer fits no dtype.

    >>> get_arg_avals("jit", "f", [2.0], trees.tree_structure(((0,), {})))
    (ShapedArray(float32[], weak_type=True),)
    >>> get_arg_avals("jit", "f", ["two"], trees.tree_structure(((0,), {})))
    Traceback (most recent call last):
    TypeError: jit of `f`: args[0]: ...
    """
    try:
        return tuple([x.aval if isinstance(x, Tracer) else aval_of(x) for x in flat])
    except (TypeError, OverflowError) as e:
        if isinstance(flat, list) and any(map(has_jax_array, flat)):
            flat[:] = [read_jax_array(x) if has_jax_array(x) else x for x in flat]
            return get_arg_avals(call, name, flat, tree, library)
        for i, x in enumerate(flat):
            try:
                if not isinstance(x, Tracer):
                    aval_of(x)
            except (TypeError, OverflowError) as bad:
                if library is not None:
                    raise type(bad)(f"{name}: {_parameter(argument_path(tree, i), library)}: {bad}") from None
                if isinstance(bad, DTypeError):
                    raise DTypeError(f"{call} of `{name}`: {argument_path(tree, i)}: {bad}") from None
                static = "; mark Python values with static_argnums or static_argnames"
                raise type(bad)(f"{call} of `{name}`: {argument_path(tree, i)}: {bad}"
                                f"{'' if _register_hint(bad) else static}") from None
        raise e


def _register_hint(error: Exception) -> str:
    """Return the end of an error of `aval_of` that says how to register a dataclass; "" if it is another error."""
    at = str(error).find(". Decorate the dataclass")
    return str(error)[at:] if at >= 0 else ""


def find_called_name(name: str) -> str:
    """Return the name under which the user called a library function.

    If the jitted function is a private helper, this is the function of the outermost library frame. Frames of wrappers
    (`api_boundary`, `jit`) do not count.
    """
    if name[0] not in "_<":
        return name
    frame = sys._getframe(1)
    while frame is not None and is_library_file(frame.f_code.co_filename):
        own, frame = frame.f_code.co_name, frame.f_back  # type: ignore[assignment]
    return name if own in ("guarded", "miss", "jitted", "<lambda>") else own


def _parameter(path: str, names: Sequence[str]) -> str:
    """Rewrite `args[0][1]` to `x[1]`, and `kwargs['axis']` to `axis`."""
    found = re.match(r"args\[(\d+)\]|kwargs\['(\w+)'\]", path)
    if found is None:
        return path
    at, name = found.groups()
    if name is None:
        name = names[int(at)] if int(at) < len(names) else f"argument {at}"
    return name + path[found.end():]


def get_duck_typed_avals(call: str, name: str, flat: Sequence[Value], tree: PyTreeDef) -> tuple[ShapedArray, ...]:
    """Return the types of flat arguments that may be any objects with `shape` and `dtype`.

    Args:
      call: name of the transformation, such as "lower".
      name: the function's name.
      flat: arrays, traced values, numbers, descriptions of arrays.
      tree: the structure of `(args, kwargs)` before flattening.
    Returns:
      A tuple of types.
    Raises:
      TypeError: one is not such an object; the message names the argument.
      DTypeError: one has a dtype that arrays cannot have.

    >>> class Described:
    ...     shape, dtype = (2,), "float32"
    >>> get_duck_typed_avals("lower", "f", [Described()], trees.tree_structure(((0,), {})))
    (ShapedArray(float32[2]),)
    """
    def leaf_aval(i: int, x: Value) -> ShapedArray:
        if isinstance(x, Tracer):
            return x.aval
        try:
            return aval_of(x)
        except DTypeError:
            raise
        except TypeError:
            if has_jax_array(x):
                return typeof(x)
            if hasattr(x, "shape") and hasattr(x, "dtype"):
                named = getattr(x, "named_shape", None)
                aval = shaped(tuple(x.shape), canonicalize(x.dtype), bool(getattr(x, "weak_type", False)))
                return _with_named_axes(f"{call} of `{name}`: {argument_path(tree, i)}", aval, named) if named else aval
            raise TypeError(f"{call} of `{name}`: {argument_path(tree, i)}: expected an array, a number, or an object "
                            f"with shape and dtype; got {type(x).__name__}") from None

    return tuple(leaf_aval(i, x) for i, x in enumerate(flat))


def _with_named_axes(where: str, aval: ShapedArray, named: Mapping[AxisName, int]) -> ShapedArray:
    """Mark `aval` as varying over the axes of `named` (name -> size), after checking that the sizes match the axes."""
    for axis, size in named.items():
        found = axis_frame(axis).size
        if found != size:
            raise ShapeError(f"{where}: the named axis {axis!r} has {size} positions in named_shape, but {found} here")
    return aval.with_varying_axes(frozenset(named))


def flatten_results(call: str, name: str, out: Tree) -> tuple[list[Value], PyTreeDef]:
    """Flatten the result of a function and check that every leaf is an array or a number.

    Args:
      call: name of the transformation, such as "jit".
      name: the function's name.
      out: the function's result.
    Returns:
      (leaves, structure).
    Raises:
      TypeError: a leaf is of another type, or the keys of a dict cannot be sorted; the message names the path.
      ValueError: a leaf is a mutable reference.

    >>> flatten_results("jit", "f", (1.0, "two"))
    Traceback (most recent call last):
    TypeError: jit of `f`: the function returned str at output[1]; expected arrays, numbers and trees of them
    """
    try:
        flat, tree = trees.tree_flatten(out)
    except (TypeError, ValueError) as e:
        raise trees.unsorted_keys_error(out, None, lambda path: f"output{trees.keystr(path)}",
                                        f"{call} of `{name}`") or e from None
    if np.ndarray in map(type, flat):
        stack_object_arrays(flat)
    for i, x in enumerate(flat):
        if isinstance(x, Tracer):
            if x.aval.is_reference:
                raise ValueError(f"{call} of `{name}`: the function returned a mutable reference {x.aval.str_long()} at "
                                 f"{result_path(tree, i)}, which cannot leave a transformed function. Return its value, "
                                 "ref[...], or pass the reference as an argument")
            continue
        try:
            aval_of(x)
        except TypeError as bad:
            raise TypeError(f"{call} of `{name}`: the function returned {type(x).__name__} at {result_path(tree, i)}; "
                            f"expected arrays, numbers and trees of them{_register_hint(bad)}") from None
    return flat, tree
