"""Overridden batching rules apply to maps made before, inside and after the block."""
import threading

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_batching.extend import batching_rules
from lamina_ir import MissingRuleError, Primitive, evaluate, prims
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import bind, jaxpr_as_fun

X = np.linspace(0.1, 0.9, 4, dtype="float32")
AROUND = {
    "alone": lambda f: f,
    "jit": lambda f: jit(f),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0],
    "while": lambda f: lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1],
    "cond": lambda f: lambda x: lax.cond(True, f, lambda y: y, x),
    "program": lambda f: lambda x, p=make_jaxpr(f)(.5): jaxpr_as_fun(p)(x)[0],
}


def twice(f):
    return lambda x: lax.squeeze(vmap(vmap(f))(lax.expand_dims(x, (0,))), (0,))


@pytest.mark.parametrize("around", AROUND)
def test_override_is_used_only_inside_its_block(around):
    f = AROUND[around](lax.sin)
    made = [how(m(f)) for how in (jit, lambda g: g) for m in (vmap, twice)]

    def check(wanted):
        for g in [*made, jit(vmap(f)), vmap(jit(AROUND[around](lax.sin)))]:
            np.testing.assert_allclose(g(X), wanted(X), rtol=1e-6)

    check(np.sin)
    with batching_rules.override(prims.sin_p, lambda axis, args, dims: (lax.cos(args[0]), dims[0])):
        check(np.cos)
        errors = []

        def run():
            try:
                check(np.cos)
            except BaseException as e:
                errors.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert not errors
    check(np.sin)
    before = batching_rules[prims.sin_p]
    batching_rules.declare_missing(prims.sin_p, "not supported")
    try:
        for g in made:
            with pytest.raises(MissingRuleError, match="not supported"):
                g(X)
    finally:
        batching_rules.define(prims.sin_p, before)
    check(np.sin)


def test_rule_argument_named_like_primitive_param_is_rejected():
    op = Primitive("overrides_flip", params=("axis", "dims"), infer=lambda x, /, **params: x,
                   numpy=lambda x, /, *, axis, dims: np.flip(x, axis), family="shape")
    with pytest.raises(TypeError, match=r"`axis` of the rule is also the name of a param.*\(axis, args, dims, /, \.\.\.\)"):
        batching_rules.define(op, lambda axis, args, dims, **params: (args[0], dims[0]))
    batching_rules.define(op, lambda axis, args, dims, /, **params: (
        bind(op, args[0], **{**params, "axis": params["axis"] + (params["axis"] >= dims[0])}), dims[0]))
    x = np.arange(6, dtype="float32").reshape(2, 3)
    program = make_jaxpr(vmap(lambda row: bind(op, row, axis=0, dims=None)))(x)
    np.testing.assert_array_equal(evaluate(program, x)[0], x[:, ::-1])
