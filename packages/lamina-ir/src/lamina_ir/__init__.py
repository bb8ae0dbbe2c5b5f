"""Base layer: types, pytrees, primitives, and programs as data. The public names are those of `__all__`."""
from importlib import import_module
from typing import TYPE_CHECKING

from . import config, dtypes, errors, interfaces, layers, monitoring, prims, trees
from ._serialize import pickle_support  # noqa: F401  (registers pickling of programs with `copyreg`)
from ._version import __version__
from ._util.former_modules import install_finder as _install_finder
from ._types.avals import ShapeDtypeStruct, ShapedArray, aval_of, register_aval
from ._passes.verify import alpha_equal, check
from ._core.effect_types import DebugEffect, Effect, IOEffect
from ._passes.thread_effects import (has_host_callbacks, mask_checks, find_unrepeatable_effect, has_checks,
                                     has_ordered_effects, thread_iteration_counters, has_only_checks,
                                     thread_effect_token)
from .errors import (CallbackError, CallbackRuleError, CheckError, ConcretizationError, DTypeError, ExecutionError,
                     KeyReuseError, LaminaError,
                     LeakedTracerError, MissingRuleError, OutOfBoundsError, OutOfMemoryError, ProgramError, ShapeError,
                     ShardingMismatchError, ShardingTypeError, SimplifiedTraceback,
                     StaticArgumentError, TracerArrayError, TracerBoolError, TracerIndexError, TracerIntegerError,
                     UnboundAxisError, UnboundedLoopError)
from ._evaluate.evaluator import evaluate, evaluate_primitive, evaluate_spmd
from ._util.version_check import require_versions
from ._types.param_values import UnnamedAxis, register_param_type
from ._passes.partial_eval import PartialEval, fold_constants, partial_eval
from ._core.primitive import Primitive
from ._core.printer import eqn_text, jaxpr_text
from ._core.jaxpr import (Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var, eqn_axis_names, eqn_has_effects,
                          subprograms)
from ._core.rewrite import cse, dce, inline_calls, rewrite, substitute, walk
from ._types.shapes import shaped
from ._core.axis_env import AxisEnv
from ._core.rule_table import RuleTable
from ._core.arg_checks import export_checked as _export_checked

_export_checked(globals())

__all__ = ["Atom", "AxisEnv", "Builder", "CallbackError", "CallbackRuleError", "CheckError", "ClosedJaxpr",
           "ConcretizationError", "Cost", "DTypeError", "DebugEffect", "DropVar", "Effect", "Eqn", "ExecutionError",
           "IOEffect", "Jaxpr", "KeyReuseError", "LaminaError", "LeakedTracerError", "Literal", "MissingRuleError",
           "OutOfBoundsError", "OutOfMemoryError", "PartialEval", "Primitive", "ProgramError", "RuleTable", "ShapeDtypeStruct",
           "ShapeError", "ShapedArray", "ShardingMismatchError", "ShardingTypeError",
           "SimplifiedTraceback", "Source", "StaticArgumentError",
           "TracerArrayError",
           "TracerBoolError", "TracerIndexError", "TracerIntegerError", "UnboundAxisError", "UnboundedLoopError",
           "UnnamedAxis", "Var", "__version__", "alpha_equal", "aval_of", "build", "check", "config",
           "cost_by_primitive", "cost_rules", "cse", "dce", "dtypes", "dumps", "eqn_axis_names", "eqn_cost",
           "eqn_has_effects", "eqn_text", "errors", "evaluate", "evaluate_primitive", "evaluate_spmd",
           "find_unrepeatable_effect", "fold_constants", "has_checks", "has_host_callbacks", "has_only_checks",
           "has_ordered_effects", "inline_calls", "interfaces", "jaxpr_dot", "jaxpr_from_json", "jaxpr_json",
           "jaxpr_text", "join_saved", "layers", "load_treedefs", "loads", "mask_checks", "monitoring", "parse",
           "partial_eval", "prims", "program_cost", "register_aval", "register_param_type", "replay", "require_versions",
           "result_type", "rewrite", "scalar_type_of", "shaped", "split_saved", "subprograms", "substitute",
           "thread_effect_token", "thread_iteration_counters", "trees", "walk"]

if TYPE_CHECKING:
    from . import replay
    from ._builder.builder import Builder, build
    from ._cost.table import Cost
    from ._cost.analysis import cost_by_primitive, cost_rules, eqn_cost, program_cost
    from ._text.graphviz import jaxpr_dot
    from ._serialize.json_format import jaxpr_from_json, jaxpr_json
    from ._text.parser import parse
    from ._types.result_type import result_type, scalar_type_of
    from ._serialize.binary import dumps, loads, split_saved, load_treedefs, join_saved

# Modules loaded when one of their names is first asked for.
_LAZY = {
    "_builder.builder": "Builder build",
    "_cost.analysis": "cost_by_primitive cost_rules eqn_cost program_cost",
    "_cost.table": "Cost",
    "_serialize.binary": "dumps join_saved load_treedefs loads split_saved",
    "_serialize.json_format": "jaxpr_from_json jaxpr_json",
    "_text.graphviz": "jaxpr_dot",
    "_text.parser": "parse",
    "_types.result_type": "result_type scalar_type_of",
}
_HOME = {name: home for home, names in _LAZY.items() for name in names.split()}


_install_finder()


def __getattr__(name: str) -> object:
    if name == "replay":
        return import_module(f"{__name__}.replay")
    home = _HOME.get(name)
    if home is None:
        return layers.deprecated_getattr(__name__)(name)
    # Loaded on demand: the parser and the file reader take milliseconds to import, and most programs use neither.
    globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    _export_checked(globals())
    return globals()[name]
