"""Every function in the table means what NumPy's means, in the dtype our rules give."""
from __future__ import annotations

from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest
from lamina_ir import dtypes
from lamina_tracing import jit

_rng = np.random.default_rng(0)
F = _rng.standard_normal((3, 4)).astype(np.float32)
G = _rng.standard_normal((3, 4)).astype(np.float32)
V = _rng.standard_normal(4).astype(np.float32)
P = (np.abs(F) + 0.5).astype(np.float32)
U = (_rng.random((3, 4)) * 1.8 - 0.9).astype(np.float32)
I = _rng.integers(-9, 9, (3, 4)).astype(np.int32)  # noqa: E741
J = _rng.integers(1, 9, (3, 4)).astype(np.int32)
B = F > 0
C = (F + 1j * G).astype(np.complex64)
N = F.copy()
N[0, 1] = N[2, 2] = np.nan
T = _rng.standard_normal((2, 3, 4)).astype(np.float32)
S = np.sort(V)
L = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
M = _rng.standard_normal((4, 4)).astype(np.float32)
INF = np.array([1.0, -np.inf, np.inf, np.nan, -0.0], np.float32)


def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    return args, kwargs


CASES: dict[str, list[Any]] = {
    # elementwise
    **{n: [call(F), call(J)] for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsinh", "arctan", "exp", "exp2",
                                       "expm1", "floor", "ceil", "rint", "trunc", "fix", "cbrt", "deg2rad", "rad2deg",
                                       "degrees", "radians", "sinc", "i0", "fabs")},
    **{n: [call(P), call(J)] for n in ("log", "log2", "log10", "log1p", "sqrt")}, "reciprocal": [call(P)],
    **{n: [call(U)] for n in ("arcsin", "arccos", "arctanh", "asin", "acos", "atanh")}, "arccosh": [call(P + 1)],
    "asinh": [call(F)], "acosh": [call(P + 1)], "atan": [call(F)],
    **{n: [call(F), call(I), call(2)] for n in ("abs", "absolute", "negative", "positive", "sign", "square")},
    **{n: [call(F, G), call(I, J), call(F, 2), call(F, V), call(I, 2.5)] for n in (
        "add", "subtract", "multiply", "divide", "true_divide", "maximum", "minimum", "fmax", "fmin", "floor_divide",
        "remainder", "mod", "fmod", "arctan2", "atan2", "hypot", "logaddexp", "logaddexp2", "copysign", "heaviside")},
    "nextafter": [call(F, G)], "spacing": [call(F)],
    "power": [call(P, G), call(J, 3), call(F, 2), call(2, J), call(2.0, J), call(J, J % 4), call(P, -1)],
    "pow": [call(P, 2)], "float_power": [call(J, 2)], "divmod": [call(I, J), call(F, G)],
    "clip": [call(F, -0.5, 0.5), call(I, 0, None), call(F, None, V)],
    "round": [call(F), call(F * 100, 1), call(I)], "around": [call(F, 2)],
    "conj": [call(C)], "conjugate": [call(C)], "real": [call(C), call(F)], "imag": [call(C), call(F)],
    "angle": [call(C), call(C, deg=True)], "signbit": [call(INF)], "modf": [call(F)], "frexp": [call(F), call(INF)],
    "ldexp": [call(F, I)], "nan_to_num": [call(INF), call(N, nan=1.0)], "gcd": [call(I, J)], "lcm": [call(I, J)],
    # logic
    **{n: [call(F, G), call(I, J), call(I, 2), call(F, V)] for n in ("equal", "not_equal", "less", "less_equal",
                                                                    "greater", "greater_equal")},
    **{n: [call(F, B), call(I, J)] for n in ("logical_and", "logical_or", "logical_xor")},
    "logical_not": [call(I), call(B)],
    **{n: [call(I, J), call(B, ~B)] for n in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{n: [call(I), call(B)] for n in ("invert", "bitwise_not", "bitwise_invert")},
    **{n: [call(I, J), call(I, 2)] for n in ("left_shift", "right_shift", "bitwise_left_shift",
                                             "bitwise_right_shift")}, "bitwise_count": [call(I)],
    **{n: [call(INF), call(I)] for n in ("isnan", "isfinite", "isinf", "isposinf", "isneginf")},
    "isclose": [call(F, F + 1e-7), call(INF, INF), call(INF, INF, equal_nan=True), call(I, J)],
    "allclose": [call(F, F), call(F, G)], "array_equal": [call(F, F), call(F, V), call(N, N, equal_nan=True)],
    "array_equiv": [call(F, F), call(V, np.stack([V, V]))], "iscomplex": [call(C), call(F)],
    "isreal": [call(C)], "iscomplexobj": [call(C), call(F)], "isrealobj": [call(F)],
    "isscalar": [call(3.0), call(F)],
    # reductions
    **{n: [call(F), call(F, axis=1), call(F, axis=(0, 1), keepdims=True), call(J), call(B)] for n in (
        "sum", "prod", "mean", "any", "all")},
    **{n: [call(F), call(F, axis=1), call(T, axis=(0, 2), keepdims=True), call(I)] for n in (
        "max", "min", "amax", "amin", "std", "var", "ptp", "median")},
    **{n: [call(N), call(N, axis=1)] for n in ("nansum", "nanprod", "nanmean", "nanmax", "nanmin", "nanstd", "nanvar",
                                               "nanmedian")},
    **{n: [call(F), call(F, axis=1), call(F, axis=0, keepdims=True), call(I)] for n in ("argmax", "argmin")},
    **{n: [call(N), call(N, axis=1)] for n in ("nanargmax", "nanargmin")},
    **{n: [call(F), call(F, axis=1), call(J[:1]), call(C - 1, dtype=bool), call(B, axis=0, dtype=bool)] for n in (
        "cumsum", "cumprod")},
    **{n: [call(N), call(N, axis=1)] for n in ("nancumsum", "nancumprod")},
    "cumulative_sum": [call(F, axis=1), call(V, include_initial=True)], "cumulative_prod": [call(F, axis=0)],
    "count_nonzero": [call(I), call(I, axis=1)], "average": [call(F), call(F, axis=0, weights=J[:, 0]),
                                                             call(F, weights=J, returned=True)],
    "quantile": [call(F, 0.3), call(F, np.array([0.1, 0.9], np.float32), axis=1), call(I, 0.5, keepdims=True)],
    "percentile": [call(F, 30, axis=0), call(F, 50, method="lower")], "nanquantile": [call(N, 0.4, axis=1)],
    "nanpercentile": [call(N, 25)], "cov": [call(F), call(F, rowvar=False, bias=True), call(V, V[::-1])],
    "corrcoef": [call(F)],
    # shape
    "reshape": [call(F, (2, 6)), call(F, (2, -1), order="F"), call(F, [12])], "ravel": [call(F), call(F, order="F")],
    "transpose": [call(T), call(T, (1, 2, 0))], "permute_dims": [call(T, (2, 0, 1))],
    "matrix_transpose": [call(T)], "swapaxes": [call(T, 0, 2)], "moveaxis": [call(T, 0, -1), call(T, (0, 1), (1, 2))],
    "rollaxis": [call(T, 2), call(T, 0, 3)], "expand_dims": [call(F, 1), call(F, (0, 3))],
    "squeeze": [call(F[None, :, None]), call(F[None], axis=0)], "broadcast_to": [call(V, (3, 4))],
    "broadcast_arrays": [call(V, F[:, :1])], "flip": [call(F), call(F, axis=1)], "fliplr": [call(F)],
    "flipud": [call(F)], "rot90": [call(F), call(F, 2), call(F, 3), call(T, 1, (1, 2))],
    **{n: [call(3.0), call(V), call(F)] for n in ("atleast_1d", "atleast_2d", "atleast_3d")},
    "shape": [call(T)], "ndim": [call(T)], "size": [call(T), call(T, 1), call(range(3))],
    "broadcast_shapes": [call((3, 1), (4,))],
    # joins
    "concatenate": [call([F, I]), call([F, G], axis=1), call([F, V], axis=None)], "concat": [call([F, G])],
    "stack": [call([F, G]), call([F, G], axis=-1)], "vstack": [call([V, F])], "hstack": [call([F, G]), call([V, V])],
    "dstack": [call([F, G])], "column_stack": [call([V, V])], "append": [call(F, V), call(F, G, axis=0)],
    "block": [call([[F, G], [G, F]]), call([V, V]), call(3), call([1.5]), call(F)], "unstack": [call(F), call(F, axis=1)],
    "split": [call(F, 2, axis=1), call(L, [2, 5])], "array_split": [call(L, 3)], "hsplit": [call(F, 2)],
    "vsplit": [call(F, 3)], "dsplit": [call(T, 2)], "tile": [call(F, 2), call(V, (2, 2)), call(F, (2, 1, 1))],
    "repeat": [call(F, 2), call(F, 2, axis=1), call(V, np.array([1, 0, 2, 1]))],
    "roll": [call(F, 1), call(F, B[0, :1]), call(F, 2, axis=1), call(F, (1, -1), axis=(0, 1))], "resize": [call(L, (3, 5))],
    "delete": [call(L, 2), call(F, [0, 2], axis=1), call(L, slice(1, 4))],
    "insert": [call(L, 2, 99), call(F, 1, V, axis=0), call(L, [1, 3], [7, 8])],
    "trim_zeros": [call(np.array([0, 0, 1, 2, 0], np.int32))],
    "pad": [call(F, 1), call(F, ((1, 2), (0, 1)), mode="edge"), call(L, (2, 3), mode="reflect"),
            call(L, 3, mode="symmetric"), call(L, 3, mode="wrap"), call(F, 2, constant_values=7),
            call(F, 1, mode="mean"), call(F, 1, mode="maximum"), call(F, 2, mode="linear_ramp", end_values=5),
            call(F, 2, mode="reflect", reflect_type="odd"), call(F, 1, mode="minimum", stat_length=2),
            call(F, 1, mode="median")],
    # creation
    "zeros": [call((2, 3)), call(3, np.int32)], "ones": [call((2, 3)), call(2, "int8")],
    "full": [call((2,), 3.5), call((2, 3), np.array([1, 2, 3], np.int32))], "empty_like": [],
    "zeros_like": [call(F), call(I, np.float32)], "ones_like": [call(F)], "full_like": [call(I, 2), call(B, 1j), call(B, 0j)],
    "arange": [call(5), call(1, 9, 2), call(0.0, 1.0, 0.25), call(5, 1, -1), call(3.0)],
    "linspace": [call(0, 1, 5), call(V, V + 1, 3), call(0, 1, 4, endpoint=False), call(0, 10, 5, dtype=np.int32),
                 call(0, 1, 5, axis=-1)],
    "logspace": [call(0, 2, 4)], "geomspace": [call(1, 100, 5)], "eye": [call(3), call(3, 4, 1), call(3, dtype=bool)],
    "identity": [call(3)], "tri": [call(3), call(3, 4, -1)], "copy": [call(F)], "asarray": [call([[1, 2], [3, 4]])],
    "array": [call([1.5, 2]), call(3, ndmin=2)],
    # grids
    "indices": [call((2, 3)), call((2, 3), sparse=True)], "meshgrid": [call(V, S), call(V, S, indexing="ij"),
                                                                     call(V, S, sparse=True)],
    "tril": [call(F), call(T, 1)], "triu": [call(F), call(T, -1)], "diagonal": [call(F), call(F, 1), call(T, 0, 1, 2),
                                                                                call(F, -1), call(F, 9)],
    "trace": [call(F), call(T, 0, 1, 2)], "diag": [call(V), call(F), call(V, 1), call(V, -2)],
    "diagflat": [call(F[:2, :2])], "diag_indices": [call(3)], "diag_indices_from": [call(M)],
    "tril_indices": [call(3), call(3, 1, 4)], "triu_indices": [call(3)], "tril_indices_from": [call(F)],
    "triu_indices_from": [call(F, 1)], "mask_indices": [call(3, np.triu)], "vander": [call(V), call(V, 3, increasing=True)],
    "unravel_index": [call(L, (3, 4))], "ravel_multi_index": [call((np.array([1, 2]), np.array([0, 3])), (3, 4))],
    "ix_": [call(np.array([0, 2]), np.array([1, 3]))],
    # products
    "vdot": [call(F, G), call(V, V), call(C, C)], "dot": [call(F, V), call(F, M), call(F, 2.0), call(T, M)],
    "matmul": [call(F, M), call(V, M), call(F, V), call(V, V), call(T, M), call(F[:2, :3], T), call(V, T.mT),
               call(T, V), call(T[:1], T.mT), call(np.ones((2, 1, 3, 4), np.float32), np.ones((5, 4, 2), np.float32)),
               call(I, J.T)],
    "inner": [call(F, G), call(V, V)], "outer": [call(V, S)], "kron": [call(F, M), call(V, F)],
    "tensordot": [call(T, F, axes=((1, 2), (0, 1))), call(F, M, axes=1), call(V, S, axes=0)],
    "cross": [call(F[:, :3], G[:, :3])], "vecdot": [call(F, G), call(C, C)],
    "matvec": [call(T, V)], "vecmat": [call(T[:, :, 0], T)],
    "einsum": [call("ij,jk->ik", F, M), call("ij->ji", F), call("ii", M), call("ii->i", M), call("ij,ij->i", F, G),
               call("...i,i->...", T, V), call("ij,jk,kl->il", F, M, M), call("i,j", V, S), call("ij->", F),
               call("bij,bjk->bik", T, T.mT.copy()), call("ij,kj->ki", F, G), call("ij,ij,ij->j", F, G, F)],
    # search and sort
    "nonzero": [call(I), call(L)], "flatnonzero": [call(I)], "argwhere": [call(I)],
    "searchsorted": [call(S, F), call(S, S, side="right"), call(S, 0.0)],
    "digitize": [call(F, S), call(F, S[::-1]), call(S, S[::-1]), call(S, S[::-1], True)],
    "bincount": [call(L), call(L, minlength=12), call(L, weights=L.astype(np.float32))],
    "histogram": [call(F, 4), call(F, S), call(F, 5, density=True)], "histogram_bin_edges": [call(F, 4)],
    "histogram2d": [call(V, S, 3)], "histogramdd": [call(F, 2)],
    "sort": [call(F), call(F, axis=0), call(F, axis=None), call(N), call(L)], "argsort": [call(F), call(L), call(F, axis=0)],
    "lexsort": [call((L, L[::-1]))], "sort_complex": [call(C)], "partition": [], "argpartition": [],
    "take": [call(F, 1), call(F, np.True_), call(F, B), call(F, np.array([0, 2]), axis=1),
             call(F, np.array([[0, 1]]), axis=0), call(F, -1, axis=1)],
    "take_along_axis": [call(F, np.argsort(F, 1), axis=1)],
    "where": [call(B, F, G), call(B, F, 0), call(I > 0), call(True, V, S), call(B, 1.0, 0.0)],
    "select": [call([F > 1, F > 0], [F, G], 7.0)], "extract": [call(B, F)], "compress": [call([True, False, True], F, axis=0)],
    "choose": [call(np.array([0, 1, 0, 1]), [V, S])],
    # sets
    "unique": [call(L), call(L, return_index=True, return_inverse=True, return_counts=True), call(I % 2, axis=0)],
    "isin": [call(I, [1, 2, 3]), call(I, J, invert=True)], "union1d": [call(L, J)], "intersect1d": [call(L, J)],
    "setdiff1d": [call(L, J)], "setxor1d": [call(L, J)],
    # along an axis
    "diff": [call(F), call(F, 2, axis=0), call(L, prepend=0), call(B)], "ediff1d": [call(L), call(L, to_begin=0)],
    "gradient": [call(V), call(F), call(F, 2.0), call(V, S)], "trapezoid": [call(F), call(F, S), call(F, dx=0.5, axis=0)],
    "unwrap": [call(F * 5)], "interp": [call(F, S, V), call(F, S, V, left=0.0), call(F, S, V, right=S[0])],
    "convolve": [call(V, L), call(L, V), call(L, V, mode="same"), call(V, L, mode="valid")],
    "correlate": [call(V, L), call(L, V, "full"), call(V, L, "full"), call(L, V, "same"), call(V, L, "same")],
    "bartlett": [call(5)], "blackman": [call(5)], "hamming": [call(5)], "hanning": [call(5)], "kaiser": [call(5, 2.0)],
    "polyval": [call(V, F), call([1, 2, 3], 2)], "polyadd": [call(V, L)], "polysub": [call(V, L)],
    "polymul": [call(V, S)], "polyder": [call(V), call(V, 2)], "polyint": [call(V), call(V, 2)], "poly": [call(V), call(V[:0])],
    "polydiv": [], "roots": [], "polyfit": [],
    "packbits": [call(B), call(B, axis=1), call(B, bitorder="little")],
    "unpackbits": [call(np.array([3, 200], np.uint8)), call(np.array([[3, 200]], np.uint8), axis=1)],
    "apply_along_axis": [call(lambda v: v.sum(), 1, F)], "apply_over_axes": [call(lambda a, i: a.sum(i), T, (0, 2))],
    "fromfunction": [], "array_repr": [],
}

# What this NumPy does not have yet is not compared: `unstack` and the cumulative ones came with 2.1, `matvec` with 2.2.
ALL = [pytest.param(name, *case, id=f"{name}-{i}") for name, cases in CASES.items() if hasattr(np, name)
       for i, case in enumerate(cases)]
_FLOAT_COUNTS = {"histogram"}
if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    _FLOAT_COUNTS |= {"floor", "ceil", "trunc", "fix"}  # which gave floats for integers


def leaves(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (list, tuple)) else [x]


def check(name: str, got: Any, want: Any) -> None:
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        w = np.asarray(w)
        expected = dtypes.canonicalize(w.dtype)
        g_array = np.asarray(g)
        assert g_array.shape == w.shape
        if isinstance(g, lnp.ndarray) and name not in _FLOAT_COUNTS:
            assert dtypes.is_inexact(g.dtype) == dtypes.is_inexact(expected), (g.dtype, expected)
            assert dtypes.is_bool(g.dtype) == dtypes.is_bool(expected)
            assert dtypes.canonicalize(g.dtype) == g.dtype
        np.testing.assert_allclose(g_array.astype(w.dtype), w, rtol=3e-5, atol=3e-5)


def reference(name: str, args: Any, kwargs: Any) -> Any:
    with np.errstate(all="ignore"):
        return getattr(np, name)(*args, **kwargs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "args", "kwargs"), ALL)
def test_eager_matches_numpy(name: str, args: Any, kwargs: Any) -> None:
    check(name, getattr(lnp, name)(*args, **kwargs), reference(name, args, kwargs))


_ON_HOST = {"nonzero", "flatnonzero", "argwhere", "bincount", "extract", "compress", "unique", "unique_values", "union1d",
            "intersect1d", "setdiff1d", "setxor1d", "trim_zeros", "apply_over_axes", "ravel_multi_index", "choose",
            "histogram2d", "fromfunction", "repeat", "mask_indices"}


def traceable(name: str, args: Any) -> list[int]:
    """Positions of the arguments that may be traced: float32, int32 and complex64 arrays."""
    if name in _ON_HOST or name in ("delete", "insert") or name == "where" and len(args) == 1:
        return []
    return [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype in (np.float32, np.int32, np.complex64)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "args", "kwargs"), [p for p in ALL if traceable(*p.values[:2])])
def test_traced_matches_numpy(name: str, args: Any, kwargs: Any) -> None:
    """The same with every argument traced that may be."""
    at = traceable(name, args)
    static: list[Any] = []

    def fun(*xs: Any) -> Any:
        full = list(args)
        for i, x in zip(at, xs):
            full[i] = x
        out = leaves(getattr(lnp, name)(*full, **kwargs))
        static[:] = [o for o in out if not isinstance(o, lnp.ndarray)]
        return [o for o in out if isinstance(o, lnp.ndarray)]
    got = jit(fun)(*[args[i] for i in at])
    check(name, [*static, *got] if static else got, reference(name, args, kwargs))


def test_interp_takes_numbers_or_extrapolate_at_its_ends():
    xs = np.arange(3, dtype=np.float32)
    assert float(lnp.interp(5.0, xs, xs * 2, right="extrapolate")) == 10
    with pytest.raises(ValueError, match="interp: left and right must be numbers or 'extrapolate'; got 'nearest'"):
        lnp.interp(5.0, xs, xs, left="nearest")
