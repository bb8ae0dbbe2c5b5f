"""Default implementation of this package, re-exported by `__init__`; plugins import its names: `from
lamina_parallel._default import *`."""
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lamina_ir.layers import add_rule_module as _add_rule_module
from lamina_ir.layers import deprecated_getattr as _deprecated_getattr
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from lamina_tracing.lax import (all_gather, all_to_all, axis_index, axis_size, pargmax, pargmin, pbroadcast, pdot, pmax, pmean,
                                pmin, ppermute, pshuffle, psum, psum_scatter, pswapaxes, xeinsum)

from . import extend
from ._version import __version__
from ._mesh.abstract_mesh import AbstractMesh, AxisType
from ._mesh.mesh import Mesh
from ._mesh.set_mesh import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from ._mesh.partition_spec import PartitionSpec
from ._maps.pmap import pmap
from ._mesh.serial_loop import SerialLoop, serial_loop
from ._maps.shard_map import shard_map
from ._maps.smap import smap

__all__ = ["AbstractMesh", "AxisName", "AxisType", "Mesh", "PartitionSpec", "ResourceSet", "SerialLoop",
           "__version__", "all_gather", "all_to_all", "auto_axes", "axis_index", "axis_size", "explicit_axes", "extend",
           "get_abstract_mesh", "get_mesh", "padded", "pargmax", "pargmin", "pbroadcast", "pdot", "pmap", "pmax",
           "pmean", "pmin", "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "serial_loop", "set_mesh",
           "shard_map", "smap", "use_abstract_mesh", "xeinsum", "xmap"]

for _layer in ("autodiff", "batching"):  # rules of the map primitives
    _add_rule_module(_layer, "lamina_parallel._maps.rules")

_hide_frames_of(__file__.rsplit("/", 1)[0])

if _TYPE_CHECKING:
    from ._explicit.auto_axes import auto_axes, explicit_axes
    from ._maps.xmap import AxisName, ResourceSet, xmap
    from ._padded.padded import padded

__getattr__ = _deprecated_getattr(__package__ or "", {
    "AxisName": "_maps.xmap", "ResourceSet": "_maps.xmap", "auto_axes": "_explicit.auto_axes",
    "explicit_axes": "_explicit.auto_axes", "padded": "_padded.padded", "xmap": "_maps.xmap"})
