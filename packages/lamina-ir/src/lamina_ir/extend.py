"""For people who write ops or transformations: the pieces below the public names. Kept stable between neighbours."""
from . import _room as room
from ._pytrees_py import PythonBackend
from .effects import order_rules
from .evaluator import last_uses, watching
from .checkpointing import keep, resume, saved_p
from .params import UnnamedAxis, plain_text, register_param_type
from .partial import partial_eval_rules
from .prims import register as register_primitive
from .prims.callbacks import HostFunction, host_call, register_host_function
from .rewrite import dce_rules, map_subprograms
from .spmd import AxisEnv
from .tables import RuleTable
from .tree_paths import explain_mismatch
from .trees import set_backend

__all__ = ["AxisEnv", "HostFunction", "PythonBackend", "RuleTable", "UnnamedAxis", "dce_rules", "explain_mismatch",
           "host_call", "keep", "last_uses", "map_subprograms", "order_rules", "partial_eval_rules", "plain_text",
           "register_host_function", "register_param_type", "register_primitive", "resume", "room", "saved_p",
           "set_backend", "watching"]
