"""Overridden JVP and transpose rules apply to derivatives made before, inside and after the block."""
import threading

import numpy as np
import pytest
from lamina_autodiff import checkpoint, custom_jvp, grad, jvp, linearize, vjp
from lamina_autodiff.extend import ElementwiseJVP, LinearizeRule, jvp_rules, def_elementwise_jvp, transpose_rules
from lamina_ir import MissingRuleError, Primitive, evaluate, prims
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import bind, jaxpr_as_fun

AROUND = {
    "alone": lambda f: f,
    "jit": lambda f: jit(f),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "bounded while": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x),
                                                        max_iters=3)[1],
    "cond": lambda f: lambda x: lax.cond(True, f, lambda y: y, x),
    "checkpoint": lambda f: checkpoint(f),
    "program": lambda f: lambda x, p=make_jaxpr(f)(.5): jaxpr_as_fun(p)(x)[0],
}
DERIVATIVES = {
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.,))[1],
    "linearize": lambda f: lambda x: linearize(f, x)[1](1.),
    "vjp": lambda f: lambda x: vjp(f, x)[1](np.float32(1))[0],
    "grad": lambda f: grad(f),
}
OVERRIDES = {
    "function": (prims.sin_p, lax.sin, lambda primals, tangents: (lax.sin(primals[0]), lax.mul(7., tangents[0])), np.cos(.5)),
    "elementwise": (prims.sin_p, lax.sin, ElementwiseJVP(prims.sin_p, lambda x, ans: 7.), np.cos(.5)),
    "split": (prims.sin_p, lax.sin, LinearizeRule(lambda p, t: (lax.sin(p[0]), lax.mul(7., t[0])),
                                                  lambda trace, p, t: (lax.sin(p[0]), lax.mul(7., t[0]))), np.cos(.5)),
    "instead of a fact": (prims.neg_p, lax.neg,
                          lambda primals, tangents: (lax.neg(primals[0]), lax.mul(7., tangents[0])), -1.),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("rule", OVERRIDES)
def test_jvp_override_is_used_only_inside_its_block(rule, around):
    op, f, mine, outside = OVERRIDES[rule]
    made = {(name, how): how(derive(AROUND[around](f))) for name, derive in DERIVATIVES.items() for how in (jit, lambda g: g)}

    def check(wanted, made=made):
        for key, g in made.items():
            assert float(g(.5)) == pytest.approx(wanted, rel=1e-6), key

    check(outside)
    with jvp_rules.override(op, mine):
        check(7.)
        check(7., {name: jit(derive(AROUND[around](f))) for name, derive in DERIVATIVES.items()})
        errors = []
        thread = threading.Thread(target=lambda: guarded(lambda: check(7.), errors))
        thread.start()
        thread.join()
        assert not errors
    check(outside)
    before = jvp_rules.get(op)
    jvp_rules.declare_missing(op, "no derivative known")
    try:
        for g in made.values():
            with pytest.raises(MissingRuleError, match="no derivative known"):
                g(.5)
    finally:
        restore(jvp_rules, op, before)
    check(outside)


def guarded(run, errors):
    try:
        run()
    except BaseException as e:
        errors.append(e)


def restore(table, op, before):
    if before is None:
        table.define(op, len)
        del table[op]
    else:
        table.define(op, before)


@pytest.mark.parametrize("around", AROUND)
def test_transpose_override_is_used_only_inside_its_block(around):
    f = AROUND[around](lax.neg)
    made = [how(derive(f)) for how in (jit, lambda g: g) for derive in (DERIVATIVES["vjp"], DERIVATIVES["grad"])]

    def check(wanted):
        for g in [*made, jit(grad(AROUND[around](lax.neg)))]:
            assert float(g(.5)) == wanted

    check(-1)
    with transpose_rules.override(prims.neg_p, lambda ct, x: lax.mul(5., ct)):
        check(5)
    check(-1)
    before = transpose_rules[prims.neg_p]
    transpose_rules.declare_missing(prims.neg_p, "no derivative known")
    try:
        for g in made:
            with pytest.raises(MissingRuleError, match="no derivative known"):
                g(.5)
    finally:
        transpose_rules.define(prims.neg_p, before)
    check(-1)


def test_override_applies_inside_custom_rule_that_differentiates():
    @custom_jvp
    def f(x):
        return lax.mul(x, x)

    f.defjvp(lambda p, t: (lax.mul(p[0], p[0]), lax.mul(t[0], grad(lax.sin)(p[0]))))
    program = make_jaxpr(f)(1.)
    g = jit(grad(lambda x: jaxpr_as_fun(program)(x)[0]))
    for _ in range(2):
        assert float(g(.5)) == pytest.approx(np.cos(.5))
        with jvp_rules.override(prims.sin_p, ElementwiseJVP(prims.sin_p, lambda x, ans: 7.)):
            assert float(g(.5)) == 7


def test_dependence_analysis_follows_override():
    """A primitive with zero derivative has no tangents until its rule is overridden."""
    body = jit(lambda x: (lax.floor(x), lax.sin(x)))
    assert float(jvp(lambda x: body(x)[0], (1.5,), (1.,))[1]) == 0
    with jvp_rules.override(prims.floor_p, lambda p, t: (lax.floor(p[0]), t[0])):
        assert float(jvp(lambda x: body(x)[0], (1.5,), (1.,))[1]) == 1
        assert float(grad(lambda x: body(x)[0])(1.5)) == 1
    assert float(grad(lambda x: body(x)[0])(1.5)) == 0


@pytest.mark.parametrize("make, words", [
    (lambda: def_elementwise_jvp("sin", lambda x, ans: x), "ElementwiseJVP: expected a Primitive; got str: 'sin'"),
    (lambda: def_elementwise_jvp(prims.sin_p, 3),
     "ElementwiseJVP of `sin`: operand 0: expected a function or None; got int: 3"),
    (lambda: LinearizeRule(len, None), "LinearizeRule: expected a function as linearize; got NoneType"),
    (lambda: jvp_rules.define(prims.sin_p, (len,)), r"table `jvp`: define\(sin\): rule must be a function; got tuple")])
def test_ill_formed_rules_are_rejected_at_definition(make, words):
    with pytest.raises(TypeError, match=words):
        make()


def test_rules_derived_from_facts_print_their_kind():
    op = Primitive("overrides_twice", infer=lambda x: x, numpy=lambda x: 2 * x, linear_in=(0,), family="elementwise")
    assert op in jvp_rules and repr(jvp_rules[op]) == "<linear rule of overrides_twice>"
    program = make_jaxpr(lambda t: jvp(lambda x: bind(op, x), (1.,), (t,))[1])(3.)
    assert float(evaluate(program, np.float32(3))[0]) == 6
    assert repr(jvp_rules[prims.mul_p]) == "<bilinear rule of mul>"
    assert repr(jvp_rules[prims.sin_p]) == "<elementwise rule of sin>"
    assert repr(jvp_rules[prims.floor_p]) == "<zero rule of floor>"
