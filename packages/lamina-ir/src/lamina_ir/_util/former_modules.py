"""Import modules by their former dotted paths: public modules that were renamed, and the paths that older pickles contain.

A pickle contains the dotted path of each class and function that it needs. A renamed public module works for one minor version
and warns when it is imported. The finder comes last in `sys.meta_path`, so imports of existing modules do not pay for it.
"""
from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType

__all__ = ["install_finder"]

# Former module -> name in a pickle -> module and attribute where it is now.
_FORMER = {
    "lamina_export.families": {"Family": "lamina_export.shape_polymorphism:Family"},
    "lamina_export.scopes": {"SymbolicScope": "lamina_export.symbolic_scope:SymbolicScope"},
    "lamina_ir.primitive": {"by_name": "lamina_ir._core.primitive:get_primitive"},
    "lamina_ir._pickling": {"_load": "lamina_ir._serialize.pickle_support:_load",
                            "_load_open": "lamina_ir._serialize.pickle_support:_load_jaxpr"},
    "lamina_ir._tree_registry": {"Partial": "lamina_ir.trees:Partial"},
    "lamina_ir.avals": {"ShapeDtypeStruct": "lamina_ir:ShapeDtypeStruct", "ShapedArray": "lamina_ir:ShapedArray"},
    "lamina_parallel.mesh": {"Mesh": "lamina_parallel:Mesh"},
    "lamina_parallel.partition_spec": {"PartitionSpec": "lamina_parallel:PartitionSpec"},
    "lamina_runtime.arrays": {"_restore": "lamina_runtime._array.arrays:_restore"},
    "lamina_runtime.dispatch": {"_jitted_again": "lamina_runtime._dispatch.jit_call:_restore_jitted"},
    "lamina_runtime.key_arrays": {"_restored": "lamina_runtime._array.key_array:_restored"},
    "lamina_runtime.sharding_methods": {
        "_restored": "lamina_runtime._sharding.methods:_restore_gspmd",
        "device_called": "lamina_runtime._sharding.methods:find_device",
        "positional": "lamina_runtime._sharding.methods:positional_sharding"},
    "lamina_runtime.shardings": {"by_spec": "lamina_runtime._sharding.shardings:named_sharding",
                                 "single": "lamina_runtime._sharding.shardings:single_device_sharding"},
    "lamina_tracing.trace": {"EVALUATION": "lamina_tracing._core.trace:EVALUATION",
                             "now": "lamina_tracing._core.trace:trace_state"},
}

# Former public module -> module.
_RENAMED = {
    "lamina_ir.seams": "lamina_ir.interfaces",
    "lamina_tracing.seams": "lamina_tracing.interfaces",
    "lamina_tracing.slots": "lamina_tracing._jit.hooks",
    "lamina_tracing.wrapped_functions": "lamina_tracing.linear_util",
    "lamina_autodiff.tables": "lamina_autodiff.extend",
    "lamina_batching.batch": "lamina_batching.batch_trace",
    "lamina_lowering.tables": "lamina_lowering.extend",
    "lamina_runtime.sides": "lamina_distributed",
    "lamina_tracing.stage": "lamina_tracing.extend",
    **{f"lamina_{x}.contract": f"lamina_{x}.conformance" for x in (
        "autodiff", "batching", "ir", "lowering", "numpy", "parallel", "runtime", "tracing")},
    **{f"lamina_{x}.stock": f"lamina_{x}._default" for x in (
        "autodiff", "batching", "export", "lowering", "nn", "numpy", "parallel", "random", "runtime", "scipy", "tracing")},
}


def _find_renamed(name: str) -> str | None:
    """Return the present path of a renamed module, or of a module in a renamed folder; None for other names."""
    head, _, tail = name.rpartition(".")
    if name in _RENAMED:
        return _RENAMED[name]
    return f"{_RENAMED[head]}.{tail}" if head in _RENAMED and find_spec(f"{_RENAMED[head]}.{tail}") else None


class _FormerModuleFinder:
    """Meta path finder and loader of the modules in the table."""

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in _FORMER or _find_renamed(name) else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None  # the default module object

    def get_code(self, name: str) -> CodeType:
        """Return the code that `python -m` runs: that of the renamed module."""
        renamed = _find_renamed(name)
        return compile(f"import runpy; runpy.run_module({renamed!r}, run_name='__main__', alter_sys=True)", name, "exec")

    def exec_module(self, module: ModuleType) -> None:
        renamed = _find_renamed(module.__name__)
        if renamed is not None:
            module.__path__ = []  # this finder imports modules of a renamed folder too
            warnings.warn(f"{module.__name__} is deprecated; import {renamed}", DeprecationWarning, stacklevel=2)
        names = _FORMER.get(module.__name__, {})

        def __getattr__(name: str) -> object:
            if renamed is not None:
                return getattr(import_module(renamed), name)
            if name not in names:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            home, _, attribute = names[name].partition(":")
            return getattr(import_module(home), attribute)

        module.__getattr__ = __getattr__  # type: ignore[method-assign]


def install_finder() -> None:
    """Append the finder to `sys.meta_path`, once."""
    if not any(isinstance(finder, _FormerModuleFinder) for finder in sys.meta_path):
        sys.meta_path.append(_FormerModuleFinder())
