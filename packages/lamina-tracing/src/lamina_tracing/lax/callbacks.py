"""Call Python on the host from a program: for a value (`pure_callback`) or for an effect (`io_callback`, debugging)."""
from __future__ import annotations

import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import CallbackError, CheckError, aval_of, dtypes, prims, trees
from lamina_ir.extend import HostFunction
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Function, Params, Sharding, Tree, Value

from .._core.args import argument_path, get_arg_avals
from .._core.signature import function_name
from .._core.source_lines import find_user_source
from .._core.trace import bind, trace_state
from .._core.tracer import Tracer, typeof

__all__ = ["debug_callback", "debug_check", "debug_print", "io_callback", "pure_callback"]

_VMAP_METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all", "legacy_vectorized")


def _parse_result_types(call: str, name: str,
                        wanted: Tree) -> tuple[tuple[np.dtype, ...], tuple[tuple[int, ...], ...], PyTreeDef]:
    """Return (dtypes, shapes, tree) of a tree of objects with `shape` and `dtype`."""
    leaves, tree = trees.tree_flatten(wanted)
    for x in leaves:
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise TypeError(f"{call} of `{name}`: result_shape_dtypes must be a tree of objects with shape and dtype, as "
                            f"lamina.ShapeDtypeStruct; got {type(x).__name__}")
    return tuple(dtypes.canonicalize(x.dtype) for x in leaves), tuple(tuple(map(int, x.shape)) for x in leaves), tree


def _unwrap_keys(xs: Sequence[Value]) -> tuple[list[Value], Callable[[Sequence[Value]], list[Value]]]:
    """Replace keys by their uint32 data; return the values and a function that restores the keys on the host."""
    tags = [dtypes.key_tag(d) if dtypes.is_key(d := typeof(x).dtype) else None for x in xs]
    if not any(tags):
        return list(xs), list

    def closed(found: Sequence[Value]) -> list[Value]:
        return [x if tag is None else bind(prims.random_wrap_p, x, impl=tag) for x, tag in zip(found, tags)]
    return [x if tag is None else bind(prims.random_unwrap_p, x, use="data") for x, tag in zip(xs, tags)], closed


def _make_flat_host_function(call: str, name: str, callback: Function, closed: Callable[[Sequence[Value]], list[Value]],
                             tree: PyTreeDef, out_tree: PyTreeDef) -> HostFunction:
    """Return `callback` as a function of flat arguments that checks the structure of its result and flattens it."""
    def flat(*xs: Value) -> Sequence[Value]:
        args, kwargs = trees.tree_unflatten(tree, closed(xs))
        line, trace_state.source = trace_state.source, None  # what the callback does has lines of its own
        try:
            leaves, found = trees.tree_flatten(callback(*args, **kwargs))
        finally:
            trace_state.source = line
        if found != out_tree:
            raise CallbackError(f"{call}: the callback `{name}` must return the tree of result_shape_dtypes, {out_tree}; "
                                f"got {found}")
        return leaves
    return HostFunction.of(flat, name, find_user_source())


def _prepare_host_function(call: str, callback: Function, result_shape_dtypes: Tree, args: Sequence[Tree],
                           kwargs: Mapping[str, Tree]) -> tuple[tuple[list[Value], PyTreeDef], Params]:
    if not callable(callback):
        raise TypeError(f"{call}: expected a function; got {type(callback).__name__}")
    name = function_name(callback)
    flat, tree = trees.tree_flatten((args, kwargs))
    get_arg_avals(call, name, flat, tree)
    kinds, shapes, out_tree = _parse_result_types(call, name, result_shape_dtypes)
    flat, closed = _unwrap_keys(flat)
    host = _make_flat_host_function(call, name, callback, closed, tree, out_tree)
    return (flat, out_tree), dict(batch=(), callback=host, mapped=(), result_dtypes=kinds, result_shapes=shapes)


def pure_callback(callback: Function, result_shape_dtypes: Tree, *args: Tree, sharding: Sharding = None,
                  vmap_method: str | None = None, vectorized: bool | None = None, **kwargs: Tree) -> Tree:
    """Call a pure Python function on the host; its result is a value of the program.

    Args:
      callback: function of (trees of) read-only NumPy arrays, and of keys. It may run any number of times, also never.
      result_shape_dtypes: tree of objects with `shape` and `dtype`, such as `ShapeDtypeStruct`: what it returns.
      args, kwargs: trees of arrays and numbers.
      sharding: accepted for compatibility; must be None.
      vmap_method: how `vmap` calls it. 'sequential', the default: one call per example, in order. 'expand_dims': one
        call; arguments that are not mapped get a leading axis of length 1. 'broadcast_all': one call; every argument
        gets the whole leading axis. 'legacy_vectorized': one call; arguments that are not mapped stay as they are.
      vectorized: older name: True is 'legacy_vectorized', False 'sequential'.
    Returns:
      The tree of `result_shape_dtypes`, with arrays.
    Raises:
      TypeError, ValueError: the arguments do not fit.
      CallbackError: `callback` raised, or returned something else than promised.

    >>> import numpy as np
    >>> from lamina_ir import ShapeDtypeStruct
    >>> pure_callback(lambda x: np.sort(x), ShapeDtypeStruct((3,), "int32"), np.array([3, 1, 2], "int32"))
    Array([1, 2, 3], dtype=int32)
    """
    if sharding is not None:
        raise ValueError("pure_callback: sharding must be None; the callback sees whole arrays")
    if vectorized is not None:
        if vmap_method is not None:
            raise ValueError("pure_callback: give vmap_method or vectorized, not both")
        vmap_method = "legacy_vectorized" if vectorized else "sequential"
    if vmap_method is not None and vmap_method not in _VMAP_METHODS:
        raise ValueError(f"pure_callback: vmap_method must be None or one of {', '.join(_VMAP_METHODS)}; got "
                         f"{vmap_method!r}")
    (flat, out_tree), params = _prepare_host_function("pure_callback", callback, result_shape_dtypes, args, kwargs)
    outs = bind(prims.pure_callback_p, *flat, **params, vmap_method=vmap_method)
    return trees.tree_unflatten(out_tree, outs)


def io_callback(callback: Function, result_shape_dtypes: Tree, *args: Tree, sharding: Sharding = None,
                ordered: bool = False, **kwargs: Tree) -> Tree:
    """Call a Python function with effects on the host, exactly once per execution of the program around it.

    Args:
      callback: function of (trees of) read-only NumPy arrays, and of keys.
      result_shape_dtypes: tree of objects with `shape` and `dtype`: what it returns; None or `()` for nothing.
      args, kwargs: trees of arrays and numbers.
      sharding: accepted for compatibility; must be None.
      ordered: keep the order of all ordered calls, within a program and between programs. Needs a single device, and
        cannot be under `vmap`.
    Returns:
      The tree of `result_shape_dtypes`, with arrays.

    >>> from lamina_ir import ShapeDtypeStruct
    >>> seen = []
    >>> io_callback(lambda x: seen.append(float(x)), None, 2.0)
    >>> seen
    [2.0]
    """
    if sharding is not None:
        raise ValueError("io_callback: sharding must be None; the callback sees whole arrays")
    (flat, out_tree), params = _prepare_host_function("io_callback", callback, result_shape_dtypes, args, kwargs)
    outs = bind(prims.io_callback_p, *flat, **params, ordered=bool(ordered), threaded=False)
    return trees.tree_unflatten(out_tree, outs)


def _is_value(x: Value) -> bool:
    if isinstance(x, Tracer):
        return True
    try:
        aval_of(x)
    except (TypeError, OverflowError):
        return False
    return True


def _debug(call: str, name: str, callback: Function, args: Sequence[Tree], kwargs: Mapping[str, Tree], ordered: bool,
           indexed: bool, checks: bool = False) -> None:
    flat, tree = trees.tree_flatten((args, kwargs))
    known = [None if _is_value(x) else (x,) for x in flat]  # anything else is handed on as it is
    for i, x in enumerate(flat):
        if isinstance(x, Tracer) and not x._trace.alive:
            raise CallbackError(f"{call} of `{name}`: {argument_path(tree, i)} is a traced value whose trace has ended")

    values, closed = _unwrap_keys([x for x, v in zip(flat, known) if v is None])

    def host(*xs: Value, **extra: object) -> tuple[()]:
        rest = iter(closed(xs))
        a, k = trees.tree_unflatten(tree, [next(rest) if v is None else v[0] for v in known])
        line, trace_state.source = trace_state.source, None
        try:
            callback(*a, **k, **extra)
        finally:
            trace_state.source = line
        return ()

    bind(prims.debug_callback_p, *values, batch=(),
         callback=HostFunction.of(host, name, find_user_source(), checks), indexed=indexed, mapped=(), ordered=bool(ordered),
         threaded=False)


def debug_callback(callback: Function, *args: Value, ordered: bool = False, indexed: bool = False,
                   **kwargs: Tree) -> None:
    """Call a Python function on the host for debugging; derivatives and batches pass through it.

    Under `vmap` it is called once per example, in order; under `grad` with the values, not the derivatives. Where the
    examples of a `vmap` choose different branches, all branches run for all examples, and it is called for all of them.

    Args:
      callback: function of (trees of) read-only NumPy arrays, and of keys; its result is ignored.
      args, kwargs: what it is given; what is no array or number is handed on as it is.
      ordered: keep the order of all ordered calls, within a program and between programs. Needs a single device.
      indexed: also give it `batch_index` (a tuple of ints, one per `vmap` around it, outermost first) and
        `device_index` (the device's position in a `pmap`, else 0).

    >>> debug_callback(lambda x: print("got", x), 3)
    got 3
    """
    if not callable(callback):
        raise TypeError(f"debug.callback: expected a function; got {type(callback).__name__}")
    _debug("debug.callback", function_name(callback), callback, args, kwargs, ordered, indexed)


class _Probe:
    """Placeholder for any value while a format is tried."""

    def __getattr__(self, name: str) -> _Probe:
        return self

    def __getitem__(self, key: object) -> _Probe:
        return self

    @override
    def __format__(self, spec: str) -> str:
        return ""


class _Trial(string.Formatter):
    """Formatter that records the fields of a format, and checks that it uses all arguments."""

    @override
    def check_unused_args(self, used: set[int | str], args: Sequence[Tree], kwargs: Mapping[str, Tree]) -> None:
        self.used = used
        extra = [k for k in (*range(len(args)), *kwargs) if k not in used and k not in _INDICES]
        if extra:
            raise ValueError(f"it has no field for argument {extra[0]!r}")


_INDICES = ("batch_index", "device_index")


def _check_format(call: str, fmt: Any, args: Sequence[Tree], kwargs: dict[str, Tree], more: Sequence[str] = ()) -> Any:
    """Return the fields of a format; ValueError if it does not fit the arguments."""
    if not isinstance(fmt, str):
        raise TypeError(f"{call}: the format must be a string; got {type(fmt).__name__}")
    trial = _Trial()
    given = {**dict.fromkeys(more, _Probe()), **dict.fromkeys(kwargs, _Probe())}
    try:
        trial.vformat(fmt, [_Probe()] * len(args), given)
    except (ValueError, IndexError, KeyError) as e:
        raise ValueError(f"{call}: the format {fmt!r} does not fit {len(args)} positional arguments and the "
                         f"keywords {sorted(kwargs)}: {e}") from None
    return trial.used


def debug_print(fmt: str, *args: Value, ordered: bool = False, **kwargs: Tree) -> None:
    """Print values of a program while it runs: `debug_print("x = {x}", x=x)`.

    Args:
      fmt: a format as of `str.format`. Besides the arguments it may name `{batch_index}` (a tuple, one int per `vmap`
        around it) and `{device_index}` (position in a `pmap`).
      args, kwargs: values for its fields.
      ordered: keep the order of all ordered calls, within a program and between programs. Needs a single device.
    Raises:
      ValueError: the format and the arguments do not fit; at once, not when the program runs.

    >>> debug_print("x = {x:.2f}", x=2.0)
    x = 2.00
    """
    used = _check_format("debug.print", fmt, args, kwargs, _INDICES)
    indexed = any(n in used and n not in kwargs for n in _INDICES)

    def show(*a: object, **k: object) -> None:
        sys.stdout.write(fmt.format(*a, **k) + "\n")  # one write, so that lines of several devices do not mix

    _debug("debug.print", "print", show, args, kwargs, ordered, indexed)


def debug_check(pred: Value, message: str, *args: Value, **kwargs: Tree) -> None:
    """Raise where `pred` is false when the program runs: `debug.check(y > 0, "y = {}", y)`.

    The error names the line, the turn of each loop around, the example of each `vmap`, and the device, the index on each
    mapped axis and the process of a `pmap`. Where each example of a batch decides about a branch or a loop, those are asked
    that take part. In a program over several processes all raise if one of them does.

    Args:
      pred: a truth value.
      message: what is said if it is false, a format as of `str.format`.
      args, kwargs: values for its fields.
    Raises:
      CheckError: `pred` is false; as with `debug.callback` where the result is read or the program is called.
      ValueError: the format and the arguments do not fit.
      TypeError: `pred` is no truth value.

    >>> debug_check(1 < 2, "one is {}", 1)
    """
    aval = typeof(pred)
    if aval.shape or not dtypes.is_bool(aval.dtype):
        raise TypeError(f"debug.check: expected one truth value; got {aval.str_long()}. Of an array take x.all()")
    _check_format("debug.check", message, args, kwargs)

    def fail(_: object, *a: object, **k: object) -> None:
        raise CheckError("debug.check: " + message.format(*a, **k))

    _debug("debug.check", "check", fail, (pred, *args), kwargs, False, False, checks=True)
