"""Rematerialization without a backend: values, saved residuals and recomputed primitives."""
from __future__ import annotations

import functools

import numpy as np
import pytest
from lamina_autodiff import checkpoint, checkpoint_name, checkpoint_policies, grad, jvp, linearize
from lamina_ir import MissingRuleError, ShapeDtypeStruct, check, walk
from lamina_tracing import debug, io_callback, jit, lax, make_jaxpr


def body(x):
    y = checkpoint_name(lax.sin(x), "a")
    z = checkpoint_name(lax.cos(y), "b")
    return lax.sin(z)


def recompute_equation(policy):
    """Return the primitives of the recomputing equation and the number of its operands."""
    program = make_jaxpr(grad(checkpoint(body, policy=policy)))(np.float32(1))
    e = program.eqns[-1]
    assert e.primitive.name == "remat" and e.params["differentiated"]
    return {f.primitive.name for f in e.params["call_jaxpr"].eqns}, len(e.invars)


P = checkpoint_policies


@pytest.mark.parametrize(("policy", "gone", "given"), [
    (None, set(), 2), (P.nothing_saveable, set(), 2), (P.dots_saveable, set(), 2),
    (P.save_only_these_names("a"), {"name"}, 3), (P.save_only_these_names("a", "b"), {"name"}, 4),
    (P.save_any_names_but_these("a"), set(), 3),
    (P.save_from_both_policies(P.save_only_these_names("a"), P.save_only_these_names("b")), {"name"}, 4),
    (lambda prim, *avals, **params: prim.name == "cos", set(), 3)])
def test_policies_choose_saved_values(policy, gone, given):
    ops, n = recompute_equation(policy)
    assert n == given
    if n == 4:
        assert not gone & ops
    np.testing.assert_allclose(grad(checkpoint(body, policy=policy))(1.0), grad(body)(1.0), rtol=1e-6)


def test_values_in_all_modes():
    f = checkpoint(body)
    for t in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f)), lambda f: grad(grad(f)), lambda f: grad(grad(jit(f))),
              lambda f: lambda x: jvp(f, (x,), (1.0,))[1], lambda f: lambda x: linearize(f, x)[1](1.0)):
        np.testing.assert_allclose(t(f)(0.7), t(body)(0.7), rtol=1e-5)


def test_eager_reverse_mode_runs_function_twice_without_residuals():
    seen = []

    def f(x):
        seen.append(x)
        return lax.sin(x) if x > 0 else lax.cos(x)

    assert grad(checkpoint(f, concrete=True))(2.0) == grad(lax.sin)(2.0)
    assert len(seen) == 2
    with pytest.raises(TypeError, match="has no known number"):
        grad(checkpoint(f))(2.0)


def test_closed_over_values_are_differentiated():
    assert np.isclose(grad(lambda w: checkpoint(lambda x: lax.sin(lax.mul(w, x)))(2.0))(0.3), 2 * np.cos(0.6))
    with pytest.raises(TypeError, match="closes over a value that is being differentiated"):
        grad(lambda w: checkpoint(lambda x: w * x, concrete=True)(w))(2.0)


def test_static_arguments_and_bad_input():
    assert grad(checkpoint(lambda n, x: x ** n, static_argnums=(0,)), 1)(3, 2.0) == 12.0
    for nums, args in (((1, 2), ([3.0], 2, 0.5)), ((1, -2), ([3.0], 2, 0.5)), ((1,), ({"k": 3.0}, 2.0, 0.5))):
        f = checkpoint(lambda x, d, n, y: lax.sin(x) * d[0 if isinstance(d, list) else "k"] * y ** n, static_argnums=nums)
        assert np.isclose(grad(f)(1.0, *args), 3 * 0.25 * np.cos(1))
        assert np.isclose(jit(lambda x, f=f, args=args: grad(f)(x, *args))(1.0), 3 * 0.25 * np.cos(1))
    with pytest.raises(ValueError, match="checkpoint: static_argnums 3 is out of range"):
        checkpoint(body, static_argnums=3)
    with pytest.raises(TypeError, match="policy must be a function"):
        checkpoint(body, policy="dots")
    with pytest.raises(ValueError, match="offload_dst must be 'device', 'pinned_host' or 'unpinned_host'; got 'disk'"):
        P.offload_dot_with_no_batch_dims("device", "disk")
    with pytest.raises(ValueError, match="saved or offloaded, not both; got \\['a'\\]"):
        P.save_and_offload_only_these_names(names_which_can_be_saved=["a"], names_which_can_be_offloaded=["a"],
                                            offload_src="device", offload_dst="pinned_host")
    with pytest.raises(TypeError, match="names must be strings"):
        P.save_only_these_names(1)
    with pytest.raises(TypeError, match="name must be a string"):
        checkpoint_name(1.0, 2)


def test_program_size_is_linear_in_nesting_depth():
    def count(program):
        return sum(1 + sum(count(v) for v in e.params.values() if hasattr(v, "eqns")) for e in program.eqns)

    def nested(depth):
        f = lax.sin
        for _ in range(depth):
            f = checkpoint(lambda x, f=f: lax.sin(f(x)))
        return count(make_jaxpr(grad(f))(1.0))

    assert nested(16) < 5 * nested(8)


# --- policies apply in nested programs -----------------------------------------------------------------------------
W, X = np.full((8, 8), 0.1, np.float32), np.linspace(0, 1, 8, dtype=np.float32)


def dot(c, w):
    return checkpoint_name(lax.dot_general(c, w, (((0,), (0,)), ((), ()))), "dot")


def scanned(w, x):
    def step(c, _):
        return lax.sin(dot(c, w)), None
    return lax.reduce_sum(lax.scan(step, x, None, length=5)[0], (0,))


def bounded(w, x):
    out = lax.while_loop(lambda s: lax.lt(s[0], 4), lambda s: (lax.add(s[0], 1), lax.sin(dot(s[1], w))), (0, x), max_iters=6)
    return lax.reduce_sum(out[1], (0,))


def branched(w, x):
    first = lax.lt(lax.reduce_sum(x, (0,)), 100.0)
    return lax.reduce_sum(lax.cond(first, lambda c: lax.sin(dot(c, w)), lambda c: dot(lax.cos(c), w), x), (0,))


def called(w, x):
    return lax.reduce_sum(jit(lambda c: lax.sin(dot(c, w)))(x), (0,))


def invariant(w, x):
    def step(c, _):
        return lax.sin(lax.dot_general(c, lax.dot_general(w, w, (((1,), (0,)), ((), ()))), (((0,), (0,)), ((), ())))), None
    return lax.reduce_sum(lax.scan(step, x, None, length=5)[0], (0,))


def count_again(f, policy, op="dot_general"):
    """Return how often a primitive occurs in the gradient, and the shapes of the residuals."""
    program = make_jaxpr(grad(checkpoint(f, policy=policy)))(W, X)
    check(program)
    first = next(e for e in program.eqns if e.primitive.name == "remat")
    return sum(e.primitive.name == op for e in walk(program)), [v.aval.shape for v in first.outvars[1:]]


@pytest.mark.parametrize(("f", "all_again", "kept", "shapes"), [
    (scanned, 4, 3, [(5, 8)]), (bounded, 5, 3, [(6, 8)]), (branched, 5, 4, [(8,)]), (called, 3, 2, [(8,)]),
    (invariant, 8, 6, [(8, 8), (5, 8)])])
def test_policies_apply_inside_loops_branches_and_calls(f, all_again, kept, shapes):
    assert count_again(f, P.nothing_saveable) == (all_again, [])
    assert count_again(f, P.dots_saveable) == (kept, shapes)
    assert count_again(f, P.save_only_these_names("dot")) == ((all_again, []) if f is invariant else (kept, shapes))
    for policy in (P.nothing_saveable, P.dots_saveable, P.everything_saveable, P.save_only_these_names("dot")):
        g = checkpoint(f, policy=policy)
        np.testing.assert_allclose(grad(g)(W, X), grad(f)(W, X), rtol=1e-5)
        np.testing.assert_allclose(jit(grad(g))(W, X), grad(f)(W, X), rtol=1e-5)
        second = [grad(lambda x, g=g: lax.reduce_sum(grad(g, 1)(W, x), (0,)))(X) for g in (g, f)]
        np.testing.assert_allclose(*second, rtol=1e-4, atol=1e-6)


def test_policy_inside_unbounded_loop_saves_nothing():
    def f(x):
        return lax.while_loop(lambda c: lax.lt(c, 3.0), lambda c: checkpoint_name(lax.mul(c, 2.0), "a"), x)
    g = checkpoint(f, policy=P.save_only_these_names("a"))
    assert jvp(g, (1.5,), (1.0,))[1] == jvp(f, (1.5,), (1.0,))[1] == 2.0


OFFLOAD = P.offload_dot_with_no_batch_dims("device", "pinned_host")
SOME = P.save_and_offload_only_these_names(names_which_can_be_saved=["b"], names_which_can_be_offloaded=["dot"],
                                           offload_src="device", offload_dst="pinned_host")


@pytest.mark.parametrize("policy", [OFFLOAD, SOME, P.save_from_both_policies(P.nothing_saveable, OFFLOAD)])
def test_offloaded_values_move_to_host_and_back(policy):
    assert count_again(scanned, policy) == (3, [(5, 8)])
    program = make_jaxpr(grad(checkpoint(scanned, policy=policy)))(W, X)
    assert [e.params["memory_kind"] for e in walk(program) if e.primitive.name == "to_memory"] == ["pinned_host", "device"]
    np.testing.assert_allclose(grad(checkpoint(scanned, policy=policy))(W, X), grad(scanned)(W, X), rtol=1e-5)
    assert count_again(scanned, P.save_from_both_policies(OFFLOAD, P.dots_saveable), "to_memory")[0] == 0


def test_first_argument_may_be_static():
    class Scaled:
        by = 3.0

        @functools.partial(checkpoint, static_argnums=0)
        def __call__(self, x):
            return lax.mul(lax.sin(x), self.by)

    np.testing.assert_allclose(grad(Scaled().__call__)(2.0), 3 * np.cos(2.0), rtol=1e-6)


def test_python_scalars_returned_by_function_become_arrays():
    out = checkpoint(lambda x: (1, 2.0, x, np.float32(3)))(4.0)
    assert [type(x) for x in out] == [type(lax.full((), 1))] * 4
    assert [o.dtype.name for o in out] == ["int32", "float32", "float32", "float32"]
    assert [o.weak_type for o in out] == [True, True, True, False]


def test_checkpointed_function_receives_only_arrays():
    seen = []

    def f(x, n):
        seen.append((x.dtype, type(n)))
        return lax.mul(x, float(n))

    again = checkpoint(f, static_argnums=1)
    assert float(again(2.0, 3)) == 6 and float(grad(lambda x: lax.mul(again(x, 3), again(2.0, 3)))(1.0)) == 18
    assert all(kind is int for _, kind in seen) and len(seen) >= 3


NUMBER = ShapeDtypeStruct((), "float32")


def looped(f, **bound):
    return lambda x: lax.while_loop(lambda c: lax.lt(c[0], 2), lambda c: (c[0] + 1, f(c[1])), (0, x), **bound)[1]


@pytest.mark.parametrize("again, what", [
    (checkpoint, "the checkpointed function `.*next_one`"),
    (lambda f: checkpoint(lambda x: lax.scan(lambda c, _: (jit(f)(c), None), x, None, length=2)[0]), "the checkpointed"),
    (lambda f: looped(f, max_iters=3), "a while_loop"), (looped, "a while_loop")])
def test_io_callbacks_cannot_be_recomputed(again, what):
    count = iter(range(100))

    def next_one(x):  # a different number per call: recomputing would differentiate another function
        return lax.mul(x, io_callback(lambda: np.float32(next(count)), NUMBER))

    f = again(next_one)
    jvp(f, (np.float32(2),), (np.float32(1),))
    for call in (lambda: linearize(f, 2.0), lambda: make_jaxpr(lambda x: linearize(f, x)[1](x))(2.0)):
        with pytest.raises(MissingRuleError, match=f"derivative of {what}.*io_callback.*exactly once"):
            call()
    reported = again(lambda x: (debug.callback(lambda v: None, x), lax.sin(x))[1])
    np.testing.assert_allclose(linearize(reported, 2.0)[1](1.0), jvp(reported, (2.0,), (1.0,))[1], rtol=1e-6)
