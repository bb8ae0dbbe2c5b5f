"""Processes that wait for one another in a circle, each in a launch with other members.

A launch that has waited for a while asks those it waits for what they wait for, and those in turn. Who finds a circle asks all
in it once more: where nobody has moved meanwhile there was a moment at which all waited so, and nobody in it can go on without
another of it. They all raise then. That a process waits counts only while each of its threads does: any other may come to a
launch yet, so who is late is in no circle. `docs/agreement.md` has the argument.
"""
from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .sides import MOST, WITH_TEXT

__all__ = ["Wait", "Waits", "at_work", "circle"]

_LONGEST = 2.0  # seconds to ask around; silent processes, which answer late or never, may be lost
_SOON = 0.02    # and between two rounds
_OURS = frozenset(("lamina-presence", "lamina-peers", "lamina-peers-call", "lamina-relay", "lamina-losses"))  # threads
_JOIN, _WAIT, _END = (f.__code__ for f in (threading.Thread.join, threading.Condition.wait,
                                           threading._shutdown))  # type: ignore[attr-defined]


class Wait:
    """A launch that waits for other processes, as these are told of it.

    Attributes:
      still: whether what it told holds: its thread sleeps, or asks others.
      verdict: the circle that it is in: "circle", its processes; "sides", what they were about to launch; "owing", those whose
        notices come to processes that compare nothing with them now.
    """

    def __init__(self, number: int, side: dict[str, Any], launch: list[Any]) -> None:
        self.still, self.side = False, side
        self.verdict: dict[str, Any] | None = None
        self.told: dict[str, Any] = {"id": number, "turn": 0, "launch": launch}

    def tell(self, **words: Any) -> None:
        """From now on, until `still` is unset, this launch waits so: `waits` for these processes, has `sent` its token to
        those, compares with `pairs`; `answer`: whether it waits for them to see that it gave up another one."""
        if any(self.told.get(n) != v for n, v in words.items()):
            self.told = {**self.told, **words, "turn": self.told["turn"] + 1}
        self.still = True


class Waits:
    """The launches of one process that wait, and its questions to others.

    Args:
      rank: of the process.
      ask: (process, words) -> its answer; None where it gives none.
      at_work: whether a thread may come to a launch, given those that wait: see `at_work`.
    """

    def __init__(self, rank: int, ask: Callable[[int, dict[str, Any]], dict[str, Any] | None],
                 at_work: Callable[[Mapping[int, Any]], bool]) -> None:
        self._rank, self._ask, self._at_work = rank, ask, at_work
        self._waits: dict[int, Wait] = {}
        self._threads: dict[int, Any] = {}  # those that wait; for a lock, if they do not wait for others themselves
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self, side: dict[str, Any], launch: list[Any]) -> Wait:
        """This thread's launch waits. `side` is what others are shown of it, `launch` what tells it from others."""
        made = Wait(next(self._numbers), side, launch)
        with self._lock:
            self._waits[made.told["id"]] = made
            self._threads[threading.get_ident()] = None
        return made

    def end(self, wait: Wait) -> bool:
        """It waits no more; whether it may go on. Else it is in a circle, of which the others know."""
        with self._lock:
            if self._waits.pop(wait.told["id"], None) is not None:
                self._threads.pop(threading.get_ident(), None)
            return wait.verdict is None

    @contextlib.contextmanager
    def behind(self, lock: Any) -> Iterator[None]:
        """A block in which this thread waits for a lock that a launch holds."""
        me = threading.get_ident()
        with self._lock:
            self._threads[me] = lock
        try:
            yield
        finally:
            with self._lock:
                del self._threads[me]

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """What another process wants to know, or has found."""
        with self._lock:
            if "ids" in question:
                for number in question["ids"]:
                    if number in self._waits:
                        self._waits[number].verdict = question
                return {}
            waits, threads = list(self._waits.values()), dict(self._threads)
            if not waits or not all(w.still for w in waits) or self._at_work(threads):
                return {}
            found: dict[str, Any] = {"waits": [w.told for w in waits]}
            if question.get("sides"):
                found["side"] = waits[0].side
            return found

    def look(self, wait: Wait) -> None:
        """Ask around, and tell all that are in a circle with this launch, if there is one."""
        begun = time.monotonic()
        while True:
            told = self._around(begun + _LONGEST)
            first, those = circle(told)
            if self._rank != first:  # who tells all, so that all are told the same
                return
            met = {p for r in those for w in told[r] if w["id"] in those[r] for p in w["pairs"]}
            if met <= set(told) or time.monotonic() > begun + _LONGEST / 2:
                break
            time.sleep(_SOON)  # somebody who is in one of these launches is just asking, too
        sides: dict[int, Any] = {}
        for r in those:
            found = self._asked(r, True)
            if found.get("waits") != told[r]:
                return
            sides[r] = found["side"]
        if len(sides) > WITH_TEXT:
            for side in sides.values():
                side.pop("text", None)
        tells = {r: {p for w in told[r] if w["id"] in those[r] for p in w["pairs"]} for r in those}
        for r in sorted(those, key=lambda r: r == self._rank):  # itself last
            owing = [q for q in those if r in tells[q] and q not in tells[r]]
            verdict = {"circle": [*those], "sides": sides, "ids": those[r], "owing": owing}
            if r == self._rank:
                self.answer(verdict)
            else:
                any(self._ask(r, verdict) is not None for _ in range(3))

    def _around(self, until: float) -> dict[int, list[dict[str, Any]]]:
        """What those say that this process waits for, those that they wait for, and so on; {} where that takes too long, or the
        only one that it waits for is merely late."""
        told: dict[int, list[dict[str, Any]]] = {}
        todo = [self._rank]
        for r in todo:
            found = self._asked(r, False)
            if "waits" in found:
                told[r] = found["waits"]
                todo += sorted({p for w in told[r] for p in (*w["waits"], *w["pairs"])}.difference(todo))
            elif r == self._rank or len(todo) == 2:
                return {}
            if len(todo) > MOST or time.monotonic() > until:
                return {}
        return told

    def _asked(self, rank: int, sides: bool) -> dict[str, Any]:
        question = {"sides": sides}
        return self.answer(question) if rank == self._rank else self._ask(rank, question) or {}


def circle(told: dict[int, list[dict[str, Any]]]) -> tuple[int | None, dict[int, list[int]]]:
    """Those that cannot go on without one another: (the first of them, process -> the numbers of its launches). Among these
    are also those who have met some of them in a launch.

    Args:
      told: process -> its launches that wait. Who is not there, or has none, may come to any launch.

    A launch can go on when all that it waits for may come to it. A process may come where one of its launches can go on, or
    compares with this one already.

    >>> wait = dict(id=1, answer=False)
    >>> told = {0: [dict(wait, launch=[[0, 1], 1], waits=[1], sent=[1], pairs=[1])],
    ...         1: [dict(wait, launch=[[1, 2], 1], waits=[2], sent=[2], pairs=[2])]}
    >>> circle(told)
    (None, {})
    >>> circle({**told, 2: [dict(wait, launch=[[0, 2], 1], waits=[0], sent=[0], pairs=[0])]})
    (0, {0: [1], 1: [1], 2: [1]})
    """
    stuck = {(r, w["id"]): w for r, waits in told.items() for w in waits}

    def comes(q: int, r: int, w: dict[str, Any]) -> bool:
        return not told.get(q) or any((q, v["id"]) not in stuck or r in v["pairs" if w["answer"] else "sent"]
                                      for v in told[q])

    while free := [(r, i) for (r, i), w in stuck.items() if all(comes(q, r, w) for q in w["waits"])]:
        for key in free:
            del stuck[key]
    # Who is stuck behind a circle is not in it: once those in it have raised it may be met.
    inside = dict(stuck)
    while True:
        wanted = {q for (r, _), w in inside.items() for q in w["waits"] if not comes(q, r, w)}
        kept = {key: w for key, w in inside.items() if key[0] in wanted}
        if len(kept) == len(inside):
            break
        inside = kept
    launches = [w["launch"] for w in inside.values()]
    found: dict[int, list[int]] = {}
    for (r, i), w in stuck.items():
        if (r, i) in inside or w["launch"] in launches:  # who has met some of these in their launch fails with it
            found.setdefault(r, []).append(i)
    return min([r for r, _ in inside], default=None), dict(sorted(found.items()))


def at_work(waiting: Mapping[int, Any]) -> bool:
    """Whether a thread of this process may come to a launch by itself: one that is not ours, does not wait in a launch or for
    a lock that one holds, and does not sleep until another thread wakes it.

    Args:
      waiting: thread -> the lock that it waits for, or None where it waits in a launch.
    """
    ours = {t.ident for t in threading.enumerate() if t.name in _OURS}
    for thread, frame in sys._current_frames().items():
        if thread in waiting:
            if waiting[thread] is not None and not waiting[thread].locked():
                return True  # it is just about to have it
        elif thread not in ours and not _asleep(frame):
            return True
    return False


def _asleep(frame: Any) -> bool:
    names = frame.f_locals
    if frame.f_code.co_name == "_worker" and "executor_reference" in names and "work_queue" in names:  # of a pool
        return bool(names["work_queue"].empty()) and names.get("work_item") is None
    for _ in range(3):
        if frame is None:
            break
        code, names = frame.f_code, frame.f_locals
        if code is _END:
            return True
        if code is _JOIN and names.get("timeout") is None:
            return bool(names["self"].is_alive())
        if code is _WAIT and names.get("timeout") is None:
            return names.get("gotit") is False and bool(names["waiter"].locked())
        frame = frame.f_back
    return False
