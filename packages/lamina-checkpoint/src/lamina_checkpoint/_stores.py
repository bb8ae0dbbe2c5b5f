"""Where checkpoints are stored: a folder of a file system, or a prefix of an object store that TensorStore opens by URL.

Both stores have the same methods. A write under one name is atomic: readers see the old or the new content. The commit of
a checkpoint is one such write, so both stores commit in the same way.
"""
from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeAlias

import tensorstore as ts
from lamina_ir import LaminaError

__all__ = ["CheckpointError", "LocalStore", "RemoteStore", "Store", "check_name", "open_store", "storage_errors",
           "ts_context"]

_CLAIM = ".claim"
_context: list[tuple[int, Any]] = []  # (process, its TensorStore context): one for all, so that memory:// is shared
_OS_ERROR = re.compile(r"os_error_code='(\d+)'")  # in TensorStore's text of an error of the file system
TS_ERRORS = (ValueError, RuntimeError, NotImplementedError, OSError)


class CheckpointError(LaminaError, ValueError):
    """The files of a checkpoint are damaged, truncated, missing, or have another format.

    Fix: restore an earlier step; copy the files again if they were truncated.
    """

    code: ClassVar[str] = "LAM1701"


def ts_context() -> Any:
    """Return the TensorStore context of this process.

    Raises:
      RuntimeError: this process was forked from one that has used TensorStore, whose threads it lacks.
    """
    if not _context:
        _context.append((os.getpid(), ts.Context()))
    process, found = _context[0]
    if process != os.getpid():
        raise RuntimeError("checkpoints: this process was forked from one that has saved or loaded checkpoints, and lacks "
                           "its threads; start it with multiprocessing.get_context('spawn')")
    return found


@contextmanager
def storage_errors(place: str) -> Iterator[None]:
    """Translate TensorStore's errors of writing and listing to OSError and PermissionError."""
    try:
        yield
    except OSError:
        raise
    except TS_ERRORS as e:
        text = str(e)
        code = _OS_ERROR.search(text)
        if code is not None:
            raise OSError(int(code[1]), f"{place}: {text}") from None
        if "PERMISSION_DENIED" in text or "UNAUTHENTICATED" in text or "Permission denied" in text:
            raise PermissionError(errno.EACCES, f"{place}: no permission: {text}") from None
        if "RESOURCE_EXHAUSTED" in text or "No space left" in text:
            raise OSError(errno.ENOSPC, f"{place}: no space left: {text}") from None
        if any(f"{code}: " in text for code in ("UNAVAILABLE", "ABORTED", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN",
                                                "FAILED_PRECONDITION", "NOT_FOUND")):
            raise OSError(errno.EIO, f"{place}: {text}") from None
        raise


def sync_folder(folder: str) -> None:
    """Wait until the entries of a folder are on the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class _FileLock:
    """An exclusive lock on a folder. The operating system releases it when the process ends, also after a crash."""

    def __init__(self, call: str, folder: str) -> None:
        self._file = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise RuntimeError(f"{call}: {folder} is locked: another process or thread is saving to it") from None
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Do nothing: no other process can take the lock."""

    def close(self) -> None:
        os.close(self._file)


class LocalStore:
    """A folder of a mounted file system.

    Attributes:
      root: its path.
    """

    is_local = True

    def __init__(self, root: str) -> None:
        self.root = root

    def path(self, name: str) -> str:
        """Return the path of a name, for messages and programs."""
        return os.path.join(self.root, name)

    def exists(self) -> bool:
        return os.path.isdir(self.root)

    def names(self) -> list[str]:
        """Return the names of the files and folders; [] if the folder does not exist."""
        try:
            return os.listdir(self.root)
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            with open(self.path(name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return None

    def write(self, name: str, text: bytes, token: str) -> None:
        """Write a file atomically and durably: under a temporary name that contains `token`, which is then renamed."""
        temporary = self.path(f".{name}.{token}")
        try:
            with open(temporary, "xb") as f:
                f.write(text)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, self.path(name))
            sync_folder(self.root)
        except OSError as e:
            if e.filename is None:  # a full disk, found by `write`
                e.filename = self.path(name)
            raise

    def make(self) -> None:
        """Create the folder and its parents, durably."""
        # A new folder is durable only once the folder that contains it is synced.
        missing, path_at = [], os.path.abspath(self.root)
        while not os.path.isdir(path_at) and path_at not in missing:
            missing.append(path_at)
            path_at = os.path.dirname(path_at)
        os.makedirs(self.root, exist_ok=True)
        for created in missing:
            sync_folder(os.path.dirname(created))

    def make_folder(self, name: str) -> None:
        os.mkdir(self.path(name))
        sync_folder(self.root)

    def claim_commit(self, call: str, name: str) -> None:
        """Do nothing: the lock excludes other writers."""

    def release_claim(self, name: str) -> None:
        pass

    def current_writer(self) -> str:
        """Return "": the process that has the lock is the only writer."""
        return ""

    def revoke(self, name: str) -> bool:
        """Return True: without the lock no save is running."""
        return True

    def has_folder(self, name: str) -> bool:
        return os.path.isdir(self.path(name))

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that it contains."""
        if os.path.isdir(self.path(name)):
            shutil.rmtree(self.path(name), ignore_errors=True)
        else:
            os.unlink(self.path(name))

    def sync(self, name: str = "") -> None:
        """Wait until the entries of a folder, and of the folders in it, are on the disk."""
        if not name:
            sync_folder(self.root)
            return
        for folder, _, _ in os.walk(self.path(name)):
            sync_folder(folder)

    def lock(self, call: str, token: str) -> _FileLock:
        """Return a lock for saving.

        Raises:
          RuntimeError: another save has it.
        """
        return _FileLock(call, self.root)

    def kvstore(self, name: str) -> dict[str, Any]:
        """Return TensorStore's specification of a folder; "": of the whole store."""
        return {"driver": "file", "path": os.path.join(os.path.abspath(self.root), name, "")}


class _Lease:
    """A mark of the current writer in an object store, which cannot lock.

    A later save takes the mark, and the commit of the earlier one is then refused.
    """

    def __init__(self, call: str, store: RemoteStore, token: str) -> None:
        self._call, self._store, self._text = call, store, token.encode()
        with storage_errors(f"{call}: {store.root}"):
            self._stamp = store.kv.write(".writer", self._text).result().generation

    def check(self) -> None:
        """Raise RuntimeError if a later save has taken the mark."""
        with storage_errors(f"{self._call}: {self._store.root}"):
            self._stamp = self._store.kv.write(".writer", self._text, if_equal=self._stamp).result().generation
        if not self._stamp:
            raise RuntimeError(f"{self._call}: another process or thread has begun to save to {self._store.root}, so this "
                               "save was not committed")

    def close(self) -> None:
        pass


class RemoteStore:
    """A prefix of an object store, such as `s3://bucket/run/` or `memory://run/`.

    Attributes:
      root: its URL.
      kv: TensorStore's key-value store.
    """

    is_local = False

    def __init__(self, call: str, url: str) -> None:
        self.root = url if url.endswith("/") else f"{url}/"
        self._claims: dict[str, bytes] = {}
        try:
            self.kv = ts.KvStore.open(self.root, context=ts_context()).result()
        except TS_ERRORS as e:
            raise ValueError(f"{call}: TensorStore cannot open {url!r}: {e}. Pass the path of a folder, or a URL such as "
                             "gs://bucket/run or s3://bucket/run") from None

    def path(self, name: str) -> str:
        return f"{self.root}{name}"

    def exists(self) -> bool:
        return bool(self.names())

    def _keys(self, prefix: str = "") -> list[str]:
        with storage_errors(self.root):
            keys = self.kv.list(ts.KvStore.KeyRange(prefix, f"{prefix[:-1]}0" if prefix else "")).result()
        return [key.decode() for key in keys]

    def names(self) -> list[str]:
        return sorted({key.split("/")[0] for key in self._keys()})

    def read(self, name: str) -> bytes | None:
        with storage_errors(self.path(name)):
            found = self.kv.read(name).result()
        return bytes(found.value) if found.state == "value" else None

    def write(self, name: str, text: bytes, token: str) -> None:
        with storage_errors(self.path(name)):
            self.kv.write(name, text).result()

    def make(self) -> None:
        pass

    # A store cannot lock. So each save has a claim in its folder, `.claim`, which it changes to "commit" before it writes
    # the index. Another writer that would remove the folder removes the claim before. Both are conditional writes, so only
    # one of them succeeds: either the save is committed and its data stay, or the save is refused. After the index is
    # written the claim is removed. A writer that is killed between these two leaves a claim "commit", and its data stay
    # if the index is missing.
    def make_folder(self, name: str) -> None:
        with storage_errors(self.path(name)):
            self._claims[name] = self.kv.write(f"{name}/{_CLAIM}", b"open").result().generation

    def claim_commit(self, call: str, name: str) -> None:
        """Exclude the removal of a folder by another writer.

        Raises:
          RuntimeError: another writer has removed it.
        """
        with storage_errors(self.path(name)):
            stamp = self.kv.write(f"{name}/{_CLAIM}", b"commit", if_equal=self._claims.pop(name)).result().generation
        if not stamp:
            raise RuntimeError(f"{call}: another process or thread has saved to {self.root} meanwhile and removed the data of "
                               "this save, so it was not committed")

    def release_claim(self, name: str) -> None:
        """Remove the claim: from here on only the index protects the folder."""
        with storage_errors(self.path(name)):
            self.kv.write(f"{name}/{_CLAIM}", None).result()

    def current_writer(self) -> str:
        """Return the token of the latest save; "" if there is none."""
        return (self.read(".writer") or b"").decode(errors="replace")

    def revoke(self, name: str) -> bool:
        """Exclude the commit of the save that writes to a folder. Return whether the folder may be removed."""
        with storage_errors(self.path(name)):
            found = self.kv.read(f"{name}/{_CLAIM}").result()
            if found.state != "value":
                return True  # of a checkpoint that was removed, or another writer has revoked it
            if bytes(found.value) != b"open":
                return False
            return bool(self.kv.write(f"{name}/{_CLAIM}", None, if_equal=found.stamp.generation).result().generation)

    def has_folder(self, name: str) -> bool:
        return True

    def remove(self, name: str) -> None:
        with storage_errors(self.path(name)):
            self.kv.delete_range(ts.KvStore.KeyRange(f"{name}/", f"{name}0")).result()
            self.kv.write(name, None).result()

    def sync(self, name: str = "") -> None:
        pass

    def lock(self, call: str, token: str) -> _Lease:
        return _Lease(call, self, token)

    def kvstore(self, name: str) -> dict[str, Any]:
        spec = self.kv.spec().to_json()
        return {**spec, "path": f"{spec.get('path', '')}{name}{'/' if name else ''}"}


Store: TypeAlias = LocalStore | RemoteStore


def check_name(call: str, path: str | os.PathLike[str]) -> str:
    """Return the name of a folder as a string.

    Raises:
      TypeError: it is not the name of a folder.
    """
    try:
        name = os.fspath(path)
    except TypeError:
        name = None
    if not isinstance(name, str) or not name:
        raise TypeError(f"{call}: path must be the name of a folder or a URL; got {type(path).__name__}: {path!r:.60}")
    return name


def open_store(call: str, path: str | os.PathLike[str]) -> Store:
    """Return the store of a path or URL."""
    name = check_name(call, path)
    if name.startswith("file://"):
        return LocalStore(name.removeprefix("file://"))
    return RemoteStore(call, name) if "://" in name else LocalStore(name)
