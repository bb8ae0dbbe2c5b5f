"""Errors about conversions of traced values name the construct, its line, the argument and what to write instead."""
from __future__ import annotations

import linecache
import math
import re
import statistics

import numpy as np
import pytest
from lamina_ir import errors
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing._diagnostics import conversion_errors

VALUES = [1, 2, 3]
TABLE = {1: 2}


def if_statement(x):
    if x:
        return 1
    return 2


def if_comparison(x):
    if x > 0:
        return 1
    return 2


def elif_statement(x):
    if x is None:
        return 1
    elif x > 0 and x < 3:
        return 2
    return 3


def while_statement(x):
    while x < 3:
        x = x + 1
    return x


def while_name(x):
    while x:
        x = x - 1
    return x


def assert_statement(x):
    assert x > 0
    return x


def for_statement(x):
    for i in x:
        return i


def unpacking(x):
    a, b = x
    return a


USES = [
    (if_statement, "`if`", r"lax.cond, or \S+where"), (if_comparison, "`if`", "lax.cond"), (elif_statement, "`if`", "lax.cond"),
    (while_statement, "`while`", "lax.while_loop"), (while_name, "`while`", "lax.while_loop"),
    (assert_statement, "`assert`", "debug.callback"), (for_statement, "`for`", "lax.fori_loop"),
    (unpacking, "unpacking", "rank 1"),
    (lambda x: 1 if x else 2, "a conditional expression", r"\S+where\(condition, a, b\)"),
    (lambda x: not x, "`not`", r"logical_not \(`~a`\)"), (lambda x: x and 1, "`and`", "logical_and"),
    (lambda x: x or 1, "`or`", "logical_or"), (lambda x: 0 < x < 2, "the chained comparison `0 < x < 2`", r"\(a < x\) &"),
    (lambda x: [i for i in VALUES if x > i], "`if` in a comprehension", "where"),
    (lambda x: x in VALUES, "`in`", r"any\(x == value\)"),
    (lambda x: bool(x), "`bool`", "lax.cond"), (lambda x: max(x, 0), "`max`", r"\S+maximum"),
    (lambda x: math.sin(x), "`math.sin`", r"\S+\.sin"), (lambda x: math.atan2(x, 1), "`math.atan2`", r"\S+\.arctan2"),
    (lambda x: math.erf(x), "`math.erf`", r"lax\.erf"),
    (lambda x: int(x), "`int`", r"x.astype\(int\)"), (lambda x: np.float64(x), "`np.float64`", r"x.astype\(numpy.float64\)"),
    (lambda x: complex(x), "`complex`", r"x.astype\(complex\)"),
    (lambda x: range(x), "`range`", "lax.fori_loop"),
    (lambda x: VALUES[x], r"`VALUES\[x\]`", r"take\(values, i\) with an array"),
    (lambda x: VALUES[x:], r"`VALUES\[x:\]`", "an array of the values"), (lambda x: TABLE[x], r"`TABLE\[x\]`", "lax.switch"),
    (lambda x: {x: 1}, "a key of a dict", "lax.switch"), (lambda x: {x}, "an element of a set", "lax.switch"),
    (lambda x: hash(x), "`hash`", "lax.switch"), (lambda x: np.asarray(x), "`np.asarray`", "asarray"),
    (lambda x: np.linspace(0, 1, x), "`np.linspace`", "a size that is known"),
    (lambda x: f"{x:.2f}", "an f-string", "debug.print"), (lambda x: "%f" % x, "`'%f' % x`", "debug.print"),
    (lambda x: "{:.1f}".format(x), "`'{:.1f}'.format`", "debug.print"), (lambda x: [i for i in x], "`for`", "lax.fori_loop"),
    (lambda x: x.item(), "`x.item`", "the array itself"), (lambda x: x.tolist(), "`x.tolist`", "the array itself")]


@pytest.mark.parametrize("use, construct, remedy", USES, ids=range(len(USES)))
def test_conversion_error_names_construct_line_argument_and_remedy(use, construct, remedy):
    with pytest.raises(TypeError) as found:
        make_jaxpr(use)(1)
    text = str(found.value)
    place = rf"{re.escape(__file__)}:{use.__code__.co_firstlineno}"
    assert re.match(rf"{construct} at {re.escape(__file__)}:\d+ ", text), text
    assert re.search(rf"(It|and) depends on argument x of `\S+` at {place}, traced by make_jaxpr\. Use .*{remedy}", text), text
    assert text.endswith("or pass x as a static argument (static_argnums).") and "Trace" not in text


def test_line_is_that_of_the_conversion():
    with pytest.raises(errors.TracerBoolError) as found:
        jit(while_statement)(1)
    line = int(re.search(r"`while` at .*:(\d+) \(while_statement\)", str(found.value))[1])
    assert linecache.getline(__file__, line).strip() == "while x < 3:"


def test_line_is_the_users_if_another_library_converts():
    def scale(x):
        return lax.mul(x, statistics.NormalDist(x, 1).mean)

    with pytest.raises(errors.ConcretizationError, match=r"at .*test_conversion_errors.py:\d+ \(scale\) needs a Python float"):
        jit(scale)(1.0)


def test_static_argument_is_suggested_for_whole_scalars_only():
    for use, x in (lambda x: int(x["n"]), {"n": 1}), (lambda x: int(x[0]), np.arange(3)):
        with pytest.raises(errors.TracerIntegerError) as found:
            jit(use)(x)
        assert "static" not in str(found.value)


def test_static_argument_is_not_suggested_in_loop_bodies():
    with pytest.raises(errors.TracerIntegerError) as found:
        lax.fori_loop(0, 3, lambda i, c: c + int(i), 0)
    assert "static" not in str(found.value)


def test_source_that_cannot_be_read_leaves_the_line():
    variables = {}
    exec(compile("def f(x):\n    if x:\n        return 1", "removed.py", "exec"), variables)
    with pytest.raises(errors.TracerBoolError, match=r"`if`.* at removed.py:2 \(f\) needs a Python truth value.*lax.cond"):
        jit(variables["f"])(1)


def test_truth_of_traced_array_error_names_line_and_remedy():
    with pytest.raises(ValueError, match=r"`if` at .*ambiguous; got bool\[3\]. Use .any\(\) or .all\(\), and lax.cond"):
        jit(if_comparison)(np.zeros(3, np.float32))


def test_traced_static_argument_error_names_origin():
    inner = jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(errors.StaticArgumentError, match="argument 1 .'n'. is a traced"):
        jit(lambda k: inner(1.0, k))(3)


@pytest.mark.parametrize("use", [use for use, _, _ in USES] + [lambda x: np.frompyfunc(lambda v: v, 1, 1)(x)])
def test_lamina_numpy_is_not_recommended_where_it_is_not_installed(use, monkeypatch):
    monkeypatch.setattr(conversion_errors, "find_spec", lambda name: None)
    conversion_errors.library_name.cache_clear()
    try:
        with pytest.raises(TypeError) as found:
            make_jaxpr(use)(1)
    finally:
        conversion_errors.library_name.cache_clear()
    assert not re.search(r"lamina[._]numpy|jnp", str(found.value))
