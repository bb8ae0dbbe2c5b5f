"""Branches and loops equal Python's: on trees, with closures, eager and staged."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_tracing import disable_jit, jit, lax, make_jaxpr

XS = np.arange(4, dtype=np.float32)


@pytest.fixture(params=["at once", "jit", "without jit"])
def run(request):
    """Return a way to call a function of arrays."""
    def call(f, *args):
        if request.param == "jit":
            return jit(f)(*args)
        if request.param == "without jit":
            with disable_jit():
                return f(*args)
        return f(*args)
    return call


@pytest.mark.parametrize("pred", [True, False])
def test_cond_runs_one_branch(run, pred):
    out = run(lambda p, x: lax.cond(p, lambda v: {"y": lax.mul(v, 2.0)}, lambda v: {"y": lax.neg(v)}, x), pred, XS)
    np.testing.assert_array_equal(np.asarray(out["y"]), 2 * XS if pred else -XS)


def test_branches_may_close_over_values(run):
    f = lambda p, x, w: lax.cond(p, lambda: lax.mul(x, w), lambda: lax.add(x, w))
    assert [float(run(f, p, np.float32(2), np.float32(3))) for p in (True, False)] == [6, 5]


@pytest.mark.parametrize(("index", "wanted"), [(-3, 2), (-1, 2), (0, 2), (1, 4), (2, 8), (9, 8)])
def test_switch_clamps_its_index(run, index, wanted):
    branches = [lambda x: x, lambda x: lax.mul(x, 2.0), lambda x: lax.mul(x, 4.0)]
    assert float(run(lambda i, x: lax.switch(i, branches, x), np.int32(index), np.float32(2))) == wanted


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_equals_loop_with_stacked_results(run, reverse):
    def step(c, x):
        return {"s": lax.add(c["s"], x["a"]), "n": lax.add(c["n"], 1)}, (lax.mul(c["s"], x["b"]), c["n"])

    start = {"s": np.float32(1), "n": np.int32(0)}
    end, (products, counts) = run(lambda c, x: lax.scan(step, c, x, reverse=reverse), start, {"a": XS, "b": 2 * XS})
    s, want = 1.0, np.zeros(4)
    order = range(3, -1, -1) if reverse else range(4)
    for i in order:
        want[i], s = s * 2 * XS[i], s + XS[i]
    assert float(end["s"]) == s and int(end["n"]) == 4
    np.testing.assert_array_equal(np.asarray(products), want)
    np.testing.assert_array_equal(np.asarray(counts), [3, 2, 1, 0] if reverse else [0, 1, 2, 3])


def test_scan_with_length_without_inputs(run):
    end, nothing = run(lambda c: lax.scan(lambda c, _: (lax.mul(c, 2), None), c, None, length=5), np.int32(1))
    assert int(end) == 32 and nothing is None


@pytest.mark.parametrize("unroll", [1, 2, 3, 9])
def test_unroll_does_not_change_results(unroll):
    f = lambda x: lax.scan(lambda c, v: (lax.add(c, v), lax.mul(c, v)), np.float32(0), x, unroll=unroll)
    for g in (f, jit(f)):
        end, ys = g(XS)
        assert float(end) == 6 and np.asarray(ys).tolist() == [0, 0, 2, 9]


def test_while_loop_runs_until_condition_is_false(run):
    f = lambda limit, x: lax.while_loop(lambda s: lax.lt(s[0], limit), lambda s: (lax.mul(s[0], 2), lax.add(s[1], 1)), (x, 0))
    assert [int(v) for v in run(f, np.int32(10), np.int32(1))] == [16, 4]
    assert [int(v) for v in run(f, np.int32(0), np.int32(1))] == [1, 0]


def test_bounded_while_loop_stops_at_its_bound(run):
    f = lambda x: lax.while_loop(lambda c: lax.lt(c, 100), lambda c: lax.mul(c, 2), x, max_iters=3)
    assert int(run(f, np.int32(1))) == 8 and int(run(f, np.int32(80))) == 160


@pytest.mark.parametrize(("low", "high"), [(0, 5), (2, 4), (3, 1)])
def test_fori_loop(run, low, high):
    f = lambda a, b: lax.fori_loop(a, b, lambda i, s: lax.add(s, lax.mul(i, i)), np.int32(0))
    assert int(run(f, np.int32(low), np.int32(high))) == sum(i * i for i in range(low, high))
    assert int(run(lambda: f(low, high))) == sum(i * i for i in range(low, high))


def test_map_applies_function_to_each_element(run):
    a, b = run(lambda x: lax.map(lambda v: (lax.sin(v), lax.mul(v, 2.0)), x), XS)
    np.testing.assert_allclose(np.asarray(a), np.sin(XS), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(b), 2 * XS)


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_equals_cumulative_result(run, reverse):
    x = np.float32([3, 1, 4, 1, 5])
    got = run(lambda v: lax.associative_scan(lax.max, v, reverse=reverse), x)
    want = np.maximum.accumulate(x[::-1])[::-1] if reverse else np.maximum.accumulate(x)
    np.testing.assert_array_equal(np.asarray(got), want)


def test_nested_loops_and_branches(run):
    def f(n, x):
        def outer(i, s):
            return lax.cond(lax.lt(s, 50.0), lambda: lax.fori_loop(0, i, lambda j, t: lax.add(t, x), s), lambda: s)
        return lax.fori_loop(0, n, outer, x)

    s = 3.0
    for i in range(7):
        if s < 50:
            s += 3.0 * i
    assert float(run(f, np.int32(7), np.float32(3))) == s


@pytest.mark.parametrize(("call", "words"), [
    (lambda: lax.cond(np.ones(2), lambda: 1, lambda: 2), "scalar"),
    (lambda: lax.cond(True, lambda x: x, lambda x: (x,), XS), "true_fun|differ"),
    (lambda: lax.cond(True, lambda: 1, lambda: 1.0), "int32"),
    (lambda: lax.switch(0, []), "one|empty"),
    (lambda: lax.switch(0.5, [lambda: 1, lambda: 2]), "integer"),
    (lambda: lax.scan(lambda c, x: c, np.float32(1), XS), "pair"),
    (lambda: lax.scan(lambda c, x: (c, x), np.float32(1)), "length"),
    (lambda: lax.scan(lambda c, x: (c, x), 1.0, (XS, XS[:2])), "xs"),
    (lambda: lax.scan(lambda c, x: ((c, c), x), np.float32(1), XS), "carry"),
    (lambda: lax.while_loop(lambda c: c, lambda c: c, np.float32(1)), "boolean"),
    (lambda: lax.while_loop(lambda c: True, lambda c: c[:1], XS), "carry"),
    (lambda: lax.fori_loop(0, 2.5, lambda i, c: c, 1), "integer")], ids=range(12))
def test_wrong_arguments_are_rejected(call, words):
    with pytest.raises((TypeError, ValueError), match=f"(?s){words}"):
        call()


@pytest.mark.cost
def test_program_size_does_not_depend_on_loop_length():
    f = lambda x: lax.scan(lambda c, v: (lax.add(c, v), c), np.float32(0), x)
    short, long = (len(str(make_jaxpr(f)(np.zeros(n, np.float32)))) for n in (10, 10_000))
    assert long - short <= 20


@pytest.mark.cost
def test_loop_body_is_traced_once():
    count = []

    def body(c, x):
        count.append(1)
        return lax.add(c, x), None

    jit(functools.partial(lax.scan, body))(np.float32(0), np.zeros(1000, np.float32))
    assert len(count) <= 3
