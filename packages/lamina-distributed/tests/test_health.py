"""Answers to probes and metrics: `initialize(health_port=...)`, and the bytes of collectives in HLO."""
import contextlib
import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from lamina_distributed._health import collective_bytes, health_server

HLO = """HloModule jit_f, entry_computation_layout={(f32[8]{0})->f32[8]{0}}

%sum (a: f32[], b: f32[]) -> f32[] {
  ROOT %r = f32[] add(f32[] %a, f32[] %b)
}

%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {
  %x = f32[8]{0} get-tuple-element(%p), index=1
  %r = f32[8]{0} all-reduce(f32[8]{0} %x), channel_id=1, replica_groups={{0,1}}, to_apply=%sum
  ROOT %t = (s32[], f32[8]{0}) tuple(%i, %r)
}

%cond (p: (s32[], f32[8])) -> pred[] {
  ROOT %c = pred[] compare(%i, %n), direction=LT
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %w = (s32[], f32[8]{0}) while(%t0), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"10"}}
  %g = (bf16[4,2]{1,0}, pred[3]{0}) all-gather(%a, %b), dimensions={0}
  %p = c64[] collective-permute-start(%z), source_target_pairs={{0,1}}
  ROOT %y = f32[8]{0} get-tuple-element(%w), index=1
}
"""


def test_bytes_of_collectives_are_counted_with_loops():
    assert collective_bytes.count_bytes(HLO) == {"all-reduce": 320, "all-gather": 19, "collective-permute": 8}
    assert collective_bytes.count_bytes("") == {}


@pytest.mark.parametrize("value, kind", [(0, ValueError), (70000, ValueError), ("80", TypeError), (True, TypeError)])
def test_invalid_ports_are_refused(monkeypatch, value, kind):
    with pytest.raises(kind, match="distributed.initialize: health_port must be"):
        health_server.check_port(value)
    monkeypatch.setenv("LAMINA_HEALTH_PORT", "x")
    with pytest.raises(ValueError, match="LAMINA_HEALTH_PORT must be a port number; got str: 'x'"):
        health_server.check_port(None)
    monkeypatch.setenv("LAMINA_HEALTH_PORT", "8478")
    assert health_server.check_port(None) == 8478 and health_server.check_port(81) == 81


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()


def test_slow_and_foreign_clients_do_not_stop_the_server(closing, monkeypatch):
    monkeypatch.setattr(health_server, "_REQUEST_TIMEOUT", 0.5)
    port = free_port()
    server = closing(health_server.HealthServer(port))
    with pytest.raises(ConnectionError, match=f"health_port {port} cannot be used: Address already in use"):
        health_server.HealthServer(port)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(5)]
        slow[1].sendall(b"\0" * 200_000)
        end = time.monotonic() + 20
        found = 0
        while found != 200 and time.monotonic() < end:
            with contextlib.suppress(OSError):
                slow[0].sendall(b"x")  # a byte now and then
            with contextlib.suppress(OSError):
                found = get(port, "/livez")[0]
        assert found == 200
    assert get(port, "/readyz") == (503, "not all processes are connected yet\n")
    assert get(port, "/")[0] == 404
    server.metrics._launches["pmap"] += 1
    assert 'lamina_launches_total{call="pmap"} 1' in get(port, "/metrics")[1]


PROGRAM = """
import os, signal, sys, time
import urllib.error, urllib.request
import numpy as np
import lamina_runtime as rt
from lamina_ir import config
from lamina_parallel import pmap, psum
import lamina_distributed as distributed
config.update("num_cpu_devices", 2)
address, count, rank, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]) + int(sys.argv[3])
def get(path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
distributed.initialize(address, count, rank, health_port=port)
assert get("/livez") == get("/readyz") == (200, "ok\\n")
f = pmap(lambda x: psum(x, "i"), axis_name="i")
for _ in range(3):
    np.asarray(f(np.ones((2, 10), np.float32)))
text = get("/metrics")[1]
print(text)
if rank:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True: np.asarray(f(np.ones((2, 10), np.float32)))
except distributed.ProcessLostError:
    pass
status, text = get("/readyz")
assert status == 503 and text.startswith("lost: process 1 ("), text
assert get("/livez")[0] == 200 and "lamina_lost_processes_total 1" in get("/metrics")[1]
distributed.shutdown()
try:
    get("/livez")
except urllib.error.URLError:
    print("closed")
"""


@pytest.mark.slow
def test_probes_and_metrics_of_two_processes(processes):
    port = int(processes.free_address().rpartition(":")[2])
    (status, text), (lost, _) = processes.run_all(PROGRAM, 2, port)
    assert status == 0 and lost == -9 and text.rstrip().endswith("closed"), text
    assert re.search(r'^lamina_launches_total{call="pmap"} 3$', text, re.M), text
    # 10 floats in each of the 2 devices of this process, in 3 launches
    assert re.search(r'^lamina_collective_bytes_total{collective="all-reduce"} 240$', text, re.M), text
    assert re.search(r"^lamina_wait_seconds_total \d+\.\d+$", text, re.M) and "\n# EOF\n" in text
    for name in re.findall(r"^(lamina_\w+)", text, re.M):  # each sample has a type
        assert f"# TYPE {name.removesuffix('_total')} " in text
