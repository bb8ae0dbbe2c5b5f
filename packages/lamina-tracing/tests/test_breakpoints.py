"""The prompt in a running program."""
import io

import numpy as np
import pytest
from lamina_ir import CallbackError
from lamina_tracing import Array, debug, jit, lax


def caller(x, stdin, **options):
    doubled = lax.mul(x, 2.0)
    word = "known"
    out = io.StringIO()
    debug.breakpoint(stdin=io.StringIO(stdin), stdout=out, **options)
    return doubled, word, out


def test_values_frames_and_mistakes_at_the_prompt():
    *_, out = caller(np.float32(3), "p doubled + 1\nword\nu\nd\nnowhere\nl\nw\na\nh\nc\nelsewhere\n", num_frames=2)
    text = out.getvalue()
    for part in ("breakpoint at", "(7.", "'known'", "test_values_frames", "NameError", "->", "p EXPRESSION", "doubled = "):
        assert part in text, text
    assert text.endswith("(lamina) ") and text.count("NameError") == 1


def test_in_compiled_programs_the_values_are_the_programs():
    told = []

    @jit
    def f(x):
        doubled, _, out = caller(x, "p float(doubled)\nc\n")
        told.append(out)
        return doubled

    assert float(f(np.float32(4))) == 8
    assert "8.0" in told[0].getvalue()


def test_stopping_and_going_on_without_a_terminal(capsys, monkeypatch):
    with pytest.raises(CallbackError, match="stopped at the prompt"):
        caller(np.float32(1), "q\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    debug.breakpoint()
    assert "not a terminal, so the program continues" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no debugger 'web'"):
        debug.breakpoint(backend="web")


def test_methods_are_found_on_the_class_of_arrays():
    assert callable(Array.__add__) and Array.sum is not None and hasattr(Array, "shape") and not hasattr(Array, "summ")
    assert np.asarray([Array], object).shape == (1,)
