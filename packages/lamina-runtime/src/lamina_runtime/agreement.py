"""Whether the processes of a program launch the same one, asked before any of its data moves.

Each launch of a program over several processes has a *token*, a digest of the program and of all that this process and its
peer have launched together before. Everyone sends its token to everyone (of more than eight in log2 n rounds, each to who is
1, 2, 4, ... places further) and launches when all that it gets are its own. Else, or when somebody gives up waiting, a *notice*
goes to the peers, with what this process was about to launch, and asks for theirs; everyone raises with all sides in view.
Whoever comes late finds the notice, and raises as well. Before the next launch a process waits until its notices are answered;
tokens sent before an answer count for nothing. Launches that wait in a circle find that out by `circles`. `docs/agreement.md`
says what holds.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NoReturn

from . import circles, peers, sides
from .peers import TOKEN, Peer
from .sides import AgreementError, CollectiveTimeoutError
from .together import collective_timeout_seconds

__all__ = ["Agreement", "AgreementError", "CollectiveTimeoutError", "rounds_of"]

ALL_PAIRS = 8     # processes among which everyone asks everyone
_GRACE = 0.25     # seconds in which others come to the same launch, that the error knows them
_GATHER = 2.0     # seconds to hear the other sides, at the most
_QUIET = 0.75     # seconds to hear of those that have not come
_LOOK = 0.25      # seconds between looks for who is lost
_BEAT = 0.05     # seconds between looks at what has come, while something is wrong
_ASK = 0.75      # seconds after which a launch that waits asks what for, then twice as many, ...
_SELDOM = 8.0    # ... up to so many

def rounds_of(ranks: Sequence[int], rank: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Round by round: to whom a process sends its token, and whose it waits for before the next.

    After the last one each has heard from all, through others where there are many: who passes a token on says that all it
    has heard was the same.

    >>> rounds_of((0, 3, 5), 3)
    [((0, 5), (0, 5))]
    >>> len(rounds_of(range(4096), 7))
    12
    """
    n = len(ranks)
    if n <= ALL_PAIRS:
        others = tuple([r for r in ranks if r != rank])
        return [(others, others)]
    at = list(ranks).index(rank)
    return [((ranks[(at + (1 << k)) % n],), (ranks[(at - (1 << k)) % n],)) for k in range((n - 1).bit_length())]


class _Group:
    """The processes of some programs, as one of them sees them.

    Attributes:
      rounds: peers to send to and to hear from, round by round; pairs: all of them, by number.
      number: how many programs have been launched over this group; failures: how many were given up since the last of them.
      known: digests of programs that all have launched.
    """

    __slots__ = ("ranks", "rounds", "pairs", "number", "failures", "known", "_waits")

    def __init__(self, ranks: tuple[int, ...], rank: int, find: Callable[[int], Peer], waits: circles.Waits) -> None:
        self.ranks, self._waits = ranks, waits
        self.rounds = [(tuple(map(find, to)), tuple(map(find, of))) for to, of in rounds_of(ranks, rank)]
        pairs = {p.rank: p for to, of in self.rounds for p in (*to, *of)}
        self.pairs = tuple([pairs[r] for r in sorted(pairs)])  # one order for all threads, for their locks
        self.number = self.failures = 0
        self.known: set[bytes] = set()

    def __enter__(self) -> None:
        held = []
        try:
            for p in self.pairs:
                if not p.lock.acquire(False):
                    with self._waits.behind(p.lock):
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
    """What one session asks its peers with.

    Args:
      sockets: to the peers.
      mode: 'every' or 'first'.
      look: called with a program while its peers are waited for; raises where one of them is lost.
      word: called with words for a call and numbers of peers whose connection has ended; raises that.
      digest, side: of a program, see `sides`.
      at_work: whether some thread may come to a launch, see `circles`.
    """

    def __init__(self, sockets: peers.Peers, mode: str = "every", look: Callable[[Any], None] = lambda program: None,
                 word: Callable[[str, Sequence[int]], None] = lambda call, gone: None,
                 digest: Callable[[Any], bytes] = sides.digest, side: Callable[[Any], dict[str, Any]] = sides.side,
                 at_work: Callable[[Mapping[int, Any]], bool] = circles.at_work) -> None:
        self.sockets, self.rank, self.look, self.word, self.digest, self.side = sockets, sockets.rank, look, word, digest, side
        self._first = mode == "first"
        self._groups: dict[tuple[int, ...], _Group] = {}
        self._lock = threading.Lock()
        self.waits = circles.Waits(self.rank, sockets.question, at_work)
        sockets.answer = self.waits.answer

    def close(self) -> None:
        """The session is over."""
        self.sockets.close()

    def _pact(self, program: Any) -> tuple[_Group, bytes]:
        ranks = program.processes
        with self._lock:
            group = self._groups.get(ranks)
            if group is None:
                group = self._groups[ranks] = _Group(ranks, self.rank, self.sockets.peer, self.waits)
        program.pact = found = (group, self.digest(program))
        return found

    def meet(self, program: Any) -> None:
        """Return when all processes of a program are about to launch it.

        Raises:
          AgreementError: they are about to launch different ones.
          CollectiveTimeoutError: some have not come in time.
          ProcessLostError: one is gone.
        """
        group, digest = program.pact or self._pact(program)
        with group:
            pairs = group.pairs
            if self._first and digest in group.known:
                for p in pairs:
                    p.state = blake2b(p.state + digest, digest_size=TOKEN).digest()
                group.number += 1
                return
            try:
                if not self._quick(group, digest):
                    _Meeting(self, group, program, digest).run()
            except (AgreementError, CollectiveTimeoutError):
                raise
            except BaseException as e:
                _Meeting(self, group, program, digest).give_up(e)
                raise
            for p in pairs:
                p.state = p.token
                p.sent = p.got = False
            group.number += 1
            group.failures = 0
            if self._first:
                group.known.add(digest)

    @staticmethod
    def _quick(group: _Group, digest: bytes) -> bool:
        """Exchange tokens with nothing in the way; False where something is."""
        for p in group.pairs:
            if not p.clear:
                return False
            p.token = blake2b(p.state + digest, digest_size=TOKEN).digest()
        try:
            for to, of in group.rounds:
                for p in to:
                    p.sent = True
                    p.send(p.token)
                for p in of:
                    found = p.next()
                    if found != p.token:
                        p.came(found)
                        if not found:
                            p.gone = True
                        return False
                    p.got = True
        except OSError:  # nothing has come in a blink, or nothing ever will
            return False
        return True


class _Meeting:
    """A launch whose tokens do not all come at once, or are not the same.

    Attributes:
      odd: peers that are about to launch something else; notice: of the peer that gave up this launch first.
      answered: peers whose notice is of this launch; sides: number of a process -> what it was about to launch.
    """

    def __init__(self, by: Agreement, group: _Group, program: Any, digest: bytes) -> None:
        self.by, self.group, self.program, self.pairs = by, group, program, group.pairs
        self._digest = digest
        self.odd: set[Peer] = set()
        self.answered: set[Peer] = set()
        self.notice: dict[str, Any] | None = None
        self.sides: dict[int, dict[str, Any]] = {}
        self._failed = False
        self._informed: set[Peer] = set()
        self._elsewhere: set[Peer] = set()  # those that were answered when they had given up another launch
        self._late: list[int] = []  # who has not come, where somebody gave up waiting
        self._circle: list[int] = []  # those that waited in one
        self._wait: circles.Wait | None = None  # what others are told of this launch, once it has waited for a while

    @property
    def _call(self) -> str:
        return f"{self.program.call} of `{self.program.name}`"

    def run(self) -> None:
        """Return when all agree."""
        try:
            self._run()
            if self._wait is None or self.by.waits.end(self._wait):
                return
        finally:
            if self._wait is not None:
                self.by.waits.end(self._wait)
        self._break_off()

    def _run(self) -> None:
        by, pairs = self.by, self.pairs
        seconds = collective_timeout_seconds.value
        began = time.monotonic()
        until = None if seconds is None else began + float(seconds)
        looked, pause = began, _ASK
        asks = began + pause
        for p in pairs:
            p.clear = False
            p.came(b"")
            p.token = self._token_of(p)
        for p in pairs:
            if p.send is None and not p.gone:
                by.sockets.reach(p)
        peers.read_all(pairs, 0)
        while True:
            if self._wait is not None:
                self._wait.still = False
                if self._wait.verdict is not None:
                    return
            self._sort()
            if self.odd or self.notice:
                self._wait_for_others()
                if self.odd or self.notice:
                    self._fail("differ" if self.odd or self.notice is None else self.notice["notice"])
                continue
            if self._advance():
                break
            if by.sockets.closed:
                raise RuntimeError(f"{self._call}: distributed.shutdown() was called while it waited for other processes")
            gone = [p.rank for p in pairs if p.gone and not p.got]
            if gone:
                self._lost(gone)
            now = time.monotonic()
            if now > looked + _LOOK:
                by.look(self.program)
                looked = now
            if until is not None and now > until:
                self._fail("timeout")
            if now > asks:
                if self._wait is None:
                    self._wait = by.waits.begin(self._own(), [[*self.group.ranks], self.group.number])
                self._say_what_for()
                by.waits.look(self._wait)
                pause = min(2 * pause, _SELDOM)
                asks = time.monotonic() + pause
                continue
            self._say_what_for()
            peers.read_all(pairs, _LOOK if until is None else min(_LOOK, max(until - now, 0) + 0.001))
        for p in pairs:
            p.look()

    def give_up(self, error: BaseException) -> None:
        """The launch ends by an exception that is none of ours: tell the others, if they know of it."""
        interrupted = not isinstance(error, Exception)
        if any(p.sent or p.told < p.heard for p in self.pairs):
            seen = [p for p in self.pairs if p.got]
            self._notify("interrupted" if interrupted else "lost", self.pairs)
            until = time.monotonic() + (1.0 if interrupted else 0.0)
            while (silent := [p for p in seen if p.told > p.heard and not p.gone]) and time.monotonic() < until:
                peers.read_all(self.pairs, _BEAT)
                self._sort()
            self.group.failures += 1
            if silent and interrupted and hasattr(error, "add_note"):
                error.add_note(f"{self._call} was interrupted while it waited for other processes; processes "
                               f"{[p.rank for p in silent]} may have launched it, and wait for this one. If so, "
                               "lamina.distributed.shutdown() is the way out")
        self._end(0)

    # --- circles --------------------------------------------------------------------------------------------------
    def _say_what_for(self) -> None:
        """What this launch waits for until it moves again."""
        if self._wait is None or any(p.partial for p in self.pairs):
            return
        silent = [p.rank for p in self.pairs if p.silent]
        open_ = next(([p.rank for p in of if not p.got] for _, of in self.group.rounds if not all(p.got for p in of)), [])
        self._wait.tell(waits=silent or open_, answer=bool(silent), sent=[p.rank for p in self.pairs if p.sent],
                        pairs=[p.rank for p in self.pairs])

    def _break_off(self) -> NoReturn:
        """It is in a circle, of which all in it are told at this moment."""
        assert self._wait is not None and self._wait.verdict is not None
        time.sleep(_GRACE)
        self._circle = self._wait.verdict["circle"]
        self.sides = {int(r): s for r, s in self._wait.verdict["sides"].items()}
        self._notify("circle", self.pairs)
        for r in self._wait.verdict.pop("owing", ()):  # once for all threads
            p = self.by.sockets.peer(r)
            p.owing, p.clear = True, False
        self._end()
        raise sides.error("circle", self.sides, self.by.rank, self._circle)

    # --- tokens ---------------------------------------------------------------------------------------------------
    def _token_of(self, p: Peer) -> bytes:
        return blake2b(p.state + self._digest, digest_size=TOKEN).digest()

    def _advance(self) -> bool:
        """Send what may be sent; whether all have agreed."""
        for p in self.pairs:
            if p.silent:  # it has not yet come to a launch that was given up
                return False
        for to, of in self.group.rounds:
            for p in to:
                if not p.sent:
                    p.sent = True
                    p.say(p.token)
            for p in of:
                if not p.got or p.partial:
                    return False
        return True

    def _sort(self) -> None:
        """Take what has come, as far as it is of this launch."""
        for p in self.pairs:
            while p.frames and self._taken(p, p.frames[0]):
                p.frames.popleft()

    def _taken(self, p: Peer, f: Any) -> bool:
        """Whether the next frame of a peer belongs here."""
        if type(f) is bytes:
            if p.silent:
                return True  # from before it knew
            if p.got or self._failed or (p in self._elsewhere and not p.sent):
                return False
            p.got = True
            if f != p.token:
                self.odd.add(p)
            return True
        if "notice" not in f:
            if p in self.answered:
                self._learn(f["sides"])
            return True
        if p.told <= p.heard and (self._failed or p in self.answered):
            return False  # of a later launch
        p.heard += 1
        p.owing = False
        if p.told >= p.heard:
            if self._failed and p.told == p.heard:  # else it is of an earlier launch
                self.answered.add(p)
                self._learn(f["sides"])
            if p.told == p.heard:
                self._settle(p)
        elif f["seen"] or self.by.rank not in f["circle"] and (f["token"] == p.token.hex() or f["slot"] == self._slot()):
            self.answered.add(p)
            self.notice = self.notice or f
            self._circle = self._circle or f["circle"]
            self._learn(f["sides"])
        else:  # it gave up another launch, to which this process did not come
            self._tell(p, "answer")
            self._settle(p)
            self.odd.discard(p)
            self._elsewhere.add(p)
        return True

    def _settle(self, p: Peer) -> None:
        """As many notices one way as the other: both sides begin anew."""
        p.state = blake2b(b"notices %d" % p.told, digest_size=TOKEN).digest()
        p.token = self._token_of(p)
        p.sent = p.got = False

    # --- notices --------------------------------------------------------------------------------------------------
    def _tell(self, p: Peer, kind: str) -> None:
        if self.by.rank not in self.sides:
            self.sides[self.by.rank] = self._own()
        p.told += 1
        # Processes of one group that launch different programs have all come to one launch of it. Else who has not come to
        # this one need not come to it.
        alike = kind == "differ" and all(s["processes"] == [*self.group.ranks] for s in self.sides.values())
        p.say({"notice": kind, "token": p.token.hex(), "seen": p.got, "sides": self.sides, "late": self._late,
               "slot": self._slot() if alike else None, "circle": self._circle})

    def _slot(self) -> list[Any]:
        return [[*self.group.ranks], self.group.number, self.group.failures]

    def _own(self) -> dict[str, Any]:
        return {**self.by.side(self.program), "number": self.group.number + 1}

    def _notify(self, kind: str, those: Sequence[Peer]) -> None:
        self._failed = True
        if self.by.rank not in self.sides:
            self.sides[self.by.rank] = self._own()
        for p in those:
            if p not in self._informed and (p.sent or p not in self._elsewhere):
                self._informed.add(p)
                self._tell(p, kind)

    def _learn(self, told: dict[str, Any]) -> None:
        news = {int(r): s for r, s in told.items() if int(r) not in self.sides}
        self.sides.update(news)
        if len(self.sides) > sides.WITH_TEXT:
            for s in news.values():
                s.pop("text", None)
        if news and self._failed and len(self.sides) <= sides.MOST:
            for p in self.pairs:
                p.say({"sides": news})

    def _wait_for_others(self) -> None:
        """A moment, that those who come to this launch now are known as such."""
        until = time.monotonic() + _GRACE
        while time.monotonic() < until and (self.odd or self.notice):
            if all(p.got or p in self.answered or p.gone or p.told > p.heard for p in self.pairs):
                return
            peers.read_all(self.pairs, _BEAT)
            self._sort()

    def _fail(self, kind: str) -> NoReturn:
        """Tell the others, hear their sides, and raise."""
        live = [p for p in self.pairs if p.got or p in self.answered]
        if kind == "timeout":
            self._late = self.notice["late"] if self.notice else [p.rank for p in self.pairs if p not in live]
        self._notify(kind, live)
        if kind == "lost":
            self._notify(kind, self.pairs)
            self._end()
            self._lost([])
        began = time.monotonic()
        while (passed := time.monotonic() - began) < _GATHER:
            self._sort()
            for p in self.pairs:
                if p.frames and p not in self._informed:
                    live.append(p)  # it comes just now
                    self._notify(kind, [p])
            self._sort()
            missing = {r for s in self.sides.values() for r in s["processes"]} - set(self.sides)
            direct = {p.rank for p in self.pairs if not p.gone}
            waiting = any(p.told > p.heard and not p.gone for p in live)
            comes = kind == "differ" and not missing.isdisjoint(direct)
            if not missing or not (waiting or comes) and (passed > _QUIET or missing <= {p.rank for p in self.pairs}):
                break
            peers.read_all(self.pairs, _BEAT)
        self._notify(kind, self.pairs)  # those that were not there: by now it is known what the others did
        self._end()
        raise sides.error(kind, self.sides, self.by.rank, self._circle if kind == "circle" else self._late)

    def _lost(self, gone: Sequence[int]) -> NoReturn:
        self.by.look(self.program)
        self.by.word(self._call, gone)
        raise RuntimeError(f"{self._call}: the connection to processes {list(gone)} has ended")

    def _end(self, failures: int = 1) -> None:
        self.group.failures += failures
        for p in self.pairs:
            if p.told == p.heard:
                self._settle(p)
            p.sent = p.got = False
            p.look()


