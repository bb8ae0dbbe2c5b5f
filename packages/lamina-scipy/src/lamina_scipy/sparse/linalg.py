"""Systems of equations solved by iteration, named as `scipy.sparse.linalg` names them."""
from lamina_numpy.extend import publish as _publish

from .._iterative_solvers import bicgstab, cg, gmres

__all__ = ["bicgstab", "cg", "gmres"]

_publish(globals())
