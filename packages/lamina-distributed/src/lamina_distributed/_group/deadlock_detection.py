"""Detect deadlocks of processes that wait for one another in a cycle, each in a launch with different members.

For example process 0 waits in a launch with 1, process 1 in a launch with 2, and process 2 in a launch with 0.

A launch that has waited for a while asks the processes it waits for what they wait for, then asks those in turn. If the
answers contain a cycle, all processes in it are asked again. If none has moved between the two answers, there was a
moment at which all of them waited for each other. So none can ever continue. Then all raise the same error.

A process is considered waiting only if none of its threads can still start a launch: a process that is merely late is
never part of a deadlock. `docs/how-to/several-processes/launch-consistency.md` has the proof.
"""
from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import thread_frames
from .launch_description import MAX_DESCRIPTIONS, MAX_WITH_TEXT
from .._typing import Message

__all__ = ["INTERNAL_THREADS", "Wait", "WaitGraph", "find_deadlock", "has_runnable_thread"]

_MAX_SEARCH = 2.0    # seconds for one search; processes that do not answer in time may be lost
_RETRY_PAUSE = 0.02  # seconds between two searches
# Threads of this package. They serve the other processes and start no launches.
INTERNAL_THREADS = frozenset(("lamina-coordinator-connection", "lamina-peers", "lamina-peers-call",
                              "lamina-service-proxy", "lamina-failure-monitor", "lamina-stuck-watch",
                              "lamina-descriptor-guard", "lamina-health", "lamina-beat-answers", "lamina-compile",
                              "lamina-progress"))


class Wait:
    """A launch that waits for other processes, as it is reported to them.

    Attributes:
      is_current: whether the report is valid: its thread blocks, or searches for a deadlock.
      verdict: the deadlock that it is part of. "deadlock": its processes; "descriptions": their
        launches; "owing": processes whose notices will arrive here although this launch sends them none.
      report: JSON object that is sent to other processes. "id" identifies the wait and is never reused; "version"
        counts its changes.
    """

    def __init__(self, number: int, description: Message, launch: list[Any]) -> None:
        self.is_current, self.description = False, description
        self.verdict: Message | None = None
        self.report: Message = {"id": number, "version": 0, "launch": launch}

    def update(self, **fields: object) -> None:
        """Set the report, which is valid until `is_current` is cleared.

        Args:
          fields: `waits`: processes it waits for; `sent`: processes that have its token; `pairs`: processes with which
            it exchanges tokens; `answer`: whether it waits for them to acknowledge that an earlier launch was given up.
        """
        if any(self.report.get(n) != v for n, v in fields.items()):
            self.report = {**self.report, **fields, "version": self.report["version"] + 1}
        self.is_current = True


class WaitGraph:
    """The waiting launches of this process, and the search for cycles through other processes.

    Args:
      rank: this process's index.
      ask: (process, question) -> its answer, None if there is none.
      has_runnable_thread: whether a thread may still start a launch, given those that wait: see `has_runnable_thread`.
    """

    def __init__(self, rank: int, ask: Callable[[int, Message], Message | None],
                 has_runnable_thread: Callable[[Mapping[int, Any]], bool]) -> None:
        self._rank, self._ask, self._has_runnable_thread = rank, ask, has_runnable_thread
        self._waits: dict[int, Wait] = {}
        self._threads: dict[int, Any] = {}  # waiting thread -> the lock that it waits for, None if in a launch
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def begin(self, description: Message, launch: list[Any]) -> Wait:
        """Register that this thread's launch waits. `description` is for the error; `launch` identifies it."""
        wait = Wait(next(self._numbers), description, launch)
        with self._lock:
            self._waits[wait.report["id"]] = wait
            self._threads[threading.get_ident()] = None
        return wait

    def end(self, wait: Wait) -> bool:
        """Unregister a wait. Return whether its launch may continue; if not, it is part of a reported deadlock."""
        with self._lock:
            if self._waits.pop(wait.report["id"], None) is not None:
                self._threads.pop(threading.get_ident(), None)
            return wait.verdict is None

    @contextlib.contextmanager
    def waiting_for_lock(self, lock: Any) -> Iterator[None]:
        """Context in which this thread waits for a lock that a launch holds."""
        me = threading.get_ident()
        with self._lock:
            self._threads[me] = lock
        try:
            yield
        finally:
            with self._lock:
                del self._threads[me]

    def answer(self, question: Message) -> Message:
        """Answer another process, which asks for the waits of this one, or reports a deadlock ("ids")."""
        with self._lock:
            if "ids" in question:
                for number in question["ids"]:
                    if number in self._waits:
                        self._waits[number].verdict = question
                return {}
            waits, threads = list(self._waits.values()), dict(self._threads)
            # One launch that is not current, or one thread that can run, may still make this process come to any
            # launch. So it is not waiting.
            if not waits or not all(w.is_current for w in waits) or self._has_runnable_thread(threads):
                return {}
            answer: Message = {"waits": [w.report for w in waits]}
            if question.get("describe"):
                answer["description"] = waits[0].description
            return answer

    def search(self, wait: Wait) -> None:
        """Search for a deadlock that contains this launch, and report it to all processes in it."""
        begun = time.monotonic()
        while True:
            reports = self._collect(begun + _MAX_SEARCH)
            # The reports are of different moments, so a cycle in them may never have existed. The second round of
            # questions decides.
            first, members = find_deadlock(reports)
            if self._rank != first:  # one process reports, so that all get the same report
                return
            pairs = {p for r in members for w in reports[r] if w["id"] in members[r] for p in w["pairs"]}
            if pairs <= set(reports) or time.monotonic() > begun + _MAX_SEARCH / 2:
                break
            # A process that exchanges tokens in one of these launches is not among the answers: it may be searching
            # itself, and will then wait again. Search once more, so that it fails with the others.
            time.sleep(_RETRY_PAUSE)
        # The second round of questions: if no report has changed since the first round, all waited at the moment in
        # between.
        descriptions: dict[int, Message] = {}
        for r in members:
            answer = self._query(r, True)
            if answer.get("waits") != reports[r]:
                return
            descriptions[r] = answer["description"]
        if len(descriptions) > MAX_WITH_TEXT:
            for d in descriptions.values():
                d.pop("text", None)
        notified = {r: {p for w in reports[r] if w["id"] in members[r] for p in w["pairs"]} for r in members}
        for r in sorted(members, key=lambda r: r == self._rank):  # this process last: its launch raises at once
            owing = [q for q in members if r in notified[q] and q not in notified[r]]
            verdict = {"deadlock": [*members], "descriptions": descriptions, "ids": members[r], "owing": owing}
            if r == self._rank:
                self.answer(verdict)
            else:
                any(self._ask(r, verdict) is not None for _ in range(3))  # up to three attempts

    def _collect(self, until: float) -> dict[int, list[Message]]:
        """Return process -> reports of its waits, for this process, those it waits for, those they wait for, and so on.

        Return {} if that takes too long, or at once if the only process that this one waits for is merely late.
        """
        reports: dict[int, list[Message]] = {}
        todo = [self._rank]
        for r in todo:  # which grows meanwhile
            answer = self._query(r, False)
            if "waits" in answer:
                reports[r] = answer["waits"]
                todo += sorted({p for w in reports[r] for p in (*w["waits"], *w["pairs"])}.difference(todo))
            elif r == self._rank or len(todo) == 2:
                return {}
            if len(todo) > MAX_DESCRIPTIONS or time.monotonic() > until:
                return {}
        return reports

    def _query(self, rank: int, describe: bool) -> Message:
        question = {"describe": describe}
        return self.answer(question) if rank == self._rank else self._ask(rank, question) or {}


def find_deadlock(reports: dict[int, list[Message]]) -> tuple[int | None, dict[int, list[int]]]:
    """Return the processes that cannot continue without one another: (the first of them, process -> ids of its waits).

    Args:
      reports: process -> reports of its waits. A process that is absent, or has none, may still come to any launch.

    A launch can continue if all processes it waits for may come to it. A process may come if one of its launches can
    continue, or if it has already sent its token to this launch. Launches that can continue are removed until none is
    left to remove.

    Processes that wait for a member of the cycle but are not part of it are removed next. Processes that have already
    exchanged tokens in a launch of the cycle are included: that launch fails for them too.

    >>> wait = dict(id=1, answer=False)
    >>> reports = {0: [dict(wait, launch=[[0, 1], 1], waits=[1], sent=[1], pairs=[1])],
    ...            1: [dict(wait, launch=[[1, 2], 1], waits=[2], sent=[2], pairs=[2])]}
    >>> find_deadlock(reports)
    (None, {})
    >>> find_deadlock({**reports, 2: [dict(wait, launch=[[0, 2], 1], waits=[0], sent=[0], pairs=[0])]})
    (0, {0: [1], 1: [1], 2: [1]})
    """
    stuck = {(r, w["id"]): w for r, waits in reports.items() for w in waits}

    def may_come(q: int, r: int, w: Message) -> bool:
        """Whether process q may still come to the launch w of process r."""
        return not reports.get(q) or any((q, v["id"]) not in stuck or r in v["pairs" if w["answer"] else "sent"]
                                         for v in reports[q])

    while free := [(r, i) for (r, i), w in stuck.items() if all(may_come(q, r, w) for q in w["waits"])]:
        for key in free:
            del stuck[key]
    # A process that is stuck behind a cycle is not in it: once the processes in the cycle have raised, they may come to
    # it.
    in_cycle = dict(stuck)
    while True:
        wanted = {q for (r, _), w in in_cycle.items() for q in w["waits"] if not may_come(q, r, w)}
        remaining = {key: w for key, w in in_cycle.items() if key[0] in wanted}
        if len(remaining) == len(in_cycle):
            break
        in_cycle = remaining
    launches = [w["launch"] for w in in_cycle.values()]
    members: dict[int, list[int]] = {}
    for (r, i), w in stuck.items():
        if (r, i) in in_cycle or w["launch"] in launches:
            members.setdefault(r, []).append(i)
    return min([r for r, _ in in_cycle], default=None), dict(sorted(members.items()))


def has_runnable_thread(waiting: Mapping[int, Any]) -> bool:
    """Return whether a thread of this process may start a launch without being woken by another thread.

    Threads of this package, threads that wait in a launch or for a lock held by one, and blocked threads cannot.

    Args:
      waiting: thread -> the lock that it waits for, or None if it waits in a launch.
    """
    internal = {t.ident for t in threading.enumerate() if t.name in INTERNAL_THREADS}
    for thread, frame in thread_frames.current_frames().items():
        if thread in waiting:
            if waiting[thread] is not None and not waiting[thread].locked():
                return True  # it is about to acquire the lock
        elif thread not in internal and not thread_frames.is_blocked(frame):
            return True
    return False
