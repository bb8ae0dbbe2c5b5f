"""Every collective in every form over xmap axes: results do not depend on how members are divided. Integers match exactly,
floats, tangents and cotangents up to the order of sums."""
import math
import os

import lamina as jax
import lamina.numpy as jnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental.maps import Mesh, SerialLoop, xmap

WIDE = bool(os.environ.get("LAMINA_WIDE"))


def permuted(n):
    """Return all numbers below n, permuted."""
    return [(5 * k + 2) % n for k in range(n)]


def equal(n):
    return [permuted(n)[:n // 2], permuted(n)[n // 2:]]


def uneven(n):
    return [permuted(n)[:1], permuted(n)[1:]]


# Functions of a member's value (2n numbers), the axis names, and the number n of members.
FORMS = {
    "psum": lambda x, i, n: lax.psum(x, i),
    "psum in groups": lambda x, i, n: lax.psum(x, i, axis_index_groups=uneven(n)),
    "psum of a tree": lambda x, i, n: sum(lax.psum((x, 3, {"twice": 2 * x, "first": x[0]}), i)[2].values()),
    "psum of numbers": lambda x, i, n: x * (lax.psum(1, i) + lax.psum(lax.axis_index(i), i)),
    "pmean": lambda x, i, n: lax.pmean(x, i),
    "pmean in groups": lambda x, i, n: lax.pmean(x, i, axis_index_groups=equal(n)),
    "pmax": lambda x, i, n: lax.pmax(x % 7, i),
    "pmax in groups": lambda x, i, n: lax.pmax(x, i, axis_index_groups=uneven(n)),
    "pmin": lambda x, i, n: lax.pmin(x, i),
    "pmin in groups": lambda x, i, n: lax.pmin(x % 7, i, axis_index_groups=equal(n)),
    "pargmax": lambda x, i, n: x * lax.pargmax(x % 7, i).astype(x.dtype),
    "pargmin": lambda x, i, n: x * lax.pargmin(x % 7, i).astype(x.dtype),
    "all_gather": lambda x, i, n: lax.all_gather(x, i)[::-1],
    "all_gather axis 1": lambda x, i, n: lax.all_gather(x, i, axis=1),
    "all_gather tiled": lambda x, i, n: lax.all_gather(x[:3], i, axis=0, tiled=True),
    "all_gather in groups": lambda x, i, n: lax.all_gather(x, i, axis_index_groups=equal(n)),
    "psum_scatter": lambda x, i, n: lax.psum_scatter(x[:n], i),
    "psum_scatter axis 1": lambda x, i, n: lax.psum_scatter(x.reshape(2, n), i, scatter_dimension=1),
    "psum_scatter tiled": lambda x, i, n: lax.psum_scatter(x, i, tiled=True),
    "psum_scatter in groups": lambda x, i, n: lax.psum_scatter(x, i, axis_index_groups=equal(n), tiled=True),
    "all_to_all": lambda x, i, n: lax.all_to_all(x.reshape(2, n), i, 1, 0),
    "all_to_all in place": lambda x, i, n: lax.all_to_all(x.reshape(n, 2), i, 0, 0),
    "all_to_all tiled": lambda x, i, n: lax.all_to_all(x.reshape(2, n), i, 1, 0, tiled=True),
    "all_to_all in groups": lambda x, i, n: lax.all_to_all(x.reshape(n // 2, 4), i, 0, 1, axis_index_groups=equal(n)),
    "ppermute": lambda x, i, n: lax.ppermute(x, i, [*zip(range(n), permuted(n))]),
    "ppermute by one": lambda x, i, n: lax.ppermute(x, i, [(k, (k + 1) % n) for k in range(n)]),
    "ppermute of some": lambda x, i, n: lax.ppermute(x, i, [(k, (3 * k + 1) % n) for k in range(1, n)]),
    "pshuffle": lambda x, i, n: lax.pshuffle(x, i, permuted(n)),
    "pbroadcast": lambda x, i, n: lax.pbroadcast(x, i, n - 2),
    "pswapaxes": lambda x, i, n: lax.pswapaxes(x.reshape(2, n), i, 1),
    "pdot": lambda x, i, n: lax.pdot(x, x[::-1], i, ((), ())),
    "pdot of a matrix": lambda x, i, n: lax.pdot(x.reshape(2, n), x.reshape(n, 2), i, ((1,), (0,))),
    "einsum": lambda x, i, n: jnp.einsum("a{%s},b{%s}->ab" % (2 * (",".join(i),)), x[:3], x[3:5]),
    "axis_index": lambda x, i, n: x * lax.axis_index(i),
    "sum": lambda x, i, n: jnp.sum(x, axis=(*i, 0)),
    "max": lambda x, i, n: jnp.max(x % 7, axis=(*i, 0)),
    "argmin": lambda x, i, n: x * jnp.argmin(x % 7, axis=i[0]).astype(x.dtype),
    "sort": lambda x, i, n: jnp.sort(x, axis=i[-1]),
    "cumsum": lambda x, i, n: jnp.cumsum(x, axis=i[0]),
}
SIZES = {"a": 4, "b": 8}
# For each axis its resources: axes of a mesh x: 2, y: 2, z: 2, and numbers of iterations, in all combinations; and two axes.
DIVISIONS = {
    "loop": {"b": (8,)}, "loop, within": {"b": (4,)}, "device": {"b": ("x", "z", "y")}, "device, within": {"b": ("y",)},
    "device, loop": {"b": ("x", 4)}, "devices, loop": {"b": ("z", "x", 2)}, "device, loop, within": {"b": ("y", 2)},
    "loops": {"b": (2, 4)},
    "within and device": {"a": (), "b": ("x", "y", "z")}, "loop and device, within": {"a": (4,), "b": ("x",)},
    "device and loop, within": {"a": ("y", "x"), "b": (4,)}, "device, loop and within": {"a": ("x", 2), "b": ()},
    "device, within and device, loop, within": {"a": ("x",), "b": ("y", 2)}, "loop, within and loop": {"a": (2,), "b": (8,)},
    "device and device, within": {"a": ("x", "y"), "b": ("z",)}, "two of device, loop": {"a": ("z", 2), "b": ("y", "x", 2)},
    "loop, within and device, loop, within": {"a": (2,), "b": ("x", 2)},
}


def cases():
    """Yield all cases in a wide run, else each division with one or two forms, different ones in sequence."""
    for k, form in enumerate(FORMS):
        for j, division in enumerate(DIVISIONS):
            orders = ("ab", "ba") if len(DIVISIONS[division]) > 1 else ("b",)
            if WIDE:
                yield from [(form, division, names) for names in orders]
            elif (7 * k + j) % 32 == 0:
                yield form, division, orders[k % len(orders)]


def mapped(form, names, division=None):
    """Return the function of all members."""
    axes, n = sorted(names), math.prod([SIZES[a] for a in names])
    resources = {a: tuple([SerialLoop(r) if isinstance(r, int) else r for r in mine]) for a, mine in (division or {}).items()}
    return xmap(lambda x: FORMS[form](x, tuple(names), n), [*axes, ...], [*axes, ...], axis_resources=resources)


@pytest.mark.parametrize("form, division, names", list(cases()))
def test_collective_does_not_depend_on_the_division_of_members(form, division, names):
    n, rng = math.prod([SIZES[a] for a in names]), np.random.default_rng(len(form))
    shape = (*[SIZES[a] for a in sorted(names)], 2 * n)
    whole, parts = rng.integers(-99, 99, shape).astype(np.int32), rng.normal(size=shape)
    f, h = mapped(form, names), mapped(form, names, DIVISIONS[division])
    x, t = parts.astype(np.float32), np.cos(parts).astype(np.float32)
    y = jax.eval_shape(f, x)
    ct = np.sin(np.arange(math.prod(y.shape), dtype=np.float32)).reshape(y.shape)

    def both(g):
        def run(x, t, ct):
            out, tangent = jax.jvp(g, (x,), (t,))
            return out, tangent, jax.vjp(g, x)[1](ct)[0]
        return jax.jit(run)

    with Mesh(np.array(jax.devices()[:8], object).reshape(2, 2, 2), ("x", "y", "z")):
        assert np.array_equal(h(whole), f(whole))
        for found, wanted in zip(both(h)(x, t, ct), both(f)(x, t, ct), strict=True):
            assert found.shape == wanted.shape and found.dtype == wanted.dtype
            scale = float(jnp.abs(wanted).max()) * n + 1
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=2.0 ** -23 * scale)
