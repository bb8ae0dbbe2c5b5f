"""A jitted function called again and again: a loop for the compiler, and nothing else to anyone who looks."""
from __future__ import annotations

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina_ir import evaluate, prims
from lamina_lowering import lower, lowering_rules
from lamina_lowering.testing import run_lowered

R = np.random.RandomState(0)
X, W = [R.randn(6, 6).astype(np.float32) / 2 for _ in range(2)]
WS = R.randn(60, 6, 6).astype(np.float32) / 2


@lamina.jit
def layer(x, w):
    return jnp.tanh(x @ w) + 0.5 * x


@lamina.jit
def pair(x, y, w, scale):
    return jnp.sin(x @ w) * scale, y + x.sum(0)


def held(x, w):
    for _ in range(60):
        x = layer(x, w)
    return x.sum()


def rows(x, ws):
    for k in range(60):
        x = layer(x, ws[k])
    return (x * x).sum()


def collected(x, ws):
    made = []
    for k in range(60):
        x = layer(x, ws[k])
        made.append(x[0])
    return jnp.stack(made, 1).sum() + (jnp.stack(made) ** 2).mean()


def several(x, w):
    y = x[0]
    for k in range(60):
        x, y = pair(x, y, w, 1.0 + 0.5 / (k + 1))
        y = y * 0.5
    return x.sum() + y.sum()


TRANSFORMS = {
    "plain": lambda f: f, "grad": lambda f: lamina.grad(f, (0, 1)),
    "value_and_grad": lambda f: lamina.value_and_grad(f, (0, 1)),
    "jvp": lambda f: lambda x, w: lamina.jvp(f, (x, w), (x, w)),
    "vmap of grad": lambda f: lambda x, w: lamina.vmap(lamina.grad(f, (0, 1)), (0, None))(jnp.stack([x, 2 * x]), w),
    "grad of checkpoint": lambda f: lamina.grad(lamina.checkpoint(f), (0, 1)),
    "jvp of grad": lambda f: lambda x, w: lamina.jvp(lamina.grad(f), (x, w), (x, w))}


def calls_left(program):
    """How the program is lowered with its calls as calls: rows that are overridden are asked for the program as it is."""
    with lowering_rules.override(prims.pad_p, lowering_rules[prims.pad_p]):
        return lower(program).as_text()


@pytest.mark.parametrize("use", TRANSFORMS)
@pytest.mark.parametrize("f, w", [(held, W), (rows, WS), pytest.param(collected, WS, marks=pytest.mark.slow), (several, W)],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_loops_give_what_the_program_means(f, w, use):
    program = lamina.make_jaxpr(TRANSFORMS[use](f))(X, w)
    lowered = lower(program)
    assert "stablehlo.while" in lowered.as_text() and "stablehlo.while" not in calls_left(program)
    for got, wanted in zip(run_lowered(lowered, X, w), evaluate(program, X, w), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=5e-5, atol=5e-5 * float(np.abs(wanted).max()))


def test_the_module_is_the_same_each_time():
    one, two = (lower(lamina.make_jaxpr(lamina.grad(f, (0, 1)))(X, WS)).bytecode()
                for f in (rows, lambda x, ws: rows(x, ws)))
    assert one == two


def test_donated_weights():
    step = lamina.jit(lambda x, ws: (ws - 0.1 * lamina.grad(rows, 1)(x, ws)), donate_argnums=1)
    ws = jnp.asarray(WS)
    wanted = WS - 0.1 * np.asarray(lamina.grad(rows, 1)(X, WS))
    np.testing.assert_allclose(step(X, ws), wanted, rtol=1e-4, atol=1e-4)
    assert ws.is_deleted()


def test_callbacks_in_the_body_come_in_order():
    seen = []

    @lamina.jit
    def told(x, w, k):
        lamina.debug.callback(lambda k: seen.append(int(k)), k, ordered=True)
        return jnp.tanh(x @ w)

    def f(x, w):
        for k in range(50):
            x = told(x, w, k)
        return x.sum()

    lamina.jit(lamina.grad(f))(X, W).block_until_ready()
    lamina.effects_barrier()
    assert seen == list(range(50))


@pytest.mark.parametrize("n", [1, 60])
def test_lines_are_those_of_the_body(n):
    def f(x, w):
        for _ in range(n):
            x = layer(x, w)
        return x.sum()

    compiled = lamina.jit(lambda x, w: lamina.grad(f, (0, 1))(x, w)).lower(X, W).compile()
    assert {(line.function, line.part) for line in compiled.source_map().values()} >= {("layer", ""), ("layer", "backward")}
    products = [lines[0] for name, lines in compiled.instruction_lines().items() if name.startswith("dot")]
    assert {line.function for line in products} == {"layer"} and {line.part for line in products} >= {"backward"}


def test_a_nan_is_found_in_its_call():
    @lamina.jit
    def logged(x, w):
        return jnp.log(x @ w)

    def f(x, w):
        for _ in range(60):
            x = logged(x, w)
        return x.sum()

    with lamina.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        lamina.jit(f)(X, W)
