"""Keys for random numbers on devices: an array of their words, seen as one of keys.

Nothing below knows keys: programs are made physical (`lamina_ir.extend.physical`) where a call comes in, and here their
arguments are opened and their results dressed.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, DTypeError, ShapedArray, config, dtypes, register_aval, shaped
from lamina_ir.extend import words_array

from .arrays import host_value, Shard
from .trees_cpp import CALLS

__all__ = ["Key", "KeyArray", "closed_again", "keys_of", "known_keys", "opened", "plain"]


class Key:
    """With `debug_key_reuse`, one key: how it was used up, and which keys it may be, if it is no key of its own."""

    __slots__ = ("used", "parts")

    def __init__(self, parts: tuple[Key, ...] = ()) -> None:
        self.used: Any = None
        self.parts = parts or (self,)


def known_keys(x: Any) -> np.ndarray:
    """The keys of an array as objects, the same ones from then on."""
    if type(x) is KeyArray and x.keys is not None:
        return x.keys
    found = np.empty(x.shape, object)
    for at in np.ndindex(x.shape):
        found[at] = Key()
    if type(x) is KeyArray:
        x.keys = found
    return found


class KeyArray:
    """An array of keys: indexed, stacked, mapped and passed on as any array is; a key is no number, so there is no arithmetic.

    Args:
      words: uint32[..., n], an array on devices.
      dtype: the keys' element type.
    """

    __slots__ = ("words", "aval", "keys", "__weakref__")
    _trace = None
    weak_type = False
    __array_priority__ = 100

    def __init__(self, words: Any, dtype: np.dtype) -> None:
        self.words = words
        self.keys: np.ndarray | None = None  # with `debug_key_reuse`: which key each element is
        self.aval = shaped(words.shape[:-1], dtype)

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: len(self.aval.shape))
    size = property(lambda self: self.aval.size)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.words.nbytes)
    sharding = property(lambda self: self.words.sharding)
    committed = property(lambda self: self.words.committed)
    device = property(lambda self: self.words.device)
    is_fully_addressable = property(lambda self: self.words.is_fully_addressable)
    is_fully_replicated = property(lambda self: self.words.is_fully_replicated)

    @property
    def addressable_shards(self) -> list[Shard]:
        return [Shard(self, i, s.device, s.index[:-1], s.replica_id) for i, s in enumerate(self.words.addressable_shards)]

    global_shards = addressable_shards

    def addressable_data(self, index: int) -> KeyArray:
        return KeyArray(self.words.addressable_data(index), self.aval.dtype)

    def on_device_size_in_bytes(self) -> int:
        return self.words.on_device_size_in_bytes()

    def devices(self) -> set[Any]:
        return self.words.devices()

    def block_until_ready(self) -> KeyArray:
        self.words.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self.words.copy_to_host_async()

    def is_deleted(self) -> bool:
        return self.words.is_deleted()

    def delete(self) -> None:
        self.words.delete()

    def copy(self) -> KeyArray:
        return KeyArray(self.words.copy(), self.aval.dtype)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> KeyArray:
        return self.copy()

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError(f"len() of a single key {self.aval.long()}")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.aval.shape:
            raise TypeError(f"iteration over a single key {self.aval.long()}; random.split(key) gives new ones")
        if config.debug_key_reuse.value:
            known_keys(self)
        return map(self._row, range(self.aval.shape[0]), self.words)

    def _row(self, i: int, words: Any) -> KeyArray:
        row = KeyArray(words, self.aval.dtype)
        if self.keys is not None:
            row.keys = np.asarray(self.keys[i], object)
        return row

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError(f"keys are no numbers: {self.aval.long()} has no NumPy array; random.key_data(keys) gives their words")

    def __bool__(self) -> bool:
        raise TypeError(f"a key has no truth value; got {self.aval.long()}")

    def __hash__(self) -> int:
        raise TypeError("arrays are not hashable; use random.key_data(key).tobytes() as a key of a dict")

    def __repr__(self) -> str:
        text = np.array2string(host_value(self.words), separator=", ")
        return f"Array({self.aval.shape}, dtype={dtypes.long_name(self.aval.dtype)}) of words:\n{text}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> Any:
        dtypes.stored_name(self.aval.dtype)  # which refuses what other processes would misread
        return _restored, (self.words, dtypes.tag_of(self.aval.dtype))


KeyArray.__name__ = KeyArray.__qualname__ = "Array"
register_aval(KeyArray, lambda x: x.aval)
CALLS.register_node(KeyArray, lambda x: ((x.words,), x.aval.dtype), lambda dtype, words: KeyArray(words[0], dtype))


def _restored(words: Any, tag: str) -> KeyArray:
    kind = dtypes.KEY_TYPES.get(tag)
    if kind is None or dtypes.words_of(kind) != words.shape[-1]:
        raise DTypeError(f"keys cannot be restored: they are key<{tag}> of {words.shape[-1]} words, of which this process has "
                         "no generator; lamina.extend.random.define_prng_impl defines one")
    return KeyArray(words, kind)


def opened(args: Sequence[Any]) -> list[Any]:
    """Arguments with the words of keys in place of keys."""
    return [x.words if type(x) is KeyArray else
            words_array(x) if isinstance(x, np.ndarray) and dtypes.is_key(x.dtype) else x for x in args]


def closed_again(outs: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Results as what the program says they are."""
    return [KeyArray(x, a.dtype) if dtypes.is_key(a.dtype) else x for x, a in zip(outs, avals, strict=True)]


def keys_of(value: np.ndarray, put: Any) -> KeyArray:
    """Keys on the host brought where `put` brings their words."""
    return KeyArray(put(words_array(value)), value.dtype)


def plain(program: ClosedJaxpr) -> bool:
    """Whether no argument and no result is a key."""
    return not any(dtypes.is_key(a.dtype) for a in (*program.in_avals, *program.out_avals))
