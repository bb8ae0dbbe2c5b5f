"""Random functions of one member `[3]` with collectives over "i", nested in loops, branches, calls and maps. Numbers are
integers, so that values and derivatives are exact."""
import numpy as np
from lamina_autodiff import checkpoint, custom_jvp, custom_vjp, grad
from lamina_batching import vmap
from lamina_tracing import jit, lax

NAME = "i"


def total(x):
    return lax.reduce_sum(x, (0,))


def outer(values, x):
    return lax.mul(lax.expand_dims(np.float32(values), (1,)), lax.expand_dims(x, (0,)))


def weighted(stack, weights):
    return lax.reduce_sum(lax.mul(stack, lax.expand_dims(np.float32(weights), (1,))), (0,))


def member_function(seed, rows, steps=3):
    """Return a function `f(w, x)` of a shared `w` and a member `x`, both `[3]`, for an axis of `rows` members."""
    rng = np.random.default_rng(seed)
    body = sequence(rng, rows, steps, 2)
    return lambda w, x: body(lax.add(x, lax.mul(w, np.float32(2))))


def sequence(rng, rows, steps, depth):
    made = [step(rng, rows, depth) for _ in range(steps)]

    def run(x):
        for f in made:
            x = f(x)
        return x
    return run


def split(rng, rows, equal):
    """Return random groups of the members."""
    order = rng.permutation(rows)
    size = rng.choice([n for n in range(1, rows + 1) if rows % n == 0])
    cuts = range(size, rows, size) if equal else np.sort(rng.choice(rows, rng.integers(0, min(rows, 3)), replace=False))
    return [[int(i) for i in g] for g in np.split(order, [c for c in cuts if 0 < c < rows])]


def step(rng, rows, depth):
    weights = rng.integers(-1, 2, rows)
    k = int(rng.integers(rows))
    pairs = [(int(a), int(b)) for a, b in zip(rng.permutation(rows), rng.permutation(rows))][:rng.integers(0, rows + 1)]
    even, uneven = split(rng, rows, True), split(rng, rows, False)
    flat = [lambda x: lax.add(x, np.float32(1)), lambda x: lax.neg(x), lambda x: lax.max(x, np.float32(0)),
            lambda x: lax.psum(x, NAME), lambda x: lax.pmax(x, NAME), lambda x: lax.pmin(x, NAME),
            lambda x: lax.ppermute(x, NAME, pairs), lambda x: lax.pbroadcast(x, NAME, k),
            lambda x: lax.add(x, lax.convert_element_type(lax.axis_index(NAME), "float32")),
            lambda x: weighted(lax.all_gather(x, NAME), weights),
            lambda x: lax.reduce_sum(lax.all_gather(x, NAME, axis=1, tiled=False), (1,)),
            lambda x: lax.psum_scatter(outer(np.arange(rows), x), NAME),
            lambda x: weighted(lax.psum_scatter(outer(np.arange(2 * rows) % 3, x), NAME, tiled=True), [1, -1]),
            lambda x: weighted(lax.all_to_all(outer(weights, x), NAME, 0, 0), weights),
            lambda x: lax.psum(x, NAME, axis_index_groups=uneven), lambda x: lax.pmax(x, NAME, axis_index_groups=uneven),
            lambda x: weighted(lax.all_gather(x, NAME, axis_index_groups=even), np.arange(len(even[0])) % 2),
            lambda x: lax.psum_scatter(outer(np.arange(len(even[0])), x), NAME, axis_index_groups=even),
            lambda x: weighted(lax.all_to_all(outer(np.arange(len(even[0])) % 3, x), NAME, 0, 0, axis_index_groups=even),
                               np.arange(len(even[0])) % 2)]
    if depth == 0 or rng.integers(3):
        return flat[rng.integers(len(flat))]
    f, g = sequence(rng, rows, 1, depth - 1), sequence(rng, rows, 1, depth - 1)

    @custom_jvp
    def with_jvp(x):
        return f(x)
    with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), lax.neg(lax.psum(tangents[0], NAME))))

    @custom_vjp
    def with_vjp(x):
        return f(x)
    with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda _, ct: (lax.ppermute(ct, NAME, pairs),))

    def looped(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]

    def alike(x):
        return lax.cond(lax.gt(total(lax.psum(x, NAME)), np.float32(0)), f, g, x)

    def alone(x):
        return lax.cond(lax.gt(total(x), np.float32(0)), lax.neg, lambda x: lax.mul(x, np.float32(2)), x)

    def hiding(x):
        return vmap(lambda v: lax.sub(v, lax.psum(v, NAME)), axis_name=NAME)(x)

    def inward(x):
        return vmap(lambda v: lax.sub(lax.psum(v, (NAME, "j")), lax.ppermute(v, NAME, pairs)), axis_name="j")(x)

    def gradient(x):
        return grad(lambda x: total(lax.mul(x, lax.stop_gradient(f(x)))))(x)

    nested = [looped, alike, alone, hiding, inward, gradient, jit(f), checkpoint(f), with_jvp, with_vjp]
    return nested[rng.integers(len(nested))]
