"""Every op has its words: operands in order, result, meaning, each param; and they say what the op's facts say."""
import inspect

import pytest

from lamina_ir import prims
from lamina_ir.op_specs import intro_of, kind_of_param, meaning_of_param, spec_of
from lamina_ir.op_specs._spec import HOLDS, PARAMS
from lamina_ir.testing.samples import samples_of


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_every_op_is_told(prim):
    spec = spec_of(prim)
    assert spec.result and spec.meaning.endswith(".")
    assert set(spec.params) <= set(prim.params)
    for param in prim.params:
        assert meaning_of_param(prim, param) and kind_of_param(prim, param)
    assert intro_of(prim.family)


@pytest.mark.parametrize("prim", prims.ALL, ids=lambda p: p.name)
def test_operands_are_as_many_as_the_op_takes(prim):
    """By the names of the type rule where it has them all, and by the samples."""
    named = spec_of(prim).operands
    any_number = any(n.endswith("...") for n in named)
    for row in samples_of(prim):
        assert len(row.args) == len(named) or any_number and len(row.args) >= sum(not n.endswith("...") for n in named), row.id
    found = inspect.signature(prim.infer).parameters.values()
    rule = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not any(p.kind is p.VAR_POSITIONAL for p in found):
        assert not any_number and len(rule) == len(named)


def test_no_words_are_left_over():
    """What is said of params in general is of params that some op has and that its own words leave out."""
    left = {p for op in prims.ALL for p in op.params if p not in spec_of(op).params}
    assert set(PARAMS) == left
    assert set(HOLDS) == {p for op in prims.ALL for p in op.params if p not in op.kinds}
