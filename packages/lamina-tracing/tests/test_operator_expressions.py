"""The assumptions of `is_operator_expression` about NumPy and the bytecode of this Python version."""
from __future__ import annotations

import operator
import sys

import numpy as np
import pytest
from lamina_tracing._core.operator_expressions import is_operator_expression


class Probe:
    """An operand whose `__array_ufunc__` returns how the caller reached it."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "operator" if is_operator_expression(sys._getframe(1)) else "call"


PROBE = Probe()
BINARY = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]


@pytest.mark.parametrize("left", [np.float32(2), np.int32(2), np.ones(3), np.ones(3, np.int32)], ids=str)
@pytest.mark.parametrize("symbol", BINARY + COMPARISONS)
def test_operator_of_numpy_value_is_operator(symbol, left):
    if symbol == "@" and not left.shape:
        pytest.skip("matmul has no rank-0 operands")
    assert eval(f"left {symbol} PROBE", {"left": left, "PROBE": PROBE}) == "operator"


@pytest.mark.parametrize("symbol", BINARY)
def test_in_place_operator_is_operator(symbol):
    names = {"x": np.ones(3), "PROBE": PROBE}
    exec(f"x {symbol}= PROBE", names)
    assert names["x"] == "operator"


def test_call_is_no_operator():
    x = np.ones(3)
    assert np.add(x, PROBE) == np.add(x, PROBE, out=x) == np.add(x, PROBE, out=(x,)) == "call"
    assert np.less(x, PROBE) == np.add(*[x, PROBE]) == "call"
    assert operator.iadd(x, PROBE) == x.__iadd__(PROBE) == "call"
    assert [np.add(x, PROBE), x + PROBE] == ["call", "operator"]  # on one line


def test_specialized_instructions_are_recognized():
    def both(x, y):
        x += y
        return x

    def call(x, y):
        return np.add(x, y, out=x)

    for _ in range(100):  # the interpreter specializes instructions that run often
        both(1, 2)
    assert {both(np.ones(3), PROBE) for _ in range(100)} == {"operator"}
    assert {call(np.ones(3), PROBE) for _ in range(100)} == {"call"}


def test_instrumented_instructions_are_recognized():
    def both(x):
        total = x + PROBE
        x += PROBE
        return total, x, np.add(np.ones(3), PROBE)

    def trace(frame, event, arg):
        frame.f_trace_opcodes = True
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        found = both(np.ones(3))
    finally:
        sys.settrace(before)
    assert found == ("operator", "operator", "call")


def test_comprehensions_and_generators_are_recognized():
    x = np.ones(3)
    assert [x + p for p in [PROBE]] == [*(x + p for p in [PROBE])] == ["operator"]
    assert [np.add(x, p) for p in [PROBE]] == [*(np.add(x, p) for p in [PROBE])] == ["call"]
