"""`_repr_html_` of arrays, keys, shardings, meshes and plans."""
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from lamina_ir import config, dtypes
from lamina_parallel import Mesh, PartitionSpec as P
from lamina_runtime import NamedSharding, device_put, devices, make_mesh, transfer_counts
from lamina_runtime._array import array_html, arrays
from lamina_tracing import jit, lax, make_jaxpr


def shown(x: object) -> str:
    text = x._repr_html_()  # type: ignore[attr-defined]
    ElementTree.fromstring(f"<div>{text}</div>")
    assert "<script" not in text and len(text) < 60_000
    return text


@pytest.mark.parametrize("dtype", ["bool", "int4", "int8", "uint64", "bfloat16", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (3, 4), (2, 3, 40), (600, 70)])
def test_arrays_of_every_dtype_and_shape(shape, dtype):
    with config.enable_x64(dtype == "uint64"):
        text = shown(device_put(np.ones(shape, dtypes.as_dtype(dtype))))
    assert f"{dtype}[{', '.join(map(str, shape))}]" in text and "cpu:0" in text and "not shown" not in text


def test_small_arrays_show_their_values_and_large_ones_a_picture():
    assert "[1., 2.]" in shown(device_put(np.float32([1, 2])))
    text = shown(device_put(np.arange(1e6, dtype="float32").reshape(1000, 1000)))
    assert "<svg" in text and "x[::32, ::32]" in text


def test_large_arrays_are_not_copied():
    x = device_put(np.zeros((2000, 1000), np.float32))
    before = transfer_counts()
    shown(x)
    assert transfer_counts() == before and x._npy_value is None


def test_other_devices_transfer_only_what_is_shown(monkeypatch):
    mesh = make_mesh((4, 2), ("x", "y"))
    for sharding in (devices()[0], NamedSharding(mesh, P("x", "y"))):
        x = device_put(np.arange(300 * 200, dtype=np.float32).reshape(300, 200), sharding)
        expected, before = shown(x), transfer_counts()
        with monkeypatch.context() as patch:
            patch.setattr(x.sharding, "on_host", False)  # as on an accelerator
            assert shown(x) == expected
        assert 0 < transfer_counts().to_host_bytes - before.to_host_bytes <= 32 * 32 * 4 and x._npy_value is None


def test_deleted_arrays_and_failed_reads_show_what_is_known(monkeypatch):
    x = device_put(np.ones((3, 3), np.float32))
    monkeypatch.setattr(array_html.arrays, "host_value", lambda x: (_ for _ in ()).throw(RuntimeError("<lost>")))
    assert "not shown: RuntimeError: &lt;lost&gt;" in shown(x)
    monkeypatch.undo()
    x.delete()
    assert "deleted" in shown(x)


def test_sharded_arrays_show_the_elements_of_all_devices():
    mesh = make_mesh((4, 2), ("x", "y"))
    values = np.random.default_rng(0).normal(size=(200, 300)).astype(np.float32)
    whole = shown(device_put(values))
    for spec in (P("x", "y"), P("y"), P(None, "x"), P()):
        text = shown(device_put(values, NamedSharding(mesh, spec)))
        assert text[text.index("<svg"):] == whole[whole.index("<svg"):] and "NamedSharding" in text


def test_parts_of_other_processes_are_marked(monkeypatch):
    mesh = make_mesh((8,), ("x",))
    x = device_put(np.ones((64, 2000), np.float32), NamedSharding(mesh, P("x")))
    mine = arrays.addressable_shards(x)[:4]
    monkeypatch.setattr(array_html, "_is_readable", lambda x: False)
    monkeypatch.setattr(array_html.arrays, "addressable_shards", lambda x: mine)
    assert "512 elsewhere (dot)" in shown(x)


def test_a_display_inside_a_traced_function_adds_no_equation(monkeypatch):
    x = device_put(np.ones((300, 200), "bfloat16"))
    expected = shown(x)

    def f(y):
        assert shown(x) == expected
        assert not hasattr(y, "_repr_html_")
        return y

    assert not make_jaxpr(f)(1.0).eqns


def test_meshes_shardings_and_plans():
    mesh = make_mesh((4, 2), ("<x>", "y"))
    assert "cpu:7" in shown(mesh) and "&lt;x&gt; down, y across" in shown(mesh)
    assert "8" in shown(Mesh(devices()[:8], "i"))
    for spec in (P(), P("<x>"), P(None, ("<x>", "y")), P("y", None, "<x>")):
        assert "NamedSharding" in shown(NamedSharding(mesh, spec))
    assert "cpu:0" in shown(device_put(1.0).sharding)
    text = shown(jit(lax.sin, in_shardings=NamedSharding(mesh, P("y"))).lower(np.ones(8, np.float32)).compile().plan())
    assert "<svg" in text and "arguments" in text and 'fill="#fff"/>' not in text
