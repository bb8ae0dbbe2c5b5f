"""`lamina.experimental.sparse.linalg`: linear systems with sparse matrices, from `lamina_sparse.linalg`."""
from ... import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_sparse.linalg import *
from lamina_sparse.linalg import __all__ as __all__

_explain_absent_names(globals())
