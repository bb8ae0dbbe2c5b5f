"""Programs with planted failures, in the middle of a network: NaNs, failed checks, wrong lowering rules."""
from __future__ import annotations

import lamina_numpy as np
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import prims
from lamina_lowering.extend import lowering_rules
from lamina_parallel import pmap
from lamina_tracing import debug, jit, lax

import numpy as onp

N = 4
_rng = onp.random.default_rng(0)
X = _rng.normal(size=(3, N)).astype("float32")
W = _rng.normal(size=(N, N)).astype("float32")


def before(x, w=W):
    """Layers that a failure follows: about 20 equations."""
    for _ in range(2):
        x = np.tanh(x @ w + 0.1) * 2
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3)
    return x


def after(x, w=W):
    """Layers after a failure."""
    for _ in range(2):
        x = np.cos(x @ w) + x * 0.5
    return (x * x).sum()


def in_layers(f):
    return jit(lambda x: after(f(before(x))))


# --- NaNs and infinities ----------------------------------------------------------------------------------------------
def _norm(x):
    return np.sqrt((x * x).sum(-1)).sum()


def _unstable_softmax(x):
    e = np.exp(x * 100)
    return e / e.sum(-1, keepdims=True)


def _scan(x):
    def step(carry, row):
        carry = np.tanh(carry + row)
        return carry, np.log(carry.sum() + 2.0 - 100 * (row[0] > 0.9))

    rows = np.concatenate([x * 0.1] * 3 + [0 * x + 1.0])
    return x + lax.scan(step, x[0], rows)[1].sum()


def _while(x):
    def step(state):
        i, y = state
        return i + 1, y - np.where(i == 4, np.inf, 0.25) * (i == 5)

    return lax.while_loop(lambda state: state[0] < 8, step, (0, x))[1]


NONFINITE = {
    "log of a negative number": in_layers(lambda x: np.log(x) + 1),
    "quotient of zeros": in_layers(lambda x: (x - x) / (x * 0)),
    "derivative of a norm at zero": jit(lambda x: after(x + grad(lambda y: _norm(y * 0))(before(x)))),
    "overflow of a softmax": in_layers(_unstable_softmax),
    "one iteration of a scan": in_layers(_scan),
    "one iteration of a while": in_layers(_while),
    "branch": in_layers(lambda x: lax.cond(x.sum() < 100, lambda y: np.arccosh(y), lambda y: y, x)),
    "vmap of a derivative": jit(lambda x: after(vmap(grad(lambda row: np.sqrt(np.maximum(row, 0.0)).sum()))(before(x)))),
    "half precision": in_layers(lambda x: (x.astype("float16") * 60000).astype("float32")),
    "member of a map": lambda x: pmap(
        lambda row: after(np.log(before(row + np.zeros((3, N)))) + lax.psum(row.sum(), "i")), "i")(x[:1]),
}


# --- errors -----------------------------------------------------------------------------------------------------------
def _check_in_scan(x):
    def step(carry, row):
        carry = carry * 0.9 + row
        debug.check(carry.sum() < 1, "the sum is {s}", s=carry.sum())
        return carry, carry.sum()

    return x + lax.scan(step, x[0] * 0, np.abs(np.concatenate([x] * 4)))[1].sum()


def _check(x):
    debug.check(np.abs(x).max() < 0.5, "large")
    return x


ERRORS = {
    "check": in_layers(_check),
    "check in a scan": in_layers(_check_in_scan),
    "check in a branch": in_layers(lambda x: lax.cond(x.sum() < 100, _check, lambda y: y, x)),
    "check in a call": in_layers(lambda x: jit(lambda y: jit(_check)(y * 3) + 1)(x)),
}


# --- wrong lowering rules -----------------------------------------------------------------------------------------------
def _replace(op):
    return lambda ctx, *xs, **params: ctx.op(f"stablehlo.{op}", xs, ctx.aval_out)


def _then(op):
    """Return a rule that applies an operation to the right result."""
    def change(old):
        def rule(ctx, *xs, **params):
            found = old(ctx, *xs, **params)
            return ctx.op(f"stablehlo.{op}", (found[0] if isinstance(found, (list, tuple)) else found,), ctx.aval_out)

        return rule

    return change


def _swap_operands(old):
    return lambda ctx, which, a, b, **params: old(ctx, which, b, a, **params)


def _wrong_after_product(old):
    def rule(ctx, a, b, **params):
        is_product = getattr(getattr(a, "owner", None), "name", "") == "stablehlo.multiply"
        return ctx.op(f"stablehlo.{'subtract' if is_product else 'add'}", (a, b), ctx.aval_out)

    return rule


# name -> (primitive, rule made of the old rule, function)
DIFFERENCES = {
    "tanh": (prims.tanh_p, lambda old: _replace("cosine"), in_layers(lambda x: x)),
    "product of matrices": (prims.dot_general_p, _then("negate"), in_layers(lambda x: x)),
    "sum": (prims.reduce_sum_p, _then("abs"), in_layers(lambda x: (x - 3).sum(-1, keepdims=True) + x)),
    "selection": (prims.select_p, _swap_operands, in_layers(lambda x: np.where(x > 0, x, x * 0.1))),
    "addition after a product": (prims.add_p, _wrong_after_product, in_layers(lambda x: x * 3 + x)),
    "cosine in a scan": (prims.cos_p, lambda old: _replace("sine"),
                         in_layers(lambda x: lax.scan(lambda c, row: (np.cos(c + row), c), x[0], x)[1])),
    "division": (prims.div_p, lambda old: _replace("multiply"), in_layers(lambda x: x)),
    "maximum in a while": (prims.max_p, lambda old: _replace("minimum"), in_layers(
        lambda x: lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, np.maximum(s[1] * 1.1, 0.1)), (0, x))[1])),
    "floor": (prims.floor_p, lambda old: _replace("ceil"), in_layers(lambda x: x - np.floor(x * 3))),
    "square root in a map": (prims.sqrt_p, lambda old: _replace("tanh"), lambda x: pmap(
        lambda row: after(before(row + np.zeros((3, N)))) + lax.psum(row.sum(), "i"), "i")(x[:1])),
    "exponential in a branch": (prims.exp_p, lambda old: _replace("exponential_minus_one"), in_layers(
        lambda x: lax.cond(x.sum() < 100, lambda y: np.exp(y), lambda y: y, x))),
}


def planted(name):
    """Return the context in which the lowering rule of a difference is wrong."""
    prim, change, _ = DIFFERENCES[name]
    return lowering_rules.override(prim, change(lowering_rules[prim]))


def wrong_sine():
    """Return the context in which the compiled sine has the wrong sign."""
    return lowering_rules.override(prims.sin_p, _then("negate")(lowering_rules[prims.sin_p]))
