"""Write files so that a reader sees the old content or all of the new one."""
from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to a file in the folder of `path`, then rename that.

    Raises:
      OSError: the folder does not exist or cannot be written.
    """
    target = Path(path)
    if target.exists() and not target.is_file():  # a device such as /dev/stdout
        target.write_bytes(data)
        return
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    except OSError as e:  # with the name that the user gave
        raise type(e)(e.errno, e.strerror, str(target)) from None
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found
