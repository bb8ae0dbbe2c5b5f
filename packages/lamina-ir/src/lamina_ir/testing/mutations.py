"""Random changes to the params and operand types of sample programs, for tests of `check` and of what it accepts."""
from __future__ import annotations

import enum
import random

from .. import prims
from .._core.jaxpr import ClosedJaxpr, Jaxpr
from .._types import dtypes
from .._types.avals import ShapedArray, aval_of, shaped
from ..prims import FftType, GatherScatterMode, HostFunction, Precision, RandomAlgorithm
from ..typing import ParamValue, Params
from .samples import Sample

__all__ = ["bound_loops", "change_leaf", "change_operands_and_params", "change_type"]

F32, C64, BOOL = map(dtypes.as_dtype, ("float32", "complex64", "bool"))
DTYPES = ["float32", "int32", "bool", "complex64", "uint8", "bfloat16", "float16", "float64", "int4"]
_HIGH = Precision.HIGH
VALUES = [0, 1, -1, 2, 3, 7, -5, 2**31, -2**31, 2**40, 2**62, 2**63, 0.5, float("nan"), float("inf"), 1 + 2j, True, False, None,
          "x", "le", "cpu", "highest", (), (0,), (1,), (4,), (-1,), (True,), (None,), ("a",), (0, 1), (1, 0), (0, 0), ((0, 0),),
          [0], {}, {"a": 1}, frozenset([1]), F32, C64, BOOL, _HIGH, (_HIGH,), (_HIGH,) * 2, (_HIGH,) * 3, FftType.RFFT,
          GatherScatterMode.CLIP, RandomAlgorithm.RNG_PHILOX, HostFunction("unknown")]


def change_leaf(v: ParamValue, rng: random.Random) -> ParamValue:
    """Return a param's value with one leaf changed; the length of a sequence may change."""
    fields = getattr(v, "_fields", None) or getattr(v, "__dataclass_fields__", None)
    if fields and not isinstance(v, type) and rng.random() < 0.9:
        values = {name: getattr(v, name) for name in fields}
        name = rng.choice(list(values))
        values[name] = change_leaf(values[name], rng)
        try:
            return type(v)(**values)
        except (TypeError, ValueError):
            return v
    if isinstance(v, (tuple, list)) and v and rng.random() < 0.8:
        items = list(v)
        i = rng.randrange(len(items))
        items[i:i + 1] = rng.choice([[change_leaf(items[i], rng)], [change_leaf(items[i], rng)], [], [items[i]] * 2])
        return tuple(items)
    if isinstance(v, enum.Enum) and rng.random() < 0.6:
        return rng.choice([*type(v), *(getattr(m, "value", 0) for m in type(v))])
    if type(v) is int and rng.random() < 0.7:
        return v + rng.choice([1, -1, 2, -2, -v, 5])
    if hasattr(v, "itemsize") and rng.random() < 0.8:
        return dtypes.as_dtype(rng.choice(DTYPES))
    return rng.choice(VALUES)


def change_type(a: ShapedArray, rng: random.Random) -> ShapedArray:
    """Return a type of another dtype, length or number of axes."""
    shape = list(a.shape)
    i, kind = rng.randrange(len(shape) + 1), rng.randrange(4)
    if kind == 0:
        return shaped(a.shape, dtypes.as_dtype(rng.choice(DTYPES)))
    if kind == 1 and i < len(shape):
        shape[i] = rng.choice([0, 1, 2, 5])
    else:
        shape[i:i + (kind == 2)] = [] if kind == 2 else [rng.choice([0, 1, 2])]
    return shaped(tuple(shape), a.dtype)


def change_operands_and_params(sample: Sample, rng: random.Random) -> tuple[list[ShapedArray], Params]:
    """Return the operand types and the params of a sample with one or two changes."""
    avals, params = [aval_of(a) for a in sample.args], dict(sample.params)
    for _ in range(rng.choice([1, 1, 2])):
        kind = rng.random()
        if params and kind < 0.6:
            name = rng.choice(list(params))
            params[name] = change_leaf(params[name], rng)
        elif avals:
            i = rng.randrange(len(avals))
            avals[i:i + 1] = [change_type(avals[i], rng)] if kind < 0.9 else rng.choice([[], [avals[i]] * 2])
    return avals, params


def bound_loops(program: ClosedJaxpr) -> ClosedJaxpr:
    """Bound the `while` loops, which a change may have made endless, at 9 iterations."""
    eqns = []
    for e in program.eqns:
        params = {name: _bound_programs(v) for name, v in e.params.items()}
        if e.primitive is prims.while_p:
            params["max_iters"] = 9 if params["max_iters"] is None else min(params["max_iters"], 9)
        eqns.append(e.replace(params=params))
    jaxpr = program.jaxpr
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), program.consts)


def _bound_programs(v: ParamValue) -> ParamValue:
    if isinstance(v, ClosedJaxpr):
        return bound_loops(v)
    return tuple(map(_bound_programs, v)) if type(v) is tuple else v
