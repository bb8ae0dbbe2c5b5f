"""`lamina.tools.colab_tpu`: kept so that older notebooks run, from `lamina_runtime`."""
from lamina_runtime import setup_tpu

__all__ = ["setup_tpu"]
