"""Batching: `vmap` and its rule table. No backend needed."""
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from lamina_tracing import slots as _slots

from . import extend, rules
from ._version import __version__
from .custom_vmap import custom_vmap, sequential_vmap
from .mapping import vmap

_slots.set_basis_map(lambda push, basis: vmap(push)(*basis))

__all__ = ["__version__", "custom_vmap", "extend", "sequential_vmap", "vmap"]

del rules

_hide_frames_of(__file__.rsplit("/", 1)[0])
