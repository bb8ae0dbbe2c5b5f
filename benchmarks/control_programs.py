"""Loops, branches, checkpoints and custom rules: the time to trace, to call and to run them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import array, lax, timed, xnp, xp

_X, _ROWS = array(64), array(20, 64, seed=1)
_W = array(64, 64, seed=2) * 0.1


def cell(carry: Any, row: Any) -> Any:
    carry = xnp.tanh(carry @ _W + row)
    return carry, carry.sum()


def scanned(x: Any) -> Any:
    return lax.scan(cell, x, _ROWS)[1].sum()


def counted(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 100, lambda c: (c[0] + 1, xnp.sin(c[1])), (0, x))[1].sum()


def branched(x: Any) -> Any:
    for _ in range(20):
        x = lax.cond(x.sum() > 0, lambda y: xnp.sin(y) * 2, lambda y: xnp.cos(y) * 3, x)
    return x.sum()


def checkpointed(x: Any) -> Any:
    block = xp.checkpoint(lambda x: xnp.tanh(xnp.tanh(x @ _W) @ _W))
    for _ in range(10):
        x = block(x)
    return x.sum()


@xp.custom_jvp
def wave(x: Any) -> Any:
    return xnp.sin(x) * x


@xp.custom_vjp
def ripple(x: Any) -> Any:
    return xnp.sin(x) * x


wave.defjvp(lambda primals, tangents: (wave(*primals), xnp.cos(primals[0]) * tangents[0]))
ripple.defvjp(lambda x: (ripple(x), x), lambda x, ct: (xnp.cos(x) * ct,))


def ten_times(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def repeated(x: Any) -> Any:
        for _ in range(10):
            x = fun(x)
        return x.sum()
    return repeated


def moved(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `fun` with its directional derivative, which a `while_loop` has."""
    return lambda x: xp.jvp(fun, (x,), (x,))


DERIVATIVES = {"scan": xp.grad(scanned), "while": moved(counted), "cond": xp.grad(branched),
               "remat": xp.grad(checkpointed), "custom_jvp": xp.grad(ten_times(wave)),
               "custom_vjp": xp.grad(ten_times(ripple))}


def _tracing(name: str) -> Any:
    def set_up() -> Any:
        return lambda: xp.make_jaxpr(lambda x: DERIVATIVES[name](x))(_X) and None
    set_up.__name__ = f"trace_derivative_{name}"
    return set_up


def _running(name: str) -> Any:
    def set_up() -> Any:
        call = xp.jit(DERIVATIVES[name])
        return lambda: call(_X)
    set_up.__name__ = f"run_derivative_{name}"
    return set_up


for _name in DERIVATIVES:
    timed(3)(_tracing(_name))
    timed(100)(_running(_name))


@timed(50)
def eager_scan() -> Any:
    return lambda: lax.scan(cell, _X, _ROWS)


@timed(50)
def eager_while() -> Any:
    return lambda: counted(_X)


@timed(50)
def eager_cond() -> Any:
    on = array(1)[0]
    return lambda: lax.cond(on > 0, xnp.sin, xnp.cos, _X)


@timed(50)
def eager_custom_jvp() -> Any:
    return lambda: wave(_X)


@timed(50)
def eager_grad_checkpoint() -> Any:
    return lambda: xp.grad(checkpointed)(_X)
