"""`lamina.experimental`: names that people look for here."""
from .. import _rooms as _rooms  # the runtime first: what follows is dispatched through it
from lamina_tracing import disable_x64, enable_x64, io_callback

from . import (checkpointing, compilation_cache, export, host_callback, key_reuse, maps, mesh_utils, multihost_utils, ode,
               pjit, rnn, shard_map, x64_context)

__all__ = ["checkpointing", "compilation_cache", "disable_x64", "enable_x64", "export", "host_callback", "io_callback",
           "key_reuse", "maps", "mesh_utils", "multihost_utils", "ode", "pjit", "rnn", "shard_map", "x64_context"]
