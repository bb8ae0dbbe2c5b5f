"""Move values between the host and devices: `device_put`, its sharded and replicated forms, `device_get`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import DTypeError, ExecutionError, ShapedArray, aval_of, dtypes, shaped, trees
from lamina_parallel import PartitionSpec
from lamina_parallel.extend import check_explicit_spec, mesh_in_scope
from lamina_tracing.extend import Tracer, constrain_tree, has_jax_array, read_jax_array
from lamina_ir.typing import Device, Sharding, Tree, Value

from .. import _jaxlib
from . import arrays
from . import reshard as resharding
from .._backend import (backends, client_state, error_translation, launch_guards, memory_errors, peer_errors, transfer_guard,
                        waiting)
from .._sharding import shardings
from .._jaxlib import ArrayImpl, SingleDeviceSharding
from .key_array import KeyArray, put_keys
from .memory_layout import Format
from .memory_space import Space
from .._typing import Array

__all__ = ["block_until_ready", "copy_to_host_async", "device_get", "device_put", "device_put_replicated",
           "device_put_sharded", "from_dlpack", "reshard"]


def _is_target(x: object) -> bool:
    return x is None or isinstance(x, (_jaxlib.Device, _jaxlib.Sharding, PartitionSpec, Format, Space))


def device_put(x: Tree, device: Tree = None, *, src: object = None, donate: bool = False,
               may_alias: bool | None = None) -> Tree:
    """Put the arrays of a tree on a device.

    Args:
      x: array, number or tree of them.
      device: a device or a sharding, to which the results are committed: programs then run there. None: host values go
        to the default device, uncommitted, and arrays are not moved. In a block `with mesh:` it may be a
        `PartitionSpec`. A `Format` stands for its sharding, and `Space.Device` for None. It may also be a tree of these
        that is a prefix of `x`.
      src: the device of `x`; ignored.
      donate: delete the arrays of `x` after they are moved.
      may_alias: ignored. Arrays are immutable, so aliasing cannot be observed.
    Returns:
      `x` with an `Array` at each leaf. Host memory is copied before this returns.
    Raises:
      TypeError: a leaf is not an array or a number.
      ValueError: a sharding does not fit an array.
      OutOfMemoryError: the device is out of memory.

    >>> device_put([1.0, 2])
    [Array(1., dtype=float32, weak_type=True), Array(2, dtype=int32, weak_type=True)]
    """
    try:
        if transfer_guard.any_guard_set:
            with transfer_guard.marking_explicit("put", "device_put"):
                return _put_tree(x, device, donate)
        return _put_tree(x, device, donate)
    except _jaxlib.LAUNCH_ERRORS as e:
        if error_translation.is_launch_failure(e):
            if memory_errors.is_memory_error(e):
                raise memory_errors.make_memory_error("device_put", e, is_transfer=True) from e
            raise peer_errors.peer_error_for("device_put", e) or ExecutionError(f"device_put: the transfer failed: {e}") from e
        raise


def _put_tree(x: Tree, device: Tree, donate: bool) -> Tree:
    if type(x) in _LEAVES and _is_target(device):
        return _put_leaf(x, device, donate)
    flat, tree = trees.tree_flatten(x)
    try:
        targets = [device] * len(flat) if _is_target(device) else trees.broadcast_prefix(device, x, is_leaf=_is_target)
    except ValueError as e:
        raise ValueError(f"device_put: the tree of devices and shardings: {e}") from None
    return tree.unflatten([_put_leaf(leaf, t, donate) for leaf, t in zip(flat, targets)])


_LEAVES = frozenset((ArrayImpl, np.ndarray, float, int, bool))


def _arg_aval(call: str, x: Value) -> ShapedArray:
    try:
        aval = aval_of(x)
    except DTypeError:
        raise DTypeError(f"{call}: expected an array of booleans or numbers; got {type(x).__name__} of dtype "
                         f"{getattr(x, 'dtype', '?')}") from None
    except TypeError:
        raise TypeError(f"{call}: expected an array, a number or a tree of them; got {type(x).__name__}: "
                        f"{x!r:.60}") from None
    if aval.dtype == dtypes.float0:
        raise DTypeError(f"{call}: float0 values, the tangents of integers, hold no data and stay on the host")
    return aval


def _find_target(given: Format | Space) -> Sharding | None:
    if isinstance(given, Space):
        given.check("device_put")
        return None
    return given.to_sharding("device_put")


def _put_leaf(x: Value, target: Device | Sharding | None, donate: bool = False) -> Array:
    if type(target) is Format or type(target) is Space:
        target = _find_target(target)
    if isinstance(x, Tracer):
        return x
    if type(x) is ArrayImpl:
        if target is None:
            return x
        out = _move_array(x, target)
        # An array that stayed where it was is the result itself.
        if donate and out is not x:
            x.delete()
        return out
    if type(x) is KeyArray:
        return KeyArray(_put_leaf(x.key_data, target, donate), x.aval.dtype)
    if has_jax_array(x):
        return _put_leaf(read_jax_array(x), target, donate)
    aval = _arg_aval("device_put", x)
    # Keys are placed as their uint32 data, and wrapped again.
    if dtypes.is_key(aval.dtype):
        return put_keys(x, lambda data: _put_leaf(data, target))
    if target is None:
        return arrays.put(x, backends.default_device(), False, aval)
    if isinstance(target, _jaxlib.Device):
        return arrays.put(x, target, True, aval)
    return put_with_sharding(x, aval, target)


def put_with_sharding(x: Value, aval: ShapedArray, sharding: Sharding) -> Array:
    """Put a host value on devices with a sharding, committed."""
    if aval.shape in getattr(sharding, "split_plans", ()):  # interned, and this shape was found to fit
        client_state.check_open(sharding._internal_device_list[0])
    else:
        sharding = shardings.resolve_sharding("device_put", aval.shape, sharding)
    if type(sharding) is SingleDeviceSharding:
        return arrays.put(x, sharding._device, True, aval, sharding)
    host = np.asarray(x, aval.dtype)
    devices, parts = shardings.split_plan(sharding, aval.shape)
    # Replicated: the same host memory for each device.
    if parts is None:
        return arrays.put_pieces(aval, sharding, [host] * len(devices), devices)
    if 0 in host.strides:  # a broadcast array: its parts may share memory, see arrays.put_pieces
        host = np.array(host)
    return arrays.put_pieces(aval, sharding, [host[p] for p in parts], devices)


def _move_array(x: Array, target: Device | Sharding) -> Array:
    """Move an array to a device or sharding; return it unchanged if it is committed there already.

    Between devices of one platform, the data does not pass through the host.
    """
    arrays.check_not_deleted(x)
    aval, old = x.aval, x._sharding
    sharding = shardings.single_device_sharding(target) if isinstance(target, _jaxlib.Device) else shardings.resolve_sharding(
        "device_put", aval.shape, target)
    if old is sharding or old == sharding:
        # Already there. Only the names of the sharding may differ.
        if x._committed:
            return x if old.alias_id == sharding.alias_id else _with_named_sharding(x, sharding)
        if type(old) is SingleDeviceSharding:
            return arrays.put_pieces(aval, sharding, [x], [old._device])
    if type(old) is SingleDeviceSharding and type(sharding) is SingleDeviceSharding:
        # jaxlib copies between devices of one client; to another platform the value passes through the host.
        if old._device.client is sharding._device.client:
            return arrays.put_pieces(aval, sharding, [x], [sharding._device])
    # Only the user knows whether the array is a shard of the result or the same in each process.
    if old.num_devices > 1 and old.is_fully_addressable and not sharding.is_fully_addressable:
        raise ValueError(f"device_put: {aval.str_long()} is on devices of this process only, and {sharding} spans several "
                         "processes. If it is this process's part, use lamina.make_array_from_process_local_data. If "
                         "it is the full array, the same in each process, pass np.asarray(x)")
    out = resharding.reshard(x, sharding)
    return put_with_sharding(arrays.host_value(x), aval, sharding) if out is None else out


def _with_named_sharding(x: Array, sharding: Sharding) -> Array:
    """Return an array over the same memory with an equal sharding that has other names."""
    # jaxlib stores the sharding in the array, so other names need another array object.
    out = arrays.with_aval(x, x.aval, sharding)
    launch_guards.record_shared_memory(x, out)
    return out


def _device_tuple(call: str, devices: Device) -> tuple[Device, ...]:
    if not isinstance(devices, Sequence) or isinstance(devices, str):
        raise ValueError(f"{call}: devices: expected a sequence of devices; got {type(devices).__name__}: {devices!r}")
    if not devices:
        raise ValueError(f"{call}: devices: expected at least one device; got an empty sequence")
    return backends.check_devices(call, devices)


def reshard(xs: Tree, out_shardings: Tree) -> Tree:
    """Give the arrays of a tree another sharding.

    Arrays are moved, as by `device_put`. A traced array gets a sharding constraint.

    Args:
      xs: array, number or tree of them.
      out_shardings: a sharding, or a tree of them that is a prefix of `xs`. In the scope of a mesh it may be a
        `PartitionSpec`.
    Returns:
      `xs` with an array at each leaf.
    Raises:
      TypeError: a leaf of `out_shardings` is not a sharding.
      ValueError: a sharding does not fit an array, or no mesh is in scope. Its mesh has `Explicit` axes, and its spec
        names others; use `lax.with_sharding_constraint` for these.

    >>> import lamina_runtime
    >>> from lamina_parallel import Mesh, PartitionSpec
    >>> mesh = Mesh(lamina_runtime.devices()[:1], "x")
    >>> reshard(np.ones(2, np.float32), lamina_runtime.NamedSharding(mesh, PartitionSpec("x"))).sharding.spec
    PartitionSpec('x',)
    """
    flat, tree = trees.tree_flatten(xs)
    try:
        targets = trees.broadcast_prefix(out_shardings, xs, is_leaf=_is_target)
    except ValueError as e:
        raise ValueError(f"reshard: out_shardings: {e}") from None
    for target in targets:
        if not isinstance(target, (_jaxlib.Sharding, PartitionSpec)):
            raise TypeError("reshard: out_shardings: expected shardings, as NamedSharding(mesh, spec) or an array's "
                            "`.sharding`, or a PartitionSpec in the scope of a mesh; got "
                            f"{type(target).__name__}: {target!r:.60}")
        _check_mixed(target)
    return tree.unflatten([constrain_tree(x, target) if isinstance(x, Tracer) else device_put(x, target)
                           for x, target in zip(flat, targets, strict=True)])


def _check_mixed(target: Sharding) -> None:
    """Raise ValueError if the mesh of a sharding has `Explicit` axes, and its spec names others."""
    mesh = mesh_in_scope() if isinstance(target, PartitionSpec) else target._mesh
    if mesh is not None and mesh.explicit_axes:
        check_explicit_spec(mesh, target if isinstance(target, PartitionSpec) else target.spec, "reshard: out_shardings")


def copy_to_host_async(x: Tree) -> Tree:
    """Start to copy the arrays of a tree to the host, so that a later `device_get` waits less.

    Args:
      x: a tree; leaves without a method `copy_to_host_async` are ignored.
    Returns:
      `x`.

    >>> copy_to_host_async({"a": device_put(1.0), "b": "text"})
    {'a': Array(1., dtype=float32, weak_type=True), 'b': 'text'}
    """
    for leaf in trees.tree_leaves(x):
        if hasattr(type(leaf), "copy_to_host_async"):
            leaf.copy_to_host_async()
    return x


@transfer_guard.explicit_transfers("put")
def device_put_sharded(shards: Sequence[Tree], devices: Sequence[Device]) -> Tree:
    """Put one tree on each device, and stack each leaf into one sharded array.

    Args:
      shards: one tree per device. All have the same structure, and corresponding leaves the same shape and dtype.
      devices: as many devices.
    Returns:
      A tree of arrays `[len(devices), ...]` with one element of the first dimension per device, as in `pmap`.
    Raises:
      ValueError: the lengths, structures, shapes or dtypes do not match.

    >>> device_put_sharded([1.0], [device_put(0.0).device])
    Array([1.], dtype=float32, weak_type=True)
    """
    call = "device_put_sharded"
    if not isinstance(shards, Sequence) or isinstance(shards, str):
        raise ValueError(f"{call}: shards: expected a sequence of trees; got {type(shards).__name__}")
    distinct = _device_tuple(call, devices)
    if len(shards) != len(distinct):
        raise ValueError(f"{call}: expected one shard per device; got {len(shards)} shards and {len(distinct)} devices")
    first, tree = trees.tree_flatten(shards[0])
    flat_shards = [first]
    for i, shard in enumerate(shards[1:], 1):
        leaves, other = trees.tree_flatten(shard)
        if other != tree:
            raise ValueError(f"{call}: the shards must have one tree structure; shard 0 has {tree}, shard {i} has "
                             f"{other}")
        flat_shards.append(leaves)
    return tree.unflatten([_stack(call, leaves, distinct) for leaves in zip(*flat_shards)])


def _stack(call: str, shards: Sequence[Value], devices: tuple[Device, ...]) -> Array:
    """Return an array with one shard on each device along a new leading dimension."""
    avals = [_arg_aval(call, x) for x in shards]
    for i, a in enumerate(avals):
        if not a.same_type(avals[0]):
            raise ValueError(f"{call}: the shards must have one shape and dtype; shard 0 has {avals[0].str_long()}, "
                             f"shard {i} has {a.str_long()}")
    one = avals[0]
    shard_aval = shaped((1, *one.shape), one.dtype, one.weak_type)
    aval = shaped((len(shards), *one.shape), one.dtype, one.weak_type)
    client = devices[0].client
    # Shards that are on a device already are reshaped there, without a transfer to the host.
    done: dict[int, Array] = {}  # by id, because the shards may be the same array several times
    for x in shards:
        if type(x) is ArrayImpl and id(x) not in done and x._sharding._internal_device_list[0].client is client:
            arrays.check_not_deleted(x)
            single = _move_array(x, devices[0]) if x._sharding.num_devices > 1 else x
            done[id(x)] = resharding.reshape_on_device(single, x.aval, shard_aval, single._sharding._device, True)
    # Copy host values, because no two pieces may share memory, see arrays.put_pieces.
    pieces = [done[id(x)] if id(x) in done else np.array(x, one.dtype)[None] for x in shards]
    sharding = shardings.mapped_sharding(devices, len(aval.shape), ((0, len(shards)),))
    return arrays.put_pieces(aval, sharding, pieces, devices)


@transfer_guard.explicit_transfers("put")
def device_put_replicated(x: Tree, devices: Sequence[Device]) -> Tree:
    """Put a copy of a tree on each device, and stack the copies of each leaf into one sharded array.

    Args:
      x: array, number or tree of them.
      devices: the devices.
    Returns:
      A tree of arrays `[len(devices), ...]`; each element of the first dimension equals the leaf.
    Raises:
      ValueError: `devices` is empty or not a sequence of devices.
    """
    call = "device_put_replicated"
    distinct = _device_tuple(call, devices)
    return trees.tree_map(lambda leaf: _stack(call, [leaf] * len(distinct), distinct), x)


@transfer_guard.explicit_transfers("get")
def device_get(x: Tree) -> Tree:
    """Copy the arrays of a tree to the host.

    Returns:
      `x` with NumPy arrays in place of arrays. Other leaves are unchanged, e.g. traced values and PRNG keys.

    >>> device_get({"a": device_put(1.0)})
    {'a': array(1., dtype=float32)}
    """
    flat, tree = trees.tree_flatten(x)
    for leaf in flat:  # start all copies before waiting for the first
        if type(leaf) is ArrayImpl:
            leaf.copy_to_host_async()
    return tree.unflatten([
        np.asarray(leaf) if hasattr(leaf, "__array__") and not isinstance(leaf, (Tracer, KeyArray)) else leaf
        for leaf in flat])


def from_dlpack(external_array: Any, device: Device = None, copy: bool | None = None) -> Array:
    """Make an array over memory that another library shares through DLPack.

    The memory is used without a copy if it is in row-major order and has a supported dtype. Copied are: memory in
    another order, with gaps or negative strides; read-only NumPy arrays; 64-bit numbers while `config.enable_x64` is
    off, which become 32-bit numbers.

    Args:
      external_array: an array of another library: an object with `__dlpack__` and `__dlpack_device__`.
      device: the device of the result; None: that of the memory.
      copy: True: always copy; False: raise an error if a copy is necessary; None: copy if necessary.
    Raises:
      TypeError: `external_array` does not support DLPack.
      BufferError: the owner does not share this memory, or its layout or dtype is not understood; or `copy` is
        False and it would have to be copied.

    >>> from_dlpack(np.ones(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    x = external_array
    try:
        kind, number = x.__dlpack_device__()
    except AttributeError:
        raise TypeError("from_dlpack: expected an array that shares its memory through DLPack (with __dlpack__ and "
                        f"__dlpack_device__); got {type(x).__name__}") from None
    if kind == 1:  # DLPack's codes: 1 is CPU, 2 CUDA, 13 CUDA managed memory
        home = backends.local_devices(backend="cpu")[0]
    elif kind in (2, 13):
        home = next(d for d in backends.local_devices(backend="cuda") if d.local_hardware_id == number)
    else:
        raise ValueError(f"from_dlpack: expected memory of a CPU or a CUDA device; got DLPack device type {int(kind)}")
    # bfloat16 and the small floats: not every release of jaxlib exports them.
    if type(x) is ArrayImpl and x.dtype.kind == "V":
        return device_put(x, home if device is None else device)
    found = _copy_to(x, home) if type(x) is np.ndarray and not _is_shareable(x) else _share(x, home, kind == 1)
    if copy is not None and kind == 1:
        same = np.asarray(found).ctypes.data == np.from_dlpack(x).ctypes.data
        if copy and same:
            found = _copy_to(np.asarray(found), home)
        elif not copy and not same:
            raise BufferError(f"from_dlpack: copy=False, but the memory of this {type(x).__name__} must be copied: "
                              "pass a writable array in row-major order, of a supported dtype; or copy=None")
    return found if device is None else device_put(found, device)


def _is_shareable(x: np.ndarray) -> bool:
    return x.flags.c_contiguous and x.flags.writeable and dtypes.canonicalize(x.dtype) == x.dtype


def _copy_to(x: np.ndarray, device: Device) -> Array:
    return arrays.put(np.array(x, order="C"), device, True, _arg_aval("from_dlpack", x))


def _share(x: Any, device: Device, on_host: bool) -> Array:
    """Return an array over the memory of `x`, or a copy if jaxlib or this package cannot use the memory."""
    try:
        raw = _jaxlib.from_dlpack(x.__dlpack__(), device)
    except (_jaxlib.JaxRuntimeError, BufferError) as e:
        try:  # NumPy supports arbitrary strides
            return _copy_to(np.from_dlpack(x), device)
        except Exception:
            raise BufferError(f"from_dlpack: the memory of this {type(x).__name__} cannot be shared: {e}. Pass a copy "
                              "in row-major order") from e
    value = raw._single_device_array_to_np_array_did_copy()[0] if on_host else x
    dtype = np.dtype(value.dtype)
    if on_host and not (value.flags.c_contiguous and dtypes.canonicalize(dtype) == dtype):
        return _copy_to(value, device)
    return arrays.with_aval(raw, shaped(tuple(value.shape), dtype), shardings.single_device_sharding(device))


def block_until_ready(x: Tree) -> Tree:
    """Wait until every array of a tree is computed; return the tree."""
    found = [leaf.key_data if type(leaf) is KeyArray else leaf for leaf in trees.tree_leaves(x)
             if type(leaf) is ArrayImpl or type(leaf) is KeyArray]
    try:
        if len(found) == 1:
            waiting.wait_for(found[0])
        elif found:
            waiting.wait_for_all(found)
    except _jaxlib.LAUNCH_ERRORS as e:
        error = error_translation.translate_error("block_until_ready", e)
        raise error from error.__cause__
    return x
