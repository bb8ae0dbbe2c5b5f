"""`Tracer`: a value that represents an array while a function is transformed; and `typeof`, the types of values.

A tracer belongs to one running transformation, its trace (see trace.py), which handles the primitives applied to it. It
has the methods of an array, installed by the operators hook. Operations that need concrete numbers raise errors here,
which describe where the tracer comes from.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard
from types import FrameType, ModuleType

import numpy as np
from typing_extensions import override
from lamina_ir import ShapedArray, aval_of, errors
from lamina_ir.typing import Function, Tree, Value

from .error_context import not_an_array_error
from .._typing import AnyTrace

__all__ = ["Tracer", "get_concrete_value", "get_underlying_value", "has_jax_array", "is_object_array",
           "load_conversion_errors", "load_numpy_dispatch", "provenance_hooks", "read_jax_array",
           "stack_object_arrays", "typeof"]

provenance_hooks: list[Callable[[Tracer], str]] = []  # each describes where a tracer comes from; see tracer_provenance.py


def has_jax_array(x: object) -> bool:
    """Return whether an object can be converted to an array with `read_jax_array`.

    Such objects are those of other libraries with `__jax_array__`, and object arrays of traced values. Callers check
    this last, so that arrays, numbers and tracers do not pay for it.

    Args:
      x: the object.
    Returns:
      A bool.

    >>> class Table:
    ...     def __jax_array__(self):
    ...         return np.ones(2)
    >>> has_jax_array(Table()), has_jax_array(2.0)
    (True, False)
    """
    return hasattr(type(x), "__jax_array__") or is_object_array(x)


def is_object_array(x: object) -> TypeGuard[np.ndarray]:
    """Return whether `x` is an array of Python objects that NumPy made of a list with traced values.

    Args:
      x: any object.
    Returns:
      A bool.

    >>> is_object_array(np.array([1, None])), is_object_array([1])
    (False, False)
    """
    return type(x) is np.ndarray and x.dtype.hasobject and any(isinstance(item, Tracer) for item in x.flat)


def read_jax_array(x: Value) -> Value:
    """Convert an object for which `has_jax_array` holds to an array.

    Args:
      x: an object with `__jax_array__`, or an array of Python objects with traced values, which are stacked.
    Returns:
      An array, or a traced value.

    >>> class Table:
    ...     def __jax_array__(self):
    ...         return np.ones(2)
    >>> read_jax_array(Table())
    array([1., 1.])
    """
    return load_numpy_dispatch().as_array(x.tolist()) if isinstance(x, np.ndarray) else x.__jax_array__()


def stack_object_arrays(leaves: list[Value]) -> list[Value]:
    """Convert those results of a user's function that are arrays of Python objects with traced values.

    Args:
      leaves: flat results; replaced in place.
    Returns:
      The same list.

    >>> stack_object_arrays([2.0])
    [2.0]
    """
    for i, x in enumerate(leaves):
        if type(x) is np.ndarray and is_object_array(x):
            leaves[i] = read_jax_array(x)
    return leaves


def typeof(x: Value) -> ShapedArray:
    """Return the type of a traced value, array or number.

    Args:
      x: the value.
    Returns:
      Its shape, dtype and weak type. Python numbers are weakly typed: combined with an array they take its dtype.
    Raises:
      TypeError: it is not a traced value, array or number.

    >>> typeof(3)
    ShapedArray(int32[], weak_type=True)
    """
    if isinstance(x, Tracer):
        return x.aval
    try:
        return aval_of(x)
    except (TypeError, ValueError) as error:
        if has_jax_array(x):
            return typeof(read_jax_array(x))
        raise not_an_array_error(x, error) from None


def get_concrete_value(x: Value) -> Value:
    """Return `x` if it is concrete, or the concrete primal value of a traced `x`.

    Differentiation without `jit` runs the function on its primal values, so these are known. Results computed from them
    are constants to the derivative. A staged or mapped value has no concrete value.

    Args:
      x: a tracer, array or number.
    Returns:
      An array or number; None if the value is unknown.

    >>> from lamina_tracing.extend import EVALUATION
    >>> get_concrete_value(2.0), get_concrete_value(Tracer(EVALUATION, aval_of(1.0)))
    (2.0, None)
    """
    return x._concrete_value() if isinstance(x, Tracer) else x


def get_underlying_value(x: Value) -> Value:
    """Return the array that a traced `x` was made from: its primal value, or the batch if `x` is one example of it.

    Args:
      x: a tracer, array or number.
    Returns:
      An array or number; None if `x` is staged.

    >>> from lamina_tracing.extend import EVALUATION
    >>> get_underlying_value(2.0), get_underlying_value(Tracer(EVALUATION, aval_of(1.0)))
    (2.0, None)
    """
    while isinstance(x, Tracer):
        x = x.underlying_value()
    return x


# Imports `numpy_dispatch` on first use: few programs call NumPy functions on tracers, and importing it takes as long as
# `lax`.
load_numpy_dispatch: Callable[[], ModuleType] = lru_cache(maxsize=1)(
    partial(import_module, "lamina_tracing.numpy_dispatch"))


# Imports the texts of errors when the first one is raised.
load_conversion_errors: Callable[[], ModuleType] = lru_cache(maxsize=1)(
    partial(import_module, "lamina_tracing._diagnostics.conversion_errors"))


# Ufuncs that call the method of this name on the items of an object array.
_METHODS_OF_ITEMS = frozenset((
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "deg2rad", "degrees",
    "exp", "exp2", "expm1", "fabs", "fmod", "hypot", "log", "log10", "log1p", "log2", "logical_xor", "rad2deg", "radians",
    "rint", "sin", "sinh", "sqrt", "tan", "tanh"))
# Callers of NumPy that cannot use object arrays: they get an error that names the traced value.
_NO_OBJECTS = ("lamina", "scipy")


_VECTORIZE = "_get_ufunc_and_otypes"  # the method of np.vectorize that reads the first element of each argument


def _is_item_of_list(shape: tuple[int, ...]) -> bool:
    """Return whether NumPy called `__array__` of a number in a user's list, such as `np.sum([x, y])`.

    NumPy does the same for `np.asarray(x)`, which is an error: the source line distinguishes them.
    """
    frame: FrameType | None = sys._getframe(2)
    assert frame is not None
    if shape:  # Python 3.11 has a frame for the comprehension in `_VECTORIZE`
        return any(f is not None and f.f_code.co_name == _VECTORIZE for f in (frame, frame.f_back))
    caller: FrameType | None = frame
    while caller is not None and caller.f_globals.get("__name__", "").startswith("numpy."):
        caller = caller.f_back
    if caller is not None and caller.f_globals.get("__name__", "").startswith(_NO_OBJECTS):
        return False
    return caller is not frame or not load_conversion_errors().converts_array(frame)


def _origin(x: Tracer) -> str:
    return "".join([describe(x) for describe in provenance_hooks])


class Tracer:
    """Value that represents an array while a function is transformed: an array's methods, but no concrete numbers.

    Args:
      trace: the transformation that handles primitives applied to it, a `Trace`.
      aval: the type of the array.

    >>> from lamina_tracing.extend import EVALUATION
    >>> x = Tracer(EVALUATION, ShapedArray((2, 3), np.dtype("float32")))
    >>> x.shape, x.ndim, len(x)
    ((2, 3), 2, 2)
    >>> float(x)
    Traceback (most recent call last):
    lamina_ir.errors.ConcretizationError: `float` at ... needs a Python float, but a traced value float32[2,3] has no ...
    """

    __slots__ = ("_trace", "aval", "__weakref__")
    __array_priority__ = 1000

    def __init__(self, trace: AnyTrace, aval: ShapedArray) -> None:
        self._trace = trace
        self.aval = aval

    def concrete_value(self) -> Value:
        """Return the concrete value that the tracer pairs with more data, such as a tangent; None if it has none.

        A subclass overrides this. `bool`, `int` and `item` of the tracer then convert this value, so the transformed
        function can decide by it. `get_concrete_value(x)` of the value of an outer level is the usual result.

        >>> from lamina_tracing.extend import EVALUATION, get_concrete_value
        >>> class Pair(Tracer):
        ...     def __init__(self, trace, value, tangent):
        ...         super().__init__(trace, typeof(value))
        ...         self.value, self.tangent = value, tangent
        ...     def concrete_value(self):
        ...         return get_concrete_value(self.value)
        >>> bool(Pair(EVALUATION, np.float32(2), np.float32(1)))
        True
        """
        return None

    def underlying_value(self) -> Value:
        """Return the value of an outer level that this tracer wraps, traced or concrete; None if it wraps none.

        A subclass overrides this. Errors about the tracer then describe also where that value comes from, and
        `get_underlying_value` finds the array from which the tracer was made.

        >>> from lamina_tracing.extend import EVALUATION
        >>> class Example(Tracer):
        ...     def __init__(self, trace, batch):
        ...         super().__init__(trace, typeof(batch[0]))
        ...         self.batch = batch
        ...     def underlying_value(self):
        ...         return self.batch
        >>> get_underlying_value(Example(EVALUATION, np.arange(3)))
        array([0, 1, 2])
        """
        return None

    def _concrete_value(self) -> Value:
        return self.concrete_value() if self._trace.alive else None

    @override
    def __hash__(self) -> int:
        raise TypeError(self._need_value("hash"))

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: len(self.aval.shape))
    size = property(lambda self: self.aval.size)
    weak_type = property(lambda self: self.aval.weak_type)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.aval.dtype.itemsize * self.aval.size)
    named_shape = property(lambda self: self.aval.named_shape)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError(f"len() of a rank-0 traced value {self.aval.str_long()}")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[Value]:
        if not self.aval.shape:
            raise TypeError(self._need_value("iter"))
        return (self[i] for i in range(self.aval.shape[0]))  # type: ignore[index]

    def __contains__(self, value: object) -> bool:
        number = self._concrete_value()
        if number is not None:
            return value in number
        raise errors.TracerBoolError(self._need_value("in"))

    def _need_value(self, use: str) -> str:
        """Return the error text for a conversion that needs the concrete value; see `conversion_errors`."""
        return load_conversion_errors().conversion_text(self, use)

    def __bool__(self) -> bool:
        if self.aval.shape and self.aval.size != 1:
            raise ValueError(load_conversion_errors().ambiguous_text(self))
        number = self._concrete_value()
        if number is not None:
            return bool(number)
        raise errors.TracerBoolError(self._need_value("bool"))

    def __int__(self) -> int:
        number = self._concrete_value()
        if number is not None:
            return int(number)
        raise errors.TracerIntegerError(self._need_value("int"))

    def __float__(self) -> float:
        raise errors.ConcretizationError(self._need_value("float"))

    def __complex__(self) -> complex:
        raise errors.ConcretizationError(self._need_value("complex"))

    def __index__(self) -> int:
        raise errors.TracerIntegerError(self._need_value("index"))

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Return an array of Python objects for a number in a list, or if `dtype` is object; else raise."""
        wanted = copy is None and _is_item_of_list(self.aval.shape) if dtype is None else np.dtype(dtype).hasobject
        if wanted:
            return load_numpy_dispatch().make_object_array(self)
        raise errors.TracerArrayError(self._need_value("array"))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Value, **kwargs: Tree) -> Value:
        return load_numpy_dispatch().array_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Function, types: Iterable[type], args: Sequence[Tree],
                           kwargs: Mapping[str, Tree]) -> Tree:
        return load_numpy_dispatch().array_function(func, types, args, kwargs)

    def _describe_provenance(self) -> str:
        """Describe where this tracer comes from, for errors."""
        return _origin(self)

    if not TYPE_CHECKING:  # type checkers refuse unknown attributes
        def __getattr__(self, name: str) -> Any:
            if name in _METHODS_OF_ITEMS:  # NumPy's functions of an object array call these methods of its items
                return partial(load_numpy_dispatch().call_ufunc, name, self)
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def item(self, *args: Tree) -> Value:
        number = self._concrete_value()
        if number is not None:
            return number.item(*args) if hasattr(number, "item") else np.asarray(number).item(*args)
        raise errors.ConcretizationError(self._need_value("item"))

    def tolist(self) -> NoReturn:
        raise errors.ConcretizationError(self._need_value("tolist"))

    def block_until_ready(self) -> Tracer:
        return self

    def __setitem__(self, index: object, value: object) -> None:
        raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: object) -> Tracer:
        return self

    @override
    def __repr__(self) -> str:
        return f"Traced<{self.aval!r}>with<{self._trace!r}>"

    @override
    def __format__(self, spec: str) -> str:
        try:
            return format(repr(self), spec)
        except ValueError:
            raise TypeError(self._need_value("format")) from None
