"""Specs of the two ops between keys and their words."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
A key is an element of so many words u32: two of `key<fry>`, four of `key<rbg>` and `key<urbg>`.
"""

SPECS = [
    op("random_unwrap", "keys", "u32, with a last axis of the words", "The words of the keys.",
       use="what they are read for; no part of the meaning"),
    op("random_wrap", "words", "`key<impl>`, without the last axis, which has the length of a key",
       "The keys of these words.", impl="the generator's tag: `fry`, `rbg`, `urbg`, or one that the reader knows"),
]
