"""The default evaluator: ops and programs by the NumPy meanings of `lamina_ir`, on `HostArray`s."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, Primitive, ShapedArray, aval_of, evaluate, evaluate_primitive
from lamina_ir.extend import settled

from .host_array import HostArray, typed

__all__ = ["NumPyEvaluator"]


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
        avals: list[ShapedArray] = []
        arrays: list[np.ndarray] = []
        given: list[np.ndarray] = []
        for a in args:
            if type(a) is HostArray:
                aval, array = typed(a)
            else:
                aval = aval_of(a)
                array = np.asarray(a, aval.dtype)
                if isinstance(a, np.ndarray):
                    given.append(array)
            avals.append(aval)
            arrays.append(array)
        out = prim.infer(*avals, **params)
        values = prim.numpy(*arrays, **params) if not prim.may_read_axes else evaluate_primitive(prim, args, params)
        if prim.multiple:
            return tuple([HostArray.of(_apart(settled(v, a, prim), given), a) for v, a in zip(values, out)])
        value = settled(values, out, prim)
        return HostArray.of(_apart(value, given) if given else value, out)

    def program(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        values = evaluate(closed, *args)
        given = _memory_of_others((*args, *closed.consts))
        return [HostArray.of(_apart(v, given), a) for v, a in zip(values, closed.out_avals)]

    def array(self, value: np.ndarray, aval: ShapedArray) -> Any:
        return HostArray.of(np.array(value, aval.dtype), aval)
