"""Batching of matrix ops: the batch becomes one more leading axis, which they have any number of.

A solve whose matrix is not batched stays one solve, with more right-hand sides.
"""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..batch import materialise, move_to
from ..tables import batching_rules

__all__: list[str] = []


def _leading(prim):
    def rule(axis, args, dims, **params):
        out = bind(prim, *[materialise(x, d, axis.size) for x, d in zip(args, dims, strict=True)], **params)
        return (out, (0,) * len(out)) if prim.multiple else (out, 0)
    return rule


def _more_columns(solve, b, d, axis, at):
    """`solve(b)` with the batch axis of b beside the axis `at` of right-hand sides, both taken as one."""
    b = move_to(b, d, at)
    shape = typeof(b).shape
    flat = lax.reshape(b, (*shape[:at], axis.size * shape[at + 1], *shape[at + 2:]))
    return lax.reshape(solve(flat), shape), at


def triangular_solve_batching(axis, args, dims, **params):
    if dims[0] is None:
        n = len(typeof(args[1]).shape) - 1  # axes of one example
        return _more_columns(lambda b: bind(prims.triangular_solve_p, args[0], b, **params), args[1], dims[1], axis,
                             n - 1 if params["left_side"] else n - 2)
    return _leading(prims.triangular_solve_p)(axis, args, dims, **params)


def tridiagonal_solve_batching(axis, args, dims):
    if dims[0] is None and dims[1] is None and dims[2] is None:
        return _more_columns(lambda b: bind(prims.tridiagonal_solve_p, *args[:3], b), args[3], dims[3], axis,
                             len(typeof(args[3]).shape) - 2)
    return _leading(prims.tridiagonal_solve_p)(axis, args, dims)


for _prim in (prims.cholesky_p, prims.lu_p, prims.lu_pivots_to_permutation_p, prims.geqrf_p,
              prims.householder_product_p, prims.qr_p, prims.eigh_p, prims.eig_p, prims.svd_p, prims.hessenberg_p,
              prims.tridiagonal_p, prims.schur_p):
    batching_rules.define(_prim, _leading(_prim))
batching_rules.define(prims.triangular_solve_p, triangular_solve_batching)
batching_rules.define(prims.tridiagonal_solve_p, tridiagonal_solve_batching)
