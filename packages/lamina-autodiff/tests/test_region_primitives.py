"""Derivatives of a third-party primitive with a region: alone, around built-in control flow, and inside it."""
import numpy as np
import pytest
from lamina_autodiff import checkpoint, checkpoint_name, checkpoint_policies, grad, jacfwd, jacrev, jvp, linear_transpose
from lamina_autodiff.extend import jvp_program, linearize_program, transpose_program
from lamina_autodiff.testing import check_grads
from lamina_ir import walk
from lamina_ir.testing.structured import repeat_p
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import bind, eval_jaxpr, stage, typeof

A, B = np.linspace(-1, 1, 3, dtype=np.float32), np.linspace(0.5, 1, 3, dtype=np.float32)


def repeat(fun, times, carry, *consts):
    """Apply `carry = fun(*consts, *carry)` `times` times."""
    body, outer = stage(lambda *xs: list(fun(*xs)), [typeof(x) for x in (*consts, *carry)])
    return bind(repeat_p, *outer, *consts, *carry, body=body, num_consts=len(outer) + len(consts), times=times)


def step(w, a, b):
    return lax.mul(lax.sin(a), w), lax.add(b, lax.mul(a, a))


def by_hand(w, a, b, times=3):
    for _ in range(times):
        a, b = step(w, a, b)
    return lax.add(a, b)


def by_repeat(w, a, b, times=3):
    return lax.add(*repeat(step, times, (a, b), w))


def total(f):
    return lambda *xs: lax.reduce_sum(f(*xs), (0,))


def close(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("argnums", [0, 1, (0, 1, 2)])
def test_gradients_of_third_party_loop(argnums):
    got, want = (grad(total(f), argnums)(A, B, A) for f in (by_repeat, by_hand))
    for g, w in zip(np.atleast_2d(got), np.atleast_2d(want)):
        close(g, w)
    close(jvp(by_repeat, (A, B, A), (B, A, B))[1], jvp(by_hand, (A, B, A), (B, A, B))[1])
    check_grads(by_repeat, (A, B, A), order=2)


def test_third_party_loop_staged_and_to_second_order():
    close(jit(grad(total(by_repeat)))(A, B, A), grad(total(by_hand))(A, B, A))
    close(jacfwd(jacrev(total(by_repeat)))(A, B, A), jacfwd(jacrev(total(by_hand)))(A, B, A))


def in_scan(f):
    return lambda w, a, b: lax.scan(lambda c, x: (f(w, c, x), lax.mul(c, x)), a, lax.broadcast_in_dim(b, (2, 3), (1,)))[0]


def in_cond(f):
    return lambda w, a, b: lax.cond(lax.gt(lax.reduce_sum(a, (0,)), 0.0), lambda: f(w, a, b), lambda: f(b, w, a))


def in_while(f):
    return lambda w, a, b: lax.while_loop(lambda c: lax.lt(c[0], 2), lambda c: (lax.add(c[0], 1), f(w, c[1], b)), (0, a),
                                          max_iters=3)[1]


def in_repeat(f):
    return lambda w, a, b: repeat(lambda w, b, a: (f(w, a, b),), 2, (a,), w, b)[0]


@pytest.mark.parametrize("around", [in_scan, in_cond, in_while, in_repeat])
@pytest.mark.parametrize("inside", [lambda f: f, in_scan, in_cond, in_while])
def test_third_party_loop_nested_with_builtin_control_flow(around, inside):
    by_op = around(lambda w, a, b: repeat(lambda w, b, a: (inside(lambda *xs: by_hand(*xs, 1))(w, a, b),), 2, (a,), w, b)[0])
    plain = around(lambda w, a, b: inside(lambda *xs: by_hand(*xs, 1))(w, inside(lambda *xs: by_hand(*xs, 1))(w, a, b), b))
    for i in range(3):
        close(grad(total(by_op), i)(A, B, A), grad(total(plain), i)(A, B, A))
    close(jit(grad(total(by_op)))(A, B, A), grad(total(plain))(A, B, A))


def test_loop_with_linear_body_is_linear():
    def f(x):
        return repeat(lambda w, a: (lax.add(lax.mul(a, 2.0), lax.mul(w, w)),), 3, (x,), lax.mul(A, 0.0))[0]
    close(linear_transpose(f, A)(A)[0], 8 * A)
    with pytest.raises(TypeError, match="not linear: sin"):
        linear_transpose(lambda x: repeat(lambda a: (lax.sin(a),), 3, (x,))[0], A)(A)
    with pytest.raises(TypeError, match="repeat.* part 1 of its carry, to which the arguments are added"):
        linear_transpose(lambda x: repeat(lambda a, b: (a, lax.add(a, b)), 3, (x, A))[1], A)(A)


def test_nonlinear_carries_are_computed_before_linear_ones():
    def f(x):
        n, y = repeat(lambda a, b: (lax.add(a, 1.0), lax.mul(a, b)), 3, (B, x))
        return y
    close(linear_transpose(f, A)(A)[0], A * B * (B + 1) * (B + 2))


@pytest.mark.parametrize("policy, again", [(None, 3), (checkpoint_policies.save_only_these_names("s"), 2)])
def test_checkpoint_policy_applies_inside_third_party_loop(policy, again):
    def f(x):
        body = lambda a: (lax.mul(checkpoint_name(lax.sin(a), "s"), a),)  # noqa: E731
        return lax.reduce_sum(repeat(body, 3, (x,))[0], (0,))
    close(grad(checkpoint(f, policy=policy))(A), grad(f)(A))
    names = [e.primitive.name for e in walk(make_jaxpr(grad(checkpoint(f, policy=policy)))(A))]
    assert names.count("sin") == again - 1


def test_result_used_as_residual_is_stored_once():
    def step(c, _):
        y = lax.exp(c)
        return y, y
    program = make_jaxpr(grad(lambda x: lax.reduce_sum(lax.scan(step, x, None, length=2)[1], (0, 1))))(A)
    first = next(e for e in program.eqns if e.primitive.name == "scan")
    assert len(first.outvars) == 2  # the last carry, and the results, each of which is its own derivative


def nested(leaf, depth):
    """Return a program of `depth` levels, each of which calls the next one twice."""
    closed = stage(lambda x: [leaf(x)], [typeof(A)])[0]
    for _ in range(depth):
        call = dict(body=closed, num_consts=0, times=1)
        closed = stage(lambda x: [bind(repeat_p, bind(repeat_p, x, **call)[0], **call)[0]], [typeof(A)])[0]  # noqa: B023
    return closed


def test_work_grows_with_number_of_programs_not_with_sharing():
    on = (True,)
    for depth in (2, 20):  # 2 ** 20 uses of 20 programs
        assert jvp_program(nested(lax.sin, depth), on).active_out == on
        linear = nested(lambda x: lax.mul(x, 2.0), depth)
        assert linearize_program(linear, on).active_out == transpose_program(linear, on, on).active_out == on
        back = make_jaxpr(lambda x: linear_transpose(lambda x: eval_jaxpr(linear, [x])[0], A)(x))(A)  # noqa: B023
        assert len(back.eqns) < 5
        assert len(linearize_program(nested(lax.sin, depth), on).known.out_avals) < 600  # one residual per use: 2 ** 20


def test_excessive_residuals_are_recomputed():
    closed = nested(lambda x: lax.mul(lax.sin(x), x), 9)

    def f(x):
        return eval_jaxpr(closed, [x])[0]

    def by_hand(x):
        derivative = np.ones_like(x)
        for _ in range(2 ** 9):
            x, derivative = np.sin(x) * x, derivative * (np.cos(x) * x + np.sin(x))
        return derivative

    x = np.linspace(1.5, 2.5, 3, dtype=np.float32)
    assert "remat" in {e.primitive.name for e in walk(linearize_program(closed, (True,)).known)}
    close(grad(total(f))(x), by_hand(x))
    close(jvp(f, (x,), (x,))[1], x * by_hand(x))
    # A function that is called very often is different: its residuals are stored.
    body = stage(lambda x: [lax.mul(lax.sin(x), lax.cos(x))], [typeof(A)])[0]
    call = dict(body=body, num_consts=0, times=1)

    def often(x):
        for _ in range(200):
            x = bind(repeat_p, x, **call)[0]
        return [x]

    two = linearize_program(stage(often, [typeof(A)])[0], (True,))
    assert len(two.known.out_avals) > 400 and "remat" not in {e.primitive.name for e in walk(two.known)}
