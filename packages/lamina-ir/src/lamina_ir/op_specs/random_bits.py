"""Specs of the random number generators."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
Threefry-2x32 with 20 rounds, of a key (k0, k1) and a counter (x0, x1), all modulo 2^32: k2 = k0 xor k1 xor 0x1BD11BDA; x0 +=
k0, x1 += k1. Five groups g = 0, ..., 4 of four rounds each: a round with rotation r is x0 += x1, x1 = (x1 rotated left by r)
xor x0; the rotations are 13, 15, 26, 6 where g is even, else 17, 29, 16, 24. After group g: x0 += k[(g + 1) mod 3], x1 +=
k[(g + 2) mod 3] + g + 1.

Philox-4x32 with 10 rounds, of a key (k0, k1) and a counter (c0, c1, c2, c3): a round gives (high(0xCD9E8D57 c2) xor c1 xor
k0, low(0xCD9E8D57 c2), high(0xD2511F53 c0) xor c3 xor k1, low(0xD2511F53 c0)), high and low the upper and lower 32 of 64
bits; then k0 += 0x9E3779B9, k1 += 0xBB67AE85.
"""

SPECS = [
    op("rng_bit_generator", "key", "like key, u32[4] or u64[2]; dtype `dtype`, shape `shape`",
       """The bytes of the key are two numbers s0 and s1 of 64 bits, the first 32-bit word the lower. The new key is (s0,
       s1 + n), n the number of counters used. Default and Philox: for t = 0, 1, ... the words of Philox with the key s0 and
       the 128-bit counter s0 2^64 + s1 + t (c0 the lowest word; s1 + t carries into the upper half, s0); dtypes of 8, 16,
       32 bits take a word per element, its lower bits; 64 bits take two, the lower one first. Threefry: the key is (lower,
       upper word of s0), counter t is (lower, upper word of s1 + t). 64 bits: an element of counter t is the first word
       plus 2^32 times the second, in row-major order. Fewer: let a be the first axis of even length, else the longest (the
       first of equals); half is the shape with ceil(n / 2) along a; counters run over half in row-major order, and the two
       words of the one at j along a are the elements 2 j and 2 j + 1 along a (surplus elements are dropped), their lower
       bits.""", algorithm="an enum `RandomAlgorithm`"),
    op("rng_uniform", "a b", "the dtype of a, shape `shape`",
       "Of floats or integers: numbers drawn uniformly from [a, b), not reproducible. a if integers b <= a."),
    op("threefry2x32", "k0 k1 x0 x1", "two u32 of the operands' shape",
       "Of u32 of one shape, or of rank 0: x0 and x1 after Threefry-2x32, element by element."),
]
