"""Four hooks through which higher packages replace default behaviour. Each default works without the higher package.

    hook        default                                      replaced by
    evaluator   NumPy implementation of each primitive       lamina_runtime: XLA
    dispatcher  Python cache + evaluator, for jit and pmap   lamina_runtime: jaxlib's C++ call path
    basis_map   loop over basis vectors and stack            lamina_batching: vmap; imported on first use
    operators   lax arithmetic with NumPy promotion          lamina_numpy: the full NumPy set

`hooks.evaluator` is the installed implementation; `hooks.set_evaluator(new)` or `hooks.evaluator = new` replaces it. A
change counts as a change of the rules (`config.generation`), so cached programs and callables made earlier use the new
one.

There are also three lists of callbacks:

- `on_staging`: called when this thread starts or stops staging (or binding axis names), for caches outside Python.
- `on_devices_closed`: called when devices are closed, with a predicate that tests whether a device is one of them.
- `staging_context_hooks`: return a context manager for staging a function of given operands. They may read properties
  of the arrays, such as their devices, which tracers do not have.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Protocol

import numpy as np
from typing_extensions import override
from lamina_ir import ClosedJaxpr, Primitive, ShapedArray, config
from lamina_ir.extend import invalidate_caches
from lamina_ir.typing import Device, Function, Params, Value

from .._core.array import HostArray
from .call_spec import CallSpec
from .._diagnostics.x64_warning import enable_x64_narrowing_warning
from .numpy_evaluator import NumPyEvaluator
from .._core.trace import EVALUATION, staging_context_hooks, on_staging
from .._core.tracer import Tracer
from .._typing import AttributeTable, Outputs

__all__ = ["CallSpec", "Dispatcher", "Evaluator", "NumPyEvaluator", "Operators", "basis_map", "device_put",
           "dispatcher", "evaluator", "find_basis_map", "on_devices_closed", "on_staging", "operators",
           "set_basis_map", "set_dispatcher", "set_evaluator", "staging_context_hooks", "use_numpy"]


class Evaluator(Protocol):
    """Runs primitives and programs on concrete values."""

    def primitive(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        """Run a primitive on concrete operands; return a tuple if `prim.multiple`."""

    def program(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        """Run a program on concrete arguments."""

    def array(self, value: np.ndarray, aval: ShapedArray) -> Value:
        """Make a concrete array of type `aval` from host memory. Copies: the caller may change `value` afterwards."""


def _check_methods(hook: str, new: object, *methods: str) -> None:
    missing = [name for name in methods if not callable(getattr(new, name, None))]
    if missing:
        raise TypeError(f"set_{hook}: expected an object with the methods {', '.join(methods)}; {type(new).__name__} "
                        f"has no {', '.join(missing)}")


evaluator: Evaluator


def set_evaluator(new: Evaluator) -> None:
    """Replace the evaluator, in every thread.

    Args:
      new: runs primitives and programs (`primitive`, `program`, `array`; also `device_put` if it has devices).
    Raises:
      TypeError: it lacks one of these methods.
    """
    global evaluator
    _check_methods("evaluator", new, "primitive", "program", "array")
    if not isinstance(new, NumPyEvaluator):  # with a runtime, users expect 32 bits; see x64_warning.py
        enable_x64_narrowing_warning(False)
    with config.generation.changing():
        evaluator = new
        # Inside `changing`, because a result of the old evaluator must not be cached under the new generation.
        EVALUATION.set_handler(new.primitive)  # `bind` calls it without going through `evaluator`
        invalidate_caches()


set_evaluator(NumPyEvaluator())
enable_x64_narrowing_warning(True)


class Dispatcher(Protocol):
    """Makes fast repeated calls from call specs."""

    def jit(self, spec: CallSpec) -> Function:
        """Make a callable for a jitted function."""

    def pmap(self, spec: CallSpec) -> Function:
        """Make a callable for a function that is mapped over devices."""

    def device_count(self, backend: str | None) -> int | None:
        """Return the maximal number of devices of a map; None: no limit."""

    def share(self, devices: Sequence[Device] | None, backend: str | None) -> tuple[int, int]:
        """Return `(own, total)`: this process has `own` of `total` equal parts of a mapped axis.

        The parts are devices if `devices` is given, else processes.
        """


dispatcher: Dispatcher  # jit.py defines and sets the default


def set_dispatcher(new: Dispatcher) -> None:
    """Replace the dispatcher. Callables made earlier use it from their next call on.

    Args:
      new: makes callables (`jit`, `pmap`). A callable must compare the current dispatcher with the one that made it,
        and call through the current one.
    Raises:
      TypeError: it lacks one of these methods.
    """
    global dispatcher, _portable
    _check_methods("dispatcher", new, "jit", "pmap")
    with config.generation.changing():
        # The first dispatcher is that of jit.py; `use_numpy` installs it again.
        dispatcher, _portable = new, _portable or new
        invalidate_caches()


_portable: Dispatcher | None = None  # the first dispatcher installed: that of jit.py, which needs no runtime


def _get_portable_dispatcher() -> Dispatcher:
    assert _portable is not None  # jit.py installs it at import
    return _portable


def use_numpy(evaluator: Evaluator | None = None) -> None:
    """Evaluate and dispatch as without a runtime: run primitives and programs with their NumPy implementations.

    Args:
      by: the evaluator; default: a `NumPyEvaluator`.
    """
    set_evaluator(NumPyEvaluator() if evaluator is None else evaluator)
    set_dispatcher(_get_portable_dispatcher())


def device_put(x: Value, device: Device) -> Value:
    """Put `x` on a device or on the devices of a sharding. ValueError if the evaluator has no devices."""
    move = getattr(evaluator, "device_put", None)
    if move is None:
        raise ValueError(f"arrays cannot be put on {device!r}: the evaluator in use has no devices; import lamina_runtime "
                         "first")
    return move(x, device)


basis_map: Function | None = None
_basis_map_is_known = False  # whether it was set, or lamina_batching is not installed


def set_basis_map(new: Function | None) -> None:
    """Set how a linear map is applied to all basis vectors, for Jacobians.

    Args:
      new: `new(push, basis)` applies `push` to all members of `basis`, a tree of arrays stacked on axis 0; None: apply
        it one by one.
    """
    global basis_map, _basis_map_is_known
    if new is not None and not callable(new):
        raise TypeError(f"set_basis_map: expected a function or None; got {type(new).__name__}")
    with config.generation.changing():
        was_known = _basis_map_is_known
        basis_map, _basis_map_is_known = new, True
        if was_known:  # else no program depends on it
            invalidate_caches()


_BATCHING, _NUMPY_LIBRARY = "lamina_batching", "lamina_numpy"  # higher packages: imported by name, if installed


def _import_if_installed(package: str) -> bool:
    """Import a package, which sets its hooks; return whether it is installed."""
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        return False
    return True


def find_basis_map() -> Function | None:
    """Return `basis_map`. If it was never set, import lamina_batching first, which sets it, if that is installed."""
    global _basis_map_is_known
    if not _basis_map_is_known:
        _import_if_installed(_BATCHING)
        _basis_map_is_known = True
    return basis_map


# Set by lamina_refs. `vmap` calls it if an argument is a mutable reference that is mapped.
mapped_references: Function | None = None


on_devices_closed: list[Callable[[Callable[[Device], bool]], None]] = []


def _import_and_find(name: str) -> Function | None:
    """Import the package with the NumPy functions, which sets `find_numpy_function`, and call that. None: not installed."""
    if not _import_if_installed(_NUMPY_LIBRARY):
        return None
    find = operators.find_numpy_function
    return None if find is _import_and_find else find(name)


class Operators:
    """Methods, operators and properties of arrays and tracers.

    `install(tracer_table, array_table)` takes tables of name -> function or property. Tracers get the first table.
    Every concrete array class, also one registered later, gets the second, whose functions may dispatch faster.

    `find_numpy_function(name)` returns the implementation of a NumPy function, such as "linalg.pinv" or "add.accumulate",
    for traced values if `numpy_dispatch` has none, or None. It takes NumPy's arguments. lamina_numpy sets it; the default
    imports lamina_numpy if that is installed.

    `device_scalar_like(x, number)` may be set. It returns the operand that operators of a concrete array use for a
    Python float or int: a cached, weakly typed device array on the devices of `x`, or the number itself.
    """

    find_numpy_function: Callable[[str], Function | None] = staticmethod(_import_and_find)
    device_scalar_like: Callable[[Value, Value], Value] = staticmethod(lambda x, number: number)

    def __init__(self) -> None:
        self.tracer_table: AttributeTable = {}
        self.array_table: AttributeTable = {}
        self._classes: list[type] = []

    def install(self, tracer_table: AttributeTable, array_table: AttributeTable) -> None:
        self.tracer_table.update(tracer_table)
        self.array_table.update(array_table)
        for name, value in tracer_table.items():
            setattr(Tracer, name, value)
        for kind in self._classes:
            self._set_attributes(kind, array_table)

    def register_array_class(self, kind: type) -> None:
        """Install the array table, and every later change of it, on a class of concrete arrays."""
        if kind not in self._classes:
            self._classes.append(kind)
            self._set_attributes(kind, self.array_table)

    @staticmethod
    def _set_attributes(kind: type, table: AttributeTable) -> None:
        for name, value in table.items():
            setattr(kind, name, value)


operators = Operators()
operators.register_array_class(HostArray)


class _HooksModule(ModuleType):
    """Module class that makes `hooks.evaluator = new` call `hooks.set_evaluator(new)`."""

    @override
    def __reduce__(self) -> tuple[Function, tuple[str, ...]]:
        return import_module, (self.__name__,)

    @override
    def __setattr__(self, name: str, value: object) -> None:
        if name in ("evaluator", "dispatcher", "basis_map"):
            getattr(self, f"set_{name}")(value)
        elif name == "operators":
            raise TypeError(f"{self.__name__}.operators cannot be replaced; change its tables with "
                            "operators.install(...)")
        else:
            super().__setattr__(name, value)


# A module has no setters; assigning a subclass to `__class__` is supported for this purpose.
sys.modules[__name__].__class__ = _HooksModule
