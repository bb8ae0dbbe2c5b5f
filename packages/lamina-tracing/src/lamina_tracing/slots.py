"""The four doors through which control comes back up. Each has a default that works alone; a higher floor fills it.

    slot        default                                      filled by
    evaluator   NumPy meaning of each op                     lamina_runtime: XLA
    dispatcher  Python cache + evaluator, for jit and pmap   lamina_runtime: jaxlib's C++ call path
    basis_map   loop over basis vectors and stack            lamina_batching: vmap
    operators   lax arithmetic with NumPy promotion          lamina_numpy: the full NumPy set

Reading `slots.evaluator` gives what fills the slot; `slots.set_evaluator(new)` fills it, and so does `slots.evaluator = new`.
A change counts as one of the rows in force (`config.generation`), so whatever was staged or called before follows.

`on_staging` is the small fifth: hooks told when this thread starts and stops staging (or binding axis names), for
caches outside Python.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from lamina_ir import ClosedJaxpr, Primitive, ShapedArray, aval_of, config, evaluate, evaluate_primitive
from lamina_ir.extend import new_generation

from . import trace
from .array import HostArray
from .trace import on_staging

__all__ = ["Dispatcher", "Evaluator", "Operators", "basis_map", "device_put", "dispatcher", "evaluator", "on_staging",
           "operators", "set_basis_map", "set_dispatcher", "set_evaluator"]


class Evaluator(Protocol):
    """Runs ops and programs on concrete values."""

    def primitive(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The op's result on concrete arguments; a tuple when `prim.multiple`."""

    def program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The program's results on concrete arguments."""

    def array(self, value: np.ndarray, aval: ShapedArray) -> Any:
        """A concrete array of type `aval` from host memory. Copies: the caller may change `value` afterwards."""


def _memory_of_others(args: Sequence[Any]) -> list[np.ndarray]:
    """The arrays among arguments that the caller may write to later."""
    return [a for a in args if isinstance(a, np.ndarray) and not isinstance(a, HostArray)]


def _apart(value: Any, given: Sequence[np.ndarray]) -> Any:
    """A result in memory of its own: reshapes, slices and identities are views of their operand in NumPy."""
    # arrays without elements share no memory, but the very array would be frozen in its owner's hands
    return np.array(value) if any(value is a or np.may_share_memory(value, a) for a in given) else value


class NumPyEvaluator:
    """The default evaluator: the NumPy meanings of `lamina_ir`."""

    def primitive(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        avals = [aval_of(a) for a in args]
        out = prim.infer(*avals, **params)
        values = evaluate_primitive(prim, args, params)
        given = _memory_of_others(args)
        if prim.multiple:
            return tuple(HostArray.of(_apart(v, given), a) for v, a in zip(values, out))
        return HostArray.of(_apart(values, given), out)

    def program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        values = evaluate(closed, *args)
        given = _memory_of_others((*args, *closed.consts))
        return [HostArray.of(_apart(v, given), a) for v, a in zip(values, closed.out_avals)]

    def array(self, value: np.ndarray, aval: ShapedArray) -> Any:
        return HostArray.of(np.array(value, aval.dtype), aval)


def _check_filling(slot: str, new: Any, *methods: str) -> None:
    missing = [name for name in methods if not callable(getattr(new, name, None))]
    if missing:
        raise TypeError(f"slots.set_{slot}: expected an object with the methods {', '.join(methods)}; {type(new).__name__} has "
                        f"no {', '.join(missing)}")


evaluator: Evaluator


def set_evaluator(new: Evaluator) -> None:
    """Evaluate ops with `new` from now on, in every thread.

    Args:
      new: runs ops and programs (`primitive`, `program`, `array`; also `device_put` if it has devices).
    Raises:
      TypeError: it lacks one of them.
    """
    global evaluator
    _check_filling("evaluator", new, "primitive", "program", "array")
    with config.generation.changing():
        evaluator = new
        trace.EVALUATION.hand_to(new.primitive)  # what `bind` calls where no trace is left
        new_generation()


set_evaluator(NumPyEvaluator())


class Dispatcher(Protocol):
    """Turns a staged callable into a fast repeated call."""

    def jit(self, spec: Any) -> Callable[..., Any]:
        """A callable for a `lamina_tracing.extend.JitSpec`."""

    def pmap(self, spec: Any) -> Callable[..., Any]:
        """A callable for a `lamina_parallel.extend.PmapSpec`."""


dispatcher: Dispatcher  # the default is set by jitting.py, which defines it


def set_dispatcher(new: Dispatcher) -> None:
    """Make repeated calls through `new` from now on; callables made before follow at their next call.

    Args:
      new: makes callables (`jit`, `pmap`). What it makes remembers the dispatcher in force then, and goes to the one in force
        when it is called.
    Raises:
      TypeError: it lacks one of them.
    """
    global dispatcher
    _check_filling("dispatcher", new, "jit", "pmap")
    with config.generation.changing():
        dispatcher = new
        new_generation()


def device_put(x: Any, device: Any) -> Any:
    """`x` on a device, or lying as a sharding says. ValueError where the evaluator has none."""
    move = getattr(evaluator, "device_put", None)
    if move is None:
        raise ValueError(f"arrays cannot be put on {device!r}: the evaluator in use has no devices; import lamina_runtime "
                         "first")
    return move(x, device)


basis_map: Callable[..., Any] | None = None


def set_basis_map(new: Callable[..., Any] | None) -> None:
    """Push all basis vectors at once: `new(push, basis)` with `basis` a tree of arrays stacked on axis 0; None: one by one."""
    global basis_map
    if new is not None and not callable(new):
        raise TypeError(f"slots.set_basis_map: expected a function or None; got {type(new).__name__}")
    with config.generation.changing():
        basis_map = new
        new_generation()


class Operators:
    """Methods, operators and properties of arrays and tracers.

    `install(tracer_table, array_table)` takes name -> function or property. Tracers get the first table; every
    concrete array class, now or later, the second, whose functions may be the faster dispatched ones.
    """

    def __init__(self) -> None:
        self.tracer_table: dict[str, Any] = {}
        self.array_table: dict[str, Any] = {}
        self._classes: list[type] = []

    def install(self, tracer_table: dict[str, Any], array_table: dict[str, Any]) -> None:
        self.tracer_table.update(tracer_table)
        self.array_table.update(array_table)
        for name, value in tracer_table.items():
            setattr(trace.Tracer, name, value)
        for kind in self._classes:
            self._dress(kind, array_table)

    def register_array_class(self, kind: type) -> None:
        """Give a class of concrete arrays the array table, and every later change of it."""
        if kind not in self._classes:
            self._classes.append(kind)
            self._dress(kind, self.array_table)

    @staticmethod
    def _dress(kind: type, table: dict[str, Any]) -> None:
        for name, value in table.items():
            setattr(kind, name, value)


operators = Operators()
operators.register_array_class(HostArray)


class _Slots(ModuleType):
    """`slots.evaluator = new` is `slots.set_evaluator(new)`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("evaluator", "dispatcher", "basis_map"):
            getattr(self, f"set_{name}")(value)
        elif name == "operators":
            raise TypeError("slots.operators: its tables are filled with slots.operators.install(...)")
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Slots
