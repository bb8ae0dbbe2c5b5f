"""Batching rules of matrix primitives: the batch becomes another leading axis; they accept any number of these.

A solve whose matrix is unbatched stays one solve, with more right-hand sides.
"""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

from ..batch_trace import materialise, move_axis
from ..tables import batching_rules

__all__: list[str] = []


def _make_leading_rule(prim):
    """Return the rule that moves the batch axis of all operands first."""
    def rule(axis, args, dims, **params):
        out = bind(prim, *[materialise(x, d, axis.size) for x, d in zip(args, dims, strict=True)], **params)
        return (out, (0,) * len(out)) if prim.multiple else (out, 0)
    return rule


def _solve_more_columns(solve, b, d, axis, at):
    """Merge the batch axis of b into the axis `at` of right-hand sides, call `solve`, and split them again."""
    b = move_axis(b, d, at)
    shape = typeof(b).shape
    flat = lax.reshape(b, (*shape[:at], axis.size * shape[at + 1], *shape[at + 2:]))
    return lax.reshape(solve(flat), shape), at


def triangular_solve_batching(axis, args, dims, **params):
    if dims[0] is None:
        n = len(typeof(args[1]).shape) - 1  # axes of one example
        return _solve_more_columns(lambda b: bind(prims.triangular_solve_p, args[0], b, **params), args[1], dims[1], axis,
                                   n - 1 if params["left_side"] else n - 2)
    return _make_leading_rule(prims.triangular_solve_p)(axis, args, dims, **params)


def solve_batching(axis, args, dims):
    if dims[0] is None:
        return _solve_more_columns(lambda b: bind(prims.solve_p, args[0], b), args[1], dims[1], axis,
                                   len(typeof(args[1]).shape) - 2)
    return _make_leading_rule(prims.solve_p)(axis, args, dims)


def tridiagonal_solve_batching(axis, args, dims):
    if dims[0] is None and dims[1] is None and dims[2] is None:
        return _solve_more_columns(lambda b: bind(prims.tridiagonal_solve_p, *args[:3], b), args[3], dims[3], axis,
                                   len(typeof(args[3]).shape) - 2)
    return _make_leading_rule(prims.tridiagonal_solve_p)(axis, args, dims)


for _prim in (prims.cholesky_p, prims.lu_p, prims.lu_pivots_to_permutation_p, prims.geqrf_p,
              prims.householder_product_p, prims.qr_p, prims.eigh_p, prims.eig_p, prims.svd_p, prims.hessenberg_p,
              prims.tridiagonal_p, prims.schur_p, prims.slogdet_p):
    batching_rules.define(_prim, _make_leading_rule(_prim))
batching_rules.define(prims.solve_p, solve_batching)
batching_rules.define(prims.triangular_solve_p, triangular_solve_batching)
batching_rules.define(prims.tridiagonal_solve_p, tridiagonal_solve_batching)
