"""A third-party transformation with its own rule table: `bounds` computes an interval for each value.

`bounds(f)(lo, hi)` returns a lower and an upper bound of `f` over all points between `lo` and `hi` (interval
arithmetic; Moore, 1966). The bounds are valid but need not be tight: dependence between the operands of a primitive is
ignored, and so are rounding errors.

A rule is `rule(intervals, **params) -> interval` (a list of them for a primitive with several results). An interval is
a pair of arrays; that of a known value contains it twice. Rules call `lax` functions, so bounds can be compiled,
batched and differentiated, and so can the function inside.
"""
from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import ClosedJaxpr, Primitive, prims, trees
from lamina_ir.extend import CARRY, RuleTable, Region, RegionView
from lamina_tracing import lax
from lamina_tracing.extend import Trace, Tracer, bind, new_trace_level, eval_jaxpr, trace_state, stage, typeof

__all__ = ["Interval", "bounds", "bounds_of_programs", "bounds_rules", "increasing"]


class Interval(NamedTuple):
    """All numbers from `lo` to `hi`, elementwise."""

    lo: Any
    hi: Any

    @property
    def known(self) -> bool:
        return self.lo is self.hi


bounds_rules = RuleTable("bounds", "outside/bounds")


class BoundsTracer(Tracer):
    """A value with known bounds."""

    __slots__ = ("interval",)

    def __init__(self, trace: Trace, interval: Interval) -> None:
        super().__init__(trace, typeof(interval.lo))
        self.interval = interval


class BoundsTrace(Trace):
    """Apply one rule per primitive."""

    def process(self, prim: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        found = bounds_rules[prim]([self.interval(a) for a in args], **params)
        return tuple(map(self.value, found)) if prim.multiple else self.value(found)

    def process_custom_call(self, call: Any, args: Sequence[Any]) -> list[Any]:
        return call.run(*args)  # derivative rules do not define bounds; use the function itself

    def interval(self, x: Any) -> Interval:
        return x.interval if self.owns(x) else Interval(x, x)

    def value(self, i: Interval) -> Any:
        return i.lo if i.known else BoundsTracer(self, i)


def bounds(fun: Callable[..., Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a function that computes bounds of `fun` over a box.

    Args:
      fun: function of float arrays and pytrees of them, by position.
    Returns:
      A function of two tuples, the lowest and the highest value of each argument. It returns two results with the
      structure of `fun`'s: no value of `fun` in between is below the first or above the second.
    Raises:
      MissingRuleError: `fun` uses a primitive without a rule in `bounds_rules`.
      ValueError: the two tuples have different structures or types.

    >>> bounds(lambda x: lax.mul(x, x))((np.float32(-1),), (np.float32(3),))
    (Array(-3., dtype=float32), Array(9., dtype=float32))
    """
    @functools.wraps(fun)
    def bounded(lo: Any, hi: Any) -> tuple[Any, Any]:
        lows, tree = trees.tree_flatten(tuple(lo))
        highs, other = trees.tree_flatten(tuple(hi))
        if tree != other or any(typeof(a).shape != typeof(b).shape or typeof(a).dtype != typeof(b).dtype
                                for a, b in zip(lows, highs)):
            raise ValueError(f"bounds of `{fun.__name__}`: lower and upper ends must have the same tree, shapes and dtypes; "
                             f"got {[typeof(a).str_long() for a in lows]} and {[typeof(b).str_long() for b in highs]}")
        trace = BoundsTrace(trace_state.depth + 1)
        with new_trace_level(trace):
            args = [trace.value(Interval(a, b)) for a, b in zip(lows, highs)]
            outs, out_tree = trees.tree_flatten(fun(*trees.tree_unflatten(tree, args)))
            found = [trace.interval(o) for o in outs]
        return (trees.tree_unflatten(out_tree, [i.lo for i in found]),
                trees.tree_unflatten(out_tree, [i.hi for i in found]))

    return bounded


# --- rules ----------------------------------------------------------------------------------------------------------
def increasing(prim: Primitive) -> Callable[..., Interval]:
    """Return the rule of a primitive that is monotonically increasing in each operand: its values at the ends."""
    def rule(xs: Sequence[Interval], /, **params: Any) -> Interval:
        lo = bind(prim, *[x.lo for x in xs], **params)
        return Interval(lo, lo if all(x.known for x in xs) else bind(prim, *[x.hi for x in xs], **params))
    return rule


def _known(prim: Primitive) -> Callable[..., Any]:
    """Return the rule of a primitive without bounds on its result: its operands must be known."""
    def rule(xs: Sequence[Interval], /, **params: Any) -> Any:
        if not all(x.known for x in xs):
            raise NotImplementedError(f"bounds: `{prim.name}` has no bounds where its operands are not known")
        out = bind(prim, *[x.lo for x in xs], **params)
        return [Interval(o, o) for o in out] if prim.multiple else Interval(out, out)
    return rule


def _monotonic(prim: Primitive) -> Callable[..., Interval]:
    """Return the rule of a primitive that is monotonic in each operand separately: its values at the corners."""
    def ends(i: Interval) -> Sequence[Any]:
        return i[:1] if i.known else i

    def rule(xs: Sequence[Interval], /) -> Interval:
        found = [bind(prim, a, b) for a in ends(xs[0]) for b in ends(xs[1])]
        return _known_interval(found[0]) if len(found) == 1 else Interval(functools.reduce(lax.min, found),
                                                                 functools.reduce(lax.max, found))
    return rule


def _sub(xs: Sequence[Interval], /) -> Interval:
    x, y = xs
    lo = lax.sub(x.lo, y.hi)
    return Interval(lo, lo if x.known and y.known else lax.sub(x.hi, y.lo))


def _decreasing(fun: Callable[[Any], Any]) -> Callable[..., Interval]:
    return lambda xs, /: Interval(fun(xs[0].hi), fun(xs[0].lo)) if not xs[0].known else _known_interval(fun(xs[0].lo))


def _known_interval(x: Any) -> Interval:
    return Interval(x, x)


def _has_zero(x: Interval) -> Any:
    return lax.bitwise_and(lax.le(x.lo, lax.full_like(x.lo, 0)), lax.ge(x.hi, lax.full_like(x.hi, 0)))


def _even(fun: Callable[[Any], Any]) -> Callable[..., Interval]:
    """Return the rule of an even function that increases away from its minimum at 0."""
    def rule(xs: Sequence[Interval], /) -> Interval:
        x, = xs
        if x.known:
            return _known_interval(fun(x.lo))
        a, b = fun(x.lo), fun(x.hi)
        return Interval(lax.select(_has_zero(x), fun(lax.full_like(x.lo, 0)), lax.min(a, b)), lax.max(a, b))
    return rule


def _integer_pow(xs: Sequence[Interval], /, *, y: int) -> Interval:
    def power(v: Any) -> Any:
        return lax.integer_pow(v, y)
    if y < 0 and not xs[0].known:
        return _div([_known_interval(lax.full_like(xs[0].lo, 1)), _integer_pow(xs, y=-y)])
    return _even(power)(xs) if y % 2 == 0 else increasing(prims.integer_pow_p)(xs, y=y)


def _div(xs: Sequence[Interval], /) -> Interval:
    """If the divisor may be zero, the quotient has no bounds."""
    x, y = xs
    found = _monotonic(prims.div_p)(xs)
    if y.known:
        return found
    lost = _has_zero(y)
    return Interval(lax.select(lost, lax.full_like(found.lo, -np.inf), found.lo),
                    lax.select(lost, lax.full_like(found.hi, np.inf), found.hi))


def _bounded_by_one(prim: Primitive) -> Callable[..., Interval]:
    """Return the rule of sine and cosine: -1 and 1."""
    def rule(xs: Sequence[Interval], /) -> Interval:
        x, = xs
        if x.known:
            return _known_interval(bind(prim, x.lo))
        return Interval(lax.full_like(x.lo, -1), lax.full_like(x.hi, 1))
    return rule


def _product(xs: Sequence[Interval], /, **params: Any) -> Interval:
    """Sums of products: with midpoints `m` and radii `r`, the radius of the result is `|mx| ry + rx |my| + rx ry`, its
    midpoint `mx my`."""
    def dot(a: Any, b: Any) -> Any:
        return bind(prims.dot_general_p, a, b, **params)

    x, y = xs
    if x.known and y.known:
        return _known_interval(dot(x.lo, y.lo))
    half = [lax.full_like(i.lo, 0.5) for i in xs]
    mx, my = (i.lo if i.known else lax.mul(lax.add(i.lo, i.hi), h) for i, h in zip(xs, half))
    rx, ry = (None if i.known else lax.mul(lax.sub(i.hi, i.lo), h) for i, h in zip(xs, half))
    middle = dot(mx, my)
    parts = [dot(lax.abs(mx), ry)] if ry is not None else []
    parts += [dot(rx, lax.abs(my))] if rx is not None else []
    parts += [dot(rx, ry)] if rx is not None and ry is not None else []
    radius = functools.reduce(lax.add, parts)
    return Interval(lax.sub(middle, radius), lax.add(middle, radius))


def _select(xs: Sequence[Interval], /) -> Interval:
    """If the predicate is unknown, the result is in the union of both operands."""
    which, on, off = xs
    if which.known:
        lo = lax.select(which.lo, on.lo, off.lo)
        return Interval(lo, lo if on.known and off.known else lax.select(which.lo, on.hi, off.hi))
    return Interval(lax.min(on.lo, off.lo), lax.max(on.hi, off.hi))


def _compare(prim: Primitive) -> Callable[..., Interval]:
    """Return the rule of a comparison, which needs known operands."""
    def rule(xs: Sequence[Interval], /) -> Interval:
        x, y = xs
        if x.known and y.known:
            return _known_interval(bind(prim, x.lo, y.lo))
        raise NotImplementedError(f"bounds: `{prim.name}` decides by a value of which only bounds are known; write the choice "
                                  "with lax.max, lax.min or lax.clamp")
    return rule


def _bounds_of_program(closed: ClosedJaxpr, xs: Sequence[Interval]) -> list[Interval]:
    """Return bounds of the results of a program."""
    trace = BoundsTrace(trace_state.depth + 1)
    with new_trace_level(trace):
        return [trace.interval(o) for o in eval_jaxpr(closed, [trace.value(x) for x in xs])]


def bounds_of_programs(prim: Primitive) -> Callable[..., list[Interval]]:
    """Return the rule of a primitive with nested programs: the same primitive on both ends, by its region signature.

    Carries have two ends in all iterations, since the bounds of the results of an iteration are those of the operands
    of the next one. Other operands have two if they are not known.
    """
    def rule(xs: Sequence[Interval], /, **params: Any) -> list[Interval]:
        w = RegionView(prim, params, len(xs))
        two = [kind == CARRY or not x.known for kind, x in zip(w.kinds, xs)]
        if w.selector is not None and two[w.selector] or w.region_signature.test:
            raise NotImplementedError(f"bounds: `{prim.name}` decides by a value of which only bounds are known")
        slots, values = [], []
        for x, both, slot in zip(xs, two, w.operands(same=False)):
            slots += [slot] * (1 + both)
            values += x if both else x[:1]
        at = list(itertools.accumulate((1 + both for both in two), initial=0))  # position of each operand's first slot
        programs = []
        for region in w.regions:
            takes = [k for i in region.ins for k in range(at[i], at[i + 1])]

            def ends(*args: Any, region: Region = region) -> list[Any]:
                rest = iter(args)
                given = [Interval(a, next(rest) if two[i] else a) for i, a in zip(region.ins, rest)]
                return [end for x in _bounds_of_program(region.program, given) for end in x]

            program, outer = stage(ends, [w.inner_aval(i).strip_weak_type() for i in region.ins for _ in range(1 + two[i])])
            assert not outer  # the program has no closed-over values, so neither has this one
            programs.append((program, takes, range(2 * w.n_results)))
        rebuilt = w.rebuild(slots, [slot for slot in w.results() for _ in range(2)], programs)
        outs = rebuilt.reorder_results(bind(prim, *[values[k] for k in rebuilt.operands], **rebuilt.params))
        return [Interval(lo, hi) for lo, hi in zip(outs[::2], outs[1::2])]
    return rule


_define = bounds_rules.define
for _op in (prims.exp_p, prims.exp2_p, prims.expm1_p, prims.log_p, prims.log1p_p, prims.sqrt_p, prims.cbrt_p, prims.tanh_p,
            prims.sinh_p, prims.asinh_p, prims.atan_p, prims.asin_p, prims.erf_p, prims.logistic_p, prims.floor_p, prims.ceil_p,
            prims.sign_p, prims.round_p, prims.max_p, prims.min_p, prims.add_p, prims.clamp_p, prims.copy_p, prims.name_p,
            prims.stop_gradient_p, prims.convert_element_type_p, prims.broadcast_in_dim_p, prims.reshape_p, prims.transpose_p,
            prims.squeeze_p, prims.expand_dims_p, prims.rev_p, prims.concatenate_p, prims.pad_p, prims.slice_p,
            prims.reduce_sum_p, prims.reduce_max_p, prims.reduce_min_p, prims.cumsum_p, prims.cummax_p, prims.cummin_p):
    _define(_op, increasing(_op))
_define(prims.sub_p, _sub)
_define(prims.neg_p, _decreasing(lax.neg))
_define(prims.acos_p, _decreasing(lax.acos))
_define(prims.erfc_p, _decreasing(lax.erfc))
_define(prims.rsqrt_p, _decreasing(lax.rsqrt))
_define(prims.mul_p, _monotonic(prims.mul_p))
_define(prims.div_p, _div)
_define(prims.abs_p, _even(lax.abs))
_define(prims.square_p, _even(lax.square))
_define(prims.cosh_p, _even(lax.cosh))
_define(prims.integer_pow_p, _integer_pow)
_define(prims.sin_p, _bounded_by_one(prims.sin_p))
_define(prims.cos_p, _bounded_by_one(prims.cos_p))
_define(prims.dot_general_p, _product)
_define(prims.select_p, _select)
for _op in (prims.xla_call_p, prims.remat_p, prims.cond_p, prims.scan_p, prims.while_p):
    _define(_op, bounds_of_programs(_op))
for _op in (prims.custom_jvp_call_p, prims.custom_vjp_call_p, prims.custom_vmap_call_p):  # their rules do not define bounds
    _define(_op, lambda xs, /, *, call_jaxpr, **_: _bounds_of_program(call_jaxpr, xs))
for _op in (prims.eq_p, prims.ne_p, prims.lt_p, prims.le_p, prims.gt_p, prims.ge_p):
    _define(_op, _compare(_op))
for _op in prims.ALL:
    if not bounds_rules.has_rule_or_reason(_op) and _op.family in ("elementwise", "indexing") and not _op.multiple:
        _define(_op, _known(_op))
