"""Sample inputs per primitive: one sample per use that is worth testing, shared by the tests of all packages.

A sample is declared by `sample(prim, *specs, **params)`. A spec such as `floats(2, 3)` creates a seeded array; arrays
are used as they are. A spec without a shape has rank 0. The declarations are in `samples/<family>.py`; `samples` loads
them all.
"""
from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._types import dtypes
from .._types.avals import aval_of
from .._evaluate.evaluator import evaluate_primitive
from .._core.primitive import Primitive
from ..typing import Function, ParamValue, Params, Value

__all__ = ["Sample", "Spec", "away", "bools", "canonicalize_results", "complexes", "distinct", "floats", "ints",
           "positives", "register_canonicalizer", "sample", "samples_of", "small_ints", "uints", "unit"]

_samples: dict[Primitive, list[Sample]] = {}


class Sample(NamedTuple):
    """One use of a primitive: `prim(*args, **params)`."""

    prim: Primitive
    args: tuple[Value, ...]
    params: Params

    @property
    def id(self) -> str:
        """A name for test reports: `add-float32[3]-float32[]`."""
        types = "-".join(f"{a.dtype.name}[{','.join(map(str, a.shape))}]" for a in self.args)
        return f"{self.prim.name}-{types}" if types else self.prim.name

    @property
    def differentiable(self) -> bool:
        """Whether some operand and some result is a float or complex number."""
        out = self.prim.infer(*map(aval_of, self.args), **self.params)
        outs = out if self.prim.multiple else (out,)
        return any(dtypes.is_inexact(a.dtype) for a in self.args) and any(dtypes.is_inexact(o.dtype) for o in outs)


class Spec(NamedTuple):
    """A seeded array: `draw(rng, shape)` cast to `dtype`."""

    draw: Callable[[np.random.Generator, tuple[int, ...]], Any]
    shape: tuple[int, ...]
    dtype: np.dtype

    def make(self, seed: int) -> np.ndarray:
        """Create the array for a seed; equal seeds give equal arrays."""
        return np.asarray(self.draw(np.random.default_rng(seed), self.shape)).astype(self.dtype)


def _spec(default: str, draw: Function) -> Callable[..., Spec]:
    def spec(*shape: int, dtype: Any = default) -> Spec:
        return Spec(draw, shape, dtypes.as_dtype(dtype))
    return spec


def _distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    n = int(np.prod(shape, dtype=int))
    return rng.permutation(np.linspace(-2.0, 2.0, n)).reshape(shape) if n else np.zeros(shape)


floats = _spec("float32", lambda rng, s: rng.normal(size=s))
positives = _spec("float32", lambda rng, s: rng.uniform(0.3, 3.0, size=s))
unit = _spec("float32", lambda rng, s: rng.uniform(-0.9, 0.9, size=s))
away = _spec("float32", lambda rng, s: rng.uniform(0.3, 2.0, size=s) * rng.choice([-1.0, 1.0], size=s))
distinct = _spec("float32", _distinct)
complexes = _spec("complex64", lambda rng, s: rng.normal(size=s) + 1j * rng.normal(size=s))
ints = _spec("int32", lambda rng, s: rng.integers(-40, 40, size=s))
small_ints = _spec("int32", lambda rng, s: rng.integers(1, 8, size=s))
uints = _spec("uint32", lambda rng, s: rng.integers(0, 120, size=s))
bools = _spec("bool", lambda rng, s: rng.integers(0, 2, size=s) == 1)

for _name, _doc in (
        ("floats", "normal numbers"), ("positives", "numbers in (0.3, 3)"), ("unit", "numbers in (-0.9, 0.9)"),
        ("away", "numbers of either sign, at least 0.3 away from 0"),
        ("distinct", "well separated numbers in [-2, 2], shuffled: no ties for sorting and maxima"),
        ("complexes", "complex numbers, both parts normal"), ("ints", "integers in [-40, 40)"),
        ("small_ints", "integers in [1, 8)"), ("uints", "unsigned integers in [0, 120)"), ("bools", "truth values")):
    globals()[_name].__name__ = _name
    globals()[_name].__doc__ = f"Spec of an array of {_doc}; sizes as positional arguments, none for rank 0."


def sample(prim: Primitive, /, *specs: Any, **params: ParamValue) -> Sample:
    """Declare a sample of `prim`.

    Args:
      prim: the primitive.
      *specs: one per operand: a `Spec` or an array.
      **params: the primitive's params.
    """
    declared = _samples.setdefault(prim, [])
    seed = zlib.crc32(prim.name.encode()) + 100 * len(declared)
    args = tuple(s.make(seed + i) if type(s) is Spec else np.asarray(s) for i, s in enumerate(specs))
    new = Sample(prim, args, params)
    declared.append(new)
    return new


def samples_of(prim: Primitive) -> list[Sample]:
    """List the samples of `prim`."""
    return list(_samples.get(prim, ()))


_determined: dict[Primitive, Callable[..., Any]] = {}


def register_canonicalizer(prim: Primitive, fun: Function) -> None:
    """Register how to compare results of a primitive that are not unique, such as the signs of eigenvectors.

    Args:
      prim: the primitive.
      fun: `fun(bind, *results)` returns arrays that are the same for all correct results; `bind(prim, *args, **params)`
        runs a primitive.
    """
    _determined[prim] = fun


def canonicalize_results(prim: Primitive, results: Any, bind: Function | None = None) -> list[Any]:
    """Convert results of `prim` to arrays on which all correct implementations agree; for most primitives the results.

    Args:
      prim: the primitive.
      results: all its results; arrays, or tracers with the `bind` that takes them.
      bind: runs a primitive; None for the NumPy evaluation.
    """
    fun = _determined.get(prim)
    if fun is None:
        return list(results)
    return fun(bind or (lambda op, *args, **params: evaluate_primitive(op, args, params)), *results)
