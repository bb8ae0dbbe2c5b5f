"""A program gives the same results on any mesh, with any specs, as without; each device holds the shard of its position."""
import lamina
import lamina.numpy as jnp
import numpy as np
from hypothesis import given, strategies as st
from lamina import lax
from lamina.experimental.pjit import pjit
from lamina.sharding import Mesh, NamedSharding, PartitionSpec as P
from lamina_ir.config import enable_x64

FORMS = [(8,), (4,), (3,), (1,), (2, 4), (4, 2), (2, 3), (6, 1), (1, 4), (2, 2, 2), (1, 2, 3), (2, 1, 4)]
NAMES = st.permutations(["x", "y", "z"])


@st.composite
def meshes(draw):
    """Return a mesh of some devices, in any order, in any shape."""
    form = draw(st.sampled_from(FORMS))
    devices = draw(st.permutations(lamina.devices()))[:int(np.prod(form))]
    return Mesh(np.reshape(devices, form), draw(NAMES)[:len(form)])


@st.composite
def specs(draw, mesh, shape):
    """Return any spec for an array of this shape: an entry for some dimensions, of some axes in any order."""
    left, entries = list(draw(st.permutations(mesh.axis_names))), []
    for n in shape[:draw(st.integers(0, len(shape)))]:
        chosen = []
        while left and draw(st.booleans()) and n % int(np.prod([mesh.shape[a] for a in (*chosen, left[-1])])) == 0:
            chosen.append(left.pop())
        one = len(chosen) == 1 and draw(st.booleans())
        entries.append(chosen[0] if one else tuple(chosen) if chosen else draw(st.sampled_from([None, ()])))
    return P(*entries)


def block(mesh, spec, shape, device):
    """Return the index of the shard on a device of a mesh, from its position there."""
    position = dict(zip(mesh.axis_names, np.argwhere(mesh.devices == device)[0]))
    found = []
    for n, entry in zip(shape, [*spec, *[None] * (len(shape) - len(spec))]):
        number, parts = 0, 1
        for name in () if entry is None else entry if isinstance(entry, tuple) else (entry,):
            number, parts = number * mesh.shape[name] + position[name], parts * mesh.shape[name]
        found.append(slice(number * (n // parts), (number + 1) * (n // parts)))
    return tuple(found)


def check_array(x, want, spec=None):
    np.testing.assert_array_equal(np.asarray(x), want)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), want[shard.index])
        if isinstance(x.sharding, NamedSharding):
            np.testing.assert_array_equal(np.asarray(shard.data), want[block(x.sharding.mesh, x.sharding.spec, x.shape,
                                                                             shard.device)])
    if spec is not None:
        assert x.sharding.spec == spec


A, B = (12, 24), (24, 8)
PROGRAMS = {
    "product": (lambda a, b: a @ b, (12, 8)),
    "transposed": (lambda a, b: (a + b.sum(1)).T, (24, 12)),
    "sums": (lambda a, b: a.sum(0)[:, None] + b, (24, 8)),
    "sorted": (lambda a, b: jnp.sort(a, 1) * b[:, 0], (12, 24)),
    "gathered": (lambda a, b: a[:, ::-1][:, :8] + b[np.arange(12) * 2], (12, 8)),
    "scanned": (lambda a, b: lax.scan(lambda c, r: (c + r, c * 2), jnp.zeros(24), a)[1][:, :8], (12, 8)),
    "derived": (lambda a, b: lamina.grad(lambda b: ((a @ b) ** 2).sum() / 4)(b), (24, 8)),
    "mapped": (lambda a, b: lamina.vmap(lambda r: r @ b)(a), (12, 8)),
}


@st.composite
def cases(draw):
    mesh, name = draw(meshes()), draw(st.sampled_from(sorted(PROGRAMS)))
    shape = PROGRAMS[name][1]
    return mesh, name, draw(specs(mesh, A)), draw(specs(mesh, B)), draw(specs(mesh, shape)), draw(specs(mesh, shape))


@given(cases())
def test_results_do_not_depend_on_mesh_and_specs(case):
    mesh, name, for_a, for_b, for_out, inside = case
    f = PROGRAMS[name][0]
    with enable_x64(False):
        rng = np.random.default_rng(len(name))
        a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in (A, B))
        want = np.asarray(lamina.jit(f)(a, b))
        pa, pb = (lamina.device_put(v, NamedSharding(mesh, s)) for v, s in ((a, for_a), (b, for_b)))
        check_array(pa, a, for_a)
        check_array(pb, b, for_b)
        for _ in range(2):
            check_array(lamina.jit(f)(pa, pb), want)

        def constrained(a, b):
            return lax.with_sharding_constraint(f(a, b) * 2, NamedSharding(mesh, inside)) / 2

        check_array(lamina.jit(constrained)(pa, b), want)
        with_shardings = lamina.jit(constrained, in_shardings=(NamedSharding(mesh, for_a), None),
                                    out_shardings=NamedSharding(mesh, for_out))
        with mesh:
            by_name = pjit(constrained, in_shardings=(for_a, for_b), out_shardings=for_out)
            for _ in range(2):
                check_array(with_shardings(a, b), want, for_out)
                check_array(by_name(a, pb), want, for_out)
