"""`lamina.tools`: helpers for notebooks."""
from . import colab_tpu

__all__ = ["colab_tpu"]
