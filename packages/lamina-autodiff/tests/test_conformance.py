"""The conformance tests pass for the default implementation and fail for each implementation in `broken/`."""
from __future__ import annotations

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "forgets_a_factor": "test_closed_forms.py", "pulls_back_what_it_pushes": "test_properties.py",
        "keeps_one_argument": "test_closed_forms.py", "forgets_the_second_time": "test_nested.py",
        "mixes_levels": "test_nested.py",
        "ignores_rules": "test_rules.py", "conjugates": "test_closed_forms.py", "sums_over_members_once": "test_collectives.py",
        "says_nothing": "test_errors.py", "pushes_forward_only": "test_cost.py",
    }
    kept = ["test_closed_forms.py", "test_properties.py", "test_rules.py", "test_errors.py", "test_cost.py",
            "test_rule_tables.py"]
    costly = ("pushes_forward_only", ["test_closed_forms.py", "test_properties.py", "test_cost.py"])
    left_out = ["test_every_op.py"]
