"""Inner names of JAX that lamina-compat does not have: what to use instead.

Each group has the end of an error message, and the names that end with it, by module below `lamina_compat`. An entry of a
module is also that of all names in it. `lamina_ir.layers.explain_absent_names` reads the table when a name is not found.
"""
from typing import Final

GROUPS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("internal to JAX's partial evaluation; use trace_to_jaxpr_nounits of the same module, which computes what is known and "
     "stages the rest", {"names.interpreters.partial_eval":
                         "tracers_to_jaxpr new_eqn_recipe recipe_to_eqn JaxprEqnRecipe instantiate_const_at FreeVar LambdaBinding "
                         "ConstVar trace_to_subjaxpr trace_to_subjaxpr_nounits trace_to_subjaxpr_nounits_fwd "
                         "partial_eval_wrapper_nounits new_dynamic_main"}),
    ("internal to JAX's staging; use trace_to_jaxpr_dynamic of the same module, or jax.make_jaxpr",
     {"names.interpreters.partial_eval": "trace_to_subjaxpr_dynamic trace_to_subjaxpr_dynamic2 JaxprStackFrame extend_jaxpr_stack "
                                         "arg_info_all sig_info result_info"}),
    ("use jax.checkpoint with a policy, or partial_eval_jaxpr_nounits of the same module",
     {"names.interpreters.partial_eval": "partial_eval_jaxpr_custom call_partial_eval_custom_rule partial_eval_jaxpr_custom_rule_not_implemented "
                                         "closed_call_partial_eval_custom_rule PartialEvalCustomRule"}),
    ("dce_jaxpr of the same module enters calls by itself",
     {"names.interpreters.partial_eval": "dce_jaxpr_call_rule dce_jaxpr_closed_call_rule"}),
    ("absent by design: lamina has no dynamic shapes; pad the arrays, and pass their sizes as arrays",
     {"names.interpreters.partial_eval": "pad_jaxpr def_trivial_padding call_padding_rule infer_lambda_input_type "
                                         "trace_to_jaxpr_dynamic2 trace_to_jaxpr_final2 BoundedAxisSize "
                                         "trace_to_subjaxpr_nounits_dyn AbstractedAxesSpec"}),
)

ABSENT: Final[dict[str, str]] = {f"{module}.{name}": text for text, names_by_module in GROUPS
                                 for module, names in names_by_module.items() for name in names.split()}
