"""`lamina.test_util`: derivatives checked against finite differences, from `lamina_autodiff.testing`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_autodiff.testing import check_grads, check_jvp, check_vjp

__all__ = ["check_grads", "check_jvp", "check_vjp"]
