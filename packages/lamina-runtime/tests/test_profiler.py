import linecache
import os

import numpy as np
import pytest
from lamina_runtime import profiler
from lamina_tracing import jit, lax


def test_trace_writes_a_profile(tmp_path):
    f = jit(lambda x: lax.sin(x))
    with profiler.trace(tmp_path):
        with profiler.StepTraceAnnotation("step", step_num=1), profiler.TraceAnnotation("inner"):
            f(1.0).block_until_ready()
        with pytest.raises(RuntimeError, match="already"):
            profiler.start_trace(tmp_path)
    assert list(tmp_path.rglob("*.xplane.pb"))
    with pytest.raises(RuntimeError, match="start_trace first"):
        profiler.stop_trace()
    assert profiler.annotate_function(lambda x: x + 1)(1) == 2


def test_profile_is_read_with_its_options(tmp_path):
    f = jit(lambda x: lax.cos(x))
    options = profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 2, 0
    with profiler.trace(tmp_path, profiler_options=options), profiler.TraceAnnotation("named step"):
        f(1.0).block_until_ready()
    data = profiler.ProfileData.from_file(str(next(tmp_path.rglob("*.xplane.pb"))))
    planes = list(data.planes)
    lines = [line for plane in planes for line in plane.lines]
    events = [event for line in lines for event in line.events]
    assert any(event.name == "named step" and event.duration_ns > 0 for event in events)
    for found, kind in ((data, "Data"), (planes[0], "Plane"), (lines[0], "Line"), (events[0], "Event")):
        assert isinstance(found, getattr(profiler, f"Profile{kind}"))
    with pytest.raises(TypeError, match="start_trace: profiler_options must be a ProfileOptions or None; got dict"):
        profiler.start_trace(tmp_path, profiler_options={})


def test_this_process_is_no_subprocess():
    with pytest.raises(ValueError, match=f"register_subprocess: pid {os.getpid()} cannot be registered"):
        profiler.register_subprocess(os.getpid(), 12345)


def work(w, x):
    y = lax.dot(x, w)  # the product
    return lax.tanh(y)  # the tanh


def line_of(text):
    return next(i for i in range(1, 100) if text in linecache.getline(__file__, i))


def test_time_by_line(tmp_path):
    args = np.ones((64, 64), "float32"), np.ones((64, 64), "float32")
    compiled = jit(work).lower(*args).compile()
    with profiler.trace(tmp_path):
        compiled(*args).block_until_ready()
    found = profiler.time_by_line(tmp_path, compiled)
    assert {t.line for t in found if t.file == __file__} & {line_of("the " + "product"), line_of("the " + "tanh")}
    assert all(t.seconds >= 0 for t in found) and found == sorted(found, key=lambda t: -t.seconds)
    with pytest.raises(FileNotFoundError, match="record one"):
        profiler.time_by_line(tmp_path / "none", compiled)


def test_own_time_of_a_loop_excludes_its_body():
    events = [{"ph": "X", "tid": 1, "ts": 0, "dur": 10, "name": "while", "args": {"hlo_op": "while"}},
              {"ph": "X", "tid": 1, "ts": 1, "dur": 4, "name": "mul", "args": {"hlo_op": "mul"}},
              {"ph": "X", "tid": 1, "ts": 6, "dur": 3, "name": "mul", "args": {"hlo_op": "mul"}},
              {"ph": "X", "tid": 2, "ts": 2, "dur": 5, "name": "add", "args": {"hlo_op": "add"}}]
    total = {}
    for op, seconds in profiler._own_times(iter(events)):
        total[op] = total.get(op, 0) + round(seconds * 1e6)
    assert total == {"while": 3, "mul": 7, "add": 5}


def test_instructions_of_the_compiled_program_have_lines():
    compiled = jit(work).lower(np.ones((64, 64), "float32"), np.ones((64, 64), "float32")).compile()
    found = compiled.instruction_lines()
    assert {at.line for lines in found.values() for at in lines} == {line_of("the " + "product"), line_of("the " + "tanh")}
    assert {at.op for lines in found.values() for at in lines} == {"dot_general", "tanh"}
