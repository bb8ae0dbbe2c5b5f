"""Test calls of NumPy functions on traced values: `numpy_calls()` has at least one for each supported function."""
from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import trees
from lamina_ir.typing import Function, Tree, Value

from ._core.tracer import load_numpy_dispatch

__all__ = ["NumPyCall", "numpy_calls", "numpy_function", "numpy_functions"]


class NumPyCall(NamedTuple):
    """One call of a NumPy function.

    Attributes:
      name: `sum`, `linalg.solve`, `add.reduce`.
      args, kwargs: its arguments. Float and complex arrays among `args`, also in lists and tuples, are traced.
      smooth: whether its derivative can be checked with finite differences.
    """

    name: str
    args: tuple[Value, ...]
    kwargs: dict[str, Tree]
    smooth: bool = True

    def traced(self) -> list[np.ndarray]:
        """Return the arrays that are traced."""
        return [a for x in self.args for a in (x if isinstance(x, (list, tuple)) else [x]) if _is_traced(a)]

    def function(self) -> Function:
        """Return the call as a function of the arrays that are traced."""
        def call(*arrays: Any) -> Any:
            remaining = iter(arrays)

            def substitute(x: Any) -> Any:
                if isinstance(x, (list, tuple)):
                    return type(x)(map(substitute, x))
                return next(remaining) if _is_traced(x) else x
            return numpy_function(self.name)(*map(substitute, self.args), **self.kwargs)
        return call

    def scalar_function(self) -> Function:
        """Return the call as a function with a scalar result: a weighted sum of the real parts of all results."""
        fun = self.function()

        def call(*arrays: Value) -> Value:
            total = 0.0
            for i, v in enumerate(trees.tree_leaves(fun(*arrays))):
                weights = np.cos(np.arange(np.size(v)).reshape(np.shape(v)) + i)
                total = total + np.sum(np.real(v) * weights)
            return total
        return call


def _is_traced(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def numpy_function(name: str) -> Any:
    """Return the NumPy function of this dotted name.

    >>> numpy_function("linalg.norm") is np.linalg.norm
    True
    """
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    return found


def numpy_functions() -> dict[str, Function]:
    """Return the public functions of `numpy`, `numpy.linalg` and `numpy.fft` by name: `sum`, `linalg.solve`."""
    found = {}
    for module in (np, np.linalg, np.fft):
        for name in dir(module):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of functions that NumPy will remove
                f = getattr(module, name)
            if isinstance(f, (type(np.sum), np.ufunc)):
                found[load_numpy_dispatch().name_of(f)] = f
    return found


def _floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Make distinct numbers of both signs, well separated from each other and from integers.

    Near ties or integers, finite differences of `sort`, `max` or `floor` would be wrong.
    """
    n = int(np.prod(shape))
    order = np.random.default_rng(seed + n).permutation(n)
    return (((order - n // 2) * 1.37 + 0.31) / max(n, 4) * 2.5).reshape(shape)


X, Y, V, W = _floats(2, 3), _floats(2, 3, seed=5), _floats(4), _floats(4, seed=7)
P, Q = np.abs(X) + 0.3, np.abs(Y) + 0.4
S = np.array([[4.0, 1.0, 0.5], [0.8, 5.0, -1.0], [0.3, 0.2, 6.0]])
S4 = np.diag([3.0, 4.0, 5.0, 6.0]) + 0.1 * _floats(4, 4)
H = np.array([[4.0, 1.0, 0.5], [1.0, 6.0, -1.0], [0.5, -1.0, 9.0]])
Z = X + 1j * Y
T = _floats(2, 3, 4)
N = np.array([[1.0, np.nan, 3.5], [np.nan, 0.5, 2.25]])
STACK = np.stack([S, S.T + np.eye(3)])
I = np.array([[5, -7, 3], [2, 8, -1]])
INDEX = np.array([2, 0, 1, 1])
MASK = np.array([[True, False, True], [False, True, True]])

_calls: list[NumPyCall] = []


def _add(names: str, *args: Tree, smooth: bool = True, **kwargs: Tree) -> None:
    """Add one call of each of these functions that the installed NumPy has: 2.0 lacks `unstack`, 2.1 lacks `matvec`."""
    for name in names.split():
        if name == "clip" and kwargs and np.lib.NumpyVersion(np.__version__) < "2.1.0":
            continue  # NumPy 2.1 added the keywords `min` and `max`
        if _exists(name):
            _calls.append(NumPyCall(name, args, kwargs, smooth))


def _exists(name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of `trapz` and `in1d`
        try:
            return numpy_function(name) is not None
        except AttributeError:
            return False


def numpy_calls(*, core_only: bool = False) -> list[NumPyCall]:
    """Return calls of NumPy functions that traced values support, to be compared with NumPy's own results.

    Args:
      core_only: whether to leave out the functions that need lamina_numpy.
    Returns:
      A list of `NumPyCall`, without functions that the installed NumPy lacks.

    >>> first = numpy_calls()[0]
    >>> first.name, len(first.traced())
    ('sin', 1)
    >>> any(call.name == "linalg.solve" for call in numpy_calls(core_only=True))
    False
    """
    return [call for call in _calls if not core_only or _is_core(call.name)]


def _is_core(name: str) -> bool:
    """Return whether lamina_tracing implements a NumPy function itself."""
    numpy_dispatch = load_numpy_dispatch()
    module, _, function = name.rpartition(".")
    if module not in ("", "linalg", "fft"):  # a method of a ufunc
        return name in numpy_dispatch.implementations or function == "outer" and _is_core(module)
    return numpy_dispatch.name_of(numpy_function(name)) in numpy_dispatch.implementations


# --- elementwise -----------------------------------------------------------------------------------------------------

_add("sin cos tan arctan sinh cosh tanh arcsinh exp exp2 expm1 cbrt deg2rad rad2deg degrees radians fabs negative absolute "
     "square positive sinc i0 conjugate real imag", X)
_add("arcsin arccos arctanh", X / 4)
_add("log log2 log10 log1p sqrt reciprocal", P)
_add("arccosh", P + 1)
_add("sign floor ceil rint trunc fix round around signbit isfinite isnan isinf isposinf isneginf logical_not", X, smooth=False)
_add("isfinite isnan isinf logical_not", Z, smooth=False)
_add("round around", 100 * X, -1, smooth=False)
_add("round", X, decimals=1, smooth=False)
_add("conjugate real imag angle absolute exp square", Z, smooth=False)
_add("angle", Z, deg=True, smooth=False)
_add("add subtract multiply divide maximum minimum fmax fmin hypot arctan2 logaddexp logaddexp2 copysign", X, Y)
_add("add subtract multiply divide maximum", X, 2.5)
_add("add multiply true_divide subtract", 2, X)
_add("add multiply", X, _floats(3))
_add("add", X, Y[:, :1])
_add("power float_power", P, Y)
_add("power", X, 3)
_add("power", X, -2)
_add("power", 2.5, X)
_add("remainder fmod mod", X, Q)
_add("floor_divide divmod", X, Q, smooth=False)
_add("modf", X, smooth=False)
_add("heaviside", X, 0.5, smooth=False)
_add("ldexp", X, I % 4, smooth=True)
_add("nextafter", X, Y, smooth=False)
_add("equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor", X, Y, smooth=False)
_add("add", X, Y, dtype="float32", smooth=False)
_add("clip", X, -0.5, 0.8)
_add("clip", X, None, Y)
_add("clip", X, min=-0.4, max=1)
_add("nan_to_num", N, smooth=False)
_add("nan_to_num", N, nan=2.5, smooth=False)
_add("where", MASK, X, Y)
_add("where", MASK, X, 0)
_add("where", X, Y, 1.5, smooth=False)
_add("add.outer multiply.outer subtract.outer", V, W)
_add("select", [MASK, ~MASK], [X, Y], 0)
_add("choose", I[0] % 2, [X[0], Y[0]])
_add("isclose allclose", X, X + 1e-9, smooth=False)
_add("isclose", N, N, equal_nan=True, smooth=False)
_add("array_equal array_equiv", X, Y, smooth=False)
_add("array_equal", X, X.copy(), smooth=False)
_add("isin in1d", X, X[0], smooth=False)
_add("iscomplex isreal iscomplexobj isrealobj", Z, smooth=False)
_add("iscomplex isreal iscomplexobj isrealobj shape ndim size", X, smooth=False)
_add("size", X, 1, smooth=False)

# --- along axes ------------------------------------------------------------------------------------------------------

_REDUCTIONS = "sum prod max min amax amin mean var std ptp nansum nanprod nanmax nanmin nanmean nanvar nanstd"
_add(_REDUCTIONS, X)
_add(_REDUCTIONS, T, axis=1)
_add("sum prod max min mean var std nanmean nanvar", T, axis=(0, -1), keepdims=True)
_add("sum prod mean var std any all", X, where=MASK, axis=1, smooth=False)
_add("max min", X, where=MASK, initial=0.25, axis=0)
_add("sum", X, initial=2.0)
_add("sum mean", X, dtype="float32", smooth=False)
_add("var std", X, ddof=1)
_add("var std", Z, axis=1, smooth=False)
_add("nansum nanmean nanmax nanmin nanvar nanstd nancumsum nancumprod nanprod", N, axis=1, smooth=False)
_add("any all count_nonzero argmax argmin", X, smooth=False)
_add("any all count_nonzero argmax argmin nanargmax nanargmin", X, axis=1, keepdims=True, smooth=False)
_add("nanargmax nanargmin", N, axis=1, smooth=False)
_add("average", X, axis=1)
_add("average", X, 1, _floats(3) ** 2 + 0.2)
_add("average", X, 0, Q[:, 0])
_add("average", X, weights=Q, returned=True)
_add("cumsum cumprod nancumsum nancumprod", X)
_add("cumsum cumprod", X, axis=1)
_add("cumulative_sum cumulative_prod", V)
_add("cumulative_sum cumulative_prod", X, axis=0, include_initial=True)
_add("add.reduce multiply.reduce maximum.reduce minimum.reduce", X)
_add("add.reduce multiply.reduce", X, axis=None, keepdims=True)
_add("logical_and.reduce logical_or.reduce", X, axis=1, smooth=False)
_add("add.accumulate multiply.accumulate maximum.accumulate minimum.accumulate", X, axis=1)
_add("diff", V)
_add("diff", X, n=2, axis=1)
_add("diff", X, prepend=0.5, append=1.5)
_add("ediff1d", X, to_begin=0.5)
_add("trapezoid trapz", X)
_add("trapezoid", X, np.array([0.0, 0.5, 2.0]))
_add("trapezoid", X, dx=0.5, axis=0)
_add("gradient", V)
_add("gradient", V, 0.5, edge_order=2)
_add("gradient", V, np.array([0.0, 0.5, 2.0, 2.25]))
_add("gradient", V, np.array([0.0, 0.5, 2.0, 2.25]), edge_order=2)
_add("gradient", _floats(3, 4))
_add("gradient", _floats(3, 4), axis=1)
_add("interp", np.array([-2.0, 0.25, 0.7, 1.9, 5.0]), np.array([0.0, 0.5, 1.25, 2.0]), V)
_add("interp", np.array([-2.0, 0.25, 5.0]), np.array([0.0, 0.5, 1.25, 2.0]), V, left=-1.0, right=0.5)
for _mode in ("full", "same", "valid"):
    _add("convolve correlate", V, _floats(3), mode=_mode)
    _add("convolve correlate", _floats(3), V, mode=_mode)
    _add("correlate", _floats(5), V, mode=_mode)
    _add("correlate", V, _floats(5), mode=_mode)
_add("polyval", V, X)
_add("polyder", V)
_add("polyadd polysub polymul", V, _floats(3))
_add("vander", V)
_add("vander", V, 3, increasing=True)
_add("cov corrcoef", _floats(3, 5))
_add("cov", V, W)
_add("cov", _floats(5, 3), rowvar=False, bias=True)
_add("corrcoef", V, W)
_add("unwrap", np.array([0.5, 3.0, -2.9, -1.0, 3.1]))

# --- shapes ----------------------------------------------------------------------------------------------------------

_add("reshape", X, (3, 2))
_add("reshape", X, (-1, 2), order="F")
_add("ravel transpose squeeze flip fliplr flipud rot90 copy atleast_1d atleast_2d atleast_3d matrix_transpose", X)
_add("transpose", T, (2, 0, 1))
_add("linalg.matrix_transpose", T)
_add("swapaxes", T, 0, 2)
_add("moveaxis", T, 0, -1)
_add("moveaxis", T, (0, 1), (-1, 0))
_add("rollaxis", T, 2)
_add("rollaxis", T, 0, 3)
_add("squeeze", X[None, :, None], axis=0)
_add("expand_dims", X, 1)
_add("expand_dims", X, (0, 3))
_add("broadcast_to", V, (3, 4))
_add("broadcast_arrays", X, X[0])
_add("flip", T, (0, 2))
_add("rot90", X, 2)
_add("rot90", T, -1, (1, 2))
_add("atleast_3d atleast_2d", V)
_add("atleast_2d", V, X)
_add("astype", X, "float32", smooth=False)
_add("concatenate stack vstack hstack dstack column_stack", [X, Y])
_add("concatenate", [X, Y], 1)
_add("concatenate", [X, Y], axis=None)
_add("stack", [X, Y, X], -1)
_add("stack vstack hstack dstack column_stack", [V, W])
_add("append", X, Y, axis=0)
_add("append", X, V)
_add("block", [X, Y])
_add("split array_split", X, 3, axis=1)
_add("split array_split", V, [1, 3])
_add("array_split", V, 3)
_add("hsplit", X, 3)
_add("vsplit", X, 2)
_add("dsplit", T, 2)
_add("unstack", X)
_add("unstack", X, axis=1)
_add("tile", X, 2)
_add("tile", X, (2, 1, 2))
_add("repeat", X, 2)
_add("repeat", X, [1, 0, 2], axis=1)
_add("roll", X, 2)
_add("roll", X, (1, -1), axis=(0, 1))
_add("resize", X, (3, 4))
_add("pad", X, 1)
_add("pad", X, ((1, 2), (0, 1)), constant_values=2.5)
for _mode in ("edge", "wrap", "reflect", "symmetric"):
    _add("pad", X, ((1, 1), (2, 1)), mode=_mode)
_add("insert", V, 1, W[:1])
_add("insert", X, 1, 5.5, axis=1)
_add("insert", V, [0, 2], W[:2])
_add("delete", V, 1)
_add("delete", X, [0, 2], axis=1)
_add("zeros_like ones_like", X, smooth=False)
_add("full_like", X, 2.5, smooth=False)
_add("zeros_like", X, dtype="int32", shape=(2,), smooth=False)
_add("linspace", X, Y, 4)
_add("linspace", np.array(0.5), 2.0, 5, endpoint=False)
_add("logspace", X[0], 2.0, 3)
_add("geomspace", P[0], 2.0, 3)
_add("meshgrid", V, _floats(3))
_add("meshgrid", V, _floats(3), indexing="ij", sparse=True)

# --- indexing and sorting --------------------------------------------------------------------------------------------

_add("take", X, INDEX % 2, axis=0)
_add("take", X, INDEX)
_add("take", V, np.array([[5, -1], [2, 7]]), mode="wrap")
_add("take", V, np.array([5, 1]), mode="clip")
_add("take_along_axis", X, np.array([[2, 0], [1, 1]]), 1)
_add("take_along_axis", X, np.array([[1, 0, 1]]), axis=0)
_add("diagonal trace diag tril triu", S)
_add("diagonal trace", T, 1, 1, 2)
_add("diag tril triu", S, -1)
_add("diag", V)
_add("diag diagflat", V, 1)
_add("tril triu", T, 1)
_add("linalg.diagonal linalg.trace", STACK)
_add("compress", [True, False, True], X, axis=1)
_add("extract", MASK, X)
_add("sort", X)
_add("sort", X, axis=0)
_add("sort", X, axis=None)
_add("argsort", X, smooth=False)
_add("argsort", X, axis=0, smooth=False)
_add("lexsort", (X[0], Y[0]), smooth=False)
_add("searchsorted", np.sort(V), X, smooth=False)
_add("searchsorted", np.sort(V), X, side="right", smooth=False)
_add("digitize", X, [-1.0, 0.0, 1.0], smooth=False)
_add("digitize", X, [1.0, 0.0, -1.0], right=True, smooth=False)
_add("median", X)
_add("median", T, axis=(0, 2), keepdims=True)
_add("percentile", X, 30.0)
_add("percentile", T, [10.0, 75.0], axis=1)
for _mode in ("lower", "higher", "midpoint", "nearest"):
    _add("quantile", X, 0.4, method=_mode)
_add("quantile", X, [0.2, 0.9], axis=0, keepdims=True)
_add("median", N, axis=1, smooth=False)

# --- products and linear algebra -------------------------------------------------------------------------------------

_add("dot inner matmul tensordot", S, H)
_add("dot inner matmul vdot vecdot linalg.vecdot linalg.matmul", V, W)
_add("dot matmul", X, _floats(3))
_add("dot matmul inner", _floats(3), S)
_add("dot", T, _floats(5, 4, 3))
_add("dot", X, 2.0)
_add("matmul", T, _floats(2, 4, 3))
_add("matmul", T, _floats(4))
_add("matmul", _floats(3), T)
_add("matmul", X, _floats(5, 3, 2))
_add("matmul", _floats(5, 1, 2, 3), _floats(4, 3, 2))
_add("matmul", _floats(5, 2, 3), _floats(3, 2))
_add("outer linalg.outer", V, W)
_add("outer", X, V)
_add("vdot vecdot linalg.vecdot", Z[0], Z[1], smooth=False)
_add("matvec", S, _floats(3))
_add("vecmat", _floats(3), S)
_add("matvec", STACK, _floats(3))
_add("tensordot linalg.tensordot", T, _floats(3, 4, 2))
_add("tensordot", T, _floats(4, 2), axes=([2, 0], [0, 1]))
_add("tensordot", X, V, axes=0)
_add("kron", X, S)
_add("kron", V, X)
_add("cross linalg.cross", X, Y)
_add("cross", _floats(3, 2), _floats(3, 2, seed=1), axis=0)
for _spec, *_xs in (("ij,jk->ik", X, S), ("ij,jk", X, S), ("ii", S), ("ii->i", S), ("ij->ji", X), ("i,j->ij", V, W),
                    ("ij->", X), ("bij,bjk->bik", T, _floats(2, 4, 2)), ("...j,jk->...k", T, _floats(4, 2)), ("i,i", V, W),
                    ("ij,j,i->", X, S[0], Q[:, 0]),
                    ("ij,ij->i", X, Y), ("abc,cd,de->abe", T, _floats(4, 2), X), ("ij,kj->ik", X, X[:, :1] + np.zeros((2, 3)))):
    _add("einsum", _spec, *_xs)
_add("einsum", "ij,jk,kl->il", X, S, H, optimize=True)
_add("einsum", X, [0, 1], S, [1, 2], [0, 2])
_add("linalg.inv linalg.det linalg.slogdet linalg.cholesky linalg.eigvalsh linalg.qr linalg.svdvals linalg.pinv linalg.cond", H)
_add("linalg.eigh", H, smooth=False)
_add("linalg.inv linalg.det linalg.slogdet linalg.pinv", S4)
_add("linalg.inv linalg.det linalg.slogdet linalg.svdvals", STACK)
_add("linalg.det", np.array([[1.0, 2.0], [2.0, 4.0]]))
_add("linalg.slogdet", -S4)
_add("linalg.cholesky", H, upper=True)
_add("linalg.solve", S, _floats(3))
_add("linalg.solve", S, _floats(3, 2))
_add("linalg.solve", STACK, _floats(3, 2))
_add("linalg.solve", STACK, _floats(2, 3, 2))
_add("linalg.eigvalsh", H, "U")
_add("linalg.eigh", H, "U", smooth=False)
_add("linalg.eig linalg.eigvals", S, smooth=False)
_add("linalg.svd", S, smooth=False)
_add("linalg.svd", X, full_matrices=False, smooth=False)
_add("linalg.svd", X, compute_uv=False)
_add("linalg.qr", _floats(4, 3), smooth=True)
_add("linalg.qr", S, mode="r")
_add("linalg.pinv", _floats(4, 3) + np.eye(4, 3))
_add("linalg.pinv", X)
_add("linalg.lstsq", _floats(4, 3) + 2 * np.eye(4, 3), W)
_add("linalg.lstsq", _floats(4, 3) + 2 * np.eye(4, 3), _floats(4, 2), None)
_add("linalg.matrix_rank", S, smooth=False)
_add("linalg.matrix_rank", np.outer(V, W), smooth=False)
_add("linalg.matrix_power", S, 3)
_add("linalg.matrix_power", S, -2)
_add("linalg.matrix_power", S, 0, smooth=False)
_add("linalg.multi_dot", [X, S, H])
_add("linalg.multi_dot", [_floats(3), S, H, _floats(3)])
_add("linalg.tensorsolve", _floats(2, 3, 6) + np.eye(6).reshape(2, 3, 6) * 4, X)
_add("linalg.tensorinv", (_floats(6, 6) + np.eye(6) * 4).reshape(2, 3, 6))
_add("linalg.norm linalg.vector_norm", V)
_ord: Any
for _ord in (1, 3, np.inf, -np.inf, 0):
    _add("linalg.norm linalg.vector_norm", V, ord=_ord, smooth=_ord != 0)

for _ord in (1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
    _add("linalg.norm linalg.matrix_norm", S, ord=_ord)
_add("linalg.norm", T, axis=1)
_add("linalg.norm", T, ord="fro", axis=(0, 2), keepdims=True)
_add("linalg.norm", Z, smooth=False)
for _ord in (1, 2, "fro"):
    _add("linalg.cond", S, _ord)

# --- Fourier transforms ----------------------------------------------------------------------------------------------

_add("fft.fft fft.ifft fft.rfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2 fft.fftn fft.ifftn fft.rfftn fft.irfft fft.hfft "
     "fft.irfft2 fft.irfftn", _floats(3, 4), smooth=False)
_add("fft.fft fft.ifft fft.hfft fft.irfft fft.fft2 fft.irfftn", Z, smooth=False)
_add("fft.fft fft.rfft fft.irfft", T, n=5, axis=1, norm="ortho", smooth=False)
_add("fft.ifft fft.irfft", T, n=2, norm="forward", smooth=False)
_add("fft.fftn fft.rfftn fft.irfftn", T, s=(4, 3), axes=(0, 2), smooth=False)
_add("fft.fftshift fft.ifftshift", T)
_add("fft.fftshift", V, axes=0)
