"""`numpy.linalg`: norms, factorisations, systems of equations, determinants; names only, each public one jitted."""
from .._products.products import matmul, outer, tensordot, vecdot
from .._core.public_api import publish as _publish
from .._shape.layout import matrix_transpose
from ._decompositions import (EighResult, EigResult, QRResult, SVDResult, cholesky, eig, eigh, eigvals, eigvalsh, qr, svd,
                              svdvals)
from ._determinants import SlogdetResult, det, slogdet
from ._least_squares import lstsq
from ._norms import cond, cross, diagonal, matrix_norm, matrix_power, multi_dot, norm, trace, vector_norm
from ._pseudoinverse import pinv
from ._solving import inv, matrix_rank, solve, tensorinv, tensorsolve

__all__ = ["EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross", "det",
           "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power",
           "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd",
           "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm"]

_publish(globals())
