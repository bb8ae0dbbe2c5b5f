"""A process is stopped between the start of jaxlib's service and its connection: the others raise, and none is aborted."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `processes`
from processes import free  # noqa: E402

pytestmark = pytest.mark.slow

MEMBER = """
import os, signal, sys, threading, time
from lamina import distributed
address, rank, place = sys.argv[1], int(sys.argv[2]), sys.argv[3]
names = distributed.initialize.__globals__
check = names["_check_service"]
def stop(): os.kill(os.getpid(), signal.SIGSTOP)
if rank == 2 and place == "before": names["_check_service"] = lambda s: (stop(), check(s))
if rank == 2 and place == "after": names["_check_service"] = lambda s: (check(s), stop())
if rank == 2 and place == "within": names["_check_service"] = lambda s: (check(s), threading.Timer(0.5, stop).start())
if rank == 1 and place == "within": names["_check_service"] = lambda s: (time.sleep(1.5), check(s))
try:
    distributed.initialize(address, 3, rank, heartbeat_timeout_seconds=2, initialization_timeout=30)
except ConnectionError as e:
    print(e)
"""


@pytest.mark.parametrize("place", ["before", "after", "within"] if os.environ.get("LAMINA_WIDE") else ["after"])
def test_others_name_the_stopped_process(place):
    address = free()
    every = [subprocess.Popen([sys.executable, "-c", MEMBER, address, str(r), place], text=True, stdout=subprocess.PIPE)
             for r in range(3)]
    try:
        for p in every[:2]:
            assert "process 2 (" in p.communicate(timeout=60)[0] and p.returncode == 0
        every[2].send_signal(signal.SIGCONT)
        text = every[2].communicate(timeout=60)[0]  # within 40 s if it was stopped in `connect`
        assert every[2].returncode == 0 and "distributed.initialize: " in text
    finally:
        for p in every:
            p.kill()
            p.communicate()
