"""The conformance tests pass for the default implementation and fail for each implementation in `broken/`."""
from __future__ import annotations

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "ignores_out_axes": "test_axes.py", "forgets_none": "test_axes.py", "first_for_all": "test_axes.py",
        "turns_examples_around": "test_axes.py", "loses_the_name": "test_collectives.py",
        "one_axis_when_nested": "test_nested.py", "ignores_rules": "test_custom.py", "says_nothing": "test_errors.py",
        "adds_members_up_wrongly": "test_collectives.py", "takes_one_at_a_time": "test_cost.py",
    }
    kept = ["test_axes.py", "test_nested.py", "test_errors.py", "test_custom.py", "test_cost.py", "test_rule_tables.py"]
    costly = ("takes_one_at_a_time", ["test_axes.py", "test_nested.py", "test_cost.py"])
    left_out = ["test_every_op.py"]
