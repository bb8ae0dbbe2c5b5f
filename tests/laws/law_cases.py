"""Random uses of every primitive, for the laws: each family varies shapes, dtypes and params in its own way.

`cases(prim)` is a hypothesis strategy of `lamina_ir.testing.samples.Sample`. Structure is drawn, so that it shrinks;
values come from a seeded generator, out of the primitive's own domain as its samples show it. A family without a
function here is tried on its samples as they stand, in every dtype its type rule takes.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st
from lamina_ir import LaminaError, Primitive, aval_of, dtypes, prims
from lamina_ir.prims.indexing import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from lamina_ir.testing.samples import Sample, samples_of

__all__ = ["ONLY", "cases", "index_cases", "reversible", "special_cases"]

NARROW = {"f": ("float16", "bfloat16", "float32", "float64"), "c": ("complex64", "complex128"),
          "i": ("int8", "int16", "int32", "int64"), "u": ("uint8", "uint16", "uint32", "uint64"), "b": ("bool",)}
WIDE = {**NARROW, "f": ("float64",), "c": ("complex128",)}
CLIP, FILL, PROMISE = GatherScatterMode
# operands in which a derivative is known, where there is none in the others; these raise and say so
ONLY = {"polygamma": (1,), "zeta": (1,), "igamma_grad_a": (1,), "random_gamma_grad": (1,),
        "regularized_incomplete_beta": (2,)}


def kind_of(d: np.dtype) -> str:
    """One of `fciub`."""
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
        """Some of `range(n)`, in any order."""
        order = self.draw(st.permutations(range(n)))
        return tuple(order[:self.int(min(low, n), n)])

    def dtype(self, kinds: str) -> np.dtype:
        return dtypes.as_dtype(self.pick([name for k in kinds for name in self.kinds[k]]))

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Numbers away from zero, both signs where the dtype has them."""
        kind = kind_of(dtype)
        if kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape) == 1)
        if kind in "iu":
            return np.asarray(self.rng.integers(1 if kind == "u" else -6, 7, shape)).astype(dtype)
        size = self.rng.uniform(0.3, 2.0, shape) * self.rng.choice([-1.0, 1.0], shape)
        return np.asarray(size + 1j * self.rng.normal(size=shape) if kind == "c" else size).astype(dtype)

    def distinct(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Well separated numbers."""
        if kind_of(dtype) in "bc":
            return self.array(shape, dtype)
        n = int(np.prod(shape, dtype=int))
        start = 0 if kind_of(dtype) == "u" else -(n // 2)
        return np.asarray(self.rng.permutation(n) + start).reshape(shape).astype(dtype)

    def like(self, values: np.ndarray, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Values picked from `values`."""
        flat = values.reshape(-1)
        with np.errstate(over="ignore"):
            return np.asarray(flat[self.rng.integers(0, flat.size, shape)]).reshape(shape).astype(dtype)


def accepted(prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether the type rule takes these operands."""
    try:
        prim.infer(*map(aval_of, args), **params)
    except (LaminaError, TypeError, ValueError):
        return False
    return True


def redtype(d: Draw, row: Sample) -> Sample:
    """The same sample in other dtypes of the same kinds, where its type rule takes them."""
    new = {a.dtype: d.dtype(kind_of(a.dtype)) for a in row.args}
    with np.errstate(over="ignore"):
        args = tuple(np.asarray(a).astype(new[a.dtype]) for a in row.args)
    return Sample(row.prim, args, row.params) if accepted(row.prim, args, row.params) else row


def widened(d: Draw, row: Sample) -> Sample:
    if d.kinds is not WIDE or row.prim.subprograms or row.prim.family == "callbacks":
        return row
    up = {"float32": "float64", "complex64": "complex128"}
    args = tuple(np.asarray(a).astype(up.get(a.dtype.name, a.dtype)) for a in row.args)
    return Sample(row.prim, args, row.params) if accepted(row.prim, args, row.params) else row


# --- families -----------------------------------------------------------------------------------------------------
def elementwise(d: Draw, prim: Primitive) -> Sample:
    row = d.pick([r for r in samples_of(prim) if all(a.size for a in r.args)])
    if not prim.elementwise or not row.args:
        return redtype(d, row)
    new = {a.dtype: d.dtype(kind_of(a.dtype)) for a in row.args}
    shape = d.shape()
    shapes = [() if d.int(0, 3) == 0 else shape for _ in row.args]
    params = dict(row.params)
    if prim is prims.convert_element_type_p:
        old, params["new_dtype"] = d.dtype("fiub"), d.dtype("fiubc" if d.kinds is NARROW else "fc")
        return Sample(prim, (d.array(shape, old),), {**params, "weak_type": False})
    args = tuple(d.like(a, s, new[a.dtype]) for a, s in zip(row.args, shapes))
    if not accepted(prim, args, params):
        args = tuple(d.like(a, s, a.dtype) for a, s in zip(row.args, shapes))
    return Sample(prim, args, params)


SPECIAL = {"f": (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 10.0, 50.0),
           "c": (0j, 1 + 0j, 1j, -1j, -1 - 1j, 3 - 2j, -0.5 + 4j)}


@st.composite
def special_cases(draw: Callable[..., Any], prim: Primitive) -> Sample:
    """An elementwise op on zeros of both signs, infinities, NaN, halves, and the ends of integer ranges."""
    d = Draw(draw, False)
    row = d.pick([r for r in samples_of(prim) if r.args])
    new = {a.dtype: d.dtype(kind_of(a.dtype)) for a in row.args}
    n = d.int(1, 6)

    def values(dtype: np.dtype) -> np.ndarray:
        kind = kind_of(dtype)
        if kind in "iu":
            ends = dtypes.iinfo(dtype)
            pool: Sequence[Any] = (0, 1, 2, 3, 5, ends.max, ends.min, ends.max - 1) + ((-1, -2) if kind == "i" else ())
            return np.array([int(d.pick(pool)) for _ in range(n)], dtype)
        return np.array([d.pick((True, False) if kind == "b" else SPECIAL[kind]) for _ in range(n)]).astype(dtype)

    args = tuple(values(new[a.dtype]) for a in row.args)
    if not accepted(prim, args, row.params):
        args = tuple(values(a.dtype) for a in row.args)
    if prim is prims.pow_p and kind_of(args[0].dtype) != kind_of(args[1].dtype):
        args = args[0], args[1] % np.asarray(8, args[1].dtype)  # an exponent that its base's dtype cannot hold
    return Sample(prim, args, row.params)


EXTREME = ("max", "min", "arg")


def reductions(d: Draw, prim: Primitive) -> Sample:
    if prim is prims.reduce_p:
        return redtype(d, d.pick(samples_of(prim)))
    ordered = any(word in prim.name for word in EXTREME)
    kinds = "".join(k for k in "fciub" if any(accepted(prim, [np.zeros(s.args[0].shape, NARROW[k][-1])], s.params)
                                              for s in samples_of(prim)))
    if ordered or prim.name == "cumlogsumexp":
        kinds = kinds.replace("c", "")
    cumulates, arg = "axis" in prim.params, "index_dtype" in prim.params
    shape = d.shape(1 if cumulates or arg else 0, 4, empty=not arg)
    x = (d.distinct if ordered else d.array)(shape, d.dtype(kinds))
    if cumulates:
        params: dict[str, Any] = {"axis": d.int(0, len(shape) - 1), "reverse": d.flag()}
    elif arg:
        params = {"axes": (d.int(0, len(shape) - 1),), "index_dtype": d.dtype("i") if len(x) < 100 else np.dtype("i8")}
    else:
        params = {"axes": d.axes(len(shape))}
    return Sample(prim, (x,), params)


def broadcast_in_dim(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    at = tuple(sorted(d.axes(len(shape))))
    return (tuple(shape[a] if d.int(0, 3) else 1 for a in at),), {"shape": shape, "broadcast_dimensions": at}


def reshape(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    new = list(d.draw(st.permutations(shape)))
    if len(new) > 1 and d.flag():
        new[:2] = [new[0] * new[1]]
    new.insert(d.int(0, len(new)), 1)
    return (shape,), {"new_sizes": tuple(new), "dimensions": d.axes(len(shape), len(shape)) if d.flag() else None}


def transpose(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    return (shape,), {"permutation": d.axes(len(shape), len(shape))}


def squeeze(d: Draw) -> tuple[Any, ...]:
    shape = list(d.shape(0, 4))
    axes = d.axes(len(shape))
    for a in axes:
        shape[a] = 1
    return (tuple(shape),), {"dimensions": axes}


def expand_dims(d: Draw) -> tuple[Any, ...]:
    shape, more = d.shape(0, 3), d.int(0, 2)
    return (shape,), {"dimensions": d.axes(len(shape) + more, len(shape) + more)[:more]}


def concatenate(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(1, 3)
    axis = d.int(0, len(shape) - 1)
    parts = [d.int(0, 3) for _ in range(d.int(1, 4))]
    return tuple((*shape[:axis], n, *shape[axis + 1:]) for n in parts), {"dimension": axis}


def pad(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 3)
    config = []
    for n in shape:
        inner = d.int(0, 2)
        length = n + inner * max(n - 1, 0)
        low = d.int(-length, 3)
        config.append((low, d.int(-(length + low) if length + low < 3 else -2, 2), inner))
    return (shape, ()), {"padding_config": tuple(config)}


def slice_(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 3)
    start = tuple(d.int(0, n) for n in shape)
    limit = tuple(d.int(s, n) for s, n in zip(start, shape))
    strides = tuple(d.int(1, 3) for _ in shape) if d.flag() else None
    return (shape,), {"start_indices": start, "limit_indices": limit, "strides": strides}


def rev(d: Draw) -> tuple[Any, ...]:
    shape = d.shape(0, 4)
    return (shape,), {"dimensions": d.axes(len(shape))}


MOVES = {"broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "transpose": transpose, "squeeze": squeeze,
         "expand_dims": expand_dims, "concatenate": concatenate, "pad": pad, "slice": slice_, "rev": rev}


def shape_family(d: Draw, prim: Primitive) -> Sample:
    if prim is prims.iota_p:
        shape = d.shape(1, 3)
        return Sample(prim, (), {"shape": shape, "dimension": d.int(0, len(shape) - 1), "dtype": d.dtype("fiuc")})
    if prim.name not in MOVES:
        return redtype(d, d.pick(samples_of(prim)))
    shapes, params = MOVES[prim.name](d)
    dtype = d.dtype("fciub")
    return Sample(prim, tuple(d.array(s, dtype) for s in shapes), params)


def linalg(d: Draw, prim: Primitive) -> Sample:
    if prim is not prims.dot_general_p:
        return redtype(d, d.pick(samples_of(prim)))
    batch, contract = d.shape(0, 2), d.shape(0, 2)
    free = d.shape(0, 2), d.shape(0, 2)
    shapes, numbers = [], []
    for own in free:
        lengths = [*batch, *contract, *own]
        order = d.draw(st.permutations(range(len(lengths))))  # order[i]: which length stands at axis i
        at = {k: i for i, k in enumerate(order)}
        shapes.append(tuple(lengths[k] for k in order))
        numbers.append((tuple(at[k] for k in range(len(batch), len(batch) + len(contract))),
                        tuple(at[k] for k in range(len(batch)))))
    (lc, lb), (rc, rb) = numbers
    dtype = d.dtype("fciu")
    wider = np.dtype("float32") if dtype.itemsize == 2 and kind_of(dtype) == "f" and d.flag() else None
    return Sample(prim, tuple(d.array(s, dtype) for s in shapes),
                  {"dimension_numbers": ((lc, rc), (lb, rb)), "precision": None, "preferred_element_type": wider})


def windows(d: Draw) -> tuple[Any, ...]:
    """An operand's shape, indices, window sizes and who is who, for gather and scatter."""
    shape = d.shape(1, 3)
    ndim = len(shape)
    paired = tuple(sorted(d.axes(ndim)[:1])) if d.int(0, 2) == 0 else ()
    others = [a for a in range(ndim) if a not in paired]
    removed = tuple(sorted(a for a in others if d.flag()))
    mapped = tuple(a for a in d.axes(ndim) if a not in paired)
    sizes = tuple(min(n, 1) if a in removed or a in paired else d.int(min(n, 1), n) for a, n in enumerate(shape))
    batch = list(d.shape(len(paired), 2 + len(paired)))
    at = tuple(d.axes(len(batch), len(batch))[:len(paired)])
    for a, b in zip(paired, at):
        batch[b] = shape[a]
    span = len(others) - len(removed) + len(batch)
    window = tuple(sorted(d.axes(span, span)[:len(others) - len(removed)]))
    return shape, tuple(batch), sizes, window, removed, mapped, paired, at


def starts(d: Draw, shape: Any, sizes: Any, batch: Any, mapped: Any, inside: bool, unique: bool) -> np.ndarray:
    indices = np.zeros((*batch, len(mapped)), d.dtype("i"))
    for k, a in enumerate(mapped):
        low, high = (0, shape[a] - sizes[a]) if inside else (-2, shape[a] + 1)
        indices[..., k] = d.rng.integers(low, high + 1, batch)
    return indices


def indexing(d: Draw, prim: Primitive) -> Sample:
    name, dtype = prim.name, d.dtype("fciub")
    if name.startswith("dynamic"):
        shape = d.shape(0, 3)
        sizes = tuple(d.int(0, n) for n in shape)
        at = tuple(np.asarray(d.int(-2, n + 1), d.dtype("i")) for n in shape)
        if name == "dynamic_slice":
            return Sample(prim, (d.array(shape, dtype), *at), {"slice_sizes": sizes})
        return Sample(prim, (d.array(shape, dtype), d.array(sizes, dtype), *at), {})
    if name != "gather" and not name.startswith("scatter"):
        return redtype(d, d.pick(samples_of(prim)))
    shape, batch, sizes, window, removed, mapped, paired, at = windows(d)
    mode = d.pick((CLIP, FILL, PROMISE))
    indices = starts(d, shape, sizes, batch, mapped, mode is PROMISE, False)
    if name == "gather":
        return Sample(prim, (d.array(shape, dtype), indices), {
            "dimension_numbers": GatherDimensionNumbers(window, removed, mapped, paired, at), "slice_sizes": sizes,
            "mode": mode, "fill_value": None, "indices_are_sorted": False, "unique_indices": False})
    kept = iter([n for a, n in enumerate(sizes) if a not in removed and a not in paired])
    rest = iter(batch)
    span = len(window) + len(batch)
    updates = tuple(next(kept) if a in window else next(rest) for a in range(span))
    ordered = name in ("scatter_min", "scatter_max")
    if ordered and kind_of(dtype) == "c":
        dtype = d.dtype("f")
    make = d.distinct if ordered else d.array
    n = int(np.prod(shape, dtype=int))
    both = make((n + int(np.prod(updates, dtype=int)),), dtype)
    if name == "scatter":  # which of two updates of one place stays is not specified
        both[n:] = both[n:n + 1].sum()
    return Sample(prim, (both[:n].reshape(shape), indices, both[n:].reshape(updates)), {
        "dimension_numbers": ScatterDimensionNumbers(window, removed, mapped, paired, at),
        "indices_are_sorted": False, "mode": mode, "unique_indices": False})


def sorting(d: Draw, prim: Primitive) -> Sample:
    if prim is not prims.sort_p:
        return redtype(d, d.pick(samples_of(prim)))
    shape = d.shape(1, 3)
    keys = d.int(1, 2)
    args = [d.distinct(shape, d.dtype("fiu"))]
    args += [d.array(shape, d.dtype("fciub")) for _ in range(d.int(keys - 1, 2))]
    return Sample(prim, tuple(args), {"dimension": d.int(0, len(shape) - 1), "is_stable": True, "num_keys": keys})


def random_bits(d: Draw, prim: Primitive) -> Sample:
    if prim is not prims.threefry2x32_p:
        return d.pick(samples_of(prim))
    shape = d.shape()
    words = [d.rng.integers(0, 2**32, () if d.int(0, 2) == 0 else shape, dtype=np.uint32) for _ in range(4)]
    return Sample(prim, tuple(map(np.asarray, words)), {})


FAMILIES: dict[str, Callable[[Draw, Primitive], Sample]] = {
    "elementwise": elementwise, "reductions": reductions, "shape": shape_family, "linalg": linalg, "indexing": indexing,
    "sorting": sorting, "random_bits": random_bits}


@st.composite
def cases(draw: Callable[..., Any], prim: Primitive, wide: bool = False) -> Sample:
    """A use of `prim`.

    Args:
      prim: the primitive.
      wide: only 64-bit floats and complex numbers, for differences.
    """
    d = Draw(draw, wide)
    make = FAMILIES.get(prim.family)
    if make is None:
        row = d.pick(samples_of(prim))
        row = row if prim.subprograms or prim.axis_params or prim.family == "callbacks" else redtype(d, row)
    else:
        row = make(d, prim)
        assert accepted(prim, row.args, row.params) or prim.infer(*map(aval_of, row.args), **row.params)
    return widened(d, row)


def reversible(row: Sample) -> bool:
    """Whether a reverse derivative is defined: not of a loop without a bound."""
    return row.prim is not prims.while_p or row.params["max_iters"] is not None


@st.composite
def index_cases(draw: Callable[..., Any]) -> tuple[np.ndarray, Any]:
    """An array and a NumPy index expression for it: integers, slices, None, `...`, integer arrays, a mask."""
    d = Draw(draw, True)
    shape = d.shape(1, 4, empty=False)
    parts: list[Any] = []
    common = d.shape(0, 2, empty=False)
    for n in shape[:d.int(0, len(shape))]:
        if d.int(0, 5) == 0:
            parts.append(None)
        what = d.int(0, 5)
        if what <= 1:
            parts.append(d.int(-n, n - 1))
        elif what <= 3:
            ends = [d.pick((None, *range(-n - 1, n + 2))) for _ in range(2)]
            parts.append(slice(*ends, d.pick((None, 1, 2, -1, -2))))
        elif what == 4:
            parts.append(d.rng.integers(-n, n, common[:d.int(0, len(common))] and common))
        else:
            parts.append(np.asarray(d.rng.integers(-n, n, common)))
    if d.flag():
        parts.append(...)
    return d.array(shape, np.dtype("float64")), tuple(parts)
