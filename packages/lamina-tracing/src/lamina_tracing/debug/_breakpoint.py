"""Implement `debug.breakpoint`: a prompt inside a running program that shows its values."""
from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import TextIO

from typing_extensions import override
from lamina_ir import errors
from lamina_ir.typing import Tree

from ..lax.callbacks import debug_callback
from .._core.source_lines import is_library_file
from .._core.tracer import Tracer

__all__ = ["breakpoint"]

_HELP = """  p EXPRESSION, or just the expression: print its value, using the names of the frame
  a: names of the frame and their values    l: source lines around    w: all frames, the innermost last
  u, d: up to the caller's frame, and down   c: continue               q: stop the program    h: this text
"""


class _CapturedFrame:
    """Snapshot of a user's frame at tracing time. `arrays` holds its traced locals, `others` all other locals."""

    def __init__(self, frame: FrameType) -> None:
        code = frame.f_code
        self.file, self.line, self.function = code.co_filename, frame.f_lineno, code.co_name
        self.globals = frame.f_globals
        names = {k: v for k, v in frame.f_locals.items() if not k.startswith("@")}
        self.arrays = {k: v for k, v in names.items() if isinstance(v, Tracer) and v._trace.alive}
        self.others = {k: v for k, v in names.items() if k not in self.arrays}

    @override
    def __repr__(self) -> str:
        return f"{self.file}:{self.line} ({self.function})"

    def text(self) -> str:
        lines = []
        for n in range(max(1, self.line - 3), self.line + 4):
            line = linecache.getline(self.file, n, self.globals)
            if line:
                lines.append(f"{'->' if n == self.line else '  '} {n:4} {line.rstrip()}")
        return "\n".join(lines)


class _Prompt:
    """The command loop of one stop. It reads commands until one of them continues or stops the program."""

    def __init__(self, frames: list[_CapturedFrame], values: list[dict[str, Tree]], source: TextIO,
                 out: TextIO) -> None:
        self.frames, self.values, self.source, self.out = frames, values, source, out
        self.at = 0  # index of the selected frame; 0 is the innermost

    def print(self, text: object) -> None:
        print(text, file=self.out, flush=True)

    def run(self) -> None:
        self.print(f"breakpoint at {self.frames[0]}; h for help")
        while True:
            print("(lamina) ", end="", file=self.out, flush=True)
            line = self.source.readline()
            word, _, rest = line.strip().partition(" ")
            if not line or word in ("c", "continue"):
                return
            if word in ("q", "quit", "exit"):
                raise errors.CallbackError("debug.breakpoint: the program was stopped at the prompt")
            self.run_command(word, rest, line.strip())

    def run_command(self, word: str, rest: str, line: str) -> None:
        frame = self.frames[self.at]
        if word in ("h", "help", "?"):
            self.print(_HELP)
        elif word in ("l", "list"):
            self.print(frame.text())
        elif word in ("w", "where", "bt"):
            frames = reversed([*enumerate(self.frames)])
            self.print("\n".join([f"{'->' if i == self.at else '  '} {f}" for i, f in frames]))
        elif word in ("u", "up", "d", "down"):
            self.at = min(max(self.at + (1 if word[0] == "u" else -1), 0), len(self.frames) - 1)
            self.print(self.frames[self.at])
        elif word in ("a", "args"):
            self.print("\n".join([f"{k} = {v!r}" for k, v in {**frame.others, **self.values[self.at]}.items()]))
        elif line:
            self.evaluate(rest if word in ("p", "pp") else line, frame)

    def evaluate(self, text: str, frame: _CapturedFrame) -> None:
        try:
            self.print(repr(eval(text, frame.globals, {**frame.others, **self.values[self.at]})))
        except Exception as e:  # an error in the user's expression must not end the program
            self.print(f"{type(e).__name__}: {e}")


def breakpoint(*, backend: str | None = None, filter_frames: bool = True, num_frames: int | None = None,
               ordered: bool = False, token: object = None, stdin: TextIO | None = None,
               stdout: TextIO | None = None) -> None:
    r"""Stop here whenever the program runs, and read commands: print values, show source lines and frames, continue or
    stop.

    Under `jit`, traced local variables show their values at this point of the running program. Under `vmap`, the
    program stops once per example. If standard input is not a terminal and `stdin` is None, it prints a note and
    continues.

    Args:
      backend: None or "cli", the only backend.
      filter_frames: leave out the frames of lamina.
      num_frames: how many frames to show; None for all.
      ordered: keep the order of all ordered effects.
      token: ignored.
      stdin, stdout: streams to use instead of the terminal.
    Raises:
      ValueError: `backend` is unknown.
      CallbackError: the user stopped the program.

    >>> import io
    >>> def f(x):
    ...     breakpoint(stdin=io.StringIO("x + 1\nc\n"), num_frames=1)
    >>> f(2)
    breakpoint at ... (f); h for help
    (lamina) 3
    (lamina)
    """
    del token
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: there is no debugger {backend!r}; expected 'cli' or None")
    captured: list[_CapturedFrame] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (num_frames is None or len(captured) < num_frames):
        if not filter_frames or not is_library_file(frame.f_code.co_filename):
            captured.append(_CapturedFrame(frame))
        frame = frame.f_back

    def stop(values: list[dict[str, Tree]]) -> None:
        source, out = stdin or sys.stdin, stdout or sys.stdout
        if stdin is None and not (source and source.isatty()):
            print(f"breakpoint at {captured[0]}: standard input is not a terminal, so the program continues", file=out,
                  flush=True)
            return
        _Prompt(captured, values, source, out).run()

    debug_callback(stop, [f.arrays for f in captured], ordered=ordered)
