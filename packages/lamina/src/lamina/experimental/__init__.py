"""`lamina.experimental`: names that people look for here. Its modules are imported when they are asked for."""
import typing as _typing
from importlib import import_module as _import_module

from .. import _packages as _packages  # the runtime first: what follows is dispatched through it
from lamina_ir.layers import explain_absent_names as _explain_absent_names
from lamina_tracing import disable_x64, enable_x64, io_callback

if _typing.TYPE_CHECKING:
    from . import (array_serialization as array_serialization, checkify as checkify, checkpointing as checkpointing,
                   compilation_cache as compilation_cache, export as export, host_callback as host_callback, jet as jet,
                   key_reuse as key_reuse, layout as layout, maps as maps, mesh_utils as mesh_utils, multihost_utils as
                   multihost_utils, ode as ode, pallas as pallas, pjit as pjit, rnn as rnn, serialize_executable as
                   serialize_executable, shard_map as shard_map, sparse as sparse, x64_context as x64_context)

__all__ = ["array_serialization", "checkify", "checkpointing", "compilation_cache", "disable_x64", "enable_x64",
           "export", "host_callback", "io_callback", "jet", "key_reuse", "layout", "maps", "mesh_utils",
           "multihost_utils", "ode", "pallas", "pjit", "rnn", "serialize_executable", "shard_map", "sparse",
           "x64_context"]


def __getattr__(name: str) -> _typing.Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return _import_module(f"{__name__}.{name}")  # few programs use more than one of them
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in ("lamina_checkpoint", "tensorstore"):
            raise
        raise ImportError(f"lamina.experimental.{name} needs the package lamina-checkpoint: pip install "
                          "'lamina[checkpoint]'") from None


_explain_absent_names(globals())
