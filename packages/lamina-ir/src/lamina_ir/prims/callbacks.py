"""Ops that call Python on the host: `pure_callback` for a value, `io_callback` and `debug_callback` for an effect.

A call is of one example. `vmap` adds to `batch` the lengths of the axes that lead the operands for which `mapped` says
so, and the host calls the function once per position, in row-major order, so effects keep the order of the examples.
"""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..avals import ShapedArray, shaped
from ..errors import CallbackError, DTypeError, ShapeError
from ..params import register_param_type
from ..primitive import Primitive

__all__ = ["HostFunction", "debug_callback_p", "io_callback_p", "pure_callback_p", "register_host_function"]

_registered: dict[str, Callable[..., Any]] = {}
_TOKEN = shaped((), np.dtype("int32"))


@register_param_type
@dataclasses.dataclass(frozen=True)
class HostFunction:
    """A Python function of flat NumPy arrays inside a program, which knows it by name.

    Programs are saved and printed with the name alone. Read back, it stands for the function given to
    `register_host_function` under that name in the reading process; without one, calling it raises.

    Args:
      name: what programs call it. `HostFunction.of(function, name)` makes one that holds its function, unregistered.
    Raises:
      CallbackError: it is called, and this process has no function of its name.

    >>> double = HostFunction.of(lambda x: (2 * x,), "double")
    >>> double(3)
    (6,)
    >>> HostFunction("double").function is None
    True
    """

    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "function", _registered.get(self.name))

    @staticmethod
    def of(function: Callable[..., Any], name: str) -> HostFunction:
        """A function of this process, called `name` in print and errors."""
        made = HostFunction(name)
        object.__setattr__(made, "function", function)
        return made

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, HostFunction) and self.name == other.name
                and self.function is other.function)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.function  # type: ignore[attr-defined]
        if function is None:
            raise CallbackError(f"callback `{self.name}`: the program was loaded, and this process has no host function "
                                "of that name; give it to lamina_ir.extend.register_host_function before loading")
        return function(*args, **kwargs)


def register_host_function(name: str, function: Callable[..., Any]) -> HostFunction:
    """Let saved programs that call `name` call `function` here.

    Args:
      name: as in the program's text.
      function: takes flat NumPy arrays and gives a sequence of them.
    Returns:
      What stands for it in params.
    Raises:
      ValueError: another function is registered under this name.

    >>> register_host_function("shop.price", lambda x: (x + 1,))
    HostFunction(name='shop.price')
    """
    if _registered.setdefault(name, function) is not function:
        raise ValueError(f"register_host_function: another function is already registered as {name!r}")
    return HostFunction(name)


def _check(name: str, avals: Sequence[ShapedArray], batch: tuple[int, ...], mapped: tuple[Any, ...]) -> None:
    if not batch:
        return
    if len(mapped) != len(avals):
        raise ShapeError(f"{name}: mapped must have one entry per operand; got {len(mapped)} for {len(avals)} operands")
    for i, (a, flags) in enumerate(zip(avals, mapped)):
        if len(flags) != len(batch):
            raise ShapeError(f"{name}: mapped[{i}] must have one flag per batch axis {batch}; got {flags}")
        wanted = tuple(n for n, on in zip(batch, flags) if on)
        if a.shape[:len(wanted)] != wanted:
            raise ShapeError(f"{name}: operand {i} must lead with the batch axes {wanted}; got {a.long()}")


def _infer(name: str) -> Callable[..., list[ShapedArray]]:
    def infer(*avals: ShapedArray, batch: tuple[int, ...] = (), mapped: tuple[Any, ...] = (),
              result_dtypes: tuple[Any, ...] = (), result_shapes: tuple[Any, ...] = (), threaded: bool = False,
              **_: Any) -> list[ShapedArray]:
        if threaded:
            if not avals or not avals[-1].same_type(_TOKEN):
                raise DTypeError(f"{name}: a threaded call takes an int32[] as its last operand")
            avals = avals[:-1]
        if len(result_dtypes) != len(result_shapes):
            raise ShapeError(f"{name}: result_dtypes and result_shapes must have one entry per result; got "
                             f"{len(result_dtypes)} and {len(result_shapes)}")
        _check(name, avals, batch, mapped)
        outs = [shaped((*batch, *s), d) for s, d in zip(result_shapes, result_dtypes)]
        return [*outs, _TOKEN] if threaded else outs
    return infer


def _call(name: str, callback: HostFunction, args: Sequence[Any], dtypes: Any, shapes: Any, extra: Any) -> list[Any]:
    """One call, its results checked."""
    try:
        out = callback(*args, **extra)
    except CallbackError:
        raise
    except Exception as e:
        raise CallbackError(f"{name}: the callback `{callback.name}` raised {type(e).__name__}: {e}") from e
    if not shapes:
        return []
    if len(out) != len(shapes):
        raise CallbackError(f"{name}: the callback `{callback.name}` must return {len(shapes)} results; got {len(out)}")
    found = []
    for i, (x, shape, dtype) in enumerate(zip(out, shapes, dtypes)):
        a = np.asarray(x)
        if a.shape != shape or (a.dtype != dtype and not _narrows(x, a.dtype, dtype)):
            raise CallbackError(f"{name}: result {i} of the callback `{callback.name}` must be "
                                f"{shaped(shape, dtype).long()}, as its result_shape_dtypes say; got "
                                f"{a.dtype.name}{list(a.shape)}")
        found.append(np.ascontiguousarray(a.astype(dtype, copy=False)).reshape(shape))
    return found


def _narrows(x: Any, got: np.dtype, wanted: np.dtype) -> bool:
    """Python numbers take the dtype asked for; 64-bit NumPy results of 32-bit inputs are what NumPy makes by itself."""
    if type(x) in (bool, int, float, complex):
        return bool(np.can_cast(got, wanted, "same_kind")) or type(x) is int
    return got.kind == wanted.kind and got.itemsize == 2 * wanted.itemsize


def host_call(name: str, callback: HostFunction, args: Sequence[Any], *, batch: tuple[int, ...] = (),
              mapped: tuple[Any, ...] = (), result_dtypes: tuple[Any, ...] = (), result_shapes: tuple[Any, ...] = (),
              indexed: bool = False, device: int = 0) -> list[np.ndarray]:
    """What the host does: one call, or one per position of the batch; results lead with the batch axes."""
    if not batch:
        extra = {"batch_index": (), "device_index": device} if indexed else {}
        return _call(name, callback, args, result_dtypes, result_shapes, extra)
    outs = [np.empty((*batch, *s), d) for s, d in zip(result_shapes, result_dtypes)]
    for at in itertools.product(*map(range, batch)):
        mine = [x[tuple(i for i, on in zip(at, flags) if on)] for x, flags in zip(args, mapped)]
        extra = {"batch_index": at, "device_index": device} if indexed else {}
        for o, value in zip(outs, _call(name, callback, mine, result_dtypes, result_shapes, extra)):
            o[at] = value
    return outs


def _numpy(name: str) -> Callable[..., tuple[Any, ...]]:
    def meaning(*args: Any, callback: HostFunction, threaded: bool = False, device: int = 0, ordered: bool = False,
                vmap_method: Any = None, **params: Any) -> tuple[Any, ...]:
        token = args[-1:] if threaded else ()
        args = args[:-1] if threaded else args
        return (*host_call(name, callback, args, device=device, **params), *token)
    return meaning


def _spmd(name: str) -> Callable[..., Any]:
    """Every device calls, in order."""
    def meaning(run: Any, env: Any, args: list[list[Any]], params: dict[str, Any]) -> Any:
        rows = [_numpy(name)(*[xs[d] for xs in args], device=d, **params) for d in range(env.size)]
        return list(zip(*rows))
    return meaning


def _callback(name: str, params: Sequence[str], **facts: Any) -> Primitive:
    return Primitive(name, params=params, infer=_infer(name), numpy=_numpy(name), spmd=_spmd(name), multiple=True,
                     family="callbacks", spec="custom_call", **facts)


_PLAIN = {"batch": (), "mapped": ()}
pure_callback_p = _callback("pure_callback", ("batch", "callback", "mapped", "result_dtypes", "result_shapes",
                                              "vmap_method"), defaults={**_PLAIN, "vmap_method": None})
io_callback_p = _callback("io_callback", ("batch", "callback", "mapped", "ordered", "result_dtypes", "result_shapes",
                                          "threaded"),
                          defaults={**_PLAIN, "ordered": False, "threaded": False}, effectful=True)
debug_callback_p = _callback("debug_callback", ("batch", "callback", "indexed", "mapped", "ordered", "threaded"),
                             defaults={**_PLAIN, "indexed": False, "ordered": False, "threaded": False},
                             effectful=True)
