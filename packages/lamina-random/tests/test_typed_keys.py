"""Typed keys: elements of dtype `key<fry>` that give the numbers of their words, and are no numbers themselves."""
from __future__ import annotations

import numpy as np
import pytest

import lamina_random as random
from lamina_autodiff import grad
from lamina_batching import vmap
from lamina_ir import DTypeError, ShapeError, config, dtypes
from lamina_tracing import jit, lax, make_jaxpr
from lamina_tracing.extend import typeof

KEY, WORDS = random.key(3), random.PRNGKey(3)


def assert_same_key(typed, words):
    np.testing.assert_array_equal(random.key_data(typed), words)


def test_a_typed_key_is_one_element():
    aval = typeof(KEY)
    assert aval.str_long() == "key<fry>[]" and dtypes.issubdtype(KEY.dtype, dtypes.prng_key)
    assert random.split(KEY, (2, 3)).shape == (2, 3) and random.key_impl(KEY) == "threefry2x32"
    assert_same_key(KEY, WORDS)
    assert_same_key(random.wrap_key_data(WORDS), WORDS)
    assert_same_key(random.split(KEY, 3), random.split(WORDS, 3))
    assert_same_key(random.fold_in(KEY, 7), random.fold_in(WORDS, 7))
    assert "key<fry>" in repr(KEY) and "[0, 3]" in repr(KEY)


DRAWS = [
    lambda k: random.normal(k, (3,)), lambda k: random.uniform(k, (3,)), lambda k: random.uniform(k, (), minval=-1.0),
    lambda k: random.bits(k, (3,)), lambda k: random.randint(k, (3,), 0, 9), lambda k: random.bernoulli(key=k),
    lambda k: random.permutation(k, 5), lambda k: random.shuffle(k, np.arange(4)), lambda k: random.choice(k, 5, (2,)),
    lambda k: random.gamma(k, 2.0), lambda k: random.categorical(k, np.zeros(4, np.float32)), lambda k: random.gumbel(k, (2,)),
    lambda k: random.multivariate_normal(k, np.zeros(2, np.float32), np.eye(2, dtype=np.float32)), lambda k: random.ball(k, 2),
    lambda k: random.truncated_normal(k, -1.0, 1.0), lambda k: random.generalized_normal(k, 1.5),
    lambda k: random.poisson(k, 3.0),
    lambda k: random.rademacher(k, (3,)), lambda k: random.normal(k, random.NamedShape(2))]


@pytest.mark.parametrize("draw", DRAWS, ids=range(len(DRAWS)))
def test_draws_are_those_of_the_words(draw):
    np.testing.assert_array_equal(draw(KEY), draw(WORDS))


def test_transformations_carry_keys():
    keys, words = random.split(KEY, 4), random.split(WORDS, 4)
    np.testing.assert_array_equal(vmap(random.normal)(keys), vmap(random.normal)(words))
    assert_same_key(vmap(random.split)(keys), vmap(random.split)(words))
    assert_same_key(vmap(random.key)(np.arange(3)), vmap(random.PRNGKey)(np.arange(3)))
    assert_same_key(vmap(lambda k: k, out_axes=1)(random.split(KEY, (2, 3))),
                    np.swapaxes(random.split(WORDS, (2, 3)), 0, 1))
    assert_same_key(jit(lambda k: random.split(k)[1])(KEY), random.split(WORDS)[1])
    assert grad(lambda x, k: x * random.normal(k))(2.0, KEY) == random.normal(WORDS)
    last, seen = lax.scan(lambda k, _: (random.fold_in(k, 1), k), KEY, None, length=3)
    wanted, all_of = lax.scan(lambda k, _: (random.fold_in(k, 1), k), WORDS, None, length=3)
    assert_same_key(last, wanted)
    assert_same_key(seen, all_of)
    assert_same_key(lax.cond(True, lambda k: random.split(k)[0], lambda k: k, KEY), random.split(WORDS)[0])
    assert_same_key(lax.select(np.bool_(False), KEY, keys[2]), words[2])


def test_programs_say_what_keys_are_for():
    def uses(fun):
        return [e.params["use"] for e in make_jaxpr(fun)(KEY).eqns if e.primitive.name == "random_unwrap"]
    assert uses(lambda k: (random.normal(k), random.split(k), random.fold_in(k, 1), random.key_data(k))) == [
        "bits", "split", "fold_in", "data"]


def test_keys_are_no_numbers():
    for wrong in (lambda: KEY + 1, lambda: KEY * KEY, lambda: lax.neg(KEY), lambda: lax.convert_element_type(KEY, "int32"),
                  lambda: grad(random.normal)(KEY), lambda: random.key(KEY), lambda: random.wrap_key_data(KEY)):
        with pytest.raises(TypeError, match="key<fry>"):
            wrong()
    assert bool(KEY == KEY) and bool(KEY != random.key(4))


def test_wrong_keys_are_refused_with_the_remedy():
    with pytest.raises(ShapeError, match=r"normal: expected one key; got key<fry>\[2\]; use vmap"):
        random.normal(random.split(KEY))
    with pytest.raises(ShapeError, match=r"split: expected one key; got key<fry>\[2\]"):
        random.split(random.split(KEY))
    with pytest.raises(ShapeError, match=r"uint32\[..., 2\]; got uint32\[3\]"):
        random.wrap_key_data(np.zeros(3, np.uint32))
    for call in (random.key, random.PRNGKey):
        with pytest.raises(ValueError, match="one of 'threefry2x32'.*got 'unknown'"):
            call(0, impl="unknown")
    with pytest.raises(DTypeError, match="key already"):
        random.key(KEY)


def test_settings_say_which_keys_are_wanted():
    with config.enable_custom_prng(True):
        assert_same_key(random.PRNGKey(3), WORDS)
        assert dtypes.is_key(random.PRNGKey(3).dtype)
    with config.legacy_prng_key("error"):
        for draw in DRAWS:  # none of these functions reports key data that it made itself
            draw(KEY)
        for use in (random.normal, random.split, lambda k: random.fold_in(k, 1), lambda k: random.gamma(k, 2.0), lambda k:
                    random.ball(key=k, d=2), lambda k: random.shuffle(k, np.arange(3)), random.key_data, random.key_impl):
            with pytest.raises(ValueError, match=r"the key is an array of uint32 words; random.key\(seed\)"):
                use(WORDS)
    with config.legacy_prng_key("warn"), pytest.warns(UserWarning, match="normal: the key is an array of uint32 words"):
        random.normal(WORDS)


def test_dtypes_of_keys():
    assert random.key_dtype() == KEY.dtype == random.key_dtype("threefry2x32")
    assert random.key_dtype("rbg") == random.key(1, impl="rbg").dtype != KEY.dtype
    with config.default_prng_impl("unsafe_rbg"):
        assert random.key_dtype() == random.key(1).dtype
    with pytest.raises(ValueError, match="key_dtype: impl must be a generator, or the name of one"):
        random.key_dtype("dice")
