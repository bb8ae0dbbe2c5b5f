"""Trees of arrays kept in a folder: saved by one process or many, loaded by as many others, on other devices.

    checkpointing.save(folder, {"params": params, "step": 12}, step=12, keep=3)
    state = checkpointing.load(folder, like={"params": params, "step": 0})

A state is there whole or not at all, whenever the power goes. `docs/kept-states.md` says what lies in the files.
"""
from __future__ import annotations

import os
from typing import Any

from . import kept_files, kept_loading, kept_saving, kept_trees, meetings
from ._jaxlib import ArrayImpl
from .kept_files import CheckpointError, Folder
from .kept_trees import Leaf

__all__ = ["CheckpointError", "latest", "load", "save", "steps"]


def _folder(call: str, path: Any) -> Folder:
    try:
        name = os.fspath(path)
    except TypeError:
        name = None
    if not isinstance(name, str) or not name:
        raise TypeError(f"{call}: path must be the name of a folder; got {type(path).__name__}: {path!r:.60}")
    if "://" in name:
        raise ValueError(f"{call}: path must be a folder that the system knows; got {name!r}")
    return Folder(name)


def _number(call: str, name: str, value: Any, lowest: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{call}: {name} must be a whole number; got {type(value).__name__}: {value!r:.60}")
    if int(value) < lowest:
        raise ValueError(f"{call}: {name} must be at least {lowest}; got {value}")
    return int(value)


def steps(path: Any) -> list[int]:
    """The numbers of the states that are kept in a folder, in order.

    Args:
      path: the folder; [] when it is not there.

    >>> steps("no such folder")
    []
    """
    return _folder("steps", path).steps()


def latest(path: Any) -> int | None:
    """The highest number of a state that is kept in a folder; None when there is none.

    Args:
      path: the folder.

    >>> latest("no such folder")
    """
    return max(steps(path), default=None)


def save(path: Any, tree: Any, step: int = 0, *, keep: int | None = None, rows: Any = False) -> None:
    """Keep a tree of arrays and numbers in a folder.

    The state appears there complete, on the disk, or it does not; an older one of the same number stays till then. Of several
    processes all call this, in one order, with a folder that all of them see; each writes what its devices hold, and what
    several hold is written once.

    Args:
      path: the folder; made if need be. One save at a time may write to it.
      tree: NumPy arrays, lamina arrays however they are placed, NumPy and Python numbers. What is no array over the devices of
        several processes must be the same in all of them.
      step: number of the state, from 0.
      keep: how many states stay: this one and those of the highest numbers; None: all.
      rows: True for leaves of which each process has its own rows, as `pmap` gives them: they are kept as one array, joined
        along axis 0 in order of the processes. A tree of bools that is a prefix of `tree` says it of each.
    Raises:
      TypeError: a leaf is no array and no number, or is a traced value.
      ValueError: processes have different trees, or different values where they must have the same; names the leaf.
      RuntimeError: an array was deleted or donated; another save writes to the folder; it failed in another process.
      ProcessLostError: a process has gone; the states that were there are.
      OSError: the folder cannot be written to.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save(folder, {"w": np.arange(3), "epoch": 1}, step=1)
    >>> steps(folder), load(folder)
    ([1], {'epoch': 1, 'w': array([0, 1, 2])})
    """
    call = "save"
    with meetings.begin(call) as meeting:
        folder, step = _folder(call, path), _number(call, "step", step, 0)
        keep = None if keep is None else _number(call, "keep", keep, 1)
        structure, flat, places = kept_trees.written(tree)
        places = [f"{call}: {place}" for place in places]
        leaves = [kept_trees.leaf_of(x, place) for x, place in zip(flat, places)]
        flat = [x.words if leaf.is_keys else x for x, leaf in zip(flat, leaves)]
        apart = kept_saving.rows_of(call, rows, tree, leaves, places)
        for x, place in zip(flat, places):
            if type(x) is ArrayImpl and x.is_deleted():
                raise RuntimeError(f"{place} has been deleted or donated: {x.aval.long()}")
        lock, token, pieces, begun = None, os.urandom(4).hex(), "", False
        try:
            if meeting.rank == 0:
                folder.make()
                lock = kept_files.Lock(call, folder.path)
                pieces = folder.begin(step, token)
            every = meeting.gather(step=step, pieces=pieces, counts=[leaves[i].shape[0] for i in apart],
                                   about=kept_saving.about(structure, leaves, apart))
            kept_saving.check_alike(call, meeting, every, structure, leaves, apart, places)
            pieces, counts = every[0]["pieces"], {i: [w["counts"][n] for w in every] for n, i in enumerate(apart)}
            parts = kept_saving.written_pieces(call, os.path.join(folder.path, pieces), meeting, flat, leaves, places, counts)
            begun = True
            if meeting.rank == 0:
                whole = [leaf._replace(shape=(sum(counts[i]), *leaf.shape[1:])) if i in counts else leaf
                         for i, leaf in enumerate(leaves)]
                folder.commit(step, token, {"step": step, "pieces": pieces, "tree": structure, "leaves": whole, "parts": parts})
            meeting.hear()
            if meeting.rank == 0 and keep is not None:
                known = folder.steps()
                folder.drop([s for s in known if s not in (*known[-keep:], step)])
        except BaseException:
            if lock is not None and pieces and not begun:
                folder.discard(pieces)
            raise
        finally:
            if lock is not None:
                lock.close()


def load(path: Any, like: Any = None, step: int | None = None, *, rows: Any = False) -> Any:
    """A tree of arrays and numbers that `save` has kept in a folder.

    Every number is compared with its digest. Of several processes all call this, as many as like; each reads only what its own
    devices need.

    Args:
      path: the folder.
      like: where the leaves go. A tree of the structure that was saved, with for each leaf an array (the result is placed as it
        is, and must have its shape and dtype), a `ShapeDtypeStruct`, a sharding, a device, `np.ndarray` (the class: a NumPy
        array), or a number where a Python number was saved. A sharding, device or `np.ndarray` may stand for a whole subtree.
        None: NumPy arrays and numbers come back as such, others as arrays on the default device; trees with other nodes than
        dicts, lists, tuples and None need `like`.
      step: number of the state; None: the highest.
      rows: True for leaves of which each process is to get its own rows, an equal share of those that were kept, in order of
        the processes. A tree of bools that is a prefix of the tree.
    Returns:
      The tree.
    Raises:
      FileNotFoundError: there is no such folder, or no such state in it.
      CheckpointError: files are damaged or missing, or of another format.
      ValueError: `like` has another structure or shapes, or an array cannot be split as a sharding says; names the leaf.
      DTypeError: a leaf has another dtype than `like`, or 64 bits, which lamina arrays have only with `enable_x64`.
      RuntimeError: it failed in another process; ProcessLostError: one has gone.

    >>> import lamina_runtime, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save(folder, {"w": np.float32([1, 2])})
    >>> load(folder, like=lamina_runtime.devices()[0])
    {'w': Array([1., 2.], dtype=float32)}
    """
    call = "load"
    with meetings.begin(call) as meeting:
        folder = _folder(call, path)
        step = None if step is None else _number(call, "step", step, 0)
        if meeting.rank == 0 and step is None:
            step = latest(folder.path)
            if step is None:
                raise FileNotFoundError(f"{call}: no state is kept in {folder.path}"
                                        f"{'' if os.path.isdir(folder.path) else ', which does not exist'}")
        numbers = [w["step"] for w in meeting.gather(step=step)]
        if len({n for n in numbers if n is not None}) > 1:
            raise ValueError(f"{call}: the processes must load the same step; they ask for {numbers}")
        state, digest = folder.read(call, numbers[0])
        structure, leaves = state["tree"], [Leaf(*words)._replace(shape=tuple(words[2])) for words in state["leaves"]]
        targets = kept_loading.targets_of(call, structure, like)
        wishes = kept_loading.wanted(call, leaves, like, targets, rows, meeting)
        reader = kept_files.Reader(call, folder, state)
        with kept_files.threads() as pool:
            found = {number: kept_loading.loaded(reader, pool, number, w) for number, w in wishes.items()}
        if len({w["digest"] for w in meeting.gather(digest=digest)}) > 1:
            raise ValueError(f"{call}: the processes see different states {numbers[0]} in {folder.path}: path must be a folder "
                             "that all processes share, which nobody writes to meanwhile")
    return kept_loading.joined(like, targets, lambda part: kept_trees.rebuilt(part, found))
