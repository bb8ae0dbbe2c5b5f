"""The default implementation passes the conformance tests; each one in `broken/`, with one changed behaviour, fails them."""
from __future__ import annotations

from pathlib import Path

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    layer = "lamina_numpy"
    broken = Path(__file__).parent / "broken"
    seen_in = dict(
        divides_as_c_does="test_functions.py",
        forgets_keepdims="test_functions.py",
        takes_numbers_at_their_word="test_types.py",
        subtracts_the_other_way="test_arrays.py",
        reads_zeros_outside="test_indexing.py",
        adds_once="test_indexing.py",
        has_no_derivative="test_transformed.py",
        looks_at_values="test_transformed.py",
        calls_itself="test_transformed.py",
        takes_lists="test_refusals.py",
    )
    kept = ["test_types.py", "test_arrays.py", "test_indexing.py", "test_refusals.py"]
    # the operators of lamina-tracing are there without an implementation
    passes = ["test_traced_indexing_equals_numpy", "test_traced_value_cannot_convert_to_number"]
