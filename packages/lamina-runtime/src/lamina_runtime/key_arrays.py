"""Define typed PRNG key arrays: a wrapper around a uint32 array on devices.

jaxlib cannot hold arrays with an extended dtype. So the programs of a call are lowered to uint32 data
(`lamina_ir.extend.lower_keys`), key arrays among their arguments are unwrapped, and results are wrapped.
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
    """The state of one key, with `debug_key_reuse`.

    Attributes:
      consumed_by: the `Use` that consumed the key; None if it was not consumed.
      candidates: the keys that this one may be, if that depends on values (e.g. on an index); else itself.
    """

    __slots__ = ("consumed_by", "candidates")

    def __init__(self, candidates: tuple[Key, ...] = ()) -> None:
        self.consumed_by: Any = None
        self.candidates = candidates or (self,)


def known_keys(x: Any) -> np.ndarray:
    """Return the `KeyState` of each element as an object array. They are created once and stored in the array."""
    if type(x) is KeyArray and x.states is not None:
        return x.states
    found = np.empty(x.shape, object)
    for at in np.ndindex(x.shape):
        found[at] = Key()
    if type(x) is KeyArray:
        x.states = found
    return found


class KeyArray:
    """An array of PRNG keys. It can be indexed, stacked, mapped and passed like other arrays, but has no arithmetic.

    Args:
      key_data: uint32[..., n], an array on devices.
      dtype: the key dtype.
    """

    __slots__ = ("words", "aval", "states", "__weakref__")
    _trace = None
    weak_type = False
    __array_priority__ = 100

    def __init__(self, key_data: Any, dtype: np.dtype) -> None:
        self.words = key_data
        self.states: np.ndarray | None = None  # with `debug_key_reuse`: the `KeyState` of each element
        self.aval = shaped(key_data.shape[:-1], dtype)

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
        return [Shard(self, i, s.device, s.index[:-1], s.replica_id)
                for i, s in enumerate(self.words.addressable_shards)]

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
        return map(self._element, range(self.aval.shape[0]), self.words)

    def _element(self, i: int, data: Any) -> KeyArray:
        element = KeyArray(data, self.aval.dtype)
        if self.states is not None:
            element.states = np.asarray(self.states[i], object)
        return element

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError(f"PRNG keys cannot be converted to a NumPy array; got {self.aval.long()}. Use "
                        "random.key_data(keys) for the raw uint32 data")

    def __bool__(self) -> bool:
        raise TypeError(f"a key has no truth value; got {self.aval.long()}")

    def __hash__(self) -> int:
        raise TypeError("arrays are not hashable; use random.key_data(key).tobytes() as a key of a dict")

    def __repr__(self) -> str:
        text = np.array2string(host_value(self.words), separator=", ")
        return f"Array({self.aval.shape}, dtype={dtypes.long_name(self.aval.dtype)}) with key data:\n{text}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> Any:
        dtypes.stored_name(self.aval.dtype)  # raises for key types that other processes could misinterpret
        return _restored, (self.words, dtypes.tag_of(self.aval.dtype))


KeyArray.__name__ = KeyArray.__qualname__ = "Array"
register_aval(KeyArray, lambda x: x.aval)
CALLS.register_node(KeyArray, lambda x: ((x.words,), x.aval.dtype), lambda dtype, data: KeyArray(data[0], dtype))


def _restored(data: Any, tag: str) -> KeyArray:
    kind = dtypes.KEY_TYPES.get(tag)
    if kind is None or dtypes.words_of(kind) != data.shape[-1]:
        raise DTypeError(f"keys cannot be restored: they are key<{tag}> with {data.shape[-1]} uint32 values each, and "
                         "this process has no such generator; define it with lamina.extend.random.define_prng_impl")
    return KeyArray(data, kind)


def opened(args: Sequence[Any]) -> list[Any]:
    """Replace key arrays among arguments by their uint32 data."""
    return [x.words if type(x) is KeyArray else
            words_array(x) if isinstance(x, np.ndarray) and dtypes.is_key(x.dtype) else x for x in args]


def closed_again(outs: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Any]:
    """Wrap the uint32 data of results that are keys by their avals."""
    return [KeyArray(x, a.dtype) if dtypes.is_key(a.dtype) else x for x, a in zip(outs, avals, strict=True)]


def keys_of(value: np.ndarray, put: Any) -> KeyArray:
    """Make a key array of host keys; `put` moves their uint32 data to devices."""
    return KeyArray(put(words_array(value)), value.dtype)


def plain(program: ClosedJaxpr) -> bool:
    """Return whether no argument and no result is a key."""
    return not any(dtypes.is_key(a.dtype) for a in (*program.in_avals, *program.out_avals))
