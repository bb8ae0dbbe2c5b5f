"""The default evaluator: ops and programs by the NumPy meanings of `lamina_ir`, on `HostArray`s."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Primitive, ShapedArray, aval_of, config, evaluate, evaluate_primitive, shaped
from lamina_ir.extend import lean, ready, settled

from .host_array import HostArray, know, taken, typed

__all__ = ["NumPyEvaluator"]


def _memory_of_others(args: Sequence[Any]) -> list[np.ndarray]:
    """The arrays among arguments that the caller may write to later."""
    return [a for a in args if isinstance(a, np.ndarray) and not isinstance(a, HostArray)]


def _apart(value: np.ndarray, given: Sequence[np.ndarray]) -> np.ndarray:
    """A result in memory of its own: reshapes, slices and identities are views of their operand in NumPy."""
    # arrays without elements share no memory, but the very array would be frozen in its owner's hands
    if any(value is a or value.base is not None and np.may_share_memory(value, a) for a in given):
        return np.array(value)
    return value


def _number(x: Any) -> tuple[ShapedArray, np.ndarray]:
    """The type and the plain array of a number; TypeError for what else there is."""
    if type(x) is float and _x64.everywhere:
        return _FLOAT, np.asarray(x)
    if type(x) in _NUMBERS:
        aval = aval_of(x)
        return aval, np.asarray(x, aval.dtype)
    raise TypeError


_NUMBERS = frozenset((float, int, bool, np.float32, np.float64, np.int32))
_x64 = config.enable_x64
_FLOAT = shaped((), "float64", True)


def _narrow(x: Any, aval: ShapedArray, plain: np.ndarray) -> tuple[ShapedArray, np.ndarray]:
    """The type and the plain array of an operand where wide arrays may count as narrow ones."""
    return typed(x) if type(x) is HostArray else (aval, plain)


class NumPyEvaluator:
    """The default evaluator: the NumPy meanings of `lamina_ir`."""

    def primitive(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        # Most ops take one or two arrays of ours or numbers and nothing else. Without the lists of the general way they cost a
        # third less; `typed` and `taken` are written out.
        if params or prim.may_read_axes or prim.multiple:
            return self._primitive(prim, args, params)
        try:
            if len(args) == 2:
                a, b = args
                x, plain = a._known if type(a) is HostArray else _number(a)
                y, beside = b._known if type(b) is HostArray else _number(b)
                if not _x64.everywhere:
                    if x.dtype.itemsize > 4:
                        x, plain = _narrow(a, x, plain)
                    if y.dtype.itemsize > 4:
                        y, beside = _narrow(b, y, beside)
            else:
                a, = args
                x, plain = a._known if type(a) is HostArray else _number(a)
                if x.dtype.itemsize > 4 and not _x64.everywhere:
                    x, plain = _narrow(a, x, plain)
        except (AttributeError, TypeError, ValueError):  # three operands, or other ones
            return self._primitive(prim, args, params)
        if len(args) == 2:
            out = prim.infer(x, y)
            value = prim.numpy(plain, beside)
        else:
            out = prim.infer(x)
            value = prim.numpy(plain)
        if type(value) is not np.ndarray or value.dtype is not out.dtype or value.shape != out.shape:
            value = settled(value, out, prim)
        if out.weak_type or type(out) is not ShapedArray:
            return taken(value, out)
        value.setflags(False)
        ours = value.view(HostArray)
        know(ours, (out, value))
        return ours

    def _primitive(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        avals: list[ShapedArray] = []
        arrays: list[np.ndarray] = []
        given: list[np.ndarray] = []  # those of the caller's, who may write to them later
        for a in args:
            if type(a) is HostArray:
                aval, array = typed(a)
            else:
                aval = aval_of(a)
                array = np.asarray(a, aval.dtype)
                if isinstance(a, np.ndarray) and not isinstance(a, HostArray):
                    given.append(array)
            avals.append(aval)
            arrays.append(array)
        out = prim.infer(*avals, **params)
        values = prim.numpy(*arrays, **params) if not prim.may_read_axes else evaluate_primitive(prim, args, params)
        if prim.multiple:
            return tuple([taken(_apart(settled(v, a, prim), given), a) for v, a in zip(values, out)])
        value = settled(values, out, prim)
        return taken(_apart(value, given) if given else value, out)

    def program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        closed = lean(closed)
        arrays: list[Any] = []
        given = _memory_of_others(closed.consts) if closed.consts else []
        for a in args:
            if type(a) is HostArray:
                a = typed(a)[1]
            elif isinstance(a, np.ndarray):
                given.append(a)
            arrays.append(a)
        values = evaluate(closed, *arrays)
        outs = closed.jaxpr.outvars
        if not given:
            return [taken(x, v.aval) for x, v in zip(values, outs)]
        return [taken(_apart(x, given), v.aval) for x, v in zip(values, outs)]

    def prepared(self, closed: ClosedJaxpr) -> Callable[[Sequence[Any]], list[HostArray]]:
        """`program` of a program that is called again and again: a function of arguments of exactly its types."""
        run, dtypes = ready(closed), [v.aval.dtype for v in closed.jaxpr.invars]
        outs = [v.aval for v in closed.jaxpr.outvars]
        others, one = _memory_of_others(closed.consts), outs[0] if len(outs) == 1 else None

        def call(args: Sequence[Any]) -> list[HostArray]:
            arrays: list[Any] = []
            given = others
            for a, dtype in zip(args, dtypes):
                if type(a) is HostArray:
                    try:
                        array = a._known[1]
                        if array.dtype is not dtype:
                            array = typed(a)[1]
                    except AttributeError:
                        array = typed(a)[1]
                else:
                    array = np.asarray(a, dtype)
                    if array is a:
                        given = [*given, array]
                arrays.append(array)
            values = run(arrays)
            if not given:
                if one is not None:  # without a comprehension, which is a call
                    return [taken(values[0], one)]
                return [taken(x, aval) for x, aval in zip(values, outs)]
            return [taken(_apart(x, given), aval) for x, aval in zip(values, outs)]

        return call

    def array(self, value: np.ndarray, aval: ShapedArray) -> Any:
        return HostArray.of(np.array(value, aval.dtype), aval)
