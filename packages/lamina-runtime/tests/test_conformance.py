"""The default implementation passes the conformance tests; each defective one in `broken/` fails them."""
from __future__ import annotations

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "takes_one_op_for_another": "test_every_op.py::test_eager_primitive_equals_numpy_evaluation",
        "remembers_results": "test_calls.py", "keeps_what_is_donated": "test_calls.py", "knows_one_width": "test_calls.py",
        "traces_each_call": "test_calls.py", "does_not_say_which": "test_calls.py", "forgets_who_is_weak": "test_arrays.py",
        "calls_twice": "test_effects.py", "maps_on_one_device": "test_devices.py",
        "goes_to_the_first_device": "test_devices.py",
    }
    kept = ["test_arrays.py", "test_calls.py", "test_devices.py", "test_effects.py"]
