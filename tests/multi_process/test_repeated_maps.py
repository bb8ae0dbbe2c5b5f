"""A second map of a function that was mapped before is neither traced nor compiled again."""
import functools
import logging

import lamina
import numpy as np
import pytest
from lamina.parallel import padded


class Model:
    def __init__(self):
        self.scale = 2.0

    def method_made_again(self, x):
        return x * self.scale


def function_made_again(x):
    return x * 2


def partial_made_again(scale, x):
    return x * scale


MODEL = Model()
WAYS = {"function": lambda: function_made_again, "method": lambda: MODEL.method_made_again,
        "partial": lambda: functools.partial(partial_made_again, 2.0)}


def test_map_over_other_devices_is_another_program():
    x, half = np.ones((4, 2), np.float32), lamina.devices()[4:]
    for devices in (lamina.devices()[:4], half):
        mapped = lamina.pmap(function_made_again, devices=devices)
        assert mapped(x).devices() == lamina.jit(mapped)(x).devices() == set(devices)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mapper", [lamina.pmap, lambda f: lamina.pmap(f, "i"), lambda f: lamina.pmap(f, in_axes=1, out_axes=1),
                                    lamina.jit, lambda f: padded(f, devices=lamina.devices()[:3])])
def test_repeated_maps_are_traced_and_compiled_once(way, mapper, caplog):
    x = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    caplog.set_level(logging.WARNING)
    lamina.clear_caches()
    with lamina.log_compiles():
        for _ in range(3):
            np.testing.assert_array_equal(mapper(WAYS[way]())(x), x * 2)
    found = [r.getMessage() for r in caplog.records if f"`{way}_made_again`" in r.getMessage()]
    assert sum("compiled in" in m or "loaded from disk" in m for m in found) == 1, found
    assert sum("staged" in m for m in found) <= 2, found  # padded traces the member and then the map over slots
