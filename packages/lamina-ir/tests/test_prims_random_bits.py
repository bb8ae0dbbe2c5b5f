"""NumPy evaluation of XLA's generators: the bits of XLA on CPUs."""
from __future__ import annotations

import numpy as np
import pytest

from lamina_ir import config, dtypes, parse, shaped
from lamina_ir.errors import DTypeError
from lamina_ir.prims import RandomAlgorithm, rng_bit_generator_p


@pytest.mark.parametrize("algorithm", [RandomAlgorithm.RNG_DEFAULT, RandomAlgorithm.RNG_PHILOX])
@pytest.mark.parametrize("key, dtype, after, bits", [
    ([1, 2, 3, 4], "uint32", [1, 2, 5, 4], [512747620, 1298009047, 1267190206, 761827841, 1383286907]),
    ([1, 2, 3, 4], "uint8", [1, 2, 5, 4], [100, 215, 190, 1, 123]),
    ([1, 2, 2**32 - 1, 2**32 - 1], "uint32", [1, 2, 1, 0], [875035680, 2457449792, 952865925, 536199321, 67759320]),
    ([1, 2, 2**32 - 1, 2**32 - 1], "uint64", [1, 2, 2, 0], [10554666489077038112, 2302958548785271941, 1141394929143639256,
                                                            8801873739173198762, 8725846352409141144])])
def test_philox_counter_continues_from_key(algorithm, key, dtype, after, bits):
    found = rng_bit_generator_p.numpy(np.array(key, np.uint32), algorithm=algorithm, dtype=np.dtype(dtype), shape=(5,))
    assert [x.tolist() for x in found] == [after, bits] and found[1].dtype == dtype


def test_key_types_with_equal_tags_are_numbered():
    first, second = dtypes.define_key_type("numbered", 3), dtypes.define_key_type("numbered", 5)
    assert [dtypes.long_name(d) for d in (first, second)] == ["key<numbered>", "key<numbered.2>"]
    assert dtypes.from_short_name("key<numbered.2>") == second and dtypes.key_size(second) == 5
    program = parse("{ lambda ; a:key<numbered.2>[3]. let in (a,) }")
    assert program.in_avals == [shaped((3,), second)] and str(parse(str(program))) == str(program)
    assert dtypes.portable_name(first) == "key<numbered>"
    with pytest.raises(DTypeError, match="key<numbered.2> keys cannot be stored"):
        dtypes.portable_name(second)


@pytest.mark.parametrize("tag, words", [("", 2), ("a b", 2), ("a<", 2), ("a.2", 2), (3, 2), ("fine", 0)])
def test_key_types_are_checked(tag, words):
    with pytest.raises(ValueError, match="define_key_type"):
        dtypes.define_key_type(tag, words)


def test_the_default_generator_is_one_of_three():
    with pytest.raises(ValueError):
        config.default_prng_impl.set("nope")
