"""Rule tables: rows, holes, overrides, and what a miss says."""
import pytest

from lamina_ir import MissingRuleError, RuleTable, prims


@pytest.fixture
def table():
    return RuleTable("vmap", "lamina_batching/rules")


def test_rows_are_found(table):
    rule = object()
    table.define(prims.sin_p, rule)
    assert table[prims.sin_p] is rule and table.covers(prims.sin_p) and not table.covers(prims.cos_p)


def test_a_miss_says_where_the_row_belongs(table):
    with pytest.raises(MissingRuleError, match=r"vmap of `erf` has no rule; add a row to lamina_batching/rules/elem"):
        table[prims.erf_p]
    assert isinstance(MissingRuleError(), NotImplementedError)


def test_a_hole_gives_its_reason(table):
    table.hole(prims.sort_p, "nobody asked yet")
    assert table.covers(prims.sort_p)
    with pytest.raises(MissingRuleError, match="nobody asked yet"):
        table[prims.sort_p]
    table.define(prims.sort_p, len)
    assert not table.holes and table[prims.sort_p] is len


@pytest.mark.parametrize("before", ["row", "hole", "nothing"])
def test_overrides_end(table, before):
    if before == "row":
        table.define(prims.sin_p, len)
    elif before == "hole":
        table.hole(prims.sin_p, "why")
    version = table.version
    with table.override(prims.sin_p, abs):
        assert table[prims.sin_p] is abs and table.version > version
        inside = table.version
    assert table.version > inside
    assert table.get(prims.sin_p) is (len if before == "row" else None)
    assert table.holes.get(prims.sin_p) == ("why" if before == "hole" else None)
