"""What a process does about the loss of another, with sockets of this process in place of Gloo's. In real processes:
tests/multi_process/test_losses.py."""
import pickle
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from lamina_runtime._backend import peer_errors
from lamina_runtime._distributed import failure_handling, gloo_sockets, interruptible_wait
from lamina_runtime._distributed.failure_handling import LaunchFailedError, ProcessLostError


class Here:
    """A presence that is told what to tell."""

    def __init__(self, rank=0, count=4):
        self.rank, self.count, self.heartbeat, self.coordinator_lost = rank, count, 2, False
        self.lost, self.left, self.failed, self.changed = {}, {}, {}, threading.Condition()

    def add_listener(self, act):
        self.act = act

    def mark_lost(self, rank, name):
        with self.changed:
            self.lost[rank] = name
            self.changed.notify_all()
        self.act(("lost", rank))


def pair(door):
    near = socket.create_connection(door.getsockname())
    far, _ = door.accept()
    return near, far


@pytest.fixture
def watch():
    found = failure_handling.FailureMonitor(Here(), lambda: found.let.append(1))
    found.let = []
    yield found
    found.close()


PROGRAM = SimpleNamespace(call="jit", name="f", processes=(0, 1))


def test_the_error_is_pickled_and_names_processes_in_order():
    e = pickle.loads(pickle.dumps(ProcessLostError("gone", [3, 1, 3])))
    assert isinstance(e, RuntimeError) and (str(e), e.process_indices) == ("gone", (1, 3))


def test_a_loss_ends_all_launches_and_a_leave_those_of_who_left(watch):
    watch.check(PROGRAM)
    watch.connection.left[2] = "process 2"
    watch.check(PROGRAM)
    watch.connection.left[1] = "process 1"
    with pytest.raises(ProcessLostError, match=r"jit of `f`: process_indices \(1,\) are gone: process 1 has left") as told:
        watch.check(PROGRAM)
    assert told.value.process_indices == (1,)
    watch.connection.mark_lost(3, "process 3")
    with pytest.raises(ProcessLostError, match=r"\(3,\) are gone: process 3 was lost"):
        watch.check(PROGRAM)


def test_a_failure_ends_all_launches_and_goes_before_leaves(watch):
    watch.connection.left[1] = "process 1"
    watch.connection.failed[1] = "process 1 (here, pid 3): pmap of `g`: MemoryError: no more"
    with pytest.raises(LaunchFailedError, match=r"jit of `f`: .*\(1,\) and not in all: process 1 \(here.*no more") as told:
        watch.check(SimpleNamespace(call="jit", name="f", processes=(0, 2)))
    assert told.value.process_indices == (1,) and watch.confirm_failure()
    again = pickle.loads(pickle.dumps(told.value))
    assert isinstance(again, LaunchFailedError) and again.process_indices == (1,) and isinstance(again, RuntimeError)
    with watch.connecting_devices():
        assert watch.let == [1]
    watch.connection.mark_lost(2, "process 2")
    with pytest.raises(ProcessLostError, match="process 2 was lost"):
        watch.check(PROGRAM)


def test_connections_that_a_first_meeting_awaits_come_and_end(watch):
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(5)
        watch.set_gloo_addresses({0: [door.getsockname()], 1: []})
        with watch.connecting_devices():
            watch.connection.mark_lost(1, "process 1")
            for number in range(5):
                come, _ = door.accept()
                with come:
                    come.settimeout(5)
                    assert come.makefile("rb").read() == number.to_bytes(8, sys.byteorder)


def test_connections_awaited_one_behind_the_other_are_each_lost_soon(watch):
    """Gloo may begin with one only when the one before has ended."""
    text = "import socket, sys\nwhile True:\n with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as s:\n  s.recv(1)"
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(20)
        watch.set_gloo_addresses({0: [door.getsockname()], 1: []})
        other, held = subprocess.Popen([sys.executable, "-c", text, str(door.getsockname()[1])], stderr=subprocess.DEVNULL), []
        try:
            held.append(door.accept()[0])
            watch._unused_numbers.clear()  # so that all who come are the other
            with watch.connecting_devices():
                begun = time.monotonic()
                watch.connection.mark_lost(1, "process 1")
                while len(held) < 20:
                    held.append(door.accept()[0])
            assert time.monotonic() - begun < 8  # a tenth of a second each; it was 4 s behind the sixth, and then for ever
        finally:
            other.kill()
            other.wait()
            for s in held:
                s.close()


def test_a_first_launch_that_stays_is_told_and_left_to_itself(watch, monkeypatch):
    monkeypatch.setattr(failure_handling, "_UNBLOCK_TIMEOUT", 0.3)
    assert watch.run_in_worker_thread("pmap of `f`", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        watch.run_in_worker_thread("pmap of `f`", lambda: 1 // 0)
    held = threading.Event()
    threading.Timer(0.2, watch.connection.mark_lost, (1, "process 1")).start()
    with pytest.raises(ProcessLostError, match=r"pmap of `f`: process_indices \(1,\) are gone"):
        watch.run_in_worker_thread("pmap of `f`", lambda: held.wait(20))
    (thread,) = [t for t, of in failure_handling.launch_threads.items() if of is watch]
    watch.close()  # nobody waits for it
    assert thread.is_alive() and not held.is_set()
    held.set()
    thread.join(5)
    assert watch not in failure_handling.launch_threads.values() and not watch._connecting


def test_python_ends_behind_a_launch_that_was_left_to_itself():
    """A thread that came back from jaxlib meanwhile would end the process otherwise than with its code."""
    text = """
import sys, threading, time
from types import SimpleNamespace
from lamina_runtime._distributed import failure_handling
here = SimpleNamespace(rank=0, lost={}, failed={}, left={}, add_listener=lambda act: None)
watch = failure_handling.FailureMonitor(here, lambda: None)
watch.set_gloo_addresses({0: [("127.0.0.1", 1)]})
watch._failed_at, failure_handling._UNBLOCK_TIMEOUT = time.monotonic(), 0.1
here.lost[1] = "process 1"
try:
    watch.run_in_worker_thread("jit of `f`", lambda: (time.sleep(1), print("ended", flush=True)))
except failure_handling.ProcessLostError:
    print("told", flush=True)
sys.exit(7)
"""
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout) == (7, "told\nended\n"), found.stderr


def test_each_number_comes_once_however_long_a_meeting_lasts(watch, monkeypatch):
    """What Gloo does not await yet it keeps, with a descriptor each: a process that ran out of them was ended."""
    monkeypatch.setattr(failure_handling, "_MAX_NUMBERS", 150)
    found = []
    with socket.create_server(("127.0.0.1", 0), backlog=200) as door:
        watch.set_gloo_addresses({0: [door.getsockname()]})
        door.settimeout(0.8)  # three of the looks for what may have been on its way
        with watch.connecting_devices():
            watch.connection.mark_lost(1, "process 1")
            with pytest.raises(TimeoutError):
                while True:
                    come, _ = door.accept()
                    with come:
                        come.settimeout(5)
                        found.append(int.from_bytes(come.makefile("rb").read(), sys.byteorder))
    assert found == list(range(150))


def test_connections_are_cut_but_for_those_of_this_process_alone(watch):
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_server(("127.0.0.1", 0)) as other:
        place = door.getsockname()
        assert (place in gloo_sockets.listening_addresses("127.0.0.1")
                and place not in gloo_sockets.listening_addresses("127.0.0.2"))
        watch.set_gloo_addresses({0: [place]})
        with watch.preserve_connections():
            spared = pair(door)
        cut, foreign = pair(door), pair(other)
        for s in (*spared, *cut, *foreign):
            s.settimeout(0.2)
        watch.connection.mark_lost(1, "process 1")
        assert [s.recv(1) for s in cut] == [b"", b""]
        for s in (*spared, *foreign):
            with pytest.raises(TimeoutError):
                s.recv(1)
        for s in (*spared, *cut, *foreign):
            s.close()
    assert watch.let == []  # nothing waited for a first meeting


def test_what_waits_for_a_first_meeting_is_let_go(watch):
    with watch.connecting_devices():
        assert watch.let == []
        watch.connection.mark_lost(1, "process 1")
        assert watch.let == [1]
    with watch.connecting_devices():
        assert watch.let == [1, 1]  # what begins later as well


def test_an_error_waits_for_the_word(watch):
    peer_errors.set_failure_monitor(watch)
    threading.Timer(0.1, watch.connection.mark_lost, (2, "process 2")).start()
    assert peer_errors.peer_error_for("jit of `f`", ValueError("shapes differ")) is None
    found = peer_errors.peer_error_for("jit of `f`", RuntimeError("Gloo all-reduce failed: Connection closed by peer"))
    assert isinstance(found, ProcessLostError) and found.process_indices == (2,) and "Gloo" in str(found.__cause__)


def test_suspects_count_where_no_word_comes(watch, monkeypatch):
    monkeypatch.setattr(failure_handling, "_REPORT_TIMEOUT", 0.1)
    assert not watch.confirm_failure()
    assert watch.confirm_failure([3]) and "process 3, which closed its connection, was lost" in str(watch.make_error("a call"))


def test_without_a_coordinator_doors_are_asked(watch, monkeypatch):
    monkeypatch.setattr(failure_handling, "_REPORT_TIMEOUT", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_server(("127.0.0.1", 0)) as gone:
        watch.set_gloo_addresses({0: [("127.0.0.1", 1)], 1: [door.getsockname()], 2: [gone.getsockname()]})
        watch.connection.coordinator_lost = True
        assert not watch.confirm_failure()
        gone.close()
        assert watch.confirm_failure() and watch.make_error("a call").process_indices == (2,)


def test_while_the_client_is_made_others_have_a_moment(watch, monkeypatch):
    monkeypatch.setattr(failure_handling, "_REPORT_TIMEOUT", 0.1)
    with pytest.raises(ProcessLostError, match=r"\(1,\) are gone: process 1 was lost. Until shutdown\(\) there are no devices"):
        with watch.creating_client():
            watch.connection.mark_lost(1, "process 1")
            assert watch.let == []
            until = threading.Event()
            while not watch.let:
                until.wait(0.02)
            raise ValueError("CANCELLED")


class Pending:
    """A result that is computed when it is told to be."""
    nbytes, aval, _sharding = 8, None, SimpleNamespace(_internal_device_list=[])

    def __init__(self):
        self.done = False

    def _rewrap_with_aval_and_sharding(self, aval, sharding):
        return self

    def is_deleted(self):
        return False

    def is_ready(self):
        return self.done


def test_launches_are_no_more_than_can_be_queued(monkeypatch):
    """A launch into a full queue waits where nothing can be raised."""
    monkeypatch.setattr(interruptible_wait, "_MAX_QUEUED", 3)
    monkeypatch.setattr(interruptible_wait, "_ABORT_TIMEOUT", 0.05)
    presence = SimpleNamespace(lost=(), failed=())
    watch = SimpleNamespace(connection=presence, make_error=lambda call: ProcessLostError(call, (1,)))
    mine, every = interruptible_wait.InterruptibleWaiter(watch), [Pending() for _ in range(6)]
    for x in every[:3]:
        mine.note_launch([x])
    timer = threading.Timer(0.05, setattr, (every[0], "done", True))
    timer.start()
    mine.note_launch([every[3]])
    assert every[0].done and len(mine._queue) == 3 and mine._held_bytes == 24
    presence.lost = (1,)
    with pytest.raises(ProcessLostError, match="launch"):
        mine.note_launch([every[4]])
    for x in every:
        x.done = True
    mine.note_launch([every[5]])
    assert not mine._queue and not mine._held_bytes
