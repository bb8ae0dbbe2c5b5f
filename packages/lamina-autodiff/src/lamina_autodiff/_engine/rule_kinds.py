"""Kinds of JVP rules in `jvp_rules` other than plain functions. All are callable like a function rule.

`JVPTrace` recognizes `ElementwiseJVP`, linear and bilinear rules by their class: the commonest primitives then cost one
look-up and pass their parameters as a dict, without unpacking. `ElementwiseJVP` and `LinearizeRule` also answer
questions about a program without tracing it: which results have a tangent (`engine.dependence`), and how its linear
part is split off (`linearize`).
"""
from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override
from lamina_ir import Primitive, ShapedArray, prims
from lamina_ir.typing import Function, ParamValue, Params, Value
from lamina_tracing import lax
from lamina_tracing.extend import bind, keep_shardings, scalar, typeof

from .._typing import RuleResult, Tangent

__all__ = ["ElementwiseJVP", "LinearizeRule", "PUSH_RULE_TYPES", "broadcast_tangent", "drop_zeros", "expand_by_mask",
           "instantiate", "rule_from_linearity"]

_add_p, _sub_p, _mul_p, _neg_p = prims.add_p, prims.sub_p, prims.mul_p, prims.neg_p


class _Rule:
    """Base of rules with `push(primals, tangents, params)`; docs/_generated/ops.md prints `kind`."""

    __slots__ = ("prim",)
    kind = ""

    def __init__(self, prim: Primitive) -> None:
        self.prim = prim

    def push(self, primals: list[Value], tangents: list[Tangent], params: Params) -> RuleResult:
        raise NotImplementedError

    def __call__(self, primals: list[Value], tangents: list[Tangent], /, **params: ParamValue) -> RuleResult:
        return self.push(primals, tangents, params)

    @override
    def __repr__(self) -> str:
        return f"<{self.kind} rule of {self.prim.name}>"


class ElementwiseJVP(_Rule):
    """JVP rule of an elementwise primitive: the tangent is the sum over operands of derivative times tangent.

    Args:
      prim: the primitive.
      derivatives: per operand, `f(*primals, ans, **params)` returning d out / d operand from the operands and the
        result, or None if it is zero. Pass none for a primitive that is constant almost everywhere.
    Raises:
      TypeError: a derivative is not callable, or has a positional parameter named like a parameter of the primitive.

    >>> from lamina_autodiff import jvp
    >>> from lamina_autodiff.extend import jvp_rules
    >>> with jvp_rules.override(prims.sin_p, ElementwiseJVP(prims.sin_p, lambda x, ans: 2.0)):
    ...     jvp(lax.sin, (1.0,), (1.0,))[1]
    Array(2., dtype=float32, weak_type=True)
    """

    __slots__ = ("derivatives",)
    kind = property(lambda self: "elementwise" if any(self.derivatives) else "zero")

    def __init__(self, prim: Primitive, *derivatives: Function | None) -> None:
        if not isinstance(prim, Primitive):
            raise TypeError(f"ElementwiseJVP: expected a Primitive; got {type(prim).__name__}: {prim!r:.60}")
        self.prim = prim
        self.derivatives = derivatives
        for i, f in enumerate(derivatives):
            if f is not None and not callable(f):
                raise TypeError(f"ElementwiseJVP of `{prim.name}`: operand {i}: expected a function or None; got "
                                f"{type(f).__name__}: {f!r:.60}")
            code = getattr(f, "__code__", None)
            if code is not None and prim.params:
                # Operands and result are passed by position and params by keyword: an equal name would be passed twice.
                positional = code.co_varnames[code.co_posonlyargcount:min(code.co_argcount, len(derivatives) + 1)]
                clashes = sorted(set(positional).intersection(prim.params))
                if clashes:
                    raise TypeError(f"ElementwiseJVP of `{prim.name}`: operand {i}: the function's parameter `{clashes[0]}` is "
                                    "also a parameter of the primitive, which is passed by keyword. Write a / after the "
                                    "operands and the result")

    @override
    def push(self, primals: list[Value], tangents: list[Tangent], params: Params) -> RuleResult:
        fs = self.derivatives
        # The result first: many derivatives use it (exp' = exp), and it is computed only once.
        ans = bind(self.prim, *primals, **params)
        if len(fs) == 1:
            t, f = tangents[0], fs[0]
            if t is None or f is None:
                return ans, None
            return ans, bind(_mul_p, t, f(primals[0], ans, **params))
        if self.prim.multiple:  # only zero rules: a derivative is one array and cannot scale several results
            return ans, [None] * len(ans)
        total = None
        for t, f in zip(tangents, fs):
            if t is not None and f is not None:
                term = bind(_mul_p, t, f(*primals, ans, **params))
                total = term if total is None else bind(_add_p, total, term)
        return ans, total if total is None else broadcast_tangent(total, ans)


class _Linear(_Rule):
    """JVP rule of a primitive that is jointly linear in `linear_in`: apply the primitive to the tangents."""

    __slots__ = ()
    kind = "linear"

    @override
    def push(self, primals: list[Value], tangents: list[Tangent], params: Params) -> RuleResult:
        prim = self.prim
        ans = bind(prim, *primals, **params)
        if len(primals) == 1:
            return ans, None if tangents[0] is None else bind(prim, tangents[0], **params)
        linear = prim.linear_in
        if all(tangents[i] is None for i in linear):
            return ans, ([None] * len(ans) if prim.multiple else None)
        if prim is _add_p or prim is _sub_p:
            a, b = tangents
            # The commonest primitives: the missing tangent is not added as zeros.
            if b is None:
                return ans, broadcast_tangent(a, ans)
            if a is None:
                return ans, broadcast_tangent(b if prim is _add_p else bind(_neg_p, b), ans)
        args = []
        for i, (x, t) in enumerate(zip(primals, tangents)):
            # An operand in which the primitive is not linear, such as an index: its primal value.
            if i not in linear:
                args.append(x)
            elif t is None and prim.elementwise:
                args.append(scalar(0, typeof(x).dtype))  # a rank-0 operand broadcasts: no array of zeros
            else:
                args.append(instantiate(t, x))
        out = bind(prim, *args, **params)
        return ans, (list(out) if prim.multiple else broadcast_tangent(out, ans) if prim.elementwise else out)


class _Bilinear(_Rule):
    """JVP rule of a bilinear primitive, the product rule: d(x * y) = dx * y + x * dy."""

    __slots__ = ()
    kind = "bilinear"

    @override
    def push(self, primals: list[Value], tangents: list[Tangent], params: Params) -> RuleResult:
        prim = self.prim
        ans = bind(prim, *primals, **params)
        total = None
        for i in prim.bilinear_in:
            if tangents[i] is not None:
                args = list(primals)
                args[i] = tangents[i]
                # One term per tangent, at the primal values of the other operand.
                term = bind(prim, *args, **params)
                total = term if total is None else bind(_add_p, total, term)
        return ans, total


PUSH_RULE_TYPES = frozenset((ElementwiseJVP, _Linear, _Bilinear))  # classes of rules whose `push` takes params as a dict


def rule_from_linearity(prim: Primitive) -> _Rule | None:
    """Return the JVP rule that follows from `linear_in` or `bilinear_in`; None if the primitive declares neither."""
    return _Linear(prim) if prim.linear_in else _Bilinear(prim) if prim.bilinear_in else None


class LinearizeRule:
    """JVP rule of a primitive with subprograms, with a second rule for `linearize`.

    Args:
      jvp: `jvp(primals, tangents, /, **params) -> (out, tangent)`.
      linearize: `linearize(trace, primals, tangents, /, **params) -> (out, tangent)`, used if `trace` records the
        linear part. It splits the subprogram, so that the part on known values is computed once.
    Raises:
      TypeError: `jvp` or `linearize` is not callable.

    >>> from lamina_autodiff.extend import make_higher_order_rule
    >>> derived = make_higher_order_rule(prims.scan_p)
    >>> rule = LinearizeRule(lambda primals, tangents, /, **params: derived.jvp(primals, tangents, **params), derived.linearize)
    >>> rule.linearize is derived.linearize
    True
    """

    __slots__ = ("jvp", "linearize")

    def __init__(self, jvp: Function, linearize: Function) -> None:
        for what, f in (("jvp", jvp), ("linearize", linearize)):
            if not callable(f):
                raise TypeError(f"LinearizeRule: expected a function as {what}; got {type(f).__name__}: {f!r:.60}")
        self.jvp, self.linearize = jvp, linearize

    def __call__(self, primals: list[Value], tangents: list[Tangent], /, **params: ParamValue) -> RuleResult:
        return self.jvp(primals, tangents, **params)


def broadcast_tangent(t: Value, ans: Value) -> Value:
    """Broadcast the tangent of a rank-0 operand to the shape of the result `ans`."""
    shape = ans.shape  # `ans` is a result of bind, so it has a shape, unlike a Python number
    # Rank-0 operands of elementwise primitives broadcast, and so must their tangents.
    return t if typeof(t).shape == shape else lax.broadcast_in_dim(t, shape, ())


def drop_zeros(tangents: Iterable[Tangent]) -> list[Value]:
    """Return the entries that are not None (symbolic zeros)."""
    return [t for t in tangents if t is not None]


def expand_by_mask(values: Iterable[Value], mask: Iterable[bool]) -> list[Tangent]:
    """Return one entry per flag: the next value if the flag is set, else None (a symbolic zero)."""
    rest = iter(values)
    return [next(rest) if m else None for m in mask]


def instantiate(t: Tangent, primal: Value) -> Value:
    """Return a tangent as an array.

    Args:
      t: the tangent; None for zero.
      primal: the primal value, or its aval.
    Returns:
      `t`, or zeros of the type of `primal`.

    >>> instantiate(None, np.ones(2, np.float32))
    Array([0., 0.], dtype=float32)
    """
    if t is not None:
        return t
    aval = primal if isinstance(primal, ShapedArray) else typeof(primal)
    zero = scalar(0, aval.dtype)
    if not aval.shape:
        return zero
    zeros = lax.broadcast_in_dim(zero, aval.shape, ())
    # The selection gives the zeros the sharding of the primal value, as the carry of a loop needs. XLA removes it.
    return lax.select(False, primal, zeros) if primal is not aval and keep_shardings((primal,)) is not None else zeros
