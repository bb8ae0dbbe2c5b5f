"""The line of long compilations and transfers: only on a terminal, only after a while, erased at the end."""
import io
import os
import signal
import threading
import time
from types import SimpleNamespace

import lamina_runtime as lr
import numpy as np
import pytest
from lamina_ir import config
from lamina_runtime._array import arrays
from lamina_runtime._backend import progress
from lamina_tracing import jit


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return not super().isatty()  # raises if closed


@pytest.fixture
def terminal(monkeypatch):
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))  # pytest replaces sys.stderr itself
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_DELAY", 0.1)
    monkeypatch.setattr(progress, "_REDRAW", 0.02)
    monkeypatch.setattr(progress, "_watcher", progress._Watcher())
    return found


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def progress_threads() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "lamina-progress"]


def test_long_operation_is_shown_updated_and_erased(terminal):
    with progress.operation("compiling `f`"):
        wait_until(lambda: terminal.getvalue().count("lamina: compiling `f`, 0 s") >= 2)
    assert terminal.getvalue().endswith("\r\x1b[2K")
    shown = terminal.getvalue()
    wait_until(lambda: progress._watcher.thread is None)  # the thread ends
    assert terminal.getvalue() == shown


def test_short_operations_are_not_shown(terminal):
    for _ in range(5):
        with progress.operation("compiling `f`"):
            pass
    assert len(progress_threads()) <= 1
    wait_until(lambda: progress._watcher.thread is None)
    assert terminal.getvalue() == ""


def test_several_operations_share_a_line(terminal):
    with progress.operation("compiling `f`"), progress.operation("compiling `g`"):
        wait_until(lambda: "compiling `f` and 1 more, 0 s" in terminal.getvalue())


@pytest.mark.parametrize("how", ["no terminal", "setting", "dumb terminal", "no stream", "closed stream"])
def test_nothing_is_shown_and_no_thread_is_started(terminal, monkeypatch, how):
    if how == "dumb terminal":
        monkeypatch.setenv("TERM", "dumb")
    if how == "closed stream":
        terminal.close()
    if how in ("no terminal", "no stream"):
        monkeypatch.setattr(progress.sys, "stderr", io.StringIO() if how == "no terminal" else None)
    with config.show_progress(how != "setting"), progress.operation("compiling `f`"):
        assert not progress._watcher.operations and progress._watcher.thread is None


def test_terminal_that_fails_does_not_disturb_the_operation(terminal, monkeypatch):
    monkeypatch.setattr(terminal, "write", lambda text: (_ for _ in ()).throw(OSError("gone")))
    with progress.operation("compiling `f`"):
        time.sleep(0.2)


def test_line_is_erased_if_the_operation_is_interrupted(terminal):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may ignore the signal
    with pytest.raises(KeyboardInterrupt):
        with progress.operation("compiling `f`"):
            wait_until(lambda: "compiling" in terminal.getvalue())
            signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert terminal.getvalue().endswith("\r\x1b[2K") and not progress._watcher.operations


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_starts_a_thread_of_its_own(terminal):
    with progress.operation("compiling `f`"):
        parent = progress._watcher
        progress.reset_after_fork()  # what the child runs
        assert progress._watcher is not parent and not progress._watcher.operations
        with progress.operation("compiling `g`"):
            assert progress._watcher.thread is not parent.thread
            wait_until(lambda: "compiling `g`, 0 s" in terminal.getvalue())


def test_compilations_and_large_transfers_are_operations(monkeypatch):
    found = []

    def record(text):
        found.append(text)
        return progress._NOTHING

    monkeypatch.setattr(progress, "operation", record)
    monkeypatch.setattr(progress, "LARGE", 1 << 12)

    def never_compiled_before(x):
        return x * 1234.5

    jit(never_compiled_before)(2.0)
    assert found == ["compiling `never_compiled_before`"]
    found.clear()
    small, large = np.ones(10, np.float32), np.ones(2048, np.float32)
    arrays.host_value(lr.device_put(small))
    assert not found
    arrays.host_value(lr.device_put(large))
    assert found == ["copying float32[2048] to devices", "reading float32[2048] on the host"]
