"""Default implementation of the package: the public names.

`__init__` re-exports them. An alternative implementation that changes only a few names starts from them with a star
import.
"""
from lamina_ir.layers import deprecated_getattr as _deprecated_getattr
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from lamina_tracing import hooks as _slots

from . import extend
from ._version import __version__
from .custom_vmap import custom_vmap, sequential_vmap
from .vmap import vmap

__all__ = ["__version__", "custom_vmap", "extend", "sequential_vmap", "vmap"]

_slots.set_basis_map(lambda push, basis: vmap(push)(*basis))

_hide_frames_of(__file__.rsplit("/", 1)[0])

__getattr__ = _deprecated_getattr(__package__ or "")
