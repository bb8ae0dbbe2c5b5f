"""`RegionSignature`: how operands and results of an equation correspond to those of its nested programs (regions).

It is part of the primitive. The generic code for primitives with regions (dead code, dependence, partial evaluation,
order of effects, derivatives, batching) reads only this signature. docs/design/nested-programs.md has diagrams.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from typing_extensions import override

from .axis_binding import AxisBinding
from ..errors import ProgramError
from ..typing import AxisName, ParamValue

__all__ = ["CARRY", "CONST", "OperandGroup", "OperandLayout", "RegionSignature", "SCANNED", "SELECTOR",
           "carry_operands", "const_operands", "scanned_operands", "selector_operand"]

CONST, CARRY, SCANNED, SELECTOR = "const", "carry", "scanned", "selector"


class OperandGroup(NamedTuple):
    """A group of consecutive operands of one kind.

    Attributes:
      kind: CONST, CARRY, SCANNED or SELECTOR. CONST: every iteration reads the same value. CARRY: each iteration passes
        it to the next; the last one, to a result. SCANNED: iteration `i` reads slice `i` of the leading axis.
      SELECTOR: index of the branch to run.
      count: the number of operands: the name of a param that holds it, an int, or None for all remaining operands.
      of: the param of the region that takes them; empty: every region.

    >>> OperandGroup(CONST, 2, of="jaxpr") == const_operands(2, "jaxpr")
    True
    """

    kind: str
    count: str | int | None = None  # type: ignore[assignment]  # tuple.count is not wanted here
    of: str = ""


class OperandLayout(NamedTuple):
    """Positions of the operands of a signature, for given group sizes.

    Attributes:
      groups: per operand, the index of its group.
      kinds: per operand, its kind.
      carry: the slice of operands that are carries.
      selector: the position of the operand that selects a branch, or None.
      body, test: the positions of the operands of the body and of the test.
    """

    groups: tuple[int, ...]
    kinds: tuple[str, ...]
    carry: slice
    selector: int | None
    body: tuple[int, ...]
    test: tuple[int, ...]


def const_operands(count: str | int | None = None, of: str = "") -> OperandGroup:
    """Describe operands that every iteration reads unchanged.

    Args:
      count: the number of operands: the name of a param that holds it, an int, or None for all remaining operands.
      of: the param of the region that takes them; empty: every region.
    Returns:
      The group, for `RegionSignature`.

    >>> const_operands("num_consts")
    OperandGroup(kind='const', count='num_consts', of='')
    """
    return OperandGroup(CONST, count, of)


def carry_operands(count: str | int | None = None) -> OperandGroup:
    """Describe loop carries. The first results of the equation are their values after the last iteration.

    Args:
      count: the number of operands: the name of a param that holds it, an int, or None for all remaining operands.
    Returns:
      The group, for `RegionSignature`.

    >>> carry_operands()
    OperandGroup(kind='carry', count=None, of='')
    """
    return OperandGroup(CARRY, count)


def scanned_operands(count: str | int | None = None) -> OperandGroup:
    """Describe operands of which each iteration reads one slice. The results after the carries are stacked likewise.

    Args:
      count: the number of operands: the name of a param that holds it, an int, or None for all remaining operands.
    Returns:
      The group, for `RegionSignature`.

    >>> RegionSignature(const_operands("num_consts"), carry_operands("num_carry"), scanned_operands(), body="jaxpr",
    ...                 length="length")
    RegionSignature(const: num_consts, carry: num_carry, scanned: rest, body=jaxpr, length=length)
    """
    return OperandGroup(SCANNED, count)


def selector_operand() -> OperandGroup:
    """Describe the int32 operand that selects which region of a tuple runs.

    Returns:
      The group, for `RegionSignature`.

    >>> RegionSignature(selector_operand(), const_operands(), body="branches")
    RegionSignature(selector: 1, const: rest, body=branches)
    """
    return OperandGroup(SELECTOR, 1)


class RegionSignature:
    """How operands and results of an equation correspond to those of its regions.

    Operands form groups. A region takes the members of its groups in order. Its results are, in a loop, the carries
    and then slices of the stacked results; otherwise the results of the equation.

    Args:
      *operands: the groups of operands, in order. Empty for a primitive whose programs do not take its operands (the
        monoid of a reduction); `indivisible` is then required.
      body: the param that holds the region, or the tuple of regions, whose results are those of the equation.
      test: of a loop, the param of the region whose one boolean result decides whether another iteration runs.
      length: of a loop, the param with the number of iterations.
      reverse: of a loop with scanned operands, the param with a bool: whether it starts at the last slice.
      max_iters: of a loop with a `test`, the param with the maximal number of iterations, or None.
      axis_binding: of a map, which axes it binds and how operands and results are mapped over them.
      per_operand: param with one entry per operand -> the entry of a new operand (`axis_binding` computes the entries
        of its own params).
      per_result: param with one entry per result -> the entry of a new result.
      transient: as `per_operand`, but valid for one equation only (a donated buffer); derived equations get these
        entries.
      extra_programs: params of further programs, such as a solver's transpose.
      remat_policy: the param with the checkpoint policy; values that it does not save are rematerialized.
      jvp_rule: the param with the `Rule` for JVPs. Its program maps the operands and the tangents of the inexact
        operands after the first group to the results and the tangents of the inexact results.
      indivisible: the reason why the equation must not be split; empty if it may be.

    >>> RegionSignature(const_operands("num_consts"), carry_operands(), body="jaxpr", length="times")
    RegionSignature(const: num_consts, carry: rest, body=jaxpr, length=times)
    """

    __slots__ = ("operands", "body", "test", "length", "reverse", "max_iters", "axis_binding", "per_operand", "per_result",
                 "transient", "extra_programs", "remat_policy", "jvp_rule", "indivisible", "programs", "entries",
                 "loops", "program_groups", "_last_group",
                 "_layouts")

    def __init__(self, *operands: OperandGroup, body: str = "", test: str = "", length: str = "", reverse: str = "",
                 max_iters: str = "", axis_binding: AxisBinding | None = None,
                 per_operand: Mapping[str, ParamValue] | None = None,
                 per_result: Mapping[str, ParamValue] | None = None, transient: Mapping[str, ParamValue] | None = None,
                 extra_programs: tuple[str, ...] = (), remat_policy: str = "", jvp_rule: str = "",
                 indivisible: str = "") -> None:
        self.operands, self.body, self.test, self.length, self.reverse = operands, body, test, length, reverse
        self.max_iters, self.axis_binding = max_iters, axis_binding
        self.per_operand, self.per_result = dict(per_operand or {}), dict(per_result or {})
        self.transient = dict(transient or {})
        self.extra_programs, self.remat_policy = extra_programs, remat_policy
        self.jvp_rule, self.indivisible = jvp_rule, indivisible
        self.programs = tuple([p for p in (test, body, *extra_programs) if p])
        # (param, entry of a new operand or result, is per operand) of each param with such entries.
        self.entries = [*[(p, new, True) for p, new in {**self.per_operand, **self.transient}.items()],
                        *[(p, new, False) for p, new in self.per_result.items()]]
        self.loops = bool(length or test)
        # `check_declaration` raises for operands of other types.
        groups = [(i, g) for i, g in enumerate(operands) if isinstance(g, OperandGroup)]
        # Param of a region -> indices of the groups that it takes.
        self.program_groups = {p: [i for i, g in groups if g.kind != SELECTOR and g.of in ("", p)] for p in (body, test)}
        self._last_group = {g.kind: i for i, g in groups if g.of in ("", body)}
        self._layouts: dict[tuple[int, ...], OperandLayout] = {}

    def axes(self, params: Mapping[str, ParamValue]) -> tuple[tuple[AxisName, int], ...]:
        """Return (name, size) of each axis that the equation binds for its regions; () if it is not a map."""
        return () if self.axis_binding is None else self.axis_binding.axes(params)

    def group(self, kind: str) -> int | None:
        """Return the index of the last group of this kind that the body takes; None if absent."""
        return self._last_group.get(kind)

    def layout(self, sizes: tuple[int, ...]) -> OperandLayout:
        """Return the operand positions for these group sizes. Cached: a primitive occurs with few different sizes."""
        found = self._layouts.get(sizes)
        if found is None:
            if len(self._layouts) > 256:
                self._layouts.clear()
            groups = tuple([i for i, s in enumerate(sizes) for _ in range(s)])
            kinds = tuple([self.operands[i].kind for i in groups])
            at = kinds.index(CARRY) if CARRY in kinds else 0
            body, test = [tuple([i for i, g in enumerate(groups) if g in self.program_groups[p]])
                          for p in (self.body, self.test)]
            found = self._layouts[sizes] = OperandLayout(groups, kinds, slice(at, at + kinds.count(CARRY)),
                                                         kinds.index(SELECTOR) if SELECTOR in kinds else None, body, test)
        return found

    def kinds(self) -> dict[str, str]:
        """Return param -> kind of its value (see `param_types`), for the params of this signature."""
        found = dict.fromkeys([self.length, *[g.count for g in self.operands if type(g.count) is str]], "int")
        found |= {self.max_iters: "int?", self.reverse: "bool", self.test: "program"}
        found[self.body] = "programs" if any(g.kind == SELECTOR for g in self.operands) else "program"
        found.pop("", None)
        return found

    def check_declaration(self, op: str, params: tuple[str, ...]) -> None:
        """Raise ProgramError unless this can be the signature of a primitive with these params."""
        def fail(field: str, text: str) -> ProgramError:
            return ProgramError(f"Primitive {op!r}: region_signature: {field} {text} (see docs/design/nested-programs.md)")

        for i, g in enumerate(self.operands):
            if not isinstance(g, OperandGroup) or g.kind not in (CONST, CARRY, SCANNED, SELECTOR):
                raise fail(f"operands[{i}]", "must be const_operands(...), carry_operands(...), scanned_operands(...) "
                           f"or selector_operand(); got {g!r}")
        # First: every field that names a param names an existing one. Then: the fields fit together.
        named = {"body": self.body, "test": self.test, "length": self.length, "reverse": self.reverse,
                 "max_iters": self.max_iters, "remat_policy": self.remat_policy, "jvp_rule": self.jvp_rule,
                 **{f"extra_programs[{i}]": p for i, p in enumerate(self.extra_programs)},
                 **{f"per_operand[{p!r}]": p for p in (*self.per_operand, *self.transient)},
                 **{f"per_result[{p!r}]": p for p in self.per_result},
                 **{f"axis_binding[{i}]": p for i, p in enumerate(self.axis_binding.params if self.axis_binding else ())}}
        named |= {f"operands[{i}].count": g.count for i, g in enumerate(self.operands) if type(g.count) is str}
        named |= {f"operands[{i}].of": g.of for i, g in enumerate(self.operands)}
        for field, param in named.items():
            if param and param not in params:
                raise fail(field, f"must name one of the params {', '.join(params) or '(there are none)'}; got {param!r}")
        if not self.operands:
            if not self.indivisible or self.body or not self.extra_programs:
                raise fail("operands", "may be empty only if `extra_programs` names the programs and `indivisible` gives "
                           "the reason why they do not take the operands")
            return
        if not self.body:
            raise fail("body", "must name the param of the region that computes the results")
        for i, g in enumerate(self.operands):
            if g.of not in ("", self.body, self.test):
                raise fail(f"operands[{i}].of", f"must be the body or the test; got {g.of!r}")
        kinds = [g.kind for g in self.operands]
        if [g.count for g in self.operands].count(None) > 1:
            raise fail("operands", "may have one group without a count; give the others a count")
        if self.loops:
            if (CARRY not in kinds and SCANNED not in kinds) or SELECTOR in kinds:
                raise fail("operands", f"of a loop must be const, carry and scanned; got {', '.join(kinds)}")
        elif CARRY in kinds or SCANNED in kinds:
            raise fail("operands", f"may be {CARRY} or {SCANNED} only in a loop, which has a `length` or a `test`")
        if self.max_iters and not self.test:
            raise fail("max_iters", "is for loops with a `test`; a known number of iterations is `length`")
        if self.test and (self.length or SCANNED in kinds):
            raise fail("test", "makes the number of iterations unknown; remove `length` and the scanned operands")
        for kind in (CARRY, SCANNED, SELECTOR):
            if kinds.count(kind) > 1:
                raise fail("operands", f"may hold one group of kind {kind}; got {kinds.count(kind)}")

    @override
    def __repr__(self) -> str:
        parts = [f"{g.kind}: {'rest' if g.count is None else g.count}" for g in self.operands]
        fields = {"body": self.body, "test": self.test, "length": self.length, "max_iters": self.max_iters,
                  "indivisible": self.indivisible}
        parts += [f"{name}={value}" for name, value in fields.items() if value]
        return f"RegionSignature({', '.join(parts)})"
