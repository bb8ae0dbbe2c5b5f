"""`lamina.tree`: the functions of `lamina.tree_util` under short names."""
from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_ir.trees import static as static
from lamina_ir.trees import tree_all as all
from lamina_ir.trees import tree_broadcast as broadcast
from lamina_ir.trees import tree_flatten as flatten
from lamina_ir.trees import tree_flatten_with_path as flatten_with_path
from lamina_ir.trees import tree_leaves as leaves
from lamina_ir.trees import tree_leaves_with_path as leaves_with_path
from lamina_ir.trees import tree_map as map
from lamina_ir.trees import tree_map_with_path as map_with_path
from lamina_ir.trees import tree_reduce as reduce
from lamina_ir.trees import tree_reduce_associative as reduce_associative
from lamina_ir.trees import tree_structure as structure
from lamina_ir.trees import tree_transpose as transpose
from lamina_ir.trees import tree_unflatten as unflatten

__all__ = ["all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path", "map", "map_with_path", "reduce",
           "reduce_associative", "static", "structure", "transpose", "unflatten"]

_explain_absent_names(globals())
