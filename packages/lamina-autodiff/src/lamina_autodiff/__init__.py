"""Differentiation: forward, linearized and reverse, from one set of rule tables. No backend needed."""
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from . import extend, jvp_rules, transpose_rules
from ._version import __version__
from .closures import closure_convert
from .custom_jvp import custom_jvp
from .custom_rules import SymbolicZero
from .custom_gradient import custom_gradient
from .custom_vjp import CustomVJPPrimal, custom_vjp
from .forward import jvp, linearize
from .jacobians import hessian, jacfwd, jacrev
from .policies import checkpoint_policies
from .remat import checkpoint, checkpoint_name
from .reverse import grad, linear_transpose, value_and_grad, vjp
from .solves import custom_linear_solve, custom_root

remat = checkpoint
jacobian = jacrev

__all__ = ["CustomVJPPrimal", "SymbolicZero", "__version__", "checkpoint", "checkpoint_name", "checkpoint_policies",
           "closure_convert", "custom_gradient", "custom_jvp", "custom_linear_solve", "custom_root", "custom_vjp",
           "extend", "grad", "hessian", "jacfwd", "jacobian", "jacrev", "jvp", "linear_transpose", "linearize", "remat",
           "value_and_grad", "vjp"]

del jvp_rules, transpose_rules

_hide_frames_of(__file__.rsplit("/", 1)[0])
