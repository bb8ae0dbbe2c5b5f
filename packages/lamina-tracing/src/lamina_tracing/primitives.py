"""All primitives under their JAX names, for tools that analyse jaxprs: `add_p`, `scan_p`, `linear_solve_p`.

Most are the built-in primitives of lamina, with its params (docs/_generated/ops.md); an equation lists all of them.
The others are

- aliases: `call_p` and `closed_call_p` of `xla_call_p`, `add_jaxvals_p` of `add_p`, `..._call_jaxpr_p` of
  `custom_jvp_call_p` and `custom_vjp_call_p`, `custom_lin_p` of `transposed_call_p` (a linear map with a known
  transpose);
- composite primitives, which bind several equations, so they never occur in a program: `select_n_p`, `cumlogsumexp_p`,
  `zeros_like_p`, and the others that `_composite` makes below. They are bound like primitives, with the params listed
  here.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TYPE_CHECKING

import numpy as np
from lamina_ir import ClosedJaxpr, DTypeError, dtypes, Jaxpr, Primitive, ProgramError, shaped, ShapedArray, ShapeError
from lamina_ir.prims import *  # noqa: F403
from lamina_ir.prims import (ALL, add_p, custom_jvp_call_p, custom_vjp_call_p, scan_p, scatter_add_p, transposed_call_p,
                             xla_call_p)
from lamina_ir.typing import Device, Function, ParamValue, Value

from . import lax
from ._jit import hooks
from .api import eval_shape
from ._core.staging import eval_jaxpr
from ._core.trace import bind
from ._core.tracer import typeof
from ._typing import Outputs

if TYPE_CHECKING:  # type checkers cannot evaluate the code that builds the list; a test compares both lists
    __all__ = ["abs_p", "acos_p", "acosh_p", "add_jaxvals_p", "add_p", "after_all_p", "all_gather_p", "all_to_all_p",
               "and_p", "approx_top_k_p", "argmax_p", "argmin_p", "asin_p", "asinh_p", "atan2_p",
               "atan_p", "atanh_p", "axis_index_p", "bessel_i0e_p", "bessel_i1e_p",
               "bitcast_convert_type_p", "broadcast_in_dim_p", "call_p", "cbrt_p", "ceil_p",
               "cholesky_p", "cholesky_update_p", "clamp_p", "closed_call_p", "clz_p", "complex_p",
               "concatenate_p", "cond_p", "conj_p", "conv_general_dilated_p", "convert_element_type_p",
               "copy_p", "cos_p", "cosh_p", "create_token_p", "cumlogsumexp_p", "cummax_p", "cummin_p",
               "cumprod_p", "cumsum_p", "custom_jvp_call_jaxpr_p", "custom_jvp_call_p", "custom_lin_p",
               "custom_vjp_call_jaxpr_p", "custom_vjp_call_p", "custom_vmap_call_p", "debug_callback_p",
               "device_put_p", "digamma_p", "div_p", "dot_general_p", "dynamic_slice_p",
               "dynamic_update_slice_p", "eig_p", "eigh_p", "eq_p", "eq_to_p", "erf_inv_p", "erf_p",
               "erfc_p", "exp2_p", "exp_p", "expand_dims_p", "expm1_p", "fft_p", "floor_p", "gather_p",
               "ge_p", "geqrf_p", "gt_p", "hessenberg_p", "householder_product_p", "igamma_grad_a_p",
               "igamma_p", "igammac_p", "imag_p", "infeed_p", "integer_pow_p", "io_callback_p",
               "iota_p", "is_finite_p", "le_p", "le_to_p", "lgamma_p", "linear_solve_p", "log1p_p",
               "log2_p", "log_p", "logistic_p", "lt_p", "lt_to_p", "lu_p", "lu_pivots_to_permutation_p",
               "max_p", "min_p", "mul_p", "mulhi_p", "name_p", "ne_p", "neg_p", "nextafter_p", "not_p",
               "one_minus_square_p", "optimization_barrier_p", "or_p", "ormqr_p", "outfeed_p", "pad_p",
               "platform_index_p", "pmax_p", "pmin_p", "polygamma_p", "population_count_p", "pow_p",
               "ppermute_p", "psum_p", "psum_scatter_p", "pure_callback_p", "qr_p",
               "random_gamma_grad_p", "random_unwrap_p", "random_wrap_p", "real_p", "reduce_and_p",
               "reduce_max_p", "reduce_min_p", "reduce_or_p", "reduce_p", "reduce_precision_p",
               "reduce_prod_p", "reduce_sum_p", "reduce_window_max_p", "reduce_window_min_p",
               "reduce_window_p", "reduce_window_prod_p", "reduce_window_sum_p", "reduce_xor_p",
               "regularized_incomplete_beta_p", "rem_p", "remat_p", "reshape_p", "rev_p", "rng_bit_generator_p",
               "rng_uniform_p", "round_p", "rsqrt_p", "scan_bind", "scan_p", "scatter_add_p", "scatter_max_p",
               "scatter_min_p", "scatter_mul_p", "scatter_p", "scatter_sub_p", "schur_p", "select_and_gather_add_p",
               "select_and_scatter_add_p", "select_and_scatter_p", "select_n_p", "select_p", "shard_map_p",
               "sharding_constraint_p", "shift_left_p", "shift_right_arithmetic_p", "shift_right_logical_p", "sign_p",
               "sin_p", "sinh_p", "slice_p", "slogdet_p", "solve_p", "sort_p", "split_p", "sqrt_p", "square_p",
               "squeeze_p", "stack_p", "stage_p", "stop_gradient_p", "sub_p", "svd_p", "symmetric_product_p", "tan_p",
               "tanh_p", "threefry2x32_p", "tile_p", "to_memory_p", "top_k_p", "transpose_p", "transposed_call_p",
               "triangular_solve_p", "tridiagonal_p", "tridiagonal_solve_p", "unstack_p", "while_p",
               "xla_call_p", "xla_pmap_p", "xmap_p", "xor_p", "zeros_like_p", "zeta_p"]
else:
    __all__ = ["scan_bind"]
_names = __all__
_names += [name for name, value in list(globals().items()) if name.endswith("_p") and value in ALL]


def _composite(name: str, function: Function, params: Sequence[str] = (),
               multiple: bool = False) -> Primitive:
    """Make a primitive whose `bind` calls `function(*operands, **params)`, which binds several equations."""
    def infer(*avals: ShapedArray, **param_values: ParamValue) -> Outputs:
        found = eval_shape(lambda *xs: function(*xs, **param_values), *avals)
        types = [shaped(s.shape, s.dtype) for s in (found if multiple else (found,))]
        return types if multiple else types[0]

    prim = Primitive(name, infer=infer, params=params, multiple=multiple)
    prim.def_custom_bind(function)
    _names.append(f"{name}_p")
    return prim


def scan_bind(*args: Value, **params: ParamValue) -> list[Value]:
    """Bind `scan_p` with these params and return the results as a list."""
    return list(bind(scan_p, *args, **params))


# --- aliases ------------------------------------------------------------------------------------------------------
add_jaxvals_p = add_p
call_p = closed_call_p = xla_call_p
custom_jvp_call_jaxpr_p, custom_vjp_call_jaxpr_p, custom_lin_p = custom_jvp_call_p, custom_vjp_call_p, transposed_call_p
_names += ["add_jaxvals_p", "call_p", "closed_call_p", "custom_jvp_call_jaxpr_p", "custom_lin_p", "custom_vjp_call_jaxpr_p"]


# --- composite primitives -----------------------------------------------------------------------------------------
def _rank(x: Value) -> Value:
    """Map floats to integers in their total order: -NaN, -inf, ..., -0, 0, ..., inf, NaN. Keep integers and booleans.

    The bits of a float, read as an integer, have this order for positive floats. For negative ones it is reversed, so
    all bits except the sign are flipped.
    """
    dtype = typeof(x).dtype
    if not dtypes.is_float(dtype):
        if dtypes.is_complex(dtype):
            raise DTypeError(f"total order: complex numbers have none; got {typeof(x).str_long()}")
        return x
    kind = np.dtype(f"int{8 * dtype.itemsize}")
    bits = lax.bitcast_convert_type(x, kind)
    return lax.select(lax.lt(bits, kind.type(0)), lax.bitwise_xor(bits, kind.type(np.iinfo(kind).max)), bits)


def _in_total_order(compare: Callable[[Value, Value], Value]) -> Callable[[Value, Value], Value]:
    return lambda x, y: compare(_rank(x), _rank(y))


def _top_k(operand: Value, *, k: int, reduction_dimension: int, is_max_k: bool, recall_target: float = 0.95,
           reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> tuple[Value, Value]:
    find = lax.approx_max_k if is_max_k else lax.approx_min_k
    return find(operand, k, reduction_dimension, recall_target, reduction_input_size_override, aggregate_to_topk)


def _device_put(*xs: Value, devices: Sequence[Device], srcs: Sequence[Device] = (),
                **_: ParamValue) -> tuple[Value, ...]:
    return tuple([hooks.device_put(x, device) for x, device in zip(xs, devices, strict=True)])


def _elementwise(name: str, param: str, closed: Any, consts: Sequence[Value]) -> Function:
    """Make an array function from an elementwise program of two scalars."""
    closed = closed if isinstance(closed, ClosedJaxpr) else ClosedJaxpr(closed, consts)
    other = next((e.primitive.name for e in closed.eqns if not e.primitive.elementwise), None)
    if other is not None or len(closed.in_avals) != 2 or len(closed.out_avals) != 1:
        raise ProgramError(f"{name}: {param} must take two scalars to one by elementwise ops" + (f"; it holds `{other}`"
                           if other else f"; it takes {len(closed.in_avals)} to {len(closed.out_avals)}"))
    return lambda x, y: eval_jaxpr(closed, [x, y])[0]


def _select_and_scatter(operand: Value, source: Value, init_value: Value, *, select_jaxpr: Jaxpr, scatter_jaxpr: Jaxpr,
                        window_dimensions: Sequence[int], window_strides: Sequence[int],
                        padding: Sequence[tuple[int, int]], select_consts: Sequence[Value] = (),
                        scatter_consts: Sequence[Value] = ()) -> Value:
    """Combine each element of `source` into `operand` at the element that `select` picks in its window, not in padding.

    All windows are reduced together: one strided slice per offset in the window, for the values and for their flat
    indices (-1 in padding). Windows may overlap, so a loop then applies `scatter` to one window after the other.
    """
    call = "select_and_scatter"
    select = _elementwise(call, "select_jaxpr", select_jaxpr, select_consts)
    scatter = _elementwise(call, "scatter_jaxpr", scatter_jaxpr, scatter_consts)
    shape, steps = typeof(operand).shape, typeof(source).shape
    size = int(np.prod(shape))
    edges = [(lo, hi, 0) for lo, hi in padding]
    values = lax.pad(operand, lax.full_like(init_value, 0), edges)
    flat_indices = lax.pad(np.arange(size, dtype=np.int32).reshape(shape), np.int32(-1), edges)
    for have, want, window, stride in zip(typeof(values).shape, steps, window_dimensions, window_strides, strict=True):
        if (have - window) // stride + 1 != want:
            raise ShapeError(f"{call}: source must have one element for each window; got {typeof(source).str_long()}")
    best: Value = None
    best_index: Value = None
    for offset in itertools.product(*map(range, window_dimensions)):
        ends = [o + (n - 1) * s + 1 for o, n, s in zip(offset, steps, window_strides)]
        value, index = (lax.slice(x, offset, ends, tuple(window_strides)) for x in (values, flat_indices))
        if best is None:
            best, best_index = value, index
            continue
        inside, empty = lax.ge(index, np.int32(0)), lax.lt(best_index, np.int32(0))
        take = lax.bitwise_and(inside, lax.bitwise_or(empty, lax.bitwise_not(select(best, value))))
        best, best_index = lax.select(take, value, best), lax.select(take, index, best_index)
    count = int(np.prod(steps))
    indices, updates = lax.reshape(best_index, (count,)), lax.reshape(source, (count,))

    def step(i: Value, out: Value) -> Value:
        index = lax.dynamic_index_in_dim(indices, i, keepdims=False)
        old = lax.dynamic_index_in_dim(out, index, keepdims=False)
        new = scatter(old, lax.dynamic_index_in_dim(updates, i, keepdims=False))
        return lax.dynamic_update_index_in_dim(out, lax.select(lax.ge(index, np.int32(0)), new, old), index, 0)

    start = lax.full_like(operand, init_value, shape=(size,))
    return lax.reshape(lax.fori_loop(0, count, step, start) if count and size else start, shape)


def _scatter_sub(operand: Value, scatter_indices: Value, updates: Value, **params: ParamValue) -> Value:
    return bind(scatter_add_p, operand, scatter_indices, lax.neg(updates), **params)


after_all_p = _composite("after_all", lax.after_all)
approx_top_k_p = _composite("approx_top_k", _top_k,
                            ("aggregate_to_topk", "is_max_k", "k", "recall_target", "reduction_dimension",
                             "reduction_input_size_override"), multiple=True)
cholesky_update_p = _composite("cholesky_update", lax.factorizations.cholesky_update)
create_token_p = _composite("create_token", lax.create_token)
cumlogsumexp_p = _composite("cumlogsumexp", lax.cumlogsumexp, ("axis", "reverse"))
device_put_p = _composite("device_put", _device_put, ("devices", "srcs"), multiple=True)
eq_to_p = _composite("eq_to", _in_total_order(lax.eq))
infeed_p = _composite("infeed", lax.infeed, ("partitions", "shape"), multiple=True)
le_to_p = _composite("le_to", _in_total_order(lax.le))
lt_to_p = _composite("lt_to", _in_total_order(lax.lt))
log2_p = _composite("log2", lax.log2)
mulhi_p = _composite("mulhi", lax.mulhi)
one_minus_square_p = _composite("one_minus_square", lax.one_minus_square)
ormqr_p = _composite("ormqr", lax.factorizations.ormqr, ("left", "transpose"))
outfeed_p = _composite("outfeed", lax.outfeed, ("partitions",))
scatter_sub_p = _composite("scatter_sub", _scatter_sub, scatter_add_p.params)
select_and_scatter_p = _composite("select_and_scatter", _select_and_scatter,
                                  ("padding", "scatter_consts", "scatter_jaxpr", "select_consts", "select_jaxpr",
                                   "window_dimensions", "window_strides"))
select_n_p = _composite("select_n", lax.select_n)
split_p = _composite("split", lax.split, ("axis", "sizes"), multiple=True)
stack_p = _composite("stack", lambda *xs, axis: lax.stack(xs, axis), ("axis",))
stage_p = _composite("stage", lax.stage)
symmetric_product_p = _composite("symmetric_product", lax.factorizations.symmetric_product,
                                 ("alpha", "beta", "symmetrize_output"))
tile_p = _composite("tile", lax.tile, ("reps",))
unstack_p = _composite("unstack", lax.unstack, ("axis",), multiple=True)
zeros_like_p = _composite("zeros_like", lambda x: lax.full_like(x, 0))
