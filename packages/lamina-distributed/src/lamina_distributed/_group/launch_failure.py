"""Give up a launch: send notices to the peers, gather their descriptions, and raise the error."""
from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NoReturn

from . import launch_description, peer_sockets
from .deadlock_detection import Wait
from .launch_frames import LaunchFrames
from .peer_sockets import Peer

__all__ = ["give_up", "raise_deadlock", "raise_error", "raise_lost", "wait_for_late"]

POLL_INTERVAL = 0.05     # seconds between looks at received frames, once something is wrong
_GRACE = 0.25            # seconds for others to come to a failed launch, so that the error names them
_GATHER_TIMEOUT = 2.0    # seconds for the descriptions of the others, at most
_ABSENT_TIMEOUT = 0.75   # seconds for descriptions of processes that have not come
_INTERRUPT_TIMEOUT = 1.0  # seconds for answers to the notices of an interrupted launch


def wait_for_late(frames: LaunchFrames) -> None:
    """Wait a moment for peers that are about to come to this launch, so that the error describes them too."""
    until = time.monotonic() + _GRACE
    while time.monotonic() < until and (frames.differing or frames.first_notice):
        if all(p.token_received or p in frames.answered or p.disconnected or p.notices_sent > p.notices_received
               for p in frames.pairs):
            return
        peer_sockets.poll_peers(frames.pairs, POLL_INTERVAL)
        frames.take_frames()


def raise_error(frames: LaunchFrames, kind: str) -> NoReturn:
    """Send notices to the peers, gather their descriptions, and raise the error.

    Args:
      frames: the launch.
      kind: "differ", "timeout", or the kind of a notice of a peer.
    """
    present = [p for p in frames.pairs if p.token_received or p in frames.answered]
    if kind == "timeout":
        frames.late = (frames.first_notice["late"] if frames.first_notice else
                       [p.rank for p in frames.pairs if p not in present])
        frames.roll_call = str(frames.first_notice["roll_call"]) if frames.first_notice else frames.roll_call
    frames.notify(kind, present)
    if kind == "lost":
        frames.notify(kind, frames.pairs)
        frames.end()
        raise_lost(frames, [])
    _gather_descriptions(frames, kind, present)
    frames.notify(kind, frames.pairs)  # the absent peers as well: the notices now contain all descriptions
    frames.end()
    raise launch_description.make_error(kind, frames.descriptions, frames.services.rank,
                                        frames.deadlock if kind == "deadlock" else frames.late, frames.roll_call)


def _gather_descriptions(frames: LaunchFrames, kind: str, present: list[Peer]) -> None:
    """Wait for the descriptions of the peers' launches. Peers that come meanwhile are added to `present`."""
    began = time.monotonic()
    while (passed := time.monotonic() - began) < _GATHER_TIMEOUT:
        frames.take_frames()
        for p in frames.pairs:
            if p.frames and p not in frames.notified:
                present.append(p)  # it has just come
                frames.notify(kind, [p])
        frames.take_frames()
        if _has_all_descriptions(frames, kind, present, passed):
            return
        peer_sockets.poll_peers(frames.pairs, POLL_INTERVAL)


def _has_all_descriptions(frames: LaunchFrames, kind: str, present: Sequence[Peer], passed: float) -> bool:
    """Return whether no more descriptions are expected, `passed` seconds after the first notice.

    That is if all are known, or if no answer is due and the rest are those of late processes. `_ABSENT_TIMEOUT` is
    the time for what others forward of them.
    """
    missing = {r for s in frames.descriptions.values() for r in s["processes"]} - set(frames.descriptions)
    direct = {p.rank for p in frames.pairs if not p.disconnected}
    unanswered = any(p.notices_sent > p.notices_received and not p.disconnected for p in present)
    may_come = kind == "differ" and not missing.isdisjoint(direct)
    return not missing or not (unanswered or may_come) and (passed > _ABSENT_TIMEOUT
                                                            or missing <= {p.rank for p in frames.pairs})


def raise_lost(frames: LaunchFrames, ranks: Sequence[int]) -> NoReturn:
    """Raise the error of peers that have disconnected."""
    frames.services.check_peers(frames.program)
    frames.services.raise_if_lost(frames.call, ranks)
    raise RuntimeError(f"{frames.call}: the connection to processes {list(ranks)} has ended")


def raise_deadlock(frames: LaunchFrames, wait: Wait) -> NoReturn:
    """Raise the error of a deadlock that contains this launch. All other processes in it do so at this moment."""
    verdict = wait.verdict
    assert verdict is not None
    time.sleep(_GRACE)
    frames.deadlock = verdict["deadlock"]
    frames.descriptions = {int(r): s for r, s in verdict["descriptions"].items()}
    frames.notify("deadlock", frames.pairs)
    # `pop`: threads of one process may share a verdict, and each notice must be expected once only.
    for r in verdict.pop("owing", ()):
        p = frames.services.sockets.peer(r)
        p.expects_notice, p.fast_path_ready = True, False
    frames.end()
    raise launch_description.make_error("deadlock", frames.descriptions, frames.services.rank, frames.deadlock)


def give_up(frames: LaunchFrames, error: BaseException) -> None:
    """Notify the others that this launch ends by another exception, if they know of the launch."""
    interrupted = not isinstance(error, Exception)
    if any(p.token_sent or p.notices_sent < p.notices_received for p in frames.pairs):
        seen = [p for p in frames.pairs if p.token_received]
        frames.notify("interrupted" if interrupted else "lost", frames.pairs)
        silent = _await_answers(frames, seen, _INTERRUPT_TIMEOUT if interrupted else 0.0)
        if silent and interrupted and hasattr(error, "add_note"):
            # These peers sent their tokens but do not answer the notice: they may have left the comparison.
            error.add_note(f"{frames.call} was interrupted while it waited for other processes; processes "
                           f"{[p.rank for p in silent]} may have launched it, and wait for this one. If so, "
                           "lamina.distributed.shutdown() is the way out")
    frames.end()


def _await_answers(frames: LaunchFrames, peers: Sequence[Peer], seconds: float) -> list[Peer]:
    """Wait for the answers of these peers to the notices sent to them. Return those that have not answered."""
    until = time.monotonic() + seconds
    while ((silent := [p for p in peers if p.notices_sent > p.notices_received and not p.disconnected])
           and time.monotonic() < until):
        peer_sockets.poll_peers(frames.pairs, POLL_INTERVAL)
        frames.take_frames()
    return silent
