"""Views of equations with regions: which operands each region takes, dataflow analysis through regions, and rebuilding.

`RegionView` resolves the region signature of a primitive for the params of one equation. `propagate_forward` and
`propagate_backward` run a dataflow analysis through its regions, `RegionView.rebuild` computes the params of a similar
equation with fewer, more or other operands, results and regions.

The fixpoint iteration of loops is implemented only here. Marks (bools or sets) are joined with `|`. They only grow and
form a finite lattice, so the iteration ends: after round k, a carry is marked if a path of at most k iterations marks
it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .._util.short_repr import short_repr
from .arg_checks import (CLOSED_JAXPR, FUNCTION, INT, ITEMS, MAPPING, MARKS, raise_for_bad_args, instance_of, optional,
                         check_args)
from .._types.avals import ShapedArray, shaped
from ..errors import ProgramError
from .region_signature import SCANNED, RegionSignature
from .primitive import Primitive
from .jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from ..typing import CacheKey, ParamValue, Params, Value
from .source_info import Source

__all__ = ["OperandSpec", "RebuiltParams", "Region", "RegionView", "propagate_backward", "propagate_forward",
           "reorder_signature", "replace_signature"]

Mark: TypeAlias = Any  # a bool or a set; marks are joined with `|`
Marks: TypeAlias = tuple[Mark, ...]


class Region(NamedTuple):
    """A program nested in an equation.

    Attributes:
      program: the program.
      ins: the positions of the operands it takes, in order.
      is_test: whether it is the test of a loop, which decides whether another iteration runs.

    >>> from lamina_ir import parse
    >>> Region(parse("{ lambda ; a:i32[]. let  in (a,) }"), (2,), False).ins
    (2,)
    """

    program: ClosedJaxpr
    ins: tuple[int, ...]
    is_test: bool


class OperandSpec(NamedTuple):
    """Specification of an operand or result for `RegionView.rebuild`.

    Attributes:
      group: of an operand, the index of its group in the signature. Of a result, 0 if it is a carry, else 1.
      aval: its type inside a region. Required if a region takes the operand without reading it, and for new operands
        and results of a map.
      like: the position of the old operand or result whose per-operand params it gets; None: those of a new one.
      same: whether it is that operand itself, so that transient params (a donated buffer) stay valid.
      shared: of a new operand of a map, whether it is the same for all members; otherwise each member has its own.

    >>> OperandSpec(0, like=2)
    OperandSpec(group=0, aval=None, like=2, same=False, shared=False)
    """

    group: int
    aval: ShapedArray | None = None
    like: int | None = None
    same: bool = False
    shared: bool = False


class RebuiltParams(NamedTuple):
    """Params of an equation, and the order of its operands and results, as positions in the lists given to
    `rebuild`."""

    params: Params
    operands: list[int]
    results: list[int]

    def eqn(self, prim: Primitive, invars: Sequence[Atom], outvars: Sequence[Var], source: Source | None = None) -> Eqn:
        """Make the equation; `invars` and `outvars` are in the order given to `rebuild`."""
        return Eqn(prim, [invars[i] for i in self.operands], [outvars[i] for i in self.results], self.params, source)

    def reorder_results(self, outs: Sequence[Value]) -> list[Value]:
        """Return the results of the equation in the order given to `rebuild`."""
        found: list[Value] = [None] * len(outs)
        for i, o in zip(self.results, outs):
            found[i] = o
        return found


class RegionView:
    """View of an equation with regions, resolved by the region signature of its primitive.

    Args:
      prim: a primitive with a region signature.
      params: the params of the equation.
      count: the number of its operands.
    Raises:
      ProgramError: params or operand count do not match the signature.

    Attributes:
      groups: per operand, the index of its group.
      kinds: per operand, its kind.
      regions: the test of a loop, if it has one, then the body or bodies.
      bodies: the regions without the test.
      carry: the slice of operands that are carries; they correspond to the first `n_carry` results.
      selector: the position of the operand that selects a branch, or None.
      n_results: the number of results.

    >>> from lamina_ir import parse, prims
    >>> step = parse("{ lambda ; a:f32[] b:f32[] c:f32[]. let d:f32[] = mul a b e:f32[] = add d c in (e, b) }")
    >>> scan = dict(jaxpr=step, length=3, num_consts=1, num_carry=1, reverse=False, unroll=1)
    >>> w = RegionView(prims.scan_p, scan, 3)
    >>> w.kinds, w.carry, w.n_results
    (('const', 'carry', 'scanned'), slice(1, 2, None), 2)
    """

    __slots__ = ("prim", "region_signature", "params", "groups", "kinds", "regions", "bodies", "carry", "n_carry",
                 "selector", "n_results",
                 "_inner")

    def __init__(self, prim: Primitive, params: Params, count: int) -> None:
        self.prim, self.params = prim, params
        self._inner: dict[int, ShapedArray] | None = None
        if not isinstance(prim, Primitive) or prim.region_signature is None:
            raise TypeError(f"RegionView: prim must be a primitive with regions; got {short_repr(prim)}")
        self.region_signature: RegionSignature = prim.region_signature
        try:
            self._resolve(count)
        except (LookupError, TypeError, AttributeError, ValueError):
            raise_for_bad_args("RegionView", ("params", MAPPING, params), ("count", INT, count))
            missing = [p for p in prim.params if p not in params]
            if missing:
                raise self._mismatch(f"its params {', '.join(missing)} are missing") from None
            raise

    def _resolve(self, count: int) -> None:
        flow, params = self.region_signature, self.params
        given: list[int | None] = [params[g.count] if isinstance(g.count, str) else g.count for g in flow.operands]
        rest = count - sum([s for s in given if s is not None])  # of the one group without a count
        sizes = tuple([rest if s is None else s for s in given])
        if min(sizes) < 0 or sum(sizes) != count:
            raise self._mismatch(f"its params require the operands {self._describe_sizes(sizes)}; got {count} operands")
        self.groups, self.kinds, self.carry, self.selector, ins, test_ins = flow.layout(sizes)
        self.n_carry = self.carry.stop - self.carry.start
        bodies = params[flow.body]
        self.bodies = self.regions = [Region(b, ins, False) for b in ((bodies,) if isinstance(bodies, ClosedJaxpr) else bodies)]
        if flow.test:
            self.regions = [Region(params[flow.test], test_ins, True), *self.bodies]
        self.n_results = len(self.bodies[0].program.jaxpr.outvars)

    @classmethod
    def of(cls, e: Eqn) -> RegionView:
        """View an equation."""
        return cls(e.primitive, e.params, len(e.invars))

    def _describe_sizes(self, sizes: Iterable[int]) -> str:
        return ", ".join([f"{s} {g.kind}" for g, s in zip(self.region_signature.operands, sizes)])

    def _mismatch(self, text: str) -> ProgramError:
        return ProgramError(f"{self.prim.name} does not match the region signature of its primitive: {text} "
                            "(see docs/design/nested-programs.md)")

    def check(self) -> None:
        """Raise ProgramError unless the regions have the operand and result counts that the signature requires."""
        n = self.n_carry
        for region in self.regions:
            name = self.region_signature.test if region.is_test else self.region_signature.body
            n_in, n_out = len(region.program.jaxpr.invars), len(region.program.jaxpr.outvars)
            if n_in != len(region.ins):
                sizes = self._describe_sizes([self.groups.count(i) for i in range(len(self.region_signature.operands))])
                raise self._mismatch(f"{name} takes {n_in} operands; the equation passes {len(region.ins)} ({sizes})")
            if region.is_test:
                expected = "1 result" if n_out != 1 else ""
            elif self.region_signature.loops and self.region_signature.group(SCANNED) is None:
                expected = f"{n} results, all of them carries" if n_out != n else ""
            else:
                expected = f"{self.n_results} results, the first {n} of them carries"
                expected = "" if n <= n_out == self.n_results else expected
            if expected:
                raise self._mismatch(f"{name} must have {expected}; it has {n_out}")
        for param, _, of_operands in self.region_signature.entries:
            value, count = self.params[param], len(self.groups) if of_operands else self.n_results
            if not isinstance(value, tuple) or len(value) not in (0, count):
                raise self._mismatch(f"{param} must be a tuple of {count} entries; got {value!r:.60}")

    @property
    def can_add_scanned(self) -> bool:
        """Whether a scanned operand or stacked result (one slice per iteration) can be added."""
        return bool(self.region_signature.length) and self.region_signature.group(SCANNED) is not None

    def inner_aval(self, i: int) -> ShapedArray:
        """Return the type of an operand inside the regions that take it."""
        if self._inner is None:
            self._inner = {} if self.selector is None else {self.selector: shaped((), np.dtype("int32"))}
            for region in reversed(self.regions):
                self._inner.update([(k, v.aval) for k, v in zip(region.ins, region.program.jaxpr.invars)])
        return self._inner[i]

    def outer_aval(self, aval: ShapedArray) -> ShapedArray:
        """Return the type of a new result of the equation that is `aval` in each iteration, or for each mapped
        member."""
        if self.region_signature.axis_binding is not None:
            return self.region_signature.axis_binding.mapped_entry(self.params, aval)[1]
        return shaped((self.params[self.region_signature.length], *aval.shape), aval.dtype,
                      aval.weak_type) if self.region_signature.loops else aval

    def operands(self, numbers: Iterable[int] | None = None, same: bool = True) -> list[OperandSpec]:
        """Return the specs of these operands (default: all)."""
        numbers = range(len(self.groups)) if numbers is None else numbers
        return [OperandSpec(self.groups[i], None, i, same) for i in numbers]

    def results(self, numbers: Iterable[int] | None = None) -> list[OperandSpec]:
        """Return the specs of these results (default: all)."""
        numbers = range(self.n_results) if numbers is None else numbers
        n = self.n_carry
        return [OperandSpec(int(j >= n), None, j, True) for j in numbers]

    def rebuild(self, operands: Sequence[OperandSpec], results: Sequence[OperandSpec],
                programs: Sequence[tuple[ClosedJaxpr, Sequence[int], Sequence[int]]]) -> RebuiltParams:
        """Return the params of an equation with these operands, results and regions; counts are computed from them.

        Args:
          operands: in any order; the equation takes them group by group.
          results: in any order; the equation returns carries first.
          programs: in the order of `regions`: (program, positions of the operands it takes, positions of the results it
            computes). Operands of its groups that a program does not take become unused arguments.
        """
        flow = self.region_signature
        # Operands of the equation are ordered by group, and within a group as given (sorting is stable).
        groups = [s.group for s in operands]
        ops = sorted(range(len(operands)), key=groups.__getitem__)
        outs = sorted(range(len(results)), key=[s.group for s in results].__getitem__)
        regions = []
        for region, (program, taken, computed) in zip(self.regions, programs):
            # For `reorder_signature`: an int is an argument of the program, a type an unused argument to add.
            into = flow.program_groups[flow.test if region.is_test else flow.body]
            at = {i: k for k, i in enumerate(taken)}
            ins = [at[i] if i in at else operands[i].aval or self.inner_aval(operands[i].like)  # type: ignore[arg-type]
                   for i in ops if groups[i] in into]
            out = {j: k for k, j in enumerate(computed)}
            regions.append(reorder_signature(program, ins, [0] if region.is_test else [out[j] for j in outs]))
        params = dict(self.params)
        if flow.test:
            params[flow.test] = regions.pop(0)
        params[flow.body] = regions[0] if isinstance(params[flow.body], ClosedJaxpr) else tuple(regions)
        for n, group in enumerate(flow.operands):
            if isinstance(group.count, str):
                params[group.count] = groups.count(n)
        # Params with an entry per operand or result. A spec copies the entry of the operand it is `like`; a transient
        # entry only if it is the same operand. If all entries are those of new operands and the default is (), write
        # the default.
        for name, new, of_operands in flow.entries:
            old, default, is_transient = self.params[name], self.prim.defaults.get(name), name in flow.transient
            if old or default != ():
                order = [operands[i] for i in ops] if of_operands else [results[j] for j in outs]
                entries = tuple([old[s.like] if s.like is not None and old and (s.same or not is_transient)
                                 else self._entry(name, new, s) for s in order])
                params[name] = () if default == () and all(v == new for v in entries) else entries
        return RebuiltParams(params, ops, outs)

    def _entry(self, name: str, new: ParamValue, spec: OperandSpec) -> ParamValue:
        """Return the entry of a new operand or result in a param with an entry for each."""
        binding = self.region_signature.axis_binding
        if binding is None or name not in (binding.ins, binding.outs):
            return new
        aval: ShapedArray = spec.aval  # type: ignore[assignment]  # new operands of a map have one
        return binding.shared(aval) if spec.shared else binding.mapped_entry(self.params, aval)[0]

    def reset_transient_params(self) -> Params:
        """Return the params with transient entries reset."""
        if not self.region_signature.transient:
            return self.params
        fresh = {p: self.prim.defaults.get(p, (new,) * len(self.groups)) for p, new in self.region_signature.transient.items()}
        return {**self.params, **fresh}

    def key(self) -> CacheKey:
        """Return a key of the equation for `memo` of one of its regions; TypeError if a param is not hashable."""
        values = [v for p, v in self.params.items() if p not in self.region_signature.programs]
        key = (self.prim, len(self.groups), *[id(region.program) for region in self.regions], *values)
        hash(key)
        return key


# --- marks --------------------------------------------------------------------------------------------------------
_VIEW = instance_of("a RegionView", RegionView)


def _check_count(call: str, marks: Sequence[Mark], expected: int, what: str) -> None:
    if len(marks) != expected:
        raise ProgramError(f"{call}: marks must have {expected} entries, one for each {what}; got {len(marks)}")


def _join(lists: Iterable[Iterable[Mark]]) -> list[Mark]:
    """Join lists of marks elementwise."""
    total: list[Mark] = []
    for marks in lists:
        total = [a | b for a, b in zip(total, marks)] if total else list(marks)
    return total


@check_args(w=_VIEW, marks=MARKS, transfer=FUNCTION)
def propagate_forward(w: RegionView, marks: Sequence[Mark], transfer: Callable[[Region, Marks],
                                                                              Sequence[Mark]]) -> tuple[Marks, Marks]:
    """Propagate marks of operands through the regions to the results.

    Args:
      w: the equation.
      marks: of its operands.
      transfer: (region, marks of its arguments) -> marks of its results. Must be monotone.
    Returns:
      (marks of the operands, with carries at the fixpoint; marks of the results). A marked selector marks all results,
      a marked loop test all carries, since results depend on which branch runs and on the number of iterations.

    >>> from lamina_ir import parse, prims
    >>> step = parse("{ lambda ; a:f32[] b:f32[] c:f32[]. let d:f32[] = mul a b in (d, c) }")
    >>> w = RegionView(prims.scan_p, dict(jaxpr=step, length=3, num_consts=1, num_carry=1, reverse=False, unroll=1), 3)
    >>> propagate_forward(w, [True, False, False], lambda wire, m: [m[0] | m[1], m[2]])  # the constant reaches the carry
    ((True, True, False), (True, False))
    """
    # current: marks of the operands. An iteration propagates them to its results; the marks of its carries enter the
    # next iteration. This computes the least fixpoint above the initial marks of the carries.
    _check_count("propagate_forward", marks, len(w.groups), "operand")
    current, span, n = list(marks), w.carry, w.n_carry
    while True:
        found = _join([transfer(b, tuple([current[i] for i in b.ins])) for b in w.bodies])
        carry = [a | b for a, b in zip(current[span], found)]
        if carry == current[span]:
            break
        current[span] = carry
    if w.region_signature.test:
        test = w.regions[0]
        truth, = transfer(test, tuple([current[i] for i in test.ins]))
        if truth:
            current[span] = [m | truth for m in current[span]]  # the test decides how often each carry is updated
            return tuple(current), tuple(current[span])
    found[:n] = current[span]  # after zero iterations a carry has its initial value
    # The selector decides which branch computes each result.
    if w.selector is not None and current[w.selector]:
        found = [m | current[w.selector] for m in found]
    return tuple(current), tuple(found)


@check_args(w=_VIEW, marks=MARKS, transfer=FUNCTION, linear=optional(ITEMS))
def propagate_backward(w: RegionView, marks: Sequence[Mark], transfer: Callable[[Region, Marks], Sequence[Mark]],
                       linear: Sequence[bool] | None = None) -> tuple[Marks, Marks]:
    """Propagate marks of results backward through the regions to the operands.

    Args:
      w: the equation.
      marks: of its results.
      transfer: (region, marks of its results) -> marks of its arguments. Must be monotone.
      linear: flags of the operands to mark (for a transpose). Default: all operands; then a selector, and the operands
        that a loop test reads, are marked too.
    Returns:
      (marks of the operands; marks of the results, with carries at the fixpoint).

    >>> from lamina_ir import parse, prims
    >>> step = parse("{ lambda ; a:f32[] b:f32[] c:f32[]. let d:f32[] = mul a b in (d, c) }")
    >>> w = RegionView(prims.scan_p, dict(jaxpr=step, length=3, num_consts=1, num_carry=1, reverse=False, unroll=1), 3)
    >>> propagate_backward(w, [False, True], lambda wire, m: [m[0], m[0], m[1]])  # the second result reads only the slices
    ((False, False, True), (False, True))
    """
    _check_count("propagate_backward", marks, w.n_results, "result")
    current, span, n = list(marks), w.carry, w.n_carry
    regions = w.bodies if linear is not None else w.regions

    # current: marks of the results. The carries that an iteration reads are results of the iteration before it.
    while True:
        found: list[Mark] = [False] * len(w.groups)
        for region in regions:
            for i, m in zip(region.ins, transfer(region, (True,) if region.is_test else tuple(current))):
                if linear is None or linear[i]:
                    found[i] = found[i] | m
        carry = [a | b for a, b in zip(current, found[span])]
        if carry == current[:n]:
            break
        current[:n] = carry
    # After zero iterations the results are the operands, so a carry is needed if its final value is.
    found[span] = current[:n]
    # A linear program passes its results back to linear operands only; the selector is not one of them.
    if w.selector is not None and linear is None:
        found[w.selector] = True
    return tuple(found), tuple(current)


# --- signatures ---------------------------------------------------------------------------------------------------
@check_args(closed=CLOSED_JAXPR, invars=ITEMS, outvars=ITEMS, eqns=optional(ITEMS))
def replace_signature(closed: ClosedJaxpr, invars: Sequence[Var], outvars: Sequence[Atom],
                      eqns: Sequence[Eqn] | None = None) -> ClosedJaxpr:
    """Return the program with other arguments, results and, if given, equations.

    Args:
      closed: the program.
      invars: the new arguments, variables.
      outvars: the new results, variables or literals.
      eqns: the new equations; default: unchanged.
    Returns:
      A program with the constants of `closed`.

    >>> from lamina_ir import parse
    >>> closed = parse("{ lambda ; a:f32[]. let b:f32[] = sin a c:f32[] = cos b in (c,) }")
    >>> replace_signature(closed, closed.jaxpr.invars, [closed.jaxpr.eqns[0].outvars[0]]).out_avals
    [ShapedArray(float32[])]
    """
    old = closed.jaxpr
    # Axis names and effects depend on the equations only; None computes them again.
    return ClosedJaxpr(Jaxpr(old.constvars, invars, old.eqns if eqns is None else eqns, outvars,
                             old.axis_names if eqns is None else None, old.effectful if eqns is None else None),
                       closed.consts)


def reorder_signature(closed: ClosedJaxpr, ins: Sequence[int | ShapedArray], outs: Sequence[int]) -> ClosedJaxpr:
    """Return `closed` with reordered arguments and results; a type among `ins` becomes an unused argument."""
    ins, outs = tuple(ins), tuple(outs)
    jaxpr = closed.jaxpr
    if ins == tuple(range(len(jaxpr.invars))) and outs == tuple(range(len(jaxpr.outvars))):
        return closed

    def make() -> ClosedJaxpr:
        return replace_signature(closed, [jaxpr.invars[i] if type(i) is int else Var(i) for i in ins],  # type: ignore[arg-type]
                                 [jaxpr.outvars[j] for j in outs])

    return closed.memo(("arrange", ins, outs), make)
