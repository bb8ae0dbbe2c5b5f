"""The conformance tests pass for the default implementation and fail for each module in `broken/`."""
from __future__ import annotations

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "cubes_for_tanh": "test_elementwise.py", "sums_the_first_axis": "test_arrays.py",
        "scans_once_too_few": "test_programs_run.py", "ignores_groups": "test_programs_run.py",
        "drops_effects": "test_rewriting.py", "knows_too_much": "test_rewriting.py", "checks_nothing": "test_forms.py",
        "loads_anything": "test_forms.py", "rounds_constants": "test_forms.py", "overrides_for_ever": "test_tables.py",
        "takes_none_for_a_leaf": "test_trees.py", "forgets_weak_types": "test_types.py",
        "writes_otherwise": "test_file_format.py",
    }
    kept = ["test_rewriting.py", "test_tables.py", "test_trees.py", "test_types.py"]
