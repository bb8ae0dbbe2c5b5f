"""Tokenizer for program text: match tokens at a position, and report errors at that position."""
from __future__ import annotations

import re

from ..errors import ProgramError

__all__ = ["NAME", "Scanner"]

_SPACE = re.compile(r"\s*")
NAME = re.compile(r"[A-Za-z_]\w*")


class Scanner:
    """A text and a position in it. Every method skips white space first."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def fail(self, message: str, at: int | None = None) -> ProgramError:
        at = self.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        excerpt = self.text[start:end if end >= 0 else len(self.text)]
        column = at - start
        if column > 60:  # keep the caret in view
            excerpt, column = "..." + excerpt[column - 40:], 43
        excerpt = excerpt[:100]
        return ProgramError(f"parse: {message} at line {line}, column {at - start + 1}\n  {excerpt}\n  {' ' * column}^")

    def skip(self) -> int:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.at

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.skip())

    def eat(self, token: str) -> bool:
        if self.text.startswith(token, self.skip()):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.eat(token):
            raise self.fail(f"expected `{token}`; got {self.found()}")

    def found(self) -> str:
        rest = self.text[self.skip():self.at + 12].split("\n")[0]
        return f"`{rest}`" if rest else "the end of the text"

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        m = pattern.match(self.text, self.skip())
        if m is not None:
            self.at = m.end()
        return m

    def name(self, what: str) -> str:
        m = self.match(NAME)
        if m is None:
            raise self.fail(f"expected {what}; got {self.found()}")
        return m.group()
