"""Use data classes as trees, with static fields and copies that are changed in place."""
from typing import Any

import jax
import jax.numpy as jnp
import jax_dataclasses as jdc
from _report import show


@jdc.pytree_dataclass
class Body:
    position: Any
    velocity: Any
    scheme: jdc.Static[str] = "euler"


@jdc.jit
def advance(body: Body, count: jdc.Static[int]) -> Body:
    for _ in range(count):
        with jdc.copy_and_mutate(body) as body:
            body.velocity = body.velocity - 0.1 * body.position
            body.position = body.position + 0.1 * body.velocity
    return body


body = advance(Body(jnp.array([1.0, 0.5]), jnp.zeros(2)), 5)
grads = jax.grad(lambda b: advance(b, 3).position.sum())(body)
show(position=body.position, velocity=body.velocity, grad=grads.position, static=body.scheme == "euler")
