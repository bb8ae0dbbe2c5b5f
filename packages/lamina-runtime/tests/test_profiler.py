import pytest
from lamina_runtime import profiler
from lamina_tracing import jit, lax


def test_a_profile_is_written(tmp_path):
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
