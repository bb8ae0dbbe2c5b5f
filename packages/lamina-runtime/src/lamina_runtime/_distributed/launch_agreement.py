"""Check that the processes of a program launch the same one, before any of its data is exchanged.

Each launch of a multi-process program has a *token*: a digest of the program and of all launches that this process and
its peer have agreed on before. Each process sends its token to the others and launches if every token it receives
equals its own. Up to eight processes exchange tokens directly. More do so in log2(n) rounds, each with the process 1,
2, 4, ... places further (a dissemination barrier).

If a token differs, or a process gives up waiting, it sends its peers a *notice* with a description of its launch. Each
notice requires one in return. All of them raise an error that shows all descriptions. A process that comes to the
launch later finds the notice, and raises too. Before its next launch a process waits until its notices are answered,
and ignores tokens that were sent before the answer. So all processes are in step again.

Launches that wait for each other in a cycle are found by `deadlock_detection`. The guarantees are described in
`docs/multi_process/launch-consistency.md`.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NoReturn

from . import deadlock_detection, peer_sockets, launch_description
from .peer_sockets import TOKEN_BYTES, Peer
from .launch_description import AgreementError, CollectiveTimeoutError
from .._launch.multi_process import MultiProcessProgram, collective_timeout_seconds
from .._typing import Message

__all__ = ["Agreement", "AgreementError", "CollectiveTimeoutError", "exchange_rounds"]

MAX_ALL_PAIRS = 8        # up to so many processes exchange tokens directly
_GRACE = 0.25            # seconds for others to come to a failed launch, so that the error names them
_GATHER_TIMEOUT = 2.0    # seconds for the descriptions of the others, at most
_ABSENT_TIMEOUT = 0.75   # seconds for descriptions of processes that have not come
_CHECK_INTERVAL = 0.25   # seconds between checks for lost processes
_POLL_INTERVAL = 0.05    # seconds between looks at received frames, once something is wrong
_FIRST_SEARCH = 0.75     # seconds until a waiting launch searches for a deadlock; then twice as many, ...
_MAX_SEARCH_PAUSE = 8.0  # ... up to so many


def exchange_rounds(ranks: Sequence[int], rank: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return for each round the processes to send the token to, and those whose tokens to await before the next round.

    After the last round each process has heard from all. With many processes it does so indirectly: a process that
    sends its token in a later round asserts that all tokens it has received so far were equal.

    >>> exchange_rounds((0, 3, 5), 3)
    [((0, 5), (0, 5))]
    >>> len(exchange_rounds(range(4096), 7))
    12
    """
    n = len(ranks)
    if n <= MAX_ALL_PAIRS:
        others = tuple([r for r in ranks if r != rank])
        return [(others, others)]
    at = list(ranks).index(rank)
    return [((ranks[(at + (1 << k)) % n],), (ranks[(at - (1 << k)) % n],)) for k in range((n - 1).bit_length())]


class _LaunchGroup:
    """The processes of some programs, as seen by one of them. A context that holds the locks of its peers.

    Attributes:
      rounds: (peers to send to, peers to receive from) of each round; pairs: all these peers, by rank.
      launches: number of agreed launches over this group; failures: number of launches given up since the last of them.
      known_digests: digests of programs that were agreed before, in mode "first".
    """

    __slots__ = ("ranks", "rounds", "pairs", "launches", "failures", "known_digests", "_wait_graph")

    def __init__(self, ranks: tuple[int, ...], rank: int, get_peer: Callable[[int], Peer],
                 wait_graph: deadlock_detection.WaitGraph) -> None:
        self.ranks, self._wait_graph = ranks, wait_graph
        self.rounds = [(tuple(map(get_peer, to)), tuple(map(get_peer, of))) for to, of in exchange_rounds(ranks, rank)]
        pairs = {p.rank: p for to, of in self.rounds for p in (*to, *of)}
        self.pairs = tuple([pairs[r] for r in sorted(pairs)])  # all threads lock in this order, so they cannot deadlock
        self.launches = self.failures = 0
        self.known_digests: set[bytes] = set()

    def __enter__(self) -> None:
        held = []
        try:
            for p in self.pairs:
                if not p.lock.acquire(False):
                    # Otherwise this thread would count as one that may still start a launch. A cycle through this
                    # lock would never be found.
                    with self._wait_graph.waiting_for_lock(p.lock):
                        p.lock.acquire()
                held.append(p)
        except BaseException:
            for p in held:
                p.lock.release()
            raise

    def __exit__(self, *error: object) -> None:
        for p in self.pairs:
            p.lock.release()


class Agreement:
    """The launch check of one session.

    Args:
      sockets: connections to the peers.
      mode: 'every' or 'first'.
      check_peers: called with a program while its peers are awaited. Raises if one of them is lost.
      raise_if_lost: called with the name of a call and the ranks of peers that disconnected. Raises their error.
      digest, describe: functions of a program, see `launch_description`.
      has_runnable_thread: whether a thread may still start a launch, see `deadlock_detection`.
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
        self._groups: dict[tuple[int, ...], _LaunchGroup] = {}
        self._lock = threading.Lock()
        self.wait_graph = deadlock_detection.WaitGraph(self.rank, sockets.ask, has_runnable_thread)
        sockets.answer = self.wait_graph.answer

    def close(self) -> None:
        """Close the sockets. Waiting launches raise an error."""
        self.sockets.close()

    def _group_and_digest(self, program: MultiProcessProgram) -> tuple[_LaunchGroup, bytes]:
        """Compute the group and digest of a program, and store both in it."""
        ranks = program.processes
        with self._lock:
            group = self._groups.get(ranks)
            if group is None:
                group = self._groups[ranks] = _LaunchGroup(ranks, self.rank, self.sockets.peer, self.wait_graph)
        program.launch_group = pair = (group, self.digest(program))
        return pair

    def agree(self, program: MultiProcessProgram) -> None:
        """Return once all processes of a program are about to launch it.

        Raises:
          AgreementError: they are about to launch different programs, or wait for one another in a cycle.
          CollectiveTimeoutError: some processes have not come in time.
          ProcessLostError: a process was lost, or has left.
        """
        group, digest = program.launch_group or self._group_and_digest(program)
        with group:
            pairs = group.pairs
            if self._first and digest in group.known_digests:
                # Nothing is exchanged, but the state is advanced: a different order is found at the next new program.
                for p in pairs:
                    p.state = blake2b(p.state + digest, digest_size=TOKEN_BYTES).digest()
                group.launches += 1
                return
            try:
                if not self._exchange_tokens(group, digest):
                    _LaunchComparison(self, group, program, digest).run()
            except (AgreementError, CollectiveTimeoutError):
                raise
            except BaseException as e:
                _LaunchComparison(self, group, program, digest).give_up(e)
                raise
            for p in pairs:
                p.state = p.token
                p.token_sent = p.token_received = False
            group.launches += 1
            group.failures = 0
            if self._first:
                group.known_digests.add(digest)

    @staticmethod
    def _exchange_tokens(group: _LaunchGroup, digest: bytes) -> bool:
        """Exchange tokens on the fast path. Return False if `_LaunchComparison` must continue."""
        for p in group.pairs:
            if not p.fast_path_ready:
                return False
            p.token = blake2b(p.state + digest, digest_size=TOKEN_BYTES).digest()
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


class _LaunchComparison:
    """A launch whose tokens do not all arrive at once, or differ: the slow path of `Agreement.agree`.

    Attributes:
      differing: peers that are about to launch another program.
      first_notice: the first notice of a peer that gave up this launch.
      answered: peers whose notice concerns this launch.
      descriptions: process -> description of its launch.
    """

    def __init__(self, agreement: Agreement, group: _LaunchGroup, program: MultiProcessProgram, digest: bytes) -> None:
        self.agreement, self.group, self.program, self.pairs = agreement, group, program, group.pairs
        self._digest = digest
        self.differing: set[Peer] = set()
        self.answered: set[Peer] = set()
        self.first_notice: Message | None = None
        self.descriptions: dict[int, Message] = {}
        self._failed = False
        self._notified: set[Peer] = set()
        self._gave_up_another: set[Peer] = set()  # peers whose notice of another launch was answered here
        self._late: list[int] = []  # processes that have not come, if a process gave up waiting
        self._deadlock: list[int] = []  # processes that wait in a cycle
        # The report of this launch to other processes, once it has waited for a while
        self._wait: deadlock_detection.Wait | None = None

    @property
    def _call(self) -> str:
        return f"{self.program.call} of `{self.program.name}`"

    def run(self) -> None:
        """Return once all processes agree."""
        try:
            self._compare()
            if self._wait is None or self.agreement.wait_graph.end(self._wait):
                return
        finally:
            if self._wait is not None:
                self.agreement.wait_graph.end(self._wait)
        # Even if all agree at the last moment: the others know that this launch is part of a deadlock, and raise.
        self._raise_deadlock()

    def _compare(self) -> None:
        agreement, pairs = self.agreement, self.pairs
        seconds = collective_timeout_seconds.value
        began = time.monotonic()
        until = None if seconds is None else began + float(seconds)
        checked, pause = began, _FIRST_SEARCH
        next_search = began + pause
        for p in pairs:
            p.fast_path_ready = False
            p.feed(b"")
            p.token = self._make_token(p)
        for p in pairs:
            if p.send is None and not p.disconnected:
                agreement.sockets.connect(p)
        peer_sockets.poll_peers(pairs, 0)
        while True:
            if self._wait is not None:
                self._wait.is_current = False  # something may have arrived: the last report does not hold any more
                if self._wait.verdict is not None:
                    return
            self._take_frames()
            if self.differing or self.first_notice:
                self._wait_for_late()
                if self.differing or self.first_notice:
                    self._fail("differ" if self.differing or self.first_notice is None else self.first_notice["notice"])
                continue  # the peer had given up another launch, and may still come to this one
            # Notices are handled before tokens are sent: a token that follows an unanswered notice would be dropped
            # by the peer.
            if self._send_tokens():
                break
            if agreement.sockets.closed:
                raise RuntimeError(f"{self._call}: distributed.shutdown() was called while it waited for other "
                                   "processes")
            disconnected = [p.rank for p in pairs if p.disconnected and not p.token_received]
            if disconnected:
                self._raise_lost(disconnected)
            now = time.monotonic()
            if now > checked + _CHECK_INTERVAL:
                agreement.check_peers(self.program)
                checked = now
            if until is not None and now > until:
                self._fail("timeout")
            if now > next_search:
                if self._wait is None:
                    self._wait = agreement.wait_graph.begin(self._own_description(),
                                                            [[*self.group.ranks], self.group.launches])
                self._report_wait()
                agreement.wait_graph.search(self._wait)
                pause = min(2 * pause, _MAX_SEARCH_PAUSE)
                next_search = time.monotonic() + pause
                continue
            self._report_wait()
            peer_sockets.poll_peers(pairs, _CHECK_INTERVAL if until is None else
                             min(_CHECK_INTERVAL, max(until - now, 0) + 0.001))
        for p in pairs:
            p.update_fast_path()

    def give_up(self, error: BaseException) -> None:
        """Notify the others that this launch ends by another exception, if they know of the launch."""
        interrupted = not isinstance(error, Exception)
        if any(p.token_sent or p.notices_sent < p.notices_received for p in self.pairs):
            seen = [p for p in self.pairs if p.token_received]
            self._notify("interrupted" if interrupted else "lost", self.pairs)
            until = time.monotonic() + (1.0 if interrupted else 0.0)
            while ((silent := [p for p in seen if p.notices_sent > p.notices_received and not p.disconnected])
                   and time.monotonic() < until):
                peer_sockets.poll_peers(self.pairs, _POLL_INTERVAL)
                self._take_frames()
            self.group.failures += 1
            if silent and interrupted and hasattr(error, "add_note"):
                # These peers sent their tokens but do not answer the notice: they may have left the comparison.
                error.add_note(f"{self._call} was interrupted while it waited for other processes; processes "
                               f"{[p.rank for p in silent]} may have launched it, and wait for this one. If so, "
                               "lamina.distributed.shutdown() is the way out")
        self._end(0)

    # --- deadlocks ------------------------------------------------------------------------------------------------
    def _report_wait(self) -> None:
        """Update the report of what this launch waits for. It stays valid until something arrives."""
        if self._wait is None or any(p.has_partial_frame for p in self.pairs):
            return
        silent = [p.rank for p in self.pairs if p.awaits_notice]
        missing = next(([p.rank for p in of if not p.token_received] for _, of in self.group.rounds
                        if not all(p.token_received for p in of)), [])
        self._wait.update(waits=silent or missing, answer=bool(silent),
                          sent=[p.rank for p in self.pairs if p.token_sent], pairs=[p.rank for p in self.pairs])

    def _raise_deadlock(self) -> NoReturn:
        """Raise the error of a deadlock that contains this launch. All other processes in it do so at this moment."""
        assert self._wait is not None and self._wait.verdict is not None
        time.sleep(_GRACE)
        self._deadlock = self._wait.verdict["deadlock"]
        self.descriptions = {int(r): s for r, s in self._wait.verdict["descriptions"].items()}
        self._notify("deadlock", self.pairs)
        # `pop`: threads of one process may share a verdict, and each notice must be expected once only.
        for r in self._wait.verdict.pop("owing", ()):
            p = self.agreement.sockets.peer(r)
            p.expects_notice, p.fast_path_ready = True, False
        self._end()
        raise launch_description.make_error("deadlock", self.descriptions, self.agreement.rank, self._deadlock)

    # --- tokens ---------------------------------------------------------------------------------------------------
    def _make_token(self, p: Peer) -> bytes:
        return blake2b(p.state + self._digest, digest_size=TOKEN_BYTES).digest()

    def _send_tokens(self) -> bool:
        """Send the tokens that may be sent now. Return whether all processes agree."""
        for p in self.pairs:
            if p.awaits_notice:  # this peer has not yet acknowledged a launch that was given up
                return False
        for to, of in self.group.rounds:
            for p in to:
                if not p.token_sent:
                    p.token_sent = True
                    p.send_frame(p.token)
            for p in of:
                if not p.token_received or p.has_partial_frame:
                    return False
        return True

    def _take_frames(self) -> None:
        """Handle the received frames that belong to this launch. Leave those of later launches in the queues."""
        for p in self.pairs:
            while p.frames and self._take_frame(p, p.frames[0]):
                p.frames.popleft()

    def _take_frame(self, p: Peer, f: Any) -> bool:
        """Handle the next frame of a peer. Return False if it belongs to a later launch."""
        if type(f) is bytes:
            if p.awaits_notice:
                return True  # drop it: the peer sent it before it knew that a launch was given up
            # A second token of a peer belongs to its next launch. It stays in the queue.
            if p.token_received or self._failed or (p in self._gave_up_another and not p.token_sent):
                return False
            p.token_received = True
            if f != p.token:
                self.differing.add(p)
            return True
        if "notice" not in f:
            if p in self.answered:
                self._add_descriptions(f["descriptions"])
            return True
        if p.notices_sent <= p.notices_received and (self._failed or p in self.answered):
            return False
        p.notices_received += 1
        p.expects_notice = False
        if p.notices_sent >= p.notices_received:  # it answers one of ours
            # Notices are answered in order, so equal counts mean that this is the answer to the latest one.
            if self._failed and p.notices_sent == p.notices_received:
                self.answered.add(p)
                self._add_descriptions(f["descriptions"])
            if p.notices_sent == p.notices_received:
                self._reset_state(p)
        # The peer gave up this launch if it had our token, or if its notice names the same token or launch. If the
        # notice is about a deadlock with this process in it, the launch that it means here has failed already.
        elif f["seen"] or self.agreement.rank not in f["deadlock"] and (f["token"] == p.token.hex()
                                                                        or f["launch"] == self._launch_id()):
            self.answered.add(p)
            self.first_notice = self.first_notice or f
            self._deadlock = self._deadlock or f["deadlock"]
            self._add_descriptions(f["descriptions"])
        else:  # it gave up another launch, to which this process did not come
            # The peer raised; this process only acknowledges, and the two continue with a new chain.
            self._send_notice(p, "answer")
            self._reset_state(p)
            self.differing.discard(p)
            self._gave_up_another.add(p)
        return True

    def _reset_state(self, p: Peer) -> None:
        """Start a new chain of states with a peer. Both sides do so when as many notices were sent as received."""
        p.state = blake2b(b"notices %d" % p.notices_sent, digest_size=TOKEN_BYTES).digest()
        p.token = self._make_token(p)
        p.token_sent = p.token_received = False

    # --- notices --------------------------------------------------------------------------------------------------
    def _send_notice(self, p: Peer, kind: str) -> None:
        if self.agreement.rank not in self.descriptions:
            self.descriptions[self.agreement.rank] = self._own_description()
        p.notices_sent += 1
        # If processes of one group launch different programs, all of them come to the same launch of that group. Its
        # number lets a late process recognize that the notice concerns its launch, whose token is another. In all other
        # cases a process that has not come need never come to this launch, so it must not fail because of it.
        same_group = kind == "differ" and all(s["processes"] == [*self.group.ranks] for s in self.descriptions.values())
        p.send_frame({"notice": kind, "token": p.token.hex(), "seen": p.token_received,
                      "descriptions": self.descriptions, "late": self._late,
                      "launch": self._launch_id() if same_group else None, "deadlock": self._deadlock})

    def _launch_id(self) -> list[object]:
        return [[*self.group.ranks], self.group.launches, self.group.failures]

    def _own_description(self) -> Message:
        return {**self.agreement.describe(self.program), "number": self.group.launches + 1}

    def _notify(self, kind: str, those: Sequence[Peer]) -> None:
        """Give up this launch, and send a notice to those of these peers that have none of it yet."""
        self._failed = True
        if self.agreement.rank not in self.descriptions:
            self.descriptions[self.agreement.rank] = self._own_description()
        for p in those:
            if p not in self._notified and (p.token_sent or p not in self._gave_up_another):
                self._notified.add(p)
                self._send_notice(p, kind)

    def _add_descriptions(self, received: Message) -> None:
        """Add the descriptions that a peer sent. If this launch was given up, forward the new ones to all peers."""
        new = {int(r): s for r, s in received.items() if int(r) not in self.descriptions}
        self.descriptions.update(new)
        if len(self.descriptions) > launch_description.MAX_WITH_TEXT:
            for s in new.values():
                s.pop("text", None)
        if new and self._failed and len(self.descriptions) <= launch_description.MAX_DESCRIPTIONS:
            for p in self.pairs:
                p.send_frame({"descriptions": new})

    def _wait_for_late(self) -> None:
        """Wait a moment for peers that are about to come to this launch, so that the error describes them too."""
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and (self.differing or self.first_notice):
            if all(p.token_received or p in self.answered or p.disconnected or p.notices_sent > p.notices_received
                   for p in self.pairs):
                return
            peer_sockets.poll_peers(self.pairs, _POLL_INTERVAL)
            self._take_frames()

    def _fail(self, kind: str) -> NoReturn:
        """Send notices to the peers, gather their descriptions, and raise the error."""
        present = [p for p in self.pairs if p.token_received or p in self.answered]
        if kind == "timeout":
            self._late = (self.first_notice["late"] if self.first_notice else
                          [p.rank for p in self.pairs if p not in present])
        self._notify(kind, present)
        if kind == "lost":
            self._notify(kind, self.pairs)
            self._end()
            self._raise_lost([])
        began = time.monotonic()
        while (passed := time.monotonic() - began) < _GATHER_TIMEOUT:
            self._take_frames()
            for p in self.pairs:
                if p.frames and p not in self._notified:
                    present.append(p)  # it has just come
                    self._notify(kind, [p])
            self._take_frames()
            missing = {r for s in self.descriptions.values() for r in s["processes"]} - set(self.descriptions)
            direct = {p.rank for p in self.pairs if not p.disconnected}
            unanswered = any(p.notices_sent > p.notices_received and not p.disconnected for p in present)
            may_come = kind == "differ" and not missing.isdisjoint(direct)
            # Stop when all descriptions are known, or when no answer is due and the rest are those of late processes.
            # Wait `_ABSENT_TIMEOUT` for what others forward of them.
            if not missing or not (unanswered or may_come) and (passed > _ABSENT_TIMEOUT
                                                                or missing <= {p.rank for p in self.pairs}):
                break
            peer_sockets.poll_peers(self.pairs, _POLL_INTERVAL)
        self._notify(kind, self.pairs)  # the absent peers as well: the notices now contain all descriptions
        self._end()
        raise launch_description.make_error(kind, self.descriptions, self.agreement.rank,
                               self._deadlock if kind == "deadlock" else self._late)

    def _raise_lost(self, ranks: Sequence[int]) -> NoReturn:
        """Raise the error of peers that have disconnected."""
        self.agreement.check_peers(self.program)
        self.agreement.raise_if_lost(self._call, ranks)
        raise RuntimeError(f"{self._call}: the connection to processes {list(ranks)} has ended")

    def _end(self, failures: int = 1) -> None:
        """Leave the peers in the state from which the next launch continues."""
        self.group.failures += failures
        for p in self.pairs:
            if p.notices_sent == p.notices_received:
                self._reset_state(p)
            p.token_sent = p.token_received = False
            p.update_fast_path()
