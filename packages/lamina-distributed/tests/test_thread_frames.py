"""The local variables of the standard library's frames that `thread_frames` reads have the meaning that it relies on."""
import contextlib
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from lamina_distributed._group import thread_frames


def is_blocked(thread):
    return thread_frames.is_blocked(thread_frames.current_frames()[thread.ident])


def wait_until_blocked(thread):
    until = time.monotonic() + 5
    while not is_blocked(thread) and time.monotonic() < until:
        time.sleep(0.01)
    return is_blocked(thread)


def wait_in_condition(condition, timeout=None):
    with condition:
        condition.wait(timeout)


def start(function, *args):
    def run():
        with contextlib.suppress(queue.Empty):
            function(*args)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


GATE = threading.Event()  # never set
WAITS = {"event": lambda: start(GATE.wait), "condition": lambda: start(wait_in_condition, threading.Condition()),
         "queue": lambda: start(queue.Queue().get), "join": lambda: start(start(GATE.wait).join)}
TIMED = {"event": lambda: start(GATE.wait, 9), "condition": lambda: start(wait_in_condition, threading.Condition(), 9),
         "queue": lambda: start(queue.Queue().get, True, 9), "join": lambda: start(start(GATE.wait).join, 9),
         "sleep": lambda: start(time.sleep, 9), "lock": lambda: start(LOCK.acquire)}
LOCK = threading.Lock()
LOCK.acquire()


@pytest.mark.parametrize("name", WAITS)
def test_a_wait_without_a_time_limit_is_blocked(name):
    assert wait_until_blocked(WAITS[name]())


@pytest.mark.parametrize("name", TIMED)
def test_other_waits_are_runnable(name):
    thread = TIMED[name]()
    time.sleep(0.2)
    assert not is_blocked(thread)


def test_a_notified_thread_is_runnable():
    """`notify` releases `waiter` before the thread runs: here it cannot, because it needs the condition's lock."""
    condition = threading.Condition()
    thread = start(wait_in_condition, condition)
    assert wait_until_blocked(thread)
    with condition:
        condition.notify()
        assert not is_blocked(thread)


def test_idle_workers_of_an_executor_are_blocked_and_busy_ones_are_not():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        worker, = pool._threads
        assert wait_until_blocked(worker)
        done = threading.Event()
        pool.submit(lambda: done.wait(20))
        time.sleep(0.2)
        assert not is_blocked(worker)
        done.set()
        assert wait_until_blocked(worker)


def test_a_main_thread_that_waits_for_others_at_exit_is_blocked():
    main = threading.main_thread()
    assert not is_blocked(main)
    assert thread_frames._SHUTDOWN.co_name == "_shutdown" and callable(threading._shutdown)
