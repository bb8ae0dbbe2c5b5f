"""`RuleTable`: the row in force, for everybody and in every thread, and a number that changes with it."""
from __future__ import annotations

import threading

import pytest
from lamina_ir import MissingRuleError, Primitive, RuleTable, config, prims


@pytest.fixture
def table():
    return RuleTable("fold", "yourlab_fold/rules")


def test_rows_are_found(table):
    table.define(prims.sin_p, len)
    assert (table[prims.sin_p] is len and table.get(prims.sin_p) is len and prims.sin_p in table
            and table.has_rule_or_reason(prims.sin_p))
    assert not table.has_rule_or_reason(prims.cos_p) and table.get(prims.cos_p) is None


def test_a_missing_row_says_what_and_where(table):
    with pytest.raises(MissingRuleError, match=r"fold of `erf`.*yourlab_fold/rules"):
        table[prims.erf_p]
    assert issubclass(MissingRuleError, NotImplementedError)


def test_a_hole_gives_its_reason_until_there_is_a_row(table):
    table.declare_missing(prims.sort_p, "nobody asked yet")
    assert table.has_rule_or_reason(prims.sort_p) and table.missing_rules[prims.sort_p] == "nobody asked yet"
    with pytest.raises(MissingRuleError, match="nobody asked yet"):
        table[prims.sort_p]
    table.define(prims.sort_p, len)
    assert table[prims.sort_p] is len and prims.sort_p not in table.missing_rules


@pytest.mark.parametrize("before", ["row", "hole", "nothing"])
def test_an_override_ends_and_what_was_before_is_back(table, before):
    if before == "row":
        table.define(prims.sin_p, len)
    elif before == "hole":
        table.declare_missing(prims.sin_p, "why")
    version, key = table.version, config.cache_key()
    with table.override(prims.sin_p, abs):
        assert table[prims.sin_p] is abs and table.version != version and config.cache_key() != key
    assert table.get(prims.sin_p) is (len if before == "row" else None) and table.version == version
    assert table.missing_rules.get(prims.sin_p) == ("why" if before == "hole" else None) and config.cache_key() == key


def test_overrides_nest_and_end_with_errors(table):
    table.define(prims.sin_p, len)
    with pytest.raises(ZeroDivisionError), table.override(prims.sin_p, abs):
        with table.override(prims.sin_p, repr):
            assert table[prims.sin_p] is repr
        assert table[prims.sin_p] is abs
        raise ZeroDivisionError
    assert table[prims.sin_p] is len


def test_every_change_is_a_new_number(table):
    table.get(prims.sin_p)
    seen = {table.version}
    for change in (lambda: table.define(prims.sin_p, len), lambda: table.define(prims.sin_p, abs),
                   lambda: table.declare_missing(prims.sin_p, "x")):
        before = config.cache_key()
        change()
        assert table.version not in seen and config.cache_key() != before
        seen.add(table.version)


def test_facts_give_rows_until_somebody_does():
    op = Primitive("fact_of_contract", infer=lambda x: x, elementwise=True)
    table = RuleTable("fold", "yourlab_fold/rules")
    table.default = lambda p: len if p.elementwise else None
    assert table[op] is len
    table.define(op, abs)
    assert table[op] is abs


def test_all_threads_follow(table):
    seen = []
    with table.override(prims.sin_p, abs):
        thread = threading.Thread(target=lambda: seen.append(table.get(prims.sin_p)))
        thread.start()
        thread.join()
    assert seen == [abs]


def test_what_is_no_row_is_refused(table):
    for change in (lambda: table.define("sin", len), lambda: table.define(prims.sin_p, 3)):
        with pytest.raises(TypeError):
            change()
