"""Differentiation: forward, linearized and reverse, from one set of rule tables. No backend needed."""
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from . import extend, jvp_rules, transpose_rules
from ._version import __version__
from .forward import jvp, linearize
from .jacobians import hessian, jacfwd, jacrev
from .reverse import grad, linear_transpose, value_and_grad, vjp

__all__ = ["__version__", "extend", "grad", "hessian", "jacfwd", "jacrev", "jvp", "linear_transpose", "linearize",
           "value_and_grad", "vjp"]

del jvp_rules, transpose_rules

_hide_frames_of(__file__.rsplit("/", 1)[0])
