"""A typed user program: it runs, and type checkers report no error (`nox -s types`)."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import lamina
import lamina.numpy as jnp
from lamina import lax, random
from lamina.sharding import Mesh, NamedSharding, PartitionSpec
from lamina.typing import ArrayLike


class Layer(NamedTuple):
    weights: lamina.Array
    offsets: lamina.Array


Params = list[Layer]


@dataclass(frozen=True)
class Settings:
    sizes: tuple[int, ...] = (4, 8, 1)
    rate: float = 0.1


def start(key: lamina.Array, sizes: tuple[int, ...]) -> Params:
    keys = random.split(key, len(sizes) - 1)
    return [Layer(random.normal(k, (a, b)) / jnp.sqrt(a), jnp.zeros(b)) for k, a, b in zip(keys, sizes, sizes[1:])]


def predict(params: Params, x: ArrayLike) -> lamina.Array:
    out = jnp.asarray(x)
    for layer in params[:-1]:
        out = jnp.tanh(out @ layer.weights + layer.offsets)
    return out @ params[-1].weights + params[-1].offsets


def loss(params: Params, x: lamina.Array, y: lamina.Array) -> lamina.Array:
    return jnp.mean((predict(params, x) - y) ** 2)


@partial(lamina.jit, static_argnames="rate")
def step(params: Params, x: lamina.Array, y: lamina.Array, rate: float) -> tuple[Params, lamina.Array]:
    value, grads = lamina.value_and_grad(loss)(params, x, y)
    return lamina.tree.map(lambda p, g: p - rate * g, params, grads), value


@lamina.jit
def norm(x: lamina.Array) -> lamina.Array:
    return jnp.sqrt(jnp.sum(x * x))


@lamina.custom_vjp
def clipped(x: lamina.Array, bound: float) -> lamina.Array:
    return x


def clipped_forward(x: lamina.Array, bound: float) -> tuple[lamina.Array, float]:
    return x, bound


def clipped_backward(bound: float, cotangent: lamina.Array) -> tuple[lamina.Array, None]:
    return jnp.clip(cotangent, -bound, bound), None


clipped.defvjp(clipped_forward, clipped_backward)


@lamina.custom_jvp
def softplus(x: lamina.Array) -> lamina.Array:
    return jnp.logaddexp(x, 0.0)


@softplus.defjvp
def softplus_jvp(primals: tuple[lamina.Array], tangents: tuple[lamina.Array]) -> tuple[lamina.Array, lamina.Array]:
    (x,), (t,) = primals, tangents
    return softplus(x), t * lamina.nn.sigmoid(x)


def derivatives(x: lamina.Array) -> dict[str, lamina.Array]:
    gradient: Callable[[lamina.Array], lamina.Array] = lamina.grad(norm)
    out, pull = lamina.vjp(norm, x)
    _, tangent = lamina.jvp(norm, (x,), (jnp.ones_like(x),))
    (pulled,) = pull(jnp.ones_like(out))
    return {"gradient": gradient(x), "pulled": pulled, "tangent": tangent, "hessian": lamina.hessian(norm)(x),
            "forward": lamina.jacfwd(jnp.sin)(x), "reverse": lamina.jacrev(jnp.cos)(x),
            "softplus": lamina.vmap(lamina.grad(softplus))(x), "clipped": lamina.grad(lambda a: clipped(a, 0.1).sum())(x)}


def loops(x: lamina.Array) -> lamina.Array:
    def body(carry: lamina.Array, row: lamina.Array) -> tuple[lamina.Array, lamina.Array]:
        return carry + row, carry * row

    total, rows = lax.scan(body, jnp.zeros_like(x[0]), x)
    def grow(value: lamina.Array) -> lamina.Array:
        return value * 2 + 1

    counted = lax.fori_loop(0, 3, lambda i, value: grow(value) + i, total)
    grown = lax.while_loop(lambda value: jnp.max(value) < 10.0, grow, counted)
    chosen = lax.cond(jnp.all(grown > 0), grow, jnp.negative, grown)
    return chosen + lax.select(rows[0] > 0, rows[0], -rows[0])


def over_devices(x: lamina.Array) -> lamina.Array:
    mesh = Mesh(np.array(lamina.devices()[:1]), ("rows",))
    placed = lamina.device_put(x, NamedSharding(mesh, PartitionSpec("rows")))

    @partial(lamina.pmap, axis_name="i")
    def summed(row: lamina.Array) -> lamina.Array:
        total: lamina.Array = lax.psum(row, "i")
        return total

    def centred(row: lamina.Array) -> lamina.Array:
        mean: lamina.Array = lax.pmean(row, "batch")
        return row - mean

    return jnp.add(summed(placed[None])[0], lamina.vmap(centred, axis_name="batch", in_axes=0, out_axes=0)(x))


def inspect(x: lamina.Array) -> tuple[str, tuple[int, ...], int]:
    program = lamina.make_jaxpr(norm)(x)
    shape = lamina.eval_shape(norm, x)
    lowered = lamina.jit(norm).lower(x)
    return str(program), shape.shape, len(lowered.as_text())


def arrays(x: lamina.Array) -> tuple[float, list[int], np.ndarray[Any, Any]]:
    y = x.at[0].set(1.0).at[1:].add(2.0).astype(jnp.float32)
    z = jnp.where(y > 1, y.reshape(-1, 1).T, jnp.stack([y, y])[0])
    return float(z.sum()), list(z.shape), np.asarray(z)


class Model:
    """Methods are jitted and checkpointed like functions."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @partial(lamina.jit, static_argnums=0)
    def __call__(self, x: lamina.Array) -> lamina.Array:
        return lamina.checkpoint(jnp.tanh)(x) * self.scale + random.uniform(random.key(1), x.shape)


def main(settings: Settings = Settings()) -> float:
    key, data_key = random.split(random.PRNGKey(0))
    x = random.normal(data_key, (16, settings.sizes[0]))
    y = jnp.sum(x, axis=1, keepdims=True)
    params = start(key, settings.sizes)
    value = loss(params, x, y)
    for _ in range(20):
        params, value = step(params, x, y, settings.rate)
    derivatives(x[0])
    loops(x)
    over_devices(x[:1, :])
    inspect(x[0])
    arrays(x[0])
    Model(2.0)(x)
    return float(value)


if __name__ == "__main__":
    print(main())
