"""The actors of `run`: a worker, which calls the user's function, and the host of the coordinator."""
from __future__ import annotations

import os
import subprocess
import traceback
from typing import Any, NamedTuple

from typing_extensions import override

from .. import _session
from .._rendezvous import rendezvous_protocol, spawn_coordinator
from . import _output
from ._failures import import_ray

__all__ = ["CoordinatorHost", "Outcome", "Started", "Worker"]

_CALL = "ray.run"


class Started(NamedTuple):
    """Where a worker runs.

    Attributes:
      node: Ray's id of its node; address: the address of that.
      pid: its process id.
      folder: the folder of its output.
    """

    node: str
    address: str
    pid: int
    folder: str


class Outcome(NamedTuple):
    """How one call of the user's function ended.

    Attributes:
      result: the pickled result. None if it failed.
      error: the pickled exception. None if it succeeded, or if the exception cannot be pickled.
      summary: one line with the exception; traceback: the traceback.
      lost: processes that the exception names as lost. None if the exception reports no failure of another process.
    """

    result: bytes | None = None
    error: bytes | None = None
    summary: str = ""
    traceback: str = ""
    lost: tuple[int, ...] | None = None


class Worker:
    """One worker: an actor that calls the user's function, in a thread, and serves its output meanwhile.

    Args:
      rank: its process index.
    """

    def __init__(self, rank: int) -> None:
        self._rank, self._folder = rank, _output.redirect()

    @override
    def __repr__(self) -> str:
        return f"worker {self._rank}"  # for Ray's own messages

    def start(self) -> Started:
        """Return where this worker runs."""
        ray = import_ray(_CALL)
        return Started(ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), os.getpid(), self._folder)

    def run(self, pickled: bytes, env: dict[str, str]) -> Outcome:
        """Call the user's function, and leave the system unless the whole program has failed.

        Args:
          pickled: the function.
          env: environment variables for `initialize`. They come with the call, since Ray shows the variables of a runtime
            environment to its dashboard.
        """
        cloudpickle = import_ray(_CALL).cloudpickle
        os.environ.update(env)
        try:
            result = cloudpickle.loads(pickled)()
            outcome = Outcome(result=_pickle_result(cloudpickle, result))
            _session.shutdown()  # as at the end of a process
            return outcome
        except BaseException as e:
            outcome = _describe(cloudpickle, e)
        if outcome.lost is not None:
            try:
                _session.shutdown()
            except Exception:
                traceback.print_exc()  # of a callback; the loss is the cause
        return outcome

    def read_output(self, offsets: list[int], seconds: float) -> list[bytes]:
        """Return the output after the offsets, see `read_files`."""
        return _output.read_files(self._folder, offsets, seconds)

    def end_output(self, folder: str, offsets: list[int]) -> list[bytes]:
        """Return the rest of the output of a worker of this node, and delete its files."""
        return _output.read_rest(folder, offsets)



def _pickle_result(cloudpickle: Any, result: object) -> bytes:
    try:
        return bytes(cloudpickle.dumps(result))
    except Exception as e:
        raise TypeError(f"{_CALL}: the result of train must be picklable; got {type(result).__name__}: {e}") from e


def _describe(cloudpickle: Any, e: BaseException) -> Outcome:
    """Return the outcome of a call that raised."""
    try:
        error = bytes(cloudpickle.dumps(e))
        cloudpickle.loads(error)  # some exceptions are pickled and cannot be restored
    except Exception:
        error = None
    summary = "".join(traceback.format_exception_only(e)).strip().partition("\n")[0]
    return Outcome(None, error, summary, "".join(traceback.format_exception(e)), _find_lost(e))


def _find_lost(e: BaseException | None) -> tuple[int, ...] | None:
    """Return the processes that an exception, or the direct cause of it, names as lost. None: it is an ordinary error."""
    while e is not None:
        if isinstance(e, (_session.ProcessLostError, _session.LaunchFailedError)):
            return tuple(e.process_indices)
        if type(e) is ConnectionError and str(e).startswith(f"{rendezvous_protocol.CALL}:"):
            return ()  # another process ended while all were connecting
        e = e.__cause__
    return None


class CoordinatorHost:
    """An actor that starts the coordinator, which ends with it.

    Args:
      token: the token of the workers.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, across_nodes: bool, address: str | None) -> tuple[str, str]:
        """Start a coordinator; return its address, and Ray's id of the node.

        Args:
          across_nodes: whether it must be reachable from other nodes.
          address: the address of one that has ended, which the workers know.
        Raises:
          OSError: it cannot listen there.
        """
        ray = import_ray(_CALL)
        host = ray.util.get_node_ip_address() if across_nodes else "127.0.0.1"
        address, self._process = spawn_coordinator.start_coordinator(
            address or rendezvous_protocol.format_address(host, 0), self._token.encode(), 1e8, detach=False)
        return address, ray.get_runtime_context().get_node_id()

    def wait(self) -> int:
        """Wait until the coordinator ends; return its exit status."""
        assert self._process is not None
        return self._process.wait()
