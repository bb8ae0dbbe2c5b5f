"""`debug.breakpoint`: the prompt in a running program."""
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


def test_prompt_shows_values_and_frames_and_reports_mistakes():
    *_, out = caller(np.float32(3), "p doubled + 1\nword\nu\nd\nnowhere\nl\nw\na\nh\nc\nelsewhere\n", num_frames=2)
    text = out.getvalue()
    for part in ("breakpoint at", "(7.", "'known'", "test_prompt_shows", "NameError", "->", "p EXPRESSION", "doubled = "):
        assert part in text, text
    assert text.endswith("(lamina) ") and text.count("NameError") == 1


def test_prompt_in_compiled_program_shows_runtime_values():
    outputs = []

    @jit
    def f(x):
        doubled, _, out = caller(x, "p float(doubled)\nc\n")
        outputs.append(out)
        return doubled

    assert float(f(np.float32(4))) == 8
    assert "8.0" in outputs[0].getvalue()


def test_quit_command_and_missing_terminal(capsys, monkeypatch):
    with pytest.raises(CallbackError, match="stopped at the prompt"):
        caller(np.float32(1), "q\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    debug.breakpoint()
    assert "not a terminal, so the program continues" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no debugger 'web'"):
        debug.breakpoint(backend="web")


def test_array_methods_are_found_on_class():
    assert callable(Array.__add__) and Array.sum is not None and hasattr(Array, "shape") and not hasattr(Array, "summ")
    assert np.asarray([Array], object).shape == (1,)
