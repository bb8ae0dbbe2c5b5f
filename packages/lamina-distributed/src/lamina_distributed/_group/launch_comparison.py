"""Compare a launch with those of the other processes if its tokens do not all arrive at once, or differ."""
from __future__ import annotations

import threading
import time

from lamina_runtime.extend.processes import collective_timeout_seconds

from . import deadlock_detection, launch_failure, peer_sockets
from .launch_frames import LaunchFrames

__all__ = ["compare_launch"]

_CHECK_INTERVAL = 0.25   # seconds between checks for lost processes
_FIRST_SEARCH = 0.75     # seconds until a waiting launch searches for a deadlock; then twice as many, ...
_MAX_SEARCH_PAUSE = 8.0  # ... up to so many
_ROLL_CALL_TIMEOUT = 3.0  # seconds after the timeout for the roll call to arrive


def compare_launch(frames: LaunchFrames) -> None:
    """Return once all processes of a launch agree.

    Raises:
      AgreementError, CollectiveTimeoutError, ProcessLostError: as `Agreement.agree`.
    """
    reporter = _WaitReporter(frames)
    try:
        _wait_for_agreement(frames, reporter)
        if reporter.end():
            return
    finally:
        reporter.end()
    # Even if all agree at the last moment: the others know that this launch is part of a deadlock, and raise.
    assert reporter.wait is not None
    launch_failure.raise_deadlock(frames, reporter.wait)


class _WaitReporter:
    """Reports to other processes what a launch waits for, and searches for deadlocks that contain it.

    Attributes:
      wait: the report; None until the launch has waited for a while.
    """

    def __init__(self, frames: LaunchFrames) -> None:
        self._frames, self._graph = frames, frames.services.wait_graph
        self.wait: deadlock_detection.Wait | None = None
        self._pause = _FIRST_SEARCH
        self._next_search = time.monotonic() + self._pause

    def has_deadlock(self) -> bool:
        """Return whether a deadlock was reported. Otherwise the last report becomes invalid: something may arrive."""
        if self.wait is None:
            return False
        self.wait.is_current = False
        return self.wait.verdict is not None

    def search_if_due(self) -> bool:
        """Search for a deadlock if it is time for it. Return whether it was."""
        if time.monotonic() <= self._next_search:
            return False
        frames = self._frames
        if self.wait is None:
            self.wait = self._graph.begin(frames.describe_own(), [[*frames.group.ranks], frames.group.attempt])
        self.report()
        self._graph.search(self.wait)
        self._pause = min(2 * self._pause, _MAX_SEARCH_PAUSE)
        self._next_search = time.monotonic() + self._pause
        return True

    def report(self) -> None:
        """Update the report of what the launch waits for. It stays valid until something arrives."""
        pairs = self._frames.pairs
        if self.wait is None or any(p.has_partial_frame for p in pairs):
            return
        silent = [p.rank for p in pairs if p.awaits_notice]
        missing = next(([p.rank for p in of if not p.token_received] for _, of in self._frames.group.rounds
                        if not all(p.token_received for p in of)), [])
        self.wait.update(waits=silent or missing, answer=bool(silent),
                         sent=[p.rank for p in pairs if p.token_sent], pairs=[p.rank for p in pairs])

    def end(self) -> bool:
        """Withdraw the report. Return whether the launch may continue; if not, it is part of a reported deadlock."""
        return self.wait is None or self._graph.end(self.wait)


class _TimeoutRollCall:
    """The roll call for the error of a launch that gives up waiting; made in a thread.

    The first of the processes that have come makes it, so that the errors of all contain the same.

    Attributes:
      text: "" until it is made.
    """

    def __init__(self, frames: LaunchFrames) -> None:
        self.text, self.is_made = "", False
        self._frames = frames
        self._leader = min([frames.services.rank, *[p.rank for p in frames.pairs if p.token_received]])
        threading.Thread(target=self._make, name="lamina-peers-call", daemon=True).start()

    def _make(self) -> None:
        try:
            self.text = self._frames.services.roll_call.text_of(self._leader, self._frames.group.ranks)
        finally:
            self.is_made = True


def _wait_for_agreement(frames: LaunchFrames, reporter: _WaitReporter) -> None:
    """Exchange frames until all processes agree, or a deadlock is reported. Raise the errors of other failures."""
    pairs, seconds = frames.pairs, collective_timeout_seconds.value
    began = checked = time.monotonic()
    until = None if seconds is None else began + float(seconds)
    roll_call: _TimeoutRollCall | None = None
    frames.begin()
    peer_sockets.poll_peers(pairs, 0)
    while True:
        if reporter.has_deadlock():
            return
        frames.take_frames()
        if frames.differing or frames.first_notice:
            launch_failure.wait_for_late(frames)
            if frames.differing or frames.first_notice is not None:
                launch_failure.raise_error(frames, "differ" if frames.differing or frames.first_notice is None
                                           else frames.first_notice["notice"])
            continue  # the peer had given up another launch, and may still come to this one
        # Notices are handled before tokens are sent: a token that follows an unanswered notice would be dropped
        # by the peer.
        if frames.send_tokens():
            break
        _raise_if_alone(frames)
        now = time.monotonic()
        if now > checked + _CHECK_INTERVAL:
            frames.services.check_peers(frames.program)
            checked = now
        if until is not None and now > until:
            # While it is made the wait goes on as usual: the late processes may still come.
            roll_call = roll_call or _TimeoutRollCall(frames)
            if roll_call.is_made or now > until + _ROLL_CALL_TIMEOUT:
                frames.roll_call = roll_call.text
                launch_failure.raise_error(frames, "timeout")
        if reporter.search_if_due():
            continue
        reporter.report()
        peer_sockets.poll_peers(pairs, _CHECK_INTERVAL if until is None else
                                min(_CHECK_INTERVAL, max(until - now, 0.01) + 0.001))
    for p in pairs:
        p.update_fast_path()


def _raise_if_alone(frames: LaunchFrames) -> None:
    """Raise if the sockets of this process are closed, or if peers that have not come have disconnected."""
    if frames.services.sockets.closed:
        raise RuntimeError(f"{frames.call}: distributed.shutdown() was called while it waited for other processes")
    disconnected = [p.rank for p in frames.pairs if p.disconnected and not p.token_received]
    if disconnected:
        launch_failure.raise_lost(frames, disconnected)
