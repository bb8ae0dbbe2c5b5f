"""For people who write ops or transformations: the pieces below the public names. Kept stable between neighbours."""
from . import _room as room
from ._pytrees_py import PythonBackend
from .evaluator import last_uses, watching
from .checkpointing import keep, resume, saved_p
from .params import UnnamedAxis, plain_text, register_param_type
from .prims import register as register_primitive
from .prims.callbacks import HostFunction, host_call, register_host_function
from .flow import CARRIED, CHOOSES, HELD, STACKED, Flow, Operands, carried, chooses, held, stacked
from .program import axis_names_of
from .rewrite import map_subprograms, narrow
from .spmd import AxisEnv
from .stages import as_scan, divide
from .tables import RuleTable, every_table, new_generation
from .tree_paths import explain_mismatch
from .trees import set_backend
from .varying import varying
from .wiring import Slot, Wire, Wired, arrange, backward, forward, with_signature

__all__ = ["AxisEnv", "CARRIED", "CHOOSES", "Flow", "HELD", "HostFunction", "Operands", "PythonBackend", "RuleTable",
           "STACKED", "Slot", "UnnamedAxis", "Wire", "Wired", "arrange", "as_scan", "axis_names_of", "backward",
           "carried", "chooses", "divide", "every_table", "explain_mismatch", "forward", "held", "host_call", "keep",
           "last_uses", "map_subprograms", "narrow", "new_generation", "plain_text", "register_host_function",
           "register_param_type", "register_primitive", "resume", "room", "saved_p", "set_backend", "stacked",
           "varying", "watching", "with_signature"]
