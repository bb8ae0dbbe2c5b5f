"""Default implementation of this package, re-exported by `__init__`; plugins import its names: `from
lamina_parallel._default import *`."""
from lamina_tracing.extend import hide_frames_of as _hide_frames_of
from lamina_tracing.lax import (all_gather, all_to_all, axis_index, axis_size, pargmax, pargmin, pbroadcast, pdot, pmax, pmean,
                                pmin, ppermute, pshuffle, psum, psum_scatter, pswapaxes, xeinsum)

from . import extend, maps_rows
from ._version import __version__
from .mesh import Mesh
from .padded import padded
from .partition_spec import PartitionSpec
from .pmap import pmap
from .serial import SerialLoop, serial_loop
from .shard_map import shard_map
from .xmap import AxisName, ResourceSet, xmap

__all__ = ["AxisName", "Mesh", "PartitionSpec", "ResourceSet", "SerialLoop", "__version__", "all_gather", "all_to_all",
           "axis_index", "axis_size", "extend", "padded", "pargmax", "pargmin", "pbroadcast", "pdot", "pmap", "pmax", "pmean",
           "pmin", "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes", "serial_loop", "shard_map", "xeinsum", "xmap"]

del maps_rows

_hide_frames_of(__file__.rsplit("/", 1)[0])
