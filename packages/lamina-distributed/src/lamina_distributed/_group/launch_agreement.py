"""Check that the processes of a program launch the same one, before any of its data is exchanged.

Each launch of a multi-process program has a *token*: a digest of the program and of all launches that this process and
its peer have agreed on before. Each process sends its token to the others and launches if every token it receives
equals its own. Up to 32 processes exchange tokens directly. More do so in log2(n) rounds, each with the process 1,
2, 4, ... places further (a dissemination barrier).

If a token differs, or a process gives up waiting, it sends its peers a *notice* with a description of its launch. Each
notice requires one in return. All of them raise an error that shows all descriptions. A process that comes to the
launch later finds the notice, and raises too. It recognizes its launch by the group of processes and the number of the
attempt, which each notice contains: a notice of an earlier attempt is only answered. Before its next launch a process
waits until its notices are answered, and ignores tokens that were sent before the answer. So all processes are in step
again.

If all tokens arrive at once and are equal, the exchange is in this module. Otherwise `launch_comparison` continues it:
`launch_frames` exchanges tokens and notices, `launch_failure` gives up a launch. Launches that wait for each other in a
cycle are found by `deadlock_detection`. The guarantees are described in
`docs/how-to/several-processes/launch-consistency.md`.
"""
from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lamina_runtime.extend.processes import MultiProcessProgram

from . import deadlock_detection, launch_description, launch_failure, peer_sockets
from .launch_comparison import compare_launch
from .launch_description import AgreementError, CollectiveTimeoutError
from .launch_frames import LaunchFrames, make_token
from .launch_groups import MAX_ALL_PAIRS, LaunchGroup
from .roll_call import RollCall
from .._typing import Message

__all__ = ["Agreement", "AgreementError", "CollectiveTimeoutError"]

T = TypeVar("T")


def _launch_nothing() -> Any:
    """Launch nothing: the default of `Agreement.agree`."""


class Agreement:
    """The launch check of one session.

    Args:
      sockets: connections to the peers.
      mode: 'every' or 'first'.
      check_peers: called with a program while its peers are awaited. Raises if one of them is lost.
      raise_if_lost: called with the name of a call and the ranks of peers that disconnected. Raises their error.
      digest, describe: functions of a program, see `launch_description`.
      has_runnable_thread: whether a thread may still start a launch, see `deadlock_detection`.

    Attributes:
      roll_call: finds out where each process is, see `roll_call`.
      report_failure: called with a text if the processes cannot be brought in step again; has all of them raise from now
        on.
    """

    def __init__(self, sockets: peer_sockets.PeerSockets, mode: str = "every",
                 check_peers: Callable[[MultiProcessProgram], None] = lambda program: None,
                 raise_if_lost: Callable[[str, Sequence[int]], None] = lambda call, ranks: None,
                 digest: Callable[[MultiProcessProgram], bytes] = launch_description.digest,
                 describe: Callable[[MultiProcessProgram], Message] = launch_description.describe_launch,
                 has_runnable_thread: Callable[[Mapping[int, object]], bool] = deadlock_detection.has_runnable_thread,
                 ) -> None:
        self.sockets, self.rank, self.digest, self.describe = sockets, sockets.rank, digest, describe
        self.check_peers, self.raise_if_lost = check_peers, raise_if_lost
        self._first = mode == "first"
        self._groups: dict[tuple[int, ...], LaunchGroup] = {}
        self._lock = threading.Lock()
        self.wait_graph = deadlock_detection.WaitGraph(self.rank, sockets.ask, has_runnable_thread)
        self.roll_call = RollCall(self.rank, sockets.ask)
        self.report_failure: Callable[[str], None] = lambda text: None
        sockets.answer = self._answer

    def close(self) -> None:
        """Close the sockets. Waiting launches raise an error."""
        self.sockets.close()

    def _answer(self, question: Message) -> Message:
        """Answer the question of another process: for a roll call, or in its search for a deadlock."""
        return (self.roll_call if "roll call" in question else self.wait_graph).answer(question)

    def count_launches(self) -> dict[tuple[int, ...], int]:
        """Return process indices -> the number of launches over these processes."""
        with self._lock:
            return {ranks: group.launches for ranks, group in self._groups.items()}

    def _group_and_digest(self, program: MultiProcessProgram) -> tuple[LaunchGroup, bytes]:
        """Compute the group and digest of a program, and store both in it."""
        program.launch_group = pair = (self.find_group(program.processes), self.digest(program))
        return pair

    def find_group(self, ranks: tuple[int, ...]) -> LaunchGroup:
        """Return the group of these processes."""
        with self._lock:
            group = self._groups.get(ranks)
            if group is None:
                group = self._groups[ranks] = LaunchGroup(ranks, self.rank, self.sockets.peer, self.wait_graph)
        return group

    def agree(self, program: MultiProcessProgram, launch: Callable[[], T] = _launch_nothing) -> T:
        """Return `launch()`, called once all processes of a program are about to launch it.

        The locks of the peers are held meanwhile. So threads start launches in the order in which they agreed on them,
        which is the same in all processes.

        Raises:
          AgreementError: they are about to launch different programs, or wait for one another in a cycle.
          CollectiveTimeoutError: some processes have not come in time.
          ProcessLostError: a process was lost, or has left.
        """
        group, digest = program.launch_group or self._group_and_digest(program)
        with group:
            if self._first and digest in group.known_digests:
                # Nothing is exchanged, but the state is advanced: a different order is found at the next new program.
                for p in group.pairs:
                    p.state = make_token(p.state, digest)
            else:
                self._compare(group, program, digest)
            group.launches += 1
            group.attempt += 1
            return launch()

    def _compare(self, group: LaunchGroup, program: MultiProcessProgram, digest: bytes) -> None:
        """Exchange tokens with the peers and advance their states. Raise the errors of `agree`."""
        frames = None
        try:
            if not self._exchange_tokens(group, digest):
                compare_launch(frames := LaunchFrames(self, group, program, digest))
        except (AgreementError, CollectiveTimeoutError):
            if frames is not None and frames.is_out_of_step():
                self.report_failure(f"{frames.call}: processes launched over different sets of processes, some of more than "
                                    f"{MAX_ALL_PAIRS}, which cannot be brought in step again")
            raise
        except BaseException as e:
            launch_failure.give_up(LaunchFrames(self, group, program, digest), e)
            raise
        for p in group.pairs:
            p.state = p.token
            p.token_sent = p.token_received = False
        if self._first:
            group.known_digests.add(digest)

    @staticmethod
    def _exchange_tokens(group: LaunchGroup, digest: bytes) -> bool:
        """Exchange tokens on the fast path. Return False if `compare_launch` must continue."""
        for p in group.pairs:
            if not p.fast_path_ready:
                return False
            p.token = make_token(p.state, digest)
        try:
            for to, of in group.rounds:
                for p in to:
                    # Set before the send: if it is interrupted, the peer may have the token and must get a notice.
                    p.token_sent = True
                    p.send(p.token)
                for p in of:
                    data = p.receive_token()
                    # Another token, a token with more behind it, or the end of the connection (b""): `feed` keeps the
                    # bytes, so the slow path loses nothing.
                    if data != p.token:
                        p.feed(data)
                        if not data:
                            p.disconnected = True
                        return False
                    p.token_received = True
        except OSError:  # nothing has arrived in time, or the connection has ended
            return False
        return True
