"""`RuleTable`: what one transformation does with each primitive. A row, or a hole with its reason; never silence."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .errors import MissingRuleError
from .primitive import Primitive

__all__ = ["RuleTable"]


class RuleTable(dict[Primitive, Callable[..., Any]]):
    """Primitive -> rule. A hit costs what a dict costs; a miss raises an error that says where the row belongs.

    Args:
      name: what the table does, in words that fit "<name> of `sin` has no rule".
      home: the folder, with slashes, in which rows live; the family's file name is appended in messages.
    """

    def __init__(self, name: str, home: str) -> None:
        super().__init__()
        self.name = name
        self.home = home
        self.holes: dict[Primitive, str] = {}
        self.version = 0  # grows with every change, so caches can key on it

    def define(self, op: Primitive, rule: Callable[..., Any]) -> None:
        """Add the row for `op`, replacing an earlier row or hole."""
        self.holes.pop(op, None)
        self[op] = rule
        self.version += 1

    def hole(self, op: Primitive, reason: str) -> None:
        """Say that `op` has no rule here, and why."""
        self.pop(op, None)
        self.holes[op] = reason
        self.version += 1

    def covers(self, op: Primitive) -> bool:
        """Whether `op` has a row or a written reason for not having one."""
        return op in self or op in self.holes

    @contextmanager
    def override(self, op: Primitive, rule: Callable[..., Any]) -> Iterator[None]:
        """Use `rule` for `op` inside the block, in every thread; caches made outside are not reused inside."""
        old, old_hole = self.get(op), self.holes.get(op)
        self.define(op, rule)
        try:
            yield
        finally:
            if old is not None:
                self.define(op, old)
            else:
                self.pop(op, None)
                self.version += 1
                if old_hole is not None:
                    self.holes[op] = old_hole

    def __missing__(self, op: Primitive) -> Callable[..., Any]:
        reason = self.holes.get(op)
        if reason is not None:
            raise MissingRuleError(f"{self.name} of `{op.name}` is not defined: {reason}")
        raise MissingRuleError(f"{self.name} of `{op.name}` has no rule; add a row to {self.home}/{op.family}.py "
                               "(see docs/adding-an-op.md)")

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)
