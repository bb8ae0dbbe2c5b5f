"""Lowering rows and their overlays per platform, as they change."""
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
def tan_on_cpu():
    platform_rules("cpu").define(prims.tan_p, emits("abs"))
    yield platform_rules("cpu")
    del platform_rules("cpu")[prims.tan_p]


def test_overrides_hold_inside_their_block_alone():
    closed = program(prims.tanh_p)
    assert "stablehlo.tanh" in lower(closed).as_text()
    version = merged_rules("cpu").version
    with lowering_rules.override(prims.tanh_p, emits("cosine")):
        assert "stablehlo.cosine" in lower(closed).as_text() and merged_rules("cpu").version != version
    assert "stablehlo.tanh" in lower(closed).as_text() and merged_rules("cpu").version == version


def test_a_platform_keeps_its_row_beside_a_common_one_and_gives_way_to_an_override(tan_on_cpu):
    closed, common = program(prims.tan_p), lowering_rules[prims.tan_p]
    assert "stablehlo.abs" in lower(closed).as_text() and "stablehlo.abs" not in lower(closed, platform="tpu").as_text()
    lowering_rules.define(prims.tan_p, emits("ceil"))
    try:
        assert "stablehlo.abs" in lower(closed).as_text() and "stablehlo.ceil" in lower(closed, platform="tpu").as_text()
    finally:
        lowering_rules.define(prims.tan_p, common)
    with lowering_rules.override(prims.tan_p, emits("cosine")):
        assert "stablehlo.cosine" in lower(closed).as_text()
        with tan_on_cpu.override(prims.tan_p, emits("floor")):
            assert "stablehlo.floor" in lower(closed).as_text()
            assert "stablehlo.cosine" in lower(closed, platform="tpu").as_text()
    assert "stablehlo.abs" in lower(closed).as_text()


def test_a_hole_of_a_platform_is_its_own(tan_on_cpu):
    tan_on_cpu.declare_missing(prims.tan_p, "no room")
    with pytest.raises(MissingRuleError, match="lowering for cpu of `tan` is not defined: no room"):
        lower(program(prims.tan_p))
    lower(program(prims.tan_p), platform="tpu")
    tan_on_cpu.define(prims.tan_p, emits("abs"))


def test_rows_that_were_taken_do_not_change():
    taken = merged_rules("cpu")
    with lowering_rules.override(prims.tanh_p, emits("cosine")):
        assert "stablehlo.tanh" in lower(program(prims.tanh_p), rules=taken).as_text()
