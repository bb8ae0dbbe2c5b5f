"""Defect: None is a leaf of a tree."""
from lamina_ir import trees

_leaves = trees.tree_leaves
trees.tree_leaves = lambda tree, is_leaf=None: _leaves(tree, is_leaf=lambda t: t is None or bool(is_leaf and is_leaf(t)))
