"""One process of a group in which one after another gets stuck, for `test_stuck_processes`.

usage: python stuck_member.py ADDRESS RANK COUNT CASE:VICTIM ...

For each case the victim prints "stuck" and does something else for a while; the others launch. The comments name the
lines at which the roll call must find it.
"""
import faulthandler
import signal
import sys
import time

import numpy as np

import lamina
from lamina import distributed, lax
from lamina.experimental import checkpointing

REPORT, STUCK = 1.0, 4.0  # seconds
faulthandler.register(signal.SIGUSR1)
address, rank, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
lamina.config.update("collective_report_seconds", REPORT)
distributed.initialize(address, count, rank, heartbeat_timeout_seconds=60)
slow = False


def step(x):
    return x + lax.psum(x, "i")


def wait_in_callback(x):
    if slow:
        time.sleep(STUCK)  # in callback
    return x


def with_callback(x):
    return lax.psum(lamina.pure_callback(wait_in_callback, x, x), "i")


def big(x):
    for i in range(500):
        x = lax.sort(x * (i + number)) if i % 2 else lax.cumsum(lax.sin(x @ x), 0)
    return x


f, g = lamina.pmap(step, axis_name="i"), lamina.pmap(with_callback, axis_name="i")
x = np.ones((1, 4), np.float32)
own = lamina.jit(lambda x: lamina.pure_callback(wait_in_callback, x, x))
np.asarray(own(np.float32(1)))
np.asarray(g(x))
for number, case in enumerate(sys.argv[4:]):
    case, victim = case.split(":")
    np.asarray(f(x))
    slow = rank == int(victim)
    if slow:
        print("stuck", flush=True)
        if case == "read":
            sys.stdin.readline()  # in read
        elif case == "stop":
            sys.stdin.readline()  # the test stops the process here
        elif case == "compile":
            lamina.jit(big).lower(np.ones((64, 64), np.float32)).compile()  # in compile
        elif case == "callback":
            np.asarray(own(np.float32(1)))
    if case == "launch":  # a callback of the program that all are in
        np.asarray(g(x))
    elif case == "save":
        if slow:
            time.sleep(STUCK)  # in save
        checkpointing.save("memory://stuck", {"x": 1}, step=number)
    np.asarray(f(x))  # waits
    print("round", flush=True)
distributed.shutdown()
