"""Type errors that a type checker must report: one on each marked line, and no others. Never run."""
from __future__ import annotations

from functools import partial

import lamina
import lamina.numpy as jnp
from lamina import lax, random
from lamina.sharding import PartitionSpec


def f(x: lamina.Array, rate: float) -> lamina.Array:
    return x * rate


x = jnp.ones(3)
key = random.PRNGKey(0)

# calls of transformed functions have the types of the function
lamina.jit(f)(x)  # wrong: `rate` is missing
lamina.jit(f)(x, "fast")  # wrong: a string for a number
lamina.vmap(f)(x, rat=1.0)  # wrong: a name misspelled
lamina.pmap(f)(x, 1.0, 2.0)  # wrong: one argument too many
lamina.grad(f)(x)  # wrong: `rate` is missing
lamina.value_and_grad(f)(x, 1.0)[2]  # wrong: there are two results
lamina.checkpoint(f)(x)  # wrong: `rate` is missing
lamina.make_jaxpr(f)(x)  # wrong: `rate` is missing
lamina.custom_vjp(f)(x)  # wrong: `rate` is missing


@lamina.jit(static_argnames="rate")
def g(x: lamina.Array, rate: float) -> lamina.Array:
    return x


g(x, rates=1.0)  # wrong: a name misspelled

# arguments of transformations
lamina.jit(3)  # wrong: a number is not a function
lamina.jit(f, static_argname="rate")  # wrong: an option misspelled
lamina.jit(f, donate_argnums="x")  # wrong: positions are numbers
lamina.vmap(f, in_axis=0)  # wrong: an option misspelled
lamina.grad(f, has_aux=3)  # wrong: a number for a bool
lamina.pmap(f, axis="i")  # wrong: an option misspelled
lamina.jvp(f, x, x, x, x)  # wrong: too many arguments

# results of transformations
out, pull, more = lamina.vjp(f, x, 1.0)  # wrong: two results without has_aux
lamina.jvp(f, (x, 1.0), (x, 1.0)).shape  # wrong: a pair has no shape
lamina.make_jaxpr(f)(x, 1.0).jaxprs  # wrong: an attribute misspelled
text: str = lamina.jit(f)(x, 1.0)  # wrong: an array for a string

# arrays
x.shpe  # wrong: a property misspelled
x.sum(axes=0)  # wrong: it is `axis`
x.reshape((3, 1)).flaten()  # wrong: a method misspelled
x.at[0].put(1.0)  # wrong: there is no such update
x.at(0)  # wrong: an index is given in brackets
x + "one"  # wrong: a string is not a number
x @ None  # wrong: None is not an array
x.dtype.nam  # wrong: a property of dtypes misspelled

# functions of arrays
jnp.sin("text")  # wrong: a string is not an array
jnp.sin(x, x)  # wrong: one argument too many
jnp.add(x)  # wrong: one argument too few
jnp.sum(x, axis="rows", keepdim=True)  # wrong: it is `keepdims`
jnp.concatenate(x, x)  # wrong: the axis is not an array
jnp.zeros((3,), dtype=3)  # wrong: a number is not a dtype
jnp.no_such_function(x)  # wrong: it does not exist
random.normal()  # wrong: the key is missing
random.normal(key, "3")  # wrong: a shape is numbers
random.norml(key)  # wrong: misspelled
lax.add(x, x, x)  # wrong: one argument too many
lax.no_such_function(x)  # wrong: it does not exist
lamina.no_such_function(x)  # wrong: it does not exist
lamina.nn.relu()  # wrong: the array is missing


# loops
def body(carry: lamina.Array, row: lamina.Array) -> tuple[lamina.Array, lamina.Array]:
    return carry, row


def one(value: lamina.Array) -> lamina.Array:
    return value


lax.scan(one, x, x)  # wrong: the body takes two
lax.scan(body, x, x).shape  # wrong: a pair has no shape
lax.fori_loop(0, 3, one, x)  # wrong: the body takes two
lax.while_loop(one, body, x)  # wrong: the body takes one
lax.cond(x, one, one, x).shpe  # wrong: a property misspelled
lax.map(body, x)  # wrong: the function takes one

# the rest
lamina.device_put(x, devices=None)  # wrong: it is `device`
lamina.ShapeDtypeStruct((3,))  # wrong: the dtype is missing
lamina.tree.map(3, x)  # wrong: a number is not a function
PartitionSpec("a").names  # wrong: there is no such attribute
partial(lamina.vmap, in_axis=0)  # wrong: an option misspelled
