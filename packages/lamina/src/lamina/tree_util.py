"""`lamina.tree_util`: trees of containers, from `lamina_ir.trees`."""
from lamina_ir.trees import *
from lamina_ir.trees import __all__ as __all__
