"""`lamina.tools`: helpers for notebooks."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from . import colab_tpu

__all__ = ["colab_tpu"]
