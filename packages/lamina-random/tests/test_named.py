"""Draws along mapped axes: with a `NamedShape` position `k` draws with `fold_in(key, k)`; a key without names gives all
positions the same numbers."""
import inspect

import numpy as np
import pytest
from lamina_batching import vmap
from lamina_ir import UnboundAxisError
from lamina_tracing import jit

import lamina_random as random
from lamina_random import NamedShape, PRNGKey, fold_in, normal

KEY = PRNGKey(0)
ARGUMENTS = {"logits": np.zeros(3, np.float32), "mean": np.zeros(3, np.float32), "cov": np.eye(3, dtype=np.float32),
             "alpha": np.ones(3, np.float32), "a": np.float32(2), "b": np.float32(2), "d": 2, "n": 3, "p": np.float32(0.5),
             "minval": 0, "maxval": 9, "lower": -1., "upper": 1., "left": 0., "mode": 1., "right": 2.}
DRAWS = [name for name in random.__all__ if callable(getattr(random, name))
         and "shape" in inspect.signature(getattr(random, name)).parameters]


@pytest.mark.parametrize("name", DRAWS)
def test_every_draw_takes_a_named_shape(name):
    f = getattr(random, name)
    needed = {k: ARGUMENTS.get(k, np.float32(1)) for k, v in inspect.signature(f).parameters.items()
              if k not in ("key", "shape") and v.default is inspect.Parameter.empty}
    needed |= {"a": 5} if name == "choice" else {"mean": 1.} if name == "wald" else {}
    sizes: tuple[int, ...] = (2,)
    if name == "multinomial":
        needed, sizes = {"n": 20, "p": np.ones(3, np.float32)}, (2, 3)
    got = vmap(lambda _: f(KEY, shape=NamedShape(*sizes, batch=4), **needed), axis_name="batch")(np.arange(4))
    want = np.stack([f(fold_in(KEY, k), shape=sizes, **needed) for k in range(4)])
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert len({row.tobytes() for row in np.asarray(got)}) > 1


def test_numbers_are_those_of_the_era():  # jax 0.4.30's, from its NamedShape
    got = vmap(lambda _: normal(KEY, NamedShape(3, batch=4)), axis_name="batch")(np.arange(4))
    np.testing.assert_allclose(got, [[0.4154572, -0.28943744, 0.1879725], [0.62481064, -0.30400425, -0.89830905],
                                     [-0.7953609, 0.762532, -0.29960182], [2.0125024, -0.25537333, -1.583675]], rtol=1e-5)


def test_a_key_without_names_gives_all_the_same_and_one_with_names_its_own():
    same = vmap(lambda k: normal(KEY, (3,)) + 0 * k, axis_name="batch")(np.zeros(4, np.float32))
    assert (np.asarray(same) == np.asarray(normal(KEY, (3,)))).all()
    keys = np.stack([fold_in(KEY, k) for k in range(4)])
    own = vmap(lambda key: normal(key, NamedShape(3, batch=4)), axis_name="batch")(keys)
    np.testing.assert_allclose(own[2], normal(fold_in(keys[2], 2), (3,)), rtol=1e-6)


def test_two_names_in_the_order_given_and_any_way_of_mapping():
    def draw(i, j):
        return normal(KEY, NamedShape(2, a=3, b=4))

    got = vmap(vmap(draw, (None, 0), axis_name="b"), (0, None), axis_name="a")(np.arange(3), np.arange(4))
    other = vmap(vmap(jit(draw), (0, None), axis_name="a"), (None, 0), axis_name="b")(np.arange(3), np.arange(4))
    np.testing.assert_array_equal(np.swapaxes(other, 0, 1), got)
    np.testing.assert_allclose(got[2, 3], normal(fold_in(fold_in(KEY, 2), 3), (2,)), rtol=1e-6)


def test_categories_along_a_name():
    logits = np.array([-50., 0., -50., -50.], np.float32)
    got = vmap(lambda v: random.categorical(KEY, v, axis="b"), axis_name="b")(logits)
    assert got.dtype == np.int32 and (np.asarray(got) == 1).all()
    many = vmap(lambda v: random.categorical(KEY, v, "b", (1000,)), axis_name="b")(np.log([.1, .2, .3, .4]).astype(np.float32))
    np.testing.assert_allclose(np.bincount(many[0], minlength=4) / 1000, [.1, .2, .3, .4], atol=0.06)


@pytest.mark.parametrize("draw, error, said", [
    (lambda: normal(KEY, NamedShape(3, b=5)), ValueError, r"normal: shape is NamedShape\(3, b=5\), but.* 'b' has 4 "),
    (lambda: normal(KEY, NamedShape(3, c=4)), UnboundAxisError, "axis name 'c' is not bound; bound here: 'b'"),
    (lambda: random.permutation(KEY, np.arange(3), "b"), TypeError, "permutation: axis takes positional axes only"),
    (lambda: random.shuffle(KEY, np.arange(3), "b"), TypeError, "shuffle: axis takes positional axes only"),
    (lambda: random.choice(KEY, np.arange(3), axis="b"), TypeError, "choice: axis takes positional axes only")])
def test_errors(draw, error, said):
    with pytest.raises(error, match=said):
        vmap(lambda _: draw(), axis_name="b")(np.arange(4))


def test_a_named_shape_is_a_value():
    assert NamedShape(3, b=4) == NamedShape((3,), b=4) != NamedShape(3, b=5)
    assert hash(NamedShape(3, b=4)) == hash(NamedShape(3, b=4)) and repr(NamedShape(3, 2, b=4)) == "NamedShape(3, 2, b=4)"
