"""Turn the phases of a program into scans over a serial axis.

Sums and maxima/minima over the axis are accumulated in the carry. Other collectives (gathers, permutations, ...) run
between two scans, on the values of all positions. Loops of the program whose bodies contain collectives over the axis
stay loops, and their bodies are split into phases.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from lamina_batching.extend import BatchAxis, BatchedProgram, batch_program, batch_higher_order, materialise
from lamina_ir import (
    Atom, ClosedJaxpr, dce, DropVar, dtypes, Eqn, eqn_axis_names, Jaxpr, Literal, Primitive, prims, shaped,
    ShapedArray, Source, subprograms, Var)
from lamina_ir.extend import stack_depth, annotate_varying_axes
from lamina_ir.typing import Function, Tree, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, eval_jaxpr, trace_state, scalar, stage, typeof

from .contract_sums import contract_sums
from .checkpoint_phases import inline_axis_calls
from .split_phases import AxisNames, split_phases, is_accumulable, make_program, find_free_vars
from .scatter_sums import scatter_sums

__all__ = ["scan_over_axis"]

SumKey = tuple[Primitive, tuple[int, ...], Atom]  # reduction, reduced array axes, operand

# psum, pmax, pmin -> (combine two partial results, initial value for a dtype, reduce an array)
_COMBINE: dict[Primitive, tuple[Function, Function, Function]] = {
    prims.psum_p: (lax.add, lambda d: 0, lax.reduce_sum), prims.pmax_p: (lax.max, prims.lowest, lax.reduce_max),
    prims.pmin_p: (lax.min, prims.highest, lax.reduce_min)}
_FILLS = frozenset([prims.broadcast_in_dim_p, prims.iota_p])


def scan_over_axis(closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...],
             all_out: bool | tuple[bool, ...] = False, nested: bool = False) -> BatchedProgram:
    """Map a program over an axis, one position after the other, with the signature of `batch_program`.

    Args:
      closed: the program of one position.
      axis: the number of positions and the axis name of collectives.
      batched: which arguments have a slice for each position, along axis 0.
      all_out: whether every result (or each marked one) must have such a slice.
      nested: whether the program runs in another loop over a serial axis, so that its arguments are slices.
    Returns:
      A `BatchedProgram`: the program over all positions, and which results have a slice for each position.

    >>> from lamina_ir import parse
    >>> scanned = scan_over_axis(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), BatchAxis(3, "i"), (True,))
    >>> scanned.program.eqns[0].primitive.name
    'scan'
    """
    with stack_depth.with_recursion_limit():
        # The staged program contains types and collectives that depend on the axes in scope, so their names and sizes
        # are part of the key.
        key = ("in turns", axis, batched, all_out, nested, tuple([(f.name, f.size) for f in trace_state.axes]))
        return closed.memo_with_settings(key, lambda: _ScanBuilder(closed, axis, batched, nested).build(all_out))


class _ScanBuilder:
    """Emit a program phase by phase, as scans over one axis.

    `values` maps each variable to its value; of a variable that varies over the axis, this is the array of all slices.
    """

    def __init__(self, closed: ClosedJaxpr, axis: BatchAxis, batched: tuple[bool, ...], nested: bool) -> None:
        self.given, self.axis, self.batched = closed, axis, batched
        self.outer_axes = frozenset([f.name for f in trace_state.axes]) - {axis.name}
        marks = [a.varying_axes | {axis.name} if on else a.varying_axes - {axis.name}
                 for a, on in zip(closed.in_avals, batched)]
        typed = annotate_varying_axes(closed, marks, self.outer_axes | {axis.name})
        self.closed = dce(inline_axis_calls(typed, frozenset([axis.name])), instantiate=True)[0]
        # Before the split, because only values of a phase can be accumulated.
        if nested:
            self.closed = _copy_reduced_inputs(self.closed, frozenset([axis.name]))
        self.cut = split_phases(self.closed, frozenset([axis.name]), True)
        # carried[k]: the accumulated reductions of phase k, keyed by (primitive, reduced axes of the operand,
        # variable). `totals` gets their results under the same keys.
        sums = [e for es in self.cut.boundary_eqns for e in es if is_accumulable(e, frozenset([axis.name]))]
        self.sums = set(map(id, sums))
        self.carried: list[dict[SumKey, Eqn]] = [{} for _ in self.cut.phase_eqns]
        for e in sums:
            for v in e.invars:
                if v in self.cut.phase:
                    self.carried[self.cut.phase[v]][e.primitive, _array_axes(e), v] = e
        self.stored = self.cut.stored_values(self.closed.jaxpr.outvars, sums)
        self.totals: dict[SumKey, Value] = {}
        self.fills = {e.outvars[0]: e for es in self.cut.boundary_eqns for e in es
                      if e.primitive in _FILLS and not self.varies(e.outvars[0])}
        self.values: dict[Atom, Value] = {}

    def _is_axis_index(self, e: Eqn) -> bool:
        return e.primitive is prims.axis_index_p and e.params["axis_name"] == self.axis.name

    def varies(self, a: Atom) -> bool:
        return type(a) is not Literal and self.axis.name in a.aval.varying_axes

    def _read(self, a: Atom) -> Value:
        return a.val if type(a) is Literal else self.values[a]

    def build(self, all_out: bool | tuple[bool, ...]) -> BatchedProgram:
        jaxpr, n = self.closed.jaxpr, self.axis.size
        wanted = all_out if isinstance(all_out, tuple) else (all_out,) * len(jaxpr.outvars)
        flags = tuple([w or self.varies(v) for v, w in zip(jaxpr.outvars, wanted)])

        def run(*args: Value) -> list[Value]:
            self.values.update(zip([*jaxpr.constvars, *jaxpr.invars], [*self.closed.consts, *args]))
            outer = trace_state.source
            try:  # each equation keeps its user source line
                for k, others in enumerate(self.cut.boundary_eqns):
                    for e in others:
                        trace_state.source = e.source or outer
                        self.values.update(self._run_reduction(e) if id(e) in self.sums else self._run_equation(e))
                    if k < len(self.cut.phase_eqns):
                        trace_state.source = self._make_phase_source(k) or outer
                        self._emit_phase(k)
            finally:
                trace_state.source = outer
            return [materialise(self._read(v), None, n) if on and not self.varies(v) else self._read(v)
                    for v, on in zip(jaxpr.outvars, flags)]

        overs = [a.varying_axes - {self.axis.name} for a in self.given.in_avals]
        avals = [(shaped((n, *a.shape), a.dtype, a.weak_type) if on else a).with_varying_axes(over)
                 for a, on, over in zip(self.given.in_avals, self.batched, overs)]
        program = stage(run, avals)[0]
        return BatchedProgram(annotate_varying_axes(program, overs, self.outer_axes), flags)

    # --- between phases ---
    def _run_equation(self, e: Eqn) -> dict[Atom, Value]:
        """Run an equation between two phases on the arrays of all positions, or on values that do not vary."""
        ins, outs = find_free_vars([e]), [v for v in e.outvars if type(v) is not DropVar]
        program, args, on = make_program([e], ins, outs), [self.values[v] for v in ins], tuple(map(self.varies, ins))
        is_collective = self.axis.name in eqn_axis_names(e)
        if not is_collective and not any(on):
            return dict(zip(outs, eval_jaxpr(program, args)))
        flow = e.primitive.region_signature
        if is_collective and flow is not None and not (flow.indivisible or flow.remat_policy or flow.jvp_rule):
            given = [self._read(a) for a in e.invars]
            at = [0 if self.varies(a) else None for a in e.invars]
            # A loop or branch with collectives over the axis inside: it stays, and its body becomes scans over the
            # axis. Its carries and slices then hold all positions.
            found, dims = batch_higher_order(e.primitive, self.axis, given, at, e.params, partial(scan_over_axis, nested=True))
            pairs = [(v, o, d) for v, o, d in zip(e.outvars, found, dims) if type(v) is not DropVar]
        else:
            batched = batch_program(program, self.axis, on)
            results = eval_jaxpr(batched.program, args)
            pairs = [(v, o, 0 if d else None) for v, o, d in zip(outs, results, batched.batched_out)]
        return {v: self._materialize(v, o, d) for v, o, d in pairs}

    def _materialize(self, v: Atom, o: Value, dim: int | None) -> Value:
        """Return a result with its mapped axis at position 0 if the variable varies over the axis, without that axis
        otherwise."""
        if self.varies(v):
            return materialise(o, dim, self.axis.size)
        return o if dim is None else lax.index_in_dim(o, 0, dim, False)  # equal at all positions

    def _run_reduction(self, e: Eqn) -> dict[Atom, Value]:
        """Return the results of an accumulable reduction; also reduce over its other named axes.

        A total that a scan has accumulated is used as it is. Otherwise the array of all slices is reduced; the sum of a
        value that does not vary is the value times the axis size.
        """
        names = tuple([n for n in e.params["axes"] if n != self.axis.name and type(n) is not int])
        array_axes, reduce_all, parts = _array_axes(e), _COMBINE[e.primitive][2], []
        for a in e.invars:
            x = self.totals.get((e.primitive, array_axes, a))
            if x is None:
                x = self._read(a)
                if self.varies(a):
                    x = reduce_all(x, (0, *[n + 1 for n in array_axes]))
                else:
                    x = reduce_all(x, array_axes) if array_axes else x
                    # psum of n equal values; pmax and pmin of them are the value.
                    x = lax.mul(x, scalar(self.axis.size, typeof(x).dtype)) if e.primitive is prims.psum_p else x
            parts.append(x)
        return dict(zip(e.outvars, bind(e.primitive, *parts, axes=names, axis_index_groups=None) if names else parts))

    # --- phases ---
    def _make_phase_source(self, k: int) -> Source | None:
        """Return the first source line of a phase, in a scope of its own.

        The scope distinguishes the generated loop from the user's loops in profiles and plans.
        """
        first = _find_first_line(self.cut.phase_eqns[k])
        scope = f"turns/phase_{k}"
        return first and Source(first.code, first.lasti, f"{first.scope}/{scope}" if first.scope else scope, first.part)

    def _emit_phase(self, k: int) -> None:
        """Emit a phase as one scan over the positions."""
        carried, stored = self.carried[k], self.stored[k]
        outs = list(dict.fromkeys([*[v for _, _, v in carried], *stored]))
        if not outs:
            return
        stacked, carried_last = [[v for v in stored if self.varies(v) is on] for on in (True, False)]
        index_vars = [e.outvars[0] for e in self.cut.phase_eqns[k] if self._is_axis_index(e)]
        eqns = self._prepend_fills([e for e in self.cut.phase_eqns[k] if not self._is_axis_index(e)])
        reads = [v for v in find_free_vars(eqns) if v not in index_vars]
        slices, shared_vars = [v for v in reads if self.varies(v)], [v for v in reads if not self.varies(v)]
        program = contract_sums(scatter_sums(make_program(eqns, [*shared_vars, *slices, *index_vars], outs)))
        shared = [self.values[v] for v in shared_vars]

        def step(before: list[Value], xs: Tree) -> tuple[list[Value], list[Value]]:
            index, sliced = xs
            found = dict(zip(outs, eval_jaxpr(program, [*shared, *sliced, *[index] * len(index_vars)])))
            totals = [_accumulate(e, t, found[v]) for t, ((_, _, v), e) in zip(before, carried.items())]
            return [*totals, *[found[v] for v in carried_last]], [found[v] for v in stacked]

        index = lax.iota(np.dtype("int32"), self.axis.size) if index_vars else None
        # A stored value of a varying equation may itself not vary. It needs no stack: the carry holds the value of
        # the last iteration.
        start = [_initial_total(e, v.aval) for (_, _, v), e in carried.items()]
        start += [lax.full(v.aval.shape, 0, v.aval.dtype) for v in carried_last]
        ends, ys = lax.scan(step, start, (index, [self.values[v] for v in slices]), self.axis.size)
        for key, total in zip(carried, ends):
            self.totals[key] = lax.convert_element_type(total, key[2].aval.dtype)
        self.values.update(zip([*carried_last, *stacked], [*ends[len(carried):], *ys]))

    def _prepend_fills(self, eqns: list[Eqn]) -> list[Eqn]:
        """Prepend the broadcasts and iotas that the equations read.

        Repeating these in each iteration costs almost nothing, and their results need not be stored.
        """
        found: set[Atom] = set()
        todo = find_free_vars(eqns)
        for v in todo:
            if v in self.fills and v not in found:
                found.add(v)
                todo += [a for a in self.fills[v].invars if type(a) is not Literal]
        return [*[e for v, e in self.fills.items() if v in found], *eqns]


def _find_first_line(eqns: Sequence[Eqn]) -> Source | None:
    """Return the first user source line of the equations.

    For generated calls and loops this is the first line of their nested programs.
    """
    for e in eqns:
        inside = [_find_first_line(s.jaxpr.eqns) for s in subprograms(e)] if e.primitive.subprograms else []
        found = next(filter(None, inside), e.source)
        if found:
            return found
    return None


def _copy_reduced_inputs(closed: ClosedJaxpr, names: AxisNames) -> ClosedJaxpr:
    """Replace the operands of reductions that are inputs of the program by copies.

    Phases compute copies, so a scan accumulates their sum. That matters in a nested loop: the inputs are slices there,
    and reducing them as one array would need the slices of all iterations at once. For a whole array the reduction is a
    single operation, so the outermost loop leaves it as it is.
    """
    jaxpr = closed.jaxpr
    copies: dict[Atom, Var] = {}
    eqns: list[Eqn] = []
    varying_inputs = {v for v in jaxpr.invars if not names.isdisjoint(v.aval.varying_axes)}
    for e in jaxpr.eqns:
        if is_accumulable(e, names) and not varying_inputs.isdisjoint(e.invars):
            for v in e.invars:
                if v in varying_inputs and v not in copies:
                    copies[v] = Var(v.aval)
                    eqns.append(Eqn(prims.copy_p, [v], [copies[v]], {}, e.source))
            e = e.replace(invars=[a if type(a) is Literal else copies.get(a, a) for a in e.invars])
        eqns.append(e)
    return ClosedJaxpr(Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars), closed.consts) if copies else closed


def _array_axes(e: Eqn) -> tuple[int, ...]:
    """Return the positional axes of a reduction; the others are named axes."""
    return tuple([n for n in e.params["axes"] if type(n) is int])


def _initial_total(e: Eqn, aval: ShapedArray) -> Value:
    """Return the initial value of a total.

    Floats narrower than 32 bits are summed in float32.
    """
    axes = _array_axes(e)
    shape = tuple([n for i, n in enumerate(aval.shape) if i not in axes])
    dtype = aval.dtype
    # A running sum of n terms has a relative error of up to n * eps. With bfloat16 (eps = 2**-8) it stops growing
    # after some 256 equal terms.
    if e.primitive is prims.psum_p and dtypes.is_float(dtype) and dtype.itemsize < 4:
        dtype = np.dtype("float32")
    return lax.full(shape, _COMBINE[e.primitive][1](dtype), dtype)


def _accumulate(e: Eqn, total: Value, x: Value) -> Value:
    """Combine a total with the value of one position, after reducing the value over its positional axes."""
    combine, _, reduce_all = _COMBINE[e.primitive]
    x = lax.convert_element_type(x, typeof(total).dtype)
    return combine(total, reduce_all(x, _array_axes(e)) if _array_axes(e) else x)
