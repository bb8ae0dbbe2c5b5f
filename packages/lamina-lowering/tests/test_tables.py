"""Lowering rules and their overrides per platform, while they change."""
import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, MissingRuleError, Var, prims, shaped
from lamina_lowering import lower, lowering_rules, platform_rules, merged_rules


def program(op):
    x, y = Var(shaped((3,), np.dtype("float32"))), Var(shaped((3,), np.dtype("float32")))
    return ClosedJaxpr(Jaxpr([], [x], [Eqn(op, [x], [y], {})], [y]))


def emits(name):
    return lambda ctx, x, /, **params: ctx.op(f"stablehlo.{name}", (x,), ctx.aval_out)


@pytest.fixture
def cpu_rules_with_tan():
    """The CPU rules, with a rule for `tan` that emits `abs`."""
    platform_rules("cpu").define(prims.tan_p, emits("abs"))
    yield platform_rules("cpu")
    del platform_rules("cpu")[prims.tan_p]


def test_overridden_rule_is_used_inside_block_only():
    closed = program(prims.tanh_p)
    assert "stablehlo.tanh" in lower(closed).as_text()
    version = merged_rules("cpu").version
    with lowering_rules.override(prims.tanh_p, emits("cosine")):
        assert "stablehlo.cosine" in lower(closed).as_text() and merged_rules("cpu").version != version
    assert "stablehlo.tanh" in lower(closed).as_text() and merged_rules("cpu").version == version


def test_platform_rule_precedes_common_rule_and_yields_to_override(cpu_rules_with_tan):
    closed, common = program(prims.tan_p), lowering_rules[prims.tan_p]
    assert "stablehlo.abs" in lower(closed).as_text() and "stablehlo.abs" not in lower(closed, platform="tpu").as_text()
    lowering_rules.define(prims.tan_p, emits("ceil"))
    try:
        assert "stablehlo.abs" in lower(closed).as_text() and "stablehlo.ceil" in lower(closed, platform="tpu").as_text()
    finally:
        lowering_rules.define(prims.tan_p, common)
    with lowering_rules.override(prims.tan_p, emits("cosine")):
        assert "stablehlo.cosine" in lower(closed).as_text()
        with cpu_rules_with_tan.override(prims.tan_p, emits("floor")):
            assert "stablehlo.floor" in lower(closed).as_text()
            assert "stablehlo.cosine" in lower(closed, platform="tpu").as_text()
    assert "stablehlo.abs" in lower(closed).as_text()


def test_missing_rule_of_a_platform_does_not_affect_others(cpu_rules_with_tan):
    cpu_rules_with_tan.declare_missing(prims.tan_p, "no kernel")
    with pytest.raises(MissingRuleError, match="lowering for cpu of `tan` is not defined: no kernel"):
        lower(program(prims.tan_p))
    lower(program(prims.tan_p), platform="tpu")
    cpu_rules_with_tan.define(prims.tan_p, emits("abs"))


def test_merged_rules_are_a_snapshot():
    snapshot = merged_rules("cpu")
    with lowering_rules.override(prims.tanh_p, emits("cosine")):
        assert "stablehlo.tanh" in lower(program(prims.tanh_p), rules=snapshot).as_text()
