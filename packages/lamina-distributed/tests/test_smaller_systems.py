"""Systems of processes with `min_processes`: smaller ones form, those that come later are noticed, and lost ones replaced."""
import socket
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `test_rendezvous`
from test_rendezvous import CoordinatorThread, make_coordinator, wait_until  # noqa: E402, F401


_started = []


@pytest.fixture(autouse=True)
def leave_all(make_coordinator):
    yield
    for j in _started:
        j.leave()
    _started.clear()


class Joining:
    """A process that joins in a thread.

    Attributes:
      found: its connection, or its error.
    """

    def __init__(self, p, rank, count=4, least=2, timeout=30, previous=None):
        self.found = None
        self.p, self.arguments = p, (rank, count, least, timeout, previous)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        _started.append(self)

    def run(self):
        rank, count, least, timeout, previous = self.arguments
        try:
            self.found = self.p.join(rank, count, timeout, least=least, previous=previous)
        except Exception as e:
            self.found = e

    def leave(self):
        """Leave, as the end of the process would."""
        self.thread.join(60)
        if self.found is not None and not isinstance(self.found, Exception):
            self.found.leave()

    def result(self):
        self.thread.join(60)
        return self.found


def begin(p, ranks, previous=(), **more):
    """Return running connections of processes that join at the same time."""
    started = [Joining(p, r, previous=before, **more) for r, before in zip(ranks, previous or [None] * len(ranks))]
    members = [j.result() for j in started]
    assert all(not isinstance(m, Exception) for m in members), members
    threads = [threading.Thread(target=m.confirm, args=(60,)) for m in members]
    for t in threads:
        t.start()
    for t, m in zip(threads, members):
        t.join(60)
        m.start(lambda: None)
    return members


def gathering(p):
    """Return the members of the systems that gather."""
    return [c for s in p.coordinator.systems.all if s.phase == "gathering" for c in s.members.values()]


def die(connection):
    connection._lines.socket.shutdown(socket.SHUT_RDWR)


def test_smaller_system_forms_after_the_timeout(make_coordinator):
    p = make_coordinator()
    members = begin(p, (3, 0, 2), timeout=0.5)
    assert [(m.rank, m.count, m.meeting.rank) for m in members] == [(2, 3, 2), (0, 3, 0), (1, 3, 1)]
    assert p.service.made[0][1] == 3


def test_too_few_processes_raise(make_coordinator):
    p = make_coordinator()
    started = [Joining(p, r, least=3, timeout=0.3) for r in (1, 2)]
    for j in started:
        assert isinstance(j.result(), TimeoutError) and "of 4 processes [0, 3] did not come" in str(j.found)


def test_new_process_is_noticed_and_joins(make_coordinator, monkeypatch):
    monkeypatch.setattr("lamina_distributed._coordinator.elastic.WAIT_PAUSE", 0.1)
    p = make_coordinator()
    members = begin(p, (0, 1, 2, 3))
    die(members[2])
    wait_until(lambda: all(2 in m.lost for m in members if m.rank != 2))
    assert not any(m.is_awaited for m in members)
    three = [m for m in members if m.rank != 2]
    for m in three:
        m.leave()
    # They know of no loss, and get no error for that.
    three = begin(p, (0, 1, 3), [m.meeting for m in three], timeout=0.4)
    assert [(m.rank, m.count) for m in three] == [(0, 3), (1, 3), (2, 3)]
    new = Joining(p, 2, timeout=0.2)
    wait_until(lambda: all(m.is_awaited for m in three))
    new.thread.join(0.5)  # its time is over, but a complete system is at work
    assert new.thread.is_alive()
    for m in three:
        m.leave()
    again = [Joining(p, r, previous=m.meeting) for r, m in zip((0, 1, 3), three)]
    assert [j.result().rank for j in [*again, new]] == [0, 1, 3, 2] and new.found.count == 4


def test_waiting_process_that_ends_is_not_awaited_any_more(make_coordinator):
    p = make_coordinator()
    two = begin(p, (0, 1), count=3, timeout=0.3)
    for _ in range(2):
        s = socket.create_connection(p.listener.getsockname())
        new = Joining(p, 2, count=3)
        wait_until(lambda: all(m.is_awaited for m in two))
        gathering(p)[0].socket.shutdown(socket.SHUT_RDWR)  # as if the new process had died
        wait_until(lambda: not any(m.is_awaited for m in two))
        new.result()
        s.close()


def test_new_processes_alone_form_no_smaller_system(make_coordinator):
    """Those that have worked have ended in order: the ones that come now would do the same work again."""
    p = make_coordinator()
    members = begin(p, (0, 1, 2), timeout=0.3)
    late = Joining(p, 3, least=1, timeout=0.5)
    wait_until(lambda: gathering(p))
    for m in members:
        m.leave()
    assert isinstance(late.result(), TimeoutError)


def test_time_begins_again_when_the_others_leave(make_coordinator, monkeypatch):
    """A process that has waited for longer than its timeout still waits for those that leave to meet it."""
    monkeypatch.setattr("lamina_distributed._coordinator.elastic.WAIT_PAUSE", 0.1)
    monkeypatch.setattr("lamina_distributed._rendezvous.rendezvous_client._GREETING_TIMEOUT", 1)
    p = make_coordinator()
    two = begin(p, (0, 1), count=3, timeout=0.3)
    new = Joining(p, 2, count=3, timeout=2)
    wait_until(lambda: all(m.is_awaited for m in two))
    new.thread.join(2.1)
    two[0].leave()
    new.thread.join(1.4)
    first = Joining(p, 0, count=3, timeout=30, previous=two[0].meeting)
    two[1].leave()
    second = Joining(p, 1, count=3, timeout=30, previous=two[1].meeting)
    assert [j.result().rank for j in (first, second, new)] == [0, 1, 2]


def test_death_of_a_gathering_process_is_no_error_of_the_others(make_coordinator):
    p = make_coordinator()
    started = [Joining(p, r) for r in (0, 1, 2)]
    wait_until(lambda: len(gathering(p)) == 3)
    next(c for c in gathering(p) if c.rank == 2).socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: len(gathering(p)) == 2)
    started += [Joining(p, r) for r in (2, 3)]
    assert [j.result().rank for j in (started[0], started[1], *started[3:])] == [0, 1, 2, 3]


def test_later_process_takes_the_place_of_one_with_the_same_number(make_coordinator):
    p = make_coordinator()
    old = Joining(p, 0, count=2)
    wait_until(lambda: gathering(p))
    new = Joining(p, 0, count=2)
    assert isinstance(old.result(), ValueError) and "process_id 0 was taken by process 0" in str(old.found)
    other = Joining(p, 1, count=2)
    assert new.result().rank == 0, new.found
    assert other.result().rank == 1


def test_different_minimum_is_refused(make_coordinator):
    p = make_coordinator()
    one = Joining(p, 0, least=2)
    wait_until(lambda: gathering(p))
    other = Joining(p, 1, least=None)
    for j in (one, other):
        assert isinstance(j.result(), ValueError) and "min_processes is None in process 1" in str(j.found)


@pytest.mark.parametrize("least", [0, 5, -1, "2", True, 1.5])
def test_invalid_minimum_is_refused(make_coordinator, least):
    p = make_coordinator()
    assert isinstance(Joining(p, 0, least=least).result(), ConnectionError)


def test_new_process_that_does_not_fit_ends_no_other(make_coordinator):
    """It is not awaited, and gets the error alone, whether it comes before or after those that have worked."""
    p = make_coordinator()
    two = begin(p, (0, 1), count=3, timeout=0.3)
    early = Joining(p, 2, count=4)
    wait_until(lambda: gathering(p))
    for m in two:
        assert not m.is_awaited
        m.leave()
    again = [Joining(p, r, count=3, previous=m.meeting) for r, m in enumerate(two)]
    assert isinstance(early.result(), ValueError) and "num_processes is 3 in process" in str(early.found)
    wait_until(lambda: len(gathering(p)) == 2)
    late = Joining(p, 2, count=3, least=1)
    assert isinstance(late.result(), ValueError) and "min_processes is 1 in process 2" in str(late.found)
    last = Joining(p, 2, count=3)
    assert [j.result().rank for j in (*again, last)] == [0, 1, 2]
