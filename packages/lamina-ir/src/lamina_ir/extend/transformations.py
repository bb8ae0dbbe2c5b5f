"""Extension API for new transformations: rule tables, rewriting and splitting of nested programs, checkpoint policies.

`saved_p` is the primitive for a saved value in a program with rematerialization: `saved(recomputed, saved)` returns the
saved value, and its tangent is that of the recomputed one. `MAX_CHEAP_EQNS` is the maximal number of cheap equations that are
recomputed for one value.
"""
from typing import TYPE_CHECKING

from ..layers import deprecated_getattr

from .._passes.rematerialize import MAX_CHEAP_EQNS, find_compared_values, is_cheap
from .._types.avals import set_axis_size_reader
from .._passes.split_checkpoint import split_checkpoint, substitute_saved, saved_p
from .._passes.drop_redundant_collectives import drop_redundant_collectives
from .._core.primitive import set_bind
from .._passes.varying_axes import (infer_varying_axes, check_uniform_control_flow, uses_mapped_axes,
                                    infer_equation_types, annotate_varying_axes)
from .._core.rewrite import dce_equation
from .._passes.split_equation import (as_scan, wrap_in_checkpoint, split_equation, checkpointed_scan,
                                      exceeds_residual_budget)
from .._core.rule_table import RuleTable, list_rule_tables, invalidate_caches
from .._core.region_view import (OperandSpec, Region, RegionView, propagate_backward, propagate_forward,
                                 replace_signature)
from .._core.arg_checks import export_checked as _export_checked

_export_checked(globals())

__all__ = ["MAX_CHEAP_EQNS", "OperandSpec", "Region", "RegionView", "RuleTable", "annotate_varying_axes", "as_scan",
           "check_uniform_control_flow", "checkpointed_scan", "dce_equation", "drop_redundant_collectives",
           "exceeds_residual_budget", "find_compared_values", "infer_equation_types", "infer_varying_axes",
           "invalidate_caches", "is_cheap", "list_rule_tables", "propagate_backward", "propagate_forward",
           "replace_signature", "saved_p", "set_axis_size_reader", "set_bind", "split_checkpoint", "split_equation",
           "substitute_saved", "uses_mapped_axes", "wrap_in_checkpoint"]

if TYPE_CHECKING:
    from .._deprecated import *
else:
    __getattr__ = deprecated_getattr(__name__)
