"""Matrices as `scipy.linalg` has them: factorisations, systems, functions of matrices; each works on stacks of matrices."""
from lamina_numpy.extend import publish as _publish

from ._decompositions import cho_factor, cholesky, eigh, hessenberg, lu, lu_factor, polar, qr, qr_multiply, rsf2csf, schur, svd
from ._matrix_functions import expm, expm_frechet, funm, sqrtm
from ._numbered_matrices import dft, hadamard, helmert, invhilbert, invpascal, pascal
from ._special_matrices import block_diag, hilbert, toeplitz
from ._solvers import cho_solve, det, inv, lu_solve, solve, solve_triangular
from ._structured_matrices import (circulant, companion, convolution_matrix, fiedler, fiedler_companion, hankel,
                                   leslie)
from ._sylvester import solve_sylvester
from ._tridiagonal import eigh_tridiagonal

__all__ = ["block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det", "dft",
           "eigh", "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel",
           "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve",
           "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester", "solve_triangular", "sqrtm",
           "svd", "toeplitz"]

_publish(globals())
