"""Transpose rules of solves in the right-hand side: solves with the transposed matrix."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

from .._engine.rule_tables import transpose_rules
from ..jvp_rules._batched_matrix import matrix_transpose

__all__: list[str] = []


def solve_transpose(ct, a, b):
    return None, bind(prims.solve_p, matrix_transpose(a), ct)


def triangular_solve_transpose(ct, a, b, *, transpose_a, **params):
    return None, bind(prims.triangular_solve_p, a, ct, transpose_a=not transpose_a, **params)


def tridiagonal_solve_transpose(ct, dl, d, du, b):
    """Solve T^T x = ct. The lower diagonal of T^T is the upper diagonal of T shifted by one row, and vice versa."""
    around = [(0, 0, 0)] * (len(typeof(d).shape) - 1)
    zero = scalar(0, typeof(d).dtype)
    below, above = lax.pad(du, zero, [*around, (1, -1, 0)]), lax.pad(dl, zero, [*around, (-1, 1, 0)])
    return None, None, None, bind(prims.tridiagonal_solve_p, below, d, above, ct)


transpose_rules.define(prims.solve_p, solve_transpose)
transpose_rules.define(prims.triangular_solve_p, triangular_solve_transpose)
transpose_rules.define(prims.tridiagonal_solve_p, tridiagonal_solve_transpose)
