"""Parts of a random sample of a primitive: structure is drawn by hypothesis, so that it shrinks; values are seeded."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, LaminaError, Primitive, Var, aval_of, dtypes, prims, shaped
from lamina_ir.prims import highest, lowest
from lamina_ir.testing.samples import Sample

__all__ = ["NARROW", "WIDE", "Draw", "accepted", "combination", "kind_of", "redtype", "widened"]

NARROW = {"f": ("float16", "bfloat16", "float32", "float64"), "c": ("complex64", "complex128"),
          "i": ("int8", "int16", "int32", "int64"), "u": ("uint8", "uint16", "uint32", "uint64"), "b": ("bool",)}
WIDE = {**NARROW, "f": ("float64",), "c": ("complex128",)}


def kind_of(d: np.dtype) -> str:
    """Return the kind of a dtype, one of `fciub`."""
    return ("f" if dtypes.is_float(d) else "c" if dtypes.is_complex(d) else "b" if dtypes.is_bool(d) else
            "u" if d.kind == "u" or d.name.startswith("uint") else "i")


class Draw:
    """Short names for drawing structure."""

    def __init__(self, draw: Callable[..., Any], wide: bool) -> None:
        self.draw = draw
        self.kinds = WIDE if wide else NARROW
        self.rng = np.random.default_rng(draw(st.integers(0, 2**16)))

    def int(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flag(self) -> bool:
        return self.draw(st.booleans())

    def pick(self, values: Sequence[Any]) -> Any:
        return values[self.int(0, len(values) - 1)]

    def shape(self, low: int = 0, high: int = 3, empty: bool = True) -> tuple[int, ...]:
        lengths = st.sampled_from((2, 3, 1, 4, 0) if empty else (2, 3, 1, 4))
        return tuple(self.draw(st.lists(lengths, min_size=low, max_size=high)))

    def axes(self, n: int, low: int = 0) -> tuple[int, ...]:
        """Return some of `range(n)`, in any order."""
        order = self.draw(st.permutations(range(n)))
        return tuple(order[:self.int(min(low, n), n)])

    def dtype(self, kinds: str) -> np.dtype:
        return dtypes.as_dtype(self.pick([name for k in kinds for name in self.kinds[k]]))

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return numbers away from zero, of both signs if the dtype has them."""
        kind = kind_of(dtype)
        if kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape) == 1)
        if kind in "iu":
            return np.asarray(self.rng.integers(1 if kind == "u" else -6, 7, shape)).astype(dtype)
        size = self.rng.uniform(0.3, 2.0, shape) * self.rng.choice([-1.0, 1.0], shape)
        return np.asarray(size + 1j * self.rng.normal(size=shape) if kind == "c" else size).astype(dtype)

    def distinct(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return well separated numbers."""
        if kind_of(dtype) in "bc":
            return self.array(shape, dtype)
        n = int(np.prod(shape, dtype=int))
        start = 0 if kind_of(dtype) == "u" else -(n // 2)
        return np.asarray(self.rng.permutation(n) + start).reshape(shape).astype(dtype)

    def like(self, values: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return values picked from `values`."""
        flat = values.reshape(-1)
        with np.errstate(over="ignore"):
            return np.asarray(flat[self.rng.integers(0, flat.size, shape)]).reshape(shape).astype(dtype)


def accepted(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether the type rule accepts these operands."""
    try:
        prim.infer(*map(aval_of, args), **params)
    except (LaminaError, TypeError, ValueError):
        return False
    return True


def redtype(d: Draw, sample: Sample) -> Sample:
    """Return the sample in other dtypes of the same kinds, if its type rule accepts them."""
    new = {a.dtype: d.dtype(kind_of(a.dtype)) for a in sample.args}
    with np.errstate(over="ignore"):
        args = tuple(np.asarray(a).astype(new[a.dtype]) for a in sample.args)
    return Sample(sample.prim, args, sample.params) if accepted(sample.prim, args, sample.params) else sample


PAIRS = {"f": ("add", "mul", "max", "min"), "c": ("add", "mul"), "b": ("and", "or", "xor"),
         "i": ("add", "mul", "max", "min", "and", "or", "xor"), "u": ("add", "mul", "max", "min", "and", "or", "xor")}


def neutral(op: str, dtype: np.dtype) -> np.ndarray:
    """Return the neutral element of `op`."""
    if op == "and":
        return np.asarray(True if kind_of(dtype) == "b" else ~np.zeros((), dtype))
    known = {"mul": lambda d: 1, "max": lowest, "min": highest}
    return np.asarray(known.get(op, lambda d: 0)(dtype)).astype(dtype)


def combination(d: Draw, kinds: Sequence[np.dtype]) -> tuple[ClosedJaxpr, list[np.ndarray]]:
    """Return an associative, commutative program that combines scalars of these dtypes with others, and its neutral scalars.

    Each operand is combined separately; or, for two real ones, the result is the larger pair in lexicographic order.
    """
    types = [shaped((), k) for k in kinds]
    left, right, outs = ([Var(t) for t in types] for _ in range(3))
    if len(kinds) == 2 and not any(kind_of(k) in "cb" for k in kinds) and d.flag():
        ops = ["max", "max"]
        (a, i), (b, j) = left, right
        more, less = (Var(shaped((), dtypes.BOOL)) for _ in range(2))
        best, rest = (Var(types[1]) for _ in range(2))
        eqns = [Eqn(prims.max_p, [a, b], [outs[0]], {}), Eqn(prims.gt_p, [a, b], [more], {}),
                Eqn(prims.lt_p, [a, b], [less], {}), Eqn(prims.max_p, [i, j], [best], {}),
                Eqn(prims.select_p, [less, j, best], [rest], {}), Eqn(prims.select_p, [more, i, rest], [outs[1]], {})]
    else:
        ops = [d.pick(PAIRS[kind_of(k)]) for k in kinds]
        eqns = [Eqn(prims.get_primitive(op), [a, b], [o], {}) for op, a, b, o in zip(ops, left, right, outs)]
    return ClosedJaxpr(Jaxpr([], [*left, *right], eqns, outs)), list(map(neutral, ops, kinds))


def widened(d: Draw, sample: Sample) -> Sample:
    if d.kinds is not WIDE or sample.prim.subprograms or sample.prim.family == "callbacks":
        return sample
    up = {"float32": "float64", "complex64": "complex128"}
    args = tuple(np.asarray(a).astype(up.get(a.dtype.name, a.dtype)) for a in sample.args)
    return Sample(sample.prim, args, sample.params) if accepted(sample.prim, args, sample.params) else sample
