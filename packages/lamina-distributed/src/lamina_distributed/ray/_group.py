"""The workers of one call of `run`, seen from the driver: an event loop over what they and the coordinator report."""
from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from typing import Any

from . import _output, _placement
from ._arguments import CALL, Options
from ._failures import WorkerFailedError, import_ray
from ._worker import CoordinatorHost, Outcome, Started

__all__ = ["Group"]

_CONFIRM_TIME = 10.0  # seconds for Ray to report the loss that a worker's error reports
_OUTPUT_TIME = 1.0    # seconds that a worker waits for its next output before it answers
_DRAIN_TIME = 10.0    # seconds for the rest of the output of a worker
_MAX_ATTEMPTS = 5     # actors that end before they have started, for one start: Ray places some on a node that it has lost
_TICK = 1.0           # seconds between two looks at the times
_MAX_SUMMARY = 500    # characters of an error in a message


class _Member:
    """One worker, and its replacements.

    Attributes:
      actor: the present actor; started: where that runs. None until it has started.
      call: what is waited for, its start or its call of the function; until: when its start fails.
      called_at: when the function was called last; outcome: how it ended, or None.
      copy: its output; output: the next part of that.
      restarts: number of replacements; attempts: number of actors made for the present start.
    """

    def __init__(self, rank: int) -> None:
        self.rank, self.restarts, self.attempts = rank, 0, 0
        self.actor: Any = None
        self.started: Started | None = None
        self.call: Any = None
        self.output: Any = None
        self.outcome: Outcome | None = None
        self.until = self.called_at = float("inf")
        self.copy = _output.OutputCopy(rank, 1)


class Group:
    """All workers, with their coordinator; a context, at whose end they are killed.

    Args:
      options: the arguments of `run`.
      placement: the placement group of the workers.
      pickled: Ray's reference of the pickled function.
    """

    def __init__(self, options: Options, placement: Any, pickled: Any) -> None:
        self._ray = import_ray(CALL)
        self._options, self._placement, self._pickled = options, placement, pickled
        self._members = [_Member(rank) for rank in range(options.num_workers)]
        self._failures = 0
        self._last_loss = float("-inf")
        self._decide_at = float("inf")
        self._token, self._job = os.urandom(32).hex(), f"ray-{os.urandom(8).hex()}"
        self._rests: dict[Any, _output.OutputCopy] = {}  # the rest of the output of lost workers, by Ray's reference
        self._host: Any = None
        self._host_end: Any = None
        self._address: str | None = None
        self._host_node = ""

    # --- the loop -------------------------------------------------------------------------------------------------
    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._drain()
        finally:
            for actor in [m.actor for m in self._members] + [self._host]:
                self._kill(actor)

    def run(self) -> list[bytes]:
        """Start all workers, and wait until the function has returned in all of them; return the pickled results."""
        for m in self._members:
            self._start(m)
        self._start_coordinator()
        while any(m.outcome is None or m.outcome.result is None for m in self._members):
            waited = {ref: m for m in self._members for ref in (m.call, m.output) if ref is not None}
            refs = [*waited, *self._rests] + [self._host_end] * (self._host_end is not None)
            if not refs:
                time.sleep(self._seconds_left())
            elif self._ray.wait(refs, timeout=self._seconds_left())[0]:
                for ref in self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
                    self._handle_ready(ref, waited.get(ref))
            self._handle_times()
        return [m.outcome.result for m in self._members if m.outcome is not None and m.outcome.result is not None]

    def _handle_ready(self, ref: Any, m: _Member | None) -> None:
        """Handle one reference that Ray reports as ready. One of an actor that was replaced meanwhile is ignored."""
        if ref == self._host_end:
            self._start_coordinator()
            self._call_again([m for m in self._members if m.outcome is not None and m.outcome.result is None])
        elif ref in self._rests:
            self._copy_rest(ref, self._rests.pop(ref), 0)
        elif m is not None and ref == m.output:
            self._copy_output(m)
        elif m is not None and ref == m.call:
            self._handle_call(m)

    def _seconds_left(self) -> float:
        until = min([self._decide_at, *(m.until for m in self._members)])
        return min(max(until - time.monotonic(), 0.0), _TICK)

    def _handle_times(self) -> None:
        now = time.monotonic()
        if any(m.until <= now for m in self._members):
            late = [str(m.rank) for m in self._members if m.started is None]
            raise TimeoutError(
                f"{CALL}: worker{'s' * (len(late) > 1)} {', '.join(late)} of {len(self._members)} did not start within "
                f"{self._options.start_timeout_seconds:g} s, with {_placement.format_resources(self._options.resources)} each. "
                "Raise start_timeout_seconds, or look at Ray's logs of the node")
        if self._decide_at <= now:
            self._handle_unconfirmed_loss()

    # --- workers --------------------------------------------------------------------------------------------------
    def _start(self, m: _Member) -> None:
        m.until, m.attempts = time.monotonic() + self._options.start_timeout_seconds, 0
        self._make_actor(m)

    def _make_actor(self, m: _Member) -> None:
        m.attempts += 1
        m.actor = _placement.make_actor(self._options, self._placement, m.rank)
        m.started, m.outcome, m.copy = None, None, _output.OutputCopy(m.rank, len(self._members))
        m.call, m.output = m.actor.start.remote(), None

    def _call_train(self, m: _Member) -> None:
        """Call the user's function in a worker that has started."""
        env = {"LAMINA_TOKEN": self._token, "LAMINA_COORDINATOR_ADDRESS": str(self._address), "LAMINA_JOB_ID": self._job,
               "LAMINA_NUM_PROCESSES": str(len(self._members)), "LAMINA_PROCESS_ID": str(m.rank),
               "LAMINA_RESTART_COUNT": str(m.restarts)}
        m.outcome, m.called_at = None, time.monotonic()
        m.call = m.actor.run.remote(self._pickled, env)

    def _handle_call(self, m: _Member) -> None:
        """Handle the end of a start, or of a call of the user's function."""
        ref, m.call = m.call, None
        try:
            found = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError:
            raise  # a fault of this module
        except self._ray.exceptions.RayError as e:
            if m.started is None and m.attempts < _MAX_ATTEMPTS and not getattr(e, "actor_init_failed", False):
                return self._make_actor(m)  # it never ran
            return self._replace(m, e)
        if isinstance(found, Started):
            m.started, m.until = found, float("inf")
            self._request_output(m)
            if self._host_node not in self._living_nodes():  # it was on a node that is lost, as all workers were
                self._address = None
                self._start_coordinator()
            self._call_train(m)
            return
        m.outcome = found
        if found.result is None and found.lost is None:
            self._raise_failure(m)
        elif found.result is None and m.called_at < self._last_loss:
            self._call_train(m)  # the loss is known, and its worker is being replaced
        elif found.result is None:
            self._decide_at = min(self._decide_at, time.monotonic() + _CONFIRM_TIME)

    def _replace(self, m: _Member, error: Exception) -> None:
        """Start a lost worker again, and call the function again in those where it has ended."""
        m.call = m.output = None
        m.until = float("inf")
        self._kill(m.actor)
        m.actor = None
        if m.started is not None and m.started.node in self._living_nodes():
            self._rests[self._end_output(m)] = m.copy
        m.started = None
        reason = _summarize(error)
        self._count_failure(m.rank, f"was lost: {reason}", error)
        _print_message(f"worker {m.rank} was lost and is started again, failure {self._failures} of at most "
                       f"{self._options.max_failures}: {reason}")
        m.restarts += 1
        self._start(m)
        self._call_again([o for o in self._members if o.outcome is not None])

    def _call_again(self, ended: list[_Member]) -> None:
        """Call the function again where it has ended. Errors of calls that began before now report this loss."""
        self._last_loss, self._decide_at = time.monotonic(), float("inf")
        for m in ended:
            self._call_train(m)

    def _handle_unconfirmed_loss(self) -> None:
        """Handle errors that report a loss which Ray does not: replace the workers that they name, else try again."""
        self._decide_at = float("inf")
        reporting = [m for m in self._members if m.outcome is not None and m.outcome.lost is not None]
        named = [m for m in self._members if m.outcome is None and m.started is not None
                 and any(o.outcome is not None and m.rank in (o.outcome.lost or ()) for o in reporting)]
        for m in named:
            self._replace(m, RuntimeError("the other workers cannot reach it"))
        if reporting and not named:
            first = reporting[0]
            assert first.outcome is not None
            self._count_failure(first.rank, f"raised {first.outcome.summary}", self._load_error(first.outcome),
                                first.outcome.traceback)
            _print_message(f"the function is called again in workers {[m.rank for m in reporting]}, failure {self._failures} "
                           f"of at most {self._options.max_failures}: {first.outcome.summary}")
            self._call_again(reporting)

    # --- failures -------------------------------------------------------------------------------------------------
    def _count_failure(self, rank: int, text: str, cause: BaseException | None, remote_traceback: str | None = None) -> None:
        """Count a failure. WorkerFailedError if there were too many."""
        self._failures += 1
        if self._failures > self._options.max_failures:
            before = f" after {self._failures - 1} failures" if self._failures > 1 else ""
            raise WorkerFailedError(f"{CALL}: worker {rank} of {len(self._members)} {text}\nIt is not started again{before}: "
                                    f"max_failures is {self._options.max_failures}", rank, remote_traceback) from cause

    def _raise_failure(self, m: _Member) -> None:
        outcome, started = m.outcome, m.started
        assert outcome is not None and started is not None
        raise WorkerFailedError(
            f"{CALL}: train raised an exception in worker {m.rank} of {len(self._members)}, on node {started.address}, "
            f"process {started.pid}: {outcome.summary}\n\n{outcome.traceback}", m.rank,
            outcome.traceback) from self._load_error(outcome)

    def _load_error(self, outcome: Outcome) -> BaseException | None:
        try:
            return None if outcome.error is None else self._ray.cloudpickle.loads(outcome.error)
        except Exception:
            return None  # its class does not exist here

    def _kill(self, actor: Any) -> None:
        if actor is not None:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor, no_restart=True)

    def _living_nodes(self) -> list[str]:
        return [node["NodeID"] for node in self._ray.nodes() if node["Alive"]]

    # --- the coordinator ------------------------------------------------------------------------------------------
    def _start_coordinator(self) -> None:
        """Start the coordinator, or another one at its address after its end.

        Workers of one node reach it at the loopback, so it is on their node. Otherwise it is on the node of this process,
        whose end ends everything.
        """
        ray, strategies = self._ray, self._ray.util.scheduling_strategies
        self._kill(self._host)
        self._host_end = None
        strategy = (strategies.NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
                    if self._options.across_nodes else strategies.PlacementGroupSchedulingStrategy(self._placement, 0))
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            self._host = ray.remote(num_cpus=0)(CoordinatorHost).options(scheduling_strategy=strategy).remote(self._token)
            start = self._host.start.remote(self._options.across_nodes, self._address)
            try:
                self._address, self._host_node = ray.get(start, timeout=self._options.start_timeout_seconds)
                self._host_end = self._host.wait.remote()
                return
            except ray.exceptions.GetTimeoutError:
                raise TimeoutError(f"{CALL}: the coordinator did not start within {self._options.start_timeout_seconds:g} s. "
                                   "Raise start_timeout_seconds, or look at Ray's logs of the node") from None
            except ray.exceptions.RayError as e:
                if isinstance(e, ray.exceptions.RayActorError) and attempt < _MAX_ATTEMPTS:
                    continue  # it never ran
                if self._address is None:
                    raise ConnectionError(f"{CALL}: the coordinator cannot be started: {_summarize(e)}") from e
                _print_message(f"the coordinator has ended and cannot be started again: {_summarize(e)}")
                return

    # --- output ---------------------------------------------------------------------------------------------------
    def _request_output(self, m: _Member) -> None:
        m.output = m.actor.read_output.options(concurrency_group="output").remote(m.copy.offsets, _OUTPUT_TIME)

    def _copy_output(self, m: _Member) -> None:
        ref, m.output = m.output, None
        try:
            m.copy.write(self._ray.get(ref))
        except (OSError, self._ray.exceptions.RayError):
            return  # its end is handled where the call ends
        self._request_output(m)

    def _end_output(self, m: _Member) -> Any:
        """Have the rest of the output of a worker read, and its files deleted; return Ray's reference of the output.

        The worker reads it itself, else another one on its node, else a task there, which takes longer to start.
        """
        assert m.started is not None
        node, folder = m.started.node, m.started.folder
        for other in [m, *self._members]:
            if other.actor is not None and other.started is not None and other.started.node == node:
                return other.actor.end_output.options(concurrency_group="output").remote(folder, m.copy.offsets)
        affinity = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        task = self._ray.remote(num_cpus=0, max_retries=0)(_output.read_rest)
        return task.options(scheduling_strategy=affinity).remote(folder, m.copy.offsets)

    def _copy_rest(self, ref: Any, copy: _output.OutputCopy, seconds: float) -> None:
        """Print the rest of the output of a worker, if it is read within the seconds. Its node may be lost."""
        with contextlib.suppress(OSError, self._ray.exceptions.RayError):
            copy.write(self._ray.get(ref, timeout=seconds))
        copy.close()

    def _drain(self) -> None:
        """Copy the rest of the output of all workers, and delete their files."""
        until, living = time.monotonic() + _DRAIN_TIME, self._living_nodes()
        rests = self._rests | {self._end_output(m): m.copy for m in self._members
                               if m.started is not None and m.started.node in living}
        for ref, copy in rests.items():
            self._copy_rest(ref, copy, max(until - time.monotonic(), 0.1))


def _summarize(error: BaseException) -> str:
    """Return the text of an exception in one line. Of Ray's error for a lost actor, return the cause only."""
    cause = re.search(r"(?s)The actor (?:is dead|died) because (.*?)(?:Some common causes|$)", str(error))
    text = " ".join((cause[1] if cause else str(error)).split())
    return text.rstrip(" .")[:_MAX_SUMMARY] or type(error).__name__


def _print_message(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(f"{CALL}: {text}", file=sys.stderr, flush=True)
