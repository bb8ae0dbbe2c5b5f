"""`Source`: the source line of an equation."""
from __future__ import annotations

from typing import NamedTuple, final
from types import CodeType

from typing_extensions import override

from .._util.former_names import former_attributes

__all__ = ["Source"]


@final
class _FileAndFunction(NamedTuple):
    """Replaces a code object in programs that were read from files."""

    co_filename: str
    co_name: str


@former_attributes(at="from_line", inside="in_scope", like="replace")
class Source:
    """The source of an equation: a code object and an instruction offset, converted to file and line on demand.

    Several equations share one object: equations that a transformation derives from an equation keep its source. It has
    only four fields: a fifth would cost 16 bytes more, for each equation of a program.

    Args:
      code: the code object, or its replacement made by `Source.from_line`.
      lasti: the instruction offset; -1 for the function as a whole, at the line of its `def`.
      scope: names of the enclosing scopes, such as "encoder/layer".
      part: the part of a derivative: "" for the equation itself and its tangent, "backward" for its transpose,
        "backward of backward" if that was differentiated in reverse mode again.

    >>> Source.from_line("model.py", 12, "loss", part="backward")
    model.py:12 (loss) [backward]
    """

    __slots__ = ("code", "lasti", "scope", "part")

    def __init__(self, code: CodeType | _FileAndFunction, lasti: int, scope: str = "", part: str = "") -> None:
        self.code = code
        self.lasti = lasti
        self.scope = scope
        self.part = part

    @classmethod
    def from_line(cls, file: str, line: int, function: str, scope: str = "", part: str = "") -> Source:
        """Make the source for a line of a file, without a code object: for programs read from files."""
        return cls(_FileAndFunction(file, function), line, scope, part)

    @property
    def file(self) -> str:
        return self.code.co_filename

    @property
    def function(self) -> str:
        """The name of the function that contains the line."""
        return self.code.co_name

    @property
    def line(self) -> int:
        if type(self.code) is _FileAndFunction:
            return self.lasti
        for start, end, line in self.code.co_lines():
            if start <= self.lasti < end and line is not None:
                return line
        return self.code.co_firstlineno

    def replace(self, scope: str, part: str) -> Source:
        """Return the same line with another scope and part."""
        return Source(self.code, self.lasti, scope, part)

    def backward(self) -> Source:
        """Return the source for the transpose of the equation."""
        return self.replace(self.scope, f"backward of {self.part}" if self.part else "backward")

    def in_scope(self, scope: str) -> Source:
        """Return the same source inside further scopes."""
        return self.replace(f"{scope}/{self.scope}" if self.scope else scope, self.part)

    @override
    def __repr__(self) -> str:
        return f"{self.file}:{self.line} ({self.code.co_name})" + (f" [{self.part}]" if self.part else "")
