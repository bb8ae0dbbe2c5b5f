"""Arrays from buffers and text, and from one element type to another."""
from __future__ import annotations

import lamina_numpy as jnp
import numpy as np
import pytest
from lamina_tracing import hooks


@pytest.mark.parametrize("dtype", [">f4", "<f4", ">i2", np.dtype(">u4"), np.dtype("<i2"), "uint8"], ids=str)
def test_buffers_are_read_in_the_byte_order_they_are_said_to_have(dtype):
    data = np.arange(5).astype(dtype)
    got = jnp.frombuffer(data.tobytes(), dtype)
    assert got.dtype == data.dtype.newbyteorder("=")
    np.testing.assert_array_equal(np.asarray(got), data)


def test_texts_with_too_few_numbers_are_refused():
    with pytest.raises(ValueError, match="fromstring: expected 5 numbers; the text has 2"):
        jnp.fromstring("1 2", sep=" ", count=5)
    np.testing.assert_array_equal(np.asarray(jnp.fromstring("1 2 rest", sep=" ", count=2)), [1, 2])
    np.testing.assert_array_equal(np.asarray(jnp.fromstring("1 2 3", sep=" ")), [1, 2, 3])


def test_astype_copies_if_copy_is_true():
    x = jnp.ones(2)
    assert x.astype("float32") is x and jnp.astype(x, "float32") is x
    assert x.astype("float32", copy=True) is not x and jnp.astype(x, "float32", copy=True) is not x


def test_astype_puts_the_result_on_device(monkeypatch):
    monkeypatch.setattr(hooks, "device_put", lambda x, device: (x.dtype.name, device))
    assert jnp.ones(2).astype("int32", device="there") == ("int32", "there") == jnp.astype(1.5, "int32", device="there")
