"""Every primitive is documented: operands in order, result, meaning, each param; and the text agrees with the facts."""
import inspect

import pytest

from lamina_ir import prims
from lamina_ir.op_specs import intro_of, kind_of_param, meaning_of_param, spec_of
from lamina_ir.op_specs._spec import HOLDS, PARAMS
from lamina_ir.testing.samples import samples_of


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_every_primitive_is_documented(prim):
    spec = spec_of(prim)
    assert spec.result and spec.meaning.endswith(".")
    assert set(spec.params) <= set(prim.params)
    for param in prim.params:
        assert meaning_of_param(prim, param) and kind_of_param(prim, param)
    assert intro_of(prim.family)


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_documented_operands_match_type_rule_and_samples(prim):
    """Compare with the arguments of the type rule, if it names them all, and with the samples."""
    named = spec_of(prim).operands
    any_number = any(n.endswith("...") for n in named)
    for sample in samples_of(prim):
        count, fixed = len(sample.args), sum(not n.endswith("...") for n in named)
        assert count == len(named) or any_number and count >= fixed, sample.id
    found = inspect.signature(prim.infer).parameters.values()
    rule = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not any(p.kind is p.VAR_POSITIONAL for p in found):
        assert not any_number and len(rule) == len(named)


def test_every_param_text_is_used():
    """General texts exist exactly for params that some primitive has and does not document itself."""
    left = {p for op in prims.ALL for p in op.params if p not in spec_of(op).params}
    assert set(PARAMS) == left
    assert set(HOLDS) == {p for op in prims.ALL for p in op.params if p not in op.kinds}
