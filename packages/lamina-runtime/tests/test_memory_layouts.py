"""Memory layouts and DLPack capsules of arrays."""
import lamina_runtime as lr
import numpy as np
import pytest
from lamina_parallel import pmap
from lamina_runtime import dlpack, memory_layouts, visualizing
from lamina_tracing import Array, jit


def test_layouts_of_arrays():
    x = lr.device_put(np.ones((2, 3, 4), np.float32))
    assert x.layout == memory_layouts.Layout(memory_layouts.DeviceLocalLayout((0, 1, 2)), x.sharding)
    assert memory_layouts.DeviceLocalLayout.from_text("{0,1:T(8,128)}") == memory_layouts.DeviceLocalLayout((1, 0), "T(8,128)")
    rows = pmap(lambda r: r)(np.ones((lr.local_device_count(), 2), np.float32))
    assert rows.layout.device_local_layout.major_to_minor == (0, 1) and rows.layout.sharding is rows.sharding
    assert x.device_buffer.shape == x.shape and len(rows.device_buffers) == lr.local_device_count()


def test_inspect_array_sharding_calls_back():
    x = lr.device_put(np.float32([1, 2]))
    seen = []
    visualizing.inspect_array_sharding([x], callback=seen.append)
    assert seen == [x.sharding] and Array.sharding is type(x).sharding
    with pytest.raises(TypeError, match="inspect_array_sharding: .*Inside jit"):
        jit(lambda v: visualizing.inspect_array_sharding(v, callback=print))(x)


def test_dlpack_capsules():
    x = lr.device_put(np.arange(3, dtype=np.float32))
    assert type(dlpack.to_dlpack(x)).__name__ == "PyCapsule" and x.dtype.type in dlpack.SUPPORTED_DTYPES
    with pytest.raises(ValueError, match="to_dlpack: src_device must be the device of the array"):
        dlpack.to_dlpack(x, src_device="elsewhere")
    with pytest.raises(TypeError, match="to_dlpack: expected an array on a device; got list"):
        dlpack.to_dlpack([1])
