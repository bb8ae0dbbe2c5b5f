"""The roll call of stuck processes: where each process is, the same text in all of them.

A process whose launch waits too long asks the others, over the sockets for peers; a thread of each answers, whatever its
other threads do. A process that does not answer is stopped, or holds the GIL; it is described by what is known of it.

The text is made by one process, and kept for some seconds, so that all that ask for it get the same one.
"""
from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence

from .._typing import Message

__all__ = ["WAITING", "RollCall", "format_launch", "format_ranks"]

WAITING = ("waits", "launch", "gather")  # kinds of states in which a thread waits for other processes

_MAX_ASKED = 64        # processes that are asked
_KEPT_SECONDS = 3.0    # seconds for which a text is given to others
_COLLECT_TIMEOUT = 1.5  # seconds for all answers
_GET_TIMEOUT = 4.0     # seconds for the text that another process makes
_MAX_TEXT = 1 << 15    # characters


class RollCall:
    """Makes the roll calls of one session, and answers those of others.

    Args:
      rank: this process's index.
      ask: (process, question, seconds) -> its answer, None if there is none in time.

    Attributes:
      describe: returns the state of this process: "threads", see `ThreadStates`, and its latest launch.
      known_launch: what is known here of a process that does not answer.
      on_report: called when a report is printed.
    """

    def __init__(self, rank: int, ask: Callable[[int, Message, float], Message | None]) -> None:
        self.rank, self._ask = rank, ask
        self.describe: Callable[[], Message] = lambda: {"threads": []}
        self.known_launch: Callable[[int], str] = lambda rank: ""
        self.on_report: Callable[[], None] = lambda: None
        self._latest: dict[int, tuple[float, Message]] = {}  # process -> (time, its last answer)
        self._texts: dict[tuple[int, ...], tuple[float, str]] = {}
        self._collecting, self._printing = threading.Lock(), threading.Lock()
        self._printed: list[str] = []

    def answer(self, question: Message) -> Message:
        """Answer another process: with the state of this one, or a text for a list of processes; or print its report."""
        what = question["roll call"]
        if what == "get":
            return {"text": self.text([int(r) for r in question["ranks"]])}
        if what == "print":
            self.print_once(str(question["text"])[:_MAX_TEXT])
            return {}
        return self.describe()

    def collect(self, ranks: Sequence[int]) -> dict[int, Message]:
        """Return process -> its answer, for those that answer in time."""
        answers: dict[int, Message] = {}

        def ask(r: int) -> None:
            answer = self.describe() if r == self.rank else self._ask(r, {"roll call": "where"}, _COLLECT_TIMEOUT / 2)
            if answer is not None and _is_valid(answer):
                answers[r] = answer
                self._latest[r] = time.monotonic(), answer

        threads = [threading.Thread(target=ask, args=(r,), name="lamina-peers-call", daemon=True) for r in ranks]
        for t in threads:
            t.start()
        until = time.monotonic() + _COLLECT_TIMEOUT
        for t in threads:
            t.join(max(until - time.monotonic(), 0.01))
        return dict(answers)

    def text(self, ranks: Sequence[int]) -> str:
        """Return the roll call of these processes; that of some seconds ago if there is one."""
        ranks = sorted(ranks)[:_MAX_ASKED]
        with self._collecting:
            made = self._texts.get(tuple(ranks))
            if made is None or time.monotonic() > made[0] + _KEPT_SECONDS:
                text = self.format(ranks, self.collect(ranks))
                made = self._texts[tuple(ranks)] = time.monotonic(), text
                while len(self._texts) > 8:
                    del self._texts[next(iter(self._texts))]
            return made[1]

    def text_of(self, leader: int, ranks: Sequence[int]) -> str:
        """Return the text that another process makes; if it gives none, that of this one."""
        if leader != self.rank:
            answer = self._ask(leader, {"roll call": "get", "ranks": [*ranks]}, _GET_TIMEOUT)
            if answer is not None and isinstance(answer.get("text"), str):
                return str(answer["text"])
        return self.text(ranks)

    def format(self, ranks: Sequence[int], answers: dict[int, Message]) -> str:
        """Return a line or more for each process."""
        lines = []
        now = time.monotonic()
        for r in ranks:
            if r in answers:
                lines += _format_answer(r, answers[r])
                continue
            last = self.known_launch(r)
            text = (f"  process {r}: does not answer: it is stopped, or its threads cannot run Python"
                    + (f"; {last}" if last else ""))
            before = self._latest.get(r)
            lines.append(text)
            if before is not None:
                lines.append(f"      {now - before[0]:.0f} s ago:")
                lines += ["      " + line for line in _format_answer(r, before[1])]
        return "\n".join(lines)[:_MAX_TEXT]

    def publish(self, text: str, ranks: Sequence[int]) -> None:
        """Have all these processes print a report."""
        for r in ranks:
            if r != self.rank:
                threading.Thread(target=self._ask, args=(r, {"roll call": "print", "text": text}, _GET_TIMEOUT),
                                 name="lamina-peers-call", daemon=True).start()
        self.print_once(text)

    def print_once(self, text: str) -> None:
        """Print a report to stderr, unless it was printed already."""
        with self._printing:
            if text in self._printed:
                return
            self._printed = [*self._printed[-7:], text]
        self.on_report()
        try:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
        except Exception:  # there is no stderr, or it is closed
            pass


def format_ranks(ranks: Sequence[int]) -> str:
    """Return "process 2" or "processes 0, 2".

    >>> format_ranks([2]), format_ranks([0, 2])
    ('process 2', 'processes 0, 2')
    """
    shown = ", ".join(map(str, ranks[:16])) + (f" and {len(ranks) - 16} more" if len(ranks) > 16 else "")
    return f"process {shown}" if len(ranks) == 1 else f"processes {shown}"


def format_launch(state: Message) -> str:
    """Return "launch 8, pmap of `step`".

    >>> format_launch({"number": 8, "launch": "pmap of `step`"})
    'launch 8, pmap of `step`'
    """
    number = f"launch {state['number']}, " if state.get("number") is not None else ""
    return f"{number}{state['launch']}"


def _format_answer(r: int, answer: Message) -> list[str]:
    """Return the lines of a process that has answered: one for each thread that matters."""
    threads = answer["threads"]
    if not threads:
        return [f"  process {r}: answers; its threads are not described"]
    lines = [_format_thread(s) for s in threads]
    is_waiting = any(s["kind"] in WAITING for s in threads)
    pending, last = answer.get("pending"), answer.get("last")
    if pending and not any(s["kind"] == "launch" for s in threads):
        lines[0] += f"; {format_launch(pending)}, has not ended for {pending['seconds']:.0f} s"
    elif last and not is_waiting:
        lines[0] += f"; its last launch is {format_launch(last)}"
    return [f"  process {r}: {lines[0]}", *[f"      and {line}" for line in lines[1:]]]


def _is_valid(answer: Message) -> bool:
    """Return whether the answer of another process can be formatted."""
    try:
        return bool(_format_answer(0, answer))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return False


def _format_thread(s: Message) -> str:
    kind = s["kind"]
    if kind == "waits":
        text = f"waits for {format_ranks(s['for'])} in {format_launch(s)}"
    elif kind == "gather":
        text = f"waits for {format_ranks(s['for'])} in {s['launch']}"
    elif kind == "launch":
        text = f"is in {format_launch(s)}"
    elif kind == "compiling":
        text = f"compiles `{s['launch']}`"
    elif kind == "callback":
        text = "is in a callback"
    else:
        blocked = s.get("blocked")
        text = "runs Python" if blocked is None else "is blocked in the system" if blocked else "computes in Python"
    source = f": {s['source']}" if s.get("source") else ""
    return f"{text}, for {s['seconds']:.0f} s, at {s['at']} in {s.get('function', '')}{source}"
