"""Memory layouts and DLPack capsules of arrays."""
import lamina_runtime as lr
import numpy as np
import pytest
from lamina_parallel import pmap
from lamina_runtime import dlpack, layout, memory, memory_layouts, visualizing
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


def test_formats_stand_for_shardings():
    x = lr.device_put(np.ones((2, 3), np.float32))
    assert x.format == layout.Format(layout.Layout((0, 1)), x.sharding) and layout.Layout is layout.DeviceLocalLayout
    for given in (layout.Format(), layout.Format(layout.Layout.AUTO, x.sharding), x.format):
        np.testing.assert_array_equal(lr.device_put(x, given), x)
        np.testing.assert_array_equal(lr.device_put(np.ones(2), {"a": given}["a"]), np.ones(2))
        f = jit(lambda v: v + 1, in_shardings=given, out_shardings=given)
        np.testing.assert_array_equal(f(x), x + 1)
        compiled = f.lower(x).compile()
        assert compiled.input_formats[0][0].layout == compiled.output_formats.layout == layout.Layout((0, 1))
    assert jit(lambda v: layout.with_layout_constraint(v, layout.Layout((0, 1))))(x).format == x.format
    assert layout.with_layout_constraint({"a": x}, None)["a"] is x


@pytest.mark.parametrize("call", [
    lambda x, f: lr.device_put(x, f), lambda x, f: jit(lambda v: v, in_shardings=f)(x),
    lambda x, f: jit(lambda v: v, out_shardings=f)(x), lambda x, f: layout.with_layout_constraint(x, f.layout)])
def test_layouts_other_than_row_major_are_refused(call):
    x = lr.device_put(np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match=r"layout must be row-major, \(0, 1\) without tiles; got"):
        call(x, layout.Format(layout.Layout((1, 0)), x.sharding))
    with pytest.raises(ValueError, match="layout must be row-major"):
        call(x, layout.Format(layout.Layout((0, 1), "T(8,128)"), x.sharding))


def test_layout_must_fit_the_array():
    with pytest.raises(ValueError, match="with_layout_constraint: layout must have 1 dimensions"):
        layout.with_layout_constraint(np.ones(2), layout.Layout((0, 1)))
    with pytest.raises(TypeError, match="device_put: layout must be a Layout; got str"):
        lr.device_put(1.0, layout.Format("row-major"))


def test_arrays_are_in_the_memory_of_their_device():
    x = lr.device_put(1.0, memory.Space.Device)
    assert lr.device_put(x, memory.Space.Device) is x
    with pytest.raises(ValueError, match="device_put: the memory space must be Space.Device; got Space.Host"):
        lr.device_put(x, memory.Space.Host)
