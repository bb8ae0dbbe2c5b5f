"""Functions of `lamina_ir.extend` without type checks of their arguments.

Higher packages call them once per compilation with programs that they made themselves. User code calls the versions in
`lamina_ir.extend`, which raise a clear TypeError for a wrong argument.
"""
from .._core.primitive import get_primitives
from .._core.rewrite import rewrite
from .._passes.drop_redundant_collectives import drop_redundant_collectives
from .._passes.lower_keys import lower_keys
from .._passes.thread_effects import thread_iteration_counters
from .._passes.varying_axes import annotate_varying_axes, check_uniform_control_flow, record_annotated
from .._placement.placement import global_axis_size, place_map, single_map_eqn
from .._placement.shard_map_mesh import find_shard_maps

__all__ = ["annotate_varying_axes", "check_uniform_control_flow", "drop_redundant_collectives", "find_shard_maps",
           "get_primitives", "global_axis_size", "lower_keys", "place_map", "record_annotated", "rewrite", "single_map_eqn",
           "thread_iteration_counters"]
