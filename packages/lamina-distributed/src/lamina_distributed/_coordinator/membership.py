"""What a coordinator knows about jobs, and about the processes that its systems have lost.

A *job* is a program that was started once, in several processes. Its id is given by the launcher or by the user, or is
drawn by process 0. A coordinator serves one job.

A *record* holds the losses of one system. It outlives the system: processes that come again after a loss say which
system they were in and which losses they know. A process that does not know all of them gets an error at once, instead
of waiting for a lost process.

Only the standard library is imported, so that the coordinator starts fast.
"""
from __future__ import annotations

import os
from collections import OrderedDict

from .._typing import Message

__all__ = ["Job", "Record", "Records", "is_valid_hello"]

_MAX_RECORDS = 64
_MAX_NAME = 200  # characters of a job id


class Job:
    """The job that a coordinator serves.

    Attributes:
      name: its id, "" until it is known.
      known_from: description of the process that sent it first.
    """

    def __init__(self) -> None:
        self.name = self.known_from = ""

    def learn(self, name: str | None, process: str) -> None:
        """Take the id that a process has sent, if none is known yet."""
        if name and not self.name:
            self.name, self.known_from = name, process


class Record:
    """The losses of one system.

    Attributes:
      id: identifies the system.
      lost: process index -> description of the lost process.
      number: number of losses so far, which identifies requests for heartbeats after a loss.
      awaited: processes that have not answered since the last loss.
    """

    def __init__(self, count: int) -> None:
        self.id, self.count = os.urandom(8).hex(), count
        self.lost: dict[int, str] = {}
        self.number = 0
        self.awaited: set[int] = set()

    def add(self, rank: int, name: str) -> None:
        """Record the loss of a process."""
        self.lost[rank] = name
        self.number += 1
        self.awaited.discard(rank)

    def take_beat(self, rank: int, number: object) -> bool:
        """Record a heartbeat. Return whether all members have now answered since the last loss."""
        if number != self.number or rank not in self.awaited:
            return False
        self.awaited.discard(rank)
        return not self.awaited


class Records:
    """The records of the latest systems, by id."""

    def __init__(self) -> None:
        self._all: OrderedDict[str, Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, record: Record) -> None:
        """Add the record of a system that was formed."""
        self._all[record.id] = record
        while len(self._all) > _MAX_RECORDS:
            self._all.popitem(last=False)

    def find(self, previous: Message | None) -> Record | None:
        """Return the record of the system that a process was in; None if it is not known here."""
        return None if previous is None else self._all.get(previous["system"])

    def find_unknown_losses(self, previous: Message | None) -> Record | None:
        """Return the record of the system that a process was in, if that lost processes that it does not know of."""
        record = self.find(previous)
        if previous is None or record is None or set(record.lost) <= set(previous["lost"]):
            return None
        return record


def is_valid_hello(hello: Message) -> bool:
    """Return whether the fields of a process's description of itself that this module uses have the right form."""
    for name in ("job", "drawn"):
        value = hello.get(name)
        if value is not None and not (isinstance(value, str) and len(value) <= _MAX_NAME):
            return False
    least = hello.get("min")
    if least is not None and not (type(least) is int and 0 < least <= hello["count"]):
        return False
    previous = hello.get("previous")
    if previous is None:
        return True
    return (isinstance(previous, dict) and isinstance(previous.get("system"), str) and type(previous.get("rank")) is int
            and isinstance(previous.get("lost"), list) and all(type(r) is int for r in previous["lost"]))
