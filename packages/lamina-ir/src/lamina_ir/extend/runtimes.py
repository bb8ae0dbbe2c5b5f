"""For people who run programs: every equation watched, another backend for trees, room on the stack.

`room` is a module: `room.roomy()` is a block, or a decorator, with room on Python's stack for programs nested in one another.
"""
from .. import _room as room
from ..evaluator import watching
from ..tree_paths import explain_mismatch
from ..trees import set_backend

__all__ = ["explain_mismatch", "room", "set_backend", "watching"]
