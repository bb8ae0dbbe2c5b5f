"""`save`, `load`, `steps` and `latest`: trees of arrays in a folder, with any number of processes and on any devices."""
from __future__ import annotations

import os

from lamina_ir.typing import Tree
from lamina_runtime.extend import HostGather, begin_gather

from . import _restore, _save, _tree_metadata
from ._folder import OLD_FORMAT, CheckpointFolder
from ._old_format import OldReader
from ._stores import open_store
from ._tree_metadata import Leaf
from ._zarr import ZarrReader

__all__ = ["check_number", "check_retention", "latest", "load", "load_from", "load_in", "save", "steps"]


def check_number(call: str, name: str, value: object, minimum: int) -> int:
    """Return an argument as an int.

    Raises:
      TypeError: it is not a whole number.
      ValueError: it is below the minimum.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{call}: {name} must be a whole number; got {type(value).__name__}: {value!r:.60}")
    if int(value) < minimum:
        raise ValueError(f"{call}: {name} must be at least {minimum}; got {value}")
    return int(value)


def check_retention(call: str, keep: int | None, keep_every: int | None) -> tuple[int | None, int | None]:
    """Return the two numbers of retention, checked."""
    keep = None if keep is None else check_number(call, "keep", keep, 1)
    keep_every = None if keep_every is None else check_number(call, "keep_every", keep_every, 1)
    if keep_every is not None and keep is None:
        raise ValueError(f"{call}: keep_every={keep_every} needs keep=: without it all checkpoints are retained")
    return keep, keep_every


def steps(path: str | os.PathLike[str]) -> list[int]:
    """Return the step numbers of the checkpoints in a folder, in order.

    Args:
      path: the folder, or the URL of an object store. If it does not exist, the result is [].

    >>> steps("no such folder")
    []
    """
    return CheckpointFolder(open_store("steps", path)).steps()


def latest(path: str | os.PathLike[str]) -> int | None:
    """Return the highest step number of the checkpoints in a folder; None if there are none.

    Args:
      path: the folder, or the URL of an object store.

    >>> latest("no such folder")
    """
    return max(steps(path), default=None)


def save(path: str | os.PathLike[str], tree: Tree, step: int = 0, *, keep: int | None = None,
         keep_every: int | None = None, rows: bool | Tree = False) -> None:
    """Save a tree of arrays and numbers as a checkpoint in a folder.

    The checkpoint is committed atomically, after all data is on the disk. An older checkpoint of the same step is
    replaced in that moment. With several processes, all must call this, in the same order, with a folder that all of
    them share. Each process writes the shards of its devices; replicated shards are written once.

    Args:
      path: the folder, or the URL of an object store as `gs://bucket/run`; created if it does not exist. Only one save
        at a time can write to it.
      tree: NumPy arrays, lamina arrays with any sharding, NumPy and Python numbers. All leaves but global arrays must
        be equal in all processes.
      step: the step number, from 0.
      keep: the number of checkpoints to retain: this one and those of the highest steps; None: all.
      keep_every: with `keep`, checkpoints of steps that are multiples of this are retained too.
      rows: True for leaves of which each process has its own rows, as results of `pmap`. They are saved as one array,
        concatenated along axis 0 in process order. Or a tree of bools that is a prefix of `tree`.
    Raises:
      TypeError: a leaf is not an array or a number, or is a traced value.
      ValueError: processes have different trees, or different values of a leaf that must be equal; names the leaf.
      RuntimeError: an array was deleted or donated; another save writes to the folder; saving failed in another
        process.
      ProcessLostError: a process has failed; earlier checkpoints are unchanged.
      OSError: the folder cannot be written to.

    >>> import numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save(folder, {"w": np.arange(3), "epoch": 1}, step=1)
    >>> steps(folder), load(folder)
    ([1], {'epoch': 1, 'w': array([0, 1, 2])})
    """
    meeting, plans = begin_gather("save"), list[_save.SavePlan]()
    with _save.undo_on_error(meeting, plans):
        folder = CheckpointFolder(open_store("save", path))
        step = check_number("save", "step", step, 0)
        keep, keep_every = check_retention("save", keep, keep_every)
        _save.finish(_save.prepare("save", meeting, folder, tree, step, rows, plans), keep, keep_every)


def load(path: str | os.PathLike[str], like: Tree = None, step: int | None = None, *,
         rows: bool | Tree = False) -> Tree:
    """Load a checkpoint that `save` has written.

    All data is checked against checksums. With several processes, all must call this; their number may differ from that
    at saving. Each process reads only the parts that its own devices need.

    Args:
      path: the folder, or the URL of an object store.
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
      ValueError: `like` has another structure or shape, or a sharding cannot split an array; names the leaves.
      DTypeError: a leaf has another dtype than `like`, or a 64-bit dtype while `enable_x64` is off.
      RuntimeError: loading failed in another process.
      ProcessLostError: another process has failed.

    >>> import lamina_runtime, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save(folder, {"w": np.float32([1, 2])})
    >>> load(folder, like=lamina_runtime.devices()[0])
    {'w': Array([1., 2.], dtype=float32)}
    """
    return load_from("load", CheckpointFolder(open_store("load", path)), like, step, rows)


def load_from(call: str, folder: CheckpointFolder, like: Tree, step: int | None, rows: bool | Tree) -> Tree:
    """Load a checkpoint for the function `call`."""
    with begin_gather(call) as meeting:
        return load_in(call, meeting, folder, like, step, rows)


def load_in(call: str, meeting: HostGather, folder: CheckpointFolder, like: Tree, step: int | None, rows: bool | Tree,
            mask: Tree = None) -> Tree:
    """Load a checkpoint with messages of a gather. Leaves whose `mask` is False become None."""
    step = None if step is None else check_number(call, "step", step, 0)
    if meeting.rank == 0 and step is None:
        step = max(folder.steps(), default=None)
        if step is None:
            raise FileNotFoundError(f"{call}: no checkpoint in {folder.store.root}"
                                    f"{'' if folder.store.exists() else ', which does not exist'}")
    numbers = [w["step"] for w in meeting.gather(step=step)]
    if len({n for n in numbers if n is not None}) > 1:
        raise ValueError(f"{call}: all processes must load the same step; got {numbers}")
    metadata, digest = folder.read(call, numbers[0])
    structure = metadata["tree"]
    leaves = [Leaf(*record)._replace(shape=tuple(record[2])) for record in metadata["leaves"]]
    targets = _restore.match_targets(call, structure, like)
    plans = _restore.plan_leaves(call, leaves, like, targets, rows, meeting)
    make_reader = OldReader if metadata["format"] == OLD_FORMAT else ZarrReader
    skipped = _restore.find_masked(call, like, targets, mask)
    plans = {number: plan for number, plan in plans.items() if number not in skipped}
    found = {**dict.fromkeys(skipped), **_restore.load_leaves(make_reader(call, folder.store, metadata), plans)}
    if len({w["digest"] for w in meeting.gather(digest=digest)}) > 1:
        raise ValueError(f"{call}: the processes read different checkpoints {numbers[0]} in {folder.store.root}: path "
                         "must be a folder that all processes share, and no save may write to it during a load")
    return _restore.build_tree(like, targets, lambda part: _tree_metadata.rebuild(part, found))
