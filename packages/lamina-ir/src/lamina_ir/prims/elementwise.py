"""Elementwise primitives: operands of one dtype and one shape, or rank 0; the result has that shape.

Type rules return an operand's aval object itself where possible. This is the common case while tracing, and it avoids
creating and comparing types.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import DTypeError, ShapeError
from .._core.primitive import Primitive
from ._numpy import special
from ._numpy.ufunc_plans import in_double_precision, mark_broadcasting, without_warnings
from ..typing import Function, ParamValue, Value

__all__ = [
    "abs_p", "acos_p", "acosh_p", "add_p", "and_p", "asin_p", "asinh_p", "atan2_p", "atan_p", "atanh_p",
    "bessel_i0e_p", "bessel_i1e_p", "bitcast_convert_type_p", "cbrt_p", "ceil_p", "clamp_p", "clz_p", "complex_p",
    "conj_p", "convert_element_type_p", "copy_p", "cos_p", "cosh_p", "digamma_p", "div_p", "eq_p", "erf_inv_p",
    "erf_p", "erfc_p", "exp2_p", "exp_p", "expm1_p", "floor_p", "ge_p", "gt_p", "imag_p", "integer_pow_p",
    "is_finite_p", "le_p", "lgamma_p", "log1p_p", "log_p", "logistic_p", "lt_p", "max_p", "min_p", "mul_p", "ne_p",
    "neg_p", "nextafter_p", "not_p", "or_p", "polygamma_p", "population_count_p", "pow_p", "real_p",
    "reduce_precision_p", "rem_p",
    "round_p", "rsqrt_p", "select_p", "shift_left_p", "shift_right_arithmetic_p", "shift_right_logical_p", "sign_p",
    "sin_p", "sinh_p", "sqrt_p", "square_p", "stop_gradient_p", "sub_p", "tan_p", "tanh_p", "xor_p", "zeta_p"]

BOOL = dtypes.BOOL
_Kinds = tuple[frozenset[np.dtype], str]
_ALL = [dtypes.from_short_name(n) for n in dtypes._LONG if n != "float0"]


def _kinds(description: str, *tests: Callable[[np.dtype], bool]) -> _Kinds:
    return frozenset(d for d in _ALL if any(t(d) for t in tests)), description


FLOAT = _kinds("floats", dtypes.is_float)
COMPLEX = _kinds("complex numbers", dtypes.is_complex)
INEXACT = _kinds("float or complex numbers", dtypes.is_inexact)
NUMBER = _kinds("numbers", dtypes.is_number)
BITS = _kinds("integers or truth values", dtypes.is_integer, dtypes.is_bool)
INTEGER = _kinds("integers", dtypes.is_integer)
REAL = _kinds("real numbers", dtypes.is_float, dtypes.is_integer)
ORDERED = _kinds("real numbers or truth values", dtypes.is_float, dtypes.is_integer, dtypes.is_bool)
ANY = _kinds("numbers or truth values", dtypes.is_number, dtypes.is_bool)


class _WithKeys(frozenset[np.dtype]):
    """Dtypes including all PRNG key dtypes, also those defined later: selecting, copying and comparing work on keys."""

    @override
    def __contains__(self, d: object) -> bool:
        return super().__contains__(d) or isinstance(d, np.dtype) and dtypes.is_key(d)


MOVED: _Kinds = _WithKeys(_kinds("arrays", lambda d: True)[0]), "arrays"


def _equal(x: Value, y: Value) -> Value:
    """Compare elementwise; keys are equal if all of their uint32 data is."""
    if not x.dtype.names:
        return np.equal(x, y)
    field = x.dtype.names[0]
    return np.all(x[field] == y[field], axis=-1)


# --- types -------------------------------------------------------------------------------------------------------


def refuse(name: str, x: ShapedArray, description: str) -> DTypeError:
    return DTypeError(f"{name}: expected {description}; got {x.str_long()}; convert with lax.convert_element_type")


def one_shape(name: str, *avals: ShapedArray) -> tuple[int, ...]:
    """Return the common shape of operands, ignoring rank-0 ones; raise ShapeError if they have different shapes."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape and a.shape != shape:
            if shape:
                types = ", ".join(a.str_long() for a in avals)
                # StableHLO constraint C1 of the operation, except that rank-0 operands are broadcast here.
                raise ShapeError(f"{name}: operands need one shape, or rank 0; got {types}; use lax.broadcast_in_dim, "
                                 "or NumPy's functions, which broadcast")
            shape = a.shape
    return shape


def one_type(name: str, kinds: _Kinds, *avals: ShapedArray) -> ShapedArray:
    """Return the type of a result with the operands' dtype and shape; weak if all of them are."""
    first = avals[0]
    dtype, weak = first.dtype, True
    for a in avals:
        if a.dtype is not dtype and a.dtype != dtype:
            types = " and ".join(a.str_long() for a in avals)
            raise DTypeError(f"{name}: operands need one dtype; got {types}; convert with lax.convert_element_type")
        weak = weak and a.weak_type
    if dtype not in kinds[0]:
        raise refuse(name, first, kinds[1])
    shape = one_shape(name, *avals)
    for a in avals:
        if a.weak_type is weak and a.shape == shape:
            return a
    return shaped(shape, dtype, weak)


def _same_1(name: str, kinds: _Kinds) -> Callable[..., ShapedArray]:
    accepted, description = kinds

    def infer(x: ShapedArray, **params: ParamValue) -> ShapedArray:
        if x.dtype in accepted:
            return x
        raise refuse(name, x, description)
    return infer


def _same_2(name: str, kinds: _Kinds) -> Callable[..., ShapedArray]:
    accepted = kinds[0]

    def infer(x: ShapedArray, y: ShapedArray) -> ShapedArray:
        d = x.dtype
        if d is y.dtype and d in accepted:  # fast path of `one_type` for the common cases
            if x is y:
                return x
            shape = y.shape
            # The result is weak only if both operands are. So an operand's own type is the result's if it has the full
            # shape, and is weak only where the other one is too.
            if (not shape or shape == x.shape) and (y.weak_type or not x.weak_type):
                return x
            if not x.shape and (x.weak_type or not y.weak_type):
                return y
        return one_type(name, kinds, x, y)
    return infer


def _comparison_1(name: str, kinds: _Kinds) -> Callable[..., ShapedArray]:
    accepted = kinds[0]

    def infer(x: ShapedArray) -> ShapedArray:
        if x.dtype not in accepted:
            raise refuse(name, x, kinds[1])
        return shaped(x.shape, BOOL)
    return infer


def _comparison_2(name: str, kinds: _Kinds) -> Callable[..., ShapedArray]:
    accepted = kinds[0]

    def infer(x: ShapedArray, y: ShapedArray) -> ShapedArray:
        if x != y or x.dtype not in accepted:
            x = one_type(name, kinds, x, y)
        return shaped(x.shape, BOOL)
    return infer


def _part(name: str, kinds: _Kinds) -> Callable[..., ShapedArray]:
    same = _same_1(name, kinds)

    def infer(x: ShapedArray) -> ShapedArray:
        x = same(x)
        return shaped(x.shape, dtypes.real_dtype(x.dtype), x.weak_type) if x.dtype in COMPLEX[0] else x
    return infer


def _complex_infer(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    part = one_type("complex", FLOAT, x, y)
    # There is no complex type of two half-precision parts.
    if part.dtype.itemsize < 4:
        raise refuse("complex", part, "float32 or float64")
    return shaped(part.shape, dtypes.complex_dtype(part.dtype), part.weak_type)


def _pow_infer(x: ShapedArray, y: ShapedArray) -> ShapedArray:
    if x.dtype in INEXACT[0] and y.dtype in INTEGER[0]:
        shape, weak = one_shape("pow", x, y), x.weak_type and y.weak_type
        return x if shape == x.shape and weak == x.weak_type else shaped(shape, x.dtype, weak)
    return one_type("pow", NUMBER, x, y)


def _select_infer(pred: ShapedArray, on_true: ShapedArray, on_false: ShapedArray) -> ShapedArray:
    if pred.dtype != BOOL:
        raise DTypeError(f"select: pred must be bool; got {pred.str_long()}; compare it with 0 first")
    if on_true is on_false and on_true.shape == pred.shape:
        return on_true
    branch = one_type("select", MOVED, on_true, on_false)
    shape = one_shape("select", pred, branch)
    return branch if shape == branch.shape else shaped(shape, branch.dtype, branch.weak_type)


def _clamp_infer(lo: ShapedArray, x: ShapedArray, hi: ShapedArray) -> ShapedArray:
    out = one_type("clamp", ORDERED, lo, x, hi)
    return x if x.shape == out.shape else out


def _convert_infer(x: ShapedArray, *, new_dtype: np.dtype, weak_type: bool) -> ShapedArray:
    # Also the only conversion that keys admit.
    if x.dtype == new_dtype and x.weak_type is weak_type:
        return x
    if dtypes.is_key(x.dtype) or dtypes.is_key(new_dtype):
        raise DTypeError(f"convert_element_type: PRNG keys cannot be converted; got {x.str_long()} and dtype "
                         f"{dtypes.long_name(new_dtype)}. Use random.key_data(keys) for the raw uint32 data, or "
                         "random.wrap_key_data(data) to make keys of it")
    return shaped(x.shape, new_dtype, weak_type)


def _reduce_precision_infer(x: ShapedArray, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
    if x.dtype not in FLOAT[0]:
        raise refuse("reduce_precision", x, FLOAT[1])
    if not 1 <= exponent_bits < 1 << 31 or not 0 <= mantissa_bits < 1 << 31:
        # StableHLO reduce_precision C2-C3
        raise ValueError(f"reduce_precision: exponent_bits must be at least 1, mantissa_bits at least 0, and both below "
                         f"2**31; got {exponent_bits} and {mantissa_bits}")
    return x


def dtype_bits(dtype: np.dtype) -> int:
    """Return the number of bits of a float or integer dtype; for `int4`, 4."""
    return int((dtypes.finfo if dtypes.is_float(dtype) else dtypes.iinfo)(dtype).bits)


def _bitcast_infer(x: ShapedArray, *, new_dtype: np.dtype) -> ShapedArray:
    if x.dtype == new_dtype:
        return x.strip_weak_type()
    if BOOL in (x.dtype, new_dtype) or x.dtype in COMPLEX[0] or new_dtype in COMPLEX[0]:
        raise DTypeError(f"bitcast_convert_type: expected integer or float dtypes; got {x.str_long()} to {new_dtype.name}")
    bits = dtype_bits(x.dtype), dtype_bits(new_dtype)
    if min(bits) < 8 and bits[0] != bits[1]:
        raise DTypeError(f"bitcast_convert_type: a dtype of less than 8 bits must be converted to one of as many bits; got "
                         f"{x.str_long()} to {new_dtype.name}")
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if new == old:
        return shaped(x.shape, new_dtype)
    if new < old:
        return shaped((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        # StableHLO bitcast_convert C1
        raise ShapeError(f"bitcast_convert_type: {new_dtype.name} takes {new // old} elements of {x.dtype.name} each, "
                         f"which must form the last axis; got {x.str_long()}")
    return shaped(x.shape[:-1], new_dtype)


# --- primitives --------------------------------------------------------------------------------------------------


def _op(name: str, infer: Function, implementation: Function, spec: str, *, linear_in: Sequence[int] = (),
        bilinear_in: Sequence[int] = (), params: Sequence[str] = (), elementwise: bool = True) -> Primitive:
    return Primitive(name, infer=infer, numpy=implementation, params=params, linear_in=linear_in, bilinear_in=bilinear_in,
                     family="elementwise", spec=spec, elementwise=elementwise)


def _unary(name: str, kinds: _Kinds, implementation: Function, spec: str, **facts: ParamValue) -> Primitive:
    return _op(name, _same_1(name, kinds), implementation, spec, **facts)


def _binary(name: str, kinds: _Kinds, implementation: Function, spec: str, **facts: ParamValue) -> Primitive:
    return _op(name, _same_2(name, kinds), implementation, spec, **facts)


def _compare(name: str, kinds: _Kinds, implementation: Function) -> Primitive:
    return _op(name, _comparison_2(name, kinds), without_warnings(implementation), "compare")


# unary, any number
neg_p = _unary("neg", NUMBER, without_warnings(np.negative), "negate", linear_in=(0,))
sign_p = _unary("sign", NUMBER, without_warnings(special.sign), "sign")
square_p = _unary("square", NUMBER, without_warnings(np.square), "multiply")
integer_pow_p = _unary("integer_pow", NUMBER, special.integer_pow, "power", params=("y",))
abs_p = _op("abs", _part("abs", NUMBER), without_warnings(np.abs), "abs")
copy_p = _unary("copy", MOVED, np.array, "identity", linear_in=(0,))
stop_gradient_p = _unary("stop_gradient", MOVED, np.array, "identity")

# unary, floats
floor_p = _unary("floor", FLOAT, without_warnings(np.floor), "floor")
ceil_p = _unary("ceil", FLOAT, without_warnings(np.ceil), "ceil")
round_p = _unary("round", FLOAT, without_warnings(lambda x, *, rounding_method: np.rint(x) if rounding_method
                                                  else in_double_precision(special.round_away)(x)),
                 "round_nearest_afz, round_nearest_even", params=("rounding_method",))
is_finite_p = _op("is_finite", _comparison_1("is_finite", FLOAT), without_warnings(np.isfinite), "is_finite")
cbrt_p = _unary("cbrt", FLOAT, in_double_precision(np.cbrt), "cbrt")
erf_p = _unary("erf", FLOAT, in_double_precision(special.erf), "chlo.erf")
erfc_p = _unary("erfc", FLOAT, in_double_precision(special.erfc), "chlo.erfc")
erf_inv_p = _unary("erf_inv", FLOAT, in_double_precision(special.erf_inv), "chlo.erf_inv")
lgamma_p = _unary("lgamma", FLOAT, in_double_precision(special.lgamma), "chlo.lgamma")
digamma_p = _unary("digamma", FLOAT, in_double_precision(special.digamma), "chlo.digamma")
bessel_i0e_p = _unary("bessel_i0e", FLOAT, in_double_precision(special.bessel_i0e), "DLMF 10.25")
bessel_i1e_p = _unary("bessel_i1e", FLOAT, in_double_precision(special.bessel_i1e), "chlo.bessel_i1e")

# unary, float or complex
exp_p = _unary("exp", INEXACT, in_double_precision(np.exp), "exponential")
exp2_p = _unary("exp2", INEXACT, in_double_precision(special.exp2), "exponential")
expm1_p = _unary("expm1", INEXACT, in_double_precision(np.expm1), "exponential_minus_one")
log_p = _unary("log", INEXACT, in_double_precision(np.log), "log")
log1p_p = _unary("log1p", INEXACT, in_double_precision(special.log1p), "log_plus_one")
sin_p = _unary("sin", INEXACT, in_double_precision(np.sin), "sine")
cos_p = _unary("cos", INEXACT, in_double_precision(np.cos), "cosine")
tan_p = _unary("tan", INEXACT, in_double_precision(np.tan), "tan")
asin_p = _unary("asin", INEXACT, in_double_precision(np.arcsin), "chlo.asin")
acos_p = _unary("acos", INEXACT, in_double_precision(np.arccos), "chlo.acos")
atan_p = _unary("atan", INEXACT, in_double_precision(np.arctan), "chlo.atan")
sinh_p = _unary("sinh", INEXACT, in_double_precision(np.sinh), "chlo.sinh")
cosh_p = _unary("cosh", INEXACT, in_double_precision(np.cosh), "chlo.cosh")
tanh_p = _unary("tanh", INEXACT, in_double_precision(np.tanh), "tanh")
asinh_p = _unary("asinh", INEXACT, in_double_precision(np.arcsinh), "chlo.asinh")
acosh_p = _unary("acosh", INEXACT, in_double_precision(np.arccosh), "chlo.acosh")
atanh_p = _unary("atanh", INEXACT, in_double_precision(np.arctanh), "chlo.atanh")
sqrt_p = _unary("sqrt", INEXACT, in_double_precision(np.sqrt), "sqrt")
rsqrt_p = _unary("rsqrt", INEXACT, in_double_precision(lambda x: 1 / np.sqrt(x)), "rsqrt")
logistic_p = _unary("logistic", INEXACT, in_double_precision(lambda x: 1 / (1 + np.exp(-x))), "logistic")

# complex numbers and their parts
real_p = _op("real", _part("real", COMPLEX), lambda x: np.array(x.real), "real", linear_in=(0,))
imag_p = _op("imag", _part("imag", COMPLEX), lambda x: np.array(x.imag), "imag", linear_in=(0,))
conj_p = _unary("conj", COMPLEX, lambda x: np.asarray(np.conj(x)), "negate", linear_in=(0,))
complex_p = _op("complex", _complex_infer, special.from_parts, "complex", linear_in=(0, 1))

# unary, bits
not_p = _unary("not", BITS, lambda x: np.asarray(np.invert(x)), "not")
population_count_p = _unary("population_count", INTEGER, without_warnings(special.bit_counts), "popcnt")
clz_p = _unary("clz", INTEGER, without_warnings(special.leading_zeros), "count_leading_zeros")

# change of dtype
convert_element_type_p = _op("convert_element_type", _convert_infer, without_warnings(special.convert), "convert",
                             linear_in=(0,), params=("new_dtype", "weak_type"))
reduce_precision_p = _op("reduce_precision", _reduce_precision_infer, without_warnings(special.reduce_precision),
                         "reduce_precision", linear_in=(0,), params=("exponent_bits", "mantissa_bits"))
bitcast_convert_type_p = _op("bitcast_convert_type", _bitcast_infer, special.bitcast, "bitcast_convert",
                             params=("new_dtype",), elementwise=False)

# n-ary, arithmetic; add and mul of booleans are "or" and "and"
add_p = _binary("add", ANY, without_warnings(np.add), "add", linear_in=(0, 1))
sub_p = _binary("sub", NUMBER, without_warnings(np.subtract), "subtract", linear_in=(0, 1))
mul_p = _binary("mul", ANY, without_warnings(np.multiply), "multiply", bilinear_in=(0, 1))
div_p = _binary("div", NUMBER, without_warnings(special.div), "divide")
rem_p = _binary("rem", REAL, without_warnings(special.rem), "remainder")
pow_p = _op("pow", _pow_infer, without_warnings(special.power), "power")
max_p = _binary("max", ANY, without_warnings(np.maximum), "maximum")
min_p = _binary("min", ANY, without_warnings(np.minimum), "minimum")
atan2_p = _binary("atan2", FLOAT, in_double_precision(np.arctan2), "atan2")
nextafter_p = _binary("nextafter", FLOAT, without_warnings(np.nextafter), "chlo.next_after")
polygamma_p = _binary("polygamma", FLOAT, in_double_precision(special.polygamma), "chlo.polygamma")
zeta_p = _binary("zeta", FLOAT, in_double_precision(special.zeta), "chlo.zeta")

# n-ary, bits
and_p = _binary("and", BITS, without_warnings(np.bitwise_and), "and")
or_p = _binary("or", BITS, without_warnings(np.bitwise_or), "or")
xor_p = _binary("xor", BITS, without_warnings(np.bitwise_xor), "xor")
shift_left_p = _binary("shift_left", INTEGER, without_warnings(partial(special.shift, np.left_shift, True)), "shift_left")
shift_right_logical_p = _binary("shift_right_logical", INTEGER, without_warnings(partial(special.shift, np.right_shift, True)),
                                "shift_right_logical")
shift_right_arithmetic_p = _binary("shift_right_arithmetic", INTEGER,
                                   without_warnings(partial(special.shift, np.right_shift, False)), "shift_right_arithmetic")

# comparisons; NaN is unequal to everything
eq_p = _compare("eq", MOVED, _equal)
ne_p = _compare("ne", MOVED, lambda x, y: np.logical_not(_equal(x, y)) if x.dtype.names else np.not_equal(x, y))
lt_p = _compare("lt", ORDERED, np.less)
le_p = _compare("le", ORDERED, np.less_equal)
gt_p = _compare("gt", ORDERED, np.greater)
ge_p = _compare("ge", ORDERED, np.greater_equal)

# selection
select_p = _op("select", _select_infer, mark_broadcasting(lambda pred, t, f: np.where(pred, t, f)), "select", linear_in=(1, 2))
clamp_p = _op("clamp", _clamp_infer, without_warnings(lambda lo, x, hi: np.minimum(np.maximum(x, lo), hi)), "clamp")
