"""Random programs: a few equations over drawn types, nested if requested, with values and derivatives of about one.

A program is staged while it is drawn, so a second use replays the staged program (`jaxpr_as_fun`). Float values stay
within [-2, 2] and no primitive amplifies much, so that different precisions and finite differences can be compared.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lamina
import numpy as np
from drawing import WIDE, Draw, kind_of
from lamina import lax
from lamina_ir import ClosedJaxpr, ShapedArray, shaped
from lamina_tracing.extend import jaxpr_as_fun, stage, typeof

__all__ = ["POLICIES", "axes", "batched_by_hand", "dtype", "grow", "truth", "types", "values"]

DTYPES = {64: {"f": ("float64",), "c": ("complex128",), "i": ("int32", "int64", "uint8"), "b": ("bool",)}}
DTYPES[32] = {**DTYPES[64], "f": ("float32",), "c": ("complex64",)}
POLICIES = (None, lamina.checkpoint_policies.everything_saveable, lamina.checkpoint_policies.dots_saveable,
            lamina.checkpoint_policies.save_only_these_names("kept"))


def dtype(d: Draw, kinds: str) -> np.dtype:
    """Return a dtype of these kinds. A draw has floats of one precision, because results of several could not be compared."""
    if not hasattr(d, "bits"):
        d.bits = 64 if d.kinds is WIDE or d.flag() else 32
    return np.dtype(d.pick([name for k in kinds for name in DTYPES[d.bits][k]]))


def types(d: Draw, low: int = 1, high: int = 3, kinds: str = "fffci", ndim: int = 2, empty: bool = True
          ) -> list[ShapedArray]:
    """Return between `low` and `high` types."""
    return [shaped(d.shape(0, ndim, empty), dtype(d, kinds)) for _ in range(d.int(low, high))]


def values(d: Draw, avals: Sequence[ShapedArray], batch: tuple[int, ...] = ()) -> list[np.ndarray]:
    """Return arrays of these types, with `batch` as leading axes."""
    return [d.array((*batch, *a.shape), a.dtype) for a in avals]


# --- one step -----------------------------------------------------------------------------------------------------
def kind(x: Any) -> str:
    return kind_of(typeof(x).dtype)


def axes(x: Any) -> tuple[int, ...]:
    return tuple(range(typeof(x).ndim))


def squash(z: Any) -> Any:
    """Return z / (1 + |z|^2)."""
    size = lax.add(lax.square(lax.real(z)), lax.square(lax.imag(z)))
    return lax.div(z, lax.convert_element_type(lax.add(size, 1.0), typeof(z).dtype))


SMOOTH = {"f": (lax.sin, lax.cos, lax.tanh, lax.logistic, lax.neg, lambda x: lax.mul(x, 0.7), lax.atan, lax.erf,
                lambda x: lax.exp(lax.neg(lax.square(x))), lambda x: lamina.ad_checkpoint.checkpoint_name(x, "kept")),
          "c": (lax.conj, lax.neg, squash, lambda x: lax.mul(x, 0.6 - 0.7j)),
          "i": (lax.neg, lambda x: lax.add(x, 1), lax.bitwise_not), "b": (lax.bitwise_not,)}
SMOOTH["u"] = SMOOTH["i"]
JOIN = {"f": (lambda x, y: lax.mul(x, lax.sin(y)), lambda x, y: lax.mul(lax.add(x, y), 0.5),
              lambda x, y: lax.select(lax.gt(x, y), x, lax.cos(y)), lambda x, y: lax.div(x, lax.add(2.0, lax.cos(y)))),
        "c": (lambda x, y: squash(lax.mul(x, y)), lambda x, y: lax.mul(lax.sub(x, y), 0.5)),
        "i": (lax.add, lax.mul, lax.sub, lax.bitwise_xor), "b": (lax.bitwise_and, lax.bitwise_or)}
JOIN["u"] = JOIN["i"]


def number(x: Any) -> Any:
    """Return `x`, or a small number for a boolean."""
    return lax.convert_element_type(x, np.int32) if kind(x) == "b" else x


def mean(x: Any, at: tuple[int, ...]) -> Any:
    """Return the mean along some axes; the sum of integers."""
    n = int(np.prod([typeof(x).shape[a] for a in at], dtype=int))
    total = lax.reduce_sum(x, at)
    return lax.mul(total, 1.0 / n) if n and kind(x) in "fc" else total


def truth(x: Any) -> Any:
    """Return a condition on the elements of `x`."""
    return {"f": lambda: lax.gt(x, 0.1234567), "c": lambda: lax.gt(lax.imag(x), 0.1234567), "b": lambda: x,
            "i": lambda: lax.gt(x, 1), "u": lambda: lax.gt(x, 1)}[kind(x)]()


def take(d: Draw, pool: Sequence[Any]) -> Any:
    """Return one of the values, preferably a late one, so that few values are unused."""
    return pool[-1 - min(d.int(0, len(pool) - 1), d.int(0, len(pool) - 1))]


def condition(d: Draw, pool: list[Any]) -> Any:
    """Return a scalar condition that depends on data."""
    x = truth(take(d, pool))
    return lax.reduce_or(x, axes(x)) if d.flag() else lax.reduce_and(x, axes(x))


def convert_to(d: Draw, x: Any, aval: ShapedArray) -> Any:
    """Convert `x` to this type."""
    if typeof(x).shape != aval.shape:
        x = number(x)
        x = lax.broadcast_in_dim(mean(x, axes(x)), aval.shape, ())
    have, want = kind(x), kind_of(aval.dtype)
    if want == "b":
        return truth(x)
    if want in "iu" and have in "fc":
        x = truth(x)
    if want in "fc" and have in "iu":
        x = lax.rem(x, np.asarray(3, typeof(x).dtype))
    if want == "f" and have == "c":
        x = lax.real(x)
    return lax.convert_element_type(x, aval.dtype)


def flat(d: Draw, x: Any) -> Any:
    """Move the elements of `x`."""
    shape, n = typeof(x).shape, typeof(x).ndim
    size = int(np.prod(shape, dtype=int))
    moves: list[Callable[[], Any]] = [lambda: lax.reshape(x, (size,)), lambda: lax.expand_dims(x, (d.int(0, n),))]
    if n:
        a = d.int(0, n - 1)
        moves += [lambda: lax.transpose(x, d.axes(n, n)), lambda: lax.rev(x, (a,)),
                  lambda: lax.concatenate([x, lax.rev(x, (a,))], a) if shape[a] < 5 else x,
                  lambda: lax.slice_in_dim(x, min(1, shape[a]), shape[a], axis=a)]
        if shape[a]:
            moves += [lambda: lax.dynamic_index_in_dim(x, np.int32(d.int(0, shape[a] - 1)), a, keepdims=False),
                      lambda: lax.mul(lax.cumsum(x, a), 1.0 / shape[a]) if kind(x) in "fc" else
                      lax.cummax(number(x), a)]
    return d.pick(moves)()


def step(d: Draw, pool: list[Any], depth: int) -> list[Any]:
    """Return the values that one more step adds."""
    x = take(d, pool)
    what = d.int(0, 6 if depth else 4)
    if what == 0:
        return [d.pick(SMOOTH[kind(x)])(x)]
    if what == 1:
        return [d.pick(JOIN[kind(x)])(x, convert_to(d, take(d, pool), typeof(x)))]
    if what == 2:
        return [d.pick(JOIN[kind(x)])(x, d.array(typeof(x).shape, typeof(x).dtype))]
    if what == 3:
        return [mean(number(x), d.axes(typeof(x).ndim))]
    if what == 4:
        return [flat(d, x)]
    return list(d.pick(NESTED)(d, pool, depth - 1))


def grow(d: Draw, avals: Sequence[ShapedArray], outs: Sequence[ShapedArray] | None = None, size: int = 3,
         depth: int = 0) -> ClosedJaxpr:
    """Return a program with operands of these types.

    Args:
      d: the draw.
      avals: types of the operands.
      outs: types of the results; None for any.
      size: number of steps, most of which make one to three equations.
      depth: maximal nesting of programs.
    """
    def build(*xs: Any) -> list[Any]:
        pool = [*xs] or [d.array((2,), dtype(d, "f"))]
        for _ in range(size):
            pool += step(d, pool, depth)
        if outs is None:
            return pool[-d.int(1, 2):]
        recent = pool[-max(size, len(outs)):]
        return [convert_to(d, take(d, recent), a) for a in outs]

    program, outer = stage(build, [a.strip_weak_type() for a in avals])
    assert not outer
    return program


# --- programs in programs -----------------------------------------------------------------------------------------
def operands(d: Draw, pool: list[Any], low: int = 1) -> list[Any]:
    return [take(d, pool) for _ in range(d.int(low, 3))]


def body(d: Draw, xs: Sequence[Any], depth: int, outs: Sequence[Any] | None = None) -> Callable[..., list[Any]]:
    return jaxpr_as_fun(grow(d, [typeof(x) for x in xs], outs, d.int(1, 3), depth))


def closing(d: Draw, pool: list[Any], depth: int) -> tuple[Callable[..., list[Any]], list[Any]]:
    """Return a function that captures a value, and operands for it."""
    held, xs = take(d, pool), operands(d, pool)
    run = body(d, [held, *xs], depth)
    return lambda *ys: run(held, *ys), xs


def branches(d: Draw, pool: list[Any], depth: int) -> Any:
    held, xs, outs = take(d, pool), operands(d, pool, 0), types(d, 1, 2)
    runs = [body(d, [held, *xs], depth, outs) for _ in range(d.int(2, 3))]
    funs = [lambda *ys, run=run: run(held, *ys) for run in runs]
    if d.flag():
        return lax.cond(condition(d, pool), *funs[:2], *xs)
    index = lax.add(*[lax.convert_element_type(condition(d, pool), np.int32) for _ in range(2)])
    return lax.switch(index, funs, *xs)


def scanned(d: Draw, pool: list[Any], depth: int) -> Any:
    held, carry, length = take(d, pool), operands(d, pool), d.int(0, 4)
    stacked = [x for x in pool if typeof(x).shape[:1] == (length,)]
    xs = [d.pick(stacked) if stacked and d.flag() else d.array((length, 2), dtype(d, "fi")) for _ in range(d.int(0, 2))]
    n, rows = len(carry), [shaped(typeof(x).shape[1:], typeof(x).dtype) for x in xs]
    run = jaxpr_as_fun(grow(d, [typeof(held).strip_weak_type(), *[typeof(x).strip_weak_type() for x in carry], *rows],
                            [*[typeof(x).strip_weak_type() for x in carry], *types(d, 0, 1)], d.int(1, 3), depth))

    def step(c: Any, slice_: Any) -> Any:
        out = run(held, *c, *slice_)
        return out[:n], out[n:]

    last, ys = lax.scan(step, carry, xs, length=length, reverse=d.flag(), unroll=d.int(1, 3))
    return [*last, *ys]


def repeated(d: Draw, pool: list[Any], depth: int) -> Any:
    held, carry = take(d, pool), operands(d, pool)
    run = body(d, [held, *carry], depth, [typeof(x) for x in carry])
    limit = lax.add(lax.convert_element_type(condition(d, pool), np.int32), np.int32(d.int(0, 2)))
    if d.flag():
        return lax.fori_loop(0, d.int(0, 3), lambda i, c: run(held, *c), carry)
    return lax.while_loop(lambda c: lax.lt(c[0], limit), lambda c: (lax.add(c[0], 1), run(held, *c[1])),
                          (np.int32(0), carry), max_iters=d.int(1, 4))[1]


def called(d: Draw, pool: list[Any], depth: int) -> Any:
    fun, xs = closing(d, pool, depth)
    return d.pick((lamina.jit, lamina.named_call))(fun)(*xs)


def recomputed(d: Draw, pool: list[Any], depth: int) -> Any:
    fun, xs = closing(d, pool, depth)
    return lamina.checkpoint(fun, policy=d.pick(POLICIES), prevent_cse=d.flag())(*xs)


def with_jvp(d: Draw, pool: list[Any], depth: int) -> Any:
    fun, xs = body(d, xs := operands(d, pool), depth), xs
    rule = lamina.custom_jvp(fun)
    rule.defjvp(lambda primals, tangents: lamina.jvp(fun, primals, tangents))
    return rule(*xs)


def with_vjp(d: Draw, pool: list[Any], depth: int) -> Any:
    fun, xs = body(d, xs := operands(d, pool), depth), xs
    rule = lamina.custom_vjp(fun)
    rule.defvjp(lambda *ys: (fun(*ys), ys), lambda ys, ct: lamina.vjp(fun, *ys)[1](ct))
    return rule(*xs)


def with_vmap(d: Draw, pool: list[Any], depth: int) -> Any:
    fun, xs = body(d, xs := operands(d, pool), depth), xs
    rule = lamina.custom_batching.custom_vmap(fun)
    rule.def_vmap(lambda size, batched, *ys: batched_by_hand(fun, size, batched, ys))
    return rule(*xs)


def batched_by_hand(fun: Callable[..., list[Any]], size: int, batched: Sequence[bool], xs: Sequence[Any]) -> Any:
    out = lamina.vmap(fun, [0 if b else None for b in batched], axis_size=size)(*xs)
    return out, [True] * len(out)


def solved(d: Draw, pool: list[Any], depth: int) -> Any:
    aval = shaped(d.shape(0, 2), dtype(d, "fc"))
    weights, b = [convert_to(d, take(d, pool), aval) for _ in range(2)]
    diagonal = lax.add(squash(weights) if kind(b) == "c" else lax.sin(weights), 2.0)
    divide = lambda matvec, y: lax.div(y, diagonal)  # noqa: E731
    return [lax.custom_linear_solve(lambda x: lax.mul(diagonal, x), b, divide, divide)]


def barrier(d: Draw, pool: list[Any], depth: int) -> Any:
    return lax.optimization_barrier(tuple(operands(d, pool)))


NESTED = (branches, scanned, repeated, called, recomputed, with_jvp, with_vjp, with_vmap, solved, barrier)
