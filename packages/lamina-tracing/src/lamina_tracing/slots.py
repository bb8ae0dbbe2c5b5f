"""The four doors through which control comes back up. Each has a default that works alone; a higher floor fills it.

    slot        default                                      filled by
    evaluator   NumPy meaning of each op                     lamina_runtime: XLA
    dispatcher  Python cache + evaluator, for jit and pmap   lamina_runtime: jaxlib's C++ call path
    basis_map   loop over basis vectors and stack            lamina_batching: vmap
    operators   lax arithmetic with NumPy promotion          lamina_numpy: the full NumPy set

Reading `slots.evaluator` gives what fills the slot; `slots.set_evaluator(new)` fills it, and so does `slots.evaluator = new`.
A change counts as one of the rows in force (`config.generation`), so whatever was staged or called before follows.

`on_staging` is the small fifth: hooks told when this thread starts and stops staging (or binding axis names), for
caches outside Python. `on_devices_gone` are hooks told when devices are no more, by a function that says it of one.
`on_operands` are hooks that give a block in which a function of these operands is staged: arrays may say what traced values do
not.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from lamina_ir import ClosedJaxpr, Primitive, ShapedArray, config
from lamina_ir.extend import new_generation

from .array import HostArray
from .jit_spec import Staged
from .narrowing import tell_of_narrowing
from .numpy_evaluator import NumPyEvaluator
from .statics import Statics
from .trace import EVALUATION, on_operands, on_staging
from .tracer import Tracer

__all__ = ["CallSpec", "Dispatcher", "Evaluator", "NumPyEvaluator", "Operators", "basis_map", "device_put",
           "dispatcher", "evaluator", "on_devices_gone", "on_operands", "on_staging", "operators", "set_basis_map",
           "set_dispatcher", "set_evaluator", "use_numpy"]


class Evaluator(Protocol):
    """Runs ops and programs on concrete values."""

    def primitive(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """The op's result on concrete arguments; a tuple when `prim.multiple`."""

    def program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The program's results on concrete arguments."""

    def array(self, value: np.ndarray, aval: ShapedArray) -> Any:
        """A concrete array of type `aval` from host memory. Copies: the caller may change `value` afterwards."""


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
    if not isinstance(new, NumPyEvaluator):  # a runtime's: who uses one is used to 32 bits
        tell_of_narrowing(False)
    with config.generation.changing():
        evaluator = new
        EVALUATION.hand_to(new.primitive)  # what `bind` calls where no trace is left
        new_generation()


set_evaluator(NumPyEvaluator())
tell_of_narrowing(True)


class CallSpec(Protocol):
    """A function and how it is called: what a dispatcher's `jit` and `pmap` make a callable of. `JitSpec` is one.

    Attributes:
      call: who made it: `jit`, `pmap`.
      fun, name: the user's function, and what errors call it.
      known_as, known_by: what its programs are remembered under, and what tells specs of one function apart.
      programs: those of its signatures so far, to be cleared.
      statics: which of its arguments are Python values.
      device, backend: where to run, or None.
      donate_argnums: positions of arguments whose memory may be reused.
      inline: a call while another function is traced becomes part of that, as `inlined` gives it; `ours`: of our own rooms.
      keep_unused: pass arguments the program does not read to the device all the same.
      in_shardings, out_shardings: where arguments and results lie, trees of shardings and None.
      compiler_options: name -> value, or None.

    >>> class Portable:
    ...     def jit(self, spec: CallSpec):
    ...         return spec.fun
    ...     def pmap(self, spec: CallSpec):
    ...         return spec.portable()
    """

    call: str
    fun: Callable[..., Any]
    name: str
    known_as: Any
    programs: dict[Any, Staged]
    statics: Statics
    device: Any
    backend: str | None
    donate_argnums: frozenset[int]
    inline: bool
    keep_unused: bool
    in_shardings: Any
    out_shardings: Any
    compiler_options: dict[str, Any] | None

    @property
    def known_by(self) -> Any: ...
    @property
    def ours(self) -> bool: ...

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any, Any]:
        """(flat dynamic arguments, their tree, key of the static ones)."""

    def stage_call(self, args: Sequence[Any], kwargs: dict[str, Any], flat: list[Any], tree: Any, static: Any) -> Staged:
        """The program for arguments of these types, staged now or remembered. It takes the values in `outer`, then `flat`."""

    def argument(self, tree: Any, i: int) -> str:
        """What the user calls a flat argument, for errors: `params['w'][0]`."""

    def rows(self, staged: Staged, tree: Any) -> str | None:
        """What says how many rows are mapped, for errors: `x, float32[9,2], has 9 rows along axis 0`; None: no argument."""

    def stage_types(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Staged, Any]:
        """(program, tree of the dynamic arguments) for arrays or anything with shape and dtype."""

    def donated(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[bool, ...]:
        """For each flat dynamic argument, whether the caller gives up its buffer; (): none."""

    def call_staged(self, staged: Staged, flat: Sequence[Any], donated: tuple[bool, ...] = ()) -> Any:
        """Apply a staged program as one equation, through whatever transformations its arguments are in."""

    def inlined(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The call as a part of what is being traced."""

    def portable(self) -> Callable[..., Any]:
        """The callable of a dispatcher without devices: the evaluator runs the call."""

    def called_by(self, dispatcher: Any) -> Callable[..., Any]:
        """The callable that a dispatcher makes of it."""


class Dispatcher(Protocol):
    """Turns a staged callable into a fast repeated call."""

    def jit(self, spec: Any) -> Callable[..., Any]:
        """A callable for a function that is jitted."""

    def pmap(self, spec: Any) -> Callable[..., Any]:
        """A callable for a function that is mapped over devices."""

    def device_count(self, backend: str | None) -> int | None:
        """How many devices a map can have; None: as many as it asks for."""

    def share(self, devices: Sequence[Any] | None, backend: str | None) -> tuple[int, int]:
        """How many of all parts of a map's rows are this process's, and how many parts there are: devices where these are
        named, else processes."""


dispatcher: Dispatcher  # the default is set by jitting.py, which defines it


def set_dispatcher(new: Dispatcher) -> None:
    """Make repeated calls through `new` from now on; callables made before follow at their next call.

    Args:
      new: makes callables (`jit`, `pmap`). What it makes remembers the dispatcher in force then, and goes to the one in force
        when it is called.
    Raises:
      TypeError: it lacks one of them.
    """
    global dispatcher, _portable
    _check_filling("dispatcher", new, "jit", "pmap")
    with config.generation.changing():
        dispatcher, _portable = new, _portable or new
        new_generation()


_portable: Dispatcher | None = None


def use_numpy(by: Evaluator | None = None) -> None:
    """Evaluate and dispatch as without a runtime from now on: ops and programs by their NumPy meanings.

    Args:
      by: the evaluator; default: a `NumPyEvaluator`.
    """
    assert _portable is not None
    set_evaluator(NumPyEvaluator() if by is None else by)
    set_dispatcher(_portable)


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


on_devices_gone: list[Callable[[Callable[[Any], bool]], None]] = []


class Operators:
    """Methods, operators and properties of arrays and tracers.

    `install(tracer_table, array_table)` takes name -> function or property. Tracers get the first table; every
    concrete array class, now or later, the second, whose functions may be the faster dispatched ones.

    `functions`, which may be set, gives what a function of NumPy's does with traced values where `numpy_names` has no row of
    that name: `functions("linalg.pinv")`, or None.

    `beside`, which may be set, gives what operators of a concrete array take for a float or an int: `beside(x, 0.5)`, an
    array of that number which lies ready where `x` does, weakly typed as the number is, or the number.
    """

    functions: Callable[[str], Callable[..., Any] | None] = staticmethod(lambda name: None)  # of NumPy's, without a row
    beside: Callable[[Any, Any], Any] = staticmethod(lambda x, number: number)

    def __init__(self) -> None:
        self.tracer_table: dict[str, Any] = {}
        self.array_table: dict[str, Any] = {}
        self._classes: list[type] = []

    def install(self, tracer_table: dict[str, Any], array_table: dict[str, Any]) -> None:
        self.tracer_table.update(tracer_table)
        self.array_table.update(array_table)
        for name, value in tracer_table.items():
            setattr(Tracer, name, value)
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

    def __reduce__(self) -> Any:
        return import_module, (self.__name__,)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("evaluator", "dispatcher", "basis_map"):
            getattr(self, f"set_{name}")(value)
        elif name == "operators":
            raise TypeError("slots.operators: its tables are filled with slots.operators.install(...)")
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Slots
