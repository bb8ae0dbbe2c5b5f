"""Specs of the two conversions between keys and their uint32 data."""
from ._spec import op

__all__ = ["INTRO", "SPECS"]

INTRO = """
The data of a key are several u32: two for `key<fry>`, four for `key<rbg>` and `key<urbg>`.
"""

SPECS = [
    op("random_unwrap", "keys", "u32, with a last axis for the data of a key", "The data of the keys.",
       use="the purpose of reading them; no part of the meaning"),
    op("random_wrap", "data", "`key<impl>`, without the last axis, which has the length of a key's data",
       "The keys with this data.", impl="the generator's tag: `fry`, `rbg`, `urbg`, or one that the reader knows"),
]
