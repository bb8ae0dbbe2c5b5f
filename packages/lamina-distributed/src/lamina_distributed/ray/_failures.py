"""The error of `run`, and the import of Ray."""
from __future__ import annotations

from typing import Any

from typing_extensions import override

__all__ = ["WorkerFailedError", "import_ray"]


class WorkerFailedError(RuntimeError):
    """A worker of `run` failed, and was not replaced; `__cause__` is its exception, or Ray's if the worker was lost.

    Attributes:
      rank: the process index of the worker whose failure came first.
      remote_traceback: the traceback in the worker. None if the worker was lost.
    Source: lamina.
    """

    def __init__(self, message: str, rank: int, remote_traceback: str | None = None) -> None:
        super().__init__(message)
        self.rank, self.remote_traceback = rank, remote_traceback

    @override
    def __reduce__(self) -> tuple[type[WorkerFailedError], tuple[str, int, str | None]]:
        return type(self), (str(self), self.rank, self.remote_traceback)


def import_ray(call: str) -> Any:
    """Return the module `ray`. ImportError if Ray is not installed."""
    try:
        import ray  # noqa: PLC0415 (late: an optional dependency)
        return ray
    except ImportError as e:
        raise ImportError(f"{call}: Ray cannot be imported: {e}. Install it: pip install 'lamina-distributed[ray]'",
                          name="ray") from e
