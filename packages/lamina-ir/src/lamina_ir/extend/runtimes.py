"""Extension API for runtimes: observing equations, loop iterations, another pytree backend, placements of programs and
arrays on devices, and the recursion limit.

`PROCESSES` is the name of the axis over which `evaluate_spmd` runs a multi-process program, with maps that span
processes. `USES` maps values of the param `use` of `random_unwrap` that consume a key to their description in messages.
The module `recursion_limit` has the context manager and decorator `with_recursion_limit`, for deeply nested programs.
"""
from .. import _stack_depth as stack_depth
from ..evaluator import ready, settled, watching
from ..key_uses import USES, Use, check_key_uses, key_uses, refuse_reuse
from ..lean import lean
from ..meshes import mesh_tiles, meshes
from ..nests import lone_nest, nest_placement, of_rows, rows_apart, rows_of_results
from ..physical import has_keys, physical, physical_aval, words_array
from ..placements import Grid, Placement, devices_needed, lone_map, map_placement, rows_everywhere, split_by_maps
from ..spmd import PROCESSES
from ..tiles import Tiles, tiles_of
from ..tree_paths import explain_mismatch
from ..tree_words import register_node_words, tree_of_words, tree_words
from ..trees import set_backend
from ..turns import OnAxis, Turn, axes_text, places_at, running_device, running_places, running_turns, turns_text

__all__ = ["Grid", "OnAxis", "PROCESSES", "Placement", "Tiles", "Turn", "USES", "Use", "axes_text", "check_key_uses",
           "devices_needed", "mesh_tiles", "meshes", "explain_mismatch", "has_keys", "key_uses", "lean", "lone_map",
           "lone_nest", "map_placement", "nest_placement", "of_rows", "physical", "physical_aval", "places_at",
           "ready", "refuse_reuse", "register_node_words", "rows_apart", "rows_everywhere", "rows_of_results",
           "running_device", "running_places", "running_turns", "set_backend", "settled", "split_by_maps",
           "stack_depth", "tiles_of", "tree_of_words", "tree_words", "turns_text", "watching", "words_array"]
