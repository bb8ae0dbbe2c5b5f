"""`padded` on eight devices: number of compilations, and placement of members and results."""
import logging

import lamina
import numpy as np
import pytest
from lamina import lax
from lamina.parallel import padded


def compilations(caplog, name):
    found = [r.getMessage() for r in caplog.records if r.getMessage().startswith(f"`{name}` (")]
    return [m for m in found if "compiled in" in m or "loaded from disk" in m]


def rows(n):
    return np.arange(4.0 * n, dtype=np.float32).reshape(n, 4)


def test_one_program_per_number_of_rounds(caplog):
    def doubled_for_count(x):
        return x * 2

    caplog.set_level(logging.WARNING)
    with lamina.log_compiles():
        for n in (9, 12, 16, 9):
            np.testing.assert_array_equal(padded(doubled_for_count)(rows(n)), rows(n) * 2)
        assert len(compilations(caplog, "doubled_for_count")) == 1
        padded(doubled_for_count)(rows(17))
        assert len(compilations(caplog, "doubled_for_count")) == 2


def test_one_program_per_number_of_members_with_a_named_axis(caplog):
    def shared_for_count(x):
        return x / lax.psum(x, "i")

    caplog.set_level(logging.WARNING)
    with lamina.log_compiles():
        for n in (9, 10, 9, 10):
            np.testing.assert_allclose(padded(shared_for_count, "i")(rows(n)), rows(n) / rows(n).sum(0), rtol=1e-6)
    assert len(compilations(caplog, "shared_for_count")) == 2


@pytest.mark.parametrize("name", [None, "i"])
def test_members_of_a_device_are_contiguous(name):
    f = padded((lambda x: x + lax.psum(x, "i")) if name else lambda x: x + 1, name)
    out = f(rows(16))
    where = {s.device.id: (s.index[0].start, s.index[0].stop) for s in out.addressable_shards}
    assert where == {d: (2 * d, 2 * d + 2) for d in range(8)}
    again = f(out)
    assert again.sharding == out.sharding and len(again.devices()) == 8


@pytest.mark.parametrize("n", [3, 8, 9, 16, 23])
def test_padded_inside_jit(n):
    f = lambda x: x * lax.psum(x, "i") + lax.axis_index("i")  # noqa: E731
    x = np.random.default_rng(n).integers(-3, 4, (n, 4)).astype(np.float32)
    mapped = padded(f, "i")
    want = np.asarray(lamina.vmap(f, axis_name="i")(x))
    np.testing.assert_array_equal(lamina.jit(mapped)(x), want)
    make_gradient = lambda m: lamina.grad(lambda x: (m(x) * want).sum())  # noqa: E731
    np.testing.assert_array_equal(lamina.jit(make_gradient(mapped))(x), make_gradient(lamina.vmap(f, axis_name="i"))(x))


def test_given_devices():
    some = lamina.devices()[5:]
    out = padded(lambda x: -x, devices=some)(rows(5))
    np.testing.assert_array_equal(out, -rows(5))
    assert padded(lambda x: -x, devices=some)(rows(6)).devices() == set(some)
    assert padded(lambda x: -x, devices=some)(rows(2)).devices() == set(some[:2])


def test_padded_inside_pmap_and_padded():
    x = np.arange(30.0, dtype=np.float32).reshape(5, 6)
    want = x + x.sum(1, keepdims=True)
    inner = lambda v: padded(lambda s: s + lax.psum(s, "j"), "j")(v)  # noqa: E731
    np.testing.assert_array_equal(lamina.pmap(inner, "i")(x), want)
    np.testing.assert_array_equal(padded(inner, "i", devices=lamina.devices()[:2])(x), want)
