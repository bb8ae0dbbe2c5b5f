"""`x.at[index]`: a copy of `x` with some elements changed. The index is parsed as for reading; each eager change is one
compiled call, remembered by operation and plan."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import config, dtypes
from lamina_ir.typing import Sharding
from lamina_tracing import ArrayLike, lax
from lamina_tracing.extend import (Tracer, call_with_out_sharding, check_out_sharding, has_jax_array, read_jax_array,
                                   repeat_elementwise, typeof)
from lamina_tracing.lax import GatherScatterMode

from .bounds import check_bounds, is_check_enabled
from .parse import FULL, POINT, Plan, has_traced, parse, wrap_index
from .gather import FILL, read
from .scatter import change, change_where, may_repeat
from .getitem import compile_plan, parse_mode, take_index

__all__ = ["at", "AtIndexer", "AtReference", "setitem"]


def _is_mask_of(index: Any, shape: tuple[int, ...]) -> bool:
    dtype = getattr(index, "dtype", None)
    if dtype is None or dtype != dtypes.BOOL:
        return False
    seen = index.shape
    return 0 < len(seen) and seen == shape[:len(seen)]


def _number_or_array(values: Any) -> Any:
    if has_jax_array(values):
        return read_jax_array(values)
    return np.asarray(values) if isinstance(values, (list, tuple)) else values


def _to_values(verb: str, values: Any) -> Any:
    """The values of a change, numbers or arrays."""
    values = _number_or_array(values)
    try:
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "OUS":
            typeof(values)
            return values
    except TypeError:
        pass
    raise TypeError(f"x.at[index].{verb}(values): values must be an array or a number; got {type(values).__name__}: "
                    f"{values!r:.60}")


def _rename_call(method: str, verb: str, *args: Any) -> Any:
    """Call `_change` as a part of another method; error messages contain that method's name."""
    try:
        return _change(verb, *args)
    except (TypeError, ValueError) as error:
        if len(error.args) == 1 and isinstance(error.args[0], str):
            error.args = (error.args[0].replace(f"x.at[index].{verb}", f"x.at[index].{method}"),)
        raise


def _change(verb: str, x: Any, index: Any, values: Any, sorted_: bool, unique: bool, mode: Any, wrap: bool,
            out_sharding: Sharding = None) -> Any:
    asked = mode is None and config.debug_bounds.ever_enabled and is_check_enabled()
    if mode == "wrap":
        index, mode = wrap_index(index, x.shape), "clip"
    how = parse_mode(verb, mode)
    values = _to_values(verb, values)
    traced = isinstance(x, Tracer) or isinstance(values, Tracer)
    if _is_mask_of(index, x.shape) and not np.shape(values):
        if out_sharding is not None:
            return call_with_out_sharding(verb, compile_plan((verb,), change_where, verb), (x, values, index), out_sharding)
        if traced or isinstance(index, Tracer):
            return change_where(verb, x, values, index)
        return compile_plan((verb,), change_where, verb)(x, values, index)
    if asked:
        check_bounds(f"x.at[...].{verb}", index, x.shape, wrap)
    plan, positions = parse(index, x.shape, how is not FILL, wrap)
    flags = (bool(sorted_), bool(unique))
    if out_sharding is not None:
        run = compile_plan((verb, plan, how, flags, wrap), change, verb)
        return call_with_out_sharding(verb, run, (x, values, *positions), out_sharding)
    if traced or has_traced(positions):
        return change(verb, plan, how, flags, wrap, x, values, *positions)
    return compile_plan((verb, plan, how, flags, wrap), change, verb)(x, values, *positions)


def setitem(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value` is refused: arrays never change."""
    raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)` (also .add, .multiply, "
                    ".min, .max, ...)")


# --- the public face ---------------------------------------------------------------------------------------------


class AtIndexer:
    """`x.at`; index it to say where: `x.at[2:4].set(0.0)`."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> AtReference:
        return AtReference(self.array, index)

    @override
    def __repr__(self) -> str:
        return f"AtIndexer({self.array!r})"


class AtReference:
    """`x.at[index]`: methods that return a changed copy of `x`.

    In addition to its values each method takes:

    - `indices_are_sorted` and `unique_indices`: promises that may make it faster.
    - `mode`: 'drop', the default, skips positions outside the array. 'clip' moves them to the nearest inside. 'wrap'
      takes them modulo the length of the axis. 'promise_in_bounds' is a promise that there are none.
    - `wrap_negative_indices`: whether -1 is the last position.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any) -> None:
        self.array = array
        self.index = index

    @override
    def __repr__(self) -> str:
        return f"AtReference({self.array!r}, {self.index!r})"

    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
            fill_value: Any = None, wrap_negative_indices: bool = True, out_sharding: Sharding = None) -> Any:
        """`x[index]` with choices: mode 'fill' reads `fill_value` outside the array, 'clip' (the default) the nearest.

        `out_sharding` is the sharding of the result over `Explicit` axes of a mesh.

        >>> from lamina_numpy import arange
        >>> arange(3.).at[7].get(mode="fill", fill_value=-1)
        Array(-1., dtype=float32)
        """
        flags = (bool(indices_are_sorted), bool(unique_indices))
        if out_sharding is not None:
            check_out_sharding("x.at[index].get", out_sharding)
        return take_index(self.array, self.index, mode, fill_value, flags, wrap_negative_indices, out_sharding)

    def apply(self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False, unique_indices: bool = False,
              mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] = func(x[index])`, functionally; `func` keeps shape and dtype. A position named twice is done twice,
        one after the other, unless `unique_indices` promises that there is none."""
        if not callable(func):
            raise TypeError(f"x.at[index].apply(func): func must be a function; got {type(func).__name__}: {func!r:.60}")
        x, index = self.array, self.index
        if mode is None and config.debug_bounds.ever_enabled and is_check_enabled():
            check_bounds("x.at[...].apply", index, x.shape, wrap_negative_indices)
        if mode == "wrap":
            index, mode = wrap_index(index, x.shape), "clip"
        how = parse_mode("apply", mode)
        plan, positions = parse(index, x.shape, how is not FILL, wrap_negative_indices)
        flags = (bool(indices_are_sorted), bool(unique_indices))

        def read_elements(x: Any) -> Any:
            return read(plan, GatherScatterMode.CLIP, None, flags, wrap_negative_indices, x, *positions)

        # Positions named more than once: how often each element is, counted by adding ones; then all of them write one value.
        old = read_elements(x)
        if unique_indices or not may_repeat(plan, positions):
            new = func(old)
        else:
            counts, ones = lax.full(x.shape, 0, "int32"), lax.full(typeof(old).shape, 1, "int32")
            times = read_elements(change("add", plan, how, flags, wrap_negative_indices, counts, ones, *positions))
            most = math.prod(lax.broadcast_shapes(*[typeof(p).shape for p in positions]))
            new = repeat_elementwise(lambda v: lax.convert_element_type(func(v), typeof(v).dtype), old, times, most)
        return change("set", plan, how, flags, wrap_negative_indices, x, new, *positions)

    def divide(self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
               mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] /= values`, functionally; integers become floats."""
        return self.array / self._make_factors("divide", values, indices_are_sorted, unique_indices, mode,
                                               wrap_negative_indices)

    def power(self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
              mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] **= values`, functionally."""
        return self.array ** self._make_factors("power", values, indices_are_sorted, unique_indices, mode,
                                                wrap_negative_indices)

    def _make_factors(self, method: str, values: ArrayLike, sorted_: bool, unique: bool, mode: Any, wrap: bool) -> Any:
        """Return an array like `x` with `values` at the index and ones elsewhere."""
        ones = _ones_like(self.array)
        return _rename_call(method, "multiply", ones, self.index, _to_values(method, values), sorted_, unique, mode,
                            wrap)

    def subtract(self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
                 mode: Any = None, wrap_negative_indices: bool = True) -> Any:
        """`x[index] -= values`, functionally; positions named twice are lowered twice."""
        change: Any = _to_values("subtract", values)
        return _rename_call("subtract", "add", self.array, self.index, -change, indices_are_sorted, unique_indices,
                            mode,
                            wrap_negative_indices)


def _ones_like(x: Any) -> Any:
    aval = typeof(x)
    one = np.ones((), aval.dtype)[()]
    return lax.broadcast_in_dim(one, aval.shape, ())


def _make_method(verb: str, says: str, example: str) -> Callable[..., Any]:
    # The commonest change, one known position inside the array, skips the parsing of general indices.
    points: dict[int, Any] = {}

    def point(ndim: int) -> Callable[..., Any]:
        plan = Plan(((POINT,), *[(FULL,)] * (ndim - 1)), True, True, False)
        made = points[ndim] = compile_plan((verb, plan, FILL, (False, False), True), change, verb)
        return made

    def method(self: AtReference, values: ArrayLike, *, indices_are_sorted: bool = False,
               unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
               out_sharding: Sharding = None) -> Any:
        x, index = self.array, self.index
        if out_sharding is not None:
            check_out_sharding(f"x.at[index].{verb}", out_sharding)
        elif type(index) is int and mode is None and type(values) is not list and type(values) is not tuple \
                and not isinstance(x, Tracer) and not isinstance(values, Tracer):
            shape = x.shape
            if shape and 0 <= index < shape[0]:
                try:
                    return (points.get(len(shape)) or point(len(shape)))(x, values, index)
                except TypeError:
                    _to_values(verb, values)
                    raise
        return _change(verb, x, index, values, indices_are_sorted, unique_indices, mode, wrap_negative_indices, out_sharding)

    method.__name__ = verb
    method.__qualname__ = f"AtReference.{verb}"
    method.__doc__ = f"""{says}

        >>> from lamina_numpy import array
        >>> {example}
        """
    return method


for _verb, _says, _example in (
        ("set", "`x[index] = values`, functionally. Of positions named twice some value stays.",
         "array([1., 2., 3.]).at[1].set(9)\n        Array([1., 9., 3.], dtype=float32)"),
        ("add", "`x[index] += values`, functionally; positions named twice are raised twice.",
         "array([1., 2., 3.]).at[array([0, 0])].add(1)\n        Array([3., 2., 3.], dtype=float32)"),
        ("multiply", "`x[index] *= values`, functionally; positions named twice are multiplied twice.",
         "array([1., 2., 3.]).at[1:].multiply(2)\n        Array([1., 4., 6.], dtype=float32)"),
        ("min", "`x[index] = minimum(x[index], values)`, functionally.",
         "array([1., 2., 3.]).at[:].min(2)\n        Array([1., 2., 2.], dtype=float32)"),
        ("max", "`x[index] = maximum(x[index], values)`, functionally.",
         "array([1., 2., 3.]).at[:].max(2)\n        Array([2., 2., 3.], dtype=float32)")):
    setattr(AtReference, _verb, _make_method(_verb, _says, _example))
AtReference.mul = AtReference.multiply  # type: ignore[attr-defined]
at = property(AtIndexer, doc="Changed copies: `x.at[index].set(values)`, `.add`, `.multiply`, `.min`, `.max`, ...")
