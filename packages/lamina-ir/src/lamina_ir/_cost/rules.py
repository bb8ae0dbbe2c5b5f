"""Cost rules of the primitives, by family; they fill `cost.table.cost_rules`.

A rule counts operations on floating point and complex numbers; bytes follow from the types unless the rule returns
them.

- A real sum, product, quotient, comparison, sign or rounding counts as one; a complex one counts its real operations.
- Selecting, moving and converting count zero, as does everything on integers, booleans and keys.
- A function computed by a series or a table counts as one transcendental operation.
- Factorizations count as in Golub and Van Loan, Matrix Computations, 4th ed., section 1.2 and the section of each.
- Fourier transforms count as in the FFTW benchmarks.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2, prod

import numpy as np

from .._types import dtypes
from .. import prims
from .._types.avals import ShapedArray
from .table import Cost, CostRule, cost_rules, transfer_cost
from .._core.primitive import Primitive
from ..typing import ParamValue, Params

__all__: list[str] = []

Avals = Sequence[ShapedArray]
_MULTIPLY, _SQUARE, _DIVIDE, _ADD = 6, 5, 11, 2  # real operations in one complex operation


def ops_per_element(dtype: np.dtype, real: int, of_complex: int) -> int:
    """Return the number of real operations in one operation on this dtype; 0 for dtypes that are not inexact."""
    return of_complex if dtypes.is_complex(dtype) else real if dtypes.is_float(dtype) else 0


def _define(rule: CostRule, *ops: Primitive) -> None:
    for op in ops:
        cost_rules.define(op, rule)


def _per_element(real: int, of_complex: int = 0) -> Callable[..., int]:
    """Return a rule that counts this many operations per element of the result."""
    return lambda ins, outs, **_: outs[0].size * ops_per_element(ins[0].dtype, real, of_complex)


def _transcendental(ins: Avals, outs: Avals, **_: ParamValue) -> tuple[int, int]:
    return 0, outs[0].size


def _zero(ins: Avals, outs: Avals, **_: ParamValue) -> int:
    return 0


def _view(ins: Avals, outs: Avals, **_: ParamValue) -> Cost:
    """Zero cost: no element is moved."""
    return Cost()


def _partial_read(ins: Avals, outs: Avals, **_: ParamValue) -> Cost:
    """Count only the elements of the first operand that are in the result as read."""
    return transfer_cost([*outs, *ins[1:]], outs)


# --- elementwise, special -----------------------------------------------------------------------------------------
_p = prims
_define(_zero, _p.and_p, _p.clz_p, _p.convert_element_type_p, _p.copy_p, _p.not_p, _p.or_p, _p.population_count_p,
        _p.real_p, _p.imag_p, _p.complex_p, _p.reduce_precision_p, _p.select_p, _p.shift_left_p,
        _p.shift_right_arithmetic_p, _p.shift_right_logical_p, _p.xor_p, _p.nextafter_p)
_define(_view, _p.bitcast_convert_type_p, _p.stop_gradient_p)
_define(_per_element(1, _ADD), _p.add_p, _p.sub_p, _p.neg_p, _p.max_p, _p.min_p, _p.eq_p, _p.ne_p, _p.lt_p, _p.le_p,
        _p.gt_p, _p.ge_p)
_define(_per_element(1, 1), _p.conj_p)
_define(_per_element(1, 4), _p.abs_p)
_define(_per_element(1, 6), _p.sign_p)
_define(_per_element(1), _p.floor_p, _p.ceil_p, _p.round_p, _p.is_finite_p, _p.rem_p)
_define(_per_element(2), _p.clamp_p)
_define(_per_element(1, _MULTIPLY), _p.mul_p)
_define(_per_element(1, _SQUARE), _p.square_p)
_define(_per_element(1, _DIVIDE), _p.div_p)
_define(_transcendental, _p.acos_p, _p.acosh_p, _p.asin_p, _p.asinh_p, _p.atan2_p, _p.atan_p, _p.atanh_p,
        _p.bessel_i0e_p, _p.bessel_i1e_p, _p.cbrt_p, _p.cos_p, _p.cosh_p, _p.digamma_p, _p.erf_inv_p, _p.erf_p,
        _p.erfc_p, _p.exp2_p, _p.exp_p, _p.expm1_p, _p.lgamma_p, _p.log1p_p, _p.log_p, _p.logistic_p, _p.polygamma_p,
        _p.rsqrt_p, _p.sin_p, _p.sinh_p, _p.sqrt_p, _p.tan_p, _p.tanh_p, _p.zeta_p, _p.igamma_p, _p.igamma_grad_a_p,
        _p.igammac_p, _p.random_gamma_grad_p, _p.regularized_incomplete_beta_p)


def _pow(ins: Avals, outs: Avals) -> tuple[int, int] | int:
    return _transcendental(ins, outs) if dtypes.is_inexact(outs[0].dtype) else 0


def _integer_pow(ins: Avals, outs: Avals, y: int) -> int:
    """Count repeated squaring: one product per binary digit after the first, one more per such digit that is 1, and a
    division if y < 0."""
    digits = bin(abs(y))[2:]
    products = max(len(digits) - 1 + digits.count("1") - 1, 0)
    d = ins[0].dtype
    return outs[0].size * (products * ops_per_element(d, 1, _MULTIPLY) + (y < 0) * ops_per_element(d, 1, _DIVIDE))


_define(_pow, _p.pow_p)
_define(_integer_pow, _p.integer_pow_p)

# --- shape, indexing ----------------------------------------------------------------------------------------------
_define(_zero, _p.broadcast_in_dim_p, _p.concatenate_p, _p.iota_p, _p.pad_p, _p.rev_p, _p.transpose_p,
        _p.dynamic_update_slice_p, _p.scatter_p)
_define(_view, _p.expand_dims_p, _p.reshape_p, _p.squeeze_p)
_define(_partial_read, _p.slice_p, _p.dynamic_slice_p, _p.gather_p)


def _scatter(real: int, of_complex: int) -> Callable[..., int]:
    """Return a rule that counts one operation per element of the updates, the last operand."""
    return lambda ins, outs, **_: ins[2].size * ops_per_element(ins[0].dtype, real, of_complex)


_define(_scatter(1, _ADD), _p.scatter_add_p, _p.scatter_max_p, _p.scatter_min_p)
_define(_scatter(1, _MULTIPLY), _p.scatter_mul_p)


# --- reductions, windows ------------------------------------------------------------------------------------------
def _reduction(real: int, of_complex: int) -> Callable[..., int]:
    """Return a rule that counts n - 1 operations for n elements."""
    return lambda ins, outs, **_: max(ins[0].size - outs[0].size, 0) * ops_per_element(ins[0].dtype, real, of_complex)


def _cumulation(real: int, of_complex: int) -> Callable[..., int]:
    def rule(ins: Avals, outs: Avals, *, axis: int, reverse: bool) -> int:
        n = ins[0].shape[axis]
        return ins[0].size // n * (n - 1) * ops_per_element(ins[0].dtype, real, of_complex) if n else 0
    return rule


_define(_reduction(1, _ADD), _p.reduce_sum_p, _p.reduce_max_p, _p.reduce_min_p, _p.argmax_p, _p.argmin_p)
_define(_reduction(1, _MULTIPLY), _p.reduce_prod_p)
_define(_zero, _p.reduce_and_p, _p.reduce_or_p, _p.reduce_xor_p)
_define(_cumulation(1, _ADD), _p.cumsum_p, _p.cummax_p, _p.cummin_p)
_define(_cumulation(1, _MULTIPLY), _p.cumprod_p)
# the computation runs once per element: each is combined with the result so far, the first one with the initial value
_define(("computation", lambda ins, outs, **_: ins[0].size), _p.reduce_p)


def _window(real: int, of_complex: int) -> Callable[..., int]:
    """Return a rule that counts each window in full, padding and gaps included."""
    return lambda ins, outs, *, window_dimensions, **_: (
        outs[0].size * max(prod(window_dimensions) - 1, 0) * ops_per_element(ins[0].dtype, real, of_complex))


def _scatter_windows(ins: Avals, outs: Avals, *, window_dimensions: ParamValue, **_: ParamValue) -> int:
    """Count per window the comparisons that select an element, and one sum."""
    source, x = ins
    compared = max(prod(window_dimensions) - 1, 0)
    return source.size * (compared * ops_per_element(x.dtype, 1, _ADD) + ops_per_element(source.dtype, 1, _ADD))


_define(_window(1, _ADD), _p.reduce_window_sum_p, _p.reduce_window_max_p, _p.reduce_window_min_p,
        _p.select_and_gather_add_p)
_define(_window(1, _MULTIPLY), _p.reduce_window_prod_p)
_define(("computation", lambda ins, outs, *, window_dimensions, **_: outs[0].size * prod(window_dimensions)),
        _p.reduce_window_p)
_define(_scatter_windows, _p.select_and_scatter_add_p)


# --- products, convolutions ---------------------------------------------------------------------------------------
def _products(dtype: np.dtype) -> int:
    """Return the real operations in one product and one sum."""
    return ops_per_element(dtype, 2, _MULTIPLY + _ADD)


def _dot_general(ins: Avals, outs: Avals, *, dimension_numbers: ParamValue, **_: ParamValue) -> int:
    contracted = dimension_numbers[0][0]
    return outs[0].size * prod([ins[0].shape[a] for a in contracted]) * _products(outs[0].dtype)


def _convolution(ins: Avals, outs: Avals, *, dimension_numbers: ParamValue, **_: ParamValue) -> int:
    """Count one full kernel per element of the result, also where the kernel reads padding."""
    kernels = ins[1].shape[dimension_numbers.rhs_spec[0]]
    return outs[0].size * (ins[1].size // kernels if kernels else 0) * _products(outs[0].dtype)


_define(_dot_general, _p.dot_general_p)
_define(_convolution, _p.conv_general_dilated_p)


# --- factorizations -----------------------------------------------------------------------------------------------
def _lu_steps(m: int, n: int, k: int) -> float:
    """Return the products in k steps of elimination on an m by n matrix: the sum of (m - i)(n - i) over i < k, to
    leading order."""
    return m * n * k - (m + n) * k * k / 2 + k**3 / 3


def _matrices(flops: Callable[[int, int, dict[str, ParamValue]], float]) -> Callable[..., int]:
    """Return a rule that counts `flops(m, n, params)` per real matrix, and four times as many per complex one."""
    def rule(ins: Avals, outs: Avals, **params: ParamValue) -> int:
        *batch, m, n = ins[0].shape
        return prod(batch) * round(flops(m, n, params)) * ops_per_element(ins[0].dtype, 1, 4)
    return rule


def _orthogonal(m: int, n: int, k: int) -> float:
    """Return the operations to form an m by n orthogonal matrix from k reflections."""
    return 4 * _lu_steps(m, n, min(k, n))


def _qr(m: int, n: int, params: Params) -> float:
    k = min(m, n)
    return 4 * _lu_steps(m, n, k) + _orthogonal(m, m if params["full_matrices"] else k, k)


def _householder_product(ins: Avals, outs: Avals) -> int:
    *batch, m, n = ins[0].shape
    return prod(batch) * round(_orthogonal(m, n, ins[1].shape[-1])) * ops_per_element(ins[0].dtype, 1, 4)


def _triangular_solve(ins: Avals, outs: Avals, **_: ParamValue) -> int:
    """Count n * n operations per right-hand side."""
    return ins[1].size * ins[0].shape[-1] * ops_per_element(ins[0].dtype, 1, 4)


def _solve(ins: Avals, outs: Avals) -> int:
    """Count an LU decomposition, and two triangular solves per right-hand side."""
    *batch, n, _ = ins[0].shape
    return (prod(batch) * round(2 * _lu_steps(n, n, n)) + 2 * ins[1].size * n) * ops_per_element(ins[0].dtype, 1, 4)


def _tridiagonal_solve(ins: Avals, outs: Avals) -> int:
    """Count forward elimination and back substitution: three operations per row, five per right-hand side element."""
    return (3 * ins[1].size + 5 * ins[3].size) * ops_per_element(ins[1].dtype, 1, 4)


_define(_matrices(lambda m, n, _: n**3 / 3), _p.cholesky_p)
_define(_matrices(lambda m, n, _: 2 * _lu_steps(m, n, min(m, n))), _p.lu_p)
_define(_matrices(lambda m, n, _: 2 * _lu_steps(m, n, n)), _p.slogdet_p)
_define(_solve, _p.solve_p)
_define(_matrices(lambda m, n, _: 4 * _lu_steps(m, n, min(m, n))), _p.geqrf_p)
_define(_matrices(_qr), _p.qr_p)
_define(_matrices(lambda m, n, _: 10 * n**3 / 3), _p.hessenberg_p)
_define(_matrices(lambda m, n, _: 4 * n**3 / 3), _p.tridiagonal_p)
_define(_householder_product, _p.householder_product_p)
_define(_triangular_solve, _p.triangular_solve_p)
_define(_tridiagonal_solve, _p.tridiagonal_solve_p)
_define(_zero, _p.lu_pivots_to_permutation_p)
for _op in (_p.eig_p, _p.eigh_p, _p.schur_p, _p.svd_p):
    cost_rules.declare_missing(_op, "it is iterative, and the number of iterations depends on the values")


# --- transforms, sorting ------------------------------------------------------------------------------------------
def _fft(ins: Avals, outs: Avals, *, fft_lengths: ParamValue, fft_type: ParamValue) -> int:
    """Count 5 n log2(n) operations for n complex numbers, half of that if operand or result is real."""
    n = prod(fft_lengths)
    larger = max(ins[0], outs[0], key=lambda a: a.size)
    times = larger.size // n if n else 0
    both_complex = dtypes.is_complex(ins[0].dtype) and dtypes.is_complex(outs[0].dtype)
    return round(times * (5 if both_complex else 2.5) * n * log2(n)) if n > 1 else 0


def _sort(ins: Avals, outs: Avals, *, dimension: int = 0, axis: int | None = None, **_: ParamValue) -> int:
    """Count the comparisons of the first key in a merge sort along the axis."""
    n = ins[0].shape[dimension if axis is None else axis]
    return ins[0].size * ceil(log2(n)) * ops_per_element(ins[0].dtype, 1, _ADD) if n > 1 else 0


_define(_fft, _p.fft_p)
_define(_sort, _p.sort_p, _p.top_k_p)

# --- random numbers, effects --------------------------------------------------------------------------------------
_define(_zero, _p.rng_bit_generator_p, _p.threefry2x32_p, _p.random_unwrap_p, _p.random_wrap_p, _p.to_memory_p)
_define(lambda ins, outs, **_: outs[0].size * ops_per_element(outs[0].dtype, 2, 4), _p.rng_uniform_p)  # scaled and shifted
_define(_view, _p.name_p, _p.optimization_barrier_p, _p.sharding_constraint_p, _p.platform_index_p)
for _op in (_p.debug_callback_p, _p.io_callback_p, _p.pure_callback_p):
    cost_rules.declare_missing(_op, "the cost of a Python function is unknown")


# --- collectives: the cost of one member --------------------------------------------------------------------------
def _sum_of_members(ins: Avals, outs: Avals, **_: ParamValue) -> int:
    """Count one addition or comparison per element, of the member's elements with those of the others."""
    return sum([a.size * ops_per_element(a.dtype, 1, _ADD) for a in outs])


def _sum_of_parts(ins: Avals, outs: Avals, *, axis_size: int, **_: ParamValue) -> int:
    return max(axis_size - 1, 0) * outs[0].size * ops_per_element(outs[0].dtype, 1, _ADD)


_define(_sum_of_members, _p.psum_p, _p.pmax_p, _p.pmin_p)
_define(_sum_of_parts, _p.psum_scatter_p)
_define(_zero, _p.all_gather_p, _p.all_to_all_p, _p.axis_index_p, _p.ppermute_p)


# --- programs without a region signature --------------------------------------------------------------------------
_define("solve", _p.linear_solve_p)
_define("transpose_jaxpr", _p.transposed_call_p)  # a linear map costs about as much as its transpose: the same products
