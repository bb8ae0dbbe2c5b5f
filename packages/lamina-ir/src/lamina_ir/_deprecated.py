"""Former public names of this package. Each works for one minor version and warns when it is used."""
from __future__ import annotations

from typing import Any

from typing_extensions import deprecated

import lamina_ir as _lamina_ir
from ._core.axis_env import (
    check_axis_name, check_axis_names, check_groups, check_member_index, check_permutation, split_axis_names,
    unbound_axis_error)
from ._core.jaxpr import eqn_has_effects, find_axis_names
from ._core.loop_context import (
    AxisPosition, LoopIteration, axis_positions, format_axes, format_iterations, running_axis_positions,
    running_iterations)
from ._core.primitive import set_bind
from ._core.region_signature import (
    CARRY, CONST, OperandGroup, RegionSignature, SCANNED, SELECTOR, carry_operands, const_operands,
    scanned_operands, selector_operand)
from ._core.region_view import OperandSpec, Region, RegionView, propagate_backward, propagate_forward, replace_signature
from ._core.rewrite import dce_equation
from ._core.rule_table import invalidate_caches, list_rule_tables
from ._cost.analysis import cost_by_primitive
from ._evaluate.evaluator import cast_result, make_evaluator, observing_equations
from ._evaluate.simplify import simplify_for_numpy
from ._passes.drop_redundant_collectives import drop_redundant_collectives
from ._passes.key_reuse import CONSUMING_USES, KeyUse, find_key_uses, key_reuse_error
from ._passes.lower_keys import get_key_data, lower_key_aval, lower_keys
from ._passes.rematerialize import MAX_CHEAP_EQNS, find_compared_values
from ._passes.split_checkpoint import split_checkpoint, substitute_saved
from ._passes.split_equation import checkpointed_scan, exceeds_residual_budget, split_equation, wrap_in_checkpoint
from ._passes.thread_effects import (
    find_unrepeatable_effect, has_host_callbacks, has_only_checks, mask_checks, thread_effect_token,
    thread_iteration_counters)
from ._passes.varying_axes import (
    annotate_varying_axes, check_uniform_control_flow, infer_equation_types, infer_varying_axes, uses_mapped_axes)
from ._placement.nested_maps import (
    find_per_member_map, first_member_program, join_member_tiles, place_nested_map, single_nested_map_eqn)
from ._placement.placement import count_devices, global_axis_size, infer_arg_tiles, place_map, single_map_eqn
from ._placement.shard_map_mesh import find_shard_maps, mesh_to_tiles
from ._placement.tiles import make_tiles
from ._serialize.binary import join_saved, load_treedefs, split_saved
from ._serialize.treedef_json import register_node_serialization, treedef_from_json, treedef_to_json
from ._types.avals import set_axis_size_reader
from ._types.dtypes import canonicalize, complex_dtype, dtype_of_int, inexact_dtype_for, portable_name, real_dtype
from ._types.key_dtypes import key_size, key_tag
from ._util.version_check import require_versions

__all__ = [
    "CARRIED", "CHOOSES", "FEW", "Flow", "HELD", "OnAxis", "Operands", "STACKED", "Slot", "Turn", "USES", "Use",
    "Wire", "Wired", "axes_text", "axis_names", "axis_names_of", "backward", "bound_by", "calls_host",
    "canonical", "carried", "checked_axis_name", "checked_groups", "checked_index", "checked_permutation",
    "checkpointed", "chooses", "compared", "complex_of", "cost_by_op", "devices_needed", "divide",
    "eqn_effectful", "every_table", "forward", "guarded", "happens_once", "held", "in_stretches", "inexact_for",
    "int_for", "keep", "key_uses", "lean", "lone_map", "lone_nest", "map_placement", "mesh_tiles", "meshes",
    "narrow", "needs", "nest_placement", "new_generation", "number_turns", "of_rows", "only_checks",
    "over_of_results", "physical", "physical_aval", "places_at", "ready", "real_of", "refuse_disagreement",
    "refuse_reuse", "register_node_words", "resume", "rows_apart", "rows_everywhere", "rows_of_results",
    "running_places", "running_turns", "saved_parts", "saved_trees", "saved_whole", "seams", "set_axis_sizes",
    "settled", "speaks_of_axes", "split_axes", "split_by_maps", "stacked", "stored_name", "tag_of",
    "thread_order", "tiles_of", "too_many", "tree_of_words", "tree_words", "turns_text", "typed_equation",
    "typed_program", "unbound_axis", "watching", "with_signature", "without_needless", "words_array", "words_of"]

@deprecated("use RegionSignature")
class Flow(RegionSignature): ...

@deprecated("use AxisPosition")
class OnAxis(AxisPosition): ...

@deprecated("use OperandGroup")
class Operands(OperandGroup): ...

@deprecated("use OperandSpec")
class Slot(OperandSpec): ...

@deprecated("use LoopIteration")
class Turn(LoopIteration): ...

@deprecated("use KeyUse")
class Use(KeyUse): ...

@deprecated("use Region")
class Wire(Region): ...

@deprecated("use RegionView")
class Wired(RegionView): ...

@deprecated("use format_axes")
def axes_text(*args: Any, **kwargs: Any) -> Any: return format_axes(*args, **kwargs)

@deprecated("use check_axis_names")
def axis_names(*args: Any, **kwargs: Any) -> Any: return check_axis_names(*args, **kwargs)

@deprecated("use find_axis_names")
def axis_names_of(*args: Any, **kwargs: Any) -> Any: return find_axis_names(*args, **kwargs)

@deprecated("use propagate_backward")
def backward(*args: Any, **kwargs: Any) -> Any: return propagate_backward(*args, **kwargs)

@deprecated("use set_bind")
def bound_by(*args: Any, **kwargs: Any) -> Any: return set_bind(*args, **kwargs)

@deprecated("use has_host_callbacks")
def calls_host(*args: Any, **kwargs: Any) -> Any: return has_host_callbacks(*args, **kwargs)

@deprecated("use canonicalize")
def canonical(*args: Any, **kwargs: Any) -> Any: return canonicalize(*args, **kwargs)

@deprecated("use carry_operands")
def carried(*args: Any, **kwargs: Any) -> Any: return carry_operands(*args, **kwargs)

@deprecated("use check_axis_name")
def checked_axis_name(*args: Any, **kwargs: Any) -> Any: return check_axis_name(*args, **kwargs)

@deprecated("use check_groups")
def checked_groups(*args: Any, **kwargs: Any) -> Any: return check_groups(*args, **kwargs)

@deprecated("use check_member_index")
def checked_index(*args: Any, **kwargs: Any) -> Any: return check_member_index(*args, **kwargs)

@deprecated("use check_permutation")
def checked_permutation(*args: Any, **kwargs: Any) -> Any: return check_permutation(*args, **kwargs)

@deprecated("use wrap_in_checkpoint")
def checkpointed(*args: Any, **kwargs: Any) -> Any: return wrap_in_checkpoint(*args, **kwargs)

@deprecated("use selector_operand")
def chooses(*args: Any, **kwargs: Any) -> Any: return selector_operand(*args, **kwargs)

@deprecated("use find_compared_values")
def compared(*args: Any, **kwargs: Any) -> Any: return find_compared_values(*args, **kwargs)

@deprecated("use complex_dtype")
def complex_of(*args: Any, **kwargs: Any) -> Any: return complex_dtype(*args, **kwargs)

@deprecated("use cost_by_primitive")
def cost_by_op(*args: Any, **kwargs: Any) -> Any: return cost_by_primitive(*args, **kwargs)

@deprecated("use count_devices")
def devices_needed(*args: Any, **kwargs: Any) -> Any: return count_devices(*args, **kwargs)

@deprecated("use split_equation")
def divide(*args: Any, **kwargs: Any) -> Any: return split_equation(*args, **kwargs)

@deprecated("use eqn_has_effects")
def eqn_effectful(*args: Any, **kwargs: Any) -> Any: return eqn_has_effects(*args, **kwargs)

@deprecated("use list_rule_tables")
def every_table(*args: Any, **kwargs: Any) -> Any: return list_rule_tables(*args, **kwargs)

@deprecated("use propagate_forward")
def forward(*args: Any, **kwargs: Any) -> Any: return propagate_forward(*args, **kwargs)

@deprecated("use mask_checks")
def guarded(*args: Any, **kwargs: Any) -> Any: return mask_checks(*args, **kwargs)

@deprecated("use find_unrepeatable_effect")
def happens_once(*args: Any, **kwargs: Any) -> Any: return find_unrepeatable_effect(*args, **kwargs)

@deprecated("use const_operands")
def held(*args: Any, **kwargs: Any) -> Any: return const_operands(*args, **kwargs)

@deprecated("use checkpointed_scan")
def in_stretches(*args: Any, **kwargs: Any) -> Any: return checkpointed_scan(*args, **kwargs)

@deprecated("use inexact_dtype_for")
def inexact_for(*args: Any, **kwargs: Any) -> Any: return inexact_dtype_for(*args, **kwargs)

@deprecated("use dtype_of_int")
def int_for(*args: Any, **kwargs: Any) -> Any: return dtype_of_int(*args, **kwargs)

@deprecated("use split_checkpoint")
def keep(*args: Any, **kwargs: Any) -> Any: return split_checkpoint(*args, **kwargs)

@deprecated("use find_key_uses")
def key_uses(*args: Any, **kwargs: Any) -> Any: return find_key_uses(*args, **kwargs)

@deprecated("use simplify_for_numpy")
def lean(*args: Any, **kwargs: Any) -> Any: return simplify_for_numpy(*args, **kwargs)

@deprecated("use single_map_eqn")
def lone_map(*args: Any, **kwargs: Any) -> Any: return single_map_eqn(*args, **kwargs)

@deprecated("use single_nested_map_eqn")
def lone_nest(*args: Any, **kwargs: Any) -> Any: return single_nested_map_eqn(*args, **kwargs)

@deprecated("use place_map")
def map_placement(*args: Any, **kwargs: Any) -> Any: return place_map(*args, **kwargs)

@deprecated("use mesh_to_tiles")
def mesh_tiles(*args: Any, **kwargs: Any) -> Any: return mesh_to_tiles(*args, **kwargs)

@deprecated("use find_shard_maps")
def meshes(*args: Any, **kwargs: Any) -> Any: return find_shard_maps(*args, **kwargs)

@deprecated("use dce_equation")
def narrow(*args: Any, **kwargs: Any) -> Any: return dce_equation(*args, **kwargs)

@deprecated("use require_versions")
def needs(*args: Any, **kwargs: Any) -> Any: return require_versions(*args, **kwargs)

@deprecated("use place_nested_map")
def nest_placement(*args: Any, **kwargs: Any) -> Any: return place_nested_map(*args, **kwargs)

@deprecated("use invalidate_caches")
def new_generation(*args: Any, **kwargs: Any) -> Any: return invalidate_caches(*args, **kwargs)

@deprecated("use thread_iteration_counters")
def number_turns(*args: Any, **kwargs: Any) -> Any: return thread_iteration_counters(*args, **kwargs)

@deprecated("use first_member_program")
def of_rows(*args: Any, **kwargs: Any) -> Any: return first_member_program(*args, **kwargs)

@deprecated("use has_only_checks")
def only_checks(*args: Any, **kwargs: Any) -> Any: return has_only_checks(*args, **kwargs)

@deprecated("use infer_varying_axes")
def over_of_results(*args: Any, **kwargs: Any) -> Any: return infer_varying_axes(*args, **kwargs)

@deprecated("use lower_keys")
def physical(*args: Any, **kwargs: Any) -> Any: return lower_keys(*args, **kwargs)

@deprecated("use lower_key_aval")
def physical_aval(*args: Any, **kwargs: Any) -> Any: return lower_key_aval(*args, **kwargs)

@deprecated("use axis_positions")
def places_at(*args: Any, **kwargs: Any) -> Any: return axis_positions(*args, **kwargs)

@deprecated("use make_evaluator")
def ready(*args: Any, **kwargs: Any) -> Any: return make_evaluator(*args, **kwargs)

@deprecated("use real_dtype")
def real_of(*args: Any, **kwargs: Any) -> Any: return real_dtype(*args, **kwargs)

@deprecated("use check_uniform_control_flow")
def refuse_disagreement(*args: Any, **kwargs: Any) -> Any: return check_uniform_control_flow(*args, **kwargs)

@deprecated("use key_reuse_error")
def refuse_reuse(*args: Any, **kwargs: Any) -> Any: return key_reuse_error(*args, **kwargs)

@deprecated("use register_node_serialization")
def register_node_words(*args: Any, **kwargs: Any) -> Any: return register_node_serialization(*args, **kwargs)

@deprecated("use substitute_saved")
def resume(*args: Any, **kwargs: Any) -> Any: return substitute_saved(*args, **kwargs)

@deprecated("use find_per_member_map")
def rows_apart(*args: Any, **kwargs: Any) -> Any: return find_per_member_map(*args, **kwargs)

@deprecated("use global_axis_size")
def rows_everywhere(*args: Any, **kwargs: Any) -> Any: return global_axis_size(*args, **kwargs)

@deprecated("use join_member_tiles")
def rows_of_results(*args: Any, **kwargs: Any) -> Any: return join_member_tiles(*args, **kwargs)

@deprecated("use running_axis_positions")
def running_places(*args: Any, **kwargs: Any) -> Any: return running_axis_positions(*args, **kwargs)

@deprecated("use running_iterations")
def running_turns(*args: Any, **kwargs: Any) -> Any: return running_iterations(*args, **kwargs)

@deprecated("use split_saved")
def saved_parts(*args: Any, **kwargs: Any) -> Any: return split_saved(*args, **kwargs)

@deprecated("use load_treedefs")
def saved_trees(*args: Any, **kwargs: Any) -> Any: return load_treedefs(*args, **kwargs)

@deprecated("use join_saved")
def saved_whole(*args: Any, **kwargs: Any) -> Any: return join_saved(*args, **kwargs)

@deprecated("use set_axis_size_reader")
def set_axis_sizes(*args: Any, **kwargs: Any) -> Any: return set_axis_size_reader(*args, **kwargs)

@deprecated("use cast_result")
def settled(*args: Any, **kwargs: Any) -> Any: return cast_result(*args, **kwargs)

@deprecated("use uses_mapped_axes")
def speaks_of_axes(*args: Any, **kwargs: Any) -> Any: return uses_mapped_axes(*args, **kwargs)

@deprecated("use split_axis_names")
def split_axes(*args: Any, **kwargs: Any) -> Any: return split_axis_names(*args, **kwargs)

@deprecated("use infer_arg_tiles")
def split_by_maps(*args: Any, **kwargs: Any) -> Any: return infer_arg_tiles(*args, **kwargs)

@deprecated("use scanned_operands")
def stacked(*args: Any, **kwargs: Any) -> Any: return scanned_operands(*args, **kwargs)

@deprecated("use portable_name")
def stored_name(*args: Any, **kwargs: Any) -> Any: return portable_name(*args, **kwargs)

@deprecated("use key_tag")
def tag_of(*args: Any, **kwargs: Any) -> Any: return key_tag(*args, **kwargs)

@deprecated("use thread_effect_token")
def thread_order(*args: Any, **kwargs: Any) -> Any: return thread_effect_token(*args, **kwargs)

@deprecated("use make_tiles")
def tiles_of(*args: Any, **kwargs: Any) -> Any: return make_tiles(*args, **kwargs)

@deprecated("use exceeds_residual_budget")
def too_many(*args: Any, **kwargs: Any) -> Any: return exceeds_residual_budget(*args, **kwargs)

@deprecated("use treedef_from_json")
def tree_of_words(*args: Any, **kwargs: Any) -> Any: return treedef_from_json(*args, **kwargs)

@deprecated("use treedef_to_json")
def tree_words(*args: Any, **kwargs: Any) -> Any: return treedef_to_json(*args, **kwargs)

@deprecated("use format_iterations")
def turns_text(*args: Any, **kwargs: Any) -> Any: return format_iterations(*args, **kwargs)

@deprecated("use infer_equation_types")
def typed_equation(*args: Any, **kwargs: Any) -> Any: return infer_equation_types(*args, **kwargs)

@deprecated("use annotate_varying_axes")
def typed_program(*args: Any, **kwargs: Any) -> Any: return annotate_varying_axes(*args, **kwargs)

@deprecated("use unbound_axis_error")
def unbound_axis(*args: Any, **kwargs: Any) -> Any: return unbound_axis_error(*args, **kwargs)

@deprecated("use observing_equations")
def watching(*args: Any, **kwargs: Any) -> Any: return observing_equations(*args, **kwargs)

@deprecated("use replace_signature")
def with_signature(*args: Any, **kwargs: Any) -> Any: return replace_signature(*args, **kwargs)

@deprecated("use drop_redundant_collectives")
def without_needless(*args: Any, **kwargs: Any) -> Any: return drop_redundant_collectives(*args, **kwargs)

@deprecated("use get_key_data")
def words_array(*args: Any, **kwargs: Any) -> Any: return get_key_data(*args, **kwargs)

@deprecated("use key_size")
def words_of(*args: Any, **kwargs: Any) -> Any: return key_size(*args, **kwargs)

CARRIED = CARRY
CHOOSES = SELECTOR
FEW = MAX_CHEAP_EQNS
HELD = CONST
STACKED = SCANNED
USES = CONSUMING_USES
seams = _lamina_ir.interfaces
