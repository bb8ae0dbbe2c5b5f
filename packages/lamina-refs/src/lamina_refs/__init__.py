"""Mutable references to arrays: `new_ref`, `Ref`, `freeze`, and functions of them, through all transformations."""
from . import _version as _version  # first: it checks the versions of sibling packages
import lamina_numpy as _numpy  # noqa: F401  # gives arrays and traced values their index methods
from lamina_tracing.extend import hide_frames_of as _hide_frames_of

from ._api import addupdate, discharge, empty_ref, free_ref, freeze, get, new_ref, set, swap
from ._discharge import bind_discharged as _bind_discharged  # noqa: F401  # sets the handler of programs with references
from ._map import map_references as _map_references  # noqa: F401  # sets the hook of `vmap`
from ._ref import Ref, RefView
from ._slices import Slice, ds
from ._types import RefType
from ._types import RefType as AbstractRef  # JAX's name
from ._version import __version__

__all__ = ["AbstractRef", "Ref", "RefType", "RefView", "Slice", "__version__", "addupdate", "discharge", "ds", "empty_ref",
           "free_ref", "freeze", "get", "new_ref", "set", "swap"]

_hide_frames_of(__file__.rsplit("/", 1)[0])
