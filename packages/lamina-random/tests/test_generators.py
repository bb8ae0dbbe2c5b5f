"""Generators other than Threefry: the device's own one, whose numbers are JAX 0.4.30's on CPUs, and those that users define."""
from __future__ import annotations

import numpy as np
import pytest

import lamina_random as random
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError, config
from lamina_random import extend
from lamina_tracing import jit, lax, make_jaxpr

THREEFRY = extend.threefry_prng_impl
NAMES = ["rbg", "unsafe_rbg"]


def words(keys):
    return np.asarray(random.key_data(keys)).tolist()


# --- numbers, by JAX 0.4.30 on a CPU -----------------------------------------------------------------------------
SPLIT = {
    "rbg": [[966301609, 989289821, 966301609, 989289821], [1948237315, 1058547403, 1948237315, 1058547403]],
    "unsafe_rbg": [[3109483441, 1367189518, 2515982561, 3310080778], [3848958661, 3271070264, 2639373597, 23941900]]}
FOLDED = {"rbg": [276534068, 1641862660, 276534068, 1641862660],
          "unsafe_rbg": [56543296, 1826787330, 2453521982, 2503663986]}
GAMMA = {"rbg": [3.4418833255767822, 1.2649420499801636, 1.2996265888214111],
         "unsafe_rbg": [0.7517332434654236, 2.7059009075164795, 1.250054955482483]}
PERMUTED = {"rbg": [3, 0, 2, 5, 1, 4], "unsafe_rbg": [3, 1, 0, 5, 4, 2]}
MAPPED = {"rbg": [[914, 774, 466, 381], [913, 615, 214, 547], [553, 340, 900, 316]],
          "unsafe_rbg": [[568, 397, 664, 440], [820, 879, 130, 172], [473, 307, 179, 533]]}
RANDINT = {"rbg": [12, 72, 69, 32], "unsafe_rbg": [23, 44, 75, 29]}


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_of_the_oracle(name):
    key = random.key(7, impl=name)
    assert words(key) == [0, 7, 0, 7] and random.key_impl(key) == name
    assert words(random.split(key)) == SPLIT[name]
    assert words(random.split(key, (2, 1)))[0][0] == SPLIT[name][0]
    assert words(random.fold_in(key, 3)) == FOLDED[name]
    assert np.asarray(random.bits(key, (5,))).tolist() == [3109483441, 1367189518, 2515982561, 3310080778, 2824504284]
    assert np.asarray(random.bits(key, (5,), "uint16")).tolist() == [62385, 43022, 55521, 54026, 33756]
    assert np.asarray(random.bits(key, (5,), "uint8")).tolist() == [177, 14, 225, 10, 220]
    np.testing.assert_allclose(random.normal(key, (3,)), [0.594714879989624, -0.47239163517951965, 0.2167484611272812], 1e-6)
    assert random.uniform(key) == np.float32(0.7239829301834106)
    np.testing.assert_allclose(random.gamma(key, 2.0, (3,)), GAMMA[name], rtol=1e-6)
    assert np.asarray(random.permutation(key, 6)).tolist() == PERMUTED[name]
    assert np.asarray(random.randint(key, (4,), 0, 100)).tolist() == RANDINT[name]


@pytest.mark.parametrize("name", NAMES)
def test_of_mapped_keys_the_first_draws_for_all_but_gammas_which_loop(name):
    keys = random.split(random.key(7, impl=name), 4)
    for dtype in ("uint8", "uint16", "uint32"):
        wanted = random.bits(keys[0], (4, 3), dtype)
        np.testing.assert_array_equal(vmap(lambda k: random.bits(k, (3,), dtype))(keys), wanted)
    np.testing.assert_array_equal(vmap(vmap(random.bits))(lax.reshape(keys, (2, 2))), random.bits(keys[0], (2, 2)))
    np.testing.assert_array_equal(vmap(lambda k: random.uniform(k, (2,)))(keys), random.uniform(keys[0], (4, 2)))
    drawn = (lambda k: random.gamma(k, 2.0),) if name == "rbg" else ()
    for draw in (lambda k: random.key_data(random.fold_in(k, 5)), *drawn):
        np.testing.assert_array_equal(vmap(draw)(keys), [draw(keys[i]) for i in range(4)])
        np.testing.assert_array_equal(vmap(vmap(draw))(lax.reshape(keys, (2, 2)))[1], [draw(keys[i]) for i in (2, 3)])
        np.testing.assert_array_equal(jit(draw)(keys[0]), draw(keys[0]))
    made = random.key_data(vmap(lambda k: random.split(k, 3))(keys))
    each = [random.split(k, 3) for k in keys] if name == "rbg" else random.split(keys[0], (4, 3))
    np.testing.assert_array_equal(made, [random.key_data(e) for e in each])


@pytest.mark.parametrize("name", NAMES)
def test_mapped_draws_are_those_of_the_oracle(name):
    with config.threefry_partitionable(True):
        keys = random.split(random.key(11, impl=name), 3)
        drawn = vmap(lambda k: random.randint(k, (4,), 0, 1000))(keys)
    assert np.asarray(drawn).tolist() == MAPPED[name]


def test_draws_of_nothing_and_positions_of_names():
    key = random.key(7, impl="rbg")
    assert random.normal(key, (0, 2)).shape == (0, 2) and random.split(key, 0).shape == (0,)
    drawn = vmap(lambda _: random.uniform(key, random.NamedShape(2, i=3)), axis_name="i")(np.arange(3))
    np.testing.assert_array_equal(drawn, random.uniform(random.fold_in(key, 0), (3, 2)))


def test_the_default_generator_is_a_setting():
    with config.default_prng_impl("rbg"):
        assert random.key(5).dtype == random.key(5, impl="rbg").dtype
        key = random.PRNGKey(5)
        assert np.asarray(key).tolist() == [0, 5, 0, 5] and random.key_impl(key) == "rbg"
        typed = random.key(5)
        np.testing.assert_array_equal(random.normal(key, (3,)), random.normal(typed, (3,)))
        np.testing.assert_array_equal(random.split(key), random.key_data(random.split(typed)))
        np.testing.assert_array_equal(random.fold_in(key, 2), random.key_data(random.fold_in(typed, 2)))
        np.testing.assert_array_equal(random.key_data(random.wrap_key_data(key)), key)
        fry = random.key(5, impl="threefry2x32")
        found = random.ball(fry, 2), random.normal(fry)
        with pytest.raises(ShapeError, match=r"rbg.*uint32\[4\]; got uint32\[2\]"):
            random.normal(np.zeros(2, np.uint32))
    np.testing.assert_array_equal(found[0], random.ball(fry, 2))
    np.testing.assert_array_equal(found[1], random.normal(fry))
    with pytest.raises(ShapeError, match=r"uint32\[2\]"):
        random.normal(key)


# --- generators of one's own -------------------------------------------------------------------------------------
def make_generator(shape, tag="t", **about):
    """Threefry on the first of more or fewer words."""
    n = int(np.prod(shape, dtype=int))

    def pair(w):
        flat = lax.reshape(w, (n,))
        return lax.slice(lax.concatenate([flat, flat], 0), (0,), (2,))

    def split(w, sizes):
        return lax.reshape(lax.slice_in_dim(THREEFRY.split(pair(w), (*sizes, n)), 0, 1, axis=len(sizes) + 1), (*sizes, *shape))

    return extend.define_prng_impl(
        key_shape=shape, tag=tag, seed=lambda s: lax.full(shape, lax.convert_element_type(s, "uint32"), "uint32"), split=split,
        random_bits=lambda w, width, sizes: THREEFRY.random_bits(pair(w), width, sizes),
        fold_in=lambda w, d: lax.bitwise_xor(w, lax.broadcast_in_dim(d, shape, ())), **about)


@pytest.mark.parametrize("shape", [(2, 3), (1,), ()])
def test_keys_of_any_shape_go_through_programs(shape):
    impl = make_generator(shape)
    key = random.key(3, impl=impl)
    keys = random.split(key, (2, 2))
    assert keys.shape == (2, 2) and keys.dtype == key.dtype and random.key_data(keys).shape == (2, 2, *shape)
    assert random.key_impl(key) is impl and random.key(3, impl=random.key_impl(key)).dtype == key.dtype

    def draws(k):
        return (random.normal(k, (2,)), random.randint(k, (2,), 0, 9), random.gamma(k, 2.0, (2,)),
                random.bits(k, (2,), "uint8"),
                random.key_data(random.fold_in(k, 3)), random.poisson(k, 4.0))

    for alone, staged, mapped in zip(draws(key), jit(draws)(key), vmap(draws)(lax.expand_dims(key, (0,)))):
        np.testing.assert_array_equal(alone, staged)
        np.testing.assert_array_equal(alone, mapped[0])
    chosen = lax.select(np.array([[True, False], [False, True]]), keys, lax.rev(keys, (0,)))
    np.testing.assert_array_equal(random.key_data(chosen)[0, 1], random.key_data(keys)[1, 1])
    last, _ = lax.scan(lambda k, _: (random.split(k)[0], None), key, None, length=2)
    np.testing.assert_array_equal(random.key_data(last), random.key_data(random.split(random.split(key)[0])[0]))
    data = random.key_data(keys)
    np.testing.assert_array_equal(random.key_data(random.wrap_key_data(data, impl=impl)), data)
    assert f"key<{random.key_impl(key).tag}" in str(make_jaxpr(lambda k: k)(key))


def test_names_and_tags():
    one = make_generator((3,), tag="tagged", name="mine")
    key = random.key(1, impl="mine")
    assert random.key_impl(key) == "mine" and "key<tagged>" in repr(key)
    other = make_generator((3,), tag="tagged", name="mine")
    assert random.key_impl(key) is one and "key<tagged.2>" in repr(random.key(1, impl=other))
    with pytest.raises(ValueError, match="2 generators are called 'mine'"):
        random.key(1, impl="mine")
    with pytest.raises(ValueError, match="key: impl must be a generator.*got '<unnamed>'"):
        random.key(1, impl="<unnamed>")
    with pytest.raises(DTypeError):
        lax.concatenate([random.split(key), random.split(random.key(1, impl=other))], 0)
    assert extend.define_prng_impl(**one._asdict()) == one


@pytest.mark.parametrize("change, match", [
    ({"random_bits": lambda w, width, shape: np.zeros(shape, np.float32)}, r"odd: .*`random_bits`.* uint32\[2\]; got float32"),
    ({"seed": lambda s: np.zeros(3, np.uint32)}, r"`seed`.* uint32\[2\]; got uint32\[3\]"),
    ({"split": lambda w, shape: w}, r"`split`.* uint32\[2, 2\]; got uint32\[2\]"),
    ({"fold_in": lambda w, d: np.zeros((1, 2), np.uint32)}, r"`fold_in`.* uint32\[2\]; got uint32\[1,2\]")])
def test_what_a_function_returns_is_looked_at(change, match):
    impl = extend.define_prng_impl(**(THREEFRY._asdict() | {"name": "odd"} | change))
    with pytest.raises(ShapeError, match=match):
        key = random.key(0, impl=impl)
        random.split(random.fold_in(key, 1))
        random.bits(key, (2,))


@pytest.mark.parametrize("change, error", [
    ({"seed": 3}, TypeError), ({"key_shape": (0,)}, ValueError), ({"tag": "a b"}, ValueError), ({"name": 3}, TypeError)])
def test_definitions_are_checked(change, error):
    with pytest.raises(error, match="define_"):
        extend.define_prng_impl(**(THREEFRY._asdict() | {"name": "odder"} | change))


def test_seeds_of_arrays():
    keys = extend.random_seed(np.arange(6).reshape(2, 3), "rbg")
    assert keys.shape == (2, 3) and words(keys)[1][2] == [0, 5, 0, 5]
    assert extend.random_seed(np.zeros((0, 2), int), THREEFRY).shape == (0, 2)
    assert words(extend.seed_with_impl(THREEFRY, 5)) == [0, 5]
    with pytest.raises(DTypeError, match="random_seed"):
        extend.random_seed(np.zeros(2, np.float32), THREEFRY)
    with pytest.raises(TypeError, match="seed_with_impl"):
        extend.seed_with_impl(None, 5)


def test_scrambled_counts():
    pair = (np.uint32(1), np.uint32(2))
    assert np.asarray(extend.threefry_2x32(pair, np.arange(5, dtype=np.uint32))).tolist() == [
        2052595727, 3504730591, 2527474599, 1880214352, 1914734168]
    with pytest.raises(DTypeError, match="threefry_2x32"):
        extend.threefry_2x32(pair, np.arange(3, dtype=np.int32))


def test_the_name_of_the_gamma_op():
    key, a = random.key(1), np.array([0.5, 2.0], np.float32)
    np.testing.assert_array_equal(random.random_gamma_p.bind(key, a, log_space=False), random.gamma(key, a))
    np.testing.assert_array_equal(random.random_gamma_p.bind(key, a, log_space=True), random.loggamma(key, a))
    assert repr(random.random_gamma_p) == "random_gamma"
