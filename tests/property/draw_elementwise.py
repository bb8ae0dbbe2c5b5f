"""Random samples of elementwise primitives, special functions and random bits."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
from drawing import NARROW, Draw, accepted, kind_of
from lamina_ir import Primitive, prims
from lamina_ir.prims import RandomAlgorithm
from lamina_ir.testing.samples import Sample, samples_of

__all__ = ["FAMILY"]


def bitcast(d: Draw) -> Sample:
    old, new = d.dtype("fiu"), d.dtype("fiu")
    more = (new.itemsize // old.itemsize,) if new.itemsize > old.itemsize else ()
    return Sample(prims.bitcast_convert_type_p, (d.array((*d.shape(), *more), old),), {"new_dtype": new})


def elementwise(d: Draw, prim: Primitive) -> Sample:
    sample = d.pick([r for r in samples_of(prim) if all(a.size for a in r.args)])
    if prim is prims.bitcast_convert_type_p:
        return bitcast(d)
    new = {a.dtype: d.dtype(kind_of(a.dtype)) for a in sample.args}
    shape = d.shape()
    shapes = [() if d.int(0, 3) == 0 else shape for _ in sample.args]
    params = dict(sample.params)
    if prim is prims.integer_pow_p:
        x = d.array(shape, d.dtype("fciu"))
        return Sample(prim, (x,), {"y": d.int(0 if kind_of(x.dtype) in "iu" else -4, 6)})
    if prim is prims.reduce_precision_p:
        bits = {"exponent_bits": d.int(2, 11), "mantissa_bits": d.int(0, 20)}
        return Sample(prim, (d.array(shape, d.dtype("f")),), bits)
    if prim is prims.convert_element_type_p:
        old, params["new_dtype"] = d.dtype("fiub"), d.dtype("fiubc" if d.kinds is NARROW else "fc")
        return Sample(prim, (d.array(shape, old),), {**params, "weak_type": False})
    args = tuple(d.like(a, s, new[a.dtype]) for a, s in zip(sample.args, shapes))
    if not accepted(prim, args, params):
        args = tuple(d.like(a, s, a.dtype) for a, s in zip(sample.args, shapes))
    return Sample(prim, args, params)


def special(d: Draw, prim: Primitive) -> Sample:
    """Shape parameters of distributions from 0.05 to 100, and points around their middles; for the beta function in (0, 1)."""
    shape, dtype = d.shape(), d.dtype("f")
    shapes = [() if d.int(0, 3) == 0 else shape for _ in samples_of(prim)[0].args]
    *a, b = (np.exp(d.rng.uniform(-3.0, 4.6, s)) for s in shapes)
    if len(shapes) == 3:
        x = d.rng.uniform(0.02, 0.98, shapes[2])
    elif shapes[0] and shapes[1]:
        x = a[0] * np.exp(d.rng.normal(size=shapes[1]))
    else:
        x = b
    return Sample(prim, tuple(np.asarray(v).astype(dtype) for v in (*a, x)), {})


def random_bits(d: Draw, prim: Primitive) -> Sample:
    shape = d.shape()
    if prim is prims.rng_uniform_p:  # a range of one value: the draw itself is not deterministic
        dtype = d.dtype("fiu")
        low = d.array((), dtype)
        return Sample(prim, (low, low + np.ones((), dtype) if kind_of(dtype) in "iu" else low), {"shape": shape})
    if prim is prims.rng_bit_generator_p:
        word, number = d.pick((("uint32", 4), ("uint64", 2)))
        key = d.rng.integers(0, 2**32 if number == 4 else 2**64, number, dtype=word)
        algorithm = d.pick((RandomAlgorithm.RNG_THREE_FRY, RandomAlgorithm.RNG_PHILOX))
        if algorithm is RandomAlgorithm.RNG_PHILOX:  # its bits differ between compilers
            shape = (*shape, 0)
        return Sample(prim, (key,), {"shape": shape, "dtype": d.dtype("u"), "algorithm": algorithm})
    words = [d.rng.integers(0, 2**32, () if d.int(0, 2) == 0 else shape, dtype=np.uint32) for _ in range(4)]
    return Sample(prim, tuple(map(np.asarray, words)), {})


FAMILY: dict[str, Callable[[Draw, Primitive], Sample]] = {
    "elementwise": elementwise, "special": special, "random_bits": random_bits}
