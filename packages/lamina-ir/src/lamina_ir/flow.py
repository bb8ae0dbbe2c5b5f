"""`Flow`: how the operands and results of an op run through the programs it holds. A fact of its primitive.

Everything generic about such ops (dead code, dependence, partial evaluation, order of effects, derivatives, batching) reads
this one fact; docs/nested-programs.md draws it.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .binds import Binds
from .errors import ProgramError

__all__ = ["CARRIED", "CHOOSES", "HELD", "STACKED", "Flow", "Layout", "Operands", "carried", "chooses", "held", "stacked"]

HELD, CARRIED, STACKED, CHOOSES = "held", "carried", "stacked", "chooses"


class Operands(NamedTuple):
    """Operands of one kind, which stand together.

    Attributes:
      kind: HELD (each turn reads the same value), CARRIED (each turn hands it on to the next and, last, to a result),
        STACKED (turn `i` reads slice `i` of its leading axis) or CHOOSES (the number of the program that runs).
      count: how many: the name of the param that says so, a number, or None for those that are left.
      of: the param of the program that takes them; empty: every program.

    >>> Operands(HELD, 2, of="jaxpr") == held(2, "jaxpr")
    True
    """

    kind: str
    count: str | int | None = None  # type: ignore[assignment]  # tuple.count is not wanted here
    of: str = ""


class Layout(NamedTuple):
    """Where the operands of a flow stand, for one count of them.

    Attributes:
      groups: per operand, the number of its group.
      kinds: per operand, its kind.
      carry: the slice of operands that are carried.
      chooser: the number of the operand that chooses a program, or None.
      body, test: the numbers of the operands that go to the body, and to the test.
    """

    groups: tuple[int, ...]
    kinds: tuple[str, ...]
    carry: slice
    chooser: int | None
    body: tuple[int, ...]
    test: tuple[int, ...]


def held(count: str | int | None = None, of: str = "") -> Operands:
    """Operands that every turn reads as they are.

    Args:
      count: how many: the name of the param that says so, a number, or None for those that are left.
      of: the param of the program that takes them; empty: every program.
    Returns:
      The group, for `Flow`.

    >>> held("num_consts")
    Operands(kind='held', count='num_consts', of='')
    """
    return Operands(HELD, count, of)


def carried(count: str | int | None = None) -> Operands:
    """Operands that each turn hands on to the next; the first results are what the last turn hands on.

    Args:
      count: how many: the name of the param that says so, a number, or None for those that are left.
    Returns:
      The group, for `Flow`.

    >>> carried()
    Operands(kind='carried', count=None, of='')
    """
    return Operands(CARRIED, count)


def stacked(count: str | int | None = None) -> Operands:
    """Operands of which each turn reads one slice. The results after the carried ones are stacked likewise.

    Args:
      count: how many: the name of the param that says so, a number, or None for those that are left.
    Returns:
      The group, for `Flow`.

    >>> Flow(held("num_consts"), carried("num_carry"), stacked(), body="jaxpr", length="length")
    Flow(held: num_consts, carried: num_carry, stacked: rest, body=jaxpr, length=length)
    """
    return Operands(STACKED, count)


def chooses() -> Operands:
    """The one int32 operand that says which of the programs in a tuple runs.

    Returns:
      The group, for `Flow`.

    >>> Flow(chooses(), held(), body="branches")
    Flow(chooses: 1, held: rest, body=branches)
    """
    return Operands(CHOOSES, 1)


class Flow:
    """How operands and results run through nested programs.

    The operands stand in groups. A program takes the members of the groups that go to it, in order, and gives the results
    in order: in a loop what it hands on, then slices of the stacked results.

    Args:
      *operands: the groups of operands, in order. Empty for an op whose programs are not wired to its operands and results
        (a reduction's monoid); it must say `whole`.
      body: the param that holds the program, or the tuple of programs, whose results are those of the op.
      test: of a loop, the param of the program whose one result, a truth value, says whether there is another turn.
      length: of a loop, the param that says how many turns there are.
      reverse: of a loop that stacks, the param that says whether it begins with the last slice; default: the first.
      bound: of a loop with a `test`, the param that says how many turns there are at most, or None.
      binds: of a map, which axes it binds, and how operands and results lie along them: every member runs the program.
      each: params with one entry per operand, and the entry of a new one (of those in `binds`, that says it).
      results: params with one entry per result, and the entry of a new one.
      spent: as `each`, but true of one run only: an equation made from others starts with these entries.
      beside: params of programs that stand beside these, such as a solver's transpose.
      again: the param with the policy of what is kept; everything else is computed again by whoever needs it.
      rule: the param with the `Rule` for forward derivatives: a program from the operands, then the tangents of the inexact
        ones after the first group, to the results, then the tangents of the inexact ones.
      whole: why the equation must not be taken apart; empty if it may be.

    >>> Flow(held("num_consts"), carried(), body="jaxpr", length="times")
    Flow(held: num_consts, carried: rest, body=jaxpr, length=times)
    """

    __slots__ = ("operands", "body", "test", "length", "reverse", "bound", "binds", "each", "results", "spent", "beside",
                 "again", "rule", "whole", "programs", "entries", "loops", "into", "_last", "_layouts")

    def __init__(self, *operands: Operands, body: str = "", test: str = "", length: str = "", reverse: str = "",
                 bound: str = "", binds: Binds | None = None, each: Mapping[str, Any] | None = None,
                 results: Mapping[str, Any] | None = None, spent: Mapping[str, Any] | None = None,
                 beside: tuple[str, ...] = (), again: str = "", rule: str = "", whole: str = "") -> None:
        self.operands, self.body, self.test, self.length, self.reverse = operands, body, test, length, reverse
        self.bound, self.binds = bound, binds
        self.each, self.results, self.spent = dict(each or {}), dict(results or {}), dict(spent or {})
        self.beside, self.again, self.rule, self.whole = beside, again, rule, whole
        self.programs = tuple([p for p in (test, body, *beside) if p])
        # Params with an entry per operand or result: (the param, the entry of a new one, whether it is per operand).
        self.entries = [*[(p, new, True) for p, new in {**self.each, **self.spent}.items()],
                        *[(p, new, False) for p, new in self.results.items()]]
        self.loops = bool(length or test)
        groups = [(i, g) for i, g in enumerate(operands) if isinstance(g, Operands)]  # `declared` refuses others
        # Param of a program -> the groups that go to it.
        self.into = {p: [i for i, g in groups if g.kind != CHOOSES and g.of in ("", p)] for p in (body, test)}
        self._last = {g.kind: i for i, g in groups if g.of in ("", body)}
        self._layouts: dict[tuple[int, ...], Layout] = {}

    def axes(self, params: Mapping[str, Any]) -> tuple[tuple[Any, int], ...]:
        """The name and the size of each axis that is bound for the programs; of what is no map, none."""
        return () if self.binds is None else self.binds.axes(params)

    def group(self, kind: str) -> int | None:
        """The number of the last group of this kind that goes to the body; None if there is none."""
        return self._last.get(kind)

    def layout(self, sizes: tuple[int, ...]) -> Layout:
        """Where the operands stand if the groups have these sizes; remembered, for the few counts that ops come in."""
        found = self._layouts.get(sizes)
        if found is None:
            if len(self._layouts) > 256:
                self._layouts.clear()
            groups = tuple([i for i, s in enumerate(sizes) for _ in range(s)])
            kinds = tuple([self.operands[i].kind for i in groups])
            at = kinds.index(CARRIED) if CARRIED in kinds else 0
            body, test = [tuple([i for i, g in enumerate(groups) if g in self.into[p]]) for p in (self.body, self.test)]
            found = self._layouts[sizes] = Layout(groups, kinds, slice(at, at + kinds.count(CARRIED)),
                                                  kinds.index(CHOOSES) if CHOOSES in kinds else None, body, test)
        return found

    def kinds(self) -> dict[str, str]:
        """Param -> what it holds, as far as the flow says so (see `param_kinds`)."""
        found = dict.fromkeys([self.length, *[g.count for g in self.operands if type(g.count) is str]], "int")
        found |= {self.bound: "int?", self.reverse: "bool", self.test: "program"}
        found[self.body] = "programs" if any(g.kind == CHOOSES for g in self.operands) else "program"
        found.pop("", None)
        return found

    def declared(self, op: str, params: tuple[str, ...]) -> None:
        """ProgramError unless this can be the flow of an op with these params."""
        def fail(field: str, text: str) -> ProgramError:
            return ProgramError(f"Primitive {op!r}: flow: {field} {text} (see docs/nested-programs.md)")

        for i, g in enumerate(self.operands):
            if not isinstance(g, Operands) or g.kind not in (HELD, CARRIED, STACKED, CHOOSES):
                raise fail(f"operands[{i}]", f"must be held(...), carried(...), stacked(...) or chooses(); got {g!r}")
        # That what is named exists, for each field that names a param; then that the parts make an op together.
        own = ("body", "test", "length", "reverse", "bound", "again", "rule")
        named = {**{field: getattr(self, field) for field in own}, **{f"beside[{i}]": p for i, p in enumerate(self.beside)},
                 **{f"each[{p!r}]": p for p in (*self.each, *self.spent)}, **{f"results[{p!r}]": p for p in self.results},
                 **{f"binds[{i}]": p for i, p in enumerate(self.binds.params if self.binds else ())}}
        named |= {f"operands[{i}].count": g.count for i, g in enumerate(self.operands) if type(g.count) is str}
        named |= {f"operands[{i}].of": g.of for i, g in enumerate(self.operands)}
        for field, param in named.items():
            if param and param not in params:
                raise fail(field, f"must name one of the params {', '.join(params) or '(there are none)'}; got {param!r}")
        if not self.operands:
            if not self.whole or self.body or not self.beside:
                raise fail("operands", "may be left out only of an op that names its programs in `beside` and says in `whole` "
                           "why they are not wired to its operands")
            return
        if not self.body:
            raise fail("body", "must name the param of the program that gives the results")
        for i, g in enumerate(self.operands):
            if g.of not in ("", self.body, self.test):
                raise fail(f"operands[{i}].of", f"must be the body or the test; got {g.of!r}")
        kinds = [g.kind for g in self.operands]
        if [g.count for g in self.operands].count(None) > 1:
            raise fail("operands", "may leave the count of one group open; give the others a count")
        if self.loops:
            if (CARRIED not in kinds and STACKED not in kinds) or CHOOSES in kinds:
                raise fail("operands", f"of a loop must be held, carried and stacked; got {', '.join(kinds)}")
        elif CARRIED in kinds or STACKED in kinds:
            raise fail("operands", f"may be {CARRIED} or {STACKED} in a loop only, which has a `length` or a `test`")
        if self.bound and not self.test:
            raise fail("bound", "is for loops with a `test`; a known number of turns is `length`")
        if self.test and (self.length or STACKED in kinds):
            raise fail("test", "leaves the number of turns open: there can be no `length` and no stacked operands")
        for kind in (CARRIED, STACKED, CHOOSES):
            if kinds.count(kind) > 1:
                raise fail("operands", f"may hold one group that is {kind}; got {kinds.count(kind)}")

    def __repr__(self) -> str:
        parts = [f"{g.kind}: {'rest' if g.count is None else g.count}" for g in self.operands]
        parts += [f"{name}={value}" for name in ("body", "test", "length", "bound", "whole") if (value := getattr(self, name))]
        return f"Flow({', '.join(parts)})"
