"""Save trees of arrays to a folder and load them, with any number of processes and on any devices.

    checkpointing.save(folder, {"params": params, "step": 12}, step=12, keep=3)
    state = checkpointing.load(folder, like={"params": params, "step": 0})

Saving is atomic: after a crash or a power failure, a checkpoint is complete or absent. `docs/how-to/checkpoints.md` describes
the files.
"""
from __future__ import annotations

import os

from lamina_ir.typing import Tree

from . import _restore, _save, _storage, _tree_metadata
from .._distributed import host_gather
from .._jaxlib import ArrayImpl
from ._storage import CheckpointError, CheckpointFolder
from ._tree_metadata import Leaf

__all__ = ["CheckpointError", "latest", "load", "save", "steps"]


def _folder(call: str, path: str | os.PathLike[str]) -> CheckpointFolder:
    try:
        name = os.fspath(path)
    except TypeError:
        name = None
    if not isinstance(name, str) or not name:
        raise TypeError(f"{call}: path must be the name of a folder; got {type(path).__name__}: {path!r:.60}")
    if "://" in name:
        raise ValueError(f"{call}: path must be a folder of a mounted file system; got {name!r}")
    return CheckpointFolder(name)


def _number(call: str, name: str, value: object, minimum: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{call}: {name} must be a whole number; got {type(value).__name__}: {value!r:.60}")
    if int(value) < minimum:
        raise ValueError(f"{call}: {name} must be at least {minimum}; got {value}")
    return int(value)


def steps(path: str | os.PathLike[str]) -> list[int]:
    """Return the step numbers of the checkpoints in a folder, in order.

    Args:
      path: the folder. If it does not exist, the result is [].

    >>> steps("no such folder")
    []
    """
    return _folder("steps", path).steps()


def latest(path: str | os.PathLike[str]) -> int | None:
    """Return the highest step number of the checkpoints in a folder; None if there are none.

    Args:
      path: the folder.

    >>> latest("no such folder")
    """
    return max(steps(path), default=None)


def save(path: str | os.PathLike[str], tree: Tree, step: int = 0, *, keep: int | None = None,
         rows: bool | Tree = False) -> None:
    """Save a tree of arrays and numbers as a checkpoint in a folder.

    The checkpoint is committed atomically, after all data is on the disk. An older checkpoint of the same step is
    replaced in that moment. With several processes, all must call this, in the same order, with a folder that all of
    them share. Each process writes the shards of its devices; replicated shards are written once.

    Args:
      path: the folder; created if it does not exist. Only one save at a time can write to it.
      tree: NumPy arrays, lamina arrays with any sharding, NumPy and Python numbers. All leaves but global arrays must
        be equal in all processes.
      step: the step number, from 0.
      keep: the number of checkpoints to retain: this one and those of the highest steps; None: all.
      rows: True for leaves of which each process has its own rows, as results of `pmap`. They are saved as one array,
        concatenated along axis 0 in process order. Or a tree of bools that is a prefix of `tree`.
    Raises:
      TypeError: a leaf is not an array or a number, or is a traced value.
      ValueError: processes have different trees, or different values of a leaf that must be equal; names the leaf.
      RuntimeError: an array was deleted or donated; another save writes to the folder; saving failed in another
        process.
      ProcessLostError: a process has failed; earlier checkpoints are unchanged.
      OSError: the folder cannot be written to.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save(folder, {"w": np.arange(3), "epoch": 1}, step=1)
    >>> steps(folder), load(folder)
    ([1], {'epoch': 1, 'w': array([0, 1, 2])})
    """
    call = "save"
    with host_gather.begin_gather(call) as meeting:
        folder, step = _folder(call, path), _number(call, "step", step, 0)
        keep = None if keep is None else _number(call, "keep", keep, 1)
        structure, flat, paths = _tree_metadata.encode_tree(tree)
        paths = [f"{call}: {leaf_path}" for leaf_path in paths]  # as messages start
        leaves = [_tree_metadata.describe_leaf(x, leaf_path) for x, leaf_path in zip(flat, paths)]
        flat = [x.key_data if leaf.is_keys else x for x, leaf in zip(flat, leaves)]
        row_leaves = _save.find_row_leaves(call, rows, tree, leaves, paths)
        for x, leaf_path in zip(flat, paths):
            if type(x) is ArrayImpl and x.is_deleted():
                raise RuntimeError(f"{leaf_path} has been deleted or donated: {x.aval.str_long()}")
        lock, token, pieces, may_be_committed = None, os.urandom(4).hex(), "", False
        try:
            if meeting.rank == 0:
                folder.make()
                lock = _storage.FolderLock(call, folder.path)
                pieces = folder.begin(step, token)
            gathered = meeting.gather(step=step, pieces=pieces, counts=[leaves[i].shape[0] for i in row_leaves],
                                      about=_save.digest_metadata(structure, leaves, row_leaves))
            _save.check_processes_agree(call, meeting, gathered, structure, leaves, row_leaves, paths)
            pieces = gathered[0]["pieces"]
            counts = {i: [w["counts"][n] for w in gathered] for n, i in enumerate(row_leaves)}
            parts = _save.write_pieces(call, os.path.join(folder.path, pieces), meeting, flat, leaves, paths,
                                               counts)
            may_be_committed = True  # from here on a failure may be in or after the commit: do not delete the data
            if meeting.rank == 0:
                global_leaves = [leaf._replace(shape=(sum(counts[i]), *leaf.shape[1:])) if i in counts else leaf
                                 for i, leaf in enumerate(leaves)]
                folder.commit(step, token, {"step": step, "pieces": pieces, "tree": structure,
                                            "leaves": global_leaves, "parts": parts})
            meeting.wait_for_process_0()
            if meeting.rank == 0 and keep is not None:
                existing = folder.steps()
                folder.drop([s for s in existing if s not in (*existing[-keep:], step)])
        except BaseException:
            if lock is not None and pieces and not may_be_committed:
                folder.discard(pieces)
            raise
        finally:
            if lock is not None:
                lock.close()


def load(path: str | os.PathLike[str], like: Tree = None, step: int | None = None, *,
         rows: bool | Tree = False) -> Tree:
    """Load a checkpoint that `save` has written.

    All data is checked against digests. With several processes, all must call this; their number may differ from that
    at saving. Each process reads only the parts that its own devices need.

    Args:
      path: the folder.
      like: the placement of the leaves. A tree with the structure of the saved one. A leaf is an array, a
        `ShapeDtypeStruct`, a sharding, a device, `np.ndarray` (the class, for a NumPy array), or a number if a Python
        number was saved. For an array the result gets its sharding, and must have its shape and dtype. A sharding, a
        device or `np.ndarray` applies to a whole subtree. None: NumPy arrays and numbers are returned as such, other
        arrays are put on the default device. Trees with nodes other than dicts, lists, tuples and None need `like`.
      step: the step number; None: the highest.
      rows: True for leaves of which each process gets its own rows: equal shares of axis 0, in process order. Or a tree
        of bools that is a prefix of the tree.
    Returns:
      The tree.
    Raises:
      FileNotFoundError: the folder or the checkpoint does not exist.
      CheckpointError: files are damaged or missing, or have another format.
      ValueError: `like` has another structure or shape, or a sharding cannot split an array; names the leaf.
      DTypeError: a leaf has another dtype than `like`, or a 64-bit dtype while `enable_x64` is off.
      RuntimeError: loading failed in another process.
      ProcessLostError: another process has failed.

    >>> import lamina_runtime, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save(folder, {"w": np.float32([1, 2])})
    >>> load(folder, like=lamina_runtime.devices()[0])
    {'w': Array([1., 2.], dtype=float32)}
    """
    call = "load"
    with host_gather.begin_gather(call) as meeting:
        folder = _folder(call, path)
        step = None if step is None else _number(call, "step", step, 0)
        if meeting.rank == 0 and step is None:
            step = latest(folder.path)
            if step is None:
                raise FileNotFoundError(f"{call}: no checkpoint in {folder.path}"
                                        f"{'' if os.path.isdir(folder.path) else ', which does not exist'}")
        numbers = [w["step"] for w in meeting.gather(step=step)]
        if len({n for n in numbers if n is not None}) > 1:
            raise ValueError(f"{call}: all processes must load the same step; got {numbers}")
        metadata, digest = folder.read(call, numbers[0])
        structure = metadata["tree"]
        leaves = [Leaf(*record)._replace(shape=tuple(record[2])) for record in metadata["leaves"]]
        targets = _restore.match_targets(call, structure, like)
        requests = _restore.plan_leaves(call, leaves, like, targets, rows, meeting)
        reader = _storage.Reader(call, folder, metadata)
        with _storage.make_thread_pool() as pool:
            found = {number: _restore.load_leaf(reader, pool, number, w) for number, w in requests.items()}
        if len({w["digest"] for w in meeting.gather(digest=digest)}) > 1:
            raise ValueError(f"{call}: the processes read different checkpoints {numbers[0]} in {folder.path}: path "
                             "must be a folder that all processes share, and no save may write to it during a load")
    return _restore.build_tree(like, targets, lambda part: _tree_metadata.rebuild(part, found))
