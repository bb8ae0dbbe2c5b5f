"""Broadcast, gather, wait and compare between processes. All processes must call each function, in the same order.

Before data is exchanged, the processes compare the structures, shapes and dtypes of their arguments. If these differ,
all of them raise.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from lamina_ir import prims, trees
from lamina_parallel import Mesh, PartitionSpec
from lamina_runtime import make_array_from_process_local_data
from lamina_runtime.extend.processes import (
    AXIS, ArrayImpl, JaxlibSharding, all_process_collective, arg_aval, host_value, is_replicated, named_sharding,
    process_count, process_index, process_part, replicated_sharding, sharding_devices, sharding_of)
from lamina_tracing import jit
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import Sharding, Tree, Value

__all__ = ["assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
           "process_allgather", "sync_global_devices"]


def _psum(data: np.ndarray) -> np.ndarray:
    return all_process_collective(prims.psum_p, data, process_count(), axes=(AXIS,), axis_index_groups=None)


def _all_gather(data: np.ndarray) -> np.ndarray:
    count = process_count()
    return all_process_collective(prims.all_gather_p, data, count, all_gather_dimension=0, axis_index_groups=None,
                                  axis_name=AXIS, axis_size=count, tiled=False)


def _as_uint32(data: bytes) -> np.ndarray:
    """Return bytes as uint32 values, padded with zeros."""
    return np.frombuffer(data + bytes(-len(data) % 4), np.uint32)


def _gather_digests(data: bytes) -> np.ndarray:
    """Return the digests of the bytes of all processes, one in each row."""
    from hashlib import sha256  # noqa: PLC0415 (late: the import takes a millisecond or two)
    return _all_gather(_as_uint32(sha256(data).digest()))


def _find_differing(rows: np.ndarray) -> list[int]:
    """Return the processes whose row differs from that of process 0."""
    return [p for p in range(len(rows)) if not np.array_equal(rows[p], rows[0])]


def _flatten(call: str, tree: Tree) -> tuple[list[np.ndarray], PyTreeDef]:
    """Return the leaves of a tree as NumPy arrays of the types they have on a device, and its structure."""
    leaves, structure = trees.tree_flatten(tree)
    values = []
    for x in leaves:
        if type(x) is ArrayImpl and not sharding_of(x).is_fully_addressable and not is_replicated(sharding_of(x)):
            raise ValueError(f"{call}: {x.aval.str_long()} is split over devices of several processes; pass this "
                             "process's part of it, global_array_to_host_local_array(x)")
        aval = arg_aval(call, x)
        values.append(np.asarray(host_value(x) if type(x) is ArrayImpl else x, aval.dtype))
    return values, structure


def _check_structures(call: str, values: Sequence[np.ndarray], structure: object) -> None:
    text = f"{call} {structure} {[(v.shape, str(v.dtype)) for v in values]}"
    odd = _find_differing(_gather_digests(text.encode()))
    if odd:
        raise ValueError(f"{call}: the processes must give trees of one structure, shapes and dtypes; those of "
                         f"processes {odd} differ from those of process 0. This process gives "
                         f"{text[len(call) + 1:]:.300}")


def _to_bytes(values: Sequence[np.ndarray]) -> bytes:
    return b"".join([np.ascontiguousarray(v).tobytes() for v in values])


def _from_uint32(packed: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Split packed values into arrays with the shapes and dtypes of `like`."""
    data, at, found = packed.tobytes(), 0, []
    for v in like:
        found.append(np.frombuffer(data, v.dtype, v.size, at).reshape(v.shape).copy())
        at += v.nbytes
    return found


def broadcast_one_to_all(in_tree: Tree, is_source: bool | None = None) -> Tree:
    """Broadcast a tree from one process to all.

    Args:
      in_tree: a tree of arrays and numbers. In the other processes only its structure, shapes and dtypes are used.
      is_source: whether this process is the source; None: process 0 is.
    Returns:
      The tree of the source as NumPy arrays, bit for bit.
    Raises:
      ValueError: the structures, shapes or dtypes of the processes differ, or the number of sources is not one.

    >>> broadcast_one_to_all({"seed": 3})
    {'seed': array(3, dtype=int32)}
    """
    call = "broadcast_one_to_all"
    values, structure = _flatten(call, in_tree)
    source = process_index() == 0 if is_source is None else bool(is_source)
    if process_count() > 1:
        _check_structures(call, values, structure)
        # The sum of one process's data and zeros; integers, so it is exact. The last element counts the sources.
        packed = _as_uint32(_to_bytes(values))
        total = _psum(np.append(packed if source else np.zeros_like(packed), np.uint32(source)))
        if total[-1] != 1:
            raise ValueError(f"{call}: one process must be the source; is_source is true in {total[-1]}")
        values = _from_uint32(total, values)
    elif not source:
        raise ValueError(f"{call}: one process must be the source; is_source is true in 0")
    return structure.unflatten(values)


def process_allgather(in_tree: Tree, tiled: bool = False) -> Tree:
    """Gather a tree from all processes.

    Args:
      in_tree: a tree of arrays and numbers, with the same structure, shapes and dtypes in all processes.
      tiled: whether to concatenate along axis 0; False: stack along a new axis 0. An array over several processes is
        returned as a whole, and requires True.
    Returns:
      The tree, with NumPy arrays of all processes' values.
    Raises:
      ValueError: the structures, shapes or dtypes of the processes differ; `tiled` is true for a scalar, or false for
        an array over several processes.

    >>> process_allgather(np.arange(2))
    array([[0, 1]], dtype=int32)
    """
    call = "process_allgather"
    leaves, structure = trees.tree_flatten(in_tree)
    is_global = [type(x) is ArrayImpl and not sharding_of(x).is_fully_addressable for x in leaves]
    if any(is_global) and not tiled:
        raise ValueError(f"{call}: an array over several processes is gathered as one: pass tiled=True")
    own, _ = _flatten(call, [x for x, s in zip(leaves, is_global) if not s])
    if tiled and any(v.ndim == 0 for v in own):
        raise ValueError(f"{call}: scalars have no axis 0 to concatenate along: pass tiled=False")
    n = process_count()
    if n > 1:
        _check_structures(call, own, (structure, is_global))
        rows = _all_gather(_as_uint32(_to_bytes(own))) if own else np.zeros((n, 0), np.uint32)
        each = [_from_uint32(row, own) for row in rows]
    else:
        each = [own]
    gathered = iter([(np.concatenate if tiled else np.stack)(parts) for parts in zip(*each)])
    return structure.unflatten([_global_value(x) if s else next(gathered) for x, s in zip(leaves, is_global)])


def _global_value(x: Value) -> np.ndarray:
    """Return the whole value of an array over several processes."""
    if not is_replicated(sharding_of(x)):
        replicated = replicated_sharding(sharding_devices(sharding_of(x)))
        x = jit(lambda x: x, out_shardings=replicated)(x)
    return np.array(host_value(x))


def sync_global_devices(name: str) -> None:
    """Wait until every process has called this: a barrier.

    Args:
      name: name of the barrier, the same in all processes.
    Raises:
      AssertionError: the processes wait at barriers of different names.

    >>> sync_global_devices("data is ready")
    """
    if process_count() > 1:
        odd = _find_differing(_gather_digests(f"sync {name}".encode()))
        if odd:
            raise AssertionError(f"sync_global_devices: barrier names differ: processes {odd} do not use the name of "
                                 f"process 0; this process uses {name!r}")


def assert_equal(in_tree: Tree, fail_message: str = "") -> None:
    """Raise in all processes unless their trees are equal, bit for bit.

    Args:
      in_tree: a tree of arrays and numbers.
      fail_message: start of the error message.
    Raises:
      AssertionError: a process has another structure, shape, dtype or value than process 0.

    >>> assert_equal({"step": 3}, "processes are at different steps")
    """
    values, structure = _flatten("assert_equal", in_tree)
    if process_count() > 1:
        text = f"{structure} {[(v.shape, str(v.dtype)) for v in values]}"
        odd = _find_differing(_gather_digests(text.encode() + _to_bytes(values)))
        if odd:
            raise AssertionError(f"{fail_message or 'assert_equal'}: processes {odd} differ from process 0; this "
                                 f"process has {trees.tree_unflatten(structure, values)!r:.300}")


# --- local and global arrays --------------------------------------------------------------------------------------
def host_local_array_to_global_array(local_inputs: Tree, global_mesh: Mesh | None, pspecs: Tree) -> Tree:
    """Make arrays over all devices of a mesh from the parts of each process.

    Args:
      local_inputs: a tree of this process's parts, see `lamina.make_array_from_process_local_data`.
      global_mesh: a `Mesh`, or an object with the same `devices` and `axis_names`. None: `pspecs` are shardings.
      pspecs: for each array a `PartitionSpec`, or a tuple of its entries; a prefix of the tree of inputs. An entry may
        be a sharding.
    Returns:
      A tree of arrays over the mesh.
    Raises:
      ValueError: a part does not fit, or a spec names an axis that the mesh does not have.

    >>> import lamina_runtime
    >>> place = lamina_runtime.device_put(1.0, lamina_runtime.devices()[0]).sharding
    >>> host_local_array_to_global_array(np.arange(2), None, place)
    Array([0, 1], dtype=int32)
    """
    call = "host_local_array_to_global_array"
    flat, tree = trees.tree_flatten(local_inputs)
    makers = _sharding_makers(call, local_inputs, global_mesh, pspecs)
    return tree.unflatten([make_array_from_process_local_data(
        make(arg_aval(call, x).ndim), x) for x, make in zip(flat, makers)])


def global_array_to_host_local_array(global_inputs: Tree, global_mesh: Mesh | None = None, pspecs: Tree = None) -> Tree:
    """Return this process's part of arrays over several processes, as local arrays. They share memory.

    Args:
      global_inputs: a tree of arrays. Arrays over this process's devices only are returned as they are.
      global_mesh, pspecs: the shardings of the arrays, as for `host_local_array_to_global_array`. Default: not checked.
    Returns:
      A tree of arrays over this process's devices.
    Raises:
      ValueError: this process's part of an array is not a block, or an array has another sharding than the one given.

    >>> import lamina_runtime
    >>> global_array_to_host_local_array([lamina_runtime.device_put(1.0)])
    [Array(1., dtype=float32, weak_type=True)]
    """
    call = "global_array_to_host_local_array"
    flat, tree = trees.tree_flatten(global_inputs)
    if pspecs is not None:
        for x, make in zip(flat, _sharding_makers(call, global_inputs, global_mesh, pspecs)):
            if type(x) is ArrayImpl and sharding_of(x) != make(x.aval.ndim):
                raise ValueError(f"{call}: {x.aval.str_long()} has the sharding {sharding_of(x)}; global_mesh and pspecs "
                                 f"give {make(x.aval.ndim)}")
    return tree.unflatten([process_part(call, x) if type(x) is ArrayImpl else x for x in flat])


def _is_spec(x: object) -> bool:
    return x is None or isinstance(x, (JaxlibSharding, tuple))


def _sharding_makers(call: str, inputs: Tree, mesh: Mesh | None, pspecs: Tree) -> list[Callable[..., Sharding]]:
    """Return for each flat input a function from its rank to its sharding."""
    specs = trees.broadcast_prefix(pspecs, inputs, is_leaf=_is_spec)
    return [lambda rank, spec=spec: _make_sharding(call, mesh, spec, rank) for spec in specs]


def _make_sharding(call: str, mesh: Mesh | None, spec: PartitionSpec | Sharding | None, rank: int) -> Sharding:
    if isinstance(spec, JaxlibSharding):
        return spec
    if mesh is None:
        raise TypeError(f"{call}: global_mesh is None, so pspecs must be shardings; got {spec!r}")
    named = mesh if isinstance(mesh, Mesh) else Mesh(mesh.devices, tuple(mesh.axis_names))
    entries = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*(spec or ()))
    return named_sharding(named, entries, rank, f"{call}: pspecs")
