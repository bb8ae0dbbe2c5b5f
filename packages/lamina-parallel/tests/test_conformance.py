"""The default implementation passes the conformance tests; each defective one in `broken/` fails them."""
from __future__ import annotations

import importlib.util
import os
import pytest
from lamina_ir.testing.conformance import run_with_implementation
from lamina_ir.conformance.trials import ContractTrials


class TestContract(ContractTrials):
    seen_in = {
        "forgets_out_axes": "test_maps.py", "cuts_what_is_longer": "test_maps.py", "traces_each_call": "test_maps.py",
        "means_are_sums": "test_collectives.py", "ignores_groups": "test_collectives.py",
        "shuffles_the_other_way": "test_collectives.py", "counts_replicas_once": "test_collectives.py",
        "sums_up_the_filling": "test_padded.py", "rounds_where_there_are_resources": "test_xmap.py",
        "believes_specs": "test_shard_map.py",
    }
    left_out = ["test_autodiff_and_batching.py"]  # tests the two layers below together


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("lamina_runtime") is None, reason="no runtime is installed")
def test_conformance_tests_pass_on_devices(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4")
    files = ["test_maps.py", "test_xmap.py", "test_shard_map.py", "test_padded.py"]
    status, output = run_with_implementation("lamina_parallel", None, ["-q", "-p", "lamina_runtime", *files])
    assert status == 0, output
