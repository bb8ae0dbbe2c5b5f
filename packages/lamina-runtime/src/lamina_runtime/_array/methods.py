"""Set the methods and attributes of concrete arrays on jaxlib's array class, which cannot be subclassed.

NumPy's operators and the methods of `lamina_numpy` are added through the hook `operators`.
"""
from __future__ import annotations

import operator
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
from lamina_ir import register_aval, shaped
from typing_extensions import override
from lamina_ir.typing import Device, Function, Sharding, Value

from .. import _jaxlib
from .._backend import backends, deletion, transfer_guard
from . import reshard
from .._sharding import shardings
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from .memory_layout import get_format, get_layout
from .._backend.launch_guards import invalidate_readers
from .arrays import (_restore, addressable_shards, as_single_device_array, block_until_ready, check_not_deleted,
                     host_value, get_shard, is_ready, local_shards, put, get_member, format_array, with_aval)
from .._typing import Array

__all__ = ["METHODS", "OperatorTarget", "install"]


def _array(self: Array, dtype: np.dtype | str | type | None = None, copy: bool | None = None) -> np.ndarray:
    value = host_value(self)
    if dtype is not None and value.dtype != dtype:
        return value.astype(dtype)
    return value.copy() if copy else value


def _scalar(self: Array, use: str) -> Any:
    if self.aval.size != 1:
        raise TypeError(f"{use}: expected an array with one element; got {self.aval.str_long()}")
    return host_value(self).reshape(())[()]


def _bool(self: Array) -> bool:
    if self.aval.size != 1:
        if self.aval.size == 0:
            raise ValueError(f"the truth value of an empty array is ambiguous; got {self.aval.str_long()}")
        raise ValueError(f"the truth value of an array with several elements is ambiguous; got {self.aval.str_long()}. "
                         "Use .any() or .all()")
    return bool(host_value(self).reshape(())[()])


def _index(self: Array) -> int:
    if self.aval.shape or self.aval.dtype.kind not in "iu":
        raise TypeError(f"only rank-0 integer arrays can be an index; got {self.aval.str_long()}")
    return operator.index(host_value(self)[()])


def _len(self: Array) -> int:
    shape = self.aval.shape
    if not shape:
        raise TypeError(f"len() of a rank-0 array {self.aval.str_long()}")
    return shape[0]


def _iter(self: Array) -> Iterator[Array]:
    """Iterate over the first dimension.

    Elements of a mapped array stay on their devices. If elements are split over several devices, they are gathered on
    the first device.
    """
    shape = self.aval.shape
    if not shape:
        raise TypeError(f"iteration over a rank-0 array {self.aval.str_long()}")
    sharding = self._sharding
    if sharding._mesh is not None and sharding._mesh.explicit_axes:
        return (self[i] for i in range(shape[0]))
    single = type(sharding) is SingleDeviceSharding
    if not single and shape[0]:
        if get_member(self, 0) is not None:
            return (get_member(self, i) for i in range(shape[0]))
        elements = reshard.unstack_rows(self)
        if elements is not None:
            return iter(elements)
    aval = shaped(shape[1:], self.aval.dtype, self.aval.weak_type)
    device = sharding._device if single else backends.default_device()
    committed = single and self._committed
    # Explicit for the transfer guard: the values came from a device, and the user passed no host values.
    explicit_put = transfer_guard.explicit_transfers("put")(put)
    return (explicit_put(element, device, committed, aval) for element in host_value(self))


def _hash(self: Array) -> int:
    raise TypeError("arrays are not hashable; use their shape and dtype, or x.tobytes(), as a key")


def _readable(self: Array) -> bool:
    """Return whether this process can read all elements."""
    return not self.is_deleted() and (self._sharding.is_fully_addressable or shardings.is_replicated(self._sharding))


def _str(self: Array) -> str:
    return str(host_value(self)) if _readable(self) else format_array(self)


def _format(self: Array, spec: str) -> str:
    if not spec and not _readable(self):
        return format_array(self)
    return format(host_value(self)[()] if not self.aval.shape else host_value(self), spec)


def _repr_html(self: Array) -> str:
    from .array_html import array_html  # noqa: PLC0415 (on demand: only notebooks need it)
    return array_html(self)


def _item(self: Array, *index: int) -> bool | int | float | complex:
    """Return the element at `index` (or the only one) as a Python number."""
    try:
        return host_value(self).item(*index)
    except (TypeError, ValueError, IndexError) as error:
        raise type(error)(f"item: {error}") from None


def _copy(self: Array, order: str | None = None) -> Array:
    """Return a copy of the array. `order` must be None or 'K', because the compiler chooses the memory layout."""
    if order not in (None, "K"):
        raise NotImplementedError("copy: order must be None or 'K', because the compiler chooses the memory layout; "
                                  f"got {order!r}")
    return _copy_array(self)


@transfer_guard.explicit_transfers("put")
def _copy_array(self: Array, memo: object = None) -> Array:
    check_not_deleted(self)
    sharding = self._sharding
    if type(sharding) is SingleDeviceSharding:
        try:
            new, = _jaxlib.copy_to_device_list([deletion.pin(self)], [sharding._internal_device_list], [sharding], True)
        except _jaxlib.LAUNCH_ERRORS:
            check_not_deleted(self)
            raise
        return with_aval(new, self.aval, sharding)
    # Copied one by one, because no process can copy an array that spans processes.
    pieces = local_shards(self)
    devices = list(sharding._internal_device_list.addressable_device_list)
    new = _jaxlib.copy_to_device_list(pieces, [shardings.device_list((d,)) for d in devices],
                                      [shardings.single_device_sharding(d) for d in devices], True)
    return _jaxlib.result_handler(self.aval, sharding, self._committed)(new)


def _dlpack(self: Array, *, stream: object = None, max_version: object = None, dl_device: object = None,
            copy: bool | None = None) -> object:
    check_not_deleted(self)
    self = as_single_device_array(self)
    if type(self._sharding) is not SingleDeviceSharding:
        raise BufferError(f"__dlpack__: {self.aval.str_long()} is on several devices; take one of x.addressable_shards")
    block_until_ready(self)  # so that a failed program raises ExecutionError instead of jaxlib's error
    # Export a second array object over the memory: jaxlib crashes if the exported object is deleted or donated.
    try:
        return _jaxlib.to_dlpack(_copy_array(self) if copy else with_aval(self, self.aval), stream)
    except _jaxlib.LAUNCH_ERRORS:
        check_not_deleted(self)
        raise


def _dlpack_device(self: Array) -> tuple[int, int]:
    device, = shardings.sharding_devices(self._sharding)
    return (2 if device.platform in ("cuda", "gpu") else 1), device.local_hardware_id if device.platform != "cpu" else 0


def _device(self: Array) -> Device | Sharding:
    """The device of the array, or its sharding if it is on several devices."""
    sharding = self._sharding
    if type(sharding) is SingleDeviceSharding:
        return sharding._device
    return sharding if sharding.num_devices > 1 else sharding._internal_device_list[0]


def _delete(self: Array) -> None:
    """Free the memory. The array cannot be used after this."""
    if self._readers is not None:
        invalidate_readers(self)
    deletion.delete(self)


def _copy_to_host_async(self: Array) -> None:
    """Start copying the elements to the host."""
    check_not_deleted(self)
    if self._npy_value is None:
        if type(self._sharding) is SingleDeviceSharding:
            self._copy_single_device_array_to_host_async()
        else:
            for p in local_shards(self):
                p._copy_single_device_array_to_host_async()


def clone(self: Array) -> Array:
    """Return another array object over the same memory."""
    return with_aval(self, self.aval)


def _setitem(self: Array, index: object, value: object) -> None:
    raise TypeError("arrays are immutable: instead of `x[i] = v` write `x = x.at[i].set(v)`")


METHODS: dict[str, object] = {
    "__doc__": """An array on one device or several: immutable, typed, computed asynchronously.

    Attributes:
      shape, dtype, ndim, size, nbytes, itemsize: as in NumPy.
      weak_type: whether the dtype comes from Python numbers and yields to other dtypes in promotion.
      sharding: the placement on devices; `device` is the device if there is only one.
      committed: whether a user chose that placement, so that programs run on its devices.

    It has NumPy's methods and operators. `x.at[i].set(v)` returns a changed copy. `np.asarray(x)` waits and reads.

    >>> import numpy as np
    >>> from lamina_runtime import device_put
    >>> x = device_put(np.float32([1, 2]))
    >>> x, x.shape, x.tolist(), x.committed
    (Array([1., 2.], dtype=float32), (2,), [1.0, 2.0], False)
    """,
    "_trace": None,
    "_readers": None,  # objects to invalidate when it is deleted, see launch_guards.register_reader
    "__array_priority__": 100,
    "shape": property(lambda self: self.aval.shape),
    "dtype": property(lambda self: self.aval.dtype),
    "ndim": property(lambda self: len(self.aval.shape)),
    "size": property(lambda self: self.aval.size),
    "itemsize": property(lambda self: self.aval.dtype.itemsize),
    "nbytes": property(lambda self: self.aval.size * self.aval.dtype.itemsize),
    "weak_type": property(lambda self: self.aval.weak_type),
    "layout": property(get_layout, doc="The memory layout of its elements, and its sharding."),
    "format": property(get_format, doc="The memory layout of its elements, and its sharding."),
    "device_buffer": property(lambda self: get_shard(self, 0), doc="The array on the first of its devices."),
    "device_buffers": property(lambda self: [s.data for s in addressable_shards(self)],
                               doc="The arrays on its devices."),
    "named_shape": property(lambda self: {}),
    "sharding": property(lambda self: self._sharding),
    "committed": property(lambda self: self._committed),
    "device": property(_device),
    "devices": lambda self: set(shardings.sharding_devices(self._sharding)),
    "addressable_shards": property(addressable_shards),
    "global_shards": property(addressable_shards),
    "is_fully_addressable": property(lambda self: self._sharding._internal_device_list.is_fully_addressable),
    "is_fully_replicated": property(lambda self: shardings.is_replicated(self._sharding)),
    "_value": property(host_value),
    "addressable_data": get_shard,
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
    "__repr__": format_array,
    "__str__": _str,
    "_repr_html_": _repr_html,
    "__format__": _format,
    "__reduce__": lambda self: (_restore, (np.array(host_value(self)), self.aval.dtype, self.aval.weak_type,
                                           pickle.dumps(self._sharding) if self._committed else None)),
    "__copy__": _copy_array,
    "__deepcopy__": _copy_array,
    "copy": _copy,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "__setitem__": _setitem,
    "item": _item,
    "tolist": lambda self: host_value(self).tolist(),
    "tobytes": lambda self, order="C": host_value(self).tobytes(order),
    "delete": _delete,
    "copy_to_host_async": _copy_to_host_async,
    "block_until_ready": block_until_ready,
    "is_ready": is_ready,
    "clone": clone,
    "platform": lambda self: shardings.sharding_devices(self._sharding)[0].platform,
}


class OperatorTarget:
    """The object on which the hook `operators` sets attributes, in place of an array class.

    It passes attributes on to the class, except those that the class defines itself. It also wraps `__getitem__`:
    `x[i]` of a mapped array returns the member on its device.

    Args:
      kind: a class with attributes of its own; None: jaxlib's array class, with those in `METHODS`.
    """

    def __init__(self, kind: type | None = None) -> None:
        vars(self).update(kind=kind or ArrayImpl, own=METHODS if kind is None else frozenset(vars(kind)))

    @override
    def __setattr__(self, name: str, value: object) -> None:
        kind, own = vars(self)["kind"], vars(self)["own"]
        if name not in own:
            setattr(kind, name, _with_member_access(value) if name == "__getitem__" and kind is ArrayImpl else value)


def _with_member_access(getitem: Any) -> Function:
    def __getitem__(self: Array, index: object) -> Value:
        if type(self._sharding) is not SingleDeviceSharding and isinstance(index, (int, np.integer)):
            member = get_member(self, int(index))
            if member is not None:
                return member
        return getitem(self, index)

    return __getitem__


def install() -> None:
    """Set the methods on jaxlib's array class."""
    for name, value in METHODS.items():
        setattr(ArrayImpl, name, value)
    register_aval(ArrayImpl, operator.attrgetter("aval"))
