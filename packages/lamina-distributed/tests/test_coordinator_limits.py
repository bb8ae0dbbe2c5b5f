"""A real coordinator under garbage, slow, huge and replayed messages: it serves its processes and uses little memory."""
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

import pytest
from lamina_distributed import coordinator
from lamina_distributed._coordinator import connections
from lamina_distributed._rendezvous import rendezvous_client, rendezvous_protocol, spawn_coordinator

KEY = b"a secret of these tests"
ABOUT = {"fits": {}, "heartbeat": 10, "leaving": 10}


@pytest.fixture
def coordinator_process():
    address, process = spawn_coordinator.start_coordinator("127.0.0.1:0", KEY, 60, detach=False)
    try:
        yield rendezvous_protocol.parse_address(address), process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


def memory(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def join_two(address):
    """Let two processes join, and leave again. Return the seconds that it took."""
    began, found = time.monotonic(), []

    def join(rank):
        found.append(rendezvous_client.join(rendezvous_protocol.format_address(*address), rank, 2, ABOUT, KEY, 30))
    threads = [threading.Thread(target=join, args=(r,)) for r in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert len(found) == 2
    for m in found:
        m.leave()
    return time.monotonic() - began


def garbage(kind):
    """Yield what an attacker sends, piece by piece."""
    if kind == "bytes":
        yield random.randbytes(50_000)
    elif kind == "huge line":
        for _ in range(200):
            yield b"x" * 50_000
    elif kind == "many lines":
        for _ in range(100_000):
            yield b'{"lamina": 1}\n' * 100
    elif kind == "deep":
        yield b"[" * 60_000 + b"\n"
    elif kind == "numbers":
        yield b'{"hello": ' + b"9" * 50_000 + b"}\n"
    elif kind == "wrong token":
        yield json.dumps({"hello": json.dumps({"rank": 0, "count": 2}), "mac": "0" * 64}).encode() + b"\n"
    elif kind == "surrogates":
        yield b'{"hello": "{}", "mac": "\\ud800"}\n'
    elif kind == "slow":
        for _ in range(1000):
            yield b"{"
            time.sleep(0.05)


KINDS = ["bytes", "huge line", "many lines", "deep", "numbers", "wrong token", "surrogates", "slow", "idle"]


def test_attacks_neither_stop_nor_exhaust_a_coordinator(coordinator_process):
    address, process = coordinator_process
    stop, before, peak = threading.Event(), memory(process.pid), [0, 0]

    def attack(kind):
        with contextlib.ExitStack() as idle:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    s = socket.create_connection(address, 5)
                    idle.callback(s.close)
                    for piece in garbage(kind):
                        s.sendall(piece)
                        if stop.is_set():
                            return
                time.sleep(0.005)

    threads = [threading.Thread(target=attack, args=(k,)) for k in KINDS]
    for t in threads:
        t.start()
    try:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            peak = [max(peak[0], memory(process.pid)), max(peak[1], len(os.listdir(f"/proc/{process.pid}/fd")))]
            time.sleep(0.05)
        assert join_two(address) < 20
    finally:
        stop.set()
        for t in threads:
            t.join(30)
    assert peak[0] - before < 200 << 20, peak  # jaxlib is loaded meanwhile
    assert peak[1] < connections._MAX_UNAUTHENTICATED + 50, peak
    assert process.wait(20) == 0  # after the last process has left


def test_replayed_hello_is_refused(coordinator_process):
    address, process = coordinator_process

    def connect():
        s = socket.create_connection(address)
        lines = rendezvous_protocol.LineStream(s)
        return s, lines, lines.read(10)["challenge"]
    hello = json.dumps({"rank": 0, "count": 2, "timeout": 50, "heartbeat": 10, "leaving": 1, "fits": {}, "nonce": ""})
    s, lines, challenge = connect()
    message = {"hello": hello, "mac": rendezvous_protocol.mac(KEY, "guest", challenge, hello)}
    with s:
        lines.send(**message)
        assert "proof" in lines.read(10)
        other, replayed, _ = connect()
        with other:
            replayed.send(**message)  # recorded on the network
            answer = replayed.read(10)
            assert answer["kind"] == "permission" and "another token" in answer["error"], answer
        assert process.poll() is None


def test_connection_that_does_not_read_is_ended_and_not_garbled():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        ours = listener.accept()[0]
    with ours, theirs:
        ours.setblocking(False)
        lines = rendezvous_protocol.LineStream(ours)
        for _ in range(10_000):
            lines.send(text="x" * 1000)
        theirs.settimeout(5)
        received = b""
        while more := theirs.recv(1 << 16):
            received += more
        *whole, rest = received.split(b"\n")  # at most half a line is the last
        assert 10 < len(whole) < 10_000 and all(json.loads(line) == {"text": "x" * 1000} for line in whole) and len(rest) < 1012


@pytest.mark.parametrize("address, token, works", [("127.0.0.1:0", "short", True), ("0.0.0.0:0", "short", False),
                                                   ("0.0.0.0:0", "x" * 16, True)])
def test_short_token_is_refused_beyond_the_loopback(address, token, works):
    done = subprocess.run([sys.executable, "-m", "lamina_distributed.coordinator", address, "--startup-timeout", "0.1"],
                          env={**os.environ, "LAMINA_TOKEN": token}, capture_output=True, text=True, timeout=60)
    assert done.returncode == (0 if works else 1)
    if not works:
        assert "the token has 5 bytes; at 0.0.0.0, which other machines reach" in json.loads(done.stdout)["error"]


def test_coordinators_listen_at_the_loopback_unless_an_address_is_given(capsys):
    with pytest.raises(SystemExit):
        coordinator.main(["--help"])
    process = subprocess.Popen([sys.executable, "-m", "lamina_distributed.coordinator", "--startup-timeout", "0.1"], text=True,
                               stdout=subprocess.PIPE, env={**os.environ, "LAMINA_TOKEN": "short"})
    assert json.loads(process.communicate(timeout=60)[0])["address"].startswith("127.0.0.1:")
