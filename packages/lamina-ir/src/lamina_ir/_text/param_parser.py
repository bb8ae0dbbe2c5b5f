"""Parser for param values in program text: numbers, names, strings, sequences, records and nested programs."""
from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import Any, TypeVar

from .._types import dtypes
from .scanner import NAME, Scanner
from .._types.param_values import UnnamedAxis, dtype_names, find_param_type
from .._core.jaxpr import ClosedJaxpr, Jaxpr
from ..typing import ParamValue

__all__ = ["ParamParser"]

_T = TypeVar("_T")
_NUMBER = re.compile(r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\b(?!\w)|[-+]?\d+\.(?!\w)")
_COMPLEX = re.compile(r"\([-+]?[\w.]+(?:[-+]\d+)?[-+][\w.]+(?:[-+]\d+)?j\)|[-+]?[\w.]+(?:e[-+]\d+)?j\b")
_IMAGINARY = re.compile(r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)j\b")
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_AXIS = re.compile(r"<axis (\w+)>")
_ANGLE = re.compile(r"<\w+>")
_MARK = re.compile(r"@(\d+)", re.ASCII)
_PROGRAM = re.compile(r"\{\s*lambda\b")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_CONSTANTS = {"None": None, "True": True, "False": False, "Ellipsis": ...}


class ParamParser(Scanner):
    """Parses one value at a time. Subclasses parse nested programs."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.axes: dict[str, UnnamedAxis] = {}
        self.marked: dict[str, Jaxpr | ClosedJaxpr | None] = {}  # number after @ -> nested program

    def nested(self) -> Jaxpr | ClosedJaxpr:
        """Parse a nested program."""
        raise NotImplementedError

    def reference(self) -> Jaxpr | ClosedJaxpr | None:
        """Parse `@1:` and a nested program, or `@1` for the program marked so before."""
        at = self.at
        m = self.match(_MARK)
        if m is None:
            raise self.fail("expected `@` and a number, for a shared program", at)
        mark = m.group(1)
        if self.eat(":"):
            if mark in self.marked:
                raise self.fail(f"a program is marked @{mark} already", at)
            if not _PROGRAM.match(self.text, self.skip()):
                raise self.fail(f"expected a program after `@{mark}:`; got {self.found()}")
            self.marked[mark] = None  # a program cannot contain itself
            self.marked[mark] = self.nested()
        if self.marked.get(mark) is None:
            raise self.fail(f"no program is marked @{mark} before this position", at)
        return self.marked[mark]

    def value(self) -> ParamValue:
        at = self.skip()
        text = self.text
        first = text[at:at + 1]
        if first == "@":
            return self.reference()
        if first == "{":
            return self.nested() if _PROGRAM.match(text, at) else self.dict()
        if first == "(":
            m = self.match(_COMPLEX)  # before tuples: (1+2j)
            return tuple(self.items(")")) if m is None else self.made("complex number", complex, m.group(), at)
        if first == "[":
            return self.items("]")
        if first in ("'", '"') and first:
            m = self.match(_STRING)
            if m is None:
                raise self.fail(f"expected {first} at the end of the string", at)
            return self.made("string", lambda s: _ESCAPE.sub(_unescape, s), m.group()[1:-1], at)
        if first == "<":
            m = self.match(_AXIS)
            if m is not None:
                return self.axes.setdefault(m.group(1), UnnamedAxis(m.group(1)))
            m = self.match(_ANGLE)
            if m is not None:
                return m.group()
        if first == "b" and text[at + 1:at + 2] in ("'", '"'):
            self.at = at + 1
            m = self.match(_STRING)
            if m is None:
                raise self.fail(f"expected {text[at + 1]} at the end of the bytes", at)
            return self.made("bytes", lambda s: _ESCAPE.sub(_unescape, s).encode("latin-1"), m.group()[1:-1], at)
        m = self.match(_IMAGINARY)
        if m is not None:
            return self.made("complex number", complex, m.group(), at)
        m = self.match(_NUMBER)
        if m is not None:
            word = m.group()
            return self.made("number", int if re.fullmatch(r"[-+]?\d+", word) else float, word, at)
        m = self.match(NAME)
        if m is None:
            raise self.fail(f"expected a param value; got {self.found()}")
        return self.word(m.group(), at)

    def word(self, word: str, at: int) -> ParamValue:
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word == "frozenset" and self.text.startswith("(", self.at):
            listed = self.items(")")
            if len(listed) != 1 or not isinstance(listed[0], (list, tuple)):
                raise self.fail("expected frozenset([...]), with one list in it", at)
            return self.made("frozenset", frozenset, listed[0], at)
        if self.text.startswith(".", self.at):
            kind = find_param_type(word)
            self.at += 1
            member = self.name("an enum member")
            if kind is None or not issubclass(kind, enum.Enum) or member not in kind.__members__:
                members = kind.__members__ if kind is not None and issubclass(kind, enum.Enum) else ()
                hint = f"expected one of {', '.join(members)}" if members else "see lamina_ir.register_param_type"
                raise self.fail(f"no enum value is named `{word}.{member}`; {hint}", at)
            return kind[member]
        if self.text.startswith("(", self.at):
            return self.record(word, at)
        if word == "float0":
            return dtypes.float0
        return dtypes.as_dtype(word) if word in dtype_names else word

    def record(self, word: str, at: int) -> ParamValue:
        kind = find_param_type(word)
        if kind is None or issubclass(kind, enum.Enum):
            raise self.fail(f"no param type is named `{word}`; see lamina_ir.register_param_type", at)
        self.need("(")
        fields = {}
        while not self.eat(")"):
            key = self.name("a field name")
            self.need("=")
            fields[key] = self.value()
            if not self.eat(",") and not self.peek(")"):
                raise self.fail(f"expected `,` or `)`; got {self.found()}")
        try:
            return kind(**fields)
        except (TypeError, ValueError) as e:
            raise self.fail(f"`{word}` cannot be made of these fields: {e}", at) from None

    def made(self, what: str, make: Callable[[Any], _T], given: object, at: int) -> _T:
        """Return `make(given)`; if it raises, raise an error at position `at`."""
        try:
            return make(given)
        except (ValueError, TypeError, OverflowError) as e:
            raise self.fail(f"expected a {what}: {e}", at) from None

    def items(self, end: str) -> list[ParamValue]:
        self.at += 1
        out = []
        while not self.eat(end):
            out.append(self.value())
            if not self.eat(",") and not self.peek(end):
                raise self.fail(f"expected `,` or `{end}`; got {self.found()}")
        return out

    def dict(self) -> dict[ParamValue, ParamValue]:
        self.need("{")
        out = {}
        while not self.eat("}"):
            at = self.skip()
            key = self.value()
            self.made("key of a dict", hash, key, at)
            self.need(":")
            out[key] = self.value()
            if not self.eat(",") and not self.peek("}"):
                raise self.fail(f"expected `,` or `}}`; got {self.found()}")
        return out


def _unescape(m: re.Match[str]) -> str:
    code = m.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
