"""Axes of an `xmap` that run in turns: programs that `lower_xmaps` writes, on NumPy; sums of products as one product."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_autodiff import grad, vjp
from lamina_ir import check, evaluate, prims, walk
from lamina_tracing import lax, make_jaxpr

from lamina_parallel import SerialLoop, xmap
from lamina_parallel._serial_axis.contract_sums import contract_sums
from lamina_parallel.extend import lower_xmaps

X = np.arange(32, dtype=np.float32).reshape(8, 4) / 8


def looped(f, turns=4, outs=("b", ...)):
    return xmap(f, {0: "b"}, list(outs), axis_resources={"b": SerialLoop(turns)})


def scans(f, *args):
    """The scans of the program, which means what it does as it is: the carried, the sliced and the stacked of each."""
    program = make_jaxpr(f)(*args)
    written = lower_xmaps(program)
    check(written)
    for a, b in zip(evaluate(written, *args), evaluate(program, *args)):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    found = [e for e in walk(written) if e.primitive is prims.scan_p]
    return [(e.params["num_carry"], len(e.invars) - e.params["num_consts"] - e.params["num_carry"],
             len(e.outvars) - e.params["num_carry"]) for e in found]


def test_no_collective_is_one_phase():
    assert scans(looped(lambda x: lax.sin(x) * lax.cos(x)), X) == [(0, 1, 1)]


def test_a_sum_is_carried_and_what_is_read_again_is_kept():
    assert scans(looped(lambda x: lax.psum(lax.sin(x), "b"), outs=(...,)), X) == [(1, 1, 0)]
    assert scans(looped(lambda x: lax.cos(x) * lax.psum(lax.sin(x), "b")), X) == [(1, 1, 0), (0, 1, 1)]
    assert scans(looped(lambda x: (lambda s: s * lax.psum(s, "b"))(lax.cumsum(x))), X) == [(1, 1, 1), (0, 1, 1)]


def test_what_is_cheap_is_made_again():
    assert scans(looped(lambda x: (lambda s: s * lax.psum(s, "b"))(lax.sin(x))), X) == [(1, 1, 0), (0, 1, 1)]
    # Of what is kept anyway too, but not by ever longer chains.
    def f(x):
        s = lax.cumsum(x)
        e = lax.exp(s - lax.pmax(s, "b"))
        return e / lax.psum(e, "b")

    assert scans(looped(f), X) == [(1, 1, 1), (1, 1, 0), (0, 1, 1)]

    def g(x):
        for _ in range(6):
            for _ in range(10):
                x = lax.sin(x)
            x = x / lax.psum(x, "b")
        return x

    assert sum([n for _, _, n in scans(looped(g), X)]) > 3


def test_an_equation_waits_for_the_phase_that_reads_it():
    def f(x):
        y = lax.mul(lax.sin(x), lax.cos(x))  # two values that both come of x: nothing but x is kept for it
        return y * lax.psum(lax.exp(x), "b")

    assert scans(looped(f), X) == [(1, 1, 0), (0, 1, 1)]


def test_extremes_of_arguments_need_no_phase():
    assert scans(looped(lambda x: x - lax.pmax(x, "b")), X) == [(0, 1, 1)]


def test_what_does_not_differ_is_computed_once():
    program = lower_xmaps(make_jaxpr(looped(lambda x: x * lax.exp(lax.sin(W))))(X))
    scan, = [e for e in walk(program) if e.primitive is prims.scan_p]
    assert not any(e.primitive is prims.exp_p for e in walk(scan.params["jaxpr"]))


W = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_a_sum_of_products_of_each_position_is_one_product(order):
    def f(a, b):
        c = lax.dot_general(a, b, (((), ()), ((0,), (0,))))
        return lax.reduce_sum(lax.transpose(c, order), (order.index(0),))

    a, b = X, np.arange(24, dtype=np.float32).reshape(8, 3)
    program = make_jaxpr(f)(a, b)
    found = contract_sums(program)
    check(found)
    assert not any(e.primitive is prims.reduce_sum_p for e in found.eqns)
    np.testing.assert_allclose(evaluate(found, a, b), evaluate(program, a, b), rtol=1e-6)


def test_products_that_are_read_otherwise_stay():
    def f(a, b):
        c = lax.dot_general(a, b, (((), ()), ((0,), (0,))))
        return lax.reduce_sum(c, (0,)), c

    program = make_jaxpr(f)(X, X)
    assert contract_sums(program) is program
    program = make_jaxpr(lambda a, b: lax.reduce_sum(lax.dot_general(a, b, (((), ()), ((0,), (0,)))), (0, 1)))(X, X)
    assert contract_sums(program) is program


def test_the_gradient_in_what_positions_share_is_one_product():
    f = xmap(lambda x, w: lax.psum(lax.sin(lax.dot(x, w)).sum(), "b"), ({0: "b"}, {}), {})
    w = np.ones((4, 3), np.float32)
    program = lower_xmaps(make_jaxpr(grad(f, 1))(X, w))
    assert not any(v.aval.shape == (8, 4, 3) for e in walk(program) for v in e.outvars)


def stacked(f):
    """How many arrays the loops of a gradient stack, result and gradient among them."""
    def both(x, ct):
        y, back = vjp(f, x)
        return y, back(ct)

    program = make_jaxpr(both)(X, np.ones(f(X).shape, np.float32))
    written = lower_xmaps(program)
    check(written)
    for a, b in zip(evaluate(written, X, X + 1), evaluate(program, X, X + 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return sum([len(e.outvars) - e.params["num_carry"] for e in walk(written) if e.primitive is prims.scan_p])


def test_a_derivative_makes_cheap_factors_again():
    assert stacked(looped(lambda x: x / lax.pmax(x, "b"))) == 2
    assert stacked(looped(lambda x: x / lax.pmax(lax.abs(x), "b"))) == 2
    # One that is rounded is compared with its extreme: it is that of the first time.
    assert stacked(looped(lambda x: x / lax.pmax(lax.sin(x) * x + x, "b"))) == 3


def test_what_a_checkpoint_hands_on_is_not_kept_once_more():
    def log_softmax(x):
        z = x - lax.pmax(lax.stop_gradient(x), "b")
        return z - lax.log(lax.psum(lax.exp(z), "b"))

    assert stacked(looped(log_softmax)) == 2


def test_one_place_in_each_turn_is_no_axis():
    scan, = [e for e in walk(lower_xmaps(make_jaxpr(looped(lambda x: lax.sin(x), turns=8))(X))) if e.primitive is prims.scan_p]
    assert [v.aval.shape for v in scan.invars] == [(8, 4)]
