"""Default evaluator: runs primitives and programs with the NumPy implementations of `lamina_ir`, on `HostArray`s."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from lamina_ir import ClosedJaxpr, Primitive, ShapedArray, aval_of, config, evaluate, evaluate_primitive, shaped
from lamina_ir.extend import simplify_for_numpy, make_evaluator, cast_result
from lamina_ir.typing import Params, Value

from .._core.host_array import HostArray, set_known, wrap_ndarray, get_aval_and_ndarray
from .._typing import Outputs

__all__ = ["NumPyEvaluator"]


def _caller_arrays(args: Sequence[Value]) -> list[np.ndarray]:
    """Return the plain NumPy arrays among arguments: the caller may write to them later."""
    return [a for a in args if isinstance(a, np.ndarray) and not isinstance(a, HostArray)]


def _unshare(value: np.ndarray, caller_arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Copy a result that shares memory with the caller's arrays: NumPy returns views from reshapes and slices."""
    # An empty array shares no memory, so identity is tested too: wrapping would make the caller's own array read-only.
    if any(value is a or value.base is not None and np.may_share_memory(value, a) for a in caller_arrays):
        return np.array(value)
    return value


def _scalar(x: Value) -> tuple[ShapedArray, np.ndarray]:
    """Return the type and the plain array of a number; TypeError for any other value."""
    if type(x) is float and _x64.enabled_in_all_threads:
        return _WEAK_FLOAT64, np.asarray(x)
    if type(x) in _NUMBERS:
        aval = aval_of(x)
        return aval, np.asarray(x, aval.dtype)
    raise TypeError


_NUMBERS = frozenset((float, int, bool, np.float32, np.float64, np.int32))
_x64 = config.enable_x64
_WEAK_FLOAT64 = shaped((), "float64", True)


def _narrow(x: Value, aval: ShapedArray, plain: np.ndarray) -> tuple[ShapedArray, np.ndarray]:
    """Return the type and the plain array of an operand if 64-bit arrays may have to be treated as 32-bit ones."""
    return get_aval_and_ndarray(x) if type(x) is HostArray else (aval, plain)


class NumPyEvaluator:
    """Default evaluator: runs the NumPy implementations of `lamina_ir`."""

    def primitive(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        # Fast path: most primitives take one or two HostArrays or numbers, and no params. Without the lists of the
        # general path they cost a third less. `get_aval_and_ndarray` and `wrap_ndarray` are inlined for the same
        # reason.
        if params or prim.may_read_axes or prim.multiple:
            return self._primitive(prim, args, params)
        try:
            if len(args) == 2:
                a, b = args
                x, x_array = a._aval_and_ndarray if type(a) is HostArray else _scalar(a)
                y, y_array = b._aval_and_ndarray if type(b) is HostArray else _scalar(b)
                if not _x64.enabled_in_all_threads:
                    if x.dtype.itemsize > 4:
                        x, x_array = _narrow(a, x, x_array)
                    if y.dtype.itemsize > 4:
                        y, y_array = _narrow(b, y, y_array)
            else:
                a, = args
                x, x_array = a._aval_and_ndarray if type(a) is HostArray else _scalar(a)
                if x.dtype.itemsize > 4 and not _x64.enabled_in_all_threads:
                    x, x_array = _narrow(a, x, x_array)
        except (AttributeError, TypeError, ValueError):  # three operands, or operands of another kind
            return self._primitive(prim, args, params)
        if len(args) == 2:
            out = prim.infer(x, y)
            value = prim.numpy(x_array, y_array)
        else:
            out = prim.infer(x)
            value = prim.numpy(x_array)
        if type(value) is not np.ndarray or value.dtype is not out.dtype or value.shape != out.shape:
            value = cast_result(value, out, prim)
        # Weak types and varying axes need the general wrapper.
        if out.weak_type or type(out) is not ShapedArray:
            return wrap_ndarray(value, out)
        value.setflags(False)
        result = value.view(HostArray)
        set_known(result, (out, value))
        return result

    def _primitive(self, prim: Primitive, args: Sequence[Value], params: Params) -> Outputs:
        avals: list[ShapedArray] = []
        arrays: list[np.ndarray] = []
        caller_arrays: list[np.ndarray] = []  # the caller may write to them later
        for a in args:
            if type(a) is HostArray:
                aval, array = get_aval_and_ndarray(a)
            else:
                aval = aval_of(a)
                array = np.asarray(a, aval.dtype)
                if isinstance(a, np.ndarray) and not isinstance(a, HostArray):
                    caller_arrays.append(array)
            avals.append(aval)
            arrays.append(array)
        out = prim.infer(*avals, **params)
        # Collectives and programs get the evaluator or axis environment as an argument.
        values = prim.numpy(*arrays, **params) if not prim.may_read_axes else evaluate_primitive(prim, args, params)
        if prim.multiple:
            return tuple([wrap_ndarray(_unshare(cast_result(v, a, prim), caller_arrays), a) for v, a in zip(values, out)])
        value = cast_result(values, out, prim)
        return wrap_ndarray(_unshare(value, caller_arrays) if caller_arrays else value, out)

    def program(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        closed = simplify_for_numpy(closed)
        arrays: list[Value] = []
        caller_arrays = _caller_arrays(closed.consts) if closed.consts else []
        for a in args:
            if type(a) is HostArray:
                a = get_aval_and_ndarray(a)[1]
            elif isinstance(a, np.ndarray):
                caller_arrays.append(a)
            arrays.append(a)
        values = evaluate(closed, *arrays)
        outs = closed.jaxpr.outvars
        if not caller_arrays:
            return [wrap_ndarray(x, v.aval) for x, v in zip(values, outs)]
        return [wrap_ndarray(_unshare(x, caller_arrays), v.aval) for x, v in zip(values, outs)]

    def prepare(self, closed: ClosedJaxpr) -> Callable[[Sequence[Value]], list[HostArray]]:
        """Prepare a program for repeated calls: return a function of arguments of exactly its types."""
        run, dtypes = make_evaluator(closed), [v.aval.dtype for v in closed.jaxpr.invars]
        outs = [v.aval for v in closed.jaxpr.outvars]
        const_arrays, single = _caller_arrays(closed.consts), outs[0] if len(outs) == 1 else None

        def call(args: Sequence[Value]) -> list[HostArray]:
            arrays: list[Value] = []
            # A new list if it grows: `const_arrays` is shared by all calls.
            caller_arrays = const_arrays
            for a, dtype in zip(args, dtypes):
                if type(a) is HostArray:
                    try:
                        array = a._aval_and_ndarray[1]
                        # An array from a time when 64-bit types were enabled.
                        if array.dtype is not dtype:
                            array = get_aval_and_ndarray(a)[1]
                    except AttributeError:
                        array = get_aval_and_ndarray(a)[1]
                else:
                    array = np.asarray(a, dtype)
                    if array is a:
                        caller_arrays = [*caller_arrays, array]
                arrays.append(array)
            values = run(arrays)
            if not caller_arrays:
                if single is not None:  # no comprehension: before Python 3.12 it costs a function call
                    return [wrap_ndarray(values[0], single)]
                return [wrap_ndarray(x, aval) for x, aval in zip(values, outs)]
            return [wrap_ndarray(_unshare(x, caller_arrays), aval) for x, aval in zip(values, outs)]

        return call

    def array(self, value: np.ndarray, aval: ShapedArray) -> HostArray:
        return HostArray.of(np.array(value, aval.dtype), aval)
