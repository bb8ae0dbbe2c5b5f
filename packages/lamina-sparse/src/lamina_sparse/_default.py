"""The default implementation, for the facade and for plugins: `from lamina_sparse._default import *`."""
from lamina_numpy.extend import publish as _publish
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from . import linalg
from ._ad import grad, jacfwd, jacobian, jacrev, value_and_grad
from ._bcoo import (bcoo_extract, bcoo_fromdense, bcoo_sort_indices, bcoo_sum_duplicates, bcoo_todense, bcoo_update_layout)
from ._compressed import (bcsr_broadcast_in_dim, bcsr_concatenate, bcsr_dot_general, bcsr_extract, bcsr_fromdense,
                          bcsr_sum_duplicates, bcsr_todense, coo_fromdense, coo_matmat, coo_matvec, coo_todense, csr_fromdense,
                          csr_matmat, csr_matvec, csr_todense)
from ._creation import empty, eye, random_bcoo, todense
from ._products import bcoo_dot_general, bcoo_dot_general_sampled, bcoo_multiply_dense, bcoo_multiply_sparse
from ._shape import (bcoo_broadcast_in_dim, bcoo_concatenate, bcoo_dynamic_slice, bcoo_gather, bcoo_reduce_sum, bcoo_reshape,
                     bcoo_rev, bcoo_slice, bcoo_squeeze, bcoo_transpose)
from ._sparsify import sparse_rules, sparsify
from ._types import (BCOO, BCSR, COO, CSC, CSR, CuSparseEfficiencyWarning, JAXSparse, SparseEfficiencyError,
                     SparseEfficiencyWarning)
from ._version import __version__

__all__ = ["BCOO", "BCSR", "COO", "CSC", "CSR", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError",
           "SparseEfficiencyWarning", "__version__", "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dot_general",
           "bcoo_dot_general_sampled", "bcoo_dynamic_slice", "bcoo_extract", "bcoo_fromdense", "bcoo_gather",
           "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum", "bcoo_reshape", "bcoo_rev", "bcoo_slice",
           "bcoo_sort_indices", "bcoo_squeeze", "bcoo_sum_duplicates", "bcoo_todense", "bcoo_transpose",
           "bcoo_update_layout", "bcsr_broadcast_in_dim", "bcsr_concatenate", "bcsr_dot_general", "bcsr_extract",
           "bcsr_fromdense", "bcsr_sum_duplicates", "bcsr_todense", "coo_fromdense", "coo_matmat", "coo_matvec",
           "coo_todense", "csr_fromdense", "csr_matmat", "csr_matvec", "csr_todense", "empty", "eye", "grad", "jacfwd",
           "jacobian", "jacrev", "linalg", "random_bcoo", "sparse_rules", "sparsify", "todense", "value_and_grad"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
_publish(globals())
