"""Control flow that is staged: branches (`cond`, `switch`) and loops (`scan`, `map`, `while_loop`, `fori_loop`).

Each is one equation whatever the number of iterations. Functions are staged once per types and cached; values of
enclosing transformations that they use become operands.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ShapedArray, Var, config, dtypes, prims, shaped, trees
from lamina_ir.typing import Function, Tree, Value

from ..._core.signature import function_name
from ..._core.trace import bind
from ..._core.tracer import Tracer, typeof
from ..._diagnostics.tracebacks import api_boundary
from .._util.operands import check_callable
from .loop_bodies import cast, check_carry, flat_avals, stage_with_fixed_carry, stage_body
from .cond import cond, platform_dependent, switch
from .scan import check_loop, map, scan, scan_flat, promote_weak_carry
from ..elementwise import add
from ..._core.array import ArrayLike

__all__ = ["cond", "fori_loop", "map", "platform_dependent", "scan", "switch", "while_loop"]

Carry = TypeVar("Carry")


@api_boundary
def while_loop(cond_fun: Callable[[Any], ArrayLike], body_fun: Callable[[Any], Carry], init_val: Any,
               max_iters: int | None = None) -> Carry:
    """Repeat a function while a condition holds.

    Without `max_iters` the loop differentiates forward only, because the number of residuals is unknown. With it, `grad`
    works too; it stores about the square root of `max_iters` carries and recomputes the rest.

    Args:
      cond_fun: carry -> a boolean scalar.
      body_fun: carry -> carry, of the same tree and types.
      init_val: the first carry.
      max_iters: the maximal number of iterations.
    Returns:
      The last carry.
    Raises:
      TypeError: `cond_fun` does not return a boolean scalar, or `body_fun` returns a carry of another type.

    >>> while_loop(lambda x: x < 10, lambda x: x * 2, np.int32(1))
    Array(16, dtype=int32)
    """
    check_callable("while_loop", "cond_fun", cond_fun)
    check_callable("while_loop", "body_fun", body_fun)
    if max_iters is not None:
        if isinstance(max_iters, bool) or not hasattr(max_iters, "__index__") or max_iters < 0:
            raise ValueError("while_loop: max_iters must be None or a known integer of at least 0; got "
                             f"{max_iters!r:.60}")
        max_iters = max_iters.__index__()
    flat, tree = trees.tree_flatten(init_val)
    if config.disable_jit.value and not any(isinstance(x, Tracer) for x in flat):
        return _while_in_python(cond_fun, body_fun, init_val, max_iters)

    def step(tracers: Sequence[Value], avals: Sequence[ShapedArray]) -> Tree:
        return promote_weak_carry(body_fun(trees.tree_unflatten(tree, tracers)), tree, avals)

    def test(tracers: Sequence[Value]) -> Value:
        return cond_fun(trees.tree_unflatten(tree, tracers))

    # The body is staged before the condition, because it determines the types of the carry for both.
    first = flat_avals("while_loop", "init_val", flat, tree)
    # A carry that starts as a Python number is weakly typed; it takes the type that the body returns.
    avals, body = stage_with_fixed_carry(
        lambda at: stage_body("while_loop", body_fun, lambda ts: step(ts, at), ("body", tree), at, flat), first, len(flat))
    check_carry("while_loop", function_name(body_fun), tree, avals, body.tree, body.closed.out_avals)
    condition = stage_body("while_loop", cond_fun, test, ("cond", tree), avals, flat)
    outs = condition.closed.out_avals
    single = condition.tree.num_leaves == 1 and trees.treedef_is_leaf(condition.tree)
    if not single or outs[0].shape or not dtypes.is_bool(outs[0].dtype):
        got = outs[0].str_long() if single else condition.tree
        raise TypeError(f"while_loop: `{function_name(cond_fun)}` must return a boolean scalar; got {got}")
    flat = [x if a is b else cast(x, a) for x, a, b in zip(flat, avals, first)]
    result = bind(prims.while_p, *condition.outer, *body.outer, *flat, cond_jaxpr=condition.closed,
                  cond_nconsts=len(condition.outer), body_jaxpr=body.closed, body_nconsts=len(body.outer),
                  max_iters=max_iters)
    return trees.tree_unflatten(tree, result)


def _while_in_python(cond_fun: Function, body_fun: Function, carry: Tree, max_iters: int | None) -> Tree:
    count = 0
    while count != max_iters and cond_fun(carry):
        carry = body_fun(carry)
        count += 1
    return carry


@api_boundary
def fori_loop(lower: Value, upper: Value, body_fun: Callable[[Any, Any], Carry], init_val: Any, *,
              unroll: int | bool | None = None) -> Carry:
    """Repeat a function for each integer of a range.

    With bounds that are known when the function is staged this is a `scan`, and has a reverse derivative.

    Args:
      lower: first integer.
      upper: end, not included.
      body_fun: `(i, carry) -> carry`, of the same tree and types. With known bounds `i` is weakly typed, as a Python
        integer; else it has the dtype of the bounds, and is weakly typed if `lower` is.
      init_val: the first carry.
      unroll: as for `scan`; only with known bounds.
    Returns:
      The last carry.
    Raises:
      TypeError: bounds are no integers of one dtype, or the carry differs from the one `body_fun` takes.

    >>> fori_loop(1, 5, lambda i, x: x * i, np.int32(1))
    Array(24, dtype=int32)
    """
    check_callable("fori_loop", "body_fun", body_fun)
    count = _find_counter_type(typeof(lower), typeof(upper))
    # Known bounds give a known length, so a scan, which has a reverse derivative.
    known = not isinstance(lower, Tracer) and not isinstance(upper, Tracer)
    if known and max(abs(int(lower)), abs(int(upper))) <= dtypes.iinfo(dtypes.canonical_int()).max:
        count = typeof(0)
    lower, upper = cast(lower, count), cast(upper, count)
    if config.disable_jit.value and known:
        carry = init_val
        for i in range(int(lower), int(upper)):
            carry = body_fun(_make_counter(i, count), carry)
        return carry
    if unroll is not None and not known:
        raise ValueError("fori_loop: unroll needs bounds that are known when the loop is staged")
    flat, tree = trees.tree_flatten(init_val)

    def step(tracers: Sequence[Value], avals: Sequence[ShapedArray]) -> Tree:
        i, *rest = tracers
        # The counter is a carry, because `while` has no iteration number of its own.
        return add(i, 1), promote_weak_carry(body_fun(i, trees.tree_unflatten(tree, rest)), tree, avals[1:])

    def run(tracers: Sequence[Value], avals: Sequence[ShapedArray]) -> tuple[Tree, tuple[()]]:
        return step(tracers, avals), ()

    # The counter is the first carry. Known bounds give a scan without scanned arrays, other bounds a while loop, whose
    # test takes `upper`.
    both = trees.tree_structure((0, trees.tree_unflatten(tree, [0] * len(flat))))
    if known:
        carry, _ = scan_flat("fori_loop", body_fun, run, ("fori", tree), [_to_host_number(lower, count), *flat], both, [],
                         max(int(upper) - int(lower), 0), False, unroll)
        return carry[1]
    first = [count, *flat_avals("fori_loop", "init_val", flat, tree)]
    avals, body = stage_with_fixed_carry(
        lambda at: stage_body("fori_loop", body_fun, lambda ts: step(ts, at), ("fori while", tree), at,
                              [lower, *flat]),
        first, len(first))
    check_loop("fori_loop", body_fun, both, avals, body.tree, body.closed.out_avals)
    # Cached by types: programs of equal loops then share the condition, and with it what is derived from it.
    condition = _below(tuple(avals))
    flat = [x if a is b else cast(x, a) for x, a, b in zip(flat, avals[1:], first[1:])]
    result = bind(prims.while_p, upper, *body.outer, lower, *flat, cond_jaxpr=condition, cond_nconsts=1,
                  body_jaxpr=body.closed, body_nconsts=len(body.outer), max_iters=None)
    return trees.tree_unflatten(tree, result[1:])


def _find_counter_type(low: ShapedArray, high: ShapedArray) -> ShapedArray:
    """Return the type of the counter of a loop between bounds of these types; TypeError if they do not fit."""
    if low.shape or high.shape or not dtypes.is_integer(low.dtype) or not dtypes.is_integer(high.dtype):
        raise TypeError(f"fori_loop: lower and upper must be integer scalars; got {low.str_long()} and {high.str_long()}")
    if low.dtype == high.dtype:
        return low
    if low.weak_type == high.weak_type:
        raise TypeError(f"fori_loop: lower and upper must have the same dtype; got {low.str_long()} and {high.str_long()}")
    return shaped((), high.dtype if low.weak_type else low.dtype)  # a Python integer takes the other's dtype


def _make_counter(i: int, aval: ShapedArray) -> Value:
    return i if aval.weak_type else aval.dtype.type(i)


def _to_host_number(x: Value, aval: ShapedArray) -> Value:
    """Return a known bound as a host number, so that staging writes it as a literal."""
    return _make_counter(int(x), aval)


@functools.lru_cache(maxsize=1024)
def _below(avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    """Return the program `upper, i, *carry -> i < upper`."""
    upper, *carry = [Var(a) for a in (avals[0], *avals)]
    out = Var(shaped((), np.dtype(bool)))
    return ClosedJaxpr(Jaxpr([], [upper, *carry], [Eqn(prims.lt_p, (carry[0], upper), (out,), {})], [out]))
