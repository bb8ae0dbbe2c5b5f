"""Memory shared with other libraries is read correctly for every memory order, dtype and owner, and stays valid."""
import numpy as np
import pytest
from lamina_ir import config
from lamina_runtime import device_put, devices, from_dlpack
from lamina_runtime.dlpack import is_supported_dtype
from lamina_tracing import jit, lax

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


class Foreign:
    """An array of another library."""

    def __init__(self, held):
        self.held = held

    def __dlpack__(self, **more):
        return self.held.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.held.__dlpack_device__()


def align(value):
    """Copy a value to memory that jaxlib uses without copying."""
    buffer = np.zeros(value.nbytes + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    found = buffer[start:start + value.nbytes].view(value.dtype).reshape(value.shape)
    found[...] = value
    return found


def make_read_only(value):
    value = value.copy()
    value.flags.writeable = False
    return value


SHARED = {"rows": align(ROWS), "columns": align(ROWS).T,
          "axes moved": align(np.arange(24, dtype="f4").reshape(2, 3, 4)).transpose(1, 2, 0),
          "backwards": ROWS[::-1], "backwards along rows": ROWS[:, ::-1], "with gaps": ROWS[:, ::2],
          "one row again": np.broadcast_to(ROWS[0], (4, 3)), "nothing": np.zeros((0, 3), "f4"),
          "booleans": np.array([True, False]), "halves": ROWS.astype("f2"), "read-only": make_read_only(ROWS)}


@pytest.mark.parametrize("owner", [lambda x: x, Foreign], ids=["NumPy", "another library"])
@pytest.mark.parametrize("what", SHARED)
def test_from_dlpack_of_any_memory_order(what, owner):
    x = SHARED[what]
    if owner is Foreign and not x.flags.writeable and np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy before 2.1 does not export read-only memory")
    y = from_dlpack(owner(x))
    assert y.shape == x.shape and y.dtype == x.dtype
    for seen in (y, jit(lambda v: v)(y), device_put(y, devices()[1]), lax.reshape(y, (x.size,)).reshape(x.shape)):
        np.testing.assert_array_equal(np.asarray(seen), x)
    assert repr(y) == repr(device_put(np.ascontiguousarray(x)))


@pytest.mark.parametrize("dtype, narrow", [("float64", "float32"), ("int64", "int32"), ("uint64", "uint32"),
                                           ("complex128", "complex64")])
def test_64_bit_dtypes_follow_enable_x64(dtype, narrow):
    x = np.arange(3, dtype=dtype)
    for owner in (x, Foreign(x)):
        assert from_dlpack(owner).dtype == narrow
        with config.enable_x64(True):
            assert from_dlpack(owner).dtype == dtype


@pytest.mark.parametrize("bad, kind", [(3, TypeError), ([1.0], TypeError), (np.array(["a"]), TypeError)])
def test_unsupported_objects_are_refused(bad, kind):
    with pytest.raises(kind):
        from_dlpack(bad)


def test_exported_memory_outlives_the_array():
    x = device_put(ROWS)
    view, capsule = np.from_dlpack(x), x.__dlpack__()
    x.delete()
    np.testing.assert_array_equal(view, ROWS)
    del capsule


def test_exported_memory_outlives_donation():
    add = jit(lambda v: lax.add(v, v), donate_argnums=0)
    for k in range(3):  # the first call runs in Python, later ones on the fast path
        x = device_put(np.full(5000, k, np.float32))
        view = np.from_dlpack(x)
        out = add(x)
        assert x.is_deleted() and (view == k).all() and (np.asarray(out) == 2 * k).all()


def test_supported_dtypes():
    assert all(map(is_supported_dtype, ("bool", "int8", "uint64", "float16", "bfloat16", np.complex64)))
    assert not any(map(is_supported_dtype, ("int4", "float8_e4m3fn", "float8_e5m2")))
