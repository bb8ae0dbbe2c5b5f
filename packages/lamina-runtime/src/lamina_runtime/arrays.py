"""The concrete array: jaxlib's array class with its whole Python face.

jaxlib's class cannot be subclassed, so the methods are set on it. An array remembers its type (`aval`), its placement
(`sharding`) and whether a user chose that placement (`committed`). Arrays that jaxlib makes by itself, for the parts of
a sharded array, come without aval and are given one here.
"""
from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from lamina_ir import avals
from lamina_ir.avals import ShapedArray, shaped

from . import _jaxlib, backends as _devices, host_errors, shardings
from ._jaxlib import ArrayImpl, SingleDeviceSharding

__all__ = ["Array", "Shard", "Wardrobe", "host_value", "put", "put_pieces", "row_of", "text_of", "with_type"]

Array = ArrayImpl
_device_put = _jaxlib.batched_device_put
_COPY = _jaxlib.COPY_DURING_CALL
_wait_for = _jaxlib.wait_for


# --- making -------------------------------------------------------------------------------------------------------
def put(x: Any, device: Any, committed: bool, aval: ShapedArray | None = None) -> Any:
    """A host value on one device. The memory is copied before this returns."""
    if aval is None:
        aval = avals.aval_of(x)
    return _device_put(aval, shardings.single(device), [x], [device], committed, False, _COPY)


def put_pieces(aval: ShapedArray, sharding: Any, pieces: Sequence[Any], devices: Sequence[Any],
               committed: bool = True) -> Any:
    """One array from the host pieces (or single-device arrays) of its devices, in order."""
    if sharding.partly_copied or 0 in aval.shape:
        # Copying during the call, jaxlib fails ("bad_function_call") where two pieces share memory.
        pieces = [np.array(p) if isinstance(p, np.ndarray) else p for p in pieces]
        return _device_put(aval, sharding, pieces, devices, committed, False, _jaxlib.ZERO_COPY)
    return _device_put(aval, sharding, pieces, devices, committed, False, _COPY)


def with_type(x: Any, aval: ShapedArray, sharding: Any = None) -> Any:
    """The same buffers read as `aval`."""
    return x._rewrap_with_aval_and_sharding(aval, sharding or x._sharding)


def _pieces(x: Any) -> list[Any]:
    """The parts of an array, in order of its devices, each typed and placed as an array of its own."""
    sharding = x._sharding
    if type(sharding) is SingleDeviceSharding:
        return [x]
    aval = shaped(sharding.shard_shape(x.aval.shape), x.aval.dtype, x.aval.weak_type)
    return [_typed_piece(p, aval, d) for p, d in zip(x._arrays, sharding._internal_device_list.addressable_device_list)]


def _typed_piece(piece: Any, aval: ShapedArray, device: Any) -> Any:
    """A part of an array with the shape its holder says. A program's result parts lack the mapped dimensions, which are
    of length one, and the parts of arrays put from the host have them; the bytes are the same."""
    where = shardings.single(device)
    typed = piece._rewrap_with_aval_and_sharding(aval, where)
    value, _ = typed._single_device_array_to_np_array_did_copy()
    if value.shape == aval.shape:
        return typed
    return put_pieces(aval, where, [value.reshape(aval.shape)], [device])


def row_of(x: Any, index: int) -> Any:
    """`x[index]` of an array mapped over its leading axis: that device's part, moved nowhere. None if it is not one."""
    sharding = x._sharding
    dims = sharding.mapped_dims
    shape = x.aval.shape
    if not dims or dims[0] != 0 or len(dims) != 1 or sharding.shard_shape(shape)[0] != 1:
        return None
    n = shape[0]
    if not -n <= index < n:
        return None
    _check_alive(x)
    copies = sharding.num_devices // n
    at = index % n * copies
    device = sharding._internal_device_list[at]
    addressable = sharding._internal_device_list.addressable_device_list
    if len(addressable) != sharding.num_devices:
        return None
    aval = shaped(shape[1:], x.aval.dtype, x.aval.weak_type)
    try:
        return _typed_piece(x._arrays[at], aval, device)
    except _jaxlib.LAUNCH_ERRORS as e:
        raise _read_failure(f"[{index}]", x, e)


# --- waiting ------------------------------------------------------------------------------------------------------
def _block_until_ready(x: Any) -> Any:
    """Wait until the array is computed; returns it. ExecutionError (or CallbackError) when its program failed."""
    try:
        return _wait_for(x)
    except _jaxlib.LAUNCH_ERRORS as e:
        raise _read_failure("block_until_ready", x, e)


def _read_failure(call: str, x: Any, error: Exception) -> Exception:
    """jaxlib's error from waiting for an array, in our words."""
    _check_alive(x)
    return host_errors.translated(f"{call} of {'an array' if x.aval is None else x.aval.long()}", error)


# --- reading ------------------------------------------------------------------------------------------------------
def _check_alive(x: Any) -> None:
    if x.is_deleted():
        raise RuntimeError(f"Array has been deleted or donated: {x.aval.long()}")


def host_value(x: Any) -> np.ndarray:
    """The numbers, as a read-only NumPy array; gathered once and kept when that needs a copy."""
    kept = x._npy_value
    if kept is not None:
        return kept
    _check_alive(x)
    aval = x.aval
    try:
        value, copied = _read(x, x._sharding, aval)
    except (BufferError, *_jaxlib.LAUNCH_ERRORS) as e:
        raise _read_failure("np.asarray", x, e)
    if value.shape != aval.shape:
        value = value.reshape(aval.shape)
    value.flags.writeable = False
    if copied:
        x._npy_value = value
    return value


def _read(x: Any, sharding: Any, aval: ShapedArray) -> tuple[np.ndarray, bool]:
    """(the numbers, whether they are a copy)."""
    if type(sharding) is SingleDeviceSharding:
        if sharding.on_host and aval.dtype.isbuiltin == 1:
            return np.asarray(memoryview(x)), False
        return x._single_device_array_to_np_array_did_copy()
    if not sharding._internal_device_list.is_fully_addressable and not shardings.is_replicated(sharding):
        raise RuntimeError(f"np.asarray: {aval.long()} has parts on devices of other processes; gather it in a program "
                           "first (lax.all_gather), or read x.addressable_shards")
    return _gather(x, sharding, aval), True


def _gather(x: Any, sharding: Any, aval: ShapedArray) -> np.ndarray:
    pieces = x._arrays
    if shardings.is_replicated(sharding):
        return pieces[0]._single_device_array_to_np_array_did_copy()[0]
    if sharding.on_host and aval.dtype.isbuiltin == 1:
        parts = [np.asarray(memoryview(p)) for p in pieces]  # a fifth of the time of the general way
    else:
        for p in pieces:  # let the copies overlap
            p._copy_single_device_array_to_host_async()
        parts = [p._single_device_array_to_np_array_did_copy()[0] for p in pieces]
    if sharding.mapped_dims == (0,) and not sharding.partly_copied and aval.shape[0] % len(parts) == 0:
        return np.concatenate(parts)
    out = np.empty(aval.shape, aval.dtype)
    for where, part in zip(shardings.index_map(sharding, aval.shape), parts):
        hole = out[where]
        hole[...] = part.reshape(hole.shape)
    return out


def text_of(x: Any) -> str:
    """`Array([1., 2.], dtype=float32)`."""
    aval = x.aval
    if aval is None:
        return "Array(<untyped buffer>)"
    if x.is_deleted():
        return f"Array(deleted, shape={aval.shape}, dtype={aval.dtype.name})"
    tail = f"dtype={aval.dtype.name}{', weak_type=True' if aval.weak_type else ''})"
    if not x.sharding.is_fully_addressable:
        return f"Array(shape={aval.shape}, {tail}"
    if aval.size == 0:
        shape = "" if aval.shape == (0,) else f"shape={aval.shape}, "
        return f"Array([], {shape}{tail}"
    text = np.array2string(host_value(x), separator=", ", prefix="Array(", suffix=")")
    last = len(text) - text.rfind("\n") + (6 if "\n" not in text else 0)
    gap = ", " if last + len(tail) + 1 < np.get_printoptions()["linewidth"] else ",\n      "
    return f"Array({text}{gap}{tail}"


class Shard:
    """One device's part of an array.

    Attributes:
      device: where it lies.
      index: which part it is, as a tuple of slices.
      replica_id: 0 for the first device that holds this part, 1 for the next, ...
      data: the part as an array on that device.
    """

    __slots__ = ("_holder", "_at", "device", "index", "replica_id")

    def __init__(self, holder: Any, at: int, device: Any, index: tuple[slice, ...], replica_id: int) -> None:
        self._holder = holder
        self._at = at
        self.device = device
        self.index = index
        self.replica_id = replica_id

    @property
    def data(self) -> Any:
        return _pieces(self._holder)[self._at]

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data!r})"


def _addressable_shards(x: Any) -> list[Shard]:
    """The parts this process holds, in order of the devices."""
    sharding = x._sharding
    where = shardings.sharding_devices(sharding)
    parts = shardings.index_map(sharding, x.aval.shape)
    own = set(sharding._internal_device_list.addressable_device_list)
    seen: dict[Any, int] = {}
    found: list[Shard] = []
    for device, index in zip(where, parts):
        key = tuple((s.start, s.stop) for s in index)
        replica = seen[key] = seen.get(key, -1) + 1
        if device in own:
            found.append(Shard(x, len(found), device, index, replica))
    return found


# --- the face -----------------------------------------------------------------------------------------------------
def _array(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    value = host_value(self)
    if dtype is not None and value.dtype != dtype:
        return value.astype(dtype)
    return value.copy() if copy else value


def _scalar(self: Any, use: str) -> Any:
    if self.aval.size != 1:
        raise TypeError(f"{use}: expected an array with one element; got {self.aval.long()}")
    return host_value(self).reshape(())[()]


def _bool(self: Any) -> bool:
    if self.aval.size != 1:
        if self.aval.size == 0:
            raise ValueError(f"the truth value of an empty array is ambiguous; got {self.aval.long()}")
        raise ValueError(f"the truth value of an array with several elements is ambiguous; got {self.aval.long()}. "
                         "Use .any() or .all()")
    return bool(host_value(self).reshape(())[()])


def _index(self: Any) -> int:
    if self.aval.shape or self.aval.dtype.kind not in "iu":
        raise TypeError(f"only rank-0 integer arrays can be an index; got {self.aval.long()}")
    return operator.index(host_value(self)[()])


def _len(self: Any) -> int:
    shape = self.aval.shape
    if not shape:
        raise TypeError(f"len() of a rank-0 array {self.aval.long()}")
    return shape[0]


def _iter(self: Any) -> Iterator[Any]:
    """The rows, each on the device that holds it."""
    shape = self.aval.shape
    if not shape:
        raise TypeError(f"iteration over a rank-0 array {self.aval.long()}")
    sharding = self._sharding
    if sharding.mapped_dims and shape[0] and row_of(self, 0) is not None:
        return (row_of(self, i) for i in range(shape[0]))
    aval = shaped(shape[1:], self.aval.dtype, self.aval.weak_type)
    one = type(sharding) is SingleDeviceSharding
    device = sharding._device if one else _devices.default_device()
    where, committed = shardings.single(device), one and self._committed
    return (_device_put(aval, where, [row], [device], committed, False, _COPY) for row in host_value(self))


def _hash(self: Any) -> int:
    raise TypeError("arrays are not hashable; use their shape and dtype, or x.tobytes(), as a key")


def _format(self: Any, spec: str) -> str:
    return format(host_value(self)[()] if not self.aval.shape else host_value(self), spec)


def _item(self: Any, *index: int) -> Any:
    """The element at `index` (or the only one) as a Python number."""
    return host_value(self).item(*index)


def _restore(value: np.ndarray, dtype: Any, weak: bool) -> Any:
    aval = shaped(value.shape, dtype, weak)
    return put(value, _devices.default_device(), False, aval)


def _copy_array(self: Any, memo: Any = None) -> Any:
    _check_alive(self)
    sharding = self._sharding
    devices = sharding._internal_device_list
    new, = _jaxlib.copy_to_device_list([self], [devices], [sharding], True)
    return with_type(new, self.aval, sharding)


def _dlpack(self: Any, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
    _check_alive(self)
    if type(self._sharding) is not SingleDeviceSharding:
        raise BufferError(f"__dlpack__: {self.aval.long()} lies on several devices; take one of x.addressable_shards")
    return _jaxlib.to_dlpack(_copy_array(self) if copy else self, stream)


def _dlpack_device(self: Any) -> tuple[int, int]:
    device, = shardings.sharding_devices(self._sharding)
    return (2 if device.platform in ("cuda", "gpu") else 1), device.local_hardware_id if device.platform != "cpu" else 0


def _device(self: Any) -> Any:
    """The device the array lies on, or its sharding when there are several."""
    sharding = self._sharding
    return sharding._device if type(sharding) is SingleDeviceSharding else sharding


def _copy_to_host_async(self: Any) -> None:
    """Start bringing the numbers to the host."""
    _check_alive(self)
    if self._npy_value is None:
        if type(self._sharding) is SingleDeviceSharding:
            self._copy_single_device_array_to_host_async()
        else:
            for p in self._arrays:
                p._copy_single_device_array_to_host_async()


def _setitem(self: Any, index: Any, value: Any) -> None:
    raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")


def _global_shards(self: Any) -> list[Shard]:
    return _addressable_shards(self)


FACE: dict[str, Any] = {
    "_trace": None,
    "__array_priority__": 100,
    "shape": property(lambda self: self.aval.shape),
    "dtype": property(lambda self: self.aval.dtype),
    "ndim": property(lambda self: len(self.aval.shape)),
    "size": property(lambda self: self.aval.size),
    "itemsize": property(lambda self: self.aval.dtype.itemsize),
    "nbytes": property(lambda self: self.aval.size * self.aval.dtype.itemsize),
    "weak_type": property(lambda self: self.aval.weak_type),
    "sharding": property(lambda self: self._sharding),
    "committed": property(lambda self: self._committed),
    "device": property(_device),
    "devices": lambda self: set(shardings.sharding_devices(self._sharding)),
    "addressable_shards": property(_addressable_shards),
    "global_shards": property(_global_shards),
    "is_fully_addressable": property(lambda self: self._sharding._internal_device_list.is_fully_addressable),
    "is_fully_replicated": property(lambda self: shardings.is_replicated(self._sharding)),
    "_value": property(host_value),
    "addressable_data": lambda self, index: _pieces(self)[index],
    "__array__": _array,
    "__bool__": _bool,
    "__int__": lambda self: int(_scalar(self, "int()")),
    "__float__": lambda self: float(_scalar(self, "float()")),
    "__complex__": lambda self: complex(_scalar(self, "complex()")),
    "__index__": _index,
    "__len__": _len,
    "__iter__": _iter,
    "__contains__": lambda self, value: value in host_value(self),
    "__hash__": _hash,
    "__repr__": text_of,
    "__str__": lambda self: str(host_value(self)) if not self.is_deleted() else text_of(self),
    "__format__": _format,
    "__reduce__": lambda self: (_restore, (np.array(host_value(self)), self.aval.dtype, self.aval.weak_type)),
    "__copy__": _copy_array,
    "__deepcopy__": _copy_array,
    "copy": lambda self: _copy_array(self),
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "__setitem__": _setitem,
    "item": _item,
    "tolist": lambda self: host_value(self).tolist(),
    "tobytes": lambda self, order="C": host_value(self).tobytes(order),
    "copy_to_host_async": _copy_to_host_async,
    "block_until_ready": _block_until_ready,
}


class Wardrobe:
    """Stands in for the array class where operators are installed: the face stays as it is, `x[i]` of a mapped array
    reads one device's row, and everything else is set on jaxlib's class."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in FACE:
            setattr(ArrayImpl, name, _row_first(value) if name == "__getitem__" else value)


def _row_first(getitem: Any) -> Any:
    def __getitem__(self: Any, index: Any) -> Any:
        if type(self._sharding) is not SingleDeviceSharding and isinstance(index, (int, np.integer)):
            row = row_of(self, int(index))
            if row is not None:
                return row
        return getitem(self, index)

    return __getitem__


def install() -> None:
    """Put the face on jaxlib's class."""
    for name, value in FACE.items():
        setattr(ArrayImpl, name, value)
    avals.register_aval(ArrayImpl, _aval_of_array)


def _aval_of_array(x: Any) -> ShapedArray:
    return x.aval


install()
