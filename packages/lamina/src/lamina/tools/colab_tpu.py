"""`lamina.tools.colab_tpu`: kept so that older notebooks run, from `lamina_runtime`."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_runtime import setup_tpu

__all__ = ["setup_tpu"]
