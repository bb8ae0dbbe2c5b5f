"""Find results of calls with derivative rules that are the same in all examples.

Such a call is batched with all results batched, so that its rules keep matching it. The first example can stand for a
result if no batched operand reaches the result or its tangent. The functions here decide this from the programs of the
call and of its rules. The answers are conservative: a flag is True only if that is certain.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lamina_ir import Atom, ClosedJaxpr, Eqn, ShapedArray, dtypes, prims
from lamina_ir.extend import RegionView, propagate_forward, stack_depth

__all__ = ["find_unbatched_jvp_results", "find_unbatched_vjp_results"]

Flags = tuple[bool, ...]


def find_unbatched_jvp_results(call_jaxpr: ClosedJaxpr, jvp: prims.Rule, num_consts: int, batched: Flags) -> Flags:
    """Return which results of a `custom_jvp_call` are the same in all examples, with their tangents.

    Args:
      call_jaxpr: the program of the function.
      jvp: its rule: it takes the operands, then the tangents of the inexact ones after the first `num_consts`.
      num_consts: number of operands without tangents.
      batched: which operands are batched. A tangent is batched if its primal is.
    Returns:
      A flag per result.

    >>> from lamina_ir import parse
    >>> f = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b d:f32[] = sin b in (c, d) }")
    >>> rule = parse("{ lambda ; a:f32[] b:f32[] s:f32[] t:f32[]. let c:f32[] = mul a b d:f32[] = sin b e:f32[] = mul s b"
    ...              " g:f32[] = mul t d in (c, d, e, g) }")
    >>> find_unbatched_jvp_results(f, prims.Rule("f_jvp", lambda: rule), 0, (True, False))
    (False, True)
    """
    def find(candidates: Flags) -> Flags:
        tangents = _select_inexact(call_jaxpr.in_avals[num_consts:], batched[num_consts:])
        reached = _find_reached(jvp.program(), (*batched, *tangents))
        of_tangents = _fill_inexact(call_jaxpr.out_avals, reached[len(candidates):])
        return tuple([c and not r and not t for c, r, t in zip(candidates, reached, of_tangents)])

    return _find_unbatched(call_jaxpr, batched, [jvp], find)


def find_unbatched_vjp_results(call_jaxpr: ClosedJaxpr, fwd: prims.Rule, bwd: prims.Rule, num_consts: int,
                               batched: Flags) -> Flags:
    """Return which results of a `custom_vjp_call` are the same in all examples, with their tangents.

    The tangents are those of the transposed backward rule. So the cotangent of the result must not reach the cotangents
    of batched operands, and must reach the others linearly, with factors that all examples share.

    Args:
      call_jaxpr: the program of the function.
      fwd: its forward rule: operands -> results and residuals.
      bwd: its backward rule: residuals and cotangents of the inexact results -> cotangents of the inexact operands after
        the first `num_consts`.
      num_consts: number of operands without cotangents.
      batched: which operands are batched.
    Returns:
      A flag per result.

    >>> from lamina_ir import parse
    >>> f = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c, b) }")
    >>> fwd = parse("{ lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c, b, a, b) }")
    >>> bwd = parse("{ lambda ; a:f32[] b:f32[] s:f32[] t:f32[]. let c:f32[] = mul s b d:f32[] = mul s a e:f32[] = add d t"
    ...             " in (c, e) }")
    >>> rules = [prims.Rule("fwd", lambda: fwd), prims.Rule("bwd", lambda: bwd)]
    >>> find_unbatched_vjp_results(f, *rules, 0, (True, False))
    (False, True)
    """
    def find(candidates: Flags) -> Flags:
        n, out_avals = len(candidates), call_jaxpr.out_avals
        reached = _find_reached(fwd.program(), batched)
        cotangents = iter(range(len(reached) - n, len(bwd.program().in_avals)))
        positions = [next(cotangents) if dtypes.is_inexact(a.dtype) else None for a in out_avals]
        own = _select_inexact(call_jaxpr.in_avals[num_consts:], batched[num_consts:])
        return tuple([c and not r and (at is None or _is_shared_cotangent(bwd.program(), at, reached[n:], own))
                      for c, r, at in zip(candidates, reached, positions)])

    return _find_unbatched(call_jaxpr, batched, [fwd, bwd], find)


def _select_inexact(avals: Sequence[ShapedArray], flags: Sequence[bool]) -> Flags:
    return tuple([f for a, f in zip(avals, flags) if dtypes.is_inexact(a.dtype)])


def _fill_inexact(avals: Sequence[ShapedArray], flags: Sequence[bool]) -> Flags:
    """Return flags of all values, given those of the inexact ones; the flags of the others are False."""
    rest = iter(flags)
    return tuple([dtypes.is_inexact(a.dtype) and next(rest) for a in avals])


def _find_unbatched(call_jaxpr: ClosedJaxpr, batched: Flags, rules: Sequence[prims.Rule],
                    find: Callable[[Flags], Flags]) -> Flags:
    if call_jaxpr.jaxpr.axis_names:  # an index on a mapped axis depends on the example without batched operands
        return (False,) * len(call_jaxpr.out_avals)
    with stack_depth.with_recursion_limit():  # nested programs are visited recursively
        candidates = tuple([not r for r in _find_reached(call_jaxpr, batched)])
    if not any(candidates):  # nearly always: the rules need not be staged
        return candidates
    try:
        if any(rule.program().jaxpr.axis_names for rule in rules):
            return (False,) * len(candidates)
    except Exception:  # the rules fail for these operands, so no derivative can use the results
        return tuple([c and not any(rule.distinguishes_zeros for rule in rules) for c in candidates])
    with stack_depth.with_recursion_limit():
        return find(candidates)


def _find_reached(closed: ClosedJaxpr, batched: Sequence[bool]) -> Flags:
    """Return which results depend on the marked arguments. Calls with rules count as calls of their functions.

    The flags are memoized on the program: each of many nested calls needs those of all inner ones.
    """
    marks = tuple(batched)

    def make() -> Flags:
        jaxpr = closed.jaxpr
        found: set[Atom] = {v for v, b in zip(jaxpr.invars, marks) if b}
        for e in jaxpr.eqns:
            if not found.isdisjoint(e.invars):
                found.update([v for v, r in zip(e.outvars, _find_reached_by_eqn(e, found)) if r])
        return tuple([v in found for v in jaxpr.outvars])

    return closed.memo(("reached", marks), make)


def _find_reached_by_eqn(e: Eqn, found: set[Atom]) -> Sequence[bool]:
    signature = e.primitive.region_signature
    if signature is None or not signature.operands:
        return (True,) * len(e.outvars)
    marks = [v in found for v in e.invars]
    return propagate_forward(RegionView.of(e), marks, lambda region, marks: _find_reached(region.program, marks))[1]


def _is_shared_cotangent(bwd: ClosedJaxpr, at: int, residuals: Sequence[bool], operands: Sequence[bool]) -> bool:
    """Return whether all examples pass the cotangent at argument `at` on in the same way, and to shared operands only."""
    n = len(residuals)
    positions = range(len(bwd.in_avals))
    linear = tuple([i == at for i in positions])
    found = _follow_cotangent(bwd, linear, tuple([i != at and (i >= n or residuals[i]) for i in positions]))
    return found is not None and not any(v and b for v, b in zip(found[0], operands))


def _follow_cotangent(closed: ClosedJaxpr, linear: Flags, batched: Flags) -> tuple[Flags, Flags] | None:
    """Return which results have a part that is linear in the cotangent, and which the examples do not share.

    Each value is a sum of a part that is linear in the cotangent and of a rest. The flags `linear` mark arguments with
    such a part; `batched` those that the examples do not share. Return None if the examples may not share a linear part.
    """
    def make() -> tuple[Flags, Flags] | None:
        jaxpr = closed.jaxpr
        parts: set[Atom] = {v for v, f in zip(jaxpr.invars, linear) if f}
        apart: set[Atom] = {v for v, f in zip(jaxpr.invars, batched) if f}
        for e in jaxpr.eqns:
            if e.primitive.call_primitive:
                of_call = _follow_cotangent(e.params["call_jaxpr"], *[tuple([v in found for v in e.invars])
                                                                      for found in (parts, apart)])
                if of_call is None:
                    return None
                for found, flags in zip((parts, apart), of_call):
                    found.update([v for v, f in zip(e.outvars, flags) if f])
                continue
            if not parts.isdisjoint(e.invars):
                if not _is_linear_eqn(e, parts, apart):
                    return None
                parts.update(e.outvars)
            if not apart.isdisjoint(e.invars):
                apart.update(e.outvars)
        return tuple([v in parts for v in jaxpr.outvars]), tuple([v in apart for v in jaxpr.outvars])

    return closed.memo(("cotangent", linear, batched), make)


def _is_linear_eqn(e: Eqn, linear: set[Atom], batched: set[Atom]) -> bool:
    """Return whether an equation is linear in its `linear` operands, with the same coefficients in all examples."""
    marked = [i for i, v in enumerate(e.invars) if v in linear]
    together, product = e.primitive.linear_in, e.primitive.bilinear_in
    if all(i in together for i in marked):
        return not any(v in batched for i, v in enumerate(e.invars) if i not in together)
    return len(marked) == 1 and marked[0] in product and not any(
        v in batched for i, v in enumerate(e.invars) if i != marked[0])
