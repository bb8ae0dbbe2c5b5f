"""Batching of a third-party primitive with a region."""
import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.extend import BatchAxis
from lamina_batching.higher_order import batch_higher_order
from lamina_ir.testing.structured import repeat_p
from lamina_tracing import lax
from lamina_tracing.extend import bind, stage, typeof

A, W = np.arange(12, dtype=np.float32).reshape(4, 3) / 10, np.linspace(0.5, 1, 3, dtype=np.float32)


def repeat(fun, times, carry, *consts):
    """Apply `carry = fun(*consts, *carry)` `times` times."""
    body, outer = stage(lambda *xs: list(fun(*xs)), [typeof(x) for x in (*consts, *carry)])
    return bind(repeat_p, *outer, *consts, *carry, body=body, num_consts=len(outer) + len(consts), times=times)


def f(w, a, b):
    return repeat(lambda w, a, b, c: (lax.mul(lax.sin(a), w), lax.add(a, b), lax.add(c, 1.0)), 3, (a, b, w), w)


@pytest.mark.parametrize("axes", [(None, 0, None), (0, None, None), (None, None, 0), (0, 0, 0)])
def test_vmap_of_third_party_loop_equals_python_loop(axes):
    args = [A if axis == 0 else W for axis in axes]
    got = vmap(f, in_axes=axes)(*args)
    rows = [f(*[x[i] if axis == 0 else x for x, axis in zip(args, axes)]) for i in range(4)]
    for k, g in enumerate(got):
        np.testing.assert_allclose(np.asarray(g), np.stack([np.asarray(r[k]) for r in rows]), rtol=1e-6)


def test_only_dependent_carries_are_batched():
    seen = []
    body = stage(lambda *xs: list(f(*xs)), [typeof(W)] * 3)[0].eqns[0]
    outs, dims = batch_higher_order(repeat_p, BatchAxis(4), [W, W, A, W], [None, None, 0, None], body.params)
    seen += [np.shape(o) for o in outs]
    assert dims == [None, 0, None] and seen == [(3,), (4, 3), (3,)]


def test_third_party_loop_nested_with_builtin_control_flow():
    def g(w, a):
        a = lax.cond(lax.gt(lax.reduce_sum(a, (0,)), 1.0), lambda: f(w, a, w)[1], lambda: a)
        def turn(n, a):
            return lax.add(n, 1), lax.while_loop(lambda c: lax.lt(lax.reduce_max(c, (0,)), 3.0), lambda c: lax.add(c, w), a)
        return repeat(turn, 2, (0, a))[1]
    np.testing.assert_allclose(np.asarray(vmap(g, in_axes=(None, 0))(W, A)),
                               np.stack([np.asarray(g(W, a)) for a in A]), rtol=1e-6)
