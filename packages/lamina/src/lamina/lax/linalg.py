"""`lamina.lax.linalg`: factorisations and their solves, from `lamina_tracing.lax.factorizations`, and their ops."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.prims import (cholesky_p, eig_p, eigh_p, hessenberg_p, householder_product_p, lu_p, lu_pivots_to_permutation_p,
                             qr_p, schur_p, svd_p, triangular_solve_p, tridiagonal_p, tridiagonal_solve_p)
from lamina_tracing.lax.factorizations import *
from lamina_tracing.lax.factorizations import __all__ as _functions
from lamina_tracing.primitives import cholesky_update_p, ormqr_p, symmetric_product_p

__all__ = [*_functions, "cholesky_p", "cholesky_update_p", "eig_p", "eigh_p", "hessenberg_p", "householder_product_p", "lu_p",
           "lu_pivots_to_permutation_p", "ormqr_p", "qr_p", "schur_p", "svd_p", "symmetric_product_p", "triangular_solve_p",
           "tridiagonal_p", "tridiagonal_solve_p"]

_explain_absent_names(globals())
