"""Rendezvous: coordinators and their clients in threads of one process, without jaxlib's service."""
import contextlib
import json
import os
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from lamina_runtime.extend.processes import ProcessLostError
from lamina_distributed import coordinator
from lamina_distributed._coordinator import system, systems
from lamina_distributed._rendezvous import rendezvous_client, rendezvous_protocol

KEY = b"secret"
FITS = {"jaxlib": "1"}


class Service:
    """A fake of jaxlib's coordination service."""

    def __init__(self):
        self.made, self.substitutes = [], []

    def new_service(self, address, count, *more):
        self.made.append((address, count))
        return SimpleNamespace(shutdown=lambda: self.made.append("shut down"))

    def new_distributed_client(self, address, rank, *more):
        return SimpleNamespace(connect=lambda: self.substitutes.append(rank), shutdown=lambda: None)


class CoordinatorThread:
    """A coordinator in a thread."""

    def __init__(self, startup_timeout=60, key=KEY):
        self.service = Service()
        self.listener = coordinator.listen("127.0.0.1:0")
        self.address = rendezvous_protocol.format_address(*self.listener.getsockname())
        self.coordinator = coordinator.Coordinator(self.listener, key, startup_timeout, lambda: self.service)
        self.thread = threading.Thread(target=self.coordinator.run)
        self.thread.start()

    def join(self, rank, count, timeout=60, fits=FITS, key=KEY, heartbeat=10, job="one", least=None, **more):
        about = {"fits": fits, "heartbeat": heartbeat, "leaving": 10, "job": job, "drawn": f"drawn by {rank}", "min": least}
        return rendezvous_client.join(self.address, rank, count, about, key, timeout, **more)

    def all(self, *calls):
        """Return the result or exception of each call; a call is the arguments of `join`, and `pause`: seconds before it."""
        found = [None] * len(calls)

        def run(i, call):
            more = dict(call[2]) if len(call) > 2 else {}
            time.sleep(more.pop("pause", 0))
            try:
                found[i] = self.join(*call[:2], **more)
            except Exception as e:
                found[i] = e
        threads = [threading.Thread(target=run, args=(i, c)) for i, c in enumerate(calls)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        return found

    def system(self, count, **more):
        """Return connected clients that report events."""
        members = self.all(*[(r, count, more) for r in range(count)])
        threads = [threading.Thread(target=m.confirm, args=(60,)) for m in members]
        for t in threads:
            t.start()
        for m, t in zip(members, threads):
            t.join(60)
            m.events, m.let = [], []
            m.add_listener(m.events.append)
            m.start(lambda m=m: m.let.append(len(m.events)))
        return members


    def close(self):
        self.coordinator.stop()
        self.thread.join(20)
        assert not self.thread.is_alive()


@pytest.fixture
def make_coordinator(closing, monkeypatch):
    """Return a function that starts a `CoordinatorThread`; all are stopped after the test."""
    monkeypatch.setattr(systems, "_REJOIN_TIME", 0.2)
    return lambda *args, **kwargs: closing(CoordinatorThread(*args, **kwargs))


@contextlib.contextmanager
def answering(answer):
    """Yield an address where `answer(socket)` handles one connection, in a thread."""
    def accept():
        with listener.accept()[0] as s:
            answer(s)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        t = threading.Thread(target=accept)
        t.start()
        yield rendezvous_protocol.format_address(*listener.getsockname())
        t.join(10)


def wait_until(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_processes_are_notified_of_lost_and_left_processes(make_coordinator):
    p = make_coordinator()
    a, b, c, d = p.system(4)
    assert (a.service[0] == a.local_address == "127.0.0.1"
            and p.service.made == [(rendezvous_protocol.format_address(*a.service), 4)])
    c._lines.socket.shutdown(socket.SHUT_RDWR)  # as if its process died
    b.leave()
    wait_until(lambda: {("lost", 2), ("left", 1)} <= set(a.events) and len(d.events) == 2)
    assert "process 2" in a.lost[2] and "process 1" in d.left[1] and f"pid {os.getpid()}" in a.lost[2]
    late = []
    a.add_listener(late.append)
    assert set(late) == {("lost", 2), ("left", 1)}
    a.leave()
    wait_until(lambda: ("left", 0) in d.events)
    assert p.thread.is_alive() and len(p.service.made) == 1
    d.leave()
    p.thread.join(20)
    assert not p.thread.is_alive() and p.service.made[1:] == ["shut down"]
    assert not a.coordinator_lost and not a.let


def test_failure_in_all_processes_is_harmless_and_else_reported_to_all(make_coordinator):
    a, b, c = p = make_coordinator().system(3)
    found = {}

    def fail(m):
        found[m.rank] = m.report_failure("first", 2, "no memory")
    threads = [threading.Thread(target=fail, args=(m,)) for m in (a, b)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(20)
    assert found == {0: True, 1: True} and not any(m.failed or m.events for m in p)
    assert b.report_failure("second", 2, "no memory") is False
    wait_until(lambda: all(m.events == [("failed", 1)] for m in p))
    assert all(m.failed[1].startswith("process 1 (") and m.failed[1].endswith("no memory") for m in p)
    for m in p:
        m.leave()


def test_failure_without_coordinator_is_recorded_locally(make_coordinator):
    a, b = make_coordinator().system(2)
    a._lines.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: a.coordinator_lost)
    assert a.report_failure("first", 2, "no memory") is False and a.failed[0] == "process 0: no memory"
    assert a.events[-1] == ("failed", 0)
    b.leave()


def test_processes_that_left_may_join_again(make_coordinator):
    p = make_coordinator()
    a, b, c = p.system(3)
    with pytest.raises(TimeoutError, match=r"\[1\] did not come .*\(3 that met here before are at work\)"):
        p.join(0, 2, 0.2)
    a.leave()
    b.leave()
    again = p.all((0, 2), (1, 2))
    assert [m.count for m in again] == [2, 2] and again[0].service != c.service
    wait_until(lambda: len(c.events) == 2)
    for m in (*again, c):
        m.leave()
    p.thread.join(20)
    assert not p.thread.is_alive()


def test_process_without_heartbeat_is_lost_and_notified(make_coordinator):
    p = make_coordinator()
    a, b, c = p.system(3, heartbeat=2)
    time.sleep(2.3)  # heartbeats are sent in the background
    assert not a.events + b.events + c.events
    b._lines.send = lambda **fields: None  # as if its process was suspended or its network failed
    wait_until(lambda: a.events == c.events == [("lost", 1)] and b.coordinator_lost)
    # Its client of jaxlib's service, which goes on, stays connected: the process's own devices may need it.
    assert not b.let and b.events[:1] == [("lost", 1)] and "gave no sign of life for 2 s" in b.lost[1]
    for m in (a, c):
        m.leave()
    p.thread.join(20)
    assert not p.thread.is_alive() and "shut down" not in p.service.made  # the message would end a resuming process


@pytest.mark.parametrize("older", [0, 1])
def test_resumed_process_with_closed_connection_is_lost(make_coordinator, older):
    p = make_coordinator()
    a, b = p.system(2, heartbeat=1)
    slept = threading.Event()
    arrived, reads = b._lines.receive, []

    def arrives():  # as in a suspended process; older messages may be left
        found = arrived()
        slept.wait(10)
        reads.append(found)
        if len(reads) <= older:
            b._lines._buffer = b'{"beat": true}\n'
            return True
        raise ConnectionResetError

    b._lines.receive = arrives
    wait_until(lambda: a.events == [("lost", 1)])
    slept.set()
    wait_until(lambda: b.coordinator_lost and b.events and b.events[-1] == ("coordinator", -1))
    assert b.events[0] == ("lost", 1) and "gave no sign of life for 1 s" in b.lost[1] and len(b.let) == 1
    a.leave()


def test_coordinator_without_heartbeat_is_abandoned_by_all(make_coordinator):
    """No process is lost: the first that gives up has the coordinator release the other one."""
    p = make_coordinator()
    a, b = p.system(2, heartbeat=1)
    b.heartbeat, asked = 60, []
    b._lines.socket.settimeout(60)
    a.is_counted_out = lambda has_slept: asked.append(has_slept)
    time.sleep(0.5)  # three heartbeats: the next read of b has the new timeout
    p.coordinator.systems._request_heartbeats = lambda s, now: setattr(s, "next_beat", now + 1)
    wait_until(lambda: a.coordinator_lost and b.coordinator_lost)
    for m in (a, b):
        wait_until(lambda: m.events == [("coordinator", -1)])
        assert m.let == [0] and not m.lost
    assert asked == [False]


def test_process_without_coordinator_or_peers_is_lost(make_coordinator):
    p = make_coordinator()
    a, b = p.system(2, heartbeat=1)
    a.is_counted_out = lambda has_slept: True  # as if its network was cut
    p.coordinator.systems._request_heartbeats = lambda s, now: setattr(s, "next_beat", now + 1)
    wait_until(lambda: a.coordinator_lost)
    assert "the coordinator gives no sign of life" in a.lost[0]


def test_simultaneous_losses_are_agreed_by_the_coordinator(make_coordinator):
    p = make_coordinator()
    a, b, c, d = p.system(4, heartbeat=2)
    begun = time.monotonic()
    assert a.await_membership() == () and time.monotonic() - begun < 1
    d._lines.send = lambda **fields: None  # silent: lost after the heartbeat timeout
    c._lines.socket.shutdown(socket.SHUT_RDWR)  # lost at once
    wait_until(lambda: a.lost and b.lost)
    assert list(a.lost) == [2] and a.agreed is None
    begun = time.monotonic()
    assert a.await_membership() == b.await_membership() == (2, 3) and a.agreed == b.agreed == {2, 3}
    assert time.monotonic() - begun < 2 + 5
    b._lines.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: a.lost.get(1))
    assert a.await_membership() == (1, 2, 3)
    a.leave()


def test_process_that_leaves_delays_no_agreement(make_coordinator):
    a, b, c = make_coordinator().system(3)
    a._lines.send, send = lambda **fields: None, a._lines.send  # does not answer for a while
    c._lines.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: b.lost and a.lost)
    a._lines.send = send
    a.leave()
    assert b.await_membership() == (2,)
    b.leave()


def previous(m, *lost):
    return {"previous": m.meeting._replace(lost=lost)}


def test_losses_that_a_process_does_not_know_are_raised_when_it_joins_again(make_coordinator, monkeypatch):
    """Otherwise it would wait for a lost process, or come with another number of processes."""
    monkeypatch.setattr(systems, "_REJOIN_TIME", 2)
    p = make_coordinator()
    a, b, c, d = p.system(4)
    c._lines.socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: ("lost", 2) in a.events)
    a.leave()
    found = []
    first = threading.Thread(target=lambda: found.append(p.all((0, 3, previous(a, 2)))[0]))
    first.start()  # waits for two others, of which one is lost now
    wait_until(lambda: any(s.phase == "gathering" for s in p.coordinator.systems.all))
    d._lines.socket.shutdown(socket.SHUT_RDWR)
    first.join(20)
    assert isinstance(found[0], ProcessLostError) and found[0].process_indices == (2, 3) and "are lost" in str(found[0])
    with pytest.raises(ProcessLostError) as caught:
        p.join(1, 3, **previous(b, 2))
    assert caught.value.process_indices == (2, 3)
    b.leave()  # no member is left: the coordinator stays for those that come again
    again = p.all((0, 2, previous(a, 2, 3)), (1, 2, previous(b, 2, 3)))
    assert [m.count for m in again] == [2, 2]
    for m in again:
        m.leave()
    p.thread.join(20)
    assert not p.thread.is_alive()


def test_process_of_another_job_is_refused_by_name(make_coordinator):
    p = make_coordinator()
    found = p.all((0, 2), (1, 2, {"job": "two", "pause": 0.5}), (1, 2, {"pause": 1}))
    assert [m.rank for m in (found[0], found[2])] == [0, 1] and found[0].meeting.job == "one"
    assert isinstance(found[1], ValueError)
    assert "serves job 'one' of process" in str(found[1]) and "is of job 'two'" in str(found[1])
    for m in (found[0], found[2]):
        m.leave()


def test_processes_without_a_job_id_learn_that_of_process_0(make_coordinator):
    p = make_coordinator()
    no_id = {"job": None}
    begun = time.monotonic()
    a, b = p.all((0, 2, no_id), (1, 2, no_id))
    assert a.meeting.job == b.meeting.job == "drawn by 0" and time.monotonic() - begun > system._SETTLE_TIME
    with pytest.raises(ValueError, match="job 'drawn by 0' with 2 processes is at work here"):
        p.join(0, 2, **no_id)  # as the second of two jobs at one address
    with pytest.raises(ValueError, match="at work here"):
        p.join(1, 2, **no_id)
    a.leave()
    b.leave()


def test_two_jobs_without_ids_at_one_address_are_refused(make_coordinator):
    """Their processes cannot be distinguished, so none is grouped."""
    p = make_coordinator()
    no_id = {"job": None, "timeout": 5}
    found = p.all(*[(r, 2, no_id) for r in (0, 1, 0, 1)])
    assert all(isinstance(e, Exception) for e in found) and any("If two jobs meet here" in str(e) for e in found), found


def test_invalid_job_fields_are_refused(make_coordinator):
    p = make_coordinator()
    for wrong in ({"job": 5}, {"job": "x" * 1000}):
        with pytest.raises(ConnectionError):
            p.join(0, 1, **wrong)
    with pytest.raises(ConnectionError):
        p.join(0, 1, previous=rendezvous_client.Meeting("another:1", 1, "here", "one", "x", 0, ("2",)))


def test_stopped_coordinator_that_was_met_before_is_recognized(make_coordinator, monkeypatch):
    monkeypatch.setattr(rendezvous_client, "_GREETING_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = rendezvous_protocol.format_address(*silent.getsockname())
        met, ended = rendezvous_client.Meeting(address, 17, "there", "one", "x", 0), []
        with pytest.raises(TimeoutError, match=r"coordinator of job 'one' is silent\)\. It is process 17 on there: end it"):
            rendezvous_client.join(address, 0, 2, {"heartbeat": 1}, KEY, 0.5, previous=met, end_silent=ended.append)
        assert ended[0] is met
        with pytest.raises(ConnectionError, match="another program has this port"):
            rendezvous_client.join(address, 0, 2, {"heartbeat": 1}, KEY, 0.5)


def test_process_that_does_not_connect_in_time_is_dropped(make_coordinator, monkeypatch):
    monkeypatch.setattr(systems, "CONNECT_TIMEOUT", 0.3)
    p = make_coordinator()
    a, b = p.all((0, 2), (1, 2))
    with pytest.raises(ConnectionError, match=r"process 1 \(.* did not connect to jaxlib's service in time"):
        a.confirm(30)
    wait_until(lambda: p.service.substitutes == [1])
    for m in (a, b):
        m.leave()


def test_stopped_coordinator_releases_its_processes_first(make_coordinator):
    p = make_coordinator()
    members = p.system(2)
    p.coordinator.stop()
    p.thread.join(20)
    wait_until(lambda: all(m.coordinator_lost for m in members))
    for m in members:
        wait_until(lambda: m.events and m.events[-1] == ("coordinator", -1))
        assert m.let == [0]


@pytest.mark.parametrize("calls, kind, message", [
    ([(0, 2), (0, 2)], ValueError, "process_id 0 is taken"),
    ([(0, 2), (1, 3)], ValueError, "num_processes is"),
    ([(0, 2), (1, 2, {"fits": {"jaxlib": "2"}})], ValueError, "processes must agree"),
    ([(0, 3, {"timeout": 0.3}), (2, 3)], TimeoutError, r"of 3 processes [1] did not come"),
    ([(0, 1, {"key": b"another"})], PermissionError, "another token"),
    ([(0, 2, {"timeout": 0.6}), (1, 2, {"key": b"another"})], PermissionError, "another token"),
    ([(5, 2)], ValueError, "must be in [0, num_processes)")])
def test_mismatch_raises_in_all_processes(make_coordinator, calls, kind, message):
    p = make_coordinator()
    found = p.all(*calls)
    assert all(type(e) is kind and message in str(e) and str(e).startswith("distributed.initialize") for e in found), found


def test_wrong_token_does_not_affect_others(make_coordinator):
    p = make_coordinator()
    found = p.all((0, 2), (1, 2, {"key": b"another"}), (1, 2))
    assert isinstance(found[1], PermissionError) and [m.rank for m in (found[0], found[2])] == [0, 1]
    found[0].leave()
    found[2].leave()


def test_coordinator_without_the_token_is_refused():
    """A program that listens at the address cannot prove that it has the token."""
    def impersonate(s):
        lines = rendezvous_protocol.LineStream(s)
        lines.send(lamina=rendezvous_protocol.PROTOCOL, challenge="00")
        lines.read(10), lines.read(10)
        lines.send(proof="0" * 64)
        lines.send(begin=1, limit=1)
        lines.read(10)
    with answering(impersonate) as address, pytest.raises(PermissionError, match="did not prove that it has"):
        rendezvous_client.join(address, 0, 1, {"heartbeat": 1}, KEY, 10)


GARBAGE = [b"GET / HTTP/1.1\r\n\r\n", b"\x00\xff" * 40000, b"[" * 5000 + b"\n", b'{"hello": 1}\n',
           b'{"hello": "x", "mac": "y"}\n', b'{"hello": "x", "mac": "\xc3\xa9"}\n', b"\n", b"{}\n" * 1000, b""]


def test_garbage_on_the_port_is_ignored(make_coordinator):
    p = make_coordinator()
    first = threading.Thread(target=lambda: p.found.append(p.join(0, 2)))
    p.found = []
    first.start()
    silent = [socket.create_connection(rendezvous_protocol.parse_address(p.address)) for _ in range(3)]
    for junk in GARBAGE:
        with socket.create_connection(rendezvous_protocol.parse_address(p.address)) as s:
            try:
                s.sendall(junk)
            except OSError:
                pass  # the connection was closed
    with socket.create_connection(rendezvous_protocol.parse_address(p.address)) as s:  # the right token with invalid content
        lines = rendezvous_protocol.LineStream(s)
        challenge = lines.read(10)["challenge"]
        text = json.dumps({"rank": True, "count": "2"})
        lines.send(hello=text, mac=rendezvous_protocol.mac(KEY, "guest", challenge, text))
        assert lines.read(10) is None
    p.found.append(p.join(1, 2))
    first.join(30)
    assert sorted(m.rank for m in p.found) == [0, 1]
    for m in p.found:
        m.leave()
    for s in silent:
        s.close()


def test_coordinator_connects_for_a_process_that_dies_while_connecting(make_coordinator):
    """jaxlib ends processes that wait for one that never connects."""
    p = make_coordinator()
    a, b, c = p.all((0, 3), (1, 3), (2, 3))
    b._lines.socket.close()
    wait_until(lambda: p.service.substitutes == [1])
    found = []

    def confirm(m):
        with pytest.raises(ConnectionError, match=r"process 1 \(.* ended while"):
            m.confirm(30)
        found.append(m.rank)
    threads = [threading.Thread(target=confirm, args=(m,)) for m in (a, c)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert sorted(found) == [0, 2]
    for m in (a, c):
        m.leave()


def test_silent_process_is_named_while_the_others_connect(make_coordinator, monkeypatch):
    """jaxlib's clients wait in `connect` for all processes, so only heartbeats show which one is stopped."""
    monkeypatch.setattr(systems, "_MAX_SILENCE", 1.0)
    p = make_coordinator()
    a, b, c = p.all((0, 3), (1, 3), (2, 3))  # `b` sends nothing from here on
    errors = {}

    def connect(m):
        try:
            m.connect_service(lambda: wait_until(lambda: p.service.substitutes == [1]), (RuntimeError,))
            m.confirm(30)
        except ConnectionError as e:
            errors[m.rank] = str(e)
    threads = [threading.Thread(target=connect, args=(m,)) for m in (a, c)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    for r in (0, 2):
        assert "process 1 (" in errors[r] and "gave no sign of life for 1 s while the processes were" in errors[r]
    with pytest.raises(ConnectionError, match=r"the others have given up process 1 \(this one: .* 1 s\)"):
        b.raise_if_closed()
    for m in (a, b, c):
        m.leave()


def test_failed_connection_to_the_service_is_an_exception(make_coordinator, monkeypatch):
    monkeypatch.setattr(systems, "_BLAME_TIME", 0.5)
    p = make_coordinator()
    a, b = p.all((0, 2), (1, 2))

    def fail():
        raise RuntimeError("std::bad_cast")
    with pytest.raises(ConnectionError, match=r"process 1 \(.* did not connect to jaxlib's service in time"):
        a.connect_service(fail, (RuntimeError,))
    for m in (a, b):
        m.leave()


def test_process_that_leaves_while_waiting_may_be_replaced(make_coordinator):
    p = make_coordinator()
    with pytest.raises(TimeoutError):
        s = socket.create_connection(rendezvous_protocol.parse_address(p.address))
        lines = rendezvous_protocol.LineStream(s)
        hello = json.dumps({"rank": 1, "count": 2, "timeout": 50, "heartbeat": 1, "leaving": 1, "fits": FITS, "nonce": ""})
        lines.send(hello=hello, mac=rendezvous_protocol.mac(KEY, "guest", lines.read(10)["challenge"], hello))
        assert "proof" in lines.read(10)
        lines.read(0.1)
    waiting = p.coordinator.systems.all
    assert len(waiting) == 1
    wait_until(lambda: not s.close() and not waiting)
    p.thread.join(20)  # the last process left


def test_timeouts_without_processes_or_coordinator(make_coordinator):
    p = make_coordinator(startup_timeout=0.1)
    p.thread.join(20)
    assert not p.thread.is_alive()
    with pytest.raises(TimeoutError, match="process 1 found no coordinator at .* within 0.3 s.*Process 0 starts it there"):
        p.join(1, 2, 0.3)
    with pytest.raises(TimeoutError, match=r"process 0 found .*\. It could not$"):
        p.join(0, 2, 0.3, start_coordinator=lambda: "It could not")


def test_port_of_another_program_is_refused():
    def answer(s):
        s.recv(100)
        s.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with answering(answer) as address, pytest.raises(ConnectionError, match="another program has this port"):
        rendezvous_client.join(address, 1, 2, {"heartbeat": 1}, KEY, 10)


def test_unknown_host():
    with pytest.raises((ValueError, TimeoutError), match="no-such-host.invalid"):
        rendezvous_client.join("no-such-host.invalid:1234", 1, 2, {"heartbeat": 1}, KEY, 0.5)


def test_host_name_that_resolves_later_is_waited_for(make_coordinator, monkeypatch):
    p, real, asked = make_coordinator(), socket.create_connection, []

    def connect(where, *more):
        asked.append(where)
        if len(asked) < 4:
            raise socket.gaierror(-2, "Name or service not known")
        return real(where, *more)
    monkeypatch.setattr(socket, "create_connection", connect)
    started = []
    p.join(0, 1, start_coordinator=lambda: started.append(1), names_may_come=True).leave()
    assert len(asked) == 4 and not started  # process 0 starts no coordinator while the name is unknown
    asked.clear()
    with pytest.raises(TimeoutError, match="found no coordinator at .*Name or service not known"):
        p.join(0, 1, 0.1, names_may_come=True)


@pytest.mark.parametrize("address", ["localhost", "localhost:", "localhost:x", ":1", "localhost:70000", "[]:1", 5, None, "h:²"])
def test_addresses_are_host_and_port(address):
    with pytest.raises(ValueError, match="must be 'host:port'"):
        rendezvous_protocol.parse_address(address)
    assert rendezvous_protocol.parse_address("[::1]:5") == ("::1",
                                                            5) and rendezvous_protocol.format_address("::1", 5) == "[::1]:5"


def test_loopback_address_over_several_machines_is_refused(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "one.net")
    monkeypatch.setattr(rendezvous_protocol, "resolve", lambda host: {"far": ["10.0.0.7"]}.get(host, ["127.0.1.1"]))
    for host, several in [("one", None), ("one.net", False), ("localhost", None), ("127.0.0.1", False), ("far", True)]:
        rendezvous_protocol.check_reachable(host, several)
    for host, several in [("one", True), ("127.0.0.1", True), ("localhost", True), ("two", None), ("two", False)]:
        with pytest.raises(ValueError, match="the loopback, which other machines"):
            rendezvous_protocol.check_reachable(host, several)


def test_load_token(monkeypatch, tmp_path):
    monkeypatch.setenv("LAMINA_TOKEN", " one ")
    assert rendezvous_protocol.load_token() == b"one"
    monkeypatch.delenv("LAMINA_TOKEN")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = {rendezvous_protocol.load_token() for _ in range(3)}
    path = tmp_path / "lamina" / "token"
    assert len(found) == 1 and path.read_bytes().strip() in found and path.stat().st_mode & 0o777 == 0o600
    assert [f.name for f in path.parent.iterdir()] == ["token"]
    path.chmod(0o644)
    with pytest.raises(RuntimeError, match="must be readable by you alone"):
        rendezvous_protocol.load_token()
    monkeypatch.setenv("LAMINA_TOKEN_FILE", str(path))  # a given path may have other permissions, such as a mounted secret
    assert {rendezvous_protocol.load_token()} == found
    path.write_text("\n")
    with pytest.raises(RuntimeError, match="is empty"):
        rendezvous_protocol.load_token()
    monkeypatch.setenv("LAMINA_TOKEN_FILE", str(tmp_path / "none"))
    with pytest.raises(RuntimeError, match="cannot be read"):
        rendezvous_protocol.load_token()
