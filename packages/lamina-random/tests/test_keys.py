"""Keys: seeds, splitting, folding in, and what happens under transformations."""
from __future__ import annotations

import numpy as np
import pytest

import lamina_random as random
from lamina_ir import DTypeError, ShapeError, config
from lamina_tracing import jit, make_jaxpr


@pytest.mark.parametrize("seed, words", [
    (0, [0, 0]), (42, [0, 42]), (-1, [0, 2**32 - 1]), (2**40 + 5, [0, 5]), (True, [0, 1]),
    (np.int8(-1), [0, 2**32 - 1]), (np.uint32(7), [0, 7]), (np.int32(-3), [0, 2**32 - 3])])
def test_seed_gives_its_low_word(seed, words):
    key = random.PRNGKey(seed)
    assert key.dtype == np.uint32
    assert np.asarray(key).tolist() == words


def test_seed_gives_both_words_in_64_bit_mode():
    with config.enable_x64(True):
        assert np.asarray(random.PRNGKey(2**40 + 5)).tolist() == [256, 5]
        assert np.asarray(random.PRNGKey(-1)).tolist() == [2**32 - 1, 2**32 - 1]


def test_traced_seed_gives_the_same_key():
    assert np.asarray(jit(random.PRNGKey)(42)).tolist() == [0, 42]


def test_seed_must_be_one_integer():
    with pytest.raises(DTypeError, match="integer"):
        random.PRNGKey(1.5)
    with pytest.raises(ShapeError, match="vmap"):
        random.PRNGKey(np.arange(2))


def test_split_shapes():
    key = random.PRNGKey(1)
    assert random.split(key).shape == (2, 2)
    assert random.split(key, (2, 3)).shape == (2, 3, 2)
    assert len({tuple(k) for k in np.asarray(random.split(key, 100)).tolist()}) == 100


def test_batch_of_keys_is_refused_with_the_remedy():
    with pytest.raises(ShapeError, match="vmap"):
        random.normal(random.split(random.PRNGKey(0)), (3,))
    with pytest.raises(ShapeError, match=r"random.key\(seed\)"):
        random.normal(np.float32(0), (3,))


def test_draws_inside_jit_become_part_of_the_program():
    program = make_jaxpr(lambda key: random.normal(key, (3,)))(random.PRNGKey(0))
    names = {eqn.primitive.name for eqn in program.jaxpr.eqns}
    assert "threefry2x32" in names and "xla_call" not in names
    inside = jit(lambda key: random.normal(key, (5,)))(random.PRNGKey(3))
    np.testing.assert_array_equal(inside, random.normal(random.PRNGKey(3), (5,)))


def test_bad_dtypes_are_refused():
    key = random.PRNGKey(0)
    with pytest.raises(DTypeError, match="float"):
        random.normal(key, (2,), np.int32)
    with pytest.raises(DTypeError, match="unsigned"):
        random.bits(key, (2,), np.int32)
    with pytest.raises(DTypeError, match="integers"):
        random.randint(key, (2,), 1j, 3)


def test_clone_and_key_impl():
    for keys in (random.split(random.key(1), 3), random.split(random.PRNGKey(1), 3)):
        np.testing.assert_array_equal(random.key_data(random.clone(keys)), random.key_data(keys))
        assert random.key_impl(keys) == "threefry2x32"
    for call in (random.clone, random.key_impl, random.key_data):
        with pytest.raises(ShapeError, match=r"expected keys, or their words, uint32\[..., 2\]; got float32"):
            call(np.float32(1))


def test_bits_are_as_wide_as_the_mode_allows() -> None:
    key = random.PRNGKey(0)
    assert random.bits(key, (2,)).dtype == np.uint32
    with config.enable_x64(True):
        wide = random.bits(key, (2,))
        assert wide.dtype == np.uint64 and np.array_equal(wide, random.bits(key, (2,), "uint64"))


def test_a_seed_that_fits_no_key_is_refused():
    for seed in (2 ** 64, 2 ** 64 + 1, -2 ** 63 - 1):
        with pytest.raises(OverflowError, match="64 bits"):
            random.PRNGKey(seed)


@pytest.mark.parametrize("data, whole", [
    (True, 1), (np.bool_(False), 0), (1.5, 1), (np.float32(7), 7), (np.array(3.5, np.float16), 3), (np.float64(2**33 + 3), 3),
    (np.float32(-2.5), 2**32 - 2)])
def test_data_of_fold_in_counts_whole(data, whole):
    key = random.PRNGKey(3)
    want = np.asarray(random.fold_in(key, whole)).tolist()
    assert np.asarray(random.fold_in(key, data)).tolist() == want
    if 0 <= data < 9:  # others an array brings into range
        assert np.asarray(jit(random.fold_in)(key, data)).tolist() == want


@pytest.mark.parametrize("data, error", [(float("nan"), ValueError), (np.float32("inf"), OverflowError), (1j, ShapeError)])
def test_fold_in_refuses_what_is_no_number_of_steps(data, error):
    with pytest.raises(error, match="fold_in: data must be a"):
        random.fold_in(random.PRNGKey(3), data)
