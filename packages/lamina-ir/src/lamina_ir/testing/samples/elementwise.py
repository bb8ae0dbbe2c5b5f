"""Samples of the elementwise family: each primitive on arrays, with rank-0 operands, and on dtypes where it differs."""
from __future__ import annotations

import numpy as np

from ..._types import dtypes
from ... import prims as p
from ..sampling import away, bools, complexes, distinct, floats, ints, positives, sample, small_ints, uints, unit

BF16 = "bfloat16"

for _prim in (p.exp_p, p.exp2_p, p.expm1_p, p.sin_p, p.cos_p, p.atan_p, p.sinh_p, p.cosh_p, p.tanh_p, p.asinh_p,
              p.logistic_p, p.square_p, p.neg_p):
    sample(_prim, floats(2, 3))
    sample(_prim, floats())
    sample(_prim, complexes(3))
for _prim in (p.asin_p, p.acos_p, p.atanh_p, p.tan_p):
    sample(_prim, unit(2, 3))
    sample(_prim, complexes(3))
for _prim in (p.log_p, p.log1p_p, p.sqrt_p, p.rsqrt_p):
    sample(_prim, positives(2, 3))
    sample(_prim, complexes(3))
sample(p.acosh_p, np.array([[1.5, 2.0, 3.0], [1.1, 7.0, 1.2]], np.float32))
sample(p.acosh_p, np.array([0.5 + 1j, 2 - 1j, 1 + 0.25j], np.complex64))
for _prim in (p.erf_p, p.erfc_p, p.bessel_i0e_p, p.bessel_i1e_p, p.copy_p, p.stop_gradient_p):
    sample(_prim, floats(2, 3))
    sample(_prim, floats())
for _prim in (p.floor_p, p.ceil_p, p.cbrt_p, p.sign_p, p.abs_p):
    sample(_prim, away(2, 3))
for _prim in (p.lgamma_p, p.digamma_p):
    sample(_prim, positives(2, 3))
sample(p.erf_inv_p, unit(2, 3))
for _prim in (p.bessel_i0e_p, p.bessel_i1e_p):
    sample(_prim, np.array([-12.0, 7.9, 8.1, 300.0], np.float32))
for _prim in (p.tanh_p, p.sin_p, p.log1p_p, p.logistic_p):
    sample(_prim, positives(4, dtype=BF16))
    sample(_prim, positives(4, dtype="float16"))

for _method in (0, 1):
    sample(p.round_p, np.array([-1.3, -0.2, 0.7, 2.4, 2.6], np.float32), rounding_method=_method)
    sample(p.round_p, np.array([-2.5, -1.5, -0.5, 0.5, 1.5], np.float16), rounding_method=_method)
sample(p.is_finite_p, np.array([1.0, np.inf, -np.inf, np.nan], np.float32))
for _y in (-2, 0, 1, 2, 3, 7):
    sample(p.integer_pow_p, away(2, 3), y=_y)
sample(p.integer_pow_p, ints(4), y=5)
sample(p.integer_pow_p, complexes(3), y=3)
for _prim in (p.sign_p, p.abs_p):
    sample(_prim, ints(4))
    sample(_prim, uints(4))
    sample(_prim, complexes(3))
sample(p.neg_p, ints(4))
sample(p.square_p, ints(4))

for _prim in (p.real_p, p.imag_p, p.conj_p):
    sample(_prim, complexes(2, 3))
    sample(_prim, complexes())
sample(p.complex_p, floats(2, 3), floats(2, 3))
sample(p.complex_p, floats(), floats(3))

for _prim in (p.not_p, p.population_count_p, p.clz_p):
    sample(_prim, ints(2, 3))
    sample(_prim, uints(4, dtype="uint8"))
sample(p.not_p, bools(3))

for _old, _new in (("float32", "int32"), ("int32", "float32"), ("float32", "bfloat16"), ("bfloat16", "float32"),
                   ("float32", "float16"), ("int32", "bool"), ("bool", "float32"), ("int32", "int8"),
                   ("int32", "uint32"), ("float32", "complex64")):
    sample(p.convert_element_type_p, (bools if _old == "bool" else away)(2, 3, dtype=_old),
           new_dtype=dtypes.as_dtype(_new), weak_type=False)
sample(p.convert_element_type_p, floats(), new_dtype=np.dtype("float32"), weak_type=True)
sample(p.convert_element_type_p, complexes(3), new_dtype=np.dtype("float32"), weak_type=False)
sample(p.convert_element_type_p, np.array([3e10, -3e10, np.nan, np.inf], np.float32), new_dtype=np.dtype("int32"),
       weak_type=False)
sample(p.bitcast_convert_type_p, floats(2, 3), new_dtype=np.dtype("uint32"))
sample(p.bitcast_convert_type_p, uints(2, 3), new_dtype=np.dtype("uint8"))
sample(p.bitcast_convert_type_p, uints(3, 2, dtype="uint16"), new_dtype=np.dtype("uint32"))

for _prim in (p.add_p, p.sub_p, p.mul_p, p.div_p, p.max_p, p.min_p, p.atan2_p, p.rem_p):
    sample(_prim, away(2, 3), away(2, 3))
    sample(_prim, away(2, 3), away())
    sample(_prim, away(), away(3))
    sample(_prim, away(), away())
    sample(_prim, away(4, dtype=BF16), away(4, dtype=BF16))
for _prim in (p.add_p, p.sub_p, p.mul_p, p.div_p):
    sample(_prim, complexes(3), complexes(3))
for _prim in (p.add_p, p.sub_p, p.mul_p, p.max_p, p.min_p):
    sample(_prim, ints(4), ints())
for _prim in (p.add_p, p.mul_p, p.max_p, p.min_p):
    sample(_prim, bools(4), bools(4))
for _prim in (p.div_p, p.rem_p):
    sample(_prim, np.array([7, -7, 7, -7, 5], np.int32), np.array([2, 2, -2, -2, 0], np.int32))
    sample(_prim, uints(4), uints(4))
sample(p.pow_p, positives(2, 3), floats(2, 3))
sample(p.pow_p, positives(3), floats())
sample(p.pow_p, floats(3), small_ints(3))
sample(p.pow_p, complexes(3), complexes(3))
sample(p.pow_p, ints(4), np.array([0, 1, 2, 3], np.int32))
sample(p.nextafter_p, floats(3), floats(3))
sample(p.polygamma_p, np.array([0.0, 1.0, 2.0, 3.0], np.float32), positives(4))
sample(p.zeta_p, np.array([1.5, 2.0, 3.0, 4.5], np.float32), positives(4))

for _prim in (p.and_p, p.or_p, p.xor_p):
    sample(_prim, ints(2, 3), ints(2, 3))
    sample(_prim, uints(4, dtype="uint8"), uints(dtype="uint8"))
    sample(_prim, bools(4), bools(4))
for _prim in (p.shift_left_p, p.shift_right_logical_p, p.shift_right_arithmetic_p):
    sample(_prim, ints(5), np.array([0, 1, 31, 32, 5], np.int32))
    sample(_prim, uints(4), small_ints(dtype="uint32"))
for _prim in (p.eq_p, p.ne_p, p.lt_p, p.le_p, p.gt_p, p.ge_p):
    sample(_prim, np.array([1.0, 2.0, np.nan, -0.0], np.float32), np.array([1.0, 3.0, np.nan, 0.0], np.float32))
    sample(_prim, ints(5), ints())
    sample(_prim, uints(5), uints(5))
    sample(_prim, bools(4), bools(4))
for _prim in (p.eq_p, p.ne_p):
    sample(_prim, complexes(3), complexes(3))

sample(p.select_p, bools(2, 3), floats(2, 3), floats(2, 3))
sample(p.select_p, bools(), floats(2, 3), floats(2, 3))
sample(p.select_p, bools(3), floats(), floats(3))
sample(p.select_p, bools(4), floats(), floats())
sample(p.select_p, bools(), ints(), ints())
sample(p.clamp_p, np.float32(-0.55), distinct(2, 3), np.float32(0.65))
sample(p.clamp_p, np.array([-1, -0.25, 0.1], np.float32), distinct(3),
       np.array([1, 0.3, 0.2], np.float32))
sample(p.clamp_p, np.int32(-5), ints(5), np.int32(5))

_WIDE = np.array([np.nan, np.inf, 1.2345678, -1e-30, 70000.0, -0.0, 65520.0, 6e-5, 3.5], np.float32)
sample(p.reduce_precision_p, _WIDE, exponent_bits=5, mantissa_bits=10)
sample(p.reduce_precision_p, _WIDE, exponent_bits=8, mantissa_bits=3)
sample(p.reduce_precision_p, floats(2, 3), exponent_bits=11, mantissa_bits=52)
sample(p.reduce_precision_p, floats(6, dtype="float16"), exponent_bits=4, mantissa_bits=5)
