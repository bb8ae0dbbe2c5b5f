"""For people who run programs: every equation watched, another backend for trees, room on the stack."""
from .. import _room as room
from .._pytrees_py import PythonBackend
from ..evaluator import watching
from ..tree_paths import explain_mismatch
from ..trees import set_backend

__all__ = ["PythonBackend", "explain_mismatch", "room", "set_backend", "watching"]
