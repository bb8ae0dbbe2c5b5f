"""What a process does about a failed process, with sockets of this process instead of Gloo's. With real processes:
see tests/multi_process/test_process_failures.py."""
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from lamina_runtime.extend import processes as peer_errors
from lamina_distributed._group import failure_handling, gloo_cuts, gloo_sockets, interruptible_wait, peer_probes
from lamina_distributed._group.failure_handling import CoordinatorLostError, LaunchFailedError, ProcessLostError


class FakeConnection:
    """A fake coordinator connection; tests set its state."""

    def __init__(self, rank=0, count=4):
        self.rank, self.count, self.heartbeat, self.coordinator_lost = rank, count, 2, False
        self.lost, self.left, self.failed, self.changed = {}, {}, {}, threading.Condition()
        self.named = ()

    def await_membership(self):
        return tuple(sorted(self.lost))

    def add_listener(self, act):
        self.act = act

    def mark_left(self, rank, name):
        self.left[rank] = name

    def mark_lost(self, rank, name):
        with self.changed:
            self.lost[rank] = name
            self.changed.notify_all()
        self.act(("lost", rank))


ALIVE = ("alive", {"lost": []})


class FakeSockets:
    """Peers that answer probes as the test says."""

    def __init__(self, answers):
        self.answers, self.news = answers, {}

    def probe(self, rank, **news):
        self.news[rank] = news
        return self.answers[rank]

    def abort_connecting(self):
        pass


def connect_to(listener):
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    return near, far


@pytest.fixture
def monitor():
    """A `FailureMonitor` of a `FakeConnection`; `let` has an entry for each time waiting connections were released."""
    found = failure_handling.FailureMonitor(FakeConnection(), lambda: found.let.append(1))
    found.let = []
    yield found
    found.close()


PROGRAM = SimpleNamespace(call="jit", name="f", processes=(0, 1))


def test_error_is_pickled_and_sorts_process_indices():
    e = pickle.loads(pickle.dumps(ProcessLostError("gone", [3, 1, 3])))
    assert isinstance(e, RuntimeError) and (str(e), e.process_indices) == ("gone", (1, 3))


def test_lost_process_ends_all_launches_and_left_process_its_own(monitor):
    monitor.check(PROGRAM)
    monitor.connection.left[2] = "process 2"
    monitor.check(PROGRAM)
    monitor.connection.left[1] = "process 1"
    with pytest.raises(ProcessLostError, match=r"jit of `f`: process_indices \(1,\) are gone: process 1 has left") as caught:
        monitor.check(PROGRAM)
    assert caught.value.process_indices == (1,)
    monitor.connection.mark_lost(3, "process 3")
    with pytest.raises(ProcessLostError, match=r"\(3,\) are gone: process 3 was lost"):
        monitor.check(PROGRAM)


def test_failed_launch_ends_all_launches_and_precedes_leaves(monitor):
    monitor.connection.left[1] = "process 1"
    monitor.connection.failed[1] = "process 1 (here, pid 3): pmap of `g`: MemoryError: no more"
    with pytest.raises(LaunchFailedError, match=r"jit of `f`: .*\(1,\) and not in the others: process 1.*no more") as caught:
        monitor.check(SimpleNamespace(call="jit", name="f", processes=(0, 2)))
    assert caught.value.process_indices == (1,) and monitor.confirm_failure()
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, LaunchFailedError) and again.process_indices == (1,) and isinstance(again, RuntimeError)
    with monitor.connecting_devices():
        assert monitor.let == [1]
    monitor.connection.mark_lost(2, "process 2")
    with pytest.raises(ProcessLostError, match="process 2 was lost"):
        monitor.check(PROGRAM)


def test_awaited_connections_are_made_and_closed(monitor):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        monitor.set_gloo_addresses({0: [listener.getsockname()], 1: []})
        with monitor.connecting_devices():
            monitor.connection.mark_lost(1, "process 1")
            for number in range(5):
                come, _ = listener.accept()
                with come:
                    come.settimeout(5)
                    assert come.makefile("rb").read() == number.to_bytes(8, sys.byteorder)


def test_connections_awaited_in_sequence_are_all_closed_quickly(monitor):
    """Gloo may wait for a connection only after the previous one was closed."""
    text = "import socket, sys\nwhile True:\n with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as s:\n  s.recv(1)"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        monitor.set_gloo_addresses({0: [listener.getsockname()], 1: []})
        held, port = [], str(listener.getsockname()[1])
        other = subprocess.Popen([sys.executable, "-c", text, port], stderr=subprocess.DEVNULL)
        try:
            held.append(listener.accept()[0])
            monitor.cuts._unused_numbers.clear()  # so that all connections are those of the subprocess
            with monitor.connecting_devices():
                begun = time.monotonic()
                monitor.connection.mark_lost(1, "process 1")
                while len(held) < 20:
                    held.append(listener.accept()[0])
            assert time.monotonic() - begun < 8  # 0.1 s each; the sixth once took 4 s, later ones hung
        finally:
            other.kill()
            other.wait()
            for s in held:
                s.close()


def test_blocked_first_launch_raises_and_is_abandoned(monitor, monkeypatch):
    monkeypatch.setattr(failure_handling, "_UNBLOCK_TIMEOUT", 0.3)
    assert monitor.run_in_worker_thread("pmap of `f`", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        monitor.run_in_worker_thread("pmap of `f`", lambda: 1 // 0)
    held = threading.Event()
    threading.Timer(0.2, monitor.connection.mark_lost, (1, "process 1")).start()
    with pytest.raises(ProcessLostError, match=r"pmap of `f`: process_indices \(1,\) are gone"):
        monitor.run_in_worker_thread("pmap of `f`", lambda: held.wait(20))
    (thread,) = [t for t, of in failure_handling.launch_threads.items() if of is monitor]
    monitor.close()  # does not wait for the thread
    assert thread.is_alive() and not held.is_set()
    held.set()
    thread.join(5)
    assert monitor not in failure_handling.launch_threads.values() and not monitor._connecting


def test_python_exits_after_an_abandoned_launch():
    """A thread that returned from jaxlib during exit would change the exit status."""
    text = """
import sys, threading, time
from types import SimpleNamespace
from lamina_distributed._group import failure_handling
here = SimpleNamespace(rank=0, lost={}, failed={}, left={}, named=(), coordinator_lost=False, add_listener=lambda act: None,
                       await_membership=lambda: (1,))
monitor = failure_handling.FailureMonitor(here, lambda: None)
monitor.set_gloo_addresses({0: [("127.0.0.1", 1)]})
monitor.failed_at, failure_handling._UNBLOCK_TIMEOUT = time.monotonic(), 0.1
here.lost[1] = "process 1"
try:
    monitor.run_in_worker_thread("jit of `f`", lambda: (time.sleep(1), print("ended", flush=True)))
except failure_handling.ProcessLostError:
    print("raised", flush=True)
sys.exit(7)
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (7, "raised\nended\n"), found.stderr


def test_each_device_number_is_sent_once(monitor, monkeypatch):
    """Gloo stores connections it does not await yet, with a descriptor each; a process could run out of descriptors."""
    monkeypatch.setattr(gloo_cuts, "_MAX_NUMBERS", 150)
    found = []
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        monitor.set_gloo_addresses({0: [listener.getsockname()]})
        listener.settimeout(0.8)  # three checks for connections in progress
        with monitor.connecting_devices():
            monitor.connection.mark_lost(1, "process 1")
            with pytest.raises(TimeoutError):
                while True:
                    come, _ = listener.accept()
                    with come:
                        come.settimeout(5)
                        found.append(int.from_bytes(come.makefile("rb").read(), sys.byteorder))
    assert found == list(range(150))


def test_connections_are_closed_except_preserved_ones(monitor):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as other:
        address = listener.getsockname()
        assert (address in gloo_sockets.listening_addresses("127.0.0.1")
                and address not in gloo_sockets.listening_addresses("127.0.0.2"))
        monitor.set_gloo_addresses({0: [address]})
        with monitor.preserve_connections():
            preserved = connect_to(listener)
        cut, foreign = connect_to(listener), connect_to(other)
        for s in (*preserved, *cut, *foreign):
            s.settimeout(0.2)
        monitor.connection.mark_lost(1, "process 1")
        assert [s.recv(1) for s in cut] == [b"", b""]
        for s in (*preserved, *foreign):
            with pytest.raises(TimeoutError):
                s.recv(1)
        for s in (*preserved, *cut, *foreign):
            s.close()
    assert monitor.let == []  # no first launch was waiting


def test_waiting_first_launch_is_released(monitor):
    with monitor.connecting_devices():
        assert monitor.let == []
        monitor.connection.mark_lost(1, "process 1")
        assert monitor.let == [1]
    with monitor.connecting_devices():
        assert monitor.let == [1, 1]  # also later ones


def test_error_waits_for_the_report_of_the_coordinator(monitor):
    peer_errors.set_failure_monitor(monitor)
    threading.Timer(0.1, monitor.connection.mark_lost, (2, "process 2")).start()
    assert peer_errors.peer_error_for("jit of `f`", ValueError("shapes differ")) is None
    found = peer_errors.peer_error_for("jit of `f`", RuntimeError("Gloo all-reduce failed: Connection closed by peer"))
    assert isinstance(found, ProcessLostError) and found.process_indices == (2,) and "Gloo" in str(found.__cause__)


def test_suspected_processes_are_lost_if_no_report_arrives(monitor, monkeypatch):
    monkeypatch.setattr(peer_probes, "REPORT_TIMEOUT", 0.1)
    assert not monitor.confirm_failure()
    assert monitor.confirm_failure([3])
    assert "process 3, which closed its connection, was lost" in str(monitor.make_error("a call"))


def test_without_coordinator_the_others_are_asked(monitor, monkeypatch):
    monkeypatch.setattr(peer_probes, "REPORT_TIMEOUT", 0.1)
    answers = {1: ALIVE, 2: ALIVE, 3: ALIVE}
    monitor.probes.sockets = FakeSockets(answers)
    monitor.connection.coordinator_lost = True
    assert monitor.confirm_failure()
    error = monitor.make_error("a call")
    assert isinstance(error, CoordinatorLostError) and error.process_indices == ()
    assert "a call: the coordinator is gone" in str(error)
    answers[2] = ("gone", None)
    assert monitor.confirm_failure() and monitor.make_error("a call").process_indices == (2,)


def test_without_coordinator_losses_known_to_others_are_taken_over(monitor):
    monitor.probes.sockets = FakeSockets({1: ("alive", {"lost": [2, 3]}), 2: ("silent", None), 3: ALIVE})
    monitor.probes.probe_processes()
    assert list(monitor.connection.lost) == [2]  # process 3 answers, so it lives


def test_silent_process_is_lost_after_the_heartbeat_timeout(monitor):
    monitor.connection.heartbeat = 0.3
    monitor.probes.sockets = FakeSockets({1: ALIVE, 2: ("silent", None), 3: ALIVE})
    monitor.probes.probe_processes()
    assert not monitor.connection.lost
    time.sleep(0.4)
    monitor.probes.probe_processes()
    assert list(monitor.connection.lost) == [2]


@pytest.mark.parametrize("answers, has_slept, expected", [
    ({1: ALIVE, 2: ("silent", None), 3: ("gone", None)}, True, False),
    ({1: ALIVE, 2: ("alive", {"lost": [0]}), 3: ALIVE}, False, True),
    ({1: ("silent", None), 2: ("gone", None), 3: ("gone", None)}, False, True),  # the network is cut
    ({1: ("gone", None), 2: ("gone", None), 3: ("gone", None)}, False, False),
    ({1: ("gone", None), 2: ("gone", None), 3: ("gone", None)}, True, True)])  # the others have gone on
def test_peers_decide_whether_a_process_was_counted_out(monitor, answers, has_slept, expected):
    monitor.probes.sockets = FakeSockets(answers)
    assert monitor.connection.is_counted_out(has_slept) is expected


def test_process_that_leaves_without_coordinator_is_not_lost(monitor):
    here = monitor.connection
    here.coordinator_lost = True
    monitor.probes.sockets = FakeSockets({1: ALIVE, 2: ALIVE, 3: ALIVE})
    monitor.probes.announce_leave()
    assert monitor.probes.sockets.news == {1: {"leaves": []}, 2: {"leaves": []}, 3: {"leaves": []}}
    assert monitor.probes.answer_status({"status": 1, "leaves": []}) == {"lost": [], "coordinator_lost": True}
    monitor.probes.judge_suspect(1)
    with pytest.raises(CoordinatorLostError):
        monitor.check(PROGRAM)
    assert monitor.probes.answer_status({"status": 3, "leaves": [2]}) == {"lost": [2], "coordinator_lost": True}
    assert monitor.make_error("a call").process_indices == (2,)


def test_client_creation_waits_before_release(monitor, monkeypatch):
    monkeypatch.setattr(peer_probes, "REPORT_TIMEOUT", 0.1)
    with pytest.raises(ProcessLostError, match=r"\(1,\) are gone: process 1 was lost. Until shutdown\(\) there are no devices"):
        with monitor.creating_client():
            monitor.connection.mark_lost(1, "process 1")
            assert monitor.let == []
            until = threading.Event()
            while not monitor.let:
                until.wait(0.02)
            raise ValueError("CANCELLED")


class Pending:
    """A result that is ready when a test says so."""
    nbytes, aval, _sharding = 8, None, SimpleNamespace(_internal_device_list=[])

    def __init__(self):
        self.done = False

    def _rewrap_with_aval_and_sharding(self, aval, sharding):
        return self

    def is_deleted(self):
        return False

    def is_ready(self):
        return self.done


def test_launches_are_limited_by_the_queue(monkeypatch):
    """A launch into a full queue waits where no exception can be raised."""
    monkeypatch.setattr(interruptible_wait, "_MAX_QUEUED", 3)
    monkeypatch.setattr(interruptible_wait, "_ABORT_TIMEOUT", 0.05)
    monkeypatch.setattr(interruptible_wait.runtime, "is_ready", Pending.is_ready)
    connection = SimpleNamespace(lost=(), failed=())
    monitor = SimpleNamespace(connection=connection, make_error=lambda call: ProcessLostError(call, (1,)))
    mine, every = interruptible_wait.InterruptibleWaiter(monitor), [Pending() for _ in range(6)]
    for x in every[:3]:
        mine.note_launch([x])
    timer = threading.Timer(0.05, setattr, (every[0], "done", True))
    timer.start()
    mine.note_launch([every[3]])
    assert every[0].done and len(mine._queue) == 3 and mine._held_bytes == 24
    connection.lost = (1,)
    with pytest.raises(ProcessLostError, match="launch"):
        mine.note_launch([every[4]])
    for x in every:
        x.done = True
    mine.note_launch([every[5]])
    assert not mine._queue and not mine._held_bytes


@pytest.fixture
def waiter(monitor, monkeypatch):
    """A `CpuWaiter` of a launch that never ends: `wait_in_jaxlib` returns only when `release` is set."""
    found = interruptible_wait.CpuWaiter(monitor, SimpleNamespace(latest=Pending(), is_stuck=False, mark_stuck=lambda: None))
    found.release = threading.Event()

    def wait_in_jaxlib(x):
        while not found.release.is_set():
            time.sleep(0.01)
        return x
    monkeypatch.setattr(interruptible_wait, "_CPU_TIMEOUT", 0.3)
    monkeypatch.setattr(interruptible_wait.runtime, "is_ready", Pending.is_ready)
    monkeypatch.setattr(interruptible_wait.runtime, "wait_in_jaxlib", wait_in_jaxlib)
    return found


def test_endless_wait_of_the_main_thread_is_interrupted(monitor, waiter):
    threading.Timer(0.1, monitor.connection.mark_lost, (1, "process 1")).start()
    with pytest.raises(ProcessLostError, match=r"block_until_ready: process_indices \(1,\)"):
        waiter.wait(Pending())
    assert waiter._awaited is None and not waiter._was_interrupted
    time.sleep(0.5)  # no other interrupt follows


def test_interrupt_that_comes_after_the_wait_does_not_reach_the_caller(monitor, waiter, monkeypatch):
    late = interruptible_wait._thread.interrupt_main
    monkeypatch.setattr(interruptible_wait._thread, "interrupt_main",
                        lambda: (waiter.release.set(), threading.Timer(0.3, late).start()))
    monitor.connection.mark_lost(1, "process 1")
    with pytest.raises(ProcessLostError):
        waiter.wait(Pending())
    time.sleep(0.5)


def test_interrupt_of_the_user_remains_a_keyboard_interrupt(monitor, waiter):
    threading.Timer(0.1, interruptible_wait._thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        waiter.wait(Pending())
    assert waiter._awaited is None


def test_threads_and_programs_that_handle_interrupts_poll(monitor, waiter):
    errors = []

    def wait():
        with pytest.raises(ProcessLostError):
            waiter.wait(Pending())
        errors.append(1)
    previous = signal.signal(signal.SIGINT, lambda *args: errors.append("a signal"))
    try:
        threading.Timer(0.1, monitor.connection.mark_lost, (1, "process 1")).start()
        thread = threading.Thread(target=wait)
        thread.start()
        wait()
        thread.join(5)
    finally:
        signal.signal(signal.SIGINT, previous)
    assert errors == [1, 1]
