"""Calls of functions whose reference is NumPy's function of the same name; arguments come from a fixed seed."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["USES", "Use", "find_function", "leaves"]

_rng = np.random.default_rng(7)


def _make_floats(*shape: int) -> np.ndarray:
    return _rng.normal(size=shape).astype(np.float32)


F, G, T, V, M = _make_floats(3, 4), _make_floats(3, 4), _make_floats(2, 3, 4), _make_floats(4), _make_floats(4, 4)
P, U = np.abs(F) + np.float32(0.5), np.tanh(G).astype(np.float32)
I, J = _rng.integers(-9, 9, (3, 4)).astype(np.int32), _rng.integers(1, 9, (3, 4)).astype(np.int32)
B, C, S = F > 0, (F + 1j * G).astype(np.complex64), np.sort(V)
N = np.where(np.arange(12).reshape(3, 4) % 5 == 1, np.float32("nan"), F)
TAILS = np.array([0.1, 0.9], np.float32)
L = np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
EDGES = np.array([1, -np.inf, np.inf, np.nan, -0.0, 0.0], np.float32)
POSITIVE = (M @ M.T + 4 * np.eye(4)).astype(np.float32)


class Use(NamedTuple):
    """One call of the function `name`, which may be in a namespace: `linalg.det`."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    @property
    def id(self) -> str:
        """Return a name for test reports."""
        words = [f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else str(a)[:12] for a in self.args]
        return f"{self.name}({','.join([*words, *[f'{k}={v}' for k, v in self.options.items()]])})".replace(" ", "")


def _make_uses(names: str, *uses: Any) -> list[Use]:
    """Make uses from tuples of arguments; the last element of a tuple may be a dict of options."""
    found = []
    for name in names.split():
        for use in uses:
            use = use if isinstance(use, tuple) else (use,)
            options = use[-1] if use and isinstance(use[-1], dict) else {}
            found.append(Use(name, use[:-1] if use and isinstance(use[-1], dict) else use, options))
    return found


def o(**options: Any) -> dict[str, Any]:
    return options


USES: list[Use] = [
    # elementwise
    *_make_uses("sin cos tan sinh cosh tanh arcsinh arctan exp exp2 expm1 cbrt deg2rad degrees sinc i0", F, J),
    *_make_uses("floor ceil rint trunc fix fabs", F * 3, EDGES[:3]), *_make_uses("log log2 log10 log1p sqrt", P, J),
    *_make_uses("arcsin arccos arctanh", U), *_make_uses("arccosh", P + 1), *_make_uses("reciprocal", P),
    *_make_uses("abs negative positive sign square", F, I, (-2,)),
    *_make_uses("abs negative square conj real imag angle", C),
    *_make_uses("add subtract multiply divide maximum minimum floor_divide remainder arctan2 hypot", (F, G), (I, J),
                (F, 2),
                (F, V)),
    *_make_uses("fmod fmax fmin logaddexp logaddexp2 copysign heaviside", (F, G), (F, V)),
    *_make_uses("add multiply divide", (C, F)),
    *_make_uses("power", (P, G), (J, 3), (F, 2), (2.0, J), (P, -1)), *_make_uses("float_power", (J, 2)),
    *_make_uses("divmod", (I, J), (F, G)),
    *_make_uses("clip", (F, -0.5, 0.5), (I, 0, None), (F, None, V)), *_make_uses("round", F * 9, (F * 100, 1)),
    *_make_uses("nan_to_num", EDGES), *_make_uses("modf frexp", F), *_make_uses("ldexp", (F, J)),
    *_make_uses("gcd lcm", (I, J)),
    *_make_uses("nextafter", (F, G)), *_make_uses("signbit", EDGES),
    # logic
    *_make_uses("equal not_equal less less_equal greater greater_equal", (F, G), (I, J), (I, 2), (F, F)),
    *_make_uses("logical_and logical_or logical_xor", (F, B), (I, J)), *_make_uses("logical_not invert", I, B),
    *_make_uses("bitwise_and bitwise_or bitwise_xor", (I, J), (B, ~B)),
    *_make_uses("left_shift right_shift", (J, 2), (I, J % 4)),
    *_make_uses("isnan isfinite isinf isposinf isneginf", EDGES), *_make_uses("isclose", (F, F + 1e-7), (EDGES, EDGES)),
    *_make_uses("allclose array_equal", (F, F), (F, G)), *_make_uses("bitwise_count", J),
    *_make_uses("isreal iscomplex", C, F),
    # reductions
    *_make_uses("sum prod mean any all", F, (F, o(axis=1)), (F, o(axis=(0, 1), keepdims=True)), J, B),
    *_make_uses("max min std var ptp median", F, (F, o(axis=1)), (T, o(axis=(0, 2), keepdims=True))),
    *_make_uses("max min ptp", I),
    *_make_uses("std var", (F, o(axis=0, ddof=1)), C), *_make_uses("sum max", (F, o(where=B, initial=0.0))),
    *_make_uses("nansum nanprod nanmean nanmax nanmin nanstd nanvar nanmedian", N, (N, o(axis=1))),
    *_make_uses("argmax argmin", F, (F, o(axis=1)), (F, o(axis=0, keepdims=True)), I),
    *_make_uses("nanargmax nanargmin", (N, o(axis=1))),
    *_make_uses("cumsum cumprod", F, (F, o(axis=1)), J[:1]), *_make_uses("nancumsum nancumprod", N),
    *_make_uses("count_nonzero", (I, o(axis=1))),
    *_make_uses("cumulative_sum", (V, o(include_initial=True))), *_make_uses("average", F, (F, o(axis=0, weights=P))),
    *_make_uses("quantile", (F, 0.3), (F, TAILS, o(axis=1))), *_make_uses("percentile", (F, 50, o(method="lower"))),
    *_make_uses("nanquantile", (N, 0.4)), *_make_uses("cov corrcoef", F, (F, o(rowvar=False))),
    # shape
    *_make_uses("reshape", (F, (2, 6)), (F, (2, -1), o(order="F"))), *_make_uses("ravel flip", F),
    *_make_uses("flip roll", (F, 1)),
    *_make_uses("transpose", T, (T, (1, 2, 0))), *_make_uses("swapaxes", (T, 0, 2)),
    *_make_uses("moveaxis", (T, 0, -1), (T, (0, 1), (1, 2))),
    *_make_uses("expand_dims", (F, 1), (F, (0, 3))), *_make_uses("squeeze", (F[None, :, None],), (F[None], o(axis=0))),
    *_make_uses("broadcast_to", (V, (3, 4))), *_make_uses("broadcast_arrays", (V, F[:, :1])),
    *_make_uses("fliplr flipud matrix_transpose", F),
    *_make_uses("rot90", F, (F, 3)), *_make_uses("atleast_1d atleast_2d atleast_3d", (3.0,), V, F),
    *_make_uses("shape ndim size", T),
    *_make_uses("concatenate", ([F, I],), ([F, G], o(axis=1)), ([F, V], o(axis=None))),
    *_make_uses("stack", ([F, G], o(axis=-1))),
    *_make_uses("vstack", ([V, F],)), *_make_uses("hstack dstack", ([F, G],)), *_make_uses("column_stack", ([V, S],)),
    *_make_uses("append", (F, G, o(axis=0))), *_make_uses("block", ([[F, G], [G, F]],)),
    *_make_uses("split", (F, 2, o(axis=1)), (L, [2, 5])),
    *_make_uses("array_split", (L, 3)), *_make_uses("tile", (F, (2, 2))),
    *_make_uses("repeat", (F, 2, o(axis=1)), (V, np.array([1, 0, 2, 1]))),
    *_make_uses("roll", (F, (1, -1), o(axis=(0, 1)))), *_make_uses("delete", (F, [0, 2], o(axis=1))),
    *_make_uses("insert", (L, 2, 99)),
    *_make_uses("pad", (F, 1), (F, ((1, 2), (0, 1)), o(mode="edge")), (L, 3, o(mode="reflect")),
                (L, 3, o(mode="wrap"))),
    # creation
    *_make_uses("zeros ones", ((2, 3),), (3, np.int32)), *_make_uses("full", ((2,), 3.5)),
    *_make_uses("zeros_like ones_like", F, I),
    *_make_uses("full_like", (I, 2)), *_make_uses("arange", (5,), (1, 9, 2), (0.0, 1.0, 0.25), (5, 1, -1)),
    *_make_uses("linspace", (0, 1, 5), (V, V + 1, 3), (0, 1, 4, o(endpoint=False))), *_make_uses("logspace", (0, 2, 4)),
    *_make_uses("eye", (3, 4, 1)),
    *_make_uses("geomspace", (1, 100, 5)), *_make_uses("identity", (3,)), *_make_uses("tri", (3, 4, -1)),
    *_make_uses("meshgrid", (V, S), (V, S, o(indexing="ij"))),
    *_make_uses("indices", ((2, 3),)), *_make_uses("tril triu", F, (T, 1)), *_make_uses("diagonal", F, (F, 1)),
    *_make_uses("trace", F, (T, 0, 1, 2)),
    *_make_uses("diag", V, F, (V, 1)), *_make_uses("vander", V), *_make_uses("tril_indices triu_indices", (3,)),
    *_make_uses("hanning hamming", (5,)),
    # products
    *_make_uses("dot", (F, V), (F, M), (T, M)), *_make_uses("matmul", (F, M), (V, M), (F, V), (V, V), (T, M), (I, J.T)),
    *_make_uses("vdot", (C, C)),
    *_make_uses("inner", (F, G)), *_make_uses("outer", (V, S)), *_make_uses("kron", (F, M)),
    *_make_uses("tensordot", (T, F, o(axes=((1, 2), (0, 1)))), (F, M, 1)),
    *_make_uses("cross", (F[:, :3], G[:, :3])), *_make_uses("vecdot", (C, C)), *_make_uses("matvec", (T, V)),
    *_make_uses("linalg.multi_dot", ([F, M, M],)),
    *_make_uses("einsum", ("ij,jk->ik", F, M), ("ii->i", M), ("ij,ij->i", F, G), ("...i,i->...", T, V), ("ij->", F),
                ("i,j", V, S)),
    # sorting, sets, indices
    *_make_uses("sort argsort", F, (F, o(axis=0)), L), *_make_uses("sort", N, (F, o(axis=None))),
    *_make_uses("lexsort", ((L, L[::-1]),)),
    *_make_uses("searchsorted", (S, F), (S, S, o(side="right"))), *_make_uses("digitize", (F, S)),
    *_make_uses("bincount", L),
    *_make_uses("histogram", (F, 4)), *_make_uses("nonzero argwhere flatnonzero", I),
    *_make_uses("where", (B, F, G), (B, F, 0), (True, V, S)),
    *_make_uses("select", ([F > 1, F > 0], [F, G], 7.0)), *_make_uses("take", (F, 1), (F, np.array([0, 2]), o(axis=1))),
    *_make_uses("take_along_axis", (F, np.argsort(F, 1), o(axis=1))),
    *_make_uses("compress", ([True, False, True], F, o(axis=0))),
    *_make_uses("unique", L, (L, o(return_index=True, return_inverse=True, return_counts=True))),
    *_make_uses("isin", (I, [1, 2, 3])),
    *_make_uses("union1d intersect1d setdiff1d setxor1d", (L, J)), *_make_uses("unravel_index", (L, (3, 4))),
    *_make_uses("packbits", B),
    # along an axis
    *_make_uses("diff", F, (F, 2, o(axis=0))), *_make_uses("gradient", V, F), *_make_uses("trapezoid", F),
    *_make_uses("interp", (F, S, V)),
    *_make_uses("convolve", (V, L), (L, V, o(mode="same"))), *_make_uses("correlate", (V, L, "full")),
    *_make_uses("polyval", (V, F)),
    *_make_uses("polyadd polymul", (V, S)), *_make_uses("polyder polyint", V), *_make_uses("unwrap", F * 5),
    # linear algebra and Fourier transforms
    *_make_uses("linalg.det linalg.inv linalg.pinv linalg.slogdet linalg.cond linalg.matrix_rank", POSITIVE),
    *_make_uses("linalg.solve", (POSITIVE, V), (POSITIVE, M)),
    *_make_uses("linalg.cholesky linalg.eigvalsh linalg.svdvals", POSITIVE),
    *_make_uses("linalg.norm", F, V, (F, o(axis=1)), (F, "fro"), (V, 1)),
    *_make_uses("linalg.matrix_power", (M, 3), (POSITIVE, -1)),
    *_make_uses("fft.fft fft.ifft fft.fft2 fft.ifftn", C, F), *_make_uses("fft.rfft", F, (F, o(n=6, axis=0))),
    *_make_uses("fft.irfft", C),
    *_make_uses("fft.fftshift fft.ifftshift", F), *_make_uses("fft.fftfreq fft.rfftfreq", (5, 0.1)),
]


def find_function(module: Any, name: str) -> Any:
    """Return the function at a dotted name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def leaves(x: Any) -> list[Any]:
    """Return the arrays in nested lists and tuples."""
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (list, tuple)) else [x]
