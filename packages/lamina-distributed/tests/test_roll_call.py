"""Where each process is: the states of threads as read from their stacks, and the text that all processes print."""
import threading
import time

import numpy as np
import pytest
from lamina_runtime._compile import compiler
from lamina_distributed._group import roll_call, thread_states
from lamina_distributed._group.roll_call import RollCall
from lamina_tracing import jit, pure_callback

WAIT = {"kind": "waits", "launch": "pmap of `step`", "number": 8, "for": [2], "processes": [0, 1, 2], "seconds": 61.2,
        "at": "train.py:21", "function": "train", "source": "state = step(state)"}
READ = {"kind": "python", "blocked": True, "seconds": 61.9, "at": "load.py:3", "function": "read", "source": "input()"}


def state_during(act, kind):
    """Return the state of another thread of this kind while `act(event)` runs there and waits for the event."""
    states, event = thread_states.ThreadStates(), threading.Event()
    thread = threading.Thread(target=act, args=(event,))
    thread.start()
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            found = [s for s in thread_states.add_source_lines(states.sample()) if s["kind"] == kind]
            if found:
                time.sleep(0.05)
                again = [s for s in states.sample() if s["kind"] == kind]
                return found[0], again[0]
            time.sleep(0.01)
    finally:
        event.set()
        thread.join()
    raise AssertionError(f"no thread is {kind}")


def test_callback_is_described_by_its_line():
    def act(event):
        def callback(x):
            event.wait()  # in the callback
            return x
        np.asarray(jit(lambda x: pure_callback(callback, x, x))(np.float32(1)))
    first, second = state_during(act, "callback")
    assert first["source"] == "event.wait()  # in the callback" and first["function"] == "callback"
    assert first["at"] == second["at"] and second["seconds"] >= first["seconds"]


def test_compilation_is_described_by_its_function():
    def act(event):
        class Waiting(compiler.XLACompiler):
            name = "waiting"

            def compile(self, *args):
                event.wait()
                return super().compile(*args)
        before = compiler.set_compiler(Waiting())
        try:
            def cube_root_of_seven(x):
                return x * 7.25 - 1
            jit(cube_root_of_seven)(np.float32(3))  # compiles
        finally:
            compiler.set_compiler(before)
    first, _ = state_during(act, "compiling")
    assert first["launch"] == "cube_root_of_seven"


def test_main_thread_is_first_and_threads_that_only_run_python_are_left_out():
    found = []
    idle, event = threading.Event(), threading.Event()
    other = threading.Thread(target=event.wait)
    sampler = threading.Thread(target=lambda: (found.extend(thread_states.ThreadStates().sample()), idle.set()))
    other.start()
    sampler.start()
    idle.wait()
    event.set()
    other.join()
    sampler.join()
    (state,) = found
    assert state["kind"] == "python" and state["thread"] == threading.main_thread().ident
    assert state["function"] == "test_main_thread_is_first_and_threads_that_only_run_python_are_left_out"


@pytest.mark.parametrize("code, names", list(zip(
    thread_states._READERS, [{"frames"}, {"program"}, {"self", "rank"}, {"self"}, set()])),
    ids=lambda x: getattr(x, "co_name", ""))
def test_functions_still_have_the_variables_that_are_read(code, names):
    assert names <= {*code.co_varnames, *code.co_cellvars}


def make(rank, answers, asked=None):
    def ask(r, question, seconds):
        if asked is not None:
            asked.append((r, question["roll call"]))
        return answers.get(r)
    call = RollCall(rank, ask)
    call.describe = lambda: {"threads": [WAIT]}
    call.known_launch = lambda r: "it came to launch 7"
    return call


def test_text_has_each_process_and_what_is_known_of_a_silent_one():
    call = make(0, {1: {"threads": [WAIT]}, 2: {"threads": [READ], "last": {"number": 7, "launch": "pmap of `step`"}}})
    assert call.text([0, 1, 2, 3]).splitlines() == [
        "  process 0: waits for process 2 in launch 8, pmap of `step`, for 61 s, at train.py:21 in train: state = step(state)",
        "  process 1: waits for process 2 in launch 8, pmap of `step`, for 61 s, at train.py:21 in train: state = step(state)",
        "  process 2: is blocked in the system, for 62 s, at load.py:3 in read: input(); its last launch is launch 7, pmap "
        "of `step`",
        "  process 3: does not answer: it is stopped, or its threads cannot run Python; it came to launch 7"]


def test_last_answer_of_a_process_that_was_stopped_later_is_shown():
    answers = {1: {"threads": [READ]}}
    call = make(0, answers)
    call.collect([0, 1])
    answers.clear()
    assert call.text([1]).splitlines()[1:] == ["      0 s ago:", "        process 1: is blocked in the system, for 62 s, at "
                                               "load.py:3 in read: input()"]


def test_text_is_kept_for_others_and_made_by_the_leader():
    asked = []
    call = make(0, {1: {"threads": [WAIT]}}, asked)
    text = call.text([0, 1])
    assert call.answer({"roll call": "get", "ranks": [0, 1]}) == {"text": text} and asked == [(1, "where")]
    follower = make(1, {0: {"text": "that of process 0"}})
    assert follower.text_of(0, [0, 1]) == "that of process 0"
    assert "process 1: waits" in make(1, {}).text_of(0, [0, 1])  # the leader does not answer


def test_report_is_printed_once(capsys):
    call = make(0, {})
    for _ in range(3):
        assert call.answer({"roll call": "print", "text": "lamina: where"}) == {}
    assert capsys.readouterr().err == "lamina: where\n"


@pytest.mark.parametrize("answer", [{}, {"threads": 3}, {"threads": [{}]}, {"threads": [{"kind": "waits"}]}])
def test_malformed_answers_count_as_none(answer):
    assert "process 1: does not answer" in make(0, {1: answer}).text([1])


def test_format_of_ranks():
    assert roll_call.format_ranks([*range(20)]).endswith("14, 15 and 4 more")
