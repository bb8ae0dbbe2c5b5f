"""Calls of functions whose reference is NumPy's function of the same name; arguments come from a fixed seed."""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["USES", "Use", "found", "leaves"]

_rng = np.random.default_rng(7)


def _floats(*shape: int) -> np.ndarray:
    return _rng.normal(size=shape).astype(np.float32)


F, G, T, V, M = _floats(3, 4), _floats(3, 4), _floats(2, 3, 4), _floats(4), _floats(4, 4)
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


def _uses(names: str, *uses: Any) -> list[Use]:
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
    *_uses("sin cos tan sinh cosh tanh arcsinh arctan exp exp2 expm1 cbrt deg2rad degrees sinc i0", F, J),
    *_uses("floor ceil rint trunc fix fabs", F * 3, EDGES[:3]), *_uses("log log2 log10 log1p sqrt", P, J),
    *_uses("arcsin arccos arctanh", U), *_uses("arccosh", P + 1), *_uses("reciprocal", P),
    *_uses("abs negative positive sign square", F, I, (-2,)), *_uses("abs negative square conj real imag angle", C),
    *_uses("add subtract multiply divide maximum minimum floor_divide remainder arctan2 hypot", (F, G), (I, J), (F, 2),
           (F, V)),
    *_uses("fmod fmax fmin logaddexp logaddexp2 copysign heaviside", (F, G), (F, V)), *_uses("add multiply divide", (C, F)),
    *_uses("power", (P, G), (J, 3), (F, 2), (2.0, J), (P, -1)), *_uses("float_power", (J, 2)),
    *_uses("divmod", (I, J), (F, G)),
    *_uses("clip", (F, -0.5, 0.5), (I, 0, None), (F, None, V)), *_uses("round", F * 9, (F * 100, 1)),
    *_uses("nan_to_num", EDGES), *_uses("modf frexp", F), *_uses("ldexp", (F, J)), *_uses("gcd lcm", (I, J)),
    *_uses("nextafter", (F, G)), *_uses("signbit", EDGES),
    # logic
    *_uses("equal not_equal less less_equal greater greater_equal", (F, G), (I, J), (I, 2), (F, F)),
    *_uses("logical_and logical_or logical_xor", (F, B), (I, J)), *_uses("logical_not invert", I, B),
    *_uses("bitwise_and bitwise_or bitwise_xor", (I, J), (B, ~B)), *_uses("left_shift right_shift", (J, 2), (I, J % 4)),
    *_uses("isnan isfinite isinf isposinf isneginf", EDGES), *_uses("isclose", (F, F + 1e-7), (EDGES, EDGES)),
    *_uses("allclose array_equal", (F, F), (F, G)), *_uses("bitwise_count", J), *_uses("isreal iscomplex", C, F),
    # reductions
    *_uses("sum prod mean any all", F, (F, o(axis=1)), (F, o(axis=(0, 1), keepdims=True)), J, B),
    *_uses("max min std var ptp median", F, (F, o(axis=1)), (T, o(axis=(0, 2), keepdims=True))), *_uses("max min ptp", I),
    *_uses("std var", (F, o(axis=0, ddof=1)), C), *_uses("sum max", (F, o(where=B, initial=0.0))),
    *_uses("nansum nanprod nanmean nanmax nanmin nanstd nanvar nanmedian", N, (N, o(axis=1))),
    *_uses("argmax argmin", F, (F, o(axis=1)), (F, o(axis=0, keepdims=True)), I),
    *_uses("nanargmax nanargmin", (N, o(axis=1))),
    *_uses("cumsum cumprod", F, (F, o(axis=1)), J[:1]), *_uses("nancumsum nancumprod", N),
    *_uses("count_nonzero", (I, o(axis=1))),
    *_uses("cumulative_sum", (V, o(include_initial=True))), *_uses("average", F, (F, o(axis=0, weights=P))),
    *_uses("quantile", (F, 0.3), (F, TAILS, o(axis=1))), *_uses("percentile", (F, 50, o(method="lower"))),
    *_uses("nanquantile", (N, 0.4)), *_uses("cov corrcoef", F, (F, o(rowvar=False))),
    # shape
    *_uses("reshape", (F, (2, 6)), (F, (2, -1), o(order="F"))), *_uses("ravel flip", F), *_uses("flip roll", (F, 1)),
    *_uses("transpose", T, (T, (1, 2, 0))), *_uses("swapaxes", (T, 0, 2)),
    *_uses("moveaxis", (T, 0, -1), (T, (0, 1), (1, 2))),
    *_uses("expand_dims", (F, 1), (F, (0, 3))), *_uses("squeeze", (F[None, :, None],), (F[None], o(axis=0))),
    *_uses("broadcast_to", (V, (3, 4))), *_uses("broadcast_arrays", (V, F[:, :1])),
    *_uses("fliplr flipud matrix_transpose", F),
    *_uses("rot90", F, (F, 3)), *_uses("atleast_1d atleast_2d atleast_3d", (3.0,), V, F), *_uses("shape ndim size", T),
    *_uses("concatenate", ([F, I],), ([F, G], o(axis=1)), ([F, V], o(axis=None))), *_uses("stack", ([F, G], o(axis=-1))),
    *_uses("vstack", ([V, F],)), *_uses("hstack dstack", ([F, G],)), *_uses("column_stack", ([V, S],)),
    *_uses("append", (F, G, o(axis=0))), *_uses("block", ([[F, G], [G, F]],)),
    *_uses("split", (F, 2, o(axis=1)), (L, [2, 5])),
    *_uses("array_split", (L, 3)), *_uses("tile", (F, (2, 2))),
    *_uses("repeat", (F, 2, o(axis=1)), (V, np.array([1, 0, 2, 1]))),
    *_uses("roll", (F, (1, -1), o(axis=(0, 1)))), *_uses("delete", (F, [0, 2], o(axis=1))), *_uses("insert", (L, 2, 99)),
    *_uses("pad", (F, 1), (F, ((1, 2), (0, 1)), o(mode="edge")), (L, 3, o(mode="reflect")), (L, 3, o(mode="wrap"))),
    # creation
    *_uses("zeros ones", ((2, 3),), (3, np.int32)), *_uses("full", ((2,), 3.5)), *_uses("zeros_like ones_like", F, I),
    *_uses("full_like", (I, 2)), *_uses("arange", (5,), (1, 9, 2), (0.0, 1.0, 0.25), (5, 1, -1)),
    *_uses("linspace", (0, 1, 5), (V, V + 1, 3), (0, 1, 4, o(endpoint=False))), *_uses("logspace", (0, 2, 4)),
    *_uses("eye", (3, 4, 1)),
    *_uses("geomspace", (1, 100, 5)), *_uses("identity", (3,)), *_uses("tri", (3, 4, -1)),
    *_uses("meshgrid", (V, S), (V, S, o(indexing="ij"))),
    *_uses("indices", ((2, 3),)), *_uses("tril triu", F, (T, 1)), *_uses("diagonal", F, (F, 1)),
    *_uses("trace", F, (T, 0, 1, 2)),
    *_uses("diag", V, F, (V, 1)), *_uses("vander", V), *_uses("tril_indices triu_indices", (3,)),
    *_uses("hanning hamming", (5,)),
    # products
    *_uses("dot", (F, V), (F, M), (T, M)), *_uses("matmul", (F, M), (V, M), (F, V), (V, V), (T, M), (I, J.T)),
    *_uses("vdot", (C, C)),
    *_uses("inner", (F, G)), *_uses("outer", (V, S)), *_uses("kron", (F, M)),
    *_uses("tensordot", (T, F, o(axes=((1, 2), (0, 1)))), (F, M, 1)),
    *_uses("cross", (F[:, :3], G[:, :3])), *_uses("vecdot", (C, C)), *_uses("matvec", (T, V)),
    *_uses("linalg.multi_dot", ([F, M, M],)),
    *_uses("einsum", ("ij,jk->ik", F, M), ("ii->i", M), ("ij,ij->i", F, G), ("...i,i->...", T, V), ("ij->", F),
           ("i,j", V, S)),
    # sorting, sets, indices
    *_uses("sort argsort", F, (F, o(axis=0)), L), *_uses("sort", N, (F, o(axis=None))), *_uses("lexsort", ((L, L[::-1]),)),
    *_uses("searchsorted", (S, F), (S, S, o(side="right"))), *_uses("digitize", (F, S)), *_uses("bincount", L),
    *_uses("histogram", (F, 4)), *_uses("nonzero argwhere flatnonzero", I),
    *_uses("where", (B, F, G), (B, F, 0), (True, V, S)),
    *_uses("select", ([F > 1, F > 0], [F, G], 7.0)), *_uses("take", (F, 1), (F, np.array([0, 2]), o(axis=1))),
    *_uses("take_along_axis", (F, np.argsort(F, 1), o(axis=1))), *_uses("compress", ([True, False, True], F, o(axis=0))),
    *_uses("unique", L, (L, o(return_index=True, return_inverse=True, return_counts=True))), *_uses("isin", (I, [1, 2, 3])),
    *_uses("union1d intersect1d setdiff1d setxor1d", (L, J)), *_uses("unravel_index", (L, (3, 4))), *_uses("packbits", B),
    # along an axis
    *_uses("diff", F, (F, 2, o(axis=0))), *_uses("gradient", V, F), *_uses("trapezoid", F), *_uses("interp", (F, S, V)),
    *_uses("convolve", (V, L), (L, V, o(mode="same"))), *_uses("correlate", (V, L, "full")), *_uses("polyval", (V, F)),
    *_uses("polyadd polymul", (V, S)), *_uses("polyder polyint", V), *_uses("unwrap", F * 5),
    # linear algebra and Fourier transforms
    *_uses("linalg.det linalg.inv linalg.pinv linalg.slogdet linalg.cond linalg.matrix_rank", POSITIVE),
    *_uses("linalg.solve", (POSITIVE, V), (POSITIVE, M)), *_uses("linalg.cholesky linalg.eigvalsh linalg.svdvals", POSITIVE),
    *_uses("linalg.norm", F, V, (F, o(axis=1)), (F, "fro"), (V, 1)), *_uses("linalg.matrix_power", (M, 3), (POSITIVE, -1)),
    *_uses("fft.fft fft.ifft fft.fft2 fft.ifftn", C, F), *_uses("fft.rfft", F, (F, o(n=6, axis=0))), *_uses("fft.irfft", C),
    *_uses("fft.fftshift fft.ifftshift", F), *_uses("fft.fftfreq fft.rfftfreq", (5, 0.1)),
]


def found(module: Any, name: str) -> Any:
    """Return the function at a dotted name."""
    for part in name.split("."):
        module = getattr(module, part)
    return module


def leaves(x: Any) -> list[Any]:
    """Return the arrays in nested lists and tuples."""
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (list, tuple)) else [x]
