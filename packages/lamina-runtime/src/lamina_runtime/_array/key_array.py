"""Define typed PRNG key arrays: a wrapper around a uint32 array on devices.

jaxlib cannot hold arrays with an extended dtype. So the programs of a call are lowered to uint32 data
(`lamina_ir.extend.lower_keys`), key arrays among their arguments are unwrapped, and results are wrapped.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from lamina_ir import ClosedJaxpr, DTypeError, ShapedArray, config, dtypes, register_aval, shaped
from lamina_ir.extend import KeyUse, get_key_data
from lamina_ir.typing import Device, Value
from typing_extensions import override

from .arrays import host_value, Shard
from .._jaxlib.pytree_registry import CALL_REGISTRY
from .._typing import Array

__all__ = ["KeyArray", "KeyState", "has_float0_results", "has_no_keys", "key_states", "put_keys", "unwrap_keys", "wrap_keys"]


class KeyState:
    """The state of one key, with `debug_key_reuse`.

    Attributes:
      consumed_by: the `Use` that consumed the key; None if it was not consumed.
      candidates: the keys that this one may be, if that depends on values (e.g. on an index); else itself.
    """

    __slots__ = ("consumed_by", "candidates")

    def __init__(self, candidates: tuple[KeyState, ...] = ()) -> None:
        self.consumed_by: KeyUse | None = None
        self.candidates = candidates or (self,)


def key_states(x: Value) -> np.ndarray:
    """Return the `KeyState` of each element as an object array. They are created once and stored in the array."""
    if type(x) is KeyArray and x.states is not None:
        return x.states
    found = np.empty(x.shape, object)
    for at in np.ndindex(x.shape):
        found[at] = KeyState()
    if type(x) is KeyArray:
        x.states = found
    return found


class KeyArray:
    """An array of PRNG keys. It can be indexed, stacked, mapped and passed like other arrays, but has no arithmetic.

    Args:
      key_data: uint32[..., n], an array on devices.
      dtype: the key dtype.
    """

    __slots__ = ("key_data", "aval", "states", "__weakref__")
    _trace = None
    weak_type = False
    __array_priority__ = 100

    def __init__(self, key_data: Value, dtype: np.dtype) -> None:
        self.key_data = key_data
        self.states: np.ndarray | None = None  # with `debug_key_reuse`: the `KeyState` of each element
        self.aval = shaped(key_data.shape[:-1], dtype)

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)
    ndim = property(lambda self: len(self.aval.shape))
    size = property(lambda self: self.aval.size)
    itemsize = property(lambda self: self.aval.dtype.itemsize)
    nbytes = property(lambda self: self.key_data.nbytes)
    sharding = property(lambda self: self.key_data.sharding)
    committed = property(lambda self: self.key_data.committed)
    device = property(lambda self: self.key_data.device)
    is_fully_addressable = property(lambda self: self.key_data.is_fully_addressable)
    is_fully_replicated = property(lambda self: self.key_data.is_fully_replicated)

    @property
    def addressable_shards(self) -> list[Shard]:
        return [Shard(self, i, s.device, s.index[:-1], s.replica_id)
                for i, s in enumerate(self.key_data.addressable_shards)]

    global_shards = addressable_shards

    def addressable_data(self, index: int) -> KeyArray:
        return KeyArray(self.key_data.addressable_data(index), self.aval.dtype)

    def on_device_size_in_bytes(self) -> int:
        return self.key_data.on_device_size_in_bytes()

    def devices(self) -> set[Device]:
        return self.key_data.devices()

    def block_until_ready(self) -> KeyArray:
        self.key_data.block_until_ready()
        return self

    def copy_to_host_async(self) -> None:
        self.key_data.copy_to_host_async()

    def is_deleted(self) -> bool:
        return self.key_data.is_deleted()

    def delete(self) -> None:
        self.key_data.delete()

    def copy(self) -> KeyArray:
        return KeyArray(self.key_data.copy(), self.aval.dtype)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> KeyArray:
        return self.copy()

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError(f"len() of a single key {self.aval.str_long()}")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.aval.shape:
            raise TypeError(f"iteration over a single key {self.aval.str_long()}; random.split(key) gives new ones")
        if config.debug_key_reuse.value:
            key_states(self)
        return map(self._element, range(self.aval.shape[0]), self.key_data)

    def _element(self, i: int, data: Array) -> KeyArray:
        element = KeyArray(data, self.aval.dtype)
        if self.states is not None:
            element.states = np.asarray(self.states[i], object)
        return element

    def _repr_html_(self) -> str:
        from lamina_ir.extend import html  # noqa: PLC0415 (on demand: only notebooks need it)

        from .._sharding.sharding_html import placement_text  # noqa: PLC0415 (likewise)
        facts = [("bytes", f"{self.nbytes:,}"), ("placement", placement_text(self.sharding))]
        return html.fact_box(f"Array {self.aval.str_long()}", [*facts, *([("values", "deleted")] if self.is_deleted() else ())])

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        raise TypeError(f"PRNG keys cannot be converted to a NumPy array; got {self.aval.str_long()}. Use "
                        "random.key_data(keys) for the raw uint32 data")

    def __bool__(self) -> bool:
        raise TypeError(f"a key has no truth value; got {self.aval.str_long()}")

    @override
    def __hash__(self) -> int:
        raise TypeError("arrays are not hashable; use random.key_data(key).tobytes() as a key of a dict")

    @override
    def __repr__(self) -> str:
        text = np.array2string(host_value(self.key_data), separator=", ")
        return f"Array({self.aval.shape}, dtype={dtypes.long_name(self.aval.dtype)}) with key data:\n{text}"

    __str__ = __repr__

    @override
    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    @override
    def __reduce__(self) -> tuple[Callable[..., KeyArray], tuple[object, ...]]:
        dtypes.portable_name(self.aval.dtype)  # raises for key types that other processes could misinterpret
        return _restored, (self.key_data, dtypes.key_tag(self.aval.dtype))


KeyArray.__name__ = KeyArray.__qualname__ = "Array"
register_aval(KeyArray, lambda x: x.aval)
CALL_REGISTRY.register_node(KeyArray, lambda x: ((x.key_data,), x.aval.dtype), lambda dtype, data: KeyArray(data[0], dtype))


def _restored(data: Value, tag: str) -> KeyArray:
    kind = dtypes.KEY_TYPES.get(tag)
    if kind is None or dtypes.key_size(kind) != data.shape[-1]:
        raise DTypeError(f"keys cannot be restored: they are key<{tag}> with {data.shape[-1]} uint32 values each, and "
                         "this process has no such generator; define it with lamina.extend.random.define_prng_impl")
    return KeyArray(data, kind)


def unwrap_keys(args: Sequence[Value]) -> list[Value]:
    """Replace key arrays among arguments by their uint32 data, and arrays of float0 by booleans."""
    return [x.key_data if type(x) is KeyArray else
            get_key_data(x) if isinstance(x, np.ndarray) and x.dtype.names is not None else x for x in args]


def wrap_keys(outs: Sequence[Value], avals: Sequence[ShapedArray]) -> list[Value]:
    """Wrap the uint32 data of results that are keys by their avals; results of dtype float0 are NumPy arrays."""
    return [KeyArray(x, a.dtype) if dtypes.is_key(a.dtype) else
            np.zeros(a.shape, dtypes.float0) if a.dtype == dtypes.float0 else x for x, a in zip(outs, avals, strict=True)]


def put_keys(value: np.ndarray, put: Callable[[np.ndarray], Value]) -> KeyArray:
    """Make a key array of host keys; `put` moves their uint32 data to devices."""
    return KeyArray(put(get_key_data(value)), value.dtype)


def has_float0_results(program: ClosedJaxpr) -> bool:
    """Return whether a result has dtype float0."""
    return any(a.dtype == dtypes.float0 for a in program.out_avals)


def has_no_keys(program: ClosedJaxpr) -> bool:
    """Return whether no argument and no result is a key or of dtype float0."""
    return not any(a.dtype.names is not None for a in (*program.in_avals, *program.out_avals))
