"""`lamina.ad_checkpoint`: recomputation instead of storage, from `lamina_autodiff`."""
from . import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_autodiff import (Recompute, Saveable, checkpoint, checkpoint_name, checkpoint_policies, print_saved_residuals,
                             remat)
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.prims import Offload as Offloadable
from lamina_ir.prims import name_p

__all__ = ["Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name", "checkpoint_policies", "name_p",
           "print_saved_residuals", "remat"]

_explain_absent_names(globals())
