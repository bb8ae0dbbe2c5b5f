"""The tokens and notices that one launch exchanges with its peers; see `launch_agreement`."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol

from lamina_runtime.extend.processes import MultiProcessProgram

from . import launch_description
from .deadlock_detection import WaitGraph
from .launch_groups import MAX_ALL_PAIRS, LaunchGroup
from .peer_sockets import TOKEN_BYTES, Peer, PeerSockets
from .roll_call import RollCall
from .._typing import Message

__all__ = ["AgreementServices", "LaunchFrames", "make_token"]


class AgreementServices(Protocol):
    """What the comparison of a launch uses of an `Agreement`; the attributes are described there."""

    rank: int
    sockets: PeerSockets
    wait_graph: WaitGraph
    roll_call: RollCall
    check_peers: Callable[[MultiProcessProgram], None]
    raise_if_lost: Callable[[str, Sequence[int]], None]
    describe: Callable[[MultiProcessProgram], Message]

    def find_group(self, ranks: tuple[int, ...]) -> LaunchGroup: ...


def make_token(state: bytes, digest: bytes) -> bytes:
    """Return the token of a program with this digest, for a peer with this state."""
    return blake2b(state + digest, digest_size=TOKEN_BYTES).digest()


class LaunchFrames:
    """What one launch has sent to its peers and received from them.

    Args:
      services, group, program, digest: the agreement, the processes of the launch, its program and its digest.

    Attributes:
      pairs: the peers with which frames are exchanged.
      differing: peers that are about to launch another program.
      first_notice: the first notice of a peer that gave up this launch.
      answered: peers whose notice concerns this launch.
      notified: peers that have a notice of this launch.
      gave_up_another: peers whose notice of another launch was answered here.
      descriptions: process -> description of its launch.
      late: processes that have not come, if a process gave up waiting.
      deadlock: processes that wait in a cycle.
      roll_call: where each process is, if a process gave up waiting.
      failed: whether this process has given up the launch.
    """

    def __init__(self, services: AgreementServices, group: LaunchGroup, program: MultiProcessProgram,
                 digest: bytes) -> None:
        self.services, self.group, self.program, self.pairs = services, group, program, group.pairs
        self._digest = digest
        self.differing: set[Peer] = set()
        self.answered: set[Peer] = set()
        self.notified: set[Peer] = set()
        self.gave_up_another: set[Peer] = set()
        self.first_notice: Message | None = None
        self.descriptions: dict[int, Message] = {}
        self.late: list[int] = []
        self.deadlock: list[int] = []
        self.roll_call = ""
        self.failed = False

    @property
    def call(self) -> str:
        """Text for the launch in messages."""
        return f"{self.program.call} of `{self.program.name}`"

    def begin(self) -> None:
        """Prepare the peers for an exchange of frames, and connect to them."""
        for p in self.pairs:
            p.fast_path_ready = False
            p.feed(b"")
            p.token = make_token(p.state, self._digest)
        for p in self.pairs:
            if p.send is None and not p.disconnected:
                self.services.sockets.connect(p)

    def send_tokens(self) -> bool:
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

    def take_frames(self) -> None:
        """Handle the received frames that belong to this launch. Leave those of later launches in the queues."""
        for p in self.pairs:
            while p.frames and self._take_frame(p, p.frames[0]):
                p.frames.popleft()

    def _take_frame(self, p: Peer, f: Any) -> bool:
        """Handle the next frame of a peer. Return False if it belongs to a later launch."""
        if type(f) is bytes:
            return self._take_token(p, f)
        if "notice" in f:
            return self._take_notice(p, f)
        if p in self.answered:
            self._add_descriptions(f["descriptions"])
        return True

    def _take_token(self, p: Peer, token: bytes) -> bool:
        if p.awaits_notice:
            return True  # drop it: the peer sent it before it knew that a launch was given up
        # A second token of a peer belongs to its next launch. It stays in the queue.
        if p.token_received or self.failed or (p in self.gave_up_another and not p.token_sent):
            return False
        p.token_received = True
        if token != p.token:
            self.differing.add(p)
        return True

    def _take_notice(self, p: Peer, f: Message) -> bool:
        if p.notices_sent <= p.notices_received and (self.failed or p in self.answered):
            return False
        p.notices_received += 1
        p.expects_notice = False
        if p.notices_sent >= p.notices_received:
            self._take_answer(p, f)
        elif self._concerns_this_launch(p, f):
            self.answered.add(p)
            self.first_notice = self.first_notice or f
            self.deadlock = self.deadlock or f["deadlock"]
            self._add_descriptions(f["descriptions"])
        else:  # it gave up another launch, to which this process did not come
            # The peer raised; this process only acknowledges, and the two continue with a new chain.
            self._skip_attempts(f["group"], f["attempt"])
            self._send_notice(p, "answer")
            self._reset_state(p)
            self.differing.discard(p)
            self.gave_up_another.add(p)
        return True

    def _take_answer(self, p: Peer, f: Message) -> None:
        """Handle a notice that answers one of ours."""
        # Notices are answered in order, so equal counts mean that this is the answer to the latest one.
        if p.notices_sent != p.notices_received:
            return
        if self.failed:
            self.answered.add(p)
            self._add_descriptions(f["descriptions"])
        self._reset_state(p)

    def _concerns_this_launch(self, p: Peer, f: Message) -> bool:
        """Return whether the peer gave up this launch.

        It did if it had our token. It also did if its notice is of this attempt, or of a later one over the same
        processes, and names the same token or a failure that all of them come to. If the notice is about a deadlock
        with this process in it, the launch that it means here has failed already.
        """
        if f["seen"]:
            return True
        return bool(self.services.rank not in f["deadlock"] and f["group"] == [*self.group.ranks]
                    and f["attempt"] >= self.group.attempt and (f["common"] or f["token"] == p.token.hex()))

    def _reset_state(self, p: Peer) -> None:
        """Start a new chain of states with a peer. Both sides do so when as many notices were sent as received."""
        p.state = blake2b(b"notices %d" % p.notices_sent, digest_size=TOKEN_BYTES).digest()
        p.token = make_token(p.state, self._digest)
        p.token_sent = p.token_received = False

    def _send_notice(self, p: Peer, kind: str) -> None:
        if self.services.rank not in self.descriptions:
            self.descriptions[self.services.rank] = self.describe_own()
        p.notices_sent += 1
        # If processes of one group launch different programs, all of them come to the same launch of that group: it is
        # common to them, and a late process fails too, whatever its token is. In all other cases a process that has not
        # come need never come to this launch, so it must not fail because of it.
        common = kind == "differ" and all(s["processes"] == [*self.group.ranks] for s in self.descriptions.values())
        p.send_frame({"notice": kind, "token": p.token.hex(), "seen": p.token_received,
                      "descriptions": self.descriptions, "late": self.late, "roll_call": self.roll_call,
                      "group": [*self.group.ranks], "attempt": self.group.attempt, "common": common,
                      "deadlock": self.deadlock})

    def describe_own(self) -> Message:
        """Return the description of this process's launch."""
        return {**self.services.describe(self.program), "number": self.group.launches + 1,
                "attempt": self.group.attempt}

    def notify(self, kind: str, those: Sequence[Peer]) -> None:
        """Give up this launch, and send a notice to those of these peers that have none of it yet."""
        self.failed = True
        if self.services.rank not in self.descriptions:
            self.descriptions[self.services.rank] = self.describe_own()
        for p in those:
            if p not in self.notified and (p.token_sent or p not in self.gave_up_another):
                self.notified.add(p)
                self._send_notice(p, kind)

    def _add_descriptions(self, received: Message) -> None:
        """Add the descriptions that a peer sent. If this launch was given up, forward the new ones to all peers."""
        new = {int(r): s for r, s in received.items() if int(r) not in self.descriptions}
        self.descriptions.update(new)
        if len(self.descriptions) > launch_description.MAX_WITH_TEXT:
            for s in new.values():
                s.pop("text", None)
        if new and self.failed and len(self.descriptions) <= launch_description.MAX_DESCRIPTIONS:
            for p in self.pairs:
                p.send_frame({"descriptions": new})

    def is_out_of_step(self) -> bool:
        """Return whether processes gave up launches over different large groups, so that the next ones cannot agree.

        In a large group a process exchanges notices with a few others only, so not all notices can be awaited.
        """
        groups = {tuple(s["processes"]) for s in self.descriptions.values()} | {self.group.ranks}
        return len(groups) > 1 and max(map(len, groups)) > MAX_ALL_PAIRS

    def _skip_attempts(self, ranks: Sequence[int], attempt: int) -> None:
        """Record that an attempt over these processes was given up, if this process is one of them.

        It need not have come to that attempt. A notice of it that arrives later is only answered.
        """
        if self.services.rank in ranks:
            group = self.services.find_group(tuple(ranks))
            group.attempt = max(group.attempt, attempt + 1)

    def end(self) -> None:
        """Leave the peers in the state from which the next launch continues."""
        if self.failed:
            self.group.attempt += 1
        ranks = {p.rank for p in self.pairs}
        for r, s in self.descriptions.items():
            self._skip_attempts(s["processes"], s["attempt"])
            # It gave up a launch over this process too, and will send a notice. Its token before that is of that launch.
            if (self.failed and not self.deadlock and r != self.services.rank and r not in ranks
                    and self.services.rank in s["processes"] and len(s["processes"]) <= MAX_ALL_PAIRS):
                p = self.services.sockets.peer(r)
                p.expects_notice, p.fast_path_ready = True, False
        for p in self.pairs:
            if p.notices_sent == p.notices_received:
                self._reset_state(p)
            p.token_sent = p.token_received = False
            p.update_fast_path()
