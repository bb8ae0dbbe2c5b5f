"""Implement `lamina.experimental.host_callback`, the older API for host callbacks: `id_tap`, `id_print`, `call`.

A tap is an `io_callback` that returns a number. The result of the tap depends on this number, so taps are ordered by
the data flow.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, TextIO

import numpy as np
from lamina_ir import CallbackError, MissingRuleError, dtypes, prims, trees
from lamina_ir.extend import HostFunction
from lamina_tracing import lax
from lamina_tracing.extend import Tracer, bind, get_arg_avals, function_name, typeof, find_user_source
from lamina_ir.typing import Device, Function, Tree, Value

from ._execute import effects

__all__ = ["CallbackException", "barrier_wait", "call", "id_print", "id_tap", "stop_outfeed_receiver"]

_NUMBER = np.dtype("int32")


class CallbackException(CallbackError):
    """Raised by `barrier_wait` if a tap or another callback of a program raised an exception.

    Fix: correct the Python function of the tap; `__cause__` is its exception.

    >>> issubclass(CallbackException, CallbackError)
    True
    """

    code: ClassVar[str] = "LAM1505"


def _check_args(call: str, function: object, with_device: object, device_index: object,
                name: str = "tap_with_device") -> None:
    if not callable(function):
        raise TypeError(f"{call}: expected a function; got {type(function).__name__}")
    if type(with_device) is not bool:
        raise TypeError(f"{call}: {name} must be True or False; got {with_device!r}")
    if type(device_index) is not int or device_index != 0:
        raise ValueError(f"{call}: device_index must be 0, because the first device of a sharded program calls the "
                         f"host with the full arrays; got {device_index!r}")


def _device(call: str, name: str, found: Device | None) -> Device | None:
    if found is None:
        raise CallbackError(f"{call} of `{name}`: the device is unknown, because the program runs without a compiler")
    return found


def _tap(call: str, name: str, function: Function, arg: Tree, result: Tree, with_device: bool) -> Tree:
    """Call `function(arg, transforms)` on the host; return `result` (None: the arrays of `arg`), which waits for it."""
    flat, tree = trees.tree_flatten(arg)
    get_arg_avals(call, name, *trees.tree_flatten(((arg,), {})))
    if result is None:
        flat = [bind(prims.copy_p, x) if isinstance(x, (bool, int, float, complex, np.ndarray, np.generic)) else x
                for x in flat]
        result = trees.tree_unflatten(tree, flat)
    token = (np.int32(0),)

    def host(transforms: tuple[object, ...]) -> Function:
        def run(*xs: Value, device: Device = None) -> tuple[Value, ...]:
            value = trees.tree_unflatten(tree, [np.asarray(x) for x in xs])
            if with_device:
                function(value, transforms, device=_device(call, name, device))
            else:
                function(value, transforms)
            return token
        return run

    # vmap calls the tap once with the whole batch, and adds itself to `transforms`.
    def batched(transforms: tuple[object, ...]) -> Callable[..., HostFunction]:
        def batch(callback: HostFunction, dims: tuple[int | None, ...]) -> HostFunction:
            extended = (*transforms, ("batch", {"batch_dims": dims[:len(flat)]}))
            return callback.with_function(host(extended), batched=batched(extended))
        return batch

    callback = HostFunction.of(host(()), name, find_user_source(), repeats=True, batched=batched(()), placed=with_device)
    done, = bind(prims.io_callback_p, *flat, batch=(), callback=callback, mapped=(), ordered=False, threaded=False,
                 result_dtypes=(_NUMBER,), result_shapes=((),))
    if not isinstance(done, Tracer):
        return result
    return trees.tree_map(lambda x: _after(done, x), result)


def _after(done: Any, x: Any) -> Tree:
    """Return `x` with a data dependence on `done`, which is always 0.

    The compiler cannot know that, so it cannot remove the `select` or reorder it.
    """
    aval = typeof(x)
    if dtypes.is_key(aval.dtype):
        return x
    return lax.select(lax.eq(done, np.int32(0)), x, lax.full_like(x, 0))


def id_tap(tap_func: Function, arg: Tree, *, result: Tree = None, tap_with_device: bool = False,
           device_index: int = 0, **kwargs: Tree) -> Tree:
    """Pass a value to a function on the host, and return it.

    The tap is called after `arg` is computed and before the returned value is used: under `jit`, under `pmap` (once per
    device) and in loops (once per iteration), also if the returned value is unused. `vmap` calls it once with the whole
    batch. Under differentiation it gets the primal values only; a checkpointed function may call it twice. Taps that do
    not depend on each other may be called in any order.

    Args:
      tap_func: function of `arg`, with NumPy arrays, and `transforms`: a tuple with an entry
        `("batch", {"batch_dims": dims})` for each `vmap` that maps a leaf, the innermost first; `dims` has the axis of
        each leaf, or None. Its result is ignored.
      arg: tree of arrays and numbers.
      result: the value to return; None: `arg`, as arrays. All its leaves except keys wait for the tap.
      tap_with_device: also pass `device=`, the device that calls the tap.
      device_index: must be 0.
    Returns:
      `result`, or `arg`.
    Raises:
      TypeError: an argument has the wrong type.
      ValueError: `device_index` is not 0.
      CallbackError: `tap_func` raised. It is raised at once outside of compiled programs, else by the call of the
        program, when its results are read, or by `barrier_wait`.

    >>> id_tap(lambda x, transforms: print("saw", x, transforms), 3.0)
    saw 3.0 ()
    Array(3., dtype=float32, weak_type=True)
    """
    if kwargs:
        raise TypeError(f"id_tap: unexpected keyword {sorted(kwargs)[0]!r}; bind further arguments of the tap with "
                        "functools.partial")
    _check_args("id_tap", tap_func, tap_with_device, device_index)
    return _tap("id_tap", function_name(tap_func), tap_func, arg, result, tap_with_device)


def id_print(arg: Tree, *, result: Tree = None, tap_with_device: bool = False, device_index: int = 0,
             output_stream: TextIO | None = None, threshold: int | None = None, **kwargs: Tree) -> Tree:
    """Print a value when it is computed, and return it: an `id_tap` that prints.

    Args:
      arg: tree of arrays and numbers. Tuples are printed as `( )`, lists as `[ ]`, dicts as `{ }`.
      result: the value to return; None: `arg`, as arrays.
      tap_with_device: also print the device.
      device_index: must be 0.
      output_stream: file to write to; None: the standard output.
      threshold: arrays with more elements are abbreviated; None: NumPy's print options.
      kwargs: printed on a line before the value, as `name: value`, together with the transforms if there are any.
    Returns:
      `result`, or `arg`.
    Raises:
      As `id_tap`.

    >>> id_print({"a": (1, 2.5)}, what="here")
    what: here
    { a=( 1 2.5 ) }
    {'a': (Array(1, dtype=int32, weak_type=True), Array(2.5, dtype=float32, weak_type=True))}
    """
    def show(value: Tree, transforms: tuple[object, ...], device: Device = None) -> None:
        labels = dict(kwargs)
        if transforms:
            labels["transforms"] = [*transforms]
        if device is not None:
            labels["device"] = device
        lines = ([" ".join(f"{k}: {labels[k]}" for k in sorted(labels))] if labels else []) + [_text(value, threshold)]
        (sys.stdout if output_stream is None else output_stream).write("\n".join(lines) + "\n")

    _check_args("id_print", show, tap_with_device, device_index)
    return _tap("id_print", "print", show, arg, result, tap_with_device)


def _text(value: Tree, threshold: int | None) -> str:
    if isinstance(value, dict):
        return "{ " + " ".join(f"{k}={_text(v, threshold)}" for k, v in value.items()) + " }"
    if isinstance(value, (tuple, list)):
        brackets = "()" if isinstance(value, tuple) else "[]"
        return f"{brackets[0]} " + " ".join([_text(v, threshold) for v in value]) + f" {brackets[1]}"
    return np.array2string(value, threshold=threshold) if isinstance(value, np.ndarray) else str(value)


def call(callback_func: Function, arg: Tree, *, result_shape: Tree = None, call_with_device: bool = False,
         device_index: int = 0) -> Tree:
    """Call a function on the host and return its result. `io_callback` is the newer form.

    Args:
      callback_func: function of `arg`, with NumPy arrays.
      arg: tree of arrays and numbers.
      result_shape: tree of arrays, or of other objects with `shape` and `dtype`, that describes the result of the
        function; None: no result.
      call_with_device: also pass `device=`, the device that makes the call.
      device_index: must be 0.
    Returns:
      The result of the function, a tree like `result_shape`.
    Raises:
      TypeError: an argument has the wrong type.
      ValueError: `device_index` is not 0.
      CallbackError: `callback_func` raised, or its result does not match `result_shape`.
      MissingRuleError: under `vmap`, or when a floating-point result is differentiated with respect to `arg`. Wrap the
        call in `custom_vmap`, `custom_jvp` or `custom_vjp`, or use `pure_callback`.

    >>> import numpy as np
    >>> call(lambda x: np.sort(x), np.array([3, 1, 2], "int32"), result_shape=np.zeros(3, "int32"))
    Array([1, 2, 3], dtype=int32)
    """
    _check_args("call", callback_func, call_with_device, device_index, "call_with_device")
    name = function_name(callback_func)
    flat, tree = trees.tree_flatten(arg)
    get_arg_avals("call", name, *trees.tree_flatten(((arg,), {})))
    expected, out_tree = trees.tree_flatten(result_shape)
    for x in expected:
        if not hasattr(x, "shape") and not isinstance(x, (bool, int, float, complex)):
            raise TypeError(f"call of `{name}`: result_shape must be a tree of objects with shape and dtype; got "
                            f"{type(x).__name__}")
    types = [x if hasattr(x, "shape") else typeof(x) for x in expected]

    def run(*xs: Value, device: Device = None) -> Tree:
        value = trees.tree_unflatten(tree, [np.asarray(x) for x in xs])
        if call_with_device:
            found = callback_func(value, device=_device("call", name, device))
        else:
            found = callback_func(value)
        leaves, found_tree = trees.tree_flatten(found if expected else None)
        if expected and found_tree != out_tree:
            raise CallbackError(f"call: the callback `{name}` must return the tree of result_shape, {out_tree}; got "
                                f"{found_tree}")
        return leaves

    def refuse_batch(callback: HostFunction, dims: tuple[int | None, ...]) -> HostFunction:
        raise MissingRuleError(f"vmap of host_callback.call is not defined (callback `{name}`). Use pure_callback or "
                               "io_callback, which define their behaviour under vmap")

    callback = HostFunction.of(run, name, find_user_source(), batched=refuse_batch, placed=call_with_device)
    outs = bind(prims.io_callback_p, *flat, batch=(), callback=callback, mapped=(), ordered=False, threaded=False,
                result_dtypes=tuple(dtypes.canonicalize(x.dtype) for x in types),
                result_shapes=tuple(tuple(map(int, x.shape)) for x in types))
    return trees.tree_unflatten(out_tree, outs)


def barrier_wait(logging_name: str | None = None) -> None:
    """Wait for the taps of all programs launched so far.

    Args:
      logging_name: prefix of the error text.
    Raises:
      CallbackException: a tap of such a program raised, and no other call has reported that.

    >>> barrier_wait()
    """
    if logging_name is not None and not isinstance(logging_name, str):
        raise TypeError(f"barrier_wait: logging_name must be a string or None; got {type(logging_name).__name__}")
    try:
        effects.effects_barrier()
    except CallbackError as e:
        raise CallbackException(f"{logging_name or 'barrier_wait'}: {e}") from e


def stop_outfeed_receiver() -> None:
    """Wait for taps like `barrier_wait`. There is no outfeed to stop.

    >>> stop_outfeed_receiver()
    """
    barrier_wait("stop_outfeed_receiver")
