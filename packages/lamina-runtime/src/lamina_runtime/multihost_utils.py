"""What several processes do together on the host: say, gather, wait, compare. All processes call each function, in one order.

Before data moves the processes compare what they were called with: where they differ in that, all raise.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import prims, trees
from lamina_parallel import Mesh, PartitionSpec
from lamina_tracing import jit

from . import _jaxlib, arrays, assembling, backends, jointly, shardings, transfers
from ._jaxlib import ArrayImpl

__all__ = ["assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array", "host_local_array_to_global_array",
           "process_allgather", "sync_global_devices"]

_AXIS = jointly.AXIS


def _summed(words: np.ndarray) -> np.ndarray:
    return jointly.together(prims.psum_p, words, backends.process_count(), axes=(_AXIS,), axis_index_groups=None)


def _gathered(words: np.ndarray) -> np.ndarray:
    count = backends.process_count()
    return jointly.together(prims.all_gather_p, words, count, all_gather_dimension=0, axis_index_groups=None, axis_name=_AXIS,
                            axis_size=count, tiled=False)


def _words(data: bytes) -> np.ndarray:
    return np.frombuffer(data + bytes(-len(data) % 4), np.uint32)


def _digests(data: bytes) -> np.ndarray:
    """Row by row a digest of each process's bytes."""
    from hashlib import sha256  # a millisecond or two
    return _gathered(_words(sha256(data).digest()))


def _differing(rows: np.ndarray) -> list[int]:
    """The processes whose row is not that of process 0."""
    return [p for p in range(len(rows)) if not np.array_equal(rows[p], rows[0])]


def _flat(call: str, tree: Any) -> tuple[list[np.ndarray], Any]:
    leaves, structure = trees.tree_flatten(tree)
    values = []
    for x in leaves:
        if type(x) is ArrayImpl and not x._sharding.is_fully_addressable and not shardings.is_replicated(x._sharding):
            raise ValueError(f"{call}: {x.aval.long()} is split over devices of several processes; give what this process has "
                             "of it, global_array_to_host_local_array(x)")
        aval = transfers._type_of(call, x)
        values.append(np.asarray(arrays.host_value(x) if type(x) is ArrayImpl else x, aval.dtype))
    return values, structure


def _agree(call: str, values: Sequence[np.ndarray], structure: Any) -> None:
    text = f"{call} {structure} {[(v.shape, str(v.dtype)) for v in values]}"
    odd = _differing(_digests(text.encode()))
    if odd:
        raise ValueError(f"{call}: the processes must give trees of one structure, shapes and dtypes; those of processes {odd} "
                         f"differ from those of process 0. This process gives {text[len(call) + 1:]:.300}")


def _bytes(values: Sequence[np.ndarray]) -> bytes:
    return b"".join([np.ascontiguousarray(v).tobytes() for v in values])


def _read(words: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    data, at, found = words.tobytes(), 0, []
    for v in like:
        found.append(np.frombuffer(data, v.dtype, v.size, at).reshape(v.shape).copy())
        at += v.nbytes
    return found


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """What one process has, for all.

    Args:
      in_tree: a tree of arrays and numbers; of the others only its structure, shapes and dtypes count.
      is_source: whether this process is the one; None: process 0 is.
    Returns:
      The tree of that process, as NumPy arrays, to the bit.
    Raises:
      ValueError: the processes give different structures, shapes or dtypes, or not one of them is the source.

    >>> broadcast_one_to_all({"seed": 3})
    {'seed': array(3, dtype=int32)}
    """
    call = "broadcast_one_to_all"
    values, structure = _flat(call, in_tree)
    source = backends.process_index() == 0 if is_source is None else bool(is_source)
    if backends.process_count() > 1:
        _agree(call, values, structure)
        words = _words(_bytes(values))
        found = _summed(np.append(words if source else np.zeros_like(words), np.uint32(source)))
        if found[-1] != 1:
            raise ValueError(f"{call}: one process must be the source; is_source is true in {found[-1]}")
        values = _read(found, values)
    elif not source:
        raise ValueError(f"{call}: one process must be the source; is_source is true in 0")
    return structure.unflatten(values)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """What every process has, for all.

    Args:
      in_tree: a tree of arrays and numbers, the same structure, shapes and dtypes in all processes.
      tiled: put the parts one after the other along axis 0; else along a new axis 0. Of an array over several processes the
        whole is gathered, which must be asked for with True.
    Returns:
      The tree, as NumPy arrays.
    Raises:
      ValueError: the processes give different structures, shapes or dtypes; a number is to be tiled; an array over several
        processes is not.

    >>> process_allgather(np.arange(2))
    array([[0, 1]], dtype=int32)
    """
    call = "process_allgather"
    leaves, structure = trees.tree_flatten(in_tree)
    spread = [type(x) is ArrayImpl and not x._sharding.is_fully_addressable for x in leaves]
    if any(spread) and not tiled:
        raise ValueError(f"{call}: an array over several processes is gathered as one: pass tiled=True")
    own, _ = _flat(call, [x for x, s in zip(leaves, spread) if not s])
    if tiled and any(v.ndim == 0 for v in own):
        raise ValueError(f"{call}: numbers have no axis 0 to be put together along: pass tiled=False")
    n = backends.process_count()
    if n > 1:
        _agree(call, own, (structure, spread))
        rows = _gathered(_words(_bytes(own))) if own else np.zeros((n, 0), np.uint32)
        each = [_read(row, own) for row in rows]
    else:
        each = [own]
    joined = iter([(np.concatenate if tiled else np.stack)(parts) for parts in zip(*each)])
    return structure.unflatten([_whole(x) if s else next(joined) for x, s in zip(leaves, spread)])


def _whole(x: Any) -> np.ndarray:
    if not shardings.is_replicated(x._sharding):
        everywhere = shardings.replicated(shardings.sharding_devices(x._sharding))
        x = jit(lambda x: x, out_shardings=everywhere)(x)
    return np.array(arrays.host_value(x))


def sync_global_devices(name: str) -> None:
    """Wait until every process has come here.

    Args:
      name: of the place, the same in all.
    Raises:
      AssertionError: the processes are at places of different names.

    >>> sync_global_devices("data is ready")
    """
    if backends.process_count() > 1:
        odd = _differing(_digests(f"sync {name}".encode()))
        if odd:
            raise AssertionError(f"sync_global_devices: processes {odd} wait at another name than process 0; this one is at "
                                 f"{name!r}")


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raise in all processes unless all have the same, to the bit.

    Args:
      in_tree: a tree of arrays and numbers.
      fail_message: what the error begins with.
    Raises:
      AssertionError: a process has another structure, shape, dtype or value than process 0.

    >>> assert_equal({"step": 3}, "processes are at different steps")
    """
    values, structure = _flat("assert_equal", in_tree)
    if backends.process_count() > 1:
        text = f"{structure} {[(v.shape, str(v.dtype)) for v in values]}"
        odd = _differing(_digests(text.encode() + _bytes(values)))
        if odd:
            raise AssertionError(f"{fail_message or 'assert_equal'}: processes {odd} differ from process 0; this process has "
                                 f"{trees.tree_unflatten(structure, values)!r:.300}")


# --- parts and wholes ---------------------------------------------------------------------------------------------
def host_local_array_to_global_array(local_inputs: Any, global_mesh: Any, pspecs: Any) -> Any:
    """Arrays over all devices of a mesh, of which each process gives its part.

    Args:
      local_inputs: a tree of this process's parts, see `lamina.make_array_from_process_local_data`.
      global_mesh: a `Mesh`, or what has `devices` and `axis_names` as one. None: `pspecs` are shardings.
      pspecs: for each array a `PartitionSpec`, or a tuple of its entries; a prefix of the tree of inputs. An entry may be a
        sharding.
    Returns:
      A tree of arrays over the mesh.
    Raises:
      ValueError: a part does not fit, or a spec names an axis that the mesh has not.

    >>> import lamina_runtime
    >>> place = lamina_runtime.device_put(1.0, lamina_runtime.devices()[0]).sharding
    >>> host_local_array_to_global_array(np.arange(2), None, place)
    Array([0, 1], dtype=int32)
    """
    call = "host_local_array_to_global_array"
    flat, tree = trees.tree_flatten(local_inputs)
    places = _placed(call, local_inputs, global_mesh, pspecs)
    return tree.unflatten([assembling.make_array_from_process_local_data(
        p(transfers._type_of(call, x).ndim), x) for x, p in zip(flat, places)])


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Any = None, pspecs: Any = None) -> Any:
    """This process's part of arrays over several processes, as arrays of its own; they share memory.

    Args:
      global_inputs: a tree of arrays. Those that are this process's alone stay.
      global_mesh, pspecs: how the arrays lie, as for `host_local_array_to_global_array`; default: as they do.
    Returns:
      A tree of arrays over this process's devices.
    Raises:
      ValueError: what this process has of an array is no block of it, or it lies otherwise than said.

    >>> global_array_to_host_local_array([transfers.device_put(1.0)])
    [Array(1., dtype=float32, weak_type=True)]
    """
    call = "global_array_to_host_local_array"
    flat, tree = trees.tree_flatten(global_inputs)
    if pspecs is not None:
        for x, place in zip(flat, _placed(call, global_inputs, global_mesh, pspecs)):
            if type(x) is ArrayImpl and x._sharding != place(x.aval.ndim):
                raise ValueError(f"{call}: {x.aval.long()} lies by {x._sharding}; global_mesh and pspecs say "
                                 f"{place(x.aval.ndim)}")
    return tree.unflatten([assembling.own_part(call, x) if type(x) is ArrayImpl else x for x in flat])


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, (_jaxlib.Sharding, tuple))


def _placed(call: str, inputs: Any, mesh: Any, pspecs: Any) -> list[Any]:
    """For each flat input, what gives its sharding for its rank."""
    specs = trees.broadcast_prefix(pspecs, inputs, is_leaf=_is_spec)
    return [lambda rank, spec=spec: _by_spec(call, mesh, spec, rank) for spec in specs]


def _by_spec(call: str, mesh: Any, spec: Any, rank: int) -> Any:
    if isinstance(spec, _jaxlib.Sharding):
        return spec
    if mesh is None:
        raise TypeError(f"{call}: global_mesh is None, so pspecs must be shardings; got {spec!r}")
    named = mesh if isinstance(mesh, Mesh) else Mesh(mesh.devices, tuple(mesh.axis_names))
    entries = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*(spec or ()))
    return shardings.by_spec(named, entries, rank, f"{call}: pspecs")
