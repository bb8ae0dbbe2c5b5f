"""`save` and `load` of one tree in one folder, in the interface of JAX. The folder has the format of `lamina_checkpoint`."""
from __future__ import annotations

import os
from concurrent.futures import Future
from threading import Thread
from typing import Any

from lamina_ir import ShapeDtypeStruct, dtypes
from lamina_ir.typing import Tree
from lamina_runtime.extend import GatherSeries, begin_gather

from .. import _functions, _save, _tree_metadata
from .._folder import CheckpointFolder
from .._stores import open_store
from .._tree_metadata import Leaf

__all__ = ["PyTreeFuture", "load", "load_pytreedef", "nonblocking_load", "nonblocking_save", "save"]


class PyTreeFuture:
    """The result of a save or load that runs in another thread."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def done(self) -> bool:
        """Return whether the result is there."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result, and return it or raise its error.

        Args:
          timeout: seconds to wait; None: no limit.
        Raises:
          TimeoutError: the result is not there in time.
        """
        return self._future.result(timeout)


def _start(target: Any, *args: Any) -> Future[Any]:
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(target(*args))
        except BaseException as e:
            future.set_exception(e)

    Thread(target=call, name="lamina-checkpoint").start()
    return future


def _refuse_specs(call: str, ts_specs: Tree) -> None:
    if ts_specs is not None:
        raise NotImplementedError(f"{call}: ts_specs is not supported; the arrays of a checkpoint have one format. Write "
                                  "single arrays with array_serialization.serialization.async_serialize")


def _open(call: str, directory: str | os.PathLike[str], overwrite: bool = True) -> CheckpointFolder:
    folder = CheckpointFolder(open_store(call, directory))
    if not overwrite and folder.steps():
        raise ValueError(f"{call}: {folder.store.root} holds a tree already; pass overwrite=True")
    return folder


def save(data: Tree, directory: str | os.PathLike[str], *, overwrite: bool = True, ts_specs: Tree = None) -> None:
    """Save a tree in a folder, atomically.

    Args:
      data: the tree of arrays and numbers.
      directory: the folder, or the URL of an object store.
      overwrite: whether a tree that is there is replaced.
      ts_specs: not supported; must be None.
    Raises:
      ValueError: the folder holds a tree, with `overwrite=False`.
      NotImplementedError: `ts_specs` is given.

    >>> import numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> save({"w": np.arange(2)}, folder)
    >>> load_pytreedef(folder)
    {'w': ShapeDtypeStruct(shape=(2,), dtype=int64)}
    """
    _refuse_specs("save", ts_specs)
    meeting, plans = begin_gather("save"), list[_save.SavePlan]()
    with _save.undo_on_error(meeting, plans):
        folder = _open("save", directory, overwrite)
        _save.finish(_save.prepare("save", meeting, folder, data, 0, False, plans), None, None)


def nonblocking_save(data: Tree, directory: str | os.PathLike[str], *, overwrite: bool = True,
                     ts_specs: Tree = None) -> PyTreeFuture:
    """Copy a tree to host memory, and save it in another thread; see `save`. Return the future of None."""
    _refuse_specs("nonblocking_save", ts_specs)
    meeting, plans = GatherSeries().begin("nonblocking_save"), list[_save.SavePlan]()
    with _save.undo_on_error(meeting, plans):
        folder = _open("nonblocking_save", directory, overwrite)
        plan = _save.prepare("nonblocking_save", meeting, folder, data, 0, False, plans)
        _save.copy_blocks(plan, _save.HostBuffers())

    def finish() -> None:
        with _save.undo_on_error(meeting, plans):
            _save.finish(plan, None, None)

    return PyTreeFuture(_start(finish))


def load(directory: str | os.PathLike[str], shardings: Tree, *, mask: Tree = None, ts_specs: Tree = None) -> Tree:
    """Load the tree in a folder with shardings.

    Args:
      directory: the folder, or the URL of an object store.
      shardings: a tree of shardings, devices, arrays or `ShapeDtypeStruct`s; see `like` of `lamina_checkpoint.load`.
      mask: a tree of bools, a prefix of the tree; leaves with False are None, and are not read. None: all are read.
      ts_specs: not supported; must be None.
    Raises:
      FileNotFoundError: there is no tree.
      ValueError: the trees differ; names the paths.
      NotImplementedError: `ts_specs` is given.
    """
    _refuse_specs("load", ts_specs)
    with begin_gather("load") as meeting:
        return _functions.load_in("load", meeting, _open("load", directory), shardings, None, False, mask)


def nonblocking_load(directory: str | os.PathLike[str], shardings: Tree, *, mask: Tree = None,
                     ts_specs: Tree = None) -> PyTreeFuture:
    """Load the tree in a folder in another thread; see `load`. Return the future of the tree."""
    _refuse_specs("nonblocking_load", ts_specs)
    meeting = GatherSeries().begin("nonblocking_load")
    folder = _open("nonblocking_load", directory)

    def run() -> Tree:
        with meeting:
            return _functions.load_in("nonblocking_load", meeting, folder, shardings, None, False, mask)

    return PyTreeFuture(_start(run))


def load_pytreedef(directory: str | os.PathLike[str]) -> Tree:
    """Return the tree in a folder with a `ShapeDtypeStruct` in place of each array.

    Args:
      directory: the folder, or the URL of an object store.
    Raises:
      FileNotFoundError: there is no tree.
      ValueError: the tree has nodes other than dicts, lists, tuples and None.
    """
    folder = _open("load_pytreedef", directory)
    found = folder.steps()
    if not found:
        raise FileNotFoundError(f"load_pytreedef: no tree in {folder.store.root}")
    state, _ = folder.read("load_pytreedef", found[-1])
    if (text := _tree_metadata.find_unrebuildable(state["tree"])) is not None:
        raise ValueError(f"load_pytreedef: the checkpoint holds {text}, which cannot be rebuilt from the file")
    leaves = [Leaf(*record)._replace(shape=tuple(record[2])) for record in state["leaves"]]
    return _tree_metadata.rebuild(state["tree"], {i: _type_of(leaf) for i, leaf in enumerate(leaves)})


def _type_of(leaf: Leaf) -> Any:
    if not leaf.is_array:
        return leaf.number()
    if leaf.is_keys:
        return ShapeDtypeStruct(leaf.shape[:-1], dtypes.from_short_name(leaf.kind))
    return ShapeDtypeStruct(leaf.shape, dtypes.as_dtype(leaf.dtype))
