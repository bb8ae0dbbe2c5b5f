"""The contract holds for the stock, and each implementation in `broken/`, which changes one meaning, breaks it."""
from __future__ import annotations

from pathlib import Path

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    layer = "lamina_runtime"
    broken = Path(__file__).parent / "broken"
    seen_in = {
        "takes_one_op_for_another": "test_every_op.py::test_an_op_called_on_values_gives_its_meaning",
        "remembers_results": "test_calls.py", "keeps_what_is_donated": "test_calls.py", "knows_one_width": "test_calls.py",
        "traces_each_call": "test_calls.py", "does_not_say_which": "test_calls.py", "forgets_who_is_weak": "test_arrays.py",
        "calls_twice": "test_effects.py", "maps_on_one_device": "test_places.py", "goes_to_the_first_device": "test_places.py",
    }
    kept = ["test_arrays.py", "test_calls.py", "test_places.py", "test_effects.py"]
