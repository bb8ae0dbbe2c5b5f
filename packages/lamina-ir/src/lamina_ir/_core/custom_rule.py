"""`Rule`: a user-defined rule of a custom call, as a program that is made on first use."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ..config import generation
from ..errors import MissingRuleError
from .._types.param_values import register_param_type
from ..typing import Function
from .jaxpr import ClosedJaxpr

__all__ = ["Rule"]

_MAX_PROGRAMS = 8  # programs stored per rule, one for each generation of the rule tables


@register_param_type
@dataclasses.dataclass(init=False, frozen=True)
class Rule:
    """A user-defined rule: its name and the program to which it is staged.

    Args:
      name: the name of the rule, shown in printed programs. Rules with the same name are equal.
      make: `make()` returns the program (a `ClosedJaxpr`). It is called once per generation of the rule tables, since
        the staged function may differentiate or map. None: the rule is unknown, because it was dropped when the program
        was printed or saved.
      call: for rules that remain Python functions: the function.
      specialize: `specialize(active)` returns the program of a rule that distinguishes zero tangents or cotangents, for
        a call in which only the active ones are not known to be zero. The program takes only these. None: all are
        arrays, zero or not.
    """

    name: str

    def __init__(self, name: str, make: Callable[[], Any] | None = None, call: Function | None = None,
                 specialize: Callable[[tuple[bool, ...]], Any] | None = None) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "make", make)
        put(self, "call", call)
        put(self, "specialize", specialize)
        put(self, "_programs", {})  # by generation; key None: a program read from a file
        put(self, "_derived", {})

    def program(self) -> ClosedJaxpr:
        """Return the program of the rule; MissingRuleError if it was dropped."""
        programs = self._programs  # type: ignore[attr-defined]
        key = generation.value if self.make is not None else None  # type: ignore[attr-defined]
        found = programs.get(key)
        if found is None:
            if key is None:
                raise MissingRuleError(f"the rule `{self.name}` of a custom call is not known here: program text does not "
                                       "contain rules, and saved programs contain those that could be staged when they "
                                       "were saved. Stage the function again")
            others = generation.changes_by_other_threads()
            found = self.make()  # type: ignore[attr-defined]
            if others == generation.changes_by_other_threads() and key in (None, generation.value):
                if len(programs) >= _MAX_PROGRAMS:
                    programs.clear()
                programs[key] = found
        return found

    @property
    def distinguishes_zeros(self) -> bool:
        """Whether the rule has programs of its own for calls with zero tangents or cotangents."""
        return self.specialize is not None  # type: ignore[attr-defined]

    def specialized(self, active: tuple[bool, ...]) -> Rule:
        """Return the rule for a call with these active tangents or cotangents: `self` if it takes all as arrays."""
        specialize = self.specialize  # type: ignore[attr-defined]
        if specialize is None or all(active):
            return self
        made = self._derived.get(active)  # type: ignore[attr-defined]
        if made is None:
            made = self._derived[active] = Rule(self.name, lambda: specialize(active))  # type: ignore[attr-defined]
        return made

    def derive(self, make: Callable[[Rule, tuple[bool, ...] | None], ClosedJaxpr]) -> Rule:
        """Return the rule with the program `make(self, None)`, and `make(self.specialized(active), active)` for calls with
        zero tangents or cotangents."""
        special = (lambda active: make(self.specialized(active), active)) if self.distinguishes_zeros else None
        return Rule(self.name, lambda: make(self, None), specialize=special)

    def map(self, f: Callable[[ClosedJaxpr], ClosedJaxpr], key: str = "") -> Rule:
        """Return the rule whose program is `f(program)`, computed lazily. Python functions and unknown rules do not
        change.

        Args:
          f: program -> program with the same operands and results.
          key: the name of an idempotent `f`; the new rule is memoized under it.
        """
        if self.make is None and not self._programs:  # type: ignore[attr-defined]
            return self
        made = self._derived.get(key)  # type: ignore[attr-defined]
        if made is None:
            made = self.derive(lambda rule, active: f(rule.program()))
            if key:
                self._derived[key] = made._derived[key] = made  # type: ignore[attr-defined]
        return made

    def resolve(self, program: ClosedJaxpr) -> None:
        """Set the program; used when saved programs are read."""
        object.__setattr__(self, "make", None)
        self._programs[None] = program  # type: ignore[attr-defined]
