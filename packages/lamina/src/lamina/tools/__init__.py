"""`lamina.tools`: helpers for notebooks."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from . import colab_tpu

__all__ = ["colab_tpu"]

_explain_absent_names(globals())
