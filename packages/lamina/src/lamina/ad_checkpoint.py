"""`lamina.ad_checkpoint`: recomputation instead of storage, from `lamina_autodiff`."""
from lamina_autodiff import checkpoint, checkpoint_name, checkpoint_policies, remat

__all__ = ["checkpoint", "checkpoint_name", "checkpoint_policies", "remat"]
