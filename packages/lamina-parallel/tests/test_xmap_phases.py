"""Serial axes of `xmap`: programs that `lower_xmaps` writes, on NumPy; sums of products as one dot."""
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


def looped(f, length=4, outs=("b", ...)):
    return xmap(f, {0: "b"}, list(outs), axis_resources={"b": SerialLoop(length)})


def check_scans(f, *args):
    """Check the rewritten program; return the numbers of carries, scanned inputs and stacked results of each scan."""
    program = make_jaxpr(f)(*args)
    written = lower_xmaps(program)
    check(written)
    for a, b in zip(evaluate(written, *args), evaluate(program, *args)):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    found = [e for e in walk(written) if e.primitive is prims.scan_p]
    return [(e.params["num_carry"], len(e.invars) - e.params["num_consts"] - e.params["num_carry"],
             len(e.outvars) - e.params["num_carry"]) for e in found]


def test_program_without_collective_is_one_phase():
    assert check_scans(looped(lambda x: lax.sin(x) * lax.cos(x)), X) == [(0, 1, 1)]


def test_sum_is_a_carry_and_values_for_the_next_phase_are_stacked():
    assert check_scans(looped(lambda x: lax.psum(lax.sin(x), "b"), outs=(...,)), X) == [(1, 1, 0)]
    assert check_scans(looped(lambda x: lax.cos(x) * lax.psum(lax.sin(x), "b")), X) == [(1, 1, 0), (0, 1, 1)]
    assert check_scans(looped(lambda x: (lambda s: s * lax.psum(s, "b"))(lax.cumsum(x))), X) == [(1, 1, 1), (0, 1, 1)]


def test_cheap_values_are_recomputed_in_the_next_phase():
    assert check_scans(looped(lambda x: (lambda s: s * lax.psum(s, "b"))(lax.sin(x))), X) == [(1, 1, 0), (0, 1, 1)]
    # Cheap functions of a stacked value too, but not in ever longer chains.
    def f(x):
        s = lax.cumsum(x)
        e = lax.exp(s - lax.pmax(s, "b"))
        return e / lax.psum(e, "b")

    assert check_scans(looped(f), X) == [(1, 1, 1), (1, 1, 0), (0, 1, 1)]

    def g(x):
        for _ in range(6):
            for _ in range(10):
                x = lax.sin(x)
            x = x / lax.psum(x, "b")
        return x

    assert sum([n for _, _, n in check_scans(looped(g), X)]) > 3


def test_equation_is_placed_in_the_phase_that_reads_it():
    def f(x):
        y = lax.mul(lax.sin(x), lax.cos(x))  # both factors depend on x only, so only x is stored
        return y * lax.psum(lax.exp(x), "b")

    assert check_scans(looped(f), X) == [(1, 1, 0), (0, 1, 1)]


def test_pmax_of_an_argument_needs_no_phase():
    assert check_scans(looped(lambda x: x - lax.pmax(x, "b")), X) == [(0, 1, 1)]


def test_replicated_values_are_computed_outside_the_loop():
    program = lower_xmaps(make_jaxpr(looped(lambda x: x * lax.exp(lax.sin(W))))(X))
    scan, = [e for e in walk(program) if e.primitive is prims.scan_p]
    assert not any(e.primitive is prims.exp_p for e in walk(scan.params["jaxpr"]))


W = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_sum_of_batched_products_is_one_dot(order):
    def f(a, b):
        c = lax.dot_general(a, b, (((), ()), ((0,), (0,))))
        return lax.reduce_sum(lax.transpose(c, order), (order.index(0),))

    a, b = X, np.arange(24, dtype=np.float32).reshape(8, 3)
    program = make_jaxpr(f)(a, b)
    found = contract_sums(program)
    check(found)
    assert not any(e.primitive is prims.reduce_sum_p for e in found.eqns)
    np.testing.assert_allclose(evaluate(found, a, b), evaluate(program, a, b), rtol=1e-6)


def test_products_with_another_reader_are_not_contracted():
    def f(a, b):
        c = lax.dot_general(a, b, (((), ()), ((0,), (0,))))
        return lax.reduce_sum(c, (0,)), c

    program = make_jaxpr(f)(X, X)
    assert contract_sums(program) is program
    program = make_jaxpr(lambda a, b: lax.reduce_sum(lax.dot_general(a, b, (((), ()), ((0,), (0,)))), (0, 1)))(X, X)
    assert contract_sums(program) is program


def test_gradient_of_a_shared_operand_is_one_dot():
    f = xmap(lambda x, w: lax.psum(lax.sin(lax.dot(x, w)).sum(), "b"), ({0: "b"}, {}), {})
    w = np.ones((4, 3), np.float32)
    program = lower_xmaps(make_jaxpr(grad(f, 1))(X, w))
    assert not any(v.aval.shape == (8, 4, 3) for e in walk(program) for v in e.outvars)


def count_stacked(f):
    """Return how many arrays the loops of a gradient stack, including result and gradient."""
    def both(x, ct):
        y, back = vjp(f, x)
        return y, back(ct)

    program = make_jaxpr(both)(X, np.ones(f(X).shape, np.float32))
    written = lower_xmaps(program)
    check(written)
    for a, b in zip(evaluate(written, X, X + 1), evaluate(program, X, X + 1), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    return sum([len(e.outvars) - e.params["num_carry"] for e in walk(written) if e.primitive is prims.scan_p])


def test_derivative_recomputes_cheap_factors():
    assert count_stacked(looped(lambda x: x / lax.pmax(x, "b"))) == 2
    assert count_stacked(looped(lambda x: x / lax.pmax(lax.abs(x), "b"))) == 2
    # A rounded value is compared with its maximum, so the stored one is used.
    assert count_stacked(looped(lambda x: x / lax.pmax(lax.sin(x) * x + x, "b"))) == 3


def test_output_of_a_checkpoint_is_not_stored_twice():
    def log_softmax(x):
        z = x - lax.pmax(lax.stop_gradient(x), "b")
        return z - lax.log(lax.psum(lax.exp(z), "b"))

    assert count_stacked(looped(log_softmax)) == 2


def test_one_member_per_iteration_adds_no_axis():
    scan, = [e for e in walk(lower_xmaps(make_jaxpr(looped(lambda x: lax.sin(x), length=8))(X))) if e.primitive is prims.scan_p]
    assert [v.aval.shape for v in scan.invars] == [(8, 4)]
