"""The conformance tests pass for the default implementation and fail for each implementation in `broken/`."""
from __future__ import annotations

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "remembers_values": "test_jit.py", "forgets_static_arguments": "test_jit.py",
        "drops_what_is_not_read": "test_staging.py", "runs_to_learn_types": "test_staging.py",
        "scans_forward_only": "test_control.py", "wraps_indices_around": "test_control.py",
        "hides_values_without_jit": "test_jit.py", "takes_effects_for_values": "test_effects.py",
        "misses_leaks": "test_tracers.py", "traces_at_every_call": "test_jit.py",
    }
    kept = ["test_lax.py", "test_staging.py", "test_jit.py", "test_control.py", "test_effects.py", "test_tracers.py",
            "test_transformations.py"]
    costly = ("traces_at_every_call", ["test_jit.py", "test_control.py", "test_staging.py"])
    left_out = ["test_every_op.py"]
