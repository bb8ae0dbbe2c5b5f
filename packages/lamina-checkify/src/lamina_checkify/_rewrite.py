"""Rewrite a program so that it returns an error in addition to its results.

`Rewriter` walks a program twice. `collect` finds the conditions of all equations, also in nested programs, by the rules
in `checkify_rules`: this gives the static `Table` and the types of the error's leaves. `run` then evaluates the program
with a `State`, those leaves. An equation with nested programs that contain conditions is replaced by one whose programs
return a state too. The region signature of its primitive determines how: a loop carries the state, a map returns the
state of each member.

A rewritten program starts with a state without an error; the equation that contains it merges its state. So calls and
rules of custom derivatives keep their operands, and a program that is called twice is rewritten once.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from lamina_ir import (ClosedJaxpr, Eqn, Literal, MissingRuleError, ShapedArray, UnnamedAxis, Var, dtypes, prims,
                       shaped, subprograms)
from lamina_ir.extend import CARRY, CONST, OperandSpec, RegionView
from lamina_ir.typing import Value
from lamina_tracing import lax
from lamina_tracing.extend import (AxisFrame, bind, capture_scope, eval_jaxpr, extend_axis_env, stage, trace_state,
                                    typeof)

from ._check import UNNAMED, Axes, check_p
from ._conditions import Condition, ErrorCategory, FixedText, checkify_rules, has_opaque_programs, user_checks
from ._error import ErrorText, Label, Site, Table

__all__ = ["Rewriter", "State"]

_INT = shaped((), np.dtype("int32"))
_CUSTOM = (prims.custom_jvp_call_p, prims.custom_vjp_call_p)
_Found = tuple["State", list[Value]]
_RebuiltRegion = tuple[ClosedJaxpr, Sequence[int], Sequence[int]]  # program, its operands, its results; see `rebuild`


class State(NamedTuple):
    """The leaves of an `Error` while a program is evaluated: `code`, `trail`, slots."""

    code: Value
    trail: Value
    slots: tuple[Value, ...]

    def flatten(self) -> list[Value]:
        """Return the leaves as a list."""
        return [self.code, self.trail, *self.slots]

    @classmethod
    def of(cls, leaves: Sequence[Value]) -> State:
        """Return the state with these leaves."""
        return cls(leaves[0], leaves[1], tuple(leaves[2:]))

    def merge(self, later: State) -> State:
        """Return this state if it has an error, else the later one."""
        if isinstance(self.code, np.generic):  # no condition came before
            return later
        passed = lax.eq(self.code, np.int32(0))
        return State.of([lax.select(passed, b, a) for a, b in zip(self.flatten(), later.flatten())])

    def enclose(self, label: int, number: Value) -> State:
        """Add a loop or map at the front of the trail, if there is an error."""
        place = lax.concatenate([lax.reshape(x, (1, 1)) for x in (np.int32(label), number)], 1)
        rows = lax.slice_in_dim(lax.concatenate([place, self.trail], 0), 0, typeof(self.trail).shape[0])
        return self._replace(trail=lax.select(lax.ne(self.code, np.int32(0)), rows, self.trail))


class Rewriter:
    """Rewriting of one program and those nested in it, for one call of `checkify`.

    Args:
      program: the program.
      categories: the kinds of checks to add.
    """

    def __init__(self, program: ClosedJaxpr, categories: frozenset[ErrorCategory]) -> None:
        self.program, self.categories = program, categories
        self.conditions: dict[int, list[tuple[int, Condition]]] = {}  # id of an equation -> (number of site, condition)
        self.sites: list[Site] = []
        self.labels: dict[Label, int] = {}
        self.slots: list[ShapedArray] = []
        self._depths: dict[int, int] = {}  # id of a program -> depth of the deepest condition in it; -1: there is none
        self.rule_sites: dict[int, int] = {}  # id of a call with derivative rules -> number of the site of their checks
        self._rewritten: dict[int, ClosedJaxpr] = {}
        self.depth = max(self.collect(program, ""), 0)

    def table(self) -> Table:
        """Return the static part of the error; complete after `run`."""
        return Table(tuple(self.sites), tuple(self.labels))

    # --- find the conditions
    def collect(self, program: ClosedJaxpr, caller: str) -> int:
        """Find the conditions of a program; return their depth. `caller` is the source line of the calling equation."""
        found = self._depths.get(id(program))
        if found is None:
            found = self._depths[id(program)] = max(
                [self._collect_eqn(e, str(e.source) if e.source else caller) for e in program.jaxpr.eqns], default=-1)
        return found

    def _collect_eqn(self, e: Eqn, source: str) -> int:
        rule = checkify_rules[e.primitive]
        conditions = [c for c in rule([v.aval for v in e.invars], [v.aval for v in e.outvars], **e.params)
                      if c.category in self.categories and 0 not in c.shape]
        if conditions:
            self.conditions[id(e)] = [(self._add_site(c, source), c) for c in conditions]
        depth = 0 if conditions or e.primitive is check_p else -1  # a check that is not turned on is removed
        if has_opaque_programs(e.primitive):
            if any(map(_contains_check, subprograms(e))):
                raise MissingRuleError(f"checkify of `{e.primitive.name}` is not defined for a check inside of it: its "
                                       "programs cannot return an error. Check its operands or results instead")
        elif e.primitive.region_signature is not None:
            signature = e.primitive.region_signature
            inner = max([self.collect(region.program, source) for region in RegionView.of(e).regions])
            nested = bool(signature.loops or signature.axis_binding)
            depth = inner + nested if inner >= 0 else -1
            if inner >= 0 and e.primitive in _CUSTOM:
                text = FixedText(f"a check in a derivative rule of `{e.params['name']}` failed; checkify(grad(f)) "
                                 "gives its message")
                self.rule_sites[id(e)] = self._add_site(Condition(ErrorCategory.USER, text, (), (), _no_find), source)
        return depth

    def _add_site(self, c: Condition, source: str) -> int:
        """Add a site to the table; return its number, from 1."""
        taken: list[int] = []
        for aval in [*[_INT] * bool(c.shape), *[shaped(a.shape, a.dtype) for a in c.payload]]:
            k = next((k for k, a in enumerate(self.slots) if a == aval and k not in taken), len(self.slots))
            self.slots[k:] = self.slots[k:] or [aval]
            taken.append(k)
        # The message of an error that was checked again holds the lines of its own checks.
        source = "" if isinstance(c.text, ErrorText) else source
        self.sites.append(Site(c.text, source, c.shape, c.part, c.axes, tuple(taken)))
        return len(self.sites)

    def _label(self, e: Eqn, axes: Axes = (), last: int | None = None) -> int:
        label = Label(e.primitive.name.removeprefix("xla_"), str(e.source) if e.source else "", axes, last)
        return self.labels.setdefault(label, len(self.labels))

    # --- evaluate with a state
    def initial_state(self) -> State:
        """Return the state without an error."""
        slots = tuple([lax.full(a.shape, 0, a.dtype) if a.shape else a.dtype.type(0) for a in self.slots])
        return State(np.int32(0), np.full((self.depth, 2), -1, np.int32), slots)

    def run(self, program: ClosedJaxpr, args: Sequence[Value]) -> _Found:
        """Evaluate a program with its conditions; return the state and the results."""
        jaxpr, state = program.jaxpr, self.initial_state()
        env: dict[Var, Value] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *args]))
        outer, base = trace_state.source, trace_state.scope
        try:
            for e in jaxpr.eqns:
                if e.source is not None:
                    source = e.source.in_scope(base) if base else e.source
                    trace_state.source, trace_state.scope = source, source.scope
                else:
                    trace_state.source, trace_state.scope = outer, base
                values = [v.val if type(v) is Literal else env[v] for v in e.invars]
                state, outs = self._run_eqn(e, values, state)
                env.update(zip(e.outvars, outs))
        finally:
            trace_state.source, trace_state.scope = outer, base
        return state, [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def _run_eqn(self, e: Eqn, values: Sequence[Value], state: State) -> _Found:
        signature = e.primitive.region_signature
        if signature is not None and not has_opaque_programs(e.primitive) and max(
                [self._depths[id(region.program)] for region in RegionView.of(e).regions]) >= 0:
            run = (self._run_loop if signature.loops else self._run_map if signature.axis_binding else
                   self._run_custom if e.primitive in _CUSTOM else self._run_call)
            inner, outs = run(e, values)
            state = state.merge(inner)
        elif e.primitive is check_p:
            outs = []
        else:
            outs = bind(e.primitive, *values, **e.params)
            outs = list(outs) if e.primitive.multiple else [outs]
        for number, condition in self.conditions.get(id(e), ()):
            state = self._mark(state, number, condition, *condition.find(values, outs))
        return state, outs

    def _mark(self, state: State, number: int, condition: Condition, bad: Value, payload: Sequence[Value]) -> State:
        """Return the state after a condition; `bad` is true where it does not hold."""
        values = list(payload)
        if condition.shape:
            # One reduction finds both whether a condition failed and where: the least index of a failed element.
            n = int(np.prod(condition.shape))
            numbers = lax.select(lax.reshape(bad, (n,)), lax.iota(np.int32, n), lax.full((n,), n, np.int32))
            first = lax.reduce_min(numbers, (0,))
            bad, first = lax.lt(first, np.int32(n)), lax.min(first, np.int32(n - 1))
            values = [first, *[lax.dynamic_index_in_dim(lax.reshape(x, (n, *a.shape)), first, 0, False)
                               for x, a in zip(payload, condition.payload)]]
        failed = bad if isinstance(state.code, np.generic) else lax.bitwise_and(bad, lax.eq(state.code, np.int32(0)))
        slots = list(state.slots)
        for k, value in zip(self.sites[number - 1].slots, values):
            # No derivative passes through a message. The conversion makes a weak type a strong one.
            value = lax.stop_gradient(lax.convert_element_type(value, self.slots[k].dtype))
            slots[k] = lax.select(failed, value, slots[k])
        return State(lax.select(failed, np.int32(number), state.code), state.trail, tuple(slots))

    # --- equations with nested programs
    def _rewrite(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """Return the program that returns its results, then the leaves of its state."""
        made = self._rewritten.get(id(program))
        if made is None:
            def run(*args: Value) -> list[Value]:
                state, outs = self.run(program, args)
                return [*outs, *state.flatten()]
            made = self._rewritten[id(program)] = self._stage(run, program.in_avals)
        return made

    def _stage(self, run: Callable[..., list[Value]], avals: Sequence[ShapedArray]) -> ClosedJaxpr:
        made, outer = stage(run, avals)
        assert not outer  # nested programs have no closed-over values
        return made

    def _bind(self, w: RegionView, values: Sequence[Value], operands: Sequence[OperandSpec],
              results: Sequence[OperandSpec], programs: Sequence[_RebuiltRegion]) -> list[Value]:
        rebuilt = w.rebuild(operands, results, programs)
        return rebuilt.reorder_results(bind(w.prim, *[values[i] for i in rebuilt.operands], **rebuilt.params))

    def _run_call(self, e: Eqn, values: Sequence[Value]) -> _Found:
        w = RegionView.of(e)
        made = [self._rewrite(region.program) for region in w.regions]
        results = [*w.results(), *[OperandSpec(1, a) for a in made[0].out_avals[w.n_results:]]]
        outs = self._bind(w, values, w.operands(), results,
                          [(program, region.ins, range(len(results))) for program, region in zip(made, w.regions)])
        return State.of(outs[w.n_results:]), outs[:w.n_results]

    def _run_map(self, e: Eqn, values: Sequence[Value]) -> _Found:
        """Each member returns a state; that of the first member with an error is the state of the map."""
        w = RegionView.of(e)
        binding = e.primitive.region_signature.axis_binding  # type: ignore[union-attr]
        axes = binding.axes(e.params)  # type: ignore[union-attr]
        region, n = w.regions[0], w.n_results

        def run(*args: Value) -> list[Value]:
            state, outs = self.run(region.program, args)
            return [*outs, *[_vary(x, axes) for x in state.flatten()]]

        with extend_axis_env(*[AxisFrame(name, size) for name, size in axes]):
            made = self._stage(run, region.program.in_avals)
        results = [*w.results(), *[OperandSpec(1, a) for a in made.out_avals[n:]]]
        outs = self._bind(w, values, w.operands(), results, [(made, region.ins, range(len(results)))])
        local = binding.local_axes(e.params)  # type: ignore[union-attr]
        size = int(np.prod([k for _, k in local]))
        code, *rest = [lax.reshape(x, (size, *a.shape)) for x, a in zip(outs[n:], made.out_avals[n:])]
        first = lax.argmax(lax.ne(code, np.int32(0)), 0, np.int32)
        state = State.of([lax.dynamic_index_in_dim(x, first, 0, False) for x in (code, *rest)])
        named = tuple([(UNNAMED if type(name) is UnnamedAxis else name, k) for name, k in local])
        return state.enclose(self._label(e, named), first), outs[:n]

    def _run_custom(self, e: Eqn, values: Sequence[Value]) -> _Found:
        """A call with derivative rules: they return the state of the call too, whose derivative is zero."""
        n, made, params = len(e.outvars), self._rewrite(e.params["call_jaxpr"]), dict(e.params)
        inexact = [a for a in made.out_avals[n:] if dtypes.is_inexact(a.dtype)]

        def run_rule(name: str, *args: Value) -> list[Value]:
            """Return the results of a rule, with the state after those of the call."""
            rewriter = Rewriter(e.params[name].program(), self.categories & user_checks)
            inner, outs = rewriter.run(rewriter.program, args)
            failed = lax.select(lax.ne(inner.code, np.int32(0)), np.int32(self.rule_sites[id(e)]), np.int32(0))
            state = State.of(eval_jaxpr(made, args[:len(e.invars)])[n:])
            state = state.merge(self.initial_state()._replace(code=failed))
            return [*outs[:n], *state.flatten(), *outs[n:]]

        def jvp() -> ClosedJaxpr:
            zeros = [np.zeros(a.shape, a.dtype) for a in inexact]
            return self._stage(lambda *xs: [*run_rule("jvp", *xs), *zeros], e.params["jvp"].program().in_avals)

        def fwd() -> ClosedJaxpr:
            return self._stage(functools.partial(run_rule, "fwd"), e.params["fwd"].program().in_avals)

        def bwd() -> ClosedJaxpr:  # takes cotangents of the state too; a check in it must be in checkify(grad(f))
            rule = e.params["bwd"].program()
            return self._stage(lambda *args: eval_jaxpr(rule, args[:len(rule.in_avals)]), [*rule.in_avals, *inexact])

        scope = capture_scope()  # rules are staged later, with the mapped axes of now
        for name, make in (("jvp", jvp), ("fwd", fwd), ("bwd", bwd)):
            if name in params:
                params[name] = prims.Rule(params[name].name, functools.partial(scope, make))
        outs = bind(e.primitive, *values, **{**params, "call_jaxpr": made})
        return State.of(outs[n:]), list(outs[:n])

    def _run_loop(self, e: Eqn, values: Sequence[Value]) -> _Found:
        """Carry the state and the number of the iteration; if the test of a loop has conditions, also its result.

        Operands are the constants, the old carries and scanned arrays, then the new carries. All constants of the loop
        become constants of the body, which then runs the test for the next iteration.
        """
        w = RegionView.of(e)
        signature, body, test = w.region_signature, w.bodies[0], w.regions[0] if w.region_signature.test else None
        tested = test is not None and self._depths[id(test.program)] >= 0
        last = e.params[signature.length] - 1 if signature.reverse and e.params[signature.reverse] else None
        label, carries, count, n = self._label(e, (), last), range(len(values))[w.carry], len(values), w.n_results

        def run_test(number: Value, operands: Sequence[Value]) -> _Found:
            state, outs = self.run(test.program, operands)  # type: ignore[union-attr]
            return state.enclose(label, number), outs

        def step(*xs: Value) -> list[Value]:
            given = dict(zip(body_ins, xs))
            *leaves, number = xs[len(body_ins):len(body_ins) + n_state + 1]
            state, outs = self.run(body.program, [given[i] for i in body.ins])
            state, number = State.of(leaves).merge(state.enclose(label, number)), lax.add(number, np.int32(1))
            flags: list[Value] = []
            if tested:
                after = {**given, **dict(zip(carries, outs))}
                found, flags = run_test(number, [after[i] for i in test.ins])  # type: ignore[union-attr]
                state = state.merge(found)
            return [*outs, *state.flatten(), number, *flags]

        operands, body_ins, start = w.operands(), list(body.ins), self.initial_state()
        new = [*start.flatten(), np.int32(0)]
        n_state = len(new) - 1
        if tested:
            group = signature.group(CONST)
            operands = [OperandSpec(group, w.inner_aval(i), i) if w.kinds[i] == CONST else o  # type: ignore[arg-type]
                        for i, o in enumerate(operands)]
            body_ins = [i for i in range(count) if w.kinds[i] == CONST] + [i for i in body.ins if w.kinds[i] != CONST]
            found, flags = run_test(np.int32(0), [values[i] for i in test.ins])  # type: ignore[union-attr]
            new = [*start.merge(found).flatten(), np.int32(0), *flags]
        avals = [shaped(a.shape, a.dtype) for a in map(typeof, new)]
        made = self._stage(step, [*[w.inner_aval(i) for i in body_ins], *avals])
        added = range(count, count + len(new))
        specs = [OperandSpec(signature.group(CARRY), a) for a in avals]  # type: ignore[arg-type]
        programs: list[_RebuiltRegion] = [(made, [*body_ins, *added], range(n + len(new)))]
        if tested:
            programs.insert(0, (self._stage(lambda go: [go], avals[-1:]), [added[-1]], range(1)))
        elif test is not None:
            programs.insert(0, (test.program, test.ins, range(1)))
        outs = self._bind(w, [*values, *new], [*operands, *specs], [*w.results(), *[OperandSpec(0, a) for a in avals]],
                          programs)
        return State.of(outs[n:n + n_state]), outs[:n]


def _no_find(operands: Sequence[Value], results: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    raise AssertionError  # the condition of a rule is not that of an equation


def _contains_check(program: ClosedJaxpr) -> bool:
    return any(e.primitive is check_p or any(map(_contains_check, subprograms(e))) for e in program.jaxpr.eqns)


def _vary(x: Value, axes: Axes) -> Value:
    """Return `x` with a type that varies over all named axes, so that the map returns it for each member."""
    named = [lax.axis_index(name) for name, _ in axes if type(name) is not UnnamedAxis]
    for index in named:  # no index is negative
        x = lax.select(lax.lt(index, np.int32(0)), lax.full_like(x, 0), x)
    return x
