"""Primitives that call Python on the host: `pure_callback` for a value, `io_callback` and `debug_callback` for an
effect.

The function takes one example. `vmap` adds the length of its axis to `batch` and marks in `mapped` the operands that
have that leading axis. The host calls the function once per batch position, in row-major order, so effects keep the
order of the examples.
"""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np
from typing_extensions import override

from .._util.short_repr import short_repr
from .._types.avals import ShapedArray, shaped
from ..errors import CallbackError, CheckError, DTypeError, ShapeError
from .._types.param_values import register_param_type
from .._core.param_types import KINDS
from .._core.primitive import Primitive
from .._core.loop_context import (format_axes, run_per_device, running_device, running_axis_positions,
                                  running_iterations, format_iterations)
from ..typing import AxisName, Device, Function, ParamValue, Params, Tree, Value
from .._core.axis_env import AxisEnv
from .._typing import RunProgram
from .._core.source_info import Source

__all__ = ["HostCall", "HostFunction", "debug_callback_p", "io_callback_p", "pure_callback_p", "register_host_function"]

_registered: dict[str, Function] = {}
_TOKEN = shaped((), np.dtype("int32"))


@register_param_type
@dataclasses.dataclass(frozen=True)
class HostFunction:
    """A Python function of flat NumPy arrays that a program refers to by name.

    Programs are saved and printed with the name alone. After loading, the name refers to the function that was given to
    `register_host_function` under that name in the loading process; without one, calling it raises.

    Args:
      name: the name in programs. `HostFunction.of(function, name)` makes one that holds its function, unregistered.
    Raises:
      CallbackError: it is called, and no function is registered under its name in this process.

    Attributes:
      function: the function, or None.
      source: the line that calls it, if known.
      loops: the loops whose iteration numbers are its last operands: (primitive name, line) of each, outermost first
        (see `thread_iteration_counters`).
      names: the names of the batch axes that have one, outermost first.
      checks: whether it is a check: its first operand is a boolean, and it is called, to raise, if that is false.
      repeats: whether it only reports, so that an `io_callback` of it may run again, or for masked examples of a batch.
      batched: for a function that handles whole batches: returns the version for a batch, from the function and the
        position of the batch axis in each operand (None if absent). None: it is called once per example.
      placed: whether it also gets the calling device as `device=` (None if unknown).

    >>> double = HostFunction.of(lambda x: (2 * x,), "double")
    >>> double(3)
    (6,)
    >>> HostFunction("double").function is None
    True
    """

    name: str

    def __post_init__(self) -> None:
        self._set(function=_registered.get(self.name), source=None, loops=(), names=(), checks=False,
                  repeats=False, batched=None, placed=False, device=None)

    def _set(self, **facts: ParamValue) -> None:  # fields that are not in the repr; the dataclass is frozen
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def _replace(self, **facts: ParamValue) -> HostFunction:
        made = HostFunction(self.name)
        made._set(**{**vars(self), **facts})
        return made

    @staticmethod
    def of(function: Function, name: str, source: Source | None = None, checks: bool = False,
           **how: ParamValue) -> HostFunction:
        """Wrap a function of this process. `name` and `source` appear in program text and errors; `how` may set
        `repeats`, `batched` and `placed`."""
        made = HostFunction(name)
        made._set(function=function, source=source, checks=checks, **how)
        return made

    def at(self, device: Device) -> HostFunction:
        """Return the function with `device` as the default calling device."""
        return self._replace(device=device)

    def with_function(self, function: Function, **how: ParamValue) -> HostFunction:
        """Return it with another Python function."""
        return self._replace(function=function, **how)

    def in_loops(self, loops: tuple[tuple[str, Source | None], ...]) -> HostFunction:
        """Return it with the iteration numbers of these loops as last operands."""
        return self._replace(loops=loops)

    def with_batch_axis(self, name: AxisName) -> HostFunction:
        """Return it with one more outermost batch axis, named `name` (None: unnamed)."""
        return self._replace(names=(name, *self.names))  # type: ignore[attr-defined]

    @override
    def __eq__(self, other: object) -> bool:
        # By function, not only by name: programs are cached by content, and two lambdas share a name.
        return (isinstance(other, HostFunction) and self.name == other.name
                and self.loops == other.loops and self.names == other.names  # type: ignore[attr-defined]
                and self.function is other.function)  # type: ignore[attr-defined]

    @override
    def __hash__(self) -> int:
        # The function may be unhashable, and `__eq__` decides anyway.
        return hash(self.name)

    def __call__(self, *args: Value, **kwargs: Tree) -> Sequence[Value]:
        function = self.function  # type: ignore[attr-defined]
        if function is None:
            raise _unknown(self.name)
        return function(*args, **kwargs)


def _unknown(name: str) -> CallbackError:
    return CallbackError(f"callback `{name}`: the program was loaded, and this process has no host function of that name; "
                         "give it to lamina_ir.extend.register_host_function before loading")


def register_host_function(name: str, function: Function) -> HostFunction:
    """Register the function that saved programs call under `name` in this process.

    Args:
      name: the name in the program's text.
      function: takes flat NumPy arrays and returns a sequence of them.
    Returns:
      The `HostFunction`, which can be used as a param.
    Raises:
      ValueError: another function is registered under this name.

    >>> register_host_function("shop.price", lambda x: (x + 1,))
    HostFunction(name='shop.price')
    """
    if not isinstance(name, str) or not callable(function):
        raise TypeError("register_host_function: expected a name and a function; got "
                        f"{short_repr(name)} and {short_repr(function)}")
    # `setdefault` is atomic, so of two threads that register a name, one gets the error.
    if _registered.setdefault(name, function) is not function:
        raise ValueError(f"register_host_function: another function is already registered as {name!r}")
    return HostFunction(name)


def _check_batch(name: str, avals: Sequence[ShapedArray], batch: tuple[int, ...],
                 mapped: tuple[tuple[bool, ...], ...]) -> None:
    if not batch:
        return
    if len(mapped) != len(avals):
        raise ShapeError(f"{name}: mapped must have one entry per operand; got {len(mapped)} for {len(avals)} operands")
    for i, (a, flags) in enumerate(zip(avals, mapped)):
        if len(flags) != len(batch):
            raise ShapeError(f"{name}: mapped[{i}] must have one flag per batch axis {batch}; got {flags}")
        wanted = tuple(n for n, on in zip(batch, flags) if on)
        if a.shape[:len(wanted)] != wanted:
            raise ShapeError(f"{name}: operand {i} must lead with the batch axes {wanted}; got {a.str_long()}")


def _infer(name: str) -> Callable[..., list[ShapedArray]]:
    def infer(*avals: ShapedArray, batch: tuple[int, ...] = (), mapped: tuple[tuple[bool, ...], ...] = (),
              result_dtypes: tuple[np.dtype, ...] = (), result_shapes: tuple[tuple[int, ...], ...] = (),
              threaded: bool = False, **_: ParamValue) -> list[ShapedArray]:
        # The token is not an operand of the function, so it is outside of `batch` and `mapped`.
        if threaded:
            if not avals or not avals[-1].same_type(_TOKEN):
                raise DTypeError(f"{name}: a threaded call takes an int32[] as its last operand")
            avals = avals[:-1]
        if len(result_dtypes) != len(result_shapes):
            raise ShapeError(f"{name}: result_dtypes and result_shapes must have one entry per result; got "
                             f"{len(result_dtypes)} and {len(result_shapes)}")
        _check_batch(name, avals, batch, mapped)
        outs = [shaped((*batch, *s), d) for s, d in zip(result_shapes, result_dtypes)]
        return [*outs, _TOKEN] if threaded else outs
    return infer


class HostCall:
    """Runs one callback equation on the host: one call, or one per batch position, with results and errors checked.

    Args:
      name: the primitive's name, for errors.
      params: the params of the equation. The caller handles the token of an ordered (`threaded`) call.
      where: describes a position in the mapped axes (None: outside of them) for errors. Default: describe the position
        of the running evaluation.
      device_of: returns the device at a position, for a callback that takes it. Default: the device set by
        `HostFunction.at`.

    >>> say = HostFunction.of(lambda x: (2 * x,), "double")
    >>> call = HostCall("pure_callback", dict(callback=say, batch=(), mapped=(), result_dtypes=(np.dtype("int32"),),
    ...                                         result_shapes=((),)))
    >>> call([np.int32(3)])
    (array(6, dtype=int32),)
    """

    __slots__ = ("name", "callback", "function", "batch", "mapped", "wanted", "indexed", "where", "device_of")

    def __init__(self, name: str, params: Params, where: Callable[[int | None], str] | None = None,
                 device_of: Callable[[int | None], Device] | None = None) -> None:
        self.where, self.device_of = where, device_of
        self.name, self.callback, self.batch, self.mapped = name, params["callback"], params["batch"], params["mapped"]
        self.function = self.callback.function
        self.wanted = tuple(zip(params.get("result_shapes", ()), params.get("result_dtypes", ())))
        self.indexed = params.get("indexed", False)

    def __call__(self, args: Sequence[Value], iterations: Sequence[Value] = (),
                 device: int | None = None) -> tuple[np.ndarray, ...]:
        """Call the function and return the results, which have the batch axes first.

        Args:
          args: the operands without iteration numbers and order token.
          turns: the iteration numbers of `HostFunction.loops`, outermost first.
          device: the position in the mapped axes; None if there are none.
        Raises:
          CallbackError: the function raised, or returned results of other types than declared. The message names the
            batch position and the loop iteration.
        """
        # The usual case of a check: nothing to report, so Python is not called for any example.
        if self.callback.checks and np.all(args[0]):
            return ()
        if not self.batch:
            return self._once(args, (iterations, device, ()))
        outs = [np.empty((*self.batch, *shape), dtype) for shape, dtype in self.wanted]
        for at in itertools.product(*map(range, self.batch)):
            # An operand without a batch axis is the same for all examples on that axis, so it is not indexed along it.
            mine = [x[tuple(i for i, on in zip(at, flags) if on)] for x, flags in zip(args, self.mapped)]
            if self.callback.checks and np.all(mine[0]):
                continue
            for o, value in zip(outs, self._once(mine, (iterations, device, at))):
                o[at] = value
        return tuple(outs)

    def _once(self, args: Sequence[Value],
              at: tuple[Sequence[Value], int | None, tuple[int, ...]]) -> tuple[np.ndarray, ...]:
        try:
            if self.indexed:
                out = self.function(*args, batch_index=at[2], device_index=at[1] or 0)
            elif self.callback.placed:
                out = self.function(*args, device=self.device_of(at[1]) if self.device_of else self.callback.device)
            else:
                out = self.function(*args)
        except CallbackError as e:  # it returned another tree structure, or a callback that it called failed
            raise self._error(str(e), at, type(e) if isinstance(e, CheckError) else CallbackError) from (e.__cause__ or e)
        except Exception as e:
            if self.function is None:
                raise _unknown(self.callback.name) from None
            raise self._error(f"{self.name}: the callback `{self.callback.name}` raised {type(e).__name__}: {e}", at) from e
        if not self.wanted:
            return ()
        if len(out) != len(self.wanted):
            raise self._error(f"{self.name}: the callback `{self.callback.name}` must return {len(self.wanted)} results; got "
                              f"{len(out)}", at)
        found = []
        for i, (x, (shape, dtype)) in enumerate(zip(out, self.wanted)):
            # The compiler's buffers have a fixed layout, so results must be C-contiguous.
            if type(x) is not np.ndarray or x.dtype != dtype or x.shape != shape or not x.flags.c_contiguous:
                a = np.asarray(x)
                if a.shape != shape or (a.dtype != dtype and not _narrows(x, a.dtype, dtype)):
                    raise self._error(f"{self.name}: result {i} of the callback `{self.callback.name}` must be "
                                      f"{shaped(shape, dtype).str_long()}, as its result_shape_dtypes say; got "
                                      f"{a.dtype.name}{list(a.shape)}", at)
                x = np.ascontiguousarray(a.astype(dtype, copy=False)).reshape(shape)
            found.append(x)
        return tuple(found)

    def _error(self, text: str, position: tuple[Sequence[Value], int | None, tuple[int, ...]],
               kind: type[CallbackError] = CallbackError) -> CallbackError:
        iterations, device, index = position
        source, loops, names = self.callback.source, self.callback.loops, self.callback.names
        details = [f"{'at' if kind is not CallbackError else 'called at'} {source}"] if source else []
        if index:
            named = names if len(names) == len(index) else (None,) * len(index)
            axes = ["the batch" if name is None else f"axis {name!r}" for name in named]
            details.append("at " + ", ".join([f"index {i} of {axis} of {n}" for i, n, axis in zip(index, self.batch, axes)]))
        if loops:
            # In compiled programs iteration numbers are operands; the evaluator records them itself.
            running = [(op, int(i), line) for (op, line), i in zip(loops, np.reshape(iterations, -1))]
        else:
            running = [*running_iterations()]
        if running:
            details.append(format_iterations(running).removeprefix(", "))
        if self.where is not None:
            details += filter(None, [self.where(device)])
        elif device is not None:
            places = running_axis_positions()
            details.append(f"at {format_axes(places)}" if places else f"on device {device} of the mapped axes")
        return kind(text + (f"; {', '.join(details)}" if details else ""))


def _narrows(x: Value, got: np.dtype, wanted: np.dtype) -> bool:
    """Return whether a result may be converted to the declared dtype without an error: Python numbers, and 64-bit
    results that NumPy makes of 32-bit inputs."""
    if type(x) in (bool, int, float, complex):
        return bool(np.can_cast(got, wanted, "same_kind")) or type(x) is int
    # For example np.arange(3), which is int64, for a declared int32.
    return got.kind == wanted.kind and got.itemsize == 2 * wanted.itemsize


def _numpy(name: str) -> Callable[..., tuple[Value, ...]]:
    def implementation(*args: Value, **params: ParamValue) -> tuple[Value, ...]:
        token = args[-1:] if params.get("threaded") else ()
        n = len(args) - len(token)
        # Operands: those of the function, one iteration number per loop, the token.
        loops = len(params["callback"].loops)
        return (*HostCall(name, params)(args[:n - loops], args[n - loops:n], running_device()), *token)
    return implementation


def _spmd(name: str) -> Function:
    """Return the implementation for many devices: every device calls, in order."""
    call = _numpy(name)

    def implementation(run: RunProgram, env: AxisEnv, args: list[list[Value]],
                       params: Params) -> list[tuple[Value, ...]]:
        return run_per_device(env.size, lambda d: call(*[xs[d] for xs in args], **params))
    return implementation


KINDS["host function"] = ("a record `HostFunction`", lambda v: type(v) is HostFunction and type(v.name) is str)


def _callback(name: str, params: Sequence[str], **facts: ParamValue) -> Primitive:
    return Primitive(name, params=params, infer=_infer(name), numpy=_numpy(name), spmd=_spmd(name), multiple=True,
                     family="callbacks", spec="custom_call", kinds={"callback": "host function"}, **facts)


_DEFAULTS = {"batch": (), "mapped": ()}
pure_callback_p = _callback("pure_callback", ("batch", "callback", "mapped", "result_dtypes", "result_shapes",
                                              "vmap_method"), defaults={**_DEFAULTS, "vmap_method": None})
io_callback_p = _callback("io_callback", ("batch", "callback", "mapped", "ordered", "result_dtypes", "result_shapes",
                                          "threaded"),
                          defaults={**_DEFAULTS, "ordered": False, "threaded": False}, effectful=True)
debug_callback_p = _callback("debug_callback", ("batch", "callback", "indexed", "mapped", "ordered", "threaded"),
                             defaults={**_DEFAULTS, "indexed": False, "ordered": False, "threaded": False},
                             effectful=True)
