"""Infer the varying axes of values (`ShapedArray.varying_axes`), for all primitives, when an equation is created.

A value varies over a mapped axis if its members may hold different values. The inference is a forward dataflow analysis
over sets of axis names, ordered by inclusion:

- By default a result varies over the union of the varying axes of the operands. The result of an effectful primitive
  varies over all bound axes, since each member performs the effect itself.
- A collective adds its axes, since its members get different parts. The exceptions are in `Primitive.varying_axes`:
  psum, pmax, pmin and all_gather over a whole axis remove it, since all members get the same value.
- A map binds axes. Inside, a mapped operand also varies over them; outside, the results do not.
- Nested programs are analysed along the region signature. For loops this is repeated until the sets of the carries no
  longer grow. It terminates, because the sets only grow and there are finitely many axes.

The inferred sets are written into the types of nested programs. An axis in a type means "may vary": a type with more
axes than necessary is correct, but may cost communication.

The sets also show deadlocks. If a branch or a loop contains a collective over an axis, either all members along the
axis or none must run it; otherwise the members that run it wait forever for the others. So its condition must not vary
over that axis (`check_uniform_control_flow`).
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._core.arg_checks import AXES, CLOSED_JAXPR, MARKS, raise_type_rule_error, check_args
from .._types.avals import Axes, ShapedArray
from ..errors import LaminaError, ProgramError
from .._types.param_values import UnnamedAxis
from .._core.primitive import Primitive
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, find_axis_names, eqn_axis_names, subprograms
from .._core.region_view import Region, RegionView, propagate_forward
from ..typing import AxisName, Params
from .._typing import Avals

__all__ = ["annotate_varying_axes", "check_uniform_control_flow", "infer_equation_types", "infer_varying_axes",
           "record_annotated", "uses_mapped_axes"]

_NONE: Axes = frozenset()
_AxesOfResults = Sequence[Axes] | Axes  # for each result, or for all of them


def infer_equation_types(prim: Primitive, avals: Sequence[ShapedArray], params: Params, bound: Axes,
                         outs: Avals = None) -> tuple[Params, Avals]:
    """Infer the result types of an equation, including varying axes, and annotate its nested programs.

    Args:
      prim: the primitive.
      avals: the types of its operands.
      params: its params.
      bound: the names of the bound axes.
      outs: the types of its results without varying axes; default: inferred by `prim.infer`.
    Returns:
      (params, whose nested programs are annotated for these operands; result types, in the form `prim.infer` returns).

    >>> from lamina_ir import prims, shaped
    >>> x, y = shaped((3,), "float32"), shaped((3,), "float32").with_varying_axes(frozenset("i"))
    >>> infer_equation_types(prims.add_p, [x, y], {}, frozenset("i"))[1]
    ShapedArray(float32[3]{i})
    """
    if outs is None:
        try:
            outs = prim.infer(*avals, **params)
        except Exception as error:  # a type rule may raise anything for malformed operands
            raise_type_rule_error("infer_equation_types", error, prim, avals, params)
            raise
    found: _AxesOfResults
    if prim.has_default_varying_axes:  # fast path of nearly all primitives: `_union`, without building a list
        total = _NONE
        for a in avals:
            if a.varying_axes is not total and a.varying_axes:
                total = total | a.varying_axes if total else a.varying_axes
        found = total
    else:
        params, found = _infer_equation(prim, [a.varying_axes for a in avals], params, bound, True)
    if not prim.multiple:
        return params, outs if outs.varying_axes is found else outs.with_varying_axes(found)
    if type(found) is frozenset:
        return params, [a.with_varying_axes(found) for a in outs]
    return params, [a.with_varying_axes(m) for a, m in zip(outs, found, strict=True)]


@check_args(closed=CLOSED_JAXPR, marks=MARKS, bound=AXES)
def annotate_varying_axes(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> ClosedJaxpr:
    """Write the varying axes that follow from those of the arguments into the types of a program.

    Types leave out unnamed axes: no two unnamed axes are equal, so equal programs would get different types, and no
    collective can name one. Inside a map they also leave out an outer axis of the same name, which is shadowed.

    Args:
      closed: the program.
      marks: for each argument, its varying axes.
      bound: the names of the bound axes.
    Returns:
      A program, memoized with `closed`; `closed` itself if its types are right already.

    >>> from lamina_ir import parse
    >>> annotate_varying_axes(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"), [frozenset("i")], frozenset("i"))
    { lambda ; a:f32[]{i}. let b:f32[]{i} = sin a in (b,) }
    """
    # Without unnamed axes, which differ in every trace, equal calls also find the same memoized program.
    marks, bound = tuple([_drop_unnamed(m) for m in marks]), _drop_unnamed(bound)
    return closed.memo(("typed", marks, bound), lambda: _annotate(closed, marks, bound)) or closed


@check_args(closed=CLOSED_JAXPR, marks=MARKS, bound=AXES)
def infer_varying_axes(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> tuple[Axes, ...]:
    """Infer the varying axes of each result of a program.

    Args:
      closed: the program of one member.
      marks: for each argument, its varying axes.
      bound: the names of the bound axes.
    Returns:
      A frozenset of axis names for each result.

    >>> from lamina_ir import parse
    >>> total = parse("{ lambda ; a:f32[]. let b:f32[] = psum[axes=('i',) axis_index_groups=None] a in (a, b) }")
    >>> [sorted(v) for v in infer_varying_axes(total, [frozenset("i")], frozenset("i"))]
    [['i'], []]
    """
    marks = tuple(marks)
    return closed.memo(("over", marks, bound), lambda: _infer(closed, marks, bound))


@check_args(closed=CLOSED_JAXPR, bound=AXES)
def record_annotated(closed: ClosedJaxpr, bound: Axes) -> ClosedJaxpr:
    """Record that the types of a program have their varying axes, so that a map over it does not infer them again.

    That holds for a program that was staged with exactly these axes in scope: each equation got its types from
    `infer_equation_types`.

    Args:
      closed: the program.
      bound: the names of the bound axes.
    Returns:
      The program.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[]{i}. let b:f32[]{i} = sin a in (b,) }")
    >>> record_annotated(program, frozenset("i")) is program
    True
    """
    marks, bound = tuple([a.varying_axes for a in closed.in_avals]), _drop_unnamed(bound)
    # None means that the program is its own annotated form, as in `_annotate`.
    closed.memo(("typed", marks, bound), lambda: None)
    closed.memo(("over", marks, bound), lambda: tuple([a.varying_axes for a in closed.out_avals]))
    return closed


def _drop_unnamed(marks: Axes) -> Axes:
    if any(type(name) is UnnamedAxis for name in marks):
        return frozenset([name for name in marks if type(name) is not UnnamedAxis])
    return marks


def _per_result(found: _AxesOfResults, e: Eqn) -> Sequence[Axes]:
    return [found] * len(e.outvars) if isinstance(found, frozenset) else found


def _initial_axes(jaxpr: Jaxpr, marks: Sequence[Axes]) -> dict[Atom, Axes]:
    known: dict[Atom, Axes] = {v: v.aval.varying_axes for v in jaxpr.constvars if v.aval.varying_axes}
    known.update([(v, m) for v, m in zip(jaxpr.invars, marks) if m])
    return known


def _infer(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> tuple[Axes, ...]:
    jaxpr = closed.jaxpr
    known = _initial_axes(jaxpr, marks)
    for e in jaxpr.eqns:
        _, found = _infer_equation(e.primitive, [known.get(v, _NONE) for v in e.invars], e.params, bound, False)
        if found:
            known.update([(v, m) for v, m in zip(e.outvars, _per_result(found, e)) if m])
    return tuple([known.get(v, _NONE) for v in jaxpr.outvars])


def _annotate(closed: ClosedJaxpr, marks: Sequence[Axes], bound: Axes) -> ClosedJaxpr | None:
    """Return the annotated program; None if it does not change, since a program memoized with itself is a cycle."""
    jaxpr = closed.jaxpr
    known = _initial_axes(jaxpr, marks)
    new: dict[Atom, Var] = {}

    def fit(v: Var, axes: Axes) -> Var:
        if v.aval.varying_axes == axes:
            return v
        new[v] = fresh = type(v)(v.aval.with_varying_axes(axes))
        return fresh

    invars = [fit(v, m) for v, m in zip(jaxpr.invars, marks)]
    eqns: list[Eqn] = []
    changed = bool(new)
    for e in jaxpr.eqns:
        params, found = _infer_equation(e.primitive, [known.get(v, _NONE) for v in e.invars], e.params, bound, True)
        each = _per_result(found, e)
        outvars = [fit(v, m) for v, m in zip(e.outvars, each)]
        known.update([(v, m) for v, m in zip(e.outvars, each) if m])
        # Keep the equation if neither a type nor a nested program changed: equal objects share memoized results.
        if params is not e.params or (new and not new.keys().isdisjoint([*e.invars, *e.outvars])):
            e = Eqn(e.primitive, [new.get(v, v) for v in e.invars], outvars, params, e.source)
            changed = True
        eqns.append(e)
    if not changed:
        return None
    made = ClosedJaxpr(Jaxpr(jaxpr.constvars, invars, eqns, [new.get(v, v) for v in jaxpr.outvars], jaxpr.axis_names,
                             jaxpr.effectful), closed.consts)
    if "source" in closed.memo_keys():  # the source line of the loop whose body it is
        source = closed.memo("source", lambda: None)
        made.memo("source", lambda: source)
    return made


def _infer_equation(prim: Primitive, operand_axes: Sequence[Axes], params: Params, bound: Axes,
                    annotate: bool) -> tuple[Params, _AxesOfResults]:
    """Infer the varying axes of the results. With `annotate`, return params whose programs are annotated too."""
    signature = prim.region_signature
    if signature is not None:
        # Extra programs do not take the operands, so their arguments vary as their own types state.
        extra = {p: annotate_varying_axes(params[p], [a.varying_axes for a in params[p].in_avals], bound)
                 for p in signature.extra_programs if annotate and type(params[p]) is ClosedJaxpr}
        params = _replace_params(params, extra)
        if signature.operands:
            return _infer_nested(prim, operand_axes, params, bound, annotate)
    union = _union(operand_axes)
    if prim.varying_axes is not None:
        return params, prim.varying_axes(union, find_axis_names(prim, params), params, bound)
    if prim.axis_params:
        # all_to_all and psum_scatter give members different parts, ppermute gives zeros to members without a source,
        # and axis_index is different for each member.
        return params, union | find_axis_names(prim, params)
    return params, union | bound if prim.effectful else union  # each member performs the effect itself


def _union(operand_axes: Sequence[Axes]) -> Axes:
    total = _NONE
    for axes in operand_axes:
        if axes is not total and axes:
            total = total | axes if total else axes
    return total


def _replace_params(params: Params, new: Params) -> Params:
    return params if all(params[p] is v for p, v in new.items()) else {**params, **new}


def _infer_regions(prim: Primitive, operand_axes: Sequence[Axes], params: Params,
                   bound: Axes) -> tuple[RegionView, Sequence[Axes], Axes, Sequence[Axes]]:
    """Infer the varying axes inside a primitive with nested programs.

    Return its view, the varying axes of the operands inside, the axes bound inside, and the varying axes of the
    results.
    """
    w = RegionView(prim, params, len(operand_axes))
    inside = bound
    ins: Sequence[Axes] = operand_axes
    binds = w.region_signature.axis_binding
    if binds is not None:
        # A nested map. Its axis names shadow equal outer names, so those are replaced by fresh unnamed axes inside and
        # restored in the results. Mapped operands also vary over the new axes; results outside do not.
        names = binds.names(params)
        shadowed = names & bound.union(*operand_axes)
        to_fresh = {name: UnnamedAxis() for name in shadowed}
        back = {other: name for name, other in to_fresh.items()}
        inside = _rename(bound, to_fresh) | names
        ins = [_rename(m, to_fresh) | binds.mapped_axes(params, entry)
               for m, entry in zip(operand_axes, params[binds.ins])]
    ins, found = propagate_forward(w, ins, lambda region, marks: infer_varying_axes(region.program, marks, inside))
    if binds is not None:
        found = tuple([_rename(m - names, back) for m in found])
    return w, ins, inside, found


def _infer_nested(prim: Primitive, operand_axes: Sequence[Axes], params: Params, bound: Axes,
                  annotate: bool) -> tuple[Params, Sequence[Axes]]:
    w, ins, inside, found = _infer_regions(prim, operand_axes, params, bound)
    if not annotate:
        return params, found
    # If the selector varies over an axis, different members may run different branches. Then all values of a branch
    # exist for some members only, so they vary over that axis too.
    if w.selector is not None and ins[w.selector]:
        ins = [m | ins[w.selector] for m in ins]
    made = [annotate_varying_axes(region.program, [ins[i] for i in region.ins], inside) for region in w.regions]
    new: Params = {w.region_signature.test: made.pop(0)} if w.region_signature.test else {}
    if all(a is b.program for a, b in zip(made, w.bodies)):
        return _replace_params(params, new), found
    new[w.region_signature.body] = made[0] if isinstance(params[w.region_signature.body], ClosedJaxpr) else tuple(made)
    return _replace_params(params, new), found


def _rename(m: Axes, new: Mapping[Any, AxisName]) -> Axes:
    return frozenset([new.get(name, name) for name in m]) if new else m


@check_args(closed=CLOSED_JAXPR)
def uses_mapped_axes(closed: ClosedJaxpr) -> bool:
    """Return whether a program, or one nested in it, binds or refers to mapped axes.

    Args:
      closed: the program.
    Returns:
      A bool.

    >>> from lamina_ir import parse
    >>> uses_mapped_axes(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"))
    False
    """
    def find() -> bool:
        return bool(closed.jaxpr.axis_names) or any(
            bool(e.primitive.region_signature.axis_binding)  # type: ignore[union-attr]
            or any(map(uses_mapped_axes, subprograms(e))) for e in closed.jaxpr.eqns if e.primitive.subprograms)

    return closed.memo("speaks of axes", find)


def infer_missing_annotations(program: Jaxpr | ClosedJaxpr) -> Any:
    """Annotate a program whose types were written without varying axes. Return it unchanged if it is ill-formed, since
    `check` reports that later."""
    closed = program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, [None] * len(program.constvars))
    try:
        if not uses_mapped_axes(closed):
            return program
        made = annotate_varying_axes(closed, [a.varying_axes for a in closed.in_avals], _NONE)
    except (LaminaError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        return program
    return made if closed is program else made.jaxpr


def explain_bad_varying_axes(e: Eqn, bound: Axes) -> str:
    """Describe what is wrong with the varying axes in the types of an equation and its nested programs; "" if correct.

    Types must have at least the inferred axes.
    """
    overs, p = [a.aval.varying_axes for a in e.invars], e.primitive
    if not (p.may_read_axes or bound or any(overs)):
        return ""
    if p.region_signature is not None and p.region_signature.operands:
        w, ins, _, found = _infer_regions(p, overs, e.params, bound)
        for region in w.regions:
            for k, (i, a) in enumerate(zip(region.ins, region.program.in_avals)):
                if not _drop_unnamed(ins[i]) <= a.varying_axes:
                    return f"its program takes argument {k} as {a.str_short()}; it may vary over {_format_axes(ins[i])}"
        each = found
    else:
        each = _per_result(_infer_equation(p, overs, e.params, bound, False)[1], e)
    for i, (v, m) in enumerate(zip(e.outvars, each)):
        # More axes than inferred are valid: an axis in a type means that the value may vary over it.
        if not _drop_unnamed(m) <= v.aval.varying_axes:
            return f"result {i} is {v.aval.str_short()}; it may vary over {_format_axes(m)}"
    return ""


def _format_axes(m: Axes) -> str:
    return ", ".join(sorted(map(repr, _drop_unnamed(m))))


# --- deadlocks ----------------------------------------------------------------------------------------------------
@check_args(closed=CLOSED_JAXPR)
def check_uniform_control_flow(closed: ClosedJaxpr) -> None:
    """Raise ProgramError if a branch or loop with collectives over an axis has a condition that varies over that axis.

    Args:
      closed: a program whose types have their varying axes.
    Raises:
      ProgramError: names the primitive, the condition, the axis and the collective.

    >>> from lamina_ir import parse
    >>> text = "{ lambda ; a:f32[]{i}. let b:f32[] = psum[axes=('i',) axis_index_groups=None] a in (b,) }"
    >>> check_uniform_control_flow(parse(text))
    """
    closed.memo("agreed", lambda: _check_equations(closed))


def _check_equations(closed: ClosedJaxpr) -> None:
    for e in closed.jaxpr.eqns:
        signature = e.primitive.region_signature
        if signature is None:
            continue
        if signature.operands:
            w = RegionView.of(e)
            if w.selector is not None:
                _check_condition(e, e.invars[w.selector].aval.varying_axes, w.bodies, "which branch runs")
            if signature.test:
                _check_condition(e, w.regions[0].program.out_avals[0].varying_axes, w.regions, "the number of iterations")
        for sub in subprograms(e):
            check_uniform_control_flow(sub)


def _check_condition(e: Eqn, decides: Axes, regions: Sequence[Region], what: str) -> None:
    if not decides:
        return
    blocking = {axis: op for region in regions for axis, op in _blocking_axes(region.program).items()}
    for axis in decides & blocking.keys():
        raise ProgramError(
            f"{e.primitive.name}: {what} may differ between the members of the mapped axis {axis!r}, but "
            f"`{blocking[axis]}` over that axis is inside: the members that reach it would wait for the others forever. "
            f"Move `{blocking[axis]}` out of it, or make the condition the same on all members, by lax.pmax or lax.psum")


def _blocking_axes(closed: ClosedJaxpr) -> dict[AxisName, str]:
    """Return the axes over which members wait for each other in a program: axis -> name of such a collective."""
    return closed.memo("waits", lambda: _find_blocking_axes(closed))


def _find_blocking_axes(closed: ClosedJaxpr) -> dict[AxisName, str]:
    found: dict[AxisName, str] = {}
    for e in closed.jaxpr.eqns:
        p = e.primitive
        if p.axis_params and e.invars:
            found.update(dict.fromkeys(eqn_axis_names(e), p.name))
        if p.subprograms:
            inner = {axis: op for sub in subprograms(e) for axis, op in _blocking_axes(sub).items()}
            for name, _ in p.region_signature.axes(e.params):  # type: ignore[union-attr]
                inner.pop(name, None)
            found.update(inner)
    return found
