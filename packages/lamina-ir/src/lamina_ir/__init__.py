"""Base layer: types, pytrees, primitives, and programs as data. The public names are those of `__all__`."""
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import config, dtypes, errors, layers, monitoring, prims, seams, trees
from . import _pickling  # noqa: F401  (registers pickling of programs with `copyreg`)
from ._version import __version__
from .avals import ShapeDtypeStruct, ShapedArray, aval_of, register_aval
from .check import alpha_equal, check
from .effect_kinds import DebugEffect, Effect, IOEffect
from .effects import (calls_host, guarded, happens_once, has_checks, has_ordered_effects, number_turns, only_checks,
                      thread_order)
from .errors import (CallbackError, CallbackRuleError, CheckError, ConcretizationError, DTypeError, ExecutionError,
                     KeyReuseError, LaminaError,
                     LeakedTracerError, MissingRuleError, OutOfBoundsError, ProgramError, ShapeError, SimplifiedTraceback,
                     StaticArgumentError, TracerArrayError, TracerBoolError, TracerIndexError, TracerIntegerError,
                     UnboundAxisError, UnboundedLoopError)
from .evaluator import evaluate, evaluate_primitive, evaluate_spmd
from .neighbours import needs
from .params import UnnamedAxis, register_param_type
from .partial import PartialEval, fold_constants, partial_eval
from .primitive import Primitive
from .printer import eqn_text, jaxpr_text
from .program import (Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var, eqn_axis_names, eqn_effectful,
                      subprograms)
from .rewrite import cse, dce, inline_calls, rewrite, substitute, walk
from .shapes import shaped
from .spmd import AxisEnv
from .tables import RuleTable

__all__ = ["Atom", "AxisEnv", "Builder", "CallbackError", "CallbackRuleError", "CheckError", "ClosedJaxpr",
           "ConcretizationError", "Cost",
           "DTypeError", "DebugEffect", "DropVar", "Effect", "Eqn", "ExecutionError", "IOEffect", "Jaxpr",
           "KeyReuseError", "LaminaError", "LeakedTracerError", "Literal", "MissingRuleError", "OutOfBoundsError",
           "PartialEval", "Primitive", "ProgramError", "RuleTable", "ShapeDtypeStruct", "ShapeError", "ShapedArray",
           "SimplifiedTraceback", "Source", "StaticArgumentError", "TracerArrayError", "TracerBoolError",
           "TracerIndexError", "TracerIntegerError", "UnboundAxisError", "UnboundedLoopError", "UnnamedAxis", "Var",
           "__version__", "alpha_equal", "aval_of", "build", "calls_host", "check", "config", "cost_by_op",
           "cost_rules", "cse", "dce", "dtypes", "dumps", "eqn_axis_names", "eqn_cost", "eqn_effectful", "eqn_text",
           "errors", "evaluate", "evaluate_primitive", "evaluate_spmd", "fold_constants", "guarded", "happens_once",
           "has_checks", "has_ordered_effects", "inline_calls", "jaxpr_dot", "jaxpr_from_json", "jaxpr_json",
           "jaxpr_text", "layers", "loads", "monitoring", "needs", "number_turns", "only_checks", "parse",
           "partial_eval", "prims", "program_cost", "register_aval", "register_param_type", "result_type", "rewrite",
           "saved_parts", "saved_trees", "saved_whole", "scalar_type_of", "seams", "shaped", "subprograms", "substitute",
           "thread_order", "trees", "walk"]

if TYPE_CHECKING:
    from .building import Builder, build
    from .cost_table import Cost
    from .costs import cost_by_op, cost_rules, eqn_cost, program_cost
    from .drawing import jaxpr_dot
    from .json_form import jaxpr_from_json, jaxpr_json
    from .parser import parse
    from .scalar_kinds import result_type, scalar_type_of
    from .serialise import dumps, loads, saved_parts, saved_trees, saved_whole

_LATER = {"jaxpr_from_json": "json_form", "jaxpr_json": "json_form",
          "jaxpr_dot": "drawing",
          "Cost": "cost_table", "cost_by_op": "costs", "cost_rules": "costs", "eqn_cost": "costs", "program_cost": "costs",
          "Builder": "building", "build": "building",
          "result_type": "scalar_kinds", "scalar_type_of": "scalar_kinds",
          "parse": "parser", "dumps": "serialise", "loads": "serialise",
          "saved_parts": "serialise", "saved_trees": "serialise", "saved_whole": "serialise"}  # loaded when first asked for


def __getattr__(name: str) -> Any:
    home = _LATER.get(name)
    if home is None:
        raise AttributeError(f"module 'lamina_ir' has no attribute {name!r}")
    # Loaded on demand: the parser and the file reader take milliseconds to import, and most programs use neither.
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
