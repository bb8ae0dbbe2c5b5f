"""Equations laid open along the flow of their primitive: which operand each nested program takes, marks sent through all of
them, and the params of a like equation with fewer, more or other operands, results and programs.

The fixpoint of a loop stands here once. Marks are joined with `|` (truth values, or sets), only ever grow, and there are
finitely many, so going round settles: after the k-th round a carry is marked if some path of at most k turns marks it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._excerpt import excerpt
from .arguments import CLOSED, FUNCTION, INT, ITEMS, MAPPING, MARKS, blame, of_type, optional, takes
from .avals import ShapedArray, shaped
from .errors import ProgramError
from .flow import STACKED, Flow
from .primitive import Primitive
from .program import ClosedJaxpr, Eqn, Jaxpr, Var

__all__ = ["Slot", "Wire", "Wired", "Written", "arrange", "backward", "forward", "with_signature"]

Marks = tuple[Any, ...]


class Wire(NamedTuple):
    """A nested program and where it stands.

    Attributes:
      program: the program.
      ins: the numbers of the operands it takes, in order.
      decides: whether it is the test of a loop, which decides on another turn.

    >>> from lamina_ir import parse
    >>> Wire(parse("{ lambda ; a:i32[]. let  in (a,) }"), (2,), False).ins
    (2,)
    """

    program: ClosedJaxpr
    ins: tuple[int, ...]
    decides: bool


class Slot(NamedTuple):
    """An operand or result of an equation to be written.

    Attributes:
      group: of an operand: the number of its group in the flow. Of a result: 0 if it is carried, else 1.
      aval: its type inside a program; needed where a program takes it that does not read it, and of a map's new ones.
      like: the number of the operand or result whose per-operand params it shares; None: those of a new one.
      same: whether it is that very operand, so that what is true of one run only stays true (a donated buffer).
      shared: of a map's new operand, whether it is one for all members; else each has its own.

    >>> Slot(0, like=2)
    Slot(group=0, aval=None, like=2, same=False, shared=False)
    """

    group: int
    aval: ShapedArray | None = None
    like: int | None = None
    same: bool = False
    shared: bool = False


class Written(NamedTuple):
    """Params of an equation, and in which order it takes the operands and gives the results it was asked for."""

    params: dict[str, Any]
    operands: list[int]
    results: list[int]

    def eqn(self, prim: Primitive, invars: Sequence[Any], outvars: Sequence[Any], source: Any = None) -> Eqn:
        return Eqn(prim, [invars[i] for i in self.operands], [outvars[i] for i in self.results], self.params, source)

    def back(self, outs: Sequence[Any]) -> list[Any]:
        """Results in the order they were asked for."""
        found: list[Any] = [None] * len(outs)
        for i, o in zip(self.results, outs):
            found[i] = o
        return found


class Wired:
    """An op with its params and this many operands, laid open along its flow.

    Args:
      prim: an op with a flow.
      params: the params of one equation.
      count: the number of its operands.
    Raises:
      ProgramError: they do not fit the flow.

    Attributes:
      groups: per operand, the number of its group.
      kinds: per operand, its kind.
      wires: the programs: the test of a loop, if it has one, then the body or bodies.
      bodies: those without the test.
      carry: the slice of operands that are carried; the first `n_carry` results are theirs.
      chooser: the number of the operand that chooses a program, or None.
      n_results: how many results there are.

    >>> from lamina_ir import parse, prims
    >>> step = parse("{ lambda ; a:f32[] b:f32[] c:f32[]. let d:f32[] = mul a b e:f32[] = add d c in (e, b) }")
    >>> scan = dict(jaxpr=step, length=3, num_consts=1, num_carry=1, reverse=False, unroll=1)
    >>> w = Wired(prims.scan_p, scan, 3)
    >>> w.kinds, w.carry, w.n_results
    (('held', 'carried', 'stacked'), slice(1, 2, None), 2)
    """

    __slots__ = ("prim", "flow", "params", "groups", "kinds", "wires", "bodies", "carry", "n_carry", "chooser", "n_results",
                 "_inner")

    def __init__(self, prim: Primitive, params: dict[str, Any], count: int) -> None:
        self.prim, self.params = prim, params
        self._inner: dict[int, ShapedArray] | None = None
        if not isinstance(prim, Primitive) or prim.flow is None:
            raise TypeError(f"Wired: expected an op that holds programs; got {excerpt(prim)}")
        self.flow: Flow = prim.flow
        try:
            self._lay_open(count)
        except (LookupError, TypeError, AttributeError, ValueError):
            blame("Wired", ("params", MAPPING, params), ("count", INT, count))
            missing = [p for p in prim.params if p not in params]
            if missing:
                raise self._misfit(f"its params {', '.join(missing)} are missing") from None
            raise

    def _lay_open(self, count: int) -> None:
        flow, params = self.flow, self.params
        given: list[int | None] = [params[g.count] if isinstance(g.count, str) else g.count for g in flow.operands]
        rest = count - sum([s for s in given if s is not None])  # one group may leave its count open
        sizes = tuple([rest if s is None else s for s in given])
        if min(sizes) < 0 or sum(sizes) != count:
            raise self._misfit(f"its operands are {self._words(sizes)}, which are not the {count} it has")
        self.groups, self.kinds, self.carry, self.chooser, ins, test_ins = flow.layout(sizes)
        self.n_carry = self.carry.stop - self.carry.start
        bodies = params[flow.body]
        self.bodies = self.wires = [Wire(b, ins, False) for b in ((bodies,) if isinstance(bodies, ClosedJaxpr) else bodies)]
        if flow.test:
            self.wires = [Wire(params[flow.test], test_ins, True), *self.bodies]
        self.n_results = len(self.bodies[0].program.jaxpr.outvars)

    @classmethod
    def of(cls, e: Eqn) -> Wired:
        return cls(e.primitive, e.params, len(e.invars))

    def _words(self, sizes: Iterable[Any]) -> str:
        return ", ".join([f"{s} {g.kind}" for g, s in zip(self.flow.operands, sizes)])

    def _misfit(self, text: str) -> ProgramError:
        return ProgramError(f"{self.prim.name} does not fit the flow of its primitive: {text} (see docs/nested-programs.md)")

    def check(self) -> None:
        """ProgramError unless the programs take and give what the flow says they do."""
        n = self.n_carry
        for wire in self.wires:
            name = self.flow.test if wire.decides else self.flow.body
            takes, gives = len(wire.program.jaxpr.invars), len(wire.program.jaxpr.outvars)
            if takes != len(wire.ins):
                raise self._misfit(f"{name} takes {takes} operands; {len(wire.ins)} go to it "
                                   f"({self._words([self.groups.count(i) for i in range(len(self.flow.operands))])})")
            if wire.decides:
                wanted = "1 result" if gives != 1 else ""
            elif self.flow.loops and self.flow.group(STACKED) is None:
                wanted = f"{n} results, all of which it carries" if gives != n else ""
            else:
                wanted = f"{self.n_results} results, the first {n} of them carried" if not n <= gives == self.n_results else ""
            if wanted:
                raise self._misfit(f"{name} must have {wanted}; it has {gives}")
        for param, count in [*[(p, len(self.groups)) for p in (*self.flow.each, *self.flow.spent)],
                             *[(p, self.n_results) for p in self.flow.results]]:
            value = self.params[param]
            if not isinstance(value, tuple) or len(value) not in (0, count):
                raise self._misfit(f"{param} must be a tuple of {count} entries; got {value!r:.60}")

    @property
    def stacks(self) -> bool:
        """Whether another operand or result can have one entry for each turn."""
        return bool(self.flow.length) and self.flow.group(STACKED) is not None

    def type_inside(self, i: int) -> ShapedArray:
        """The type of an operand inside the programs that take it."""
        if self._inner is None:
            self._inner = {} if self.chooser is None else {self.chooser: shaped((), np.dtype("int32"))}
            for wire in reversed(self.wires):
                self._inner.update([(k, v.aval) for k, v in zip(wire.ins, wire.program.jaxpr.invars)])
        return self._inner[i]

    def type_stacked(self, aval: ShapedArray) -> ShapedArray:
        """The type of a new result that is `aval` in each turn, or for each member of a map."""
        if self.flow.binds is not None:
            return self.flow.binds.own(self.params, aval)[1]
        return shaped((self.params[self.flow.length], *aval.shape), aval.dtype, aval.weak_type) if self.flow.loops else aval

    def operands(self, numbers: Iterable[int] | None = None, same: bool = True) -> list[Slot]:
        """Slots of these operands, by default all."""
        numbers = range(len(self.groups)) if numbers is None else numbers
        return [Slot(self.groups[i], None, i, same) for i in numbers]

    def results(self, numbers: Iterable[int] | None = None) -> list[Slot]:
        """Slots of these results, by default all."""
        numbers = range(self.n_results) if numbers is None else numbers
        n = self.n_carry
        return [Slot(int(j >= n), None, j, True) for j in numbers]

    def write(self, operands: Sequence[Slot], results: Sequence[Slot],
              programs: Sequence[tuple[ClosedJaxpr, Any, Any]]) -> Written:
        """Params of an equation with these operands, results and programs; counts and the like follow from them.

        Args:
          operands: in any order; the equation takes them group by group.
          results: in any order; the equation gives the carried ones first.
          programs: as in `wires`: each with the numbers of the operands it takes and the results it gives, in its order.
            Operands that go to it by their group and that it does not take are added, unread.
        """
        flow = self.flow
        # The order of the equation: by group, and within one as given (sorting is stable).
        groups = [s.group for s in operands]
        ops = sorted(range(len(operands)), key=groups.__getitem__)
        outs = sorted(range(len(results)), key=[s.group for s in results].__getitem__)
        made = []
        for wire, (program, takes_in, gives) in zip(self.wires, programs):
            # For `arrange`: a number is an argument that the program has, a type one that it is given and does not read.
            into = flow.into[flow.test if wire.decides else flow.body]
            at = {i: k for k, i in enumerate(takes_in)}
            ins = [at[i] if i in at else operands[i].aval or self.type_inside(operands[i].like)  # type: ignore[arg-type]
                   for i in ops if groups[i] in into]
            out = {j: k for k, j in enumerate(gives)}
            made.append(arrange(program, ins, [0] if wire.decides else [out[j] for j in outs]))
        params = dict(self.params)
        if flow.test:
            params[flow.test] = made.pop(0)
        params[flow.body] = made[0] if isinstance(params[flow.body], ClosedJaxpr) else tuple(made)
        for n, group in enumerate(flow.operands):
            if isinstance(group.count, str):
                params[group.count] = groups.count(n)
        # Params with an entry per operand or result. A slot has the entry of what it is `like`, what was true of one run only
        # if it is that very operand; and nothing but entries of new ones is written as the default, if that is ().
        for name, new, of_operands in flow.entries:
            old, default, lasting = self.params[name], self.prim.defaults.get(name), name not in flow.spent
            if old or default != ():
                order = [operands[i] for i in ops] if of_operands else [results[j] for j in outs]
                found = tuple([old[s.like] if s.like is not None and old and (lasting or s.same)
                               else self._entry(name, new, s) for s in order])
                params[name] = () if default == () and all(v == new for v in found) else found
        return Written(params, ops, outs)

    def _entry(self, name: str, new: Any, slot: Slot) -> Any:
        """What stands for a new operand or result in a param with an entry for each."""
        binds = self.flow.binds
        if binds is None or name not in (binds.ins, binds.outs):
            return new
        aval: ShapedArray = slot.aval  # type: ignore[assignment]  # a new one of a map says what it is
        return binds.shared(aval) if slot.shared else binds.own(self.params, aval)[0]

    def unspent(self) -> dict[str, Any]:
        """Params without what was true of one run only."""
        if not self.flow.spent:
            return self.params
        fresh = {p: self.prim.defaults.get(p, (new,) * len(self.groups)) for p, new in self.flow.spent.items()}
        return {**self.params, **fresh}

    def key(self) -> Any:
        """What tells equations of this op apart, for `memo` of a program in it; TypeError where a param cannot be hashed."""
        plain = [v for p, v in self.params.items() if p not in self.flow.programs]
        key = (self.prim, len(self.groups), *[id(w.program) for w in self.wires], *plain)
        hash(key)
        return key


# --- marks --------------------------------------------------------------------------------------------------------
_WIRED = of_type("a Wired", Wired)


def _refuse_other_count(call: str, marks: Sequence[Any], wanted: int, what: str) -> None:
    if len(marks) != wanted:
        raise ProgramError(f"{call}: marks must have {wanted} entries, one for each {what}; got {len(marks)}")


def _join(rows: Iterable[Iterable[Any]]) -> list[Any]:
    total: list[Any] = []
    for row in rows:
        total = [a | b for a, b in zip(total, row)] if total else list(row)
    return total


@takes(w=_WIRED, marks=MARKS, through=FUNCTION)
def forward(w: Wired, marks: Sequence[Any], through: Callable[[Wire, Marks], Sequence[Any]]) -> tuple[Marks, Marks]:
    """Marks of operands sent through the programs to the results.

    Args:
      w: the equation.
      marks: of its operands.
      through: a program and the marks of what it takes -> the marks of what it gives. It never unmarks.
    Returns:
      (marks of the operands, carries as they are once settled; marks of the results). What decides, a chooser or a test,
      marks all results that it decides on: branches, or all that a loop hands on.

    >>> from lamina_ir import parse, prims
    >>> step = parse("{ lambda ; a:f32[] b:f32[] c:f32[]. let d:f32[] = mul a b in (d, c) }")
    >>> w = Wired(prims.scan_p, dict(jaxpr=step, length=3, num_consts=1, num_carry=1, reverse=False, unroll=1), 3)
    >>> forward(w, [True, False, False], lambda wire, m: [m[0] | m[1], m[2]])  # the held operand reaches the carry
    ((True, True, False), (True, False))
    """
    # current: marks of the operands. A turn sends them to its results, and those of its carry are the marks of the next turn:
    # the least fixpoint above those that the carry starts with.
    _refuse_other_count("forward", marks, len(w.groups), "operand")
    current, span, n = list(marks), w.carry, w.n_carry
    while True:
        found = _join([through(b, tuple([current[i] for i in b.ins])) for b in w.bodies])
        carry = [a | b for a, b in zip(current[span], found)]
        if carry == current[span]:
            break
        current[span] = carry
    if w.flow.test:
        test = w.wires[0]
        truth, = through(test, tuple([current[i] for i in test.ins]))
        if truth:
            current[span] = [m | truth for m in current[span]]  # the test says how often each carry was changed
            return tuple(current), tuple(current[span])
    found[:n] = current[span]  # without any turn a carry stays what it was
    if w.chooser is not None and current[w.chooser]:
        found = [m | current[w.chooser] for m in found]
    return tuple(current), tuple(found)


@takes(w=_WIRED, marks=MARKS, through=FUNCTION, linear=optional(ITEMS))
def backward(w: Wired, marks: Sequence[Any], through: Callable[[Wire, Marks], Sequence[Any]],
             linear: Sequence[bool] | None = None) -> tuple[Marks, Marks]:
    """Marks of results sent back through the programs to the operands.

    Args:
      w: the equation.
      marks: of its results.
      through: a program and the marks of what it gives -> the marks of what it takes.
      linear: the operands that count (of a transpose); default: all, and what decides counts too.
    Returns:
      (marks of the operands; marks of the results, carries as they are once settled).

    >>> from lamina_ir import parse, prims
    >>> step = parse("{ lambda ; a:f32[] b:f32[] c:f32[]. let d:f32[] = mul a b in (d, c) }")
    >>> w = Wired(prims.scan_p, dict(jaxpr=step, length=3, num_consts=1, num_carry=1, reverse=False, unroll=1), 3)
    >>> backward(w, [False, True], lambda wire, m: [m[0], m[0], m[1]])  # the second result needs the slices alone
    ((False, False, True), (False, True))
    """
    _refuse_other_count("backward", marks, w.n_results, "result")
    current, span, n = list(marks), w.carry, w.n_carry
    wires = w.bodies if linear is not None else w.wires

    # current: marks of the results. What a turn needs of its carry the turn before has to give.
    while True:
        found: list[Any] = [False] * len(w.groups)
        for wire in wires:
            for i, m in zip(wire.ins, through(wire, (True,) if wire.decides else tuple(current))):
                if linear is None or linear[i]:
                    found[i] = found[i] | m
        carry = [a | b for a, b in zip(current, found[span])]
        if carry == current[:n]:
            break
        current[:n] = carry
    found[span] = current[:n]
    if w.chooser is not None and linear is None:
        found[w.chooser] = True
    return tuple(found), tuple(current)


# --- signatures ---------------------------------------------------------------------------------------------------
@takes(closed=CLOSED, invars=ITEMS, outvars=ITEMS, eqns=optional(ITEMS))
def with_signature(closed: ClosedJaxpr, invars: Sequence[Any], outvars: Sequence[Any],
                   eqns: Sequence[Eqn] | None = None) -> ClosedJaxpr:
    """A program with other argument variables, results and perhaps equations.

    Args:
      closed: the program.
      invars: its new arguments, variables.
      outvars: its new results, variables or literals.
      eqns: its new equations; default: those it has.
    Returns:
      A program with the constants of `closed`.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> with_signature(closed, closed.jaxpr.invars, [closed.jaxpr.eqns[0].outvars[0]]).out_avals
    [ShapedArray(float32[])]
    """
    old = closed.jaxpr
    return ClosedJaxpr(Jaxpr(old.constvars, invars, old.eqns if eqns is None else eqns, outvars,
                             old.axis_names if eqns is None else None, old.effectful if eqns is None else None),
                       closed.consts)


def arrange(closed: ClosedJaxpr, ins: Sequence[int | ShapedArray], outs: Sequence[int]) -> ClosedJaxpr:
    """`closed` with its arguments and results in another order; a type among `ins` is an argument nobody reads."""
    ins, outs = tuple(ins), tuple(outs)
    jaxpr = closed.jaxpr
    if ins == tuple(range(len(jaxpr.invars))) and outs == tuple(range(len(jaxpr.outvars))):
        return closed

    def make() -> ClosedJaxpr:
        return with_signature(closed, [jaxpr.invars[i] if type(i) is int else Var(i) for i in ins],  # type: ignore[arg-type]
                              [jaxpr.outvars[j] for j in outs])

    return closed.memo(("arrange", ins, outs), make)
