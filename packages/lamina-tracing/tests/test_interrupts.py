"""KeyboardInterrupt at every line of the tracing machinery: afterwards the thread state is unchanged and usable."""
import gc
import sys

import numpy as np
import pytest
from lamina_ir import config
from lamina_tracing import ensure_compile_time_eval, jit, lax, make_jaxpr, named_call, named_scope
from lamina_tracing._core.source_lines import is_library_file
from lamina_tracing.extend import (EVALUATION, AxisFrame, Trace, extend_axis_env, api_boundary, new_trace_level,
                                   trace_state, stage)

FILES = ("lamina_tracing/_core/trace.py", "lamina_tracing/_core/staging.py", "lamina_tracing/api.py",
         "lamina_tracing/_diagnostics/tracebacks.py", "lamina_tracing/_jit/custom_call.py",
         "lamina_ir/_util/recursion_limit.py")


def state():
    return (trace_state.trace, trace_state.depth, trace_state.axes, trace_state.scope, trace_state.source, gc.isenabled(),
            sys.getrecursionlimit(), config.cache_key())


def interrupted_at(call, number):
    """Run `call` with a KeyboardInterrupt at the `number`th library line; return whether that line was reached."""
    left = number

    def trace(frame, event, arg):
        nonlocal left
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if event == "line":
            left -= 1
            if not left:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)


X = np.arange(3, dtype=np.float32)


def staged():
    make_jaxpr(lambda x: jit(lambda y: lax.sin(y))(x))(X)


def looped():
    jit(lambda x: lax.fori_loop(0, 2, lambda i, c: named_call(lax.neg)(c), x))(X)


def eager_in_trace():
    def f(x):
        with ensure_compile_time_eval():
            lax.neg(X)
        return x

    make_jaxpr(f, axis_env=[("i", 2)])(X)


@api_boundary
def transformed():
    trace = Trace(trace_state.depth + 1)
    trace.process = lambda prim, args, params: None
    with new_trace_level(trace), extend_axis_env(AxisFrame("i", 3, trace)):
        lax.neg(X)


def deep():
    def f(n):
        return jit(lambda x: f(n - 1)(x)) if n else lax.neg

    make_jaxpr(f(20))(X)


@pytest.mark.parametrize("call, step", [(staged, 1), (looped, 3), (eager_in_trace, 1), (transformed, 1), (deep, 53)])
def test_interrupt_at_any_line_restores_trace_state(call, step):
    call()
    before, number = state(), 1
    while interrupted_at(call, number):
        assert state() == before, number
        number += step
    assert number > 20
    call()
    assert state() == before and trace_state.trace is EVALUATION


def test_interrupt_in_context_managers_restores_trace_state():
    def blocks():
        trace = Trace(1)
        with new_trace_level(trace):
            with extend_axis_env(AxisFrame("i", 3)), named_scope("part"):
                stage(lambda x: [lax.neg(x)], [lax.neg(X).aval])

    blocks()
    before, number, lost = state(), 1, 0
    while interrupted_at(blocks, number):
        if state() != before:  # at the first line of `__exit__`: no cleanup has run, and no outer call does it
            lost += 1
            trace_state.trace, trace_state.depth, trace_state.axes, trace_state.scope, trace_state.source = before[:5]
        number += 1
    assert lost <= 6


def test_system_exit_passes_through_unchanged():
    def leave(x):
        raise SystemExit(7)

    before = state()
    with pytest.raises(SystemExit, match="7"):
        make_jaxpr(lambda x: jit(leave)(x))(X)
    assert state() == before
    assert not is_library_file(__file__)
