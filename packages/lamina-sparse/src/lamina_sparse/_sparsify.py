"""`sparsify`: stage a function and run its program with sparse operands, one rule per primitive.

A rule is `rule(args, **params)`; `args` are the operands, at least one of them a BCOO. Equations without sparse operands
are bound as they are.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import lamina_numpy as lnp
import numpy as np
from lamina_ir import Literal, Primitive, RuleTable, dtypes, prims, shaped, trees
from lamina_ir.typing import Function, Outputs, ParamValue, Tree, Value
from lamina_tracing import Array, lax
from lamina_tracing.extend import Tracer, bind, function_name, stage, typeof, wraps

from . import _methods
from ._bcoo import bcoo_todense
from ._creation import TODENSE
from ._entries import batch_shape, expand
from ._products import bcoo_dot_general, gather_dense
from ._shape import (bcoo_broadcast_in_dim, bcoo_concatenate, bcoo_dynamic_slice, bcoo_gather, bcoo_reduce_sum, bcoo_reshape,
                     bcoo_rev, bcoo_slice, bcoo_squeeze, bcoo_transpose)
from ._types import BCOO, JAXSparse

__all__ = ["sparse_rules", "sparsify"]

sparse_rules = RuleTable("sparsify", "lamina_sparse/_sparsify", leading_params=("args",))

_LINEAR = "conj copy imag name neg real stop_gradient"
_ZERO_PRESERVING = ("abs asin asinh atan atanh bessel_i1e cbrt ceil erf erf_inv expm1 floor integer_pow log1p "
                    "reduce_precision round sign sin sinh sqrt square tan tanh")
_DENSE = ("acos acosh bessel_i0e clz cos cosh digamma eq erfc exp exp2 ge gt is_finite le lgamma log logistic lt ne "
          "not "
          "polygamma rsqrt argmax argmin cumlogsumexp cummax cummin cumprod cumsum zeta")


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


# --- running a program -----------------------------------------------------------------------------------------------
def _run(closed: Any, args: Sequence[Any]) -> list[Any]:
    """Run a program whose arguments may be BCOO arrays."""
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]
    for eqn in jaxpr.eqns:
        values = list(map(read, eqn.invars))
        out = _apply(eqn.primitive, values, eqn.params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple else [out], strict=True))
    return list(map(read, jaxpr.outvars))


def _apply(prim: Primitive, values: list[Any], params: dict[str, ParamValue]) -> Outputs:
    if not any(map(_is_sparse, values)):
        return bind(prim, *values, **params)
    return sparse_rules[prim](values, **params)


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic, Array, Tracer)) and (
        dtypes.is_number(typeof(x).dtype) or dtypes.is_bool(typeof(x).dtype))


def sparsify(f: Function, use_tracer: bool = False) -> Function:
    """Make a function of dense arrays one of sparse arrays.

    The function is staged with dense types, and its program is run with a sparse rule for each primitive that has a sparse
    operand. `todense` inside of the function makes a value dense.

    Args:
      f: a function of arrays, and of trees of them.
      use_tracer: ignored; it selects another implementation in JAX.
    Returns:
      A function that also takes sparse arrays, and returns BCOO arrays where results are sparse.
    Raises:
      NotImplementedError: a primitive with a sparse operand has no sparse rule; the message names it.

    Source: JAX's function of this name.

    >>> import lamina_numpy as lnp
    >>> sparsify(lambda x, y: lnp.sin(x) @ y)(BCOO.fromdense(np.zeros((2, 3))), np.ones(3))
    Array([0., 0.], dtype=float32)
    """
    @wraps(f, functools.WRAPPER_UPDATES)
    def sparse_f(*args: Tree, **kwargs: Tree) -> Tree:
        leaves, tree = trees.tree_flatten((args, kwargs), is_leaf=_is_sparse)
        places = [i for i, x in enumerate(leaves) if _is_sparse(x) or _is_array(x)]
        values = [leaves[i].to_bcoo() if _is_sparse(leaves[i]) else leaves[i] for i in places]
        avals = [shaped(x.shape, x.dtype) if _is_sparse(x) else typeof(x) for x in values]
        out_tree: Any = None

        def flat(*tracers: Any) -> list[Value]:
            nonlocal out_tree
            full = list(leaves)
            for i, x in zip(places, tracers, strict=True):
                full[i] = x
            call_args, call_kwargs = trees.tree_unflatten(tree, full)
            results, out_tree = trees.tree_flatten(f(*call_args, **call_kwargs))
            return results
        closed, outer = stage(flat, avals, ("sparsify", f, None, ()))
        return trees.tree_unflatten(out_tree, _run(closed, [*outer, *values]))
    sparse_f.__name__ = function_name(f)
    return sparse_f


# --- elementwise ----------------------------------------------------------------------------------------------------
def _linear_rule(prim: Primitive) -> Function:
    return lambda args, **params: args[0].replace_data(bind(prim, args[0].data, **params))


def _zero_preserving_rule(prim: Primitive) -> Function:
    return lambda args, **params: _methods.map_stored(lambda data: bind(prim, data, **params), args[0])


def _name(args: list[Any], *, name: str) -> Any:
    return bcoo_todense(args[0]) if name == TODENSE else args[0].replace_data(bind(prims.name_p, args[0].data, name=name))


def _convert(args: list[Any], **params: ParamValue) -> Any:
    return _methods.astype(args[0], params["new_dtype"])


def _integer_pow(args: list[Any], *, y: int) -> Any:
    return _methods.power(args[0], y)


def _pow(args: list[Any]) -> Any:
    x, y = args
    if not _is_sparse(x) or isinstance(y, Tracer) or np.ndim(y):
        raise NotImplementedError("sparsify: `pow` needs a sparse base and a number known at compile time as "
                                  "exponent. Use todense")
    return _methods.power(x, float(y))


def _multiply(args: list[Any]) -> Any:
    x, y = args if _is_sparse(args[0]) else args[::-1]
    return _methods.multiply(x, y)


def _add(args: list[Any]) -> Any:
    return _methods.add(*args)


def _sub(args: list[Any]) -> Any:
    return _methods.subtract(*args)


def _div(args: list[Any]) -> Any:
    x, y = args
    if _is_sparse(y) or dtypes.is_inexact(np.dtype(x.dtype)):
        return _methods.divide(x, y)
    x = _methods.unique(x).to_bcoo()  # division of integers rounds
    return x.replace_data(lax.div(x.data, lnp.broadcast_to(gather_dense("div", x, lnp.asarray(y), fill=1), x.data.shape)))


# --- shapes and products ----------------------------------------------------------------------------------------------
def _reduce_sum(args: list[Any], *, axes: Sequence[int]) -> Any:
    out = bcoo_reduce_sum(args[0], axes=axes)
    return out if out.ndim else bcoo_todense(out)


def _dot_general(args: list[Any], **params: ParamValue) -> Any:
    return bcoo_dot_general(*args, **params)


def _expand_dims(args: list[Any], *, dimensions: Sequence[int]) -> Any:
    n = args[0].ndim + len(dimensions)
    kept = [a for a in range(n) if a not in dimensions]
    sizes = dict(zip(kept, args[0].shape, strict=True))
    return bcoo_broadcast_in_dim(args[0], shape=[sizes.get(a, 1) for a in range(n)], broadcast_dimensions=kept)


def _require_dense(prim: str, values: Sequence[Any]) -> None:
    if any(map(_is_sparse, values)):
        raise NotImplementedError(f"sparsify: `{prim}` takes sparse arrays only as its first operand. Use todense")


def _dynamic_slice(args: list[Any], *, slice_sizes: Sequence[int]) -> Any:
    _require_dense("dynamic_slice", args[1:])
    return bcoo_dynamic_slice(args[0], args[1:], slice_sizes)


def _gather(args: list[Any], *, dimension_numbers: Any, slice_sizes: Sequence[int], mode: Any, **params: ParamValue) -> Any:
    _require_dense("gather", args[1:])
    return bcoo_gather(args[0], args[1], dimension_numbers, slice_sizes, mode=mode)


def _concatenate(args: list[Any], *, dimension: int) -> Any:
    if not all(map(_is_sparse, args)):
        raise NotImplementedError("sparsify: `concatenate` of sparse and dense arrays has a dense result. Use todense")
    return bcoo_concatenate(args, dimension=dimension)


# --- nested programs ----------------------------------------------------------------------------------------------------
def _call_of_one_or_more(prim: Primitive) -> Function:
    def rule(args: list[Any], *, call_jaxpr: Any, **params: ParamValue) -> Any:
        out = _run(call_jaxpr, args)
        return out if prim.multiple else out[0]
    return rule


def _normalize(values: Sequence[Any]) -> list[Any]:
    """Return carried or selected values with equal types where their formats are equal: without flags, data and indices with
    all batch dimensions."""
    return [BCOO((expand(x.data, batch_shape(x)), expand(x.indices, batch_shape(x))), shape=x.shape) if _is_sparse(x)
            else lnp.asarray(x) for x in values]


def _check_formats(prim: str, got: Sequence[Any], want: Sequence[Any]) -> None:
    for i, (x, y) in enumerate(zip(got, want, strict=True)):
        formats = [(type(v).__name__, v.nse, v.n_batch, v.n_dense) if _is_sparse(v) else "dense" for v in (x, y)]
        if formats[0] != formats[1]:
            raise NotImplementedError(f"sparsify: `{prim}` must keep the format of value {i}: {formats[1]} (class, "
                                      f"nse, n_batch, "
                                      f"n_dense); got {formats[0]}. Use todense, or sum_duplicates with nse, in the "
                                      f"function")


def _cond(args: list[Any], *, branches: Sequence[Any]) -> list[Any]:
    index, *operands = args
    formats: list[list[Any]] = []

    def make(branch: Any) -> Callable[..., list[Any]]:
        def run(*values: Any) -> list[Any]:
            out = _normalize(_run(branch, values))
            formats.append(out)
            _check_formats("cond", out, formats[0])
            return out
        return run
    return lax.switch(index, [make(branch) for branch in branches], *_normalize(operands))


def _while(args: list[Any], *, body_jaxpr: Any, body_nconsts: int, cond_jaxpr: Any, cond_nconsts: int, max_iters: Any = None,
           ) -> list[Any]:
    consts, body_consts = args[:cond_nconsts], args[cond_nconsts:cond_nconsts + body_nconsts]

    def body(carry: list[Any]) -> list[Any]:
        out = _normalize(_run(body_jaxpr, [*body_consts, *carry]))
        _check_formats("while", out, carry)
        return out
    return lax.while_loop(lambda carry: _run(cond_jaxpr, [*consts, *carry])[0], body,
                          _normalize(args[cond_nconsts + body_nconsts:]), max_iters)


def _scan(args: list[Any], *, jaxpr: Any, length: int, num_carry: int, num_consts: int, reverse: bool,
          unroll: int) -> list[Any]:
    consts, carry, xs = args[:num_consts], args[num_consts:num_consts + num_carry], args[num_consts + num_carry:]
    if any(_is_sparse(x) and not x.n_batch for x in xs):
        raise NotImplementedError("sparsify: `scan` iterates over batch dimensions of sparse arrays; got one with "
                                  "n_batch=0. Use "
                                  "update_layout(n_batch=1)")

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        out = _run(jaxpr, [*consts, *carry, *x])
        new = _normalize(out[:num_carry])
        _check_formats("scan", new, carry)
        return new, _normalize(out[num_carry:])
    last, ys = lax.scan(step, _normalize(carry), _normalize(xs), length=length, reverse=reverse, unroll=unroll)
    return [*last, *ys]


# --- the table ----------------------------------------------------------------------------------------------------------
def _define_rules() -> None:
    known = {prim.name: prim for prim in prims.ALL}
    rules: dict[str, Function] = {}
    rules |= {name: _linear_rule(known[name]) for name in _LINEAR.split()}
    rules |= {name: _zero_preserving_rule(known[name]) for name in _ZERO_PRESERVING.split()}
    rules |= {"name": _name, "convert_element_type": _convert, "integer_pow": _integer_pow, "pow": _pow, "mul": _multiply,
              "add": _add, "sub": _sub, "div": _div, "reduce_sum": _reduce_sum, "dot_general": _dot_general,
              "expand_dims": _expand_dims, "dynamic_slice": _dynamic_slice, "gather": _gather, "concatenate": _concatenate,
              "cond": _cond, "while": _while, "scan": _scan}
    rules |= {name: _call_of_one_or_more(known[name])
              for name in ("xla_call", "remat", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call")}
    for name, function in (("transpose", bcoo_transpose), ("reshape", bcoo_reshape), ("squeeze", bcoo_squeeze),
                           ("slice", bcoo_slice), ("broadcast_in_dim", bcoo_broadcast_in_dim), ("rev", bcoo_rev)):
        rules[name] = functools.partial(_apply_to_first, function)
    dense = _DENSE.split()
    for prim in prims.ALL:
        if prim.name in rules:
            sparse_rules.define(prim, rules[prim.name])
        else:
            reason = "its result would be dense" if prim.name in dense else "it is not implemented for sparse arrays"
            sparse_rules.declare_missing(prim, f"{reason}; use lamina_sparse.todense in the function")


def _apply_to_first(function: Function, args: list[Any], **params: ParamValue) -> Any:
    return function(args[0], **params)


_define_rules()
