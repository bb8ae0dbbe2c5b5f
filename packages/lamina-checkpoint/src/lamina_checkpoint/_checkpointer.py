"""`Checkpointer`: saves that go on while the program computes."""
from __future__ import annotations

import os
import sys
import threading
from types import TracebackType

from lamina_ir.typing import Tree
from lamina_runtime.extend import GatherSeries

from . import _functions, _save
from ._folder import CheckpointFolder
from ._stores import open_store

__all__ = ["Checkpointer"]


class Checkpointer:
    """Saves checkpoints to a folder in another thread, and restores them; a context.

    `save` returns when the arrays are copied to host memory. They may then be changed or donated. Another thread writes
    and commits the checkpoint. The next `save`, `wait` and the end of the context wait for it, and raise its error. The
    host memory of the copies is kept for the next save, until `close` or the end of the context.

    With several processes, all make the same Checkpointers and call the same methods in the same order. Their folder is
    one that all of them share.

    Args:
      path: the folder, or the URL of an object store as `gs://bucket/run` or `s3://bucket/run`.
      keep: the number of checkpoints to retain: those of the highest steps; None: all.
      keep_every: with `keep`, checkpoints of steps that are multiples of this are retained too; None: no others.
    Raises:
      TypeError: `path` is not a path, or a number is not a whole number.
      ValueError: TensorStore cannot open the URL, or a number is below 1.

    >>> import numpy as np, tempfile
    >>> with Checkpointer(tempfile.mkdtemp(), keep=2) as checkpointer:
    ...     for step in range(3):
    ...         checkpointer.save(step, {"w": np.full(2, step), "step": step})
    >>> checkpointer.all_steps(), checkpointer.latest_step()
    ([1, 2], 2)
    >>> checkpointer.restore()
    {'step': 2, 'w': array([2, 2])}
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: int | None = None, keep_every: int | None = None) -> None:
        self._folder = CheckpointFolder(open_store("Checkpointer", path))
        self._keep, self._keep_every = _functions.check_retention("Checkpointer", keep, keep_every)
        self._series, self._buffers = GatherSeries(), _save.HostBuffers()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._lock = threading.RLock()  # two threads may use one Checkpointer

    def save(self, step: int, tree: Tree, *, rows: bool | Tree = False) -> None:
        """Copy a tree to host memory, and start to save it. Wait for the save before, if it still runs.

        Args:
          step: the step number, from 0. A checkpoint of the same step is replaced when this one is committed.
          tree: NumPy arrays, lamina arrays with any sharding, typed PRNG keys, NumPy and Python numbers.
          rows: as for `save`: True for leaves of which each process has its own rows.
        Raises:
          TypeError: a leaf is not an array or a number, or is a traced value.
          ValueError: processes have different trees; names the leaf.
          RuntimeError: an array was deleted or donated; another save writes to the folder.
          OSError: the folder cannot be written to, or the save before failed.
        """
        with self._lock:
            self.wait()
            step = _functions.check_number("save", "step", step, 0)
            meeting, plans = self._series.begin("save"), list[_save.SavePlan]()
            with _save.undo_on_error(meeting, plans):
                plan = _save.prepare("save", meeting, self._folder, tree, step, rows, plans)
                _save.copy_blocks(plan, self._buffers)
            # Not a daemon: the interpreter ends after the save.
            self._thread = threading.Thread(target=self._finish, args=(plan,), name="lamina-checkpoint")
            self._thread.start()

    def _finish(self, plan: _save.SavePlan) -> None:
        try:
            with _save.undo_on_error(plan.meeting, [plan]):
                _save.finish(plan, self._keep, self._keep_every)
        except BaseException as e:
            self._error = e
            if not threading.main_thread().is_alive():  # no call can raise it any more
                print(f"lamina_checkpoint: the save of step {plan.step} failed: {type(e).__name__}: {e}", file=sys.stderr)

    def wait(self) -> None:
        """Wait until the running save is committed. Raise its error if it failed."""
        with self._lock:
            if self._thread is not None:
                self._thread.join()
            self._thread, error, self._error = None, self._error, None
            self._buffers.release()
            if error is not None:
                raise error

    def restore(self, step: int | None = None, like: Tree = None, *, rows: bool | Tree = False) -> Tree:
        """Load a checkpoint, after the running save is committed.

        Args:
          step: the step number; None: the highest.
          like: the placement of the leaves, as for `load`.
          rows: as for `load`.
        Returns:
          The tree.
        Raises:
          FileNotFoundError: the checkpoint does not exist.
          CheckpointError: files are damaged or missing.
          ValueError: `like` has another structure or shape; names the paths.
          DTypeError: a leaf has another dtype than `like`.
        """
        self.wait()
        return _functions.load_from("restore", self._folder, like, step, rows)

    def all_steps(self) -> list[int]:
        """Return the step numbers of the complete checkpoints, in order."""
        return self._folder.steps()

    def latest_step(self) -> int | None:
        """Return the highest step number of the complete checkpoints; None if there are none."""
        return max(self.all_steps(), default=None)

    def close(self) -> None:
        """Wait until the running save is committed, and free the host memory of copies."""
        try:
            self.wait()
        finally:
            self._buffers = _save.HostBuffers()

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
