"""Rule tables: rules, missing rules, overrides, error messages, and the versions in cache keys."""
import sys
import threading

import pytest

from lamina_ir import MissingRuleError, Primitive, RuleTable, config, layers, prims
from lamina_ir._util import layer_import
from lamina_ir._util.layer_import import import_rules_later, importing_layer
from lamina_ir.extend import list_rule_tables, invalidate_caches


@pytest.fixture
def table():
    return RuleTable("vmap", "lamina_batching/rules")


def test_defined_rule_is_found(table):
    table.define(prims.sin_p, len)
    assert table[prims.sin_p] is len and table.has_rule_or_reason(prims.sin_p) and not table.has_rule_or_reason(prims.cos_p)
    assert table in list_rule_tables()


def test_changed_rules_exclude_those_of_the_package():
    with importing_layer():
        table = RuleTable("vmap", "lamina_batching/rules")
        table.define(prims.sin_p, len)
    assert not table.changed
    table.define(prims.cos_p, len)
    with table.override(prims.sin_p, abs):
        assert table.changed == {prims.sin_p, prims.cos_p}
    assert table.changed == {prims.cos_p}


def test_missing_rule_error_names_rule_file(table):
    with pytest.raises(MissingRuleError, match=r"vmap of `erf` has no rule; add a rule to lamina_batching/rules/elem"):
        table[prims.erf_p]
    assert isinstance(MissingRuleError(), NotImplementedError)


def test_families_are_named_after_their_modules(table):
    """The message of a missing rule names the file of the family, which has the same name in every package."""
    for module in prims.FAMILIES:
        for prim in [p for p in vars(module).values() if isinstance(p, Primitive) and f"{p.name}_p" in module.__all__]:
            assert prim.family == module.__name__.rsplit(".", 1)[1], prim
    with pytest.raises(MissingRuleError, match=r"add a rule to lamina_batching/rules/products\.py"):
        table[prims.dot_general_p]


def test_declared_missing_rule_raises_its_reason(table):
    table.declare_missing(prims.sort_p, "not implemented yet")
    assert table.has_rule_or_reason(prims.sort_p)
    with pytest.raises(MissingRuleError, match="not implemented yet"):
        table[prims.sort_p]
    table.define(prims.sort_p, len)
    assert not table.missing_rules and table[prims.sort_p] is len


def test_item_assignment_defines_and_deletion_removes(table):
    table[prims.sin_p] = abs
    before = table.version
    table[prims.sin_p] = len
    assert table[prims.sin_p] is len and table.version != before
    before = config.generation.value
    del table[prims.sin_p]
    assert prims.sin_p not in table and config.generation.value != before
    for change in (table.clear, table.popitem, lambda: table.pop(prims.sin_p), lambda: table.update({prims.sin_p: len}),
                   lambda: table.setdefault(prims.sin_p, len)):
        with pytest.raises(TypeError, match="define, declare_missing and override"):
            change()


@pytest.mark.parametrize("change", [lambda t: t.define(prims.sin_p, len), lambda t: t.declare_missing(prims.sin_p, "why")])
@pytest.mark.parametrize("read", [None, lambda t: t.get(prims.sin_p), lambda t: prims.sin_p in t,
                                 lambda t: t.has_rule_or_reason(prims.sin_p),
                                 lambda t: pytest.raises(MissingRuleError, t.__getitem__, prims.sin_p)])
def test_first_definition_changes_version_only_after_a_read(table, read, change):
    before = table.version, config.cache_key()
    assert table.is_unread(prims.sin_p)
    if read:
        read(table)
        assert not table.is_unread(prims.sin_p)
    change(table)
    assert ((table.version, config.cache_key()) == before) == (read is None)
    assert not table.is_unread(prims.sin_p)
    before = table.version
    change(table)
    assert table.version != before


@pytest.mark.parametrize("before", ["rule", "missing", "nothing", "fact"])
def test_override_end_restores_version_and_cache_key(table, before):
    if before == "rule":
        table.define(prims.sin_p, len)
    elif before == "missing":
        table.declare_missing(prims.sin_p, "why")
    elif before == "fact":
        table.default = lambda op: len
    version, key = table.version, config.cache_key()
    with table.override(prims.sin_p, abs):
        assert table[prims.sin_p] is abs and prims.sin_p not in table.missing_rules
        assert table.version != version and config.cache_key() != key
        inside = config.cache_key()
    assert (table.version, config.cache_key()) == (version, key)
    assert table.get(prims.sin_p) is (len if before == "rule" else None)
    assert table.missing_rules.get(prims.sin_p) == ("why" if before == "missing" else None)
    assert (prims.sin_p in table) == (before in ("rule", "fact"))
    with table.override(prims.sin_p, abs):  # the same rule again is the same state
        assert config.cache_key() == inside
    with table.override(prims.sin_p, len):
        assert config.cache_key() not in (inside, key)


def test_overrides_end_in_any_order(table):
    other = RuleTable("jvp", "rules")
    table.define(prims.sin_p, len)
    outside = config.cache_key()
    a, b, c = table.override(prims.sin_p, abs), other.override(prims.sin_p, max), table.override(prims.sin_p, min)
    a.__enter__()
    only_a = config.cache_key()
    b.__enter__()
    c.__enter__()
    all_three = config.cache_key()
    assert table[prims.sin_p] is min
    a.__exit__(None, None, None)  # below `c`, which stays active
    assert table[prims.sin_p] is min and other[prims.sin_p] is max and config.cache_key() == all_three
    c.__exit__(None, None, None)
    assert table[prims.sin_p] is len and other[prims.sin_p] is max
    assert config.cache_key() not in (outside, only_a, all_three)
    b.__exit__(None, None, None)
    assert config.cache_key() == outside and prims.sin_p not in other


@pytest.mark.parametrize("change", ["define", "declare_missing"])
def test_define_and_declare_missing_win_over_active_overrides(table, change):
    table.define(prims.sin_p, len)
    key = config.cache_key()
    with table.override(prims.sin_p, abs), table.override(prims.sin_p, min):
        if change == "define":
            table.define(prims.sin_p, max)
            assert table[prims.sin_p] is max
            with table.override(prims.sin_p, abs):
                assert table[prims.sin_p] is abs
            assert table[prims.sin_p] is max
        else:
            table.declare_missing(prims.sin_p, "why")
            assert prims.sin_p not in table
    assert table.get(prims.sin_p) is (max if change == "define" else None)
    assert config.cache_key() != key


def test_definition_inside_override_changes_key_after_it(table):
    table.define(prims.cos_p, abs)
    key = config.cache_key()
    with table.override(prims.sin_p, abs):
        table.define(prims.cos_p, len)
    assert config.cache_key() != key and prims.sin_p not in table
    key = config.cache_key()
    invalidate_caches()
    assert config.cache_key() != key


def test_default_rule_is_used_until_rule_or_reason_is_defined():
    made = []
    table = RuleTable("jvp", "rules", default=lambda op: made.append(op) or len if op.linear_in else None)
    assert prims.add_p in table and prims.sin_p not in table and table.has_rule_or_reason(prims.add_p)
    made.clear()
    assert table[prims.add_p] is len and table[prims.add_p] is len and made == [prims.add_p]
    table.declare_missing(prims.add_p, "why")
    assert prims.add_p not in table
    with pytest.raises(MissingRuleError, match="why"):
        table[prims.add_p]
    table.define(prims.add_p, abs)
    assert table[prims.add_p] is abs
    del table[prims.add_p]
    assert table[prims.add_p] is len


def test_override_applies_to_all_threads(table):
    seen = []

    def look():
        seen.append((table[prims.sin_p], config.cache_key()))

    def in_a_thread():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    table.define(prims.sin_p, len)
    for block in (table.override(prims.sin_p, abs),):
        in_a_thread()
        with block:
            in_a_thread()
            look()
        in_a_thread()
    (first, outside), (second, inside), (third, here), (last, after) = seen
    assert (first, second, third, last) == (len, abs, abs, len)
    assert outside == after and inside == here != outside


def test_concurrent_overrides_restore_initial_rules(table):
    table.define(prims.sin_p, len)
    key = config.cache_key()

    def many(op, rule):
        for _ in range(200):
            with table.override(op, rule), table.override(prims.sin_p, rule):
                assert table[op] is rule

    threads = [threading.Thread(target=many, args=(op, rule)) for op, rule in
               zip((prims.cos_p, prims.tan_p, prims.exp_p), (abs, min, max))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert dict(table) == {prims.sin_p: len} and config.cache_key() == key


def test_result_is_not_cached_if_another_thread_changed_rules_meanwhile(table):
    from lamina_ir import parse
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")

    def change():
        with table.override(prims.sin_p, abs):
            pass

    def make():
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        return object()

    assert program.memo_with_settings("x", make) is not program.memo_with_settings("x", make)
    mine = []

    def own_block():
        mine.append(1)
        change()
        return object()

    assert program.memo_with_settings("y", own_block) is program.memo_with_settings("y", own_block) and len(mine) == 1


def test_result_is_not_cached_during_rule_change_of_another_thread(table):
    """The rule is replaced but the version is still old: another thread would cache a result under the old version."""
    from lamina_ir import parse
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    begun, go_on = threading.Event(), threading.Event()

    def change():
        with config.generation.changing():
            begun.set()
            go_on.wait(60)

    thread = threading.Thread(target=change)
    thread.start()
    begun.wait(60)
    made = program.memo_with_settings("x", object)
    assert program.memo_with_settings("x", object) is not made
    go_on.set()
    thread.join()
    made = program.memo_with_settings("x", object)
    assert program.memo_with_settings("x", object) is made
    with config.generation.changing():  # a change by this thread
        assert program.memo_with_settings("x",
                                          object) is made
        assert program.memo_with_settings("y", object) is program.memo_with_settings("y", object)


def test_result_is_not_cached_if_another_thread_set_option_meanwhile(table):
    from lamina_ir import parse
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    value = config.default_matmul_precision.value

    def make():
        for to in ("highest", value):
            thread = threading.Thread(target=config.default_matmul_precision.set, args=(to,))
            thread.start()
            thread.join()
        return object()

    assert program.memo_with_settings("x", make) is not program.memo_with_settings("x", make)


def test_cached_results_depend_on_settings_and_rules(table):
    from lamina_ir import parse
    program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    outside = program.memo_with_settings("x", object)
    assert program.memo_with_settings("x", object) is outside
    with table.override(prims.sin_p, abs):
        assert program.memo_with_settings("x", object) is not outside
    with config.enable_x64(not config.enable_x64.value):
        assert program.memo_with_settings("x", object) is not outside
    assert program.memo_with_settings("x", object) is outside


@pytest.mark.parametrize("change, words", [
    (lambda t: t.define("sin", len), "table `vmap`: define: expected a Primitive; got str: 'sin'"),
    (lambda t: t.define(prims.sin_p, 3), r"table `vmap`: define\(sin\): rule must be a function; got int: 3"),
    (lambda t: t.override(prims.sin_p, None).__enter__(), r"override\(sin\): rule must be a function; got NoneType"),
    (lambda t: t.override(None, len).__enter__(), "override: expected a Primitive; got NoneType"),
    (lambda t: t.declare_missing("sin", "why"), "declare_missing: expected a Primitive; got str"),
    (lambda t: t.declare_missing(prims.sin_p, None), r"declare_missing\(sin\): reason must be a sentence; got None"),
    (lambda t: t.declare_missing(prims.sin_p, " "), "reason must be a sentence"),
    (lambda t: t["sin"], "looking up a rule: expected a Primitive; got str: 'sin'")])
def test_ill_formed_rules_are_rejected_at_definition(table, change, words):
    key = config.cache_key()
    with pytest.raises(TypeError, match=words):
        change(table)
    assert config.cache_key() == key and not table and not table.missing_rules


def test_rule_argument_named_like_primitive_param_is_rejected():
    table = RuleTable("vmap", "rules", leading_params=("axis", "args", "dims"))
    op = Primitive("tables_test_op", params=("axis", "dims"), infer=lambda x, **params: x)
    with pytest.raises(TypeError, match=r"define\(tables_test_op\): the parameter `axis` of the rule is also the name"):
        table.define(op, lambda axis, args, dims, **params: None)
    table.define(op, lambda axis, args, dims, /, **params: params)
    table.define(op, lambda batch, args, where, axis, dims: None)
    assert table.override(op, lambda size, values, at, *, axis, dims: (axis, dims))


def test_number_of_stored_states_is_bounded(table):
    key = config.cache_key()
    for _ in range(300):
        with table.override(prims.sin_p, lambda: None):
            pass
    assert len(table._state._known) <= 64 and config.cache_key() == key


def test_message_for_a_primitive_without_a_family_can_be_set(table):
    table.explain_missing = lambda prim: f"define one for {prim.name}"
    with pytest.raises(MissingRuleError, match="vmap of `tables_own` has no rule; define one for tables_own(?m:$)"):
        table[Primitive("tables_own")]
    with pytest.raises(MissingRuleError, match="vmap of `sin` has no rule; add a rule to lamina_batching/rules/elementwise.py"):
        table[prims.sin_p]


LATE = """
from lamina_ir import prims
from lamina_ir.extend import list_rule_tables
table = next(t for t in list_rule_tables() if t.name == "NAME")
table.define(prims.sin_p, len)
table.define(prims.tan_p, len)
table.declare_missing(prims.cos_p, "not differentiable today")
"""


@pytest.fixture
def late_table(tmp_path, monkeypatch):
    """Return a table whose rules are imported when one is read; another package defines one before."""
    (tmp_path / "lamina_late_rules.py").write_text(LATE.replace("NAME", str(tmp_path)))  # tables of other tests may live still
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lamina_late_rules", raising=False)
    with importing_layer():
        table = RuleTable(str(tmp_path), "late/rules")
        import_rules_later("test_layer", ["lamina_late_rules"])
    with importing_layer():
        table.define(prims.tan_p, abs)
    assert table.import_rules is not None
    yield table
    sys.modules.pop("lamina_late_rules", None)


@pytest.mark.parametrize("read", [
    lambda t: t[prims.sin_p] is len, lambda t: t.get(prims.sin_p) is len, lambda t: prims.sin_p in t, lambda t: len(t) == 2,
    lambda t: set(t) == {prims.sin_p, prims.tan_p}, lambda t: dict(t.items())[prims.sin_p] is len, lambda t: len in t.values(),
    lambda t: prims.sin_p in t.keys(), lambda t: prims.cos_p in t.missing_rules, lambda t: dict(t)[prims.sin_p] is len])
def test_rules_are_imported_at_the_first_read(late_table, read):
    before = config.generation.value
    assert read(late_table) and late_table.import_rules is None and config.generation.value == before
    assert late_table[prims.tan_p] is abs  # not replaced by the rule of the package itself
    with pytest.raises(MissingRuleError, match="not differentiable today"):
        late_table[prims.cos_p]


def test_rule_modules_of_other_packages_are_imported_with_the_rules(late_table, tmp_path, monkeypatch):
    for name, prim in (("early", "exp_p"), ("late", "log_p")):
        (tmp_path / f"lamina_{name}_added.py").write_text(
            LATE.replace("NAME", str(tmp_path)).split("table.define")[0] + f"table.define(prims.{prim}, min)")
    monkeypatch.setattr(layer_import, "_added", {})
    monkeypatch.setattr(layer_import, "_complete", set())
    layers.add_rule_module("test_layer", "lamina_early_added")
    assert "lamina_early_added" not in sys.modules
    assert late_table[prims.exp_p] is min and late_table[prims.sin_p] is len
    layers.add_rule_module("test_layer", "lamina_late_added")
    assert late_table[prims.log_p] is min
    del sys.modules["lamina_early_added"], sys.modules["lamina_late_added"]


@pytest.mark.parametrize("prim", [prims.sin_p, prims.cos_p, prims.tan_p])
def test_rules_of_programs_replace_rules_that_are_imported_late(late_table, prim):
    late_table.define(prim, max)
    assert late_table.import_rules is None and late_table[prim] is max
    with late_table.override(prim, min):
        assert late_table[prim] is min
    assert late_table[prim] is max


def test_override_before_the_rules_are_imported_ends(late_table):
    with late_table.override(prims.sin_p, max):
        assert late_table[prims.sin_p] is max
    assert late_table[prims.sin_p] is len
