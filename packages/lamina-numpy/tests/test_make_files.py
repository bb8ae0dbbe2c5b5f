"""Arrays written and read."""
from __future__ import annotations

import io
from typing import Any

import lamina_numpy as lnp
import numpy as np
import pytest


def save_and_load(x: Any) -> Any:
    file = io.BytesIO()
    lnp.save(file, x)
    file.seek(0)
    return lnp.load(file)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16"])
def test_what_was_saved_is_loaded(dtype: str) -> None:
    x = lnp.array([0, 1, 1], dtype)
    found = save_and_load(x)
    assert found.dtype == x.dtype and (found == x).all()


def test_elements_without_a_name_are_refused() -> None:
    with pytest.raises(TypeError, match=r"load: .*without a name.*numpy.load\(file\).view"):
        save_and_load(lnp.array([0, 1], "float8_e5m2"))


def test_files_of_several_arrays_are_mappings() -> None:
    file = io.BytesIO()
    lnp.savez(file, lnp.arange(3), a=lnp.ones(2))
    file.seek(0)
    found = lnp.load(file)
    np.testing.assert_array_equal(found["arr_0"], [0, 1, 2])
    np.testing.assert_array_equal(found["a"], [1, 1])
