"""jit of bound methods: the program is cached while the object lives and is unchanged."""
import gc
import weakref

import numpy as np
import pytest
from lamina_ir import config
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing._core import bound_method_key


class Layer:
    def __init__(self, scale):
        self.scale = scale


class Model:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def step(self, x):
        TRACED.append(1)
        return lax.mul(x, self.factor())

    def other(self, x):
        TRACED.append(1)
        return lax.add(x, self.factor())

    def factor(self):
        return np.float32(getattr(self, "scale", 2.0))


class Deep(Model):
    def factor(self):
        return np.float32(self.layers["first"][0].scale)


TRACED = []
X = np.ones(3, np.float32)


@pytest.fixture(autouse=True)
def clear_traced():
    """Clear the record of tracings before each test."""
    TRACED.clear()


def test_method_is_staged_once_if_jitted_repeatedly():
    m = Model(scale=3.0, name="m", act=lax.sin, table=np.arange(3), pair=(1, [2, None]), kind=np.dtype("int8"))
    for _ in range(4):
        assert float(jit(m.step)(X)[0]) == 3.0
    assert len(TRACED) == 1
    assert float(jit(m.other)(X)[0]) == 4.0 and len(TRACED) == 2
    make_jaxpr(lambda x: jit(m.step)(jit(m.step)(x)))(X)
    assert len(TRACED) == 2


def test_objects_have_separate_programs():
    a, b = Model(scale=2.0), Model(scale=3.0)
    assert [float(jit(m.step)(X)[0]) for m in (a, b, a, b)] == [2, 3, 2, 3]


def change_attribute(m):
    m.layers["first"][0].scale = 5.0


def change_container(m):
    m.layers["first"][0] = Layer(5.0)


def change_small_array(m):
    m.layers["first"][0].scale = np.full((), 5.0, np.float32)


def change_everything(m):
    m.layers = {"first": [Layer(5.0)]}


@pytest.mark.parametrize("change", [change_attribute, change_container, change_small_array, change_everything])
def test_changed_object_is_staged_again(change):
    m = Deep(layers={"first": [Layer(2.0)]})
    assert float(jit(m.step)(X)[0]) == 2 and float(jit(m.step)(X)[0]) == 2 and len(TRACED) == 1
    change(m)
    assert float(jit(m.step)(X)[0]) == 5 and float(jit(m.step)(X)[0]) == 5 and len(TRACED) == 2


def test_change_between_jit_and_first_call_is_seen():
    m = Model(scale=2.0)
    early = jit(m.step)
    m.scale = 3.0
    assert float(early(X)[0]) == 3
    m.scale = 2.0
    assert float(jit(m.step)(X)[0]) == 2 and float(early(X)[0]) == 3


def test_array_changed_in_place_is_seen():
    m = Model(scale=np.full((), 2.0, np.float32))
    assert float(jit(m.step)(X)[0]) == 2
    m.scale[...] = 4.0
    assert float(jit(m.step)(X)[0]) == 4


class Slots:
    __slots__ = ("scale", "__weakref__")


class Mapping(dict):
    """A class with `__dict__` and other state."""


@pytest.mark.parametrize("hidden", [Slots(), Mapping(), np.zeros(10_000), {1, 2}, bytearray(3), iter([1])])
def test_object_with_unhashable_state_is_staged_at_each_call(hidden):
    m = Model(hidden=hidden)
    for _ in range(2):
        jit(m.step)(X)
    assert bound_method_key.get_bound_method_key(m.step) is None and len(TRACED) == 2


def test_program_is_released_with_object():
    m = Model(scale=3.0)
    m.itself, m.function = m, (lambda held: lambda: held)(m)
    jit(m.step)(X)
    assert bound_method_key.get_bound_method_key(m.step) is bound_method_key.get_bound_method_key(m.step)
    key, reference = (id(m), Model.step), weakref.ref(m)
    assert key in bound_method_key._latest
    del m
    gc.collect()
    assert reference() is None and key not in bound_method_key._latest


def test_number_of_cached_methods_is_bounded(monkeypatch):
    monkeypatch.setattr(bound_method_key, "_MAX_KEYS", 4)
    kept = [Model(scale=float(k)) for k in range(10)]
    for m in kept:
        jit(m.step)(X)
    assert len(bound_method_key._latest) <= 4


def test_loop_over_method_is_staged_once():
    class Counter(Model):
        def body(self, i, x):
            return self.step(x)

    m = Counter(scale=0.5)
    for _ in range(3):
        lax.fori_loop(0, 3, m.body, X)
    assert len(TRACED) == 1


def test_method_with_disable_jit():
    m = Model(scale=3.0)
    with config.disable_jit(True):
        assert float(jit(m.step)(X)[0]) == 3
