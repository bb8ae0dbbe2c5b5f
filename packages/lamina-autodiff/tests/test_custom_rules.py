"""Custom derivative rules without a backend: results, arguments of the rules, and error messages."""
from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from lamina_autodiff import (
    SymbolicZero,
    checkpoint,
    closure_convert,
    custom_gradient,
    custom_jvp,
    custom_vjp,
    grad,
    jacfwd,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
)
from lamina_autodiff.testing import check_grads, check_jvp, check_vjp
from lamina_ir import MissingRuleError, Primitive
from lamina_tracing import checking_leaks, jit, lax, make_jaxpr
from lamina_tracing.extend import bind


def close(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def doubled_jvp(fun=lambda x: x * 2.0):
    f = custom_jvp(fun)
    f.defjvp(lambda p, t: (f(*p), t[0] * 7.0))
    return f


def with_rule(jvp=None, fwd=None, bwd=None):
    if jvp is not None:
        @custom_jvp
        def f(x):
            return x * 2.0
        f.defjvp(jvp)
        return f

    @custom_vjp
    def g(x, y):
        return x * y["a"]
    g.defvjp(fwd or (lambda x, y: (x * y["a"], (x, y["a"]))), bwd or (lambda r, ct: (ct * r[1], {"a": ct * r[0]})))
    return g


def test_rules_are_used_eager_staged_and_at_second_order():
    f = doubled_jvp()
    for g in (f, jit(f)):
        close([g(3.0), grad(g)(3.0), jvp(g, (3.0,), (2.0,))[1], linearize(g, 3.0)[1](1.0)], [6.0, 7.0, 14.0, 7.0])
        assert grad(grad(g))(3.0) == 0.0


def test_function_gets_raw_arguments_without_differentiation():
    seen = []

    @custom_jvp
    def f(x):
        seen.append(type(x))
        return x * 2.0

    f.defjvp(lambda p, t: (f(*p), t[0]))
    f(3.0)
    assert seen == [float]


def test_python_control_flow_on_known_values_in_rules():
    @custom_jvp
    def f(x):
        return x * 2.0 if x > 0 else x

    f.defjvp(lambda p, t: (f(*p), t[0] * (5.0 if p[0] > 0 else 6.0)))
    assert grad(f)(1.0) == 5.0 and grad(f)(-1.0) == 6.0


def test_keywords_defaults_and_nondiff_argnums():
    @partial(custom_jvp, nondiff_argnums=(0,))
    def apply(f, x, scale=3.0):
        return f(x) * scale

    apply.defjvp(lambda f, p, t: (f(p[0]) * p[1], t[0] * 10.0))
    for call in (lambda x: apply(lax.sin, x), lambda x: apply(x=x, f=lax.sin), lambda x: apply(lax.sin, x, scale=4.0)):
        assert grad(call)(0.5) == 10.0 and grad(jit(call))(0.5) == 10.0

    @partial(custom_vjp, nondiff_argnums=(1,))
    def power(x, n):
        return x ** n

    power.defvjp(lambda x, n: (x ** n, x), lambda n, x, ct: (ct * n,))
    assert grad(power)(2.0, 3) == 3.0 and grad(jit(lambda x: power(x, n=3)))(2.0) == 3.0
    with pytest.raises(TypeError, match="argument 1 is in nondiff_argnums but holds a traced value"):
        grad(lambda x: power(x, x))(2.0)


def test_keyword_only_arguments_are_rejected():
    @custom_vjp
    def f(x, *, scale=2.0):
        return x * scale

    f.defvjp(lambda x: (x, None), lambda r, ct: (ct,))
    with pytest.raises(TypeError, match="`scale` can only be given by keyword"):
        grad(f)(1.0)


def test_symbolic_zeros():
    seen = []

    @custom_jvp
    def f(x, y):
        return x * y

    def rule(p, t):
        seen.append([type(s) is SymbolicZero for s in t])
        return p[0] * p[1], t[0] * p[1]

    f.defjvp(rule, symbolic_zeros=True)
    assert grad(f)(2.0, 3.0) == 3.0 and seen == [[False, True]]

    @custom_vjp
    def g(x, y):
        return x * y, y

    def fwd(x, y):
        seen.append([x.perturbed, y.perturbed])
        return (x.value * y.value, y.value), y.value

    def bwd(y, cts):
        seen.append([type(c) is SymbolicZero for c in cts])
        return cts[0] * y, None

    g.defvjp(fwd, bwd, symbolic_zeros=True)
    assert grad(lambda x, y: g(x, y)[0])(2.0, 3.0) == 3.0 and seen[1:] == [[True, False], [False, True]]


def test_integers_have_no_derivative():
    @custom_vjp
    def f(n, x):
        return n * x

    f.defvjp(lambda n, x: (n * x, n), lambda n, ct: (None, n * ct))
    assert grad(f, 1)(3, 2.0) == 3.0 and grad(jit(f), 1)(3, 2.0) == 3.0
    f.defvjp(lambda n, x: (n * x, n), lambda n, ct: (1.0, n * ct))
    with pytest.raises(TypeError, match="argument 0 that must be zeros of dtype float0"):
        grad(f, 1)(3, 2.0)


def test_custom_vjp_supports_forward_mode_and_higher_orders():
    @custom_vjp
    def f(x):
        return lax.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * lax.cos(x),))
    for g in (f, jit(f)):
        close(jvp(g, (0.3,), (2.0,))[1], 2 * np.cos(0.3))
        close(jacfwd(jacfwd(g))(0.3), -np.sin(0.3))
        close(grad(grad(grad(g)))(0.3), -np.cos(0.3))
        close(jacfwd(grad(g))(0.3), -np.sin(0.3))
        close(grad(lambda x: jvp(g, (x,), (1.0,))[1])(0.3), -np.sin(0.3))
        push = linearize(g, 0.3)[1]
        close([push(1.0), jit(push)(2.0)], [np.cos(0.3), 2 * np.cos(0.3)])


def test_nonlinear_custom_vjp_works_only_in_reverse_mode():
    @custom_vjp
    def clip(x):
        return x

    clip.defvjp(lambda x: (x, None), lambda _, ct: (lax.clamp(-1.0, ct, 1.0),))
    for g in (clip, jit(clip)):
        assert grad(lambda x: g(x) * 5.0)(2.0) == 1.0
        with pytest.raises(TypeError, match="must be linear in the cotangents"):
            jvp(g, (2.0,), (1.0,))


def test_rules_may_close_over_traced_values():
    def outer(x, w, make):
        return make(w)(x)

    def by_jvp(w):
        f = custom_jvp(lambda x: x * w)
        f.defjvp(lambda p, t: (p[0] * w, t[0] * w * 10.0))
        return f

    def by_vjp(w):
        f = custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (x * w, None), lambda _, ct: (ct * w * 10.0,))
        return f

    for make in (by_jvp, by_vjp):
        def f(x, w, make=make):
            return outer(x, w, make)
        for g in (grad(f), jit(grad(f)), grad(jit(f)), jit(grad(jit(f)))):
            assert g(2.0, 3.0) == 30.0
        for g in (grad(lambda x, f=f: f(x, x)), grad(jit(lambda x, f=f: f(x, x)))):
            with pytest.raises(TypeError, match="closes over a value that is being differentiated"):
                g(2.0)


def test_closure_convert():
    def area(r):
        converted, values = closure_convert(lambda pi: pi * r * r, 3.0)
        assert len(values) == 1
        return converted(3.0, *values)

    assert grad(area)(2.0) == 12.0 and jit(grad(area))(2.0) == 12.0
    converted, values = closure_convert(lambda x: {"y": x + np.ones(2, np.float32)}, np.zeros(2, np.float32))
    close(converted(np.zeros(2, np.float32), *values)["y"], [1.0, 1.0])
    with pytest.raises(TypeError, match=r"made for float32\[2\].*got float32\[3\]"):
        converted(np.zeros(3, np.float32), *values)


def test_custom_gradient():
    square = custom_gradient(lambda x: (x * x, lambda ct: ct * x))
    for g in (square, jit(square)):
        assert g(3.0) == 9.0 and grad(g)(3.0) == 3.0 and grad(grad(g))(3.0) == 1.0 and jvp(g, (3.0,), (1.0,))[1] == 3.0
    product = custom_gradient(lambda x, y: (x * y, lambda ct: (ct * y, ct)))
    assert [float(v) for v in grad(product, (0, 1))(3.0, 4.0)] == [4.0, 1.0]


@pytest.mark.parametrize(("rule", "words"), [
    (lambda p, t: p[0], "must return a pair"),
    (lambda p, t: (p[0], (t[0], t[0])), "same structure"),
    (lambda p, t: (p[0], np.ones(3, np.float32)),
     r"tangent of output that must have shape \[\], float32\[\]; got float32\[3\]"),
    (lambda p, t: (p[0], lax.convert_element_type(t[0], np.float16)),
     r"must have dtype float32, float32\[\]; got float16\[\]"),
    (lambda p, t: (p[0], "t"), "must be an array float32.*got str")])
def test_wrong_jvp_rule_errors_name_function_and_rule(rule, words):
    with pytest.raises(TypeError, match=f"custom_jvp of `f`: its rule `<lambda>` .*{words}"):
        grad(with_rule(jvp=rule))(2.0)
    with pytest.raises(TypeError, match=words):
        grad(jit(with_rule(jvp=rule)))(2.0)


def test_staged_rule_must_return_types_of_function():
    wrong = with_rule(jvp=lambda p, t: (lax.broadcast_in_dim(p[0], (2,), ()), lax.broadcast_in_dim(t[0], (2,), ())))
    with pytest.raises(TypeError, match=r"must return output as float32\[\], as `f` does; got float32\[2\]"):
        grad(jit(wrong))(2.0)
    wrong = with_rule(fwd=lambda x, y: ((x,), None))
    with pytest.raises(TypeError, match="must return an output of the structure `g` returns"):
        grad(jit(wrong))(2.0, {"a": 3.0})


@pytest.mark.parametrize(("rules", "words"), [
    (dict(fwd=lambda x, y: x), "forward rule `<lambda>` must return a pair"),
    (dict(bwd=lambda r, ct: ct), "must return a tuple with one cotangent per argument, 2"),
    (dict(bwd=lambda r, ct: (ct,)), "one cotangent per argument, 2; got a tuple of 1"),
    (dict(bwd=lambda r, ct: (ct, ct)), "a cotangent 1 of the structure of argument 1"),
    (dict(bwd=lambda r, ct: (ct, {"a": np.ones(3, np.float32)})),
     r"cotangent of argument 1\['a'\] that must have shape \[\], float32\[\]; got float32\[3\]")])
def test_wrong_vjp_rule_errors_name_function_and_rule(rules, words):
    for f in (with_rule(**rules), jit(with_rule(**rules))):
        with pytest.raises(TypeError, match=f"custom_vjp of `g`: .*{words}"):
            grad(f)(2.0, {"a": 3.0})


def test_none_is_a_zero_cotangent():
    for bwd in (lambda r, ct: (ct, None), lambda r, ct: (ct, {"a": None})):
        g = with_rule(bwd=bwd)
        assert grad(g, (0, 1))(2.0, {"a": 3.0}) == (1.0, {"a": 0.0})
        assert grad(jit(g), (0, 1))(2.0, {"a": 3.0}) == (1.0, {"a": 0.0})


@pytest.mark.parametrize("ct,wanted", [
    ({"a": 2.0, "b": None}, {"a": 2.0, "b": (0.0, [0.0, None])}),
    ({"a": 2.0, "b": (3.0, None)}, {"a": 2.0, "b": (3.0, [0.0, None])}),
    ({"a": None, "b": (3.0, [4.0, None])}, {"a": 0.0, "b": (3.0, [4.0, None])}),
    ({"a": None, "b": (3.0, [4.0, 5.0])}, {"a": 0.0, "b": (3.0, [4.0, None])}),
    (None, {"a": 0.0, "b": (0.0, [0.0, None])})])
def test_none_is_zero_cotangent_of_subtree(ct, wanted):
    f = custom_vjp(lambda d: d["a"] * 2)
    f.defvjp(lambda d: (d["a"] * 2, None), lambda r, g: (ct,))
    for fun in (f, jit(f)):
        assert grad(fun)({"a": 1.0, "b": (1.0, [1.0, None])}) == wanted


@pytest.mark.parametrize("ct", [{"a": 1.0}, {"a": 1.0, "b": 2.0}, {"a": 1.0, "b": (2.0, [3.0])}, {"a": (1.0,), "b": None}])
def test_cotangents_with_wrong_structure_are_rejected(ct):
    f = custom_vjp(lambda d: d["a"] * 2)
    f.defvjp(lambda d: (d["a"] * 2, None), lambda r, g: (ct,))
    with pytest.raises(TypeError, match="must return a cotangent 0 of the structure of argument 0"):
        grad(f)({"a": 1.0, "b": (1.0, [1.0, None])})


def test_undefined_rule_is_reported():
    for f in (custom_jvp(lambda x: x), custom_vjp(lambda x: x)):
        with pytest.raises(AttributeError, match="has no derivative rule yet"):
            f(1.0)


def test_rules_are_staged_once_per_signature():
    count = []

    @custom_jvp
    def f(x):
        count.append(1)
        return x * 2.0

    f.defjvp(lambda p, t: (p[0] * 2.0, t[0] * 2.0))
    make_jaxpr(lambda x: [x := f(x) for _ in range(5)])(1.0)
    assert len(count) <= 2  # weak and strong


@pytest.mark.parametrize(("fun", "text"), [
    (lambda x: lax.sin(x), r"sin\(float32\[\]\) at .*test_custom_rules.py:\d+ .*this primitive is not linear"),
    (lambda x: lax.add(x, 1.0), "operand 1 adds a constant"),
    (lambda x: 2.0, "result 0 is a constant that is not zero"),
    (lambda x: lax.mul(x, x), "both operands depend on the arguments"),
    (lambda x: lax.div(1.0, x), "not linear in operand 1"),
    (lambda x: lax.scan(lambda c, t: (lax.mul(c, lax.mul(t, x)), c), x, np.ones(3, np.float32))[0],
     r"mul\(float32\[\], float32\[\]\) at .*test_custom_rules.py:\d+ .*both operands"),
    (lambda x: lax.cond(True, lambda y: lax.exp(y), lambda y: y, x), r"exp\(float32\[\]\) at .*test_custom_rules.py:\d+"),
    (lambda x: lax.while_loop(lambda c: lax.lt(c, 3.0), lambda c: lax.add(c, c), x, max_iters=2), r"lt\(float32"),
    (lambda x: lax.scan(lambda c, _: (lax.add(c, x), None), 1.0, None, length=2)[0], "part 0 of its carry"),
    (jit(lambda x: (lax.mul(x, 2.0), lax.cos(x))), r"cos\(float32\[\]\) at .*test_custom_rules.py:\d+")])
def test_linear_transpose_names_nonlinear_primitive(fun, text):
    with pytest.raises(TypeError, match=f"is not linear: {text}" if "at" in text else text):
        linear_transpose(fun, 1.0)


def test_linear_transpose_names_missing_transpose_rule():
    halve_p = Primitive("halve", infer=lambda x: x, numpy=lambda x: x / 2, linear_in=(0,))
    with pytest.raises(MissingRuleError, match="transpose of `halve` has no rule.*transpose_rules.*adding-an-op"):
        linear_transpose(lambda x: bind(halve_p, x), 1.0)


def test_calls_with_some_results_independent_of_tangents():
    inner = jit(lambda x: (lax.sin(x), lax.cos(x)))

    def derivative(t):
        return jvp(lambda x: lax.mul(*inner(lax.sin(x))), (0.3,), (t,))[1]

    y, pull = vjp(derivative, 1.0)
    close(linear_transpose(derivative, 1.0)(1.0)[0], y)
    close(pull(1.0)[0], y)


CONTROL = {
    "cond": lambda x: lax.cond(lax.gt(x, 0.1), lax.sin, lambda y: lax.mul(y, y), x),
    "scan": lambda x: lax.scan(lambda c, y: (lax.mul(lax.sin(x), c), c), x, None, length=3)[0],
    "empty scan": lambda x: lax.scan(lambda c, y: (lax.sin(x), c), x, None, length=0)[0],
    "while": lambda x: lax.while_loop(lambda c: lax.lt(c[0], 2), lambda c: (lax.add(c[0], 1), lax.sin(c[1])), (0, x),
                                      max_iters=3)[1],
    "checkpoint": checkpoint(lambda x: lax.mul(lax.sin(x), x)),
    "cond in a call": jit(lambda x: lax.cond(lax.gt(x, 0.1), lax.sin, lambda y: lax.mul(y, y), x)),
    "scan in a cond": lambda x: lax.cond(lax.gt(x, 0.1), CONTROL["scan"], lax.cos, x)}


@pytest.mark.parametrize("name", CONTROL)
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["plain", "jit"])
def test_rule_may_use_jvp_through_control_flow(name, wrap):
    def fun(x):  # also uses the primal value of the control flow
        return lax.mul(lax.sin(CONTROL[name](x)), CONTROL[name](x))

    f = custom_jvp(fun)
    f.defjvp(lambda primals, tangents: jvp(fun, primals, tangents))
    f = wrap(f)
    for x in (0.3, -0.4):
        value, derivative = value_and_grad(fun)(x)
        for got, wanted in zip([*value_and_grad(f)(x), *jvp(f, (x,), (1.0,)), grad(grad(f))(x)],
                               [value, derivative, value, derivative, grad(grad(fun))(x)]):
            close(got, wanted)


def test_unbounded_loop_with_tangents_can_be_linearized():
    def fun(x):
        return lax.sin(lax.while_loop(lambda c: lax.lt(c[0], 2), lambda c: (lax.add(c[0], 1), lax.sin(c[1])), (0, x))[1])

    f = custom_jvp(fun)
    f.defjvp(lambda primals, tangents: jvp(fun, primals, tangents))
    value, push = linearize(f, 0.3)
    close(value, fun(0.3))
    close(push(1.0), jvp(fun, (0.3,), (1.0,))[1])


def test_linear_transpose_rejects_stop_gradient():
    with pytest.raises(TypeError, match="stop_gradient.*this primitive is not linear"):
        linear_transpose(lax.stop_gradient, 1.0)


def test_linear_functions_of_integers_transpose():
    back, = linear_transpose(lambda x: {"a": x * 2, "b": lax.reduce_sum(x, (0,))}, np.arange(3))({"a": np.arange(3), "b": 1})
    np.testing.assert_array_equal(back, [1, 3, 5])
    assert back.dtype == np.int32
    np.testing.assert_array_equal(linear_transpose(lambda x, y: x * 3, np.int32(1), np.int32(1))(np.int32(2)), [6, 0])
    for fun, x in ((lambda x: lax.convert_element_type(x, np.float32), 1), (lambda x: x, True)):
        with pytest.raises(TypeError, match="all be of real or complex dtypes, or all integers; got (int32|bool)"):
            linear_transpose(fun, x)


def test_rules_may_return_none_results_and_integer_zero_tangents():
    f = custom_jvp(lambda x, n: (x * n, None, n))
    f.defjvp(lambda p, t: (f(*p), (t[0] * p[1] * 10, None, np.int32(0))))
    (y, none, n), (dy, nothing, dn) = jvp(lambda x: f(x, 3), (2.0,), (1.0,))
    assert none is nothing is None and dn.dtype == np.dtype([("float0", np.void, 0)])
    close([y, n, dy], [6, 3, 30])
    close(grad(jit(lambda x: f(x, 3)[0]))(2.0), 30)
    g = custom_vjp(lambda x, n: x * n)
    g.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n * 10, np.int32(0)))
    close(grad(g)(2.0, 3), 30)


def test_nondiff_argnums_may_be_negative():
    f = custom_jvp(lambda x, n: x * len(n), nondiff_argnums=-1)
    f.defjvp(lambda n, p, t: (f(p[0], n), t[0] * 7 * len(n)))
    close(grad(f)(2.0, "abc"), 21)
    with pytest.raises(ValueError, match=r"nondiff_argnums \[-3\] is out of range"):
        custom_vjp(lambda x, n: x, nondiff_argnums=(-3,))


def wrong_jvp(x):
    f = custom_jvp(lambda x: x * x)
    f.defjvp(lambda p, t: (f(*p), t[0] * p[0] * 2.5))
    return f(x)


def wrong_vjp(x):
    f = custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (ct * x * 2.5,))
    return f(x)


def wrong_second(x):
    derivative = custom_jvp(lambda x: 2.0 * x)
    derivative.defjvp(lambda p, t: (derivative(*p), t[0] * 5.0))
    f = custom_jvp(lambda x: x * x)
    f.defjvp(lambda p, t: (f(*p), t[0] * derivative(p[0])))
    return f(x)


@pytest.mark.parametrize(("f", "order", "modes", "words"), [
    (wrong_jvp, 1, "fwd", "jvp against finite"), (wrong_jvp, 1, "rev", "vjp against finite"),
    (wrong_vjp, 1, ("rev",), "vjp against finite"), (wrong_second, 2, ["fwd"], "jvp of jvp against"),
    (wrong_second, 2, ["rev"], "vjp of vjp against")])
def test_check_grads_finds_wrong_rules(f, order, modes, words):
    with pytest.raises(AssertionError, match=f"check_grads: {words}"):
        check_grads(f, (3.0,), order, modes)
    if order == 2:
        check_grads(f, (3.0,), 1, modes)


def test_check_jvp_and_check_vjp():
    f = lambda x: lax.sin(x["a"]) * 2.0  # noqa: E731
    check_jvp(f, partial(jvp, f), ({"a": 1.0},))
    check_vjp(f, partial(vjp, f), ({"a": 1.0},))
    with pytest.raises(AssertionError, match="here: jvp against"):
        check_jvp(f, lambda p, t: (f(*p), t[0]["a"]), ({"a": 1.0},), err_msg="here: ")
    with pytest.raises(ValueError, match="modes must be of 'fwd' and 'rev'"):
        check_grads(f, ({"a": 1.0},), modes="forward")


@pytest.mark.parametrize("out", [(1.0,), [1.0], {"a": 1.0}, None])
def test_grad_rejects_scalar_in_container(out):
    with pytest.raises(TypeError, match="grad: needs a scalar output"):
        grad(lambda x: out)(1.0)
    with pytest.raises(TypeError, match=r"must return a pair \(output, auxiliary\); got float32\[\]"):
        grad(lambda x: x, has_aux=True)(1.0)


def test_linear_functions_are_pytrees_of_their_residuals():
    def f(x, w):
        return lax.scan(lambda c, t: (lax.sin(lax.mul(lax.mul(c, t), w)), c), x, np.arange(3.0, dtype=np.float32))[0]

    wanted = vjp(f, 2.0, 3.0)[1](1.5)
    pull = jit(lambda x, w: vjp(f, x, w)[1])(2.0, 3.0)
    for g in (pull, jit(pull), lambda ct: jit(lambda pull, ct: pull(ct))(pull, ct)):
        close(g(1.5), wanted)
    push = jit(lambda x, w: linearize(f, x, w)[1])(2.0, 3.0)
    close(push(1.0, 0.5), jvp(f, (2.0, 3.0), (1.0, 0.5))[1])
    g = custom_vjp(lambda x, w: f(x, w))
    g.defvjp(lambda x, w: vjp(f, x, w), lambda pull, ct: pull(ct))
    for take in (grad(g, (0, 1)), jit(grad(g, (0, 1))), grad(jit(g), (0, 1)), grad(checkpoint(g), (0, 1))):
        close(take(2.0, 3.0), vjp(f, 2.0, 3.0)[1](1.0))
    close(grad(lambda x: lax.scan(lambda c, _: (g(c, 3.0), None), x, None, length=2)[0])(2.0),
          grad(lambda x: f(f(x, 3.0), 3.0))(2.0))
    with checking_leaks():
        close(jit(lambda x: vjp(jit(g), x, 3.0)[1])(1.0)(1.0), vjp(f, 1.0, 3.0)[1](1.0))
    with pytest.raises(TypeError, match="takes one argument, a cotangent"):
        pull(1.0, 2.0)


@pytest.mark.parametrize("transform", [lambda f: f, grad, lambda f: jit(grad(f))])
def test_nondiff_arguments_need_not_be_hashable(transform):
    options = [2.0]
    with_jvp = custom_jvp(lambda x, n: x * n[0], nondiff_argnums=(1,))
    with_jvp.defjvp(lambda n, primals, tangents: (primals[0] * n[0], tangents[0] * n[0]))
    with_vjp = custom_vjp(lambda x, n: x * n[0], nondiff_argnums=(1,))
    with_vjp.defvjp(lambda x, n: (x * n[0], ()), lambda n, residuals, ct: (ct * n[0],))
    for f in (with_jvp, with_vjp):
        assert transform(lambda x: f(x, options))(1.0) == 2.0
