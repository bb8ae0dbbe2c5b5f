"""`Rule`: what a custom call does under a transformation, as a program that is made when somebody asks for it."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from .config import generation
from .errors import MissingRuleError
from .params import register_param_type

__all__ = ["Rule"]

_MOST_STATES = 8  # of the rows in force, for which a rule's program is kept


@register_param_type
@dataclasses.dataclass(init=False, frozen=True)
class Rule:
    """A user's rule, by name, with the program it stages to.

    Args:
      name: the rule's name; what printed programs show of it. Rules of one name are equal.
      make: `make()` gives the program (a `ClosedJaxpr`). It is asked once, and again when rows of rule tables have changed,
        as the function it stages may differentiate or map. None: the rule is not known here, because it was dropped when the
        program was printed or saved.
      call: for rules that stay Python functions: the function.
    """

    name: str

    def __init__(self, name: str, make: Callable[[], Any] | None = None, call: Callable[..., Any] | None = None) -> None:
        put = object.__setattr__
        put(self, "name", name)
        put(self, "make", make)
        put(self, "call", call)
        put(self, "_programs", {})  # by `generation`; under None one that was read
        put(self, "_derived", {})

    def program(self) -> Any:
        """The rule's program. MissingRuleError when it was dropped."""
        programs = self._programs  # type: ignore[attr-defined]
        key = generation.value if self.make is not None else None  # type: ignore[attr-defined]
        found = programs.get(key)
        if found is None:
            if key is None:
                raise MissingRuleError(f"the rule `{self.name}` of a custom call is not known here: program text does not "
                                       "hold rules, and saved programs hold those that could be staged when they were "
                                       "saved. Make the program again from its function")
            others = generation.elsewhere()
            found = self.make()  # type: ignore[attr-defined]
            if others == generation.elsewhere() and key in (None, generation.value):
                if len(programs) >= _MOST_STATES:
                    programs.clear()
                programs[key] = found
        return found

    def map(self, f: Callable[[Any], Any], key: str = "") -> Rule:
        """The rule whose program is `f(program)`, made when it is asked for. A Python function, and a rule that is not
        known here, stay what they are.

        Args:
          f: program -> program of the same operands and results.
          key: the name of an `f` that changes nothing the second time; the new rule is remembered under it.
        """
        if self.make is None and not self._programs:  # type: ignore[attr-defined]
            return self
        made = self._derived.get(key)  # type: ignore[attr-defined]
        if made is None:
            made = Rule(self.name, lambda: f(self.program()))
            if key:
                self._derived[key] = made._derived[key] = made  # type: ignore[attr-defined]
        return made

    def resolve(self, program: Any) -> None:
        """Set the program (readers of saved programs do)."""
        object.__setattr__(self, "make", None)
        self._programs[None] = program  # type: ignore[attr-defined]
