"""For people who run programs: every equation watched, turns of loops, another backend for trees, tile assignments renumbered,
room on the stack.

`stack_depth` is a module: `stack_depth.roomy()` is a block, or a decorator, with room on the stack for nested programs.
"""
from .. import _stack_depth as stack_depth
from .._tiles import renumbered
from ..evaluator import watching
from ..tree_paths import explain_mismatch
from ..trees import set_backend
from ..turns import Turn, running_device, running_turns, turns_text

__all__ = ["Turn", "explain_mismatch", "renumbered", "running_device", "running_turns", "set_backend", "stack_depth",
           "turns_text", "watching"]
