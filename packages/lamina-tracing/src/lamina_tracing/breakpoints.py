"""`debug.breakpoint`: a prompt in a running program, at which its values can be looked at."""
from __future__ import annotations

import linecache
import sys
from typing import Any, TextIO

from lamina_ir import errors

from .lax.callbacks import debug_callback
from .lines import is_own_file
from .tracer import Tracer

__all__ = ["breakpoint"]

_HELP = """  p EXPRESSION, or just the expression: its value; names are those of the frame
  a: the names of the frame and their values    l: the lines around    w: all frames, the innermost last
  u, d: to the frame that called, and back       c: go on                q: stop the program    h: this text
"""


class _Place:
    """A frame of the user's, as it was when the program was written."""

    def __init__(self, frame: Any) -> None:
        code = frame.f_code
        self.file, self.line, self.function = code.co_filename, frame.f_lineno, code.co_name
        self.globals = frame.f_globals
        names = {k: v for k, v in frame.f_locals.items() if not k.startswith("@")}
        self.arrays = {k: v for k, v in names.items() if isinstance(v, Tracer) and v._trace.alive}
        self.others = {k: v for k, v in names.items() if k not in self.arrays}

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
    """One stop: reads commands until one of them goes on."""

    def __init__(self, places: list[_Place], values: list[dict[str, Any]], source: TextIO, out: TextIO) -> None:
        self.places, self.values, self.source, self.out = places, values, source, out
        self.at = 0

    def say(self, text: Any) -> None:
        print(text, file=self.out, flush=True)

    def run(self) -> None:
        self.say(f"breakpoint at {self.places[0]}; h for help")
        while True:
            print("(lamina) ", end="", file=self.out, flush=True)
            line = self.source.readline()
            word, _, rest = line.strip().partition(" ")
            if not line or word in ("c", "continue"):
                return
            if word in ("q", "quit", "exit"):
                raise errors.CallbackError("debug.breakpoint: the program was stopped at the prompt")
            self.do(word, rest, line.strip())

    def do(self, word: str, rest: str, line: str) -> None:
        place = self.places[self.at]
        if word in ("h", "help", "?"):
            self.say(_HELP)
        elif word in ("l", "list"):
            self.say(place.text())
        elif word in ("w", "where", "bt"):
            self.say("\n".join([f"{'->' if i == self.at else '  '} {p}" for i, p in reversed([*enumerate(self.places)])]))
        elif word in ("u", "up", "d", "down"):
            self.at = min(max(self.at + (1 if word[0] == "u" else -1), 0), len(self.places) - 1)
            self.say(self.places[self.at])
        elif word in ("a", "args"):
            self.say("\n".join([f"{k} = {v!r}" for k, v in {**place.others, **self.values[self.at]}.items()]))
        elif line:
            self.evaluate(rest if word in ("p", "pp") else line, place)

    def evaluate(self, text: str, place: _Place) -> None:
        try:
            self.say(repr(eval(text, place.globals, {**place.others, **self.values[self.at]})))
        except Exception as e:  # whatever the user's expression raises is told to the user
            self.say(f"{type(e).__name__}: {e}")


def breakpoint(*, backend: str | None = None, filter_frames: bool = True, num_frames: int | None = None,
               ordered: bool = False, token: Any = None, stdin: TextIO | None = None,
               stdout: TextIO | None = None) -> None:
    """Stop here whenever the program runs, and read commands: print values, look at the lines and frames around, go
    on or stop.

    Under `jit` the arrays among the local variables come from the program, as they are when it gets there; under
    `vmap` it stops once per example. Where nobody can answer, as standard input is no terminal and none is given, the
    program says that it has been here and goes on.

    Args:
      backend: None or "cli": there is no other.
      filter_frames: leave out the frames of lamina.
      num_frames: how many frames to keep; None for all.
      ordered: keep the order of all ordered effects.
      token: ignored.
      stdin, stdout: where to read and write instead of the terminal.
    Raises:
      ValueError: there is no such backend.
      CallbackError: the user stopped the program.

    >>> import io
    >>> def f(x):
    ...     breakpoint(stdin=io.StringIO("x + 1\\nc\\n"), num_frames=1)
    >>> f(2)
    breakpoint at ... (f); h for help
    (lamina) 3
    (lamina)
    """
    del token
    if backend not in (None, "cli"):
        raise ValueError(f"debug.breakpoint: there is no debugger {backend!r}; expected 'cli' or None")
    places: list[_Place] = []
    frame: Any = sys._getframe(1)
    while frame is not None and (num_frames is None or len(places) < num_frames):
        if not filter_frames or not is_own_file(frame.f_code.co_filename):
            places.append(_Place(frame))
        frame = frame.f_back

    def stop(values: list[dict[str, Any]]) -> None:
        source, out = stdin or sys.stdin, stdout or sys.stdout
        if stdin is None and not (source and source.isatty()):
            print(f"breakpoint at {places[0]}: standard input is no terminal, so the program goes on", file=out, flush=True)
            return
        _Prompt(places, values, source, out).run()

    debug_callback(stop, [p.arrays for p in places], ordered=ordered)
