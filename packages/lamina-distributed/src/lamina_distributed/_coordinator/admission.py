"""Which processes belong together: those of one job, with the same settings, which know the same losses."""
from __future__ import annotations

from collections.abc import Sequence

from . import elastic, membership
from .system import Connection, System

__all__ = ["MAX_LISTED", "Admission"]

MAX_LISTED = 16  # process indices listed in a message
_ONE_JOB = "Give each job an address of its own"


class Admission:
    """The job that a coordinator serves, and the losses of its systems.

    Attributes:
      job: the job.
      records: the losses of each system that was formed.
    """

    def __init__(self) -> None:
        self.job = membership.Job()
        self.records = membership.Records()

    def find_other_job(self, c: Connection, systems: Sequence[System]) -> str | None:
        """Return why a process is of another job than this coordinator, or None."""
        if not systems:
            self.job = membership.Job()
        job = c.hello.get("job")
        if job and self.job.name and job != self.job.name:
            return (f"the coordinator serves job {self.job.name!r} of {self.job.known_from}; {c} is of job {job!r}. "
                    f"{_ONE_JOB}")
        busy = next((s for s in systems if s.phase != "gathering" and len(s.members) == s.count), None)
        gathering = next((s for s in systems if s.phase == "gathering"), None)
        is_expected = gathering is not None and any(m.hello.get("job") for m in gathering.members.values())
        if not job and busy is not None and not is_expected:
            return (f"job {self.job.name!r} with {busy.count} processes is at work here, among them "
                    f"{busy.members[0]}; {c} has no job id, and is none of them. {_ONE_JOB}; or give the processes that "
                    "belong together the same job_id, or LAMINA_JOB_ID")
        return None

    def find_unknown_losses(self, c: Connection) -> membership.Record | None:
        """Return the record of the system that a process was in before, if it lost processes that `c` does not know of."""
        return self.records.find_unknown_losses(c.hello.get("previous"))

    @staticmethod
    def describe_losses(record: membership.Record) -> str:
        """Return the error of a process that does not know which processes of its previous system are lost."""
        names = "; ".join([record.lost[r] for r in sorted(record.lost)[:MAX_LISTED]])
        return f"of the system before, process_indices {tuple(sorted(record.lost))} are lost: {names}"

    @staticmethod
    def find_mismatch(c: Connection, system: System | None) -> str | None:
        """Return why a process cannot be a member of a system, or of a new one if that is None; else None."""
        count = c.hello["count"]
        if count < 1 or not 0 <= c.rank < count:
            return f"process_id must be in [0, num_processes); {c} has {count}"
        if system is None:
            return None
        other = system.members[min(system.members)]
        if count != system.count:
            return f"num_processes is {count} in {c} and {system.count} in {other}"
        if c.rank in system.members and not elastic.is_elastic(c):
            return f"process_id {c.rank} is taken: {c} and {system.members[c.rank]} came with it"
        mine, theirs = c.hello.get("fits"), other.hello.get("fits")
        if mine != theirs:
            return f"processes must agree; {c} has {mine}, {other} has {theirs}"
        if c.hello.get("min") != other.hello.get("min"):
            return f"min_processes is {c.hello.get('min')} in {c} and {other.hello.get('min')} in {other}"
        return None
