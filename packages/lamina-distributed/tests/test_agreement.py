"""Launch consistency checks between threads with sockets; `tests/multi_process` uses real processes."""
import json
import os
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from lamina_ir import config
from lamina_distributed._group import deadlock_detection, launch_comparison, launch_groups, peer_sockets
from lamina_distributed._group import launch_agreement, launch_frames, multi_process
from lamina_runtime._launch import process_group
from lamina_distributed._group.launch_agreement import Agreement
from lamina_distributed._group.launch_groups import exchange_rounds


class Program:
    """The attributes of a program that the checks read."""

    call = "pmap"

    def __init__(self, name, processes):
        self.name, self.processes, self.launch_group = name, tuple(processes), None


def digest(program):
    return f"{program.name:<8}{len(program.processes):>8}".encode()[:16]


def describe(program):
    return {"call": f"pmap of `{program.name}`", "processes": list(program.processes), "devices": [], "count": 2, "at": "",
            "digest": program.name, "types": "", "collectives": [f"{program.name} over 'i' of float32[4], train.py:3"],
            "text": program.name}


class System:
    def __init__(self, n, mode="every", keys=None):
        addresses = {}
        self.all = [Agreement(peer_sockets.PeerSockets(r, "127.0.0.1", (keys or {}).get(r, b"key"), addresses),
                              mode, raise_if_lost=self.raise_if_lost, digest=digest, describe=describe,
                              has_runnable_thread=lambda waiting, r=r: not self.threads[r] <= {*waiting})
                    for r in range(n)]
        addresses.update({r: a.sockets.address for r, a in enumerate(self.all)})
        self.threads = [set() for _ in range(n)]  # for each process, the threads that may still launch

    @staticmethod
    def raise_if_lost(call, gone):
        raise ConnectionError(f"{call}: lost {[*gone]}")

    def run(self, *scripts, seconds=30, timeout=None):
        """Run a script per process; return a list of "ok" and errors for each. A number in a script is a pause in seconds."""
        found = [[] for _ in scripts]

        def act(rank, script):
            self.threads[rank].add(threading.get_ident())
            programs = {}
            for what in script:
                if isinstance(what, (int, float)):
                    time.sleep(what)
                    continue
                name, over = what if isinstance(what, tuple) else (what, range(len(self.all)))
                key = (name, tuple(over))
                try:
                    with config.options["collective_timeout_seconds"](timeout):
                        self.all[rank].agree(programs.setdefault(key, Program(*key)))
                    found[rank].append("ok")
                except Exception as e:
                    found[rank].append(e)
            self.threads[rank].discard(threading.get_ident())

        threads = [threading.Thread(target=act, args=pair, daemon=True) for pair in enumerate(scripts)]
        for t in threads:
            t.start()
        until = time.monotonic() + seconds
        for t in threads:
            t.join(max(until - time.monotonic(), 0))
        assert not any(t.is_alive() for t in threads), found
        return found

    def close(self):
        for a in self.all:
            a.close()


@pytest.fixture
def system(closing):
    """Return a function that makes a `System`; all are closed after the test."""
    return lambda *args, **kwargs: closing(System(*args, **kwargs))


def kinds(found):
    return [["ok" if x == "ok" else type(x).__name__ for x in script] for script in found]


@pytest.fixture
def rounds(monkeypatch):
    """Let more than eight processes exchange tokens in rounds, so that the tests need fewer of them."""
    monkeypatch.setattr(launch_groups, "MAX_ALL_PAIRS", 8)
    for module in (launch_agreement, launch_frames):
        monkeypatch.setattr(module, "MAX_ALL_PAIRS", 8)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 9, 13])
def test_equal_launches_pass(system, rounds, n):
    s = system(n)
    assert kinds(s.run(*[["a", "b", "a", "a"]] * n)) == [["ok"] * 4] * n
    assert all(not p.frames and p.fast_path_ready for a in s.all for p in a._groups[tuple(range(n))].pairs)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("usual, odd, fails", [("abz", "baz", 2), ("az", "bz", 1), ("abcz", "aabz", 2)],
                         ids=["order", "other", "twice"])
def test_different_launches_raise_on_all_processes(system, n, usual, odd, fails):
    s = system(n)
    found = s.run(*[usual] * (n - 1), odd)
    first = usual[0] == odd[0]
    assert kinds(found) == [["ok"] * first + ["AgreementError"] * fails + ["ok"]] * n
    text, = {str(script[first]) for script in found}
    for part in ("processes 0, 1", f"`{odd[first]}`", f"{usual[first]} over 'i' of float32[4], train.py:3"):
        assert part in text, text


def test_launch_after_ten_failed_launches_passes(system):
    s = system(3)
    found = s.run([*"aaaaaaaaaaz"], [*"aabbccddeez"], [*"abababababz"])
    for x, y, z, *outs in zip("aaaaaaaaaaz", "aabbccddeez", "abababababz", *kinds(found)):
        assert outs == (["ok"] if x == y == z else ["AgreementError"]) * 3


def test_launches_on_subsets_of_the_processes(system):
    s = system(4)
    pair, rest = [0, 1], [2, 3]
    for script in s.run(*[[("a", pair), "b", ("a", pair)]] * 2, *[[("a", rest), ("c", rest), "b"]] * 2):
        assert set(script) == {"ok"}
    # One process launches on all, the rest of its pair launches on the pair; the others continue.
    found = kinds(s.run([("a", pair), 1.0, "d"], [("a", pair), 1.0, "d"], [("a", rest), 1.0, "d"], ["a", 1.0, "d"]))
    assert found == [["ok", "ok"], ["ok", "ok"], ["AgreementError", "ok"], ["AgreementError", "ok"]]
    found = s.run(["a", "d"], [("a", pair), "d"], ["a", "d"], ["a", "d"])
    assert kinds(found) == [["AgreementError", "ok"]] * 4
    assert len({str(script[0]) for script in found}) == 1
    assert "processes 0, 2, 3" in str(found[0][0])


def test_attempts_are_numbered_alike_by_processes_that_launched_on_a_subset(system):
    # A late notice of the failed launch must not be taken for one of the next launch.
    s = system(4)
    assert kinds(s.run("a", [("a", [0, 1])], "a", "a")) == [["AgreementError"]] * 4
    assert [a.find_group((0, 1, 2, 3)).attempt for a in s.all] == [1] * 4
    assert [a.find_group((0, 1)).attempt for a in s.all[:2]] == [1, 1]
    assert kinds(s.run(*["d"] * 4)) == [["ok"]] * 4


@pytest.mark.parametrize("n", [3, 4])
def test_launch_on_a_subset_raises_once_and_the_next_equal_launches_pass(system, n):
    """Process 1 exchanges nothing with the last one, which gets its notice in a later launch of the same program."""
    s = system(n)
    subset = ("a", [0, n - 1])
    found = kinds(s.run(*[["a", "a", *"aaa"]] * (n - 1), ["a", subset, *"aaa"]))
    assert found == [["ok", "AgreementError", *["ok"] * 3]] * n


@pytest.mark.parametrize("seed", range(40 if os.environ.get("LAMINA_LAWS") else 3))
def test_equal_launches_pass_after_random_subsets(system, seed):
    """Whatever the processes have launched, two equal launches of all later none raises."""
    draw = random.Random(seed)
    n = draw.choice((3, 4))
    s = system(n)
    for _ in range(3):
        every = ("a", tuple(range(n)))
        odd = draw.randrange(n)
        subset = ("a", tuple(sorted({odd, *draw.sample(range(n), 2)})))
        found = s.run(*[[draw.choice((0.0, 0.1)), subset if r == odd else every] for r in range(n)], timeout=1.0)
        s.run(*[[draw.choice((0.0, 0.3)), every] for _ in range(n)], timeout=3.0)
        after = kinds(s.run(*[[every] * 2] * n, timeout=10.0))
        assert after == [["ok"] * 2] * n, (odd, subset, kinds(found), after)


@pytest.mark.parametrize("n", [9, 12])
def test_launch_on_a_subset_of_many_processes_raises_once(system, n):
    s = system(n)
    found = s.run(*[["a", "b"]] * (n - 1), [("s", [0, 2, n - 1]), "b"])
    assert kinds(found) == [["AgreementError", "ok"]] * n


def test_launch_on_a_subset_is_reported_as_a_failure_if_groups_are_large(system, rounds):
    s, reports = system(10), []
    for a in s.all:
        a.report_failure = reports.append
    found = s.run(*["a"] * 9, [("s", [0, 2, 9])])
    assert kinds(found) == [["AgreementError"]] * 10
    assert len(reports) == 10 and "which cannot be brought in step again" in reports[0]
    s, reports[:] = system(10), []
    for a in s.all:
        a.report_failure = reports.append
    assert kinds(s.run(*["az"] * 9, "bz")) == [["AgreementError", "ok"]] * 10 and not reports


def test_difference_is_raised_on_more_than_eight_processes(system, rounds):
    s = system(11)
    scripts = [["a", "b", "z"]] * 11
    scripts[4] = ["a", "c", "z"]
    found = s.run(*scripts)
    assert kinds(found) == [["ok", "AgreementError", "ok"]] * 11
    assert all("`c`" in str(script[1]) and "process 4" in str(script[1]) for script in found)


DEADLOCKS = {
    "three": [[("a", [0, 1]), "z"], [("b", [1, 2]), "z"], [("c", [0, 2]), "z"]],
    "again": [[("a", [0, 1]), ("a", [0, 1]), "z"], [("b", [1, 2]), ("a", [0, 1]), "z"], [("c", [0, 2]), 0.0, "z"]],
    "four": [[("a", [0, 1]), "z"], [("b", [1, 2]), "z"], [("c", [2, 3]), "z"], [("d", [0, 3]), "z"]],
    "shared": [[("a", [0, 1, 2]), "z"], [("a", [0, 1, 2]), "z"], [("b", [2, 3]), "z"], [("c", [0, 3]), "z"]],
    "late": [[("a", [0, 1]), "z"], [("b", [1, 2]), "z"], [1.5, ("c", [0, 2]), "z"]],
}


@pytest.mark.parametrize("name", DEADLOCKS)
def test_deadlock_raises_on_all_its_processes(system, name):
    scripts = DEADLOCKS[name]
    s = system(len(scripts))
    assert all(set(script) == {"ok"} for script in s.run(*[["y"]] * len(scripts)))
    start = time.monotonic()
    found = s.run(*scripts)
    assert time.monotonic() - start < 5 + 1.5 * (name == "late")
    launches = [sum(type(w) is not float for w in script) for script in scripts]
    assert kinds(found) == [["AgreementError", *["ok"] * (k - 1)] for k in launches]
    text, = {str(script[0]) for script in found}
    assert "wait for one another" in text and all(f"`{script[0 if name != 'late' or i < 2 else 1][0]}`" in text
                                                 for i, script in enumerate(scripts)), text


def test_process_outside_the_deadlock_continues(system):
    """Process 3 waits for one that raises and then launches."""
    found = system(4).run([("a", [0, 1]), ("d", [0, 3])], [("b", [1, 2])], [("c", [0, 2])], [("d", [0, 3])])
    assert kinds(found) == [["AgreementError", "ok"], ["AgreementError"], ["AgreementError"], ["ok"]]


def test_cycle_with_another_runnable_thread_is_no_deadlock(system):
    """Process 1 waits for 2, 2 for 0, and 0 for 1, where another thread can still launch."""
    s = system(3)
    programs = {r: [Program(*p) for p in (("a", [0, 1]), ("b", [1, 2]), ("c", [0, 2]))] for r in range(3)}
    s.threads[1].add("another")
    found = []
    for rank, which in ((0, 0), (1, 1), (2, 2)):
        def act(rank=rank, which=which):
            s.threads[rank].add(threading.get_ident())
            try:
                s.all[rank].agree(programs[rank][which])
                found.append("ok")
                s.threads[rank].discard(threading.get_ident())
                if rank != 1:
                    s.all[rank].agree(programs[rank][{0: 2, 2: 1}[rank]])
            except Exception as e:
                found.append(e)
        threading.Thread(target=act, daemon=True).start()
    time.sleep(2)
    assert found == []
    s.all[1].agree(programs[1][0])
    until = time.monotonic() + 10
    while len(found) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert found == ["ok"] * 3


def test_has_runnable_thread():
    gate, lock = threading.Event(), threading.Lock()
    waits, naps = threading.Thread(target=gate.wait, daemon=True), threading.Thread(target=gate.wait, args=(60,), daemon=True)
    joins = threading.Thread(target=waits.join, daemon=True)
    for t in (waits, naps, joins):
        t.start()
    time.sleep(0.2)
    pool = ThreadPoolExecutor(1)
    pool.submit(int).result()
    time.sleep(0.1)
    workers = [*pool._threads]
    others = dict.fromkeys([t.ident for t in threading.enumerate() if t not in (waits, naps, joins, *workers)])
    assert deadlock_detection.has_runnable_thread(others)  # a wait with a timeout
    assert not deadlock_detection.has_runnable_thread({**others, naps.ident: None})
    assert deadlock_detection.has_runnable_thread({**others, naps.ident: lock})
    with lock:
        assert not deadlock_detection.has_runnable_thread({**others, naps.ident: lock})
    pool.submit(gate.wait, 60)
    time.sleep(0.1)
    assert deadlock_detection.has_runnable_thread({**others, naps.ident: None})
    gate.set()
    pool.shutdown()


@pytest.mark.parametrize("seed", range(60 if os.environ.get("LAMINA_LAWS") else 3))
def test_random_scripts(system, monkeypatch, seed):
    """Random launches in one order raise nothing, for any delays and any number of searches for deadlocks. A cycle of
    launches raises on all its processes, and the next launch passes."""
    monkeypatch.setattr(launch_comparison, "_FIRST_SEARCH", 0.01)
    monkeypatch.setattr(launch_comparison, "_MAX_SEARCH_PAUSE", 0.04)
    draw = random.Random(seed)
    n = draw.choice((3, 4))
    order = [(draw.choice("abc"), tuple(sorted(draw.sample(range(n), draw.choice((2, 2, 3)))))) for _ in range(12)]

    def script(rank, order):
        return [w for what in order if rank in what[1] for w in (draw.choice((0.0, 0.0, 0.0, 0.03, 0.1)), what)]
    s = system(n)
    assert all(set(found) <= {"ok"} for found in s.run(*[script(r, order) for r in range(n)]))
    ring = [(draw.choice("abc"), tuple(sorted((r, (r + 1) % n)))) for r in range(n)]
    found = s.run(*[[draw.choice((0.0, 0.1)), w, "z"] for w in ring])
    assert kinds(found) == [["AgreementError", "ok"]] * n and len({str(f[0]) for f in found}) == 1


def test_late_process_is_waited_for(system):
    assert kinds(system(2).run(["a", "b"], [0.6, "a", "b"])) == [["ok", "ok"]] * 2


def test_timeout_names_missing_process_and_raises_on_it(system):
    s = system(3)
    found = s.run(["a", 1.5, "b"], ["a", 1.5, "b"], [1.2, "a", 0.8, "b"], timeout=0.8)
    assert kinds(found) == [["CollectiveTimeoutError", "ok"]] * 3
    error = found[0][0]
    assert isinstance(error, TimeoutError) and isinstance(error, RuntimeError)
    for part in ("process 2 did not come", "a over 'i' of float32[4], train.py:3"):
        assert all(part in str(script[0]) for script in found), found


def test_late_process_with_another_launch_continues(system):
    s = system(2)
    found = kinds(s.run(["a", 1.0, "b", "c"], [1.6, "b", "c"], timeout=0.8))
    assert found == [["CollectiveTimeoutError", "ok", "ok"], ["ok", "ok"]]


def test_difference_of_two_processes_does_not_wait_for_a_third(system):
    s = system(3)
    start = time.monotonic()
    found = s.run(["a", "z"], ["b", "z"], [3.0, "a", "z"])
    assert kinds(found) == [["AgreementError", "ok"]] * 3
    assert "process 2: not there" in str(found[0][0]) and time.monotonic() - start < 8


def test_different_program_on_each_process_with_a_late_one(system):
    s = system(4)
    found = s.run(["a", "z"], ["b", "z"], [0.7, "c", "z"], [1.5, "d", "z"])
    assert kinds(found) == [["AgreementError", "ok"]] * 4
    assert all(f"`{name}`" in str(found[3][0]) for name in "abcd")


def test_closed_connection_is_a_process_failure(system):
    s = system(3)
    assert kinds(s.run(*[["a"]] * 3)) == [["ok"]] * 3
    s.all[2].close()
    found = s.run(["a", ("b", [0, 1])], ["a", ("b", [0, 1])], [])
    assert kinds(found) == [["ConnectionError", "ok"]] * 2 + [[]], found


def test_closed_session_stops_waiting(system):
    s = system(2)
    threading.Timer(0.5, s.all[0].close).start()
    found = s.run(["a"], [], seconds=5)
    assert isinstance(found[0][0], (RuntimeError, ConnectionError))


def test_launches_of_threads_are_serialized(system):
    s = system(2)
    many = [Program("a", (0, 1)) for _ in range(2)]
    errors = []

    def work(rank):
        try:
            for _ in range(300):
                s.all[rank].agree(many[rank])
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(r,)) for r in (0, 1) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert not errors and s.all[0]._groups[0, 1].launches == 900


def test_interrupt_while_waiting_raises_on_other_processes(system):
    s = system(3)

    def look(program):
        raise KeyboardInterrupt

    s.all[0].check_peers = look
    caught = []
    t = threading.Thread(target=lambda: caught.append(_interrupted(s.all[0], Program("a", range(3)))))
    t.start()
    found = s.run([1.2, "z"], ["a", "z"], [1.2, "a", "z"])
    t.join()
    assert caught == ["KeyboardInterrupt"]
    assert kinds(found) == [["ok"], ["AgreementError", "ok"], ["AgreementError", "ok"]], found
    assert "interrupted" in str(found[1][0])


def _interrupted(a, program):
    try:
        a.agree(program)
    except BaseException as e:
        a.check_peers = lambda program: None
        return type(e).__name__


def test_mode_first_checks_each_program_once(system):
    s = system(2, "first")
    found = s.run(["a", "b", *"aaaa"], ["a", "b", *"aaaa"])
    assert kinds(found) == [["ok"] * 6] * 2
    assert kinds(s.run(["a"], [])) == [["ok"], []]  # no exchange
    assert kinds(s.run(["c"], ["c"])) == [["AgreementError"]] * 2  # the next new program detects the other order


def test_wrong_token_is_rejected(system):
    s = system(2, keys={1: b"other"})
    found = s.run(["a"], ["a"], seconds=20)
    assert kinds(found) == [["ConnectionError"]] * 2


def test_garbage_on_listening_sockets_is_ignored(system):
    s = system(2)
    for listener in s.all[0].sockets._listeners:
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n" * 20, b"\xff" * 200):
            with socket.socket(listener.family, socket.SOCK_STREAM) as c:
                c.connect(listener.getsockname())
                c.sendall(data)
    assert kinds(s.run(["a"], ["a"])) == [["ok"], ["ok"]]


@pytest.mark.parametrize("same_machine", [True, False])
def test_peers_on_one_machine_use_unix_sockets(system, monkeypatch, same_machine):
    if not same_machine:
        monkeypatch.setattr(peer_sockets, "_connect_unix", lambda name, seconds: None)  # as on two machines
    elif not peer_sockets._UNIX_PREFIX:
        pytest.skip("Linux")
    s = system(2)
    assert kinds(s.run("ab", "ab")) == [["ok"] * 2] * 2
    family = s.all[0].sockets.peer(1).out_socket.family
    assert family == (socket.AF_UNIX if same_machine else socket.AF_INET) == s.all[1].sockets.peer(0).in_socket.family


def test_attempt_to_connect_to_a_stopped_process_ends_with_its_loss(system):
    """A stopped process accepts connections and does not answer."""
    s = system(2)
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        s.all[0].sockets._peers[1] = json.dumps([*stopped.getsockname(), "no such name"])
        threading.Timer(0.3, s.all[0].sockets.abort_connecting).start()
        begun = time.monotonic()
        assert kinds(s.run(["a"], [])) == [["ConnectionError"], []] and time.monotonic() - begun < 5


def test_polling_without_data_becomes_rare():
    peer, asked = peer_sockets.Peer(1), []

    def recv(size, flags=0):
        asked.append(flags)
        if flags and not there:
            raise BlockingIOError
        return bytes(peer_sockets.TOKEN_BYTES)
    peer.recv, there = recv, False
    for _ in range(1000):
        assert peer.receive_token() == bytes(peer_sockets.TOKEN_BYTES)
    assert asked.count(0) == 1000 and asked.count(socket.MSG_DONTWAIT) < 40 * peer_sockets._POLLS
    there = True
    for _ in range(40):
        peer.receive_token()
    del asked[:]
    for _ in range(40):
        peer.receive_token()
    assert asked == [socket.MSG_DONTWAIT] * 40


@pytest.mark.parametrize("n", [9, 16, 100, 4096])
def test_exchange_rounds_reach_all_processes(rounds, n):
    """Simulated: after the last round each process has data of all; each sends and receives equally often."""
    ranks = range(n)
    every = [exchange_rounds(ranks, r) for r in ranks] if n <= 100 else None
    assert len(exchange_rounds(ranks, n // 2)) == (n - 1).bit_length()
    if every is None:
        return
    known = [{r} for r in ranks]
    for k in range(len(every[0])):
        known = [known[r].union(*[known[q] for q in every[r][k][1]]) for r in ranks]
        assert all(r in every[q][k][0] for r in ranks for q in every[r][k][1])
    assert all(k == set(ranks) for k in known)


def test_invalid_settings_are_refused():
    with pytest.raises(ValueError, match="expected one of"):
        config.update("agreement", "sometimes")
    for wrong in (0, -1, "soon", True):
        with pytest.raises(ValueError, match="config collective_timeout_seconds: expected a number"):
            config.update("collective_timeout_seconds", wrong)


def test_agreement_setting_cannot_change_after_initialize(monkeypatch):
    monkeypatch.setattr(process_group, "active_groups", ["a group"])
    with pytest.raises(RuntimeError, match="before distributed.initialize"):
        config.update("agreement", "first")
    assert config.read("agreement") == "every"


class Monitor:
    """A failure monitor that records the failures of launches that are reported to it."""

    def __init__(self):
        self.reports = []

    def check(self, program):
        pass

    def report_launch_failure(self, call, launch, count, error):
        self.reports.append((call, launch))


def test_threads_start_and_number_launches_in_the_agreed_order(system):
    """One process is slow between the agreement and the start of a launch: its other thread must not overtake."""
    s = system(2)
    launchers = [multi_process.MultiProcessLauncher(Monitor()) for _ in s.all]
    started = [[], []]

    def launch(rank, name):
        program = Program(name, (0, 1))
        program.first_launch_done = True

        def start():
            started[rank].append(name)
            raise RuntimeError("the launch failed here")
        with pytest.raises(RuntimeError, match="failed here"):
            launchers[rank].launch(program, [], start)

    for launcher, agreement in zip(launchers, s.all):
        launcher.launch_agreed = agreement.agree
    launchers[0].latest = True
    launchers[0]._await_latest = lambda program: time.sleep(0.5 if program.name == "first" else 0)

    def second(rank):
        agreement = s.all[rank]
        while (0, 1) not in agreement._groups or not agreement._groups[0, 1].launches:
            time.sleep(0.01)
        launch(rank, "second")

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(launch, 0, "first"), pool.submit(launch, 1, "first"), pool.submit(second, 0),
                       pool.submit(second, 1)]:
            future.result(20)
    assert started == [["first", "second"]] * 2
    assert launchers[0].monitor.reports == launchers[1].monitor.reports
