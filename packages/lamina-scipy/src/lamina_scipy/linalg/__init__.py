"""Matrices as `scipy.linalg` has them: factorisations, systems, functions of matrices; each works on stacks of matrices."""
from lamina_numpy.extend import publish as _publish

from ._decompositions import cho_factor, cholesky, eigh, hessenberg, lu, lu_factor, polar, qr, rsf2csf, schur, svd
from ._matrix_functions import expm, expm_frechet, funm, sqrtm
from ._special_matrices import block_diag, hilbert, toeplitz
from ._solvers import cho_solve, det, inv, lu_solve, solve, solve_triangular
from ._tridiagonal import eigh_tridiagonal

__all__ = ["block_diag", "cho_factor", "cho_solve", "cholesky", "det", "eigh", "eigh_tridiagonal", "expm", "expm_frechet",
           "funm", "hessenberg", "hilbert", "inv", "lu", "lu_factor", "lu_solve", "polar", "qr", "rsf2csf", "schur", "solve",
           "solve_triangular", "sqrtm", "svd", "toeplitz"]

_publish(globals())
