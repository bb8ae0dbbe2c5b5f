"""Use jaxlib's C++ pytree registry as the backend of `lamina_ir.trees`.

jaxlib's call path flattens with this registry, so that all other code has to agree with it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable

from lamina_ir import trees
from lamina_ir.typing import Function, Value
from lamina_ir.trees import PyTreeDef

from .. import _jaxlib

__all__ = ["CALL_REGISTRY", "JaxlibBackend", "REGISTRY", "install"]

REGISTRY = _jaxlib.PyTreeRegistry()
# The registry of call objects. Here key arrays are nodes: compiled programs take and return their uint32 data.
CALL_REGISTRY = _jaxlib.PyTreeRegistry()
_NAME = "lamina_registry"
# jaxlib pickles a treedef with the name of its registry and looks that name up in its own module `pytree`.
REGISTRY.__name__ = _NAME
setattr(_jaxlib.pytree, _NAME, REGISTRY)


class JaxlibBackend:
    """Implement the backend protocol of `lamina_ir.trees` with `PyTreeRegistry`."""

    def __init__(self) -> None:
        self.flatten = REGISTRY.flatten
        self.flatten_one_level = REGISTRY.flatten_one_level
        self.treedef_type = _jaxlib.PyTreeDef

    def register_dataclass_node(self, kind: type, data: list[str], meta: list[str]) -> None:
        for registry in (REGISTRY, CALL_REGISTRY):
            registry.register_dataclass_node(kind, data, meta)

    def register_node(self, kind: type, flatten: Callable[[Function], Function],
                      unflatten: Callable[[Function, Function], Function]) -> None:
        for registry in (REGISTRY, CALL_REGISTRY):
            registry.register_node(kind, flatten, unflatten)

    def treedef_tuple(self, treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
        return _jaxlib.pytree.treedef_tuple(REGISTRY, list(treedefs))

    def all_leaves(self, values: Iterable[Value]) -> bool:
        return _jaxlib.pytree.all_leaves(REGISTRY, values)

    def make_treedef(self, node_data: tuple[type, object] | None, children: Iterable[PyTreeDef]) -> PyTreeDef:
        return _jaxlib.PyTreeDef.from_node_data_and_children(REGISTRY, node_data, children)


def install() -> None:
    """Make jaxlib's registry the backend of `lamina_ir.trees`."""
    if not isinstance(trees.backend(), JaxlibBackend):
        trees.set_backend(JaxlibBackend())
