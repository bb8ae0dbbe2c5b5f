"""Forms of forward rows: what a row of `jvp_rules` may be beside a function. Each is called like one.

`Slopes` and the rows that follow from facts are told apart from functions by their class, so that the commonest ops cost
one look-up and no packing of params; `Split` and `Slopes` also say what a whole program can be asked without being traced:
which results have a tangent at all (dependence.py), and how its linear part is cut off (`linearize`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lamina_ir import Primitive, ShapedArray, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, scalar, typeof

__all__ = ["PUSHING", "Slopes", "Split", "instantiate", "nonzero", "row_of_facts", "spread", "widen"]

_add_p, _sub_p, _mul_p, _neg_p = prims.add_p, prims.sub_p, prims.mul_p, prims.neg_p


class _Row:
    """A row with `push(primals, tangents, params)`; `kind` is its word in docs/ops.md."""

    __slots__ = ("prim",)
    kind = ""

    def __init__(self, prim: Primitive) -> None:
        self.prim = prim

    def push(self, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        raise NotImplementedError

    def __call__(self, primals: list[Any], tangents: list[Any], /, **params: Any) -> tuple[Any, Any]:
        return self.push(primals, tangents, params)

    def __repr__(self) -> str:
        return f"<{self.kind} row of {self.prim.name}>"


class Slopes(_Row):
    """The row of an elementwise op whose tangent is the sum of slope times tangent over its operands.

    Args:
      prim: the op.
      fs: per operand, `f(*primals, ans, **params)` giving d out / d operand from the operands and the result, or None
        where it is zero; none at all for an op that is constant almost everywhere.
    Raises:
      TypeError: one of them cannot be called, or a name of its own is that of a param of the op.

    >>> from lamina_autodiff import jvp
    >>> from lamina_autodiff.extend import jvp_rules
    >>> with jvp_rules.override(prims.sin_p, Slopes(prims.sin_p, lambda x, ans: 2.0)):
    ...     jvp(lax.sin, (1.0,), (1.0,))[1]
    Array(2., dtype=float32, weak_type=True)
    """

    __slots__ = ("fs",)
    kind = property(lambda self: "slope" if any(self.fs) else "zero")

    def __init__(self, prim: Primitive, *fs: Callable[..., Any] | None) -> None:
        if not isinstance(prim, Primitive):
            raise TypeError(f"slope: expected a Primitive; got {type(prim).__name__}: {prim!r:.60}")
        self.prim = prim
        self.fs = fs
        for i, f in enumerate(fs):
            if f is not None and not callable(f):
                raise TypeError(f"slope of `{prim.name}`: operand {i}: expected a function or None; got {type(f).__name__}: "
                                f"{f!r:.60}")
            code = getattr(f, "__code__", None)
            if code is not None and prim.params:
                own = code.co_varnames[code.co_posonlyargcount:min(code.co_argcount, len(fs) + 1)]
                taken = sorted(set(own).intersection(prim.params))
                if taken:
                    raise TypeError(f"slope of `{prim.name}`: operand {i}: the function's own parameter `{taken[0]}` is also "
                                    "the name of a param of the op, which comes by keyword; write a / behind the operands "
                                    "and the result")

    def push(self, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        fs = self.fs
        ans = bind(self.prim, *primals, **params)
        if len(fs) == 1:
            t, f = tangents[0], fs[0]
            if t is None or f is None:
                return ans, None
            return ans, bind(_mul_p, t, f(primals[0], ans, **params))
        if self.prim.multiple:  # constant: there is no slope to multiply several results with
            return ans, [None] * len(ans)
        total = None
        for t, f in zip(tangents, fs):
            if t is not None and f is not None:
                term = bind(_mul_p, t, f(*primals, ans, **params))
                total = term if total is None else bind(_add_p, total, term)
        return ans, total if total is None else widen(total, ans)


class _Linear(_Row):
    """An op that is jointly linear in `linear_in`: its tangent is the op on the tangents."""

    __slots__ = ()
    kind = "linear"

    def push(self, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        prim = self.prim
        ans = bind(prim, *primals, **params)
        if len(primals) == 1:
            return ans, None if tangents[0] is None else bind(prim, tangents[0], **params)
        linear = prim.linear_in
        if all(tangents[i] is None for i in linear):
            return ans, ([None] * len(ans) if prim.multiple else None)
        if prim is _add_p or prim is _sub_p:
            a, b = tangents
            if b is None:
                return ans, widen(a, ans)
            if a is None:
                return ans, widen(b if prim is _add_p else bind(_neg_p, b), ans)
        args = []
        for i, (x, t) in enumerate(zip(primals, tangents)):
            if i not in linear:
                args.append(x)
            elif t is None and prim.elementwise:
                args.append(scalar(0, typeof(x).dtype))  # rank 0 broadcasts
            else:
                args.append(instantiate(t, x))
        out = bind(prim, *args, **params)
        return ans, (list(out) if prim.multiple else widen(out, ans) if prim.elementwise else out)


class _Bilinear(_Row):
    """An op that is linear in each of two operands while the other is held: the product rule."""

    __slots__ = ()
    kind = "bilinear"

    def push(self, primals: list[Any], tangents: list[Any], params: dict[str, Any]) -> tuple[Any, Any]:
        prim = self.prim
        ans = bind(prim, *primals, **params)
        total = None
        for i in prim.bilinear_in:
            if tangents[i] is not None:
                args = list(primals)
                args[i] = tangents[i]
                term = bind(prim, *args, **params)
                total = term if total is None else bind(_add_p, total, term)
        return ans, total


PUSHING = frozenset((Slopes, _Linear, _Bilinear))  # classes of rows whose `push` takes params as a dict


def row_of_facts(prim: Primitive) -> _Row | None:
    """The forward row that follows from where an op is linear; None where it is nowhere."""
    return _Linear(prim) if prim.linear_in else _Bilinear(prim) if prim.bilinear_in else None


class Split:
    """The row of an op with programs: under `jvp` a row like any other, and another where the linear part is recorded.

    Args:
      jvp: `jvp(primals, tangents, /, **params) -> (out, tangent)`.
      linearize: `linearize(trace, primals, tangents, /, **params)`, likewise, for a trace that records what is done to
        tangents: it splits the nested program, so that the part on known values is computed once.
    Raises:
      TypeError: one of them cannot be called.

    >>> from lamina_autodiff.extend import flow_row
    >>> made = flow_row(prims.scan_p)
    >>> row = Split(lambda primals, tangents, /, **params: made.jvp(primals, tangents, **params), made.linearize)
    >>> row.linearize is made.linearize
    True
    """

    __slots__ = ("jvp", "linearize")

    def __init__(self, jvp: Callable[..., Any], linearize: Callable[..., Any]) -> None:
        for what, f in (("jvp", jvp), ("linearize", linearize)):
            if not callable(f):
                raise TypeError(f"Split: expected a function as {what}; got {type(f).__name__}: {f!r:.60}")
        self.jvp, self.linearize = jvp, linearize

    def __call__(self, primals: list[Any], tangents: list[Any], /, **params: Any) -> tuple[Any, Any]:
        return self.jvp(primals, tangents, **params)


def widen(t: Any, ans: Any) -> Any:
    """A rank-0 operand's tangent, broadcast to the result it contributes to."""
    shape = ans.shape  # a result, so it is no Python number
    return t if typeof(t).shape == shape else lax.broadcast_in_dim(t, shape, ())


def nonzero(tangents: Iterable[Any]) -> list[Any]:
    """Those that there are; None is zero."""
    return [t for t in tangents if t is not None]


def spread(found: Iterable[Any], on: Iterable[bool]) -> list[Any]:
    """One entry per flag: the next one found where it is set, else None, zero."""
    rest = iter(found)
    return [next(rest) if o else None for o in on]


def instantiate(t: Any, primal: Any) -> Any:
    """A tangent as an array.

    Args:
      t: the tangent; None for zero.
      primal: what it is the tangent of, a value or a type.
    Returns:
      `t`, or zeros of that type.

    >>> instantiate(None, np.ones(2, np.float32))
    Array([0., 0.], dtype=float32)
    """
    if t is not None:
        return t
    aval = primal if isinstance(primal, ShapedArray) else typeof(primal)
    zero = scalar(0, aval.dtype)
    return lax.broadcast_in_dim(zero, aval.shape, ()) if aval.shape else zero
