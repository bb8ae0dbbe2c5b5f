"""A line in the terminal shows what is being done, and Ctrl-C gives the report so far."""
import io
import os
import sys

import numpy as np
import pytest
from lamina_see import _progress, see
import lamina_numpy as jnp


class Terminal(io.StringIO):
    def isatty(self):
        return True


def without_rich(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)


def test_terminal_shows_each_phase_and_ends_with_an_empty_line(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    without_rich(monkeypatch)
    see(lambda x: jnp.sin(x) * 2, seconds=0, precision=True)(np.ones(9, np.float32))
    texts = [text.strip() for text in stream.getvalue().split("\r\x1b[K")]
    for part in ("tracing `<lambda>`", "compiling `<lambda>`", "running `<lambda>`", "measuring step 1",
                 "compiling variants, 1", "comparing with 64 bits, equation 1"):
        assert any(text.startswith(f"lamina see: {part}") for text in texts), (part, texts)
    assert texts[-1] == "" and "\n" not in stream.getvalue()


def test_terminal_without_control_sequences_gets_lines(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb")
    see(lambda x: jnp.cos(x), seconds=0, savings=False)(1.0)
    assert stream.getvalue().splitlines()[0] == "lamina see: tracing `<lambda>`" and "\x1b" not in stream.getvalue()


def test_output_that_is_no_terminal_gets_nothing(capfd):
    see(lambda x: jnp.cos(x), seconds=0)(1.0)
    assert capfd.readouterr() == ("", "")


def test_long_text_is_cut_to_the_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(_progress.shutil, "get_terminal_size", lambda: os.terminal_size((30, 9)))
    _progress._Line(stream).show("x" * 50, True)
    assert len(stream.getvalue().strip("\r").removeprefix("\x1b[K")) == 29


def test_rich_line_has_the_text(monkeypatch):
    pytest.importorskip("rich")
    stream = Terminal()
    _progress._RichLine(stream).show("measuring [2] step 4", True)
    assert "measuring [2] step 4" in stream.getvalue() and "\n" not in stream.getvalue()




def test_interrupt_of_the_first_run_gives_the_program(monkeypatch):
    from lamina_see import _see

    def interrupted(call, copy):
        raise KeyboardInterrupt

    monkeypatch.setattr(_see, "_call", interrupted)
    facts = see(lambda x: jnp.sin(x) @ x, precision=True)(np.ones((8, 8), np.float32)).json()
    [f] = facts["functions"]
    assert facts["problems"] == ["The first run was interrupted; the report has what is known until then."]
    assert [e["primitive"] for e in f["equations"]] == ["sin", "dot_general"] and f["step"] is None and f["memory"]["peak"]


def test_interrupt_of_variants_gives_the_report(monkeypatch):
    from lamina_see._savings import find

    def interrupted(program):
        raise KeyboardInterrupt

    monkeypatch.setattr(find, "peak_of", interrupted)
    facts = see(lambda x: x * 2, seconds=0)(np.ones(8, np.float32)).json()
    assert facts["problems"] == ["The compilation of variants was interrupted; the report has what is known until then."]
