"""Taps: values of a program shown to Python on the host, in the older spelling of `lamina.experimental.host_callback`.

A tap is an `io_callback` whose one result, a number, what comes after it waits for: so taps keep the order of the data.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import CallbackError, MissingRuleError, dtypes, prims, trees
from lamina_ir.extend import HostFunction
from lamina_tracing import lax
from lamina_tracing.extend import Tracer, bind, flat_types, function_name, typeof, user_source

from . import effects

__all__ = ["CallbackException", "barrier_wait", "call", "id_print", "id_tap", "stop_outfeed_receiver"]

_NUMBER = np.dtype("int32")


class CallbackException(CallbackError):
    """A tap, or another callback, of a program that `barrier_wait` waited for has raised.

    >>> issubclass(CallbackException, CallbackError)
    True
    """


def _checked(call: str, function: Any, with_device: Any, device_index: Any, word: str = "tap_with_device") -> None:
    if not callable(function):
        raise TypeError(f"{call}: expected a function; got {type(function).__name__}")
    if type(with_device) is not bool:
        raise TypeError(f"{call}: {word} must be True or False; got {with_device!r}")
    if type(device_index) is not int or device_index != 0:
        raise ValueError(f"{call}: device_index must be 0, as the first of the devices of a sharded program calls the host, "
                         f"with whole arrays; got {device_index!r}")


def _device(call: str, name: str, found: Any) -> Any:
    if found is None:
        raise CallbackError(f"{call} of `{name}`: the device is not known where programs run without being compiled")
    return found


def _tap(call: str, name: str, function: Callable[..., Any], arg: Any, result: Any, with_device: bool) -> Any:
    """`result`, by default the arrays of `arg`, which waits for the call of `function(arg, transforms)`."""
    flat, tree = trees.tree_flatten(arg)
    flat_types(call, name, *trees.tree_flatten(((arg,), {})))
    if result is None:
        flat = [bind(prims.copy_p, x) if isinstance(x, (bool, int, float, complex, np.ndarray, np.generic)) else x
                for x in flat]
        result = trees.tree_unflatten(tree, flat)
    answer = (np.int32(0),)

    def host(transforms: tuple[Any, ...]) -> Callable[..., Any]:
        def run(*xs: Any, device: Any = None) -> tuple[Any, ...]:
            given = trees.tree_unflatten(tree, [np.asarray(x) for x in xs])
            if with_device:
                function(given, transforms, device=_device(call, name, device))
            else:
                function(given, transforms)
            return answer
        return run

    def batched(transforms: tuple[Any, ...]) -> Callable[..., HostFunction]:
        def whole(callback: HostFunction, dims: tuple[Any, ...]) -> HostFunction:
            now = (*transforms, ("batch", {"batch_dims": dims[:len(flat)]}))
            return callback.taking(host(now), batched=batched(now))
        return whole

    callback = HostFunction.of(host(()), name, user_source(), repeats=True, batched=batched(()), placed=with_device)
    done, = bind(prims.io_callback_p, *flat, batch=(), callback=callback, mapped=(), ordered=False, threaded=False,
                 result_dtypes=(_NUMBER,), result_shapes=((),))
    if not isinstance(done, Tracer):
        return result
    return trees.tree_map(lambda x: _after(done, x), result)


def _after(done: Any, x: Any) -> Any:
    """`x`, once `done` is there: nothing but its value, 0, says that `x` is meant."""
    aval = typeof(x)
    if dtypes.is_key(aval.dtype):
        return x
    return lax.select(lax.eq(done, np.int32(0)), x, lax.full_like(x, 0))


def id_tap(tap_func: Callable[..., Any], arg: Any, *, result: Any = None, tap_with_device: bool = False,
           device_index: int = 0, **kwargs: Any) -> Any:
    """Show a value to a function on the host, and give it back.

    The tap is called when `arg` is computed and before what is returned is used, under `jit`, `pmap` (once per device) and
    in loops (once per turn), also if nothing uses what is returned. `vmap` calls it once with the whole batch. Derivatives
    pass by it: it sees the values and no tangents or cotangents, and a checkpointed function may show a value again.
    Two taps of which neither waits for the other may be called in any order.

    Args:
      tap_func: function of `arg`, with NumPy arrays, and `transforms`: a tuple with an entry `("batch", {"batch_dims": dims})`
        for each `vmap` by which a leaf is mapped, the innermost first; `dims` has the axis of each leaf, or None. What it
        returns is ignored.
      arg: tree of arrays and numbers.
      result: what to return; None: `arg`, as arrays. All of it but keys waits for the tap.
      tap_with_device: also call it with `device=`, the device that it is called from.
      device_index: must be 0.
    Returns:
      `result`, or `arg`.
    Raises:
      TypeError: the arguments do not fit.
      ValueError: `device_index` is not 0.
      CallbackError: `tap_func` raised: at once without a program around, else where the program is called, its results are
        read, or at `barrier_wait`.

    >>> id_tap(lambda x, transforms: print("saw", x, transforms), 3.0)
    saw 3.0 ()
    Array(3., dtype=float32, weak_type=True)
    """
    if kwargs:
        raise TypeError(f"id_tap: unexpected keyword {sorted(kwargs)[0]!r}; give what the tap needs with functools.partial")
    _checked("id_tap", tap_func, tap_with_device, device_index)
    return _tap("id_tap", function_name(tap_func), tap_func, arg, result, tap_with_device)


def id_print(arg: Any, *, result: Any = None, tap_with_device: bool = False, device_index: int = 0,
             output_stream: Any = None, threshold: int | None = None, **kwargs: Any) -> Any:
    """Print a value when it is computed, and give it back: an `id_tap` that prints.

    Args:
      arg: tree of arrays and numbers. Tuples are printed as `( )`, lists as `[ ]`, dicts as `{ }`.
      result: what to return; None: `arg`, as arrays.
      tap_with_device: also print the device.
      device_index: must be 0.
      output_stream: what to write to; None: the standard output.
      threshold: arrays of more elements are shortened; None: as NumPy's print options say.
      kwargs: are printed on a line before, as `name: value`, with the transforms where there are any.
    Returns:
      `result`, or `arg`.
    Raises:
      As `id_tap`.

    >>> id_print({"a": (1, 2.5)}, what="here")
    what: here
    { a=( 1 2.5 ) }
    {'a': (Array(1, dtype=int32, weak_type=True), Array(2.5, dtype=float32, weak_type=True))}
    """
    def show(value: Any, transforms: Any, device: Any = None) -> None:
        words = dict(kwargs)
        if transforms:
            words["transforms"] = [*transforms]
        if device is not None:
            words["device"] = device
        lines = ([" ".join(f"{k}: {words[k]}" for k in sorted(words))] if words else []) + [_text(value, threshold)]
        (sys.stdout if output_stream is None else output_stream).write("\n".join(lines) + "\n")

    _checked("id_print", show, tap_with_device, device_index)
    return _tap("id_print", "print", show, arg, result, tap_with_device)


def _text(value: Any, threshold: int | None) -> str:
    if isinstance(value, dict):
        return "{ " + " ".join(f"{k}={_text(v, threshold)}" for k, v in value.items()) + " }"
    if isinstance(value, (tuple, list)):
        ends = "()" if isinstance(value, tuple) else "[]"
        return f"{ends[0]} " + " ".join([_text(v, threshold) for v in value]) + f" {ends[1]}"
    return np.array2string(value, threshold=threshold) if isinstance(value, np.ndarray) else str(value)


def call(callback_func: Callable[..., Any], arg: Any, *, result_shape: Any = None, call_with_device: bool = False,
         device_index: int = 0) -> Any:
    """Call a function on the host for its result: `io_callback` in its older spelling.

    Args:
      callback_func: function of `arg`, with NumPy arrays.
      arg: tree of arrays and numbers.
      result_shape: tree of arrays, or of other things with `shape` and `dtype`: what it returns; None: nothing.
      call_with_device: also call it with `device=`, the device that it is called from.
      device_index: must be 0.
    Returns:
      The tree of `result_shape`, with arrays.
    Raises:
      TypeError: the arguments do not fit.
      ValueError: `device_index` is not 0.
      CallbackError: `callback_func` raised, or returned something else than promised.
      MissingRuleError: `vmap`, or a derivative by `arg` of a result of floats; wrap it in `custom_vmap`, `custom_jvp` or
        `custom_vjp`, or use `pure_callback`.

    >>> import numpy as np
    >>> call(lambda x: np.sort(x), np.array([3, 1, 2], "int32"), result_shape=np.zeros(3, "int32"))
    Array([1, 2, 3], dtype=int32)
    """
    _checked("call", callback_func, call_with_device, device_index, "call_with_device")
    name = function_name(callback_func)
    flat, tree = trees.tree_flatten(arg)
    flat_types("call", name, *trees.tree_flatten(((arg,), {})))
    wanted, out_tree = trees.tree_flatten(result_shape)
    for x in wanted:
        if not hasattr(x, "shape") and not isinstance(x, (bool, int, float, complex)):
            raise TypeError(f"call of `{name}`: result_shape must be a tree of things with shape and dtype; got "
                            f"{type(x).__name__}")
    types = [x if hasattr(x, "shape") else typeof(x) for x in wanted]

    def run(*xs: Any, device: Any = None) -> Any:
        given = trees.tree_unflatten(tree, [np.asarray(x) for x in xs])
        if call_with_device:
            found = callback_func(given, device=_device("call", name, device))
        else:
            found = callback_func(given)
        leaves, found_tree = trees.tree_flatten(found if wanted else None)
        if wanted and found_tree != out_tree:
            raise CallbackError(f"call: the callback `{name}` must return the tree of result_shape, {out_tree}; got "
                                f"{found_tree}")
        return leaves

    def refused(callback: HostFunction, dims: Any) -> HostFunction:
        raise MissingRuleError(f"vmap of host_callback.call is not defined (callback `{name}`): nothing is known of its "
                               "batches. Use pure_callback or io_callback, which say what vmap makes of them")

    callback = HostFunction.of(run, name, user_source(), batched=refused, placed=call_with_device)
    outs = bind(prims.io_callback_p, *flat, batch=(), callback=callback, mapped=(), ordered=False, threaded=False,
                result_dtypes=tuple(dtypes.canonical(x.dtype) for x in types),
                result_shapes=tuple(tuple(map(int, x.shape)) for x in types))
    return trees.tree_unflatten(out_tree, outs)


def barrier_wait(logging_name: str | None = None) -> None:
    """Wait until the taps of all programs launched so far have happened.

    Args:
      logging_name: goes before the text of the error.
    Raises:
      CallbackException: a tap of such a program raised, and nobody was told yet.

    >>> barrier_wait()
    """
    if logging_name is not None and not isinstance(logging_name, str):
        raise TypeError(f"barrier_wait: logging_name must be a string or None; got {type(logging_name).__name__}")
    try:
        effects.effects_barrier()
    except CallbackError as e:
        raise CallbackException(f"{logging_name or 'barrier_wait'}: {e}") from e


def stop_outfeed_receiver() -> None:
    """Wait for taps as `barrier_wait` does; there is no outfeed to stop.

    >>> stop_outfeed_receiver()
    """
    barrier_wait("stop_outfeed_receiver")
