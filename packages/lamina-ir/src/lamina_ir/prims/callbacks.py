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

from .._excerpt import excerpt
from ..avals import ShapedArray, shaped
from ..errors import CallbackError, CheckError, DTypeError, ShapeError
from ..params import register_param_type
from ..primitive import Primitive
from ..turns import axes_text, by_device, running_device, running_places, running_turns, turns_text

__all__ = ["HostCall", "HostFunction", "debug_callback_p", "io_callback_p", "pure_callback_p", "register_host_function"]

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

    Attributes:
      function: the function, or None.
      source: the line that calls it, where that is known.
      loops: the loops whose turns are its last operands: the name of the op and its line, of the outermost first (see
        `number_turns`).
      names: of the axes of the batch, where they have any, the outermost first.
      checks: whether it is a check: its first operand is a truth value, and it is called to raise where that is false.
      repeats: whether it only reports, so that an `io_callback` of it may run again, or for examples that have no part
        in it.
      batched: of a function that takes whole batches, what gives the one for a batch, from it and the position of the
        batch's axis in each operand (None: it has none); None: it is called once per example.
      placed: whether it is also given `device`, where it is called from; None where the call does not know.

    >>> double = HostFunction.of(lambda x: (2 * x,), "double")
    >>> double(3)
    (6,)
    >>> HostFunction("double").function is None
    True
    """

    name: str

    def __post_init__(self) -> None:
        self._know(function=_registered.get(self.name), source=None, loops=(), names=(), checks=False,
                   repeats=False, batched=None, placed=False, device=None)

    def _know(self, **facts: Any) -> None:
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    def _also(self, **facts: Any) -> HostFunction:
        made = HostFunction(self.name)
        made._know(**{**vars(self), **facts})
        return made

    @staticmethod
    def of(function: Callable[..., Any], name: str, source: Any = None, checks: bool = False, **how: Any) -> HostFunction:
        """A function of this process, called `name` in print and errors, which name the line `source` too. `how` may give
        `repeats`, `batched` and `placed`."""
        made = HostFunction(name)
        made._know(function=function, source=source, checks=checks, **how)
        return made

    def at(self, device: Any) -> HostFunction:
        """The same function, called from `device` where the call does not know better."""
        return self._also(device=device)

    def taking(self, function: Callable[..., Any], **how: Any) -> HostFunction:
        """Another function in its place."""
        return self._also(function=function, **how)

    def inside(self, loops: tuple[tuple[str, Any], ...]) -> HostFunction:
        """The same function, given the turns of these loops behind its operands."""
        return self._also(loops=loops)

    def over(self, name: Any) -> HostFunction:
        """The same function, its batch with one more axis around, called `name`; None: it has no name."""
        return self._also(names=(name, *self.names))  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, HostFunction) and self.name == other.name
                and self.loops == other.loops and self.names == other.names  # type: ignore[attr-defined]
                and self.function is other.function)  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = self.function  # type: ignore[attr-defined]
        if function is None:
            raise _unknown(self.name)
        return function(*args, **kwargs)


def _unknown(name: str) -> CallbackError:
    return CallbackError(f"callback `{name}`: the program was loaded, and this process has no host function of that name; "
                         "give it to lamina_ir.extend.register_host_function before loading")


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
    if not isinstance(name, str) or not callable(function):
        raise TypeError("register_host_function: expected a name and a function; got "
                        f"{excerpt(name)} and {excerpt(function)}")
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


class HostCall:
    """What the host does for one equation: one call, or one per position of the batch, results and errors checked.

    Args:
      name: of the op, for errors.
      params: of the equation. Of an ordered call `threaded` is left to the caller.
      where: words for a position in the mapped axes (None: beside them); None: those of the evaluation that runs.
      device_of: the device at a position, for a callback that is given it; None: the one that its `at` was told.

    >>> say = HostFunction.of(lambda x: (2 * x,), "double")
    >>> call = HostCall("pure_callback", dict(callback=say, batch=(), mapped=(), result_dtypes=(np.dtype("int32"),),
    ...                                         result_shapes=((),)))
    >>> call([np.int32(3)])
    (array(6, dtype=int32),)
    """

    __slots__ = ("name", "callback", "function", "batch", "mapped", "wanted", "indexed", "where", "device_of")

    def __init__(self, name: str, params: dict[str, Any], where: Callable[[int | None], str] | None = None,
                 device_of: Callable[[int | None], Any] | None = None) -> None:
        self.where, self.device_of = where, device_of
        self.name, self.callback, self.batch, self.mapped = name, params["callback"], params["batch"], params["mapped"]
        self.function = self.callback.function
        self.wanted = tuple(zip(params.get("result_shapes", ()), params.get("result_dtypes", ())))
        self.indexed = params.get("indexed", False)

    def __call__(self, args: Sequence[Any], turns: Any = (), device: int | None = None) -> tuple[np.ndarray, ...]:
        """The results, which lead with the batch axes.

        Args:
          args: the operands without turns and order.
          turns: of the loops that the callback was told of, outermost first.
          device: its position in the mapped axes; None where there are none.
        Raises:
          CallbackError: the function raised, or gave something else than promised. It says which of the calls that was.
        """
        if self.callback.checks and np.all(args[0]):
            return ()
        if not self.batch:
            return self._once(args, (turns, device, ()))
        outs = [np.empty((*self.batch, *shape), dtype) for shape, dtype in self.wanted]
        for at in itertools.product(*map(range, self.batch)):
            mine = [x[tuple(i for i, on in zip(at, flags) if on)] for x, flags in zip(args, self.mapped)]
            if self.callback.checks and np.all(mine[0]):
                continue
            for o, value in zip(outs, self._once(mine, (turns, device, at))):
                o[at] = value
        return tuple(outs)

    def _once(self, args: Sequence[Any], at: tuple[Any, int | None, tuple[int, ...]]) -> tuple[np.ndarray, ...]:
        try:
            if self.indexed:
                out = self.function(*args, batch_index=at[2], device_index=at[1] or 0)
            elif self.callback.placed:
                out = self.function(*args, device=self.device_of(at[1]) if self.device_of else self.callback.device)
            else:
                out = self.function(*args)
        except CallbackError as e:  # it returned another tree, or a callback that it has called failed
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
            if type(x) is not np.ndarray or x.dtype != dtype or x.shape != shape or not x.flags.c_contiguous:
                a = np.asarray(x)
                if a.shape != shape or (a.dtype != dtype and not _narrows(x, a.dtype, dtype)):
                    raise self._error(f"{self.name}: result {i} of the callback `{self.callback.name}` must be "
                                      f"{shaped(shape, dtype).long()}, as its result_shape_dtypes say; got "
                                      f"{a.dtype.name}{list(a.shape)}", at)
                x = np.ascontiguousarray(a.astype(dtype, copy=False)).reshape(shape)
            found.append(x)
        return tuple(found)

    def _error(self, text: str, at: tuple[Any, int | None, tuple[int, ...]],
               kind: type[CallbackError] = CallbackError) -> CallbackError:
        turns, device, index = at
        source, loops, names = self.callback.source, self.callback.loops, self.callback.names
        words = [f"{'at' if kind is not CallbackError else 'called at'} {source}"] if source else []
        if index:
            named = names if len(names) == len(index) else (None,) * len(index)
            words.append("at " + ", ".join([f"index {i} of " + ("the batch" if name is None else f"axis {name!r}") + f" of {n}"
                                            for i, n, name in zip(index, self.batch, named)]))
        told = [(op, int(i), line) for (op, line), i in zip(loops, np.reshape(turns, -1))] if loops else running_turns()
        if told:
            words.append(turns_text(told).removeprefix(", "))
        if self.where is not None:
            words += filter(None, [self.where(device)])
        elif device is not None:
            words.append(f"at {axes_text(running_places())}" if running_places() else f"on device {device} of the mapped axes")
        return kind(text + (f"; {', '.join(words)}" if words else ""))


def _narrows(x: Any, got: np.dtype, wanted: np.dtype) -> bool:
    """Python numbers take the dtype asked for; 64-bit NumPy results of 32-bit inputs are what NumPy makes by itself."""
    if type(x) in (bool, int, float, complex):
        return bool(np.can_cast(got, wanted, "same_kind")) or type(x) is int
    return got.kind == wanted.kind and got.itemsize == 2 * wanted.itemsize


def _numpy(name: str) -> Callable[..., tuple[Any, ...]]:
    def meaning(*args: Any, **params: Any) -> tuple[Any, ...]:
        token = args[-1:] if params.get("threaded") else ()
        n = len(args) - len(token)
        loops = len(params["callback"].loops)
        return (*HostCall(name, params)(args[:n - loops], args[n - loops:n], running_device()), *token)
    return meaning


def _spmd(name: str) -> Callable[..., Any]:
    """Every device calls, in order."""
    call = _numpy(name)

    def meaning(run: Any, env: Any, args: list[list[Any]], params: dict[str, Any]) -> Any:
        return by_device(env.size, lambda d: call(*[xs[d] for xs in args], **params))
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
