"""For people who run programs: every equation watched, turns of loops, another backend for trees, how programs
and arrays lie on devices, room on the stack.

`stack_depth` is a module: `stack_depth.roomy()` is a block, or a decorator, with room on the stack for nested programs.
"""
from .. import _stack_depth as stack_depth
from ..evaluator import watching
from ..placements import Grid, Placement, devices_needed, lone_map, map_placement, rows_everywhere, split_by_maps
from ..tiles import Tiles
from ..tree_paths import explain_mismatch
from ..trees import set_backend
from ..turns import Turn, running_device, running_turns, turns_text

__all__ = ["Grid", "Placement", "Tiles", "Turn", "devices_needed", "explain_mismatch", "lone_map", "map_placement",
           "rows_everywhere", "running_device", "running_turns", "set_backend", "split_by_maps", "stack_depth", "turns_text",
           "watching"]
