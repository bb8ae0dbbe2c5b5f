"""Random programs under `xmap` match nested `vmap`: values exactly, derivatives within rounding. Also over a mesh, with serial
axes (`SerialLoop`), both, and with a `pmap` for the outermost axis."""
from __future__ import annotations

import os

import lamina
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax, random
from lamina.experimental.maps import Mesh, SerialLoop, xmap

COUNT = int(os.environ.get("LAMINA_LAWS", "3"))
SIZES = {"i": 2, "j": 4, "k": 2}
SHAPES = [(4, 2), (2, 2, 2), (2, 4)]


@lamina.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda x, t: (doubled(*x), 2 * t[0]))


@lamina.custom_vjp
def halved(x):
    return x / 2


halved.defvjp(lambda x: (x / 2, None), lambda _, ct: (ct / 2,))


@lamina.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, ct: (jnp.clip(ct, -3, 3),))


def random_operation(rng, names):
    """Return a function of two arrays of shape (4,): its name for reports, the function."""
    axis = names[rng.integers(len(names))]
    size = SIZES[axis]
    shift = [(k, (k + 1) % size) for k in range(size)]

    def each(v):
        return v + lax.axis_index(axis)

    ops = {
        "add": lambda x, y: x + y,
        "mul": lambda x, y: x * (y % 3),
        "psum": lambda x, y: lax.psum(x, axis),
        "psum of all": lambda x, y: lax.psum(x + y, tuple(names)),
        "pmean": lambda x, y: x - lax.pmean(y, axis),
        "pmax": lambda x, y: lax.pmax(x, axis) - y,
        "gather": lambda x, y: lax.all_gather(x, axis).sum(0) * 2 - y,
        "permute": lambda x, y: lax.ppermute(x, axis, shift),
        "scatter": lambda x, y: jnp.tile(lax.psum_scatter(x, axis, tiled=True), size) + y,
        "exchange": lambda x, y: lax.all_to_all(x.reshape(size, -1), axis, 0, 0).reshape(-1),
        "broadcast": lambda x, y: lax.pbroadcast(x, axis, size - 1) + y,
        "index": lambda x, y: x * lax.axis_index(axis),
        "cumsum": lambda x, y: jnp.cumsum(x) + y,
        "scan": lambda x, y: lax.scan(lambda c, v: (c + v * lax.psum(v, axis) % 5, c), 0.0, x)[1] + y,
        "cond": lambda x, y: lax.cond(y[0] > 2, lambda x: x * 2, lambda x: x + 1, x),
        "while": lambda x, y: lax.fori_loop(0, 2, lambda _, v: v + lax.psum(v, axis) % 3, x),
        "checkpoint": lambda x, y: lamina.checkpoint(lambda x: lax.psum(x * 2, axis) + y)(x),
        "jit": lambda x, y: lamina.jit(lambda x, y: lax.psum(x, axis) - y)(x, y),
        "custom_jvp": lambda x, y: doubled(lax.psum(x, axis)) + y,
        "custom_vjp": lambda x, y: halved(x) + y,
        "vmap": lambda x, y: lamina.vmap(lambda a: a + lax.psum(a, axis))(x),
        "grad": lambda x, y: lamina.grad(lambda x: (x * lax.psum(x, axis)).sum())(x),
        "custom_vjp that clips": lambda x, y: clipped(x * 2) + clipped(lax.psum(y, axis)),
        "einsum": lambda x, y: jnp.einsum(f"a{{{axis}}},a{{{axis}}}->a", each(x), each(y % 3)),
        "einsum of names": lambda x, y: jnp.einsum(f"a{{{axis}}},b{{{axis}}}->b", each(x), each(y % 3)) + x,
        "sum along": lambda x, y: jnp.sum(x, axis=(axis, 0)) + y,
        "max along": lambda x, y: jnp.max(x, axis=axis) - y,
        "argmax along": lambda x, y: jnp.argmax(x, axis=axis) + y,
        "sort along": lambda x, y: jnp.sort(x, axis=axis) * 2 + y,
        "cumsum along": lambda x, y: jnp.cumsum(x % 5, axis=axis) + y,
        "pargmax": lambda x, y: x + lax.pargmax(y, axis),
        "swap": lambda x, y: lax.pswapaxes(jnp.stack([x, y] * (size // 2)), axis, 0).sum(0),
        "random": lambda x, y: x + random.randint(random.PRNGKey(7), (4,), 0, 5),
        "random by index": lambda x, y: y + random.randint(random.fold_in(random.PRNGKey(7), lax.axis_index(axis)), (4,), 0, 5),
        "random along": lambda x, y: x + random.randint(random.PRNGKey(7), random.NamedShape(4, **{axis: size}), 0, 5),
        "sort": lambda x, y: jnp.sort(x) + y,
        "constant": lambda x, y: jnp.arange(4.0) + y[::-1],
    }
    name = list(ops)[rng.integers(len(ops))]
    return f"{name} over {axis}", ops[name]


def random_program(seed):
    rng = np.random.default_rng(seed)
    names = ["i", "j", "k"][:rng.integers(1, 4)]
    steps = [(random_operation(rng, names), rng.integers(0, 2 + n), rng.integers(0, 2 + n)) for n in range(4)]

    def fun(x, y):
        values = [x, y]
        for (_, op), a, b in steps:
            values.append(op(values[a], values[b]) % 64)
        return values[-1], values[-2]

    placed = []  # for each argument: dimension -> name
    for _ in range(2):
        mine = [n for n in names if rng.integers(3)]
        order = rng.permutation(len(mine) + 1)  # one dimension is not mapped
        placed.append({int(at): n for at, n in zip(order, mine)})
    args = []
    for mine in placed:
        shape = [SIZES[mine[d]] if d in mine else 4 for d in range(len(mine) + 1)]
        args.append(rng.integers(0, 8, shape).astype(np.float32))
    return names, fun, placed, args, [text for (text, _), *_ in steps]


def random_mesh(seed):
    """Return a mesh of eight devices in any order, in one to three dimensions."""
    devices = np.random.default_rng(seed).permutation(np.array(lamina.devices()[:8], object))
    return Mesh(devices.reshape(SHAPES[seed % 3]), tuple("xyz"[:len(SHAPES[seed % 3])]))


def random_resources(seed, names, devices=True):
    rng = np.random.default_rng(seed)
    free = list(zip("xyz", SHAPES[seed % 3])) if devices else []
    rng.shuffle(free)
    found: dict = {}
    for name in names:
        remaining, mine = SIZES[name], []
        while free and remaining % int(free[-1][1]) == 0 and rng.integers(4):
            axis, n = free.pop()
            remaining //= int(n)
            mine.append(str(axis))
        iterations = int(rng.choice([n for n in (1, 2, 4) if remaining % n == 0]))
        if iterations > 1 or not rng.integers(4):
            mine.insert(rng.integers(len(mine) + 1), SerialLoop(iterations))
        if mine:
            found[name] = tuple(mine)
    return found


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_program_matches_nested_vmap(seed):
    names, fun, placed, args, text = random_program(seed)

    def nested(*args, outermost=lamina.vmap):
        """Return the results with all mapped axes first, in order."""
        f = fun
        fronts = [sorted(range(a.ndim), key=lambda d, mine=mine: names.index(mine[d]) if d in mine else 9)
                  for a, mine in zip(args, placed)]
        for name in reversed(names):
            how = outermost if name == names[0] else lamina.vmap
            f = how(f, in_axes=tuple([0 if name in mine.values() else None for mine in placed]), axis_name=name,
                    axis_size=SIZES[name])
        return f(*[jnp.transpose(a, order) for a, order in zip(args, fronts)])

    f = xmap(fun, tuple(placed), [*reversed(names), ...], axis_sizes={n: SIZES[n] for n in names})

    def g(*args, **how):
        return [jnp.transpose(o, (*reversed(range(len(names))), len(names))) for o in nested(*args, **how)]

    def p(*args):
        return g(*args, outermost=lamina.pmap)

    cts = [np.random.default_rng(seed).integers(0, 4, o.shape).astype(np.float32) for o in g(*args)]
    for run in (f, lamina.jit(f)):
        for a, b in zip(run(*args), g(*args)):
            assert a.shape == b.shape and np.array_equal(a, b), text

    def whole(h):
        return lambda *args: sum([(o * c).sum() for o, c in zip(h(*args), cts)])

    backward = any("clips" in t for t in text)  # a clipping rule has no forward derivative
    derivative = (lamina.grad, lambda h, n: lamina.jit(lamina.grad(h, n)), lamina.grad if backward else lamina.jacfwd)[seed % 3]
    for a, b in zip(derivative(whole(f), (0, 1))(*args), derivative(whole(g), (0, 1))(*args)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3, err_msg=str(text))
    for a, b in zip(p(*args), g(*args)):
        np.testing.assert_array_equal(a, b, err_msg=str(text))
    for a, b in zip(lamina.jit(lamina.grad(whole(p), (0, 1)))(*args), lamina.grad(whole(g), (0, 1))(*args)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3, err_msg=str(text))
    for devices in (True, False):
        h = xmap(fun, tuple(placed), [*reversed(names), ...], axis_sizes={n: SIZES[n] for n in names},
                 axis_resources=random_resources(seed, names, devices))
        with random_mesh(seed):
            for a, b in zip(h(*args), g(*args)):
                np.testing.assert_array_equal(a, b, err_msg=f"{text} {h.spec.resources}")
            for a, b in zip(lamina.jit(lamina.grad(whole(h), (0, 1)))(*args), lamina.grad(whole(g), (0, 1))(*args)):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-3, err_msg=f"{text} {h.spec.resources}")
    batch = [np.stack([a, a + 1]) for a in args]
    for a, b in zip(lamina.vmap(f)(*batch), lamina.vmap(g)(*batch)):
        assert np.array_equal(a, b), text
