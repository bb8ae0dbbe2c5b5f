"""Rule tables: rows, holes, overrides, what a miss says, and the numbers that caches key on."""
import threading

import pytest

from lamina_ir import MissingRuleError, Primitive, RuleTable, config, prims
from lamina_ir.extend import list_rule_tables, invalidate_caches


@pytest.fixture
def table():
    return RuleTable("vmap", "lamina_batching/rules")


def test_rows_are_found(table):
    table.define(prims.sin_p, len)
    assert table[prims.sin_p] is len and table.has_rule_or_reason(prims.sin_p) and not table.has_rule_or_reason(prims.cos_p)
    assert table in list_rule_tables()


def test_a_miss_says_where_the_row_belongs(table):
    with pytest.raises(MissingRuleError, match=r"vmap of `erf` has no rule; add a rule to lamina_batching/rules/elem"):
        table[prims.erf_p]
    assert isinstance(MissingRuleError(), NotImplementedError)


def test_a_hole_gives_its_reason(table):
    table.declare_missing(prims.sort_p, "nobody asked yet")
    assert table.has_rule_or_reason(prims.sort_p)
    with pytest.raises(MissingRuleError, match="nobody asked yet"):
        table[prims.sort_p]
    table.define(prims.sort_p, len)
    assert not table.missing_rules and table[prims.sort_p] is len


def test_item_assignment_defines_and_deletion_forgets(table):
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
@pytest.mark.parametrize("ask", [None, lambda t: t.get(prims.sin_p), lambda t: prims.sin_p in t,
                                 lambda t: t.has_rule_or_reason(prims.sin_p),
                                 lambda t: pytest.raises(MissingRuleError, t.__getitem__, prims.sin_p)])
def test_a_first_row_or_hole_is_a_change_once_somebody_has_asked(table, ask, change):
    before = table.version, config.cache_key()
    assert table.is_unread(prims.sin_p)
    if ask:
        ask(table)
        assert not table.is_unread(prims.sin_p)
    change(table)
    assert ((table.version, config.cache_key()) == before) == (ask is None)
    assert not table.is_unread(prims.sin_p)
    before = table.version
    change(table)
    assert table.version != before


@pytest.mark.parametrize("before", ["row", "hole", "nothing", "fact"])
def test_overrides_end_and_the_numbers_from_before_come_back(table, before):
    if before == "row":
        table.define(prims.sin_p, len)
    elif before == "hole":
        table.declare_missing(prims.sin_p, "why")
    elif before == "fact":
        table.default = lambda op: len
    version, key = table.version, config.cache_key()
    with table.override(prims.sin_p, abs):
        assert table[prims.sin_p] is abs and prims.sin_p not in table.missing_rules
        assert table.version != version and config.cache_key() != key
        inside = config.cache_key()
    assert (table.version, config.cache_key()) == (version, key)
    assert table.get(prims.sin_p) is (len if before == "row" else None)
    assert table.missing_rules.get(prims.sin_p) == ("why" if before == "hole" else None)
    assert (prims.sin_p in table) == (before in ("row", "fact"))
    with table.override(prims.sin_p, abs):  # the same row again is the same state
        assert config.cache_key() == inside
    with table.override(prims.sin_p, len):
        assert config.cache_key() not in (inside, key)


def test_overrides_end_in_any_order(table):
    other = RuleTable("jvp", "rows")
    table.define(prims.sin_p, len)
    outside = config.cache_key()
    a, b, c = table.override(prims.sin_p, abs), other.override(prims.sin_p, max), table.override(prims.sin_p, min)
    a.__enter__()
    only_a = config.cache_key()
    b.__enter__()
    c.__enter__()
    all_three = config.cache_key()
    assert table[prims.sin_p] is min
    a.__exit__(None, None, None)  # beneath `c`, which goes on holding
    assert table[prims.sin_p] is min and other[prims.sin_p] is max and config.cache_key() == all_three
    c.__exit__(None, None, None)
    assert table[prims.sin_p] is len and other[prims.sin_p] is max
    assert config.cache_key() not in (outside, only_a, all_three)
    b.__exit__(None, None, None)
    assert config.cache_key() == outside and prims.sin_p not in other


@pytest.mark.parametrize("change", ["define", "hole"])
def test_define_and_hole_win_over_open_overrides(table, change):
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


def test_a_change_beside_an_open_override_is_a_new_state_after_it(table):
    table.define(prims.cos_p, abs)
    key = config.cache_key()
    with table.override(prims.sin_p, abs):
        table.define(prims.cos_p, len)
    assert config.cache_key() != key and prims.sin_p not in table
    key = config.cache_key()
    invalidate_caches()
    assert config.cache_key() != key


def test_facts_give_rows_until_a_row_or_hole_is_defined():
    made = []
    table = RuleTable("jvp", "rows", default=lambda op: made.append(op) or len if op.linear_in else None)
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


def test_all_threads_follow(table):
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


def test_threads_that_override_at_once_leave_what_was_there(table):
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


def test_what_was_made_while_another_thread_changed_rows_is_not_remembered(table):
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


def test_what_is_made_in_the_middle_of_a_change_is_not_remembered(table):
    """The row is in its place and its number is not yet: another thread makes something of it under the old number."""
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
    with config.generation.changing():  # one's own change
        assert program.memo_with_settings("x",
                                          object) is made
        assert program.memo_with_settings("y", object) is program.memo_with_settings("y", object)


def test_a_default_that_another_thread_sets_meanwhile_is_noticed(table):
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


def test_derived_programs_follow_settings_and_rows(table):
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
def test_ill_formed_rows_raise_when_they_are_defined(table, change, words):
    key = config.cache_key()
    with pytest.raises(TypeError, match=words):
        change(table)
    assert config.cache_key() == key and not table and not table.missing_rules


def test_rows_whose_own_names_are_params_of_the_op_raise():
    table = RuleTable("vmap", "rows", leading_params=("axis", "args", "dims"))
    op = Primitive("tables_test_op", params=("axis", "dims"), infer=lambda x, **params: x)
    with pytest.raises(TypeError, match=r"define\(tables_test_op\): the parameter `axis` of the rule is also the name"):
        table.define(op, lambda axis, args, dims, **params: None)
    table.define(op, lambda axis, args, dims, /, **params: params)
    table.define(op, lambda batch, args, where, axis, dims: None)
    assert table.override(op, lambda size, values, at, *, axis, dims: (axis, dims))


def test_states_are_bounded(table):
    key = config.cache_key()
    for _ in range(300):
        with table.override(prims.sin_p, lambda: None):
            pass
    assert len(table._state._known) <= 64 and config.cache_key() == key
