"""For people who write ops or transformations: the pieces below the public names. Kept stable between neighbours."""
from ._pytrees_py import PythonBackend
from .evaluator import last_uses, spmd_rules
from .params import UnnamedAxis, plain_text, register_param_type
from .prims import register as register_primitive
from .rewrite import dce_rules
from .spmd import AxisEnv
from .tables import RuleTable
from .tree_paths import explain_mismatch
from .trees import set_backend

__all__ = ["AxisEnv", "PythonBackend", "RuleTable", "UnnamedAxis", "dce_rules", "explain_mismatch", "last_uses",
           "plain_text", "register_param_type", "register_primitive", "set_backend", "spmd_rules"]
