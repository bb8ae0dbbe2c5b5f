"""Extension API for runtimes: observing equations, loop iterations, another pytree backend, placements of programs and
arrays on devices, and the recursion limit.

`PROCESSES` is the name of the axis over which `evaluate_spmd` runs a multi-process program, with maps that span
processes. `CONSUMING_USES` maps values of the param `use` of `random_unwrap` that consume a key to their description in
messages.
The module `recursion_limit` has the context manager and decorator `with_recursion_limit`, for deeply nested programs.
"""
from typing import TYPE_CHECKING

from ..layers import deprecated_getattr

from .._util import recursion_limit as stack_depth
from .._evaluate.evaluator import make_evaluator, cast_result, observing_equations
from .._passes.key_reuse import CONSUMING_USES, KeyUse, check_key_uses, find_key_uses, key_reuse_error
from .._evaluate.simplify import simplify_for_numpy
from .._placement.shard_map_mesh import mesh_to_tiles, find_shard_maps
from .._placement.nested_maps import (single_nested_map_eqn, place_nested_map, first_member_program,
                                      find_per_member_map, join_member_tiles)
from .._passes.program_facts import ProgramFacts, collect_facts
from .._passes.lower_keys import has_keys, lower_keys, lower_key_aval, get_key_data
from .._placement.placement import (Grid, Placement, count_devices, single_map_eqn, place_map, global_axis_size,
                                    infer_arg_tiles)
from .._core.axis_env import PROCESSES
from .._placement.tiles import Tiles, make_tiles
from ..trees._paths import explain_mismatch
from .._serialize.treedef_json import register_node_serialization, treedef_from_json, treedef_to_json
from ..trees import set_backend
from .._core.loop_context import (AxisPosition, LoopIteration, format_axes, axis_positions, running_device,
                                  running_axis_positions, running_iterations, format_iterations)
from .._core.arg_checks import export_checked as _export_checked

_export_checked(globals())

__all__ = ["AxisPosition", "CONSUMING_USES", "Grid", "KeyUse", "LoopIteration", "PROCESSES", "Placement",
           "ProgramFacts", "Tiles", "axis_positions", "cast_result", "check_key_uses", "collect_facts",
           "count_devices", "explain_mismatch", "find_key_uses", "find_per_member_map", "find_shard_maps",
           "first_member_program", "format_axes", "format_iterations", "get_key_data", "global_axis_size", "has_keys",
           "infer_arg_tiles", "join_member_tiles", "key_reuse_error", "lower_key_aval", "lower_keys", "make_evaluator",
           "make_tiles", "mesh_to_tiles", "observing_equations", "place_map", "place_nested_map",
           "register_node_serialization", "running_axis_positions", "running_device", "running_iterations",
           "set_backend", "simplify_for_numpy", "single_map_eqn", "single_nested_map_eqn", "stack_depth",
           "treedef_from_json", "treedef_to_json"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
