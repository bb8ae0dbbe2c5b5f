"""`RuleTable`: the current rule in every thread, and a version that changes with it."""
from __future__ import annotations

import threading

import pytest
from lamina_ir import MissingRuleError, Primitive, RuleTable, config, prims


@pytest.fixture
def table():
    return RuleTable("fold", "yourlab_fold/rules")


def test_defined_rule_is_found(table):
    table.define(prims.sin_p, len)
    assert (table[prims.sin_p] is len and table.get(prims.sin_p) is len and prims.sin_p in table
            and table.has_rule_or_reason(prims.sin_p))
    assert not table.has_rule_or_reason(prims.cos_p) and table.get(prims.cos_p) is None


def test_missing_rule_error_names_primitive_and_file(table):
    with pytest.raises(MissingRuleError, match=r"fold of `erf`.*yourlab_fold/rules"):
        table[prims.erf_p]
    assert issubclass(MissingRuleError, NotImplementedError)


def test_missing_rule_reason_is_raised_until_rule_is_defined(table):
    table.declare_missing(prims.sort_p, "not implemented yet")
    assert table.has_rule_or_reason(prims.sort_p) and table.missing_rules[prims.sort_p] == "not implemented yet"
    with pytest.raises(MissingRuleError, match="not implemented yet"):
        table[prims.sort_p]
    table.define(prims.sort_p, len)
    assert table[prims.sort_p] is len and prims.sort_p not in table.missing_rules


@pytest.mark.parametrize("before", ["rule", "missing", "nothing"])
def test_override_end_restores_previous_state(table, before):
    if before == "rule":
        table.define(prims.sin_p, len)
    elif before == "missing":
        table.declare_missing(prims.sin_p, "why")
    version, key = table.version, config.cache_key()
    with table.override(prims.sin_p, abs):
        assert table[prims.sin_p] is abs and table.version != version and config.cache_key() != key
    assert table.get(prims.sin_p) is (len if before == "rule" else None) and table.version == version
    assert table.missing_rules.get(prims.sin_p) == ("why" if before == "missing" else None)
    assert config.cache_key() == key


def test_overrides_nest_and_end_with_errors(table):
    table.define(prims.sin_p, len)
    with pytest.raises(ZeroDivisionError), table.override(prims.sin_p, abs):
        with table.override(prims.sin_p, repr):
            assert table[prims.sin_p] is repr
        assert table[prims.sin_p] is abs
        raise ZeroDivisionError
    assert table[prims.sin_p] is len


def test_every_change_gives_a_new_version(table):
    table.get(prims.sin_p)
    seen = {table.version}
    for change in (lambda: table.define(prims.sin_p, len), lambda: table.define(prims.sin_p, abs),
                   lambda: table.declare_missing(prims.sin_p, "x")):
        before = config.cache_key()
        change()
        assert table.version not in seen and config.cache_key() != before
        seen.add(table.version)


def test_default_rule_is_used_until_rule_is_defined():
    op = Primitive("fact_of_conformance", infer=lambda x: x, elementwise=True)
    table = RuleTable("fold", "yourlab_fold/rules")
    table.default = lambda p: len if p.elementwise else None
    assert table[op] is len
    table.define(op, abs)
    assert table[op] is abs


def test_override_applies_to_all_threads(table):
    seen = []
    with table.override(prims.sin_p, abs):
        thread = threading.Thread(target=lambda: seen.append(table.get(prims.sin_p)))
        thread.start()
        thread.join()
    assert seen == [abs]


def test_invalid_rules_are_rejected(table):
    for change in (lambda: table.define("sin", len), lambda: table.define(prims.sin_p, 3)):
        with pytest.raises(TypeError):
            change()
