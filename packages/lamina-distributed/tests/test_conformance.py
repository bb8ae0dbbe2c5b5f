"""The default implementation passes the conformance tests; each defective one in `broken/` fails them."""
from __future__ import annotations

from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "numbers_processes_backwards": "test_groups.py", "never_leaves": "test_groups.py",
        "gathers_its_own_values": "test_groups.py", "names_no_process": "test_losses.py", "joins_once": "test_losses.py",
        "compares_no_launches": "test_agreement.py",
    }
    kept = ["test_groups.py"]
