"""`Source`: the line of a program's text from which an equation came."""
from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Source"]


class _Place(NamedTuple):
    """Stands for a code object that is not there: in programs read from files."""

    co_filename: str
    co_name: str


class Source:
    """Where an equation came from: a code object and an instruction offset, turned into file and line on demand.

    Several equations share one: all that a transformation makes of one op keep that op's source. It has four fields, for
    with five it would take 16 bytes more, and a program holds one for each op.

    Args:
      code: the code object, or what `Source.at` puts in its place.
      lasti: the instruction's offset; -1 for the function as a whole, at the line of its `def`.
      scope: names of the scopes around it, as "encoder/layer".
      part: which part of a derivative it is: "" for the op itself and its tangent, "backward" for what transposition
        made of it, "backward of backward" where that was differentiated in reverse again.

    >>> Source.at("model.py", 12, "loss", part="backward")
    model.py:12 (loss) [backward]
    """

    __slots__ = ("code", "lasti", "scope", "part")

    def __init__(self, code: Any, lasti: int, scope: str = "", part: str = "") -> None:
        self.code = code
        self.lasti = lasti
        self.scope = scope
        self.part = part

    @classmethod
    def at(cls, file: str, line: int, function: str, scope: str = "", part: str = "") -> Source:
        """The source at a line of a file, without code objects: for programs from elsewhere."""
        return cls(_Place(file, function), line, scope, part)

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def function(self) -> str:
        """The name of the function whose line it is."""
        return self.code.co_name

    @property
    def line(self) -> int:
        if type(self.code) is _Place:
            return self.lasti
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end and line is not None:
                return line
        return self.code.co_firstlineno

    def like(self, scope: str, part: str) -> Source:
        """The same place with another scope and part."""
        return Source(self.code, self.lasti, scope, part)

    def backward(self) -> Source:
        """The source of what transposition makes of the op."""
        return self.like(self.scope, f"backward of {self.part}" if self.part else "backward")

    def inside(self, scope: str) -> Source:
        """The same source within further scopes."""
        return self.like(f"{scope}/{self.scope}" if self.scope else scope, self.part)

    def __repr__(self) -> str:
        return f"{self.file}:{self.line} ({self.code.co_name})" + (f" [{self.part}]" if self.part else "")
