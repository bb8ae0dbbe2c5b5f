"""A resharded array holds the same data as one put by the host, on every device, without transfers to the host."""
import lamina
import numpy as np
from hypothesis import given, settings, strategies as st
from lamina_runtime import transfer_counts
from lamina_runtime._sharding.shardings import mapped_sharding, replicated_sharding

DTYPES = ("bool", "int8", "int32", "uint16", "float16", "float32", "bfloat16", "complex64")


@st.composite
def placements(draw, shape):
    """Return a sharding over any devices in any order: dimensions that divide are split over some, the others hold copies."""
    n = draw(st.sampled_from([1, 2, 3, 4, 5, 6, 8]))
    order = tuple(draw(st.permutations(lamina.devices())))[:n]
    left, dims = n, []
    for d in draw(st.permutations(range(len(shape)))):
        k = draw(st.sampled_from([k for k in range(1, left + 1) if left % k == 0 and shape[d] % k == 0]))
        if k > 1:
            dims.append((d, k))
            left //= k
    return mapped_sharding(order, len(shape), tuple(dims), left) if dims else replicated_sharding(order)


@st.composite
def moves(draw):
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24]), min_size=1, max_size=3)))
    return shape, draw(st.sampled_from(DTYPES)), draw(placements(shape)), draw(placements(shape)), draw(placements(shape))


@settings(max_examples=150, deadline=None)
@given(moves())
def test_resharded_array_matches_device_put_from_host(move):
    shape, dtype, first, second, third = move
    host = (np.arange(np.prod(shape)) % 97).reshape(shape).astype(lamina.numpy.dtype(dtype))
    x = lamina.device_put(host, first)
    before = transfer_counts()
    y = lamina.device_put(x, second)
    z = lamina.device_put(y, third)
    assert not any(transfer_counts() - before)
    for moved, place in ((y, second), (z, third)):
        assert moved.sharding == place and moved.committed and moved.dtype == host.dtype
        for mine, hosts in zip(moved.addressable_shards, lamina.device_put(host, place).addressable_shards, strict=True):
            assert mine.device == hosts.device and mine.index == hosts.index
            np.testing.assert_array_equal(np.asarray(mine.data), np.asarray(hosts.data))
        np.testing.assert_array_equal(np.asarray(moved), host)
