"""Names of the default implementation, for the facade and for plugins: `from lamina_numpy._default import *`."""
import typing as _typing

import numpy as _np
from lamina_tracing import Array as ndarray
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from . import _operators
from ._core.public_api import publish as _publish
from ._core.conversion import array, asarray, astype, copy, from_dlpack, frombuffer, fromfile, fromiter, fromstring
from ._core.scalar_types import (bfloat16, bool_, can_cast, cdouble, character, complex128, complex64, complex_,
                                 complexfloating, csingle, double, dtype, finfo, flexible, float16, float32,
                                 float4_e2m1fn, float64, float6_e2m3fn, float6_e3m2fn, float8_e3m4, float8_e4m3,
                                 float8_e4m3b11fnuz, float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz,
                                 float8_e8m0fnu, float_, floating, generic, iinfo, inexact, int16, int2, int32, int4,
                                 int64, int8, int_, integer, isdtype, issubdtype, number, object_, promote_types,
                                 result_type, signedinteger, single, uint, uint16, uint2, uint32, uint4, uint64, uint8,
                                 unsignedinteger)
from ._elementwise.ufuncs import (abs, absolute, acos, acosh, add, angle, arccos, arccosh, arcsin, arcsinh, arctan,
                                  arctan2, arctanh, asin, asinh, atan, atan2, atanh, cbrt, clip, conj, conjugate, cos,
                                  cosh, deg2rad, degrees, divide, exp, exp2, expm1, fabs, imag, log, log10, log1p, log2,
                                  maximum, minimum, multiply, negative, nextafter, positive, rad2deg, radians, real,
                                  reciprocal, sign, sin, sinh, sqrt, square, subtract, tan, tanh, true_divide)
from ._elementwise.powers import float_power, pow, power
from ._elementwise.division import divmod, floor_divide, fmod, mod, remainder
from ._elementwise.rounding import around, ceil, fix, floor, modf, rint, round, round_, trunc
from ._elementwise.logic import (allclose, array_equal, array_equiv, bitwise_and, bitwise_count, bitwise_invert,
                                 bitwise_left_shift, bitwise_not, bitwise_or, bitwise_right_shift, bitwise_xor, equal,
                                 greater, greater_equal, invert, isclose, iscomplex, iscomplexobj, isfinite, isinf,
                                 isnan, isneginf, isposinf, isreal, isrealobj, isscalar, left_shift, less, less_equal,
                                 logical_and, logical_not, logical_or, logical_xor, not_equal, right_shift)
from ._shape.layout import (atleast_1d, atleast_2d, atleast_3d, broadcast_arrays, broadcast_shapes, broadcast_to,
                            expand_dims, flip, fliplr, flipud, matrix_transpose, moveaxis, ndim, permute_dims, ravel,
                            reshape, rollaxis, rot90, shape, size, squeeze, swapaxes, transpose)
from ._shape.joining import (append, array_split, block, column_stack, concat, concatenate, dsplit, dstack, hsplit,
                             hstack, split, stack, unstack, vsplit, vstack)
from ._shape.tiling import resize, roll, tile
from ._creation.creation import (arange, empty, empty_like, eye, full, full_like, identity, ones, ones_like, tri, zeros,
                                 zeros_like)
from ._creation.ranges import geomspace, linspace, logspace
from ._reductions.reductions import (all, amax, amin, any, argmax, argmin, count_nonzero, max, min, nanargmax,
                                     nanargmin, prod, ptp, sum)
from ._reductions.averages import average, mean, std, var
from ._reductions.cumulative import cumprod, cumsum, cumulative_prod, cumulative_sum, nancumprod, nancumsum
from ._products.products import cross, dot, inner, kron, matmul, matvec, outer, tensordot, vdot, vecdot, vecmat
from ._indexing.take import put_along_axis, take, take_along_axis
from ._indexing.searching import digitize, searchsorted
from ._indexing.positions import argwhere, flatnonzero, ix_, nonzero, ravel_multi_index, unravel_index
from ._indexing.selection import choose, compress, extract, piecewise, place, put, select, where
from ._indexing.diagonals import (diag, diag_indices, diag_indices_from, diagflat, diagonal, fill_diagonal,
                                  mask_indices, trace, tril, tril_indices, tril_indices_from, triu, triu_indices,
                                  triu_indices_from)
from ._indexing.repeats import delete, insert, repeat, trim_zeros
from ._sorting.sorting import argpartition, argsort, lexsort, partition, sort, sort_complex
from ._version import __version__

__all__ = [
    "ComplexWarning", "__version__", "abs", "absolute", "acos", "acosh", "add", "all", "allclose", "amax", "amin", "angle",
    "any", "append", "apply_along_axis", "apply_over_axes", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "argmax", "argmin", "argpartition", "argsort", "argwhere", "around", "array",
    "array_equal", "array_equiv", "array_repr", "array_split", "array_str", "asarray", "asin", "asinh", "astype",
    "atan", "atan2", "atanh", "atleast_1d", "atleast_2d", "atleast_3d", "average", "bartlett", "bfloat16",
    "bincount", "bitwise_and", "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blackman", "block", "bool", "bool_", "broadcast_arrays",
    "broadcast_shapes", "broadcast_to", "c_", "can_cast", "cbrt", "cdouble", "ceil", "character", "choose",
    "clip", "column_stack", "complex128", "complex64", "complex_", "complexfloating", "compress", "concat",
    "concatenate", "conj", "conjugate", "convolve", "copy", "copysign", "corrcoef", "correlate", "cos", "cosh",
    "count_nonzero", "cov", "cross", "csingle", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum",
    "deg2rad", "degrees", "delete", "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "diff",
    "digitize", "divide", "divmod", "dot", "double", "dsplit", "dstack", "dtype", "e", "ediff1d", "einsum",
    "einsum_path", "empty", "empty_like", "equal", "euler_gamma", "exp", "exp2", "expand_dims", "expm1",
    "extract", "eye", "fabs", "fft", "fill_diagonal", "finfo", "fix", "flatnonzero", "flexible", "flip", "fliplr",
    "flipud", "float16", "float32", "float4_e2m1fn", "float64", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4",
    "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float_", "float_power", "floating", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "frexp", "from_dlpack", "frombuffer", "fromfile", "fromfunction", "fromiter", "frompyfunc", "fromstring", "full",
    "full_like", "gcd", "generic", "geomspace", "get_printoptions", "gradient", "greater", "greater_equal",
    "hamming", "hanning", "heaviside", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "hsplit",
    "hstack", "hypot", "i0", "identity", "iinfo", "imag", "index_exp", "indices", "inexact", "inf", "inner",
    "insert", "int16", "int2", "int32", "int4", "int64", "int8", "int_", "integer", "interp", "intersect1d",
    "invert", "isclose", "iscomplex", "iscomplexobj", "isdtype", "isfinite", "isin", "isinf", "isnan", "isneginf",
    "isposinf", "isreal", "isrealobj", "isscalar", "issubdtype", "iterable", "ix_", "kaiser", "kron", "lcm",
    "ldexp", "left_shift", "less", "less_equal", "lexsort", "linalg", "linspace", "load", "log", "log10", "log1p",
    "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "logspace",
    "mask_indices", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean", "median", "meshgrid",
    "mgrid", "min", "minimum", "minmax", "mod", "modf", "moveaxis", "multiply", "nan", "nan_to_num", "nanargmax",
    "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "ndarray", "ndim", "negative", "newaxis", "nextafter",
    "nonzero", "not_equal", "number", "object_", "ogrid", "ones", "ones_like", "outer", "packbits", "pad",
    "partition", "percentile", "permute_dims", "pi", "piecewise", "place", "poly", "polyadd", "polyder",
    "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "positive", "pow", "power", "printoptions",
    "prod", "promote_types", "ptp", "put", "put_along_axis", "quantile", "r_", "rad2deg", "radians", "ravel",
    "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape", "resize", "result_type",
    "right_shift", "rint", "roll", "rollaxis", "roots", "rot90", "round", "round_", "s_", "save", "savez", "searchsorted",
    "select", "set_printoptions", "setdiff1d", "setxor1d", "shape", "sign", "signbit", "signedinteger", "sin",
    "sinc", "single", "sinh", "size", "sort", "sort_complex", "spacing", "split", "sqrt", "square", "squeeze",
    "stack", "std", "subtract", "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "top_k",
    "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices", "tril_indices_from", "trim_zeros", "triu",
    "triu_indices", "triu_indices_from", "true_divide", "trunc", "uint", "uint16", "uint2", "uint32", "uint4",
    "uint64", "uint8", "ufunc", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unpackbits", "unravel_index", "unsignedinteger", "unstack", "unwrap", "vander", "var", "vdot", "vecdot",
    "vecmat", "vectorize", "vsplit", "vstack", "where", "zeros", "zeros_like"
]

# What few programs use: module -> its names; it is loaded when one of them is asked for. Type checkers read them below.
_LATER = {
    "fft": "", "linalg": "",
    "_numerics.apply": "apply_along_axis apply_over_axes vectorize",
    "_numerics.convolution": "bartlett blackman convolve correlate hamming hanning kaiser",
    "_numerics.covariance": "corrcoef cov",
    "_numerics.differences": "diff ediff1d gradient interp trapezoid unwrap",
    "_numerics.padding": "pad",
    "_numerics.polynomials": "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots vander",
    "_numerics.ufunc": "frompyfunc ufunc",
    "_products.einsum": "einsum einsum_path",
    "_elementwise.special": "copysign fmax fmin frexp gcd heaviside hypot i0 lcm ldexp logaddexp logaddexp2 nan_to_num "
                            "signbit sinc spacing",
    "_creation.files": "array_repr array_str load save savez",
    "_creation.grids": "c_ fromfunction index_exp indices meshgrid mgrid ogrid r_ s_",
    "_sorting.histograms": "bincount histogram histogram2d histogram_bin_edges histogramdd",
    "_sorting.selection": "minmax top_k",
    "_sorting.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "_sorting.sets": "intersect1d isin setdiff1d setxor1d union1d unique unique_all unique_counts unique_inverse "
                   "unique_values",
    "_reductions.nan": "nanmax nanmean nanmin nanprod nanstd nansum nanvar",
    "_shape.bits": "packbits unpackbits",
}
if _typing.TYPE_CHECKING:
    from . import fft, linalg
    from ._numerics.apply import *
    from ._numerics.convolution import *
    from ._numerics.covariance import *
    from ._numerics.differences import *
    from ._numerics.padding import *
    from ._numerics.polynomials import *
    from ._numerics.ufunc import *
    from ._products.einsum import *
    from ._elementwise.special import *
    from ._creation.files import *
    from ._creation.grids import *
    from ._sorting.histograms import *
    from ._sorting.quantiles import *
    from ._sorting.selection import *
    from ._sorting.sets import *
    from ._reductions.nan import *
    from ._shape.bits import *

e = _np.e
euler_gamma = _np.euler_gamma
inf = _np.inf
nan = _np.nan
newaxis = None
pi = _np.pi
bool = bool_
get_printoptions, set_printoptions, printoptions = _np.get_printoptions, _np.set_printoptions, _np.printoptions
iterable = _np.iterable
ComplexWarning = _np.exceptions.ComplexWarning

_hide_frames_of(__file__.rsplit("/", 1)[0])
_operators.install()
_publish(globals(), _LATER)
