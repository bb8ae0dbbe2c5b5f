"""Repeated calls of a jitted function become a loop for the compiler, without other visible effects."""
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


def shared_weight(x, w):
    for _ in range(60):
        x = layer(x, w)
    return x.sum()


def weight_per_call(x, ws):
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


def lower_without_rolling(program):
    """Lower a program without rolling its calls: overridden rules get the original program."""
    with lowering_rules.override(prims.pad_p, lowering_rules[prims.pad_p]):
        return lower(program).as_text()


@pytest.mark.parametrize("use", TRANSFORMS)
@pytest.mark.parametrize("f, w", [(shared_weight, W), (weight_per_call, WS), (several, W),
                                  pytest.param(collected, WS, marks=pytest.mark.slow)],
                         ids=lambda v: getattr(v, "__name__", ""))
def test_rolled_loops_match_the_program(f, w, use):
    program = lamina.make_jaxpr(TRANSFORMS[use](f))(X, w)
    lowered = lower(program)
    assert "stablehlo.while" in lowered.as_text() and "stablehlo.while" not in lower_without_rolling(program)
    for got, wanted in zip(run_lowered(lowered, X, w), evaluate(program, X, w), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=5e-5, atol=5e-5 * float(np.abs(wanted).max()))


def test_module_is_deterministic():
    one, two = (lower(lamina.make_jaxpr(lamina.grad(f, (0, 1)))(X, WS)).bytecode()
                for f in (weight_per_call, lambda x, ws: weight_per_call(x, ws)))
    assert one == two


def test_donated_weights_of_repeated_calls():
    step = lamina.jit(lambda x, ws: (ws - 0.1 * lamina.grad(weight_per_call, 1)(x, ws)), donate_argnums=1)
    ws = jnp.asarray(WS)
    wanted = WS - 0.1 * np.asarray(lamina.grad(weight_per_call, 1)(X, WS))
    np.testing.assert_allclose(step(X, ws), wanted, rtol=1e-4, atol=1e-4)
    assert ws.is_deleted()


def test_ordered_callbacks_of_repeated_calls():
    seen = []

    @lamina.jit
    def reported(x, w, k):
        lamina.debug.callback(lambda k: seen.append(int(k)), k, ordered=True)
        return jnp.tanh(x @ w)

    def f(x, w):
        for k in range(50):
            x = reported(x, w, k)
        return x.sum()

    lamina.jit(lamina.grad(f))(X, W).block_until_ready()
    lamina.effects_barrier()
    assert seen == list(range(50))


@pytest.mark.parametrize("n", [1, 60])
def test_source_lines_are_those_of_the_body(n):
    def f(x, w):
        for _ in range(n):
            x = layer(x, w)
        return x.sum()

    compiled = lamina.jit(lambda x, w: lamina.grad(f, (0, 1))(x, w)).lower(X, W).compile()
    assert {(line.function, line.part) for line in compiled.source_map().values()} >= {("layer", ""), ("layer", "backward")}
    products = [lines[0] for name, lines in compiled.instruction_lines().items() if name.startswith("dot")]
    assert {line.function for line in products} == {"layer"} and {line.part for line in products} >= {"backward"}


def test_nan_is_located_in_its_call():
    @lamina.jit
    def logged(x, w):
        return jnp.log(x @ w)

    def f(x, w):
        for _ in range(60):
            x = logged(x, w)
        return x.sum()

    with lamina.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        lamina.jit(f)(X, W)
