"""The systems of a coordinator, through their phases: gathering, connecting, running, closed."""
from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable

from . import elastic, membership
from .admission import MAX_LISTED, Admission
from .connections import Connections
from .services import CONNECT_TIMEOUT, Services
from .system import Connection, System
from .._typing import Message

__all__ = ["Systems"]

_MIN_SILENCE, _MAX_SILENCE = 5.0, 20.0  # seconds without a heartbeat while the clients of a system connect
_BLAME_TIME = 2.0    # seconds for the other clients to connect after one could not
_STOP_TIMEOUT = 5.0  # seconds for the processes to disconnect from the service when the coordinator is stopped
_REJOIN_TIME = 3.0   # seconds for the remaining processes of a system with losses to come again


def _format_ranks(ranks: Iterable[int]) -> str:
    found = sorted(ranks)
    more = f" and {len(found) - MAX_LISTED} more" if len(found) > MAX_LISTED else ""
    return f"{found[:MAX_LISTED]}{more}"


class Systems:
    """All systems that gather or work at a coordinator.

    Args:
      connections: the connections of their members.
      services: jaxlib's services.
      end: when the coordinator ends if it serves no system.

    Attributes:
      all: the systems that are not closed.
      end: as above. It changes when a system is closed, unless `is_kept` is set.
    """

    def __init__(self, connections: Connections, services: Services, end: float) -> None:
        self._connections, self._services = connections, services
        self._admission = Admission()
        self.all: list[System] = []
        self.end = end
        self.is_kept = False

    # --- gathering ------------------------------------------------------------------------------------------------
    def join(self, c: Connection) -> None:
        """Add an authenticated process to the system that gathers, or to a new one, or reject it."""
        system = next((s for s in self.all if s.phase == "gathering"), None)
        foreign = self._admission.find_other_job(c, self.all)
        if foreign:  # those that wait belong to the job of this coordinator, and are not concerned
            return self._connections.reject(c, foreign, "value")
        losses = self._admission.find_unknown_losses(c)
        if losses is not None and not elastic.is_elastic(c):
            return self._reject_after_loss(c, losses)
        mismatch = self._admission.find_mismatch(c, system)
        if mismatch and system is not None and self._has_worked(c) and not any(map(self._has_worked, system.members.values())):
            # Those that wait are new and do not fit. They must not end the ones that have worked.
            self._fail(system, mismatch, "value")
            system, mismatch = None, self._admission.find_mismatch(c, None)
        if mismatch:
            text = (f"{mismatch}. Each process needs a number of its own, the same num_processes and the same versions. "
                    "If two jobs meet here, give each an address of its own, or a job_id")
            self._connections.reject(c, text, "value")
            # It can never be complete, so those that wait get the error now, unless a new one does not fit to them.
            if system is not None and (self._has_worked(c) or not any(map(self._has_worked, system.members.values()))):
                self._fail(system, text, "value")
            return
        if system is None:
            system = System(c)
            self.all.append(system)
        former = system.members.get(c.rank)
        self._connections.admit(c, system)
        if former is not None:  # it may have ended without a message of the network, and must not end those that wait
            self._connections.reject(former, f"process_id {c.rank} was taken by {c}, which came later", "value")
        c.until = time.monotonic() + c.hello["timeout"]
        self._update_waits()
        self._admission.job.learn(c.hello.get("job"), str(c))
        # Processes that were given the id of their job cannot be those of another one.
        if self._admission.job.name or system.count == 1:
            system.begins = time.monotonic()

    def _reject_after_loss(self, c: Connection, record: membership.Record) -> None:
        self._connections.reject(c, self._admission.describe_losses(record), "lost", ranks=sorted(record.lost))

    def _record_loss(self, record: membership.Record, c: Connection, rank: int) -> None:
        """Record a loss. Processes that gather again without knowing it get an error instead of a timeout."""
        record.add(rank, str(c))
        for s in [s for s in self.all if s.phase == "gathering"]:
            for m in [m for m in s.members.values() if self._find_record(m) is record and not elastic.is_elastic(m)]:
                self._reject_after_loss(m, record)
            self._close_if_empty(s)

    def _has_worked(self, c: Connection) -> bool:
        """Return whether a process that waits for lost ones was in a system that was formed here."""
        return elastic.is_elastic(c) and self._find_record(c) is not None

    def _find_record(self, c: Connection) -> membership.Record | None:
        return self._admission.records.find(c.hello.get("previous"))

    def _update_waits(self, has_left: bool = False) -> None:
        """Set the times of the systems that gather, and notify those at work if a process waits for them.

        Args:
          has_left: whether a process has just left a system, or was lost there.
        """
        for s in self.all:
            if s.phase == "gathering":
                elastic.set_timeout(s, has_left)
            elif s.phase == "running" and s.is_awaited != elastic.is_awaited(s, self.all):
                s.is_awaited = not s.is_awaited
                s.send(awaited=s.is_awaited)

    def _handle_gathering_timeout(self, s: System) -> None:
        """Form a smaller system if the processes allow that. Else send them the error."""
        members = list(s.members.values())
        if all(map(elastic.is_elastic, members)) and any(map(elastic.is_at_work, self.all)):
            for c in members:
                c.until = time.monotonic() + elastic.WAIT_PAUSE
            s.send(wait=elastic.WAIT_PAUSE)
            elastic.set_timeout(s)
        elif elastic.is_enough(s, bool(self._admission.records)):
            elastic.renumber(s)
            self._start_service(s)
        else:
            self._fail_gathering(s)

    def _fail_gathering(self, s: System) -> None:
        """Send the error of processes that did not come to those that did."""
        absent = _format_ranks(set(range(s.count)) - set(s.members))
        others = sum(len(o.members) for o in self.all if o is not s)
        busy = f" ({others} that met here before are at work)" if others else ""
        late = f"of {s.count} processes {absent} did not come to the coordinator in time{busy}. "
        (when, host), timeout = self._connections.last_rejected, max(c.hello["timeout"] for c in s.members.values())
        if when > s.until - 2 * timeout:  # while they gathered, or just before
            self._fail(s, f"{late}A process at {host} was rejected because it has another token: set LAMINA_TOKEN (or "
                          "LAMINA_TOKEN_FILE) to the same secret in all processes", "permission")
        else:
            self._fail(s, f"{late}Start them, give them this address and the same num_processes, or raise "
                          "initialization_timeout", "timeout")

    # --- connecting -----------------------------------------------------------------------------------------------
    def _start_service(self, s: System) -> None:
        """Start jaxlib's service for a complete system, and have the processes connect to it."""
        first, now = s.members[0].hello, time.monotonic()
        job = self._admission.job
        job.learn(first.get("drawn"), str(s.members[0]))
        # A process that is silent while they connect is reported before `initialization_timeout` has passed.
        s.await_heartbeats(min(first["heartbeat"], max(s.until - now, _MIN_SILENCE), _MAX_SILENCE))
        try:
            self._services.start(s, first["leaving"])
        except Exception as e:  # of any kind: the waiting processes must get an error
            return self._fail(s, f"the coordinator cannot host jaxlib's service: {type(e).__name__}: {e}", "connection")
        s.phase, s.until = "connecting", time.monotonic() + 1.25 * CONNECT_TIMEOUT
        for c in list(s.members.values()):
            c.lines.send(begin=s.port, rank=c.rank, count=s.count, limit=int(CONNECT_TIMEOUT), heartbeat=first["heartbeat"],
                         job=job.name, system=s.record.id, pid=os.getpid(), host=socket.gethostname())

    def handle_connected(self, s: System, c: Connection, message: Message) -> None:
        """Handle the report of a process that it is connected to jaxlib's service."""
        c.service_connected, c.peer = True, str(message.get("peer", ""))
        self._run_if_connected(s)

    @staticmethod
    def handle_unconnected(s: System, c: Connection) -> None:
        """Handle the report of a process that it could not connect to jaxlib's service."""
        c.service_failed = True
        s.until = min(s.until, time.monotonic() + _BLAME_TIME)

    def _run_if_connected(self, s: System) -> None:
        if not all(c.service_connected for c in s.members.values()):
            return
        if s.error:
            return self._fail(s, s.error, "connection")
        s.phase, s.until = "running", float("inf")
        s.await_heartbeats(s.members[0].hello["heartbeat"])
        self._admission.records.add(s.record)
        s.send_peers()
        s.send(ready=True)
        self._update_waits()

    def _fail_connecting(self, s: System) -> None:
        """Send the error of processes that did not connect to jaxlib's service in time."""
        late = [c for c in s.members.values() if not c.service_connected and not c.service_failed]
        if any(c.service_failed for c in s.members.values()):  # no client waits any more for those that are late
            names = ", ".join(str(c) for c in late[:MAX_LISTED]) or "processes"
            return self._fail(s, s.error or f"{names} did not connect to jaxlib's service in time", "connection")
        for c in late:
            self.handle_end(c, "did not connect to jaxlib's service in time")

    # --- the end of a connection ----------------------------------------------------------------------------------
    def handle_end(self, c: Connection, reason: str = "ended") -> None:
        """Handle a connection that ended without a goodbye, or a silent one: its process is lost."""
        s = c.system
        was_member = c.is_member
        self._connections.drop(c)
        if s is None or not was_member:
            return
        if s.phase == "running":
            self._record_loss(s.record, c, c.rank)
            s.report_loss(c)
        elif s.phase == "gathering":
            record = self._find_record(c)
            if record is not None and not elastic.is_elastic(c):
                self._record_loss(record, c, c.hello["previous"]["rank"])
        elif s.phase == "connecting":
            s.error = f"{c} {reason} while the processes were connecting"
            if not c.service_connected and s.members:
                self._services.connect_for_lost(s, c)
            self._run_if_connected(s)
        self._close_if_empty(s)
        self._update_waits(s.phase == "running")

    def handle_leave(self, s: System, c: Connection) -> None:
        """Handle the goodbye of a process."""
        self._connections.drop(c)
        if s.phase == "running":
            s.send(left=c.rank, name=str(c))
            s.handle_beat(c, s.record.number)  # no answer is awaited from a process that has left
        self._close_if_empty(s)
        self._update_waits(s.phase == "running")

    def handle_abandon(self, s: System) -> None:
        """Release all members: this coordinator was silent for so long that a member continues without it.

        Otherwise some members would rely on its reports, and others would not.
        """
        s.send(closing=True)
        self._drop_members(s)
        self._close_if_empty(s)
        self._update_waits(has_left=True)

    # --- time -----------------------------------------------------------------------------------------------------
    def handle_timeouts(self, now: float) -> None:
        """Begin, fail and watch the systems whose time has come."""
        for s in [s for s in self.all if s.is_complete and s.begins <= now]:
            self._start_service(s)
        for s in [s for s in self.all if s.until <= now]:
            if s.phase == "gathering":
                self._handle_gathering_timeout(s)
            elif s.phase == "connecting":
                self._fail_connecting(s)
        for s in [s for s in self.all if s.next_beat <= now]:
            self._request_heartbeats(s, now)
        for s in self.all:
            s.report_failed_launches(now)

    def _request_heartbeats(self, s: System, now: float) -> None:
        for c in [c for c in s.request_heartbeats(now) if c.is_member]:
            silence = f"gave no sign of life for {s.heartbeat:g} s"
            c.lines.send(lost=c.rank, name=f"process {c.rank} (this one: it {silence})")
            s.may_be_suspended = True
            self.handle_end(c, silence)

    # --- closing --------------------------------------------------------------------------------------------------
    def _fail(self, s: System, text: str, kind: str) -> None:
        """Send an error to all members of a system, and close it."""
        self.all.remove(s)
        for c in list(s.members.values()):
            self._connections.reject(c, text, kind)
        self._close(s)
        self._update_waits()

    def _close_if_empty(self, s: System) -> None:
        if not s.members and s in self.all:
            self.all.remove(s)
            self._close(s)

    def _close(self, s: System) -> None:
        self._services.stop(s)
        if not self.all and not self.is_kept:
            # The remaining processes come again soon, and only this coordinator knows whom they have lost.
            self.end = min(self.end, time.monotonic()) if not s.record.lost else time.monotonic() + _REJOIN_TIME

    def _drop_members(self, s: System) -> None:
        s.may_be_suspended = s.may_be_suspended or bool(s.members)
        for c in list(s.members.values()):
            self._connections.drop(c)

    def request_end(self, now: float) -> None:
        """Have all processes disconnect from the services, and end when they have done so, or are late."""
        self.end = float("-inf")
        for s in list(self.all):
            if s.phase == "gathering":
                self._fail(s, "the coordinator was stopped", "connection")
            s.send(closing=True)
            s.until = now + _STOP_TIMEOUT

    def close_late(self, now: float) -> None:
        """Close the systems whose processes have not disconnected in time after `request_end`."""
        for s in [s for s in self.all if s.until <= now]:
            self.all.remove(s)
            self.close(s)

    def close(self, s: System) -> None:
        """Close the connections of a system, and stop its service."""
        self._drop_members(s)
        self._services.stop(s)
