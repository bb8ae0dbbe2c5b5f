"""A third-party primitive with a nested program: `repeat(f, times, *carry)` applies `f` repeatedly to the carry.

Its region signature describes how operands pass through the program. Analyses that need only the signature (dead code,
dependence, partial evaluation, order of effects, checkpoint policies, forward derivatives, batching) need no code here.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_ir import ClosedJaxpr, Primitive, ShapeError, ShapedArray, prims, trees
from lamina_ir.extend import RegionSignature, carry_operands, const_operands, register_primitive
from lamina_ir.testing.programs import chain
from lamina_ir.testing.samples import floats, sample
from lamina_lowering.extend import lowering_rules
from lamina_tracing.extend import bind, stage, typeof

from .bounds import bounds_of_programs, bounds_rules
from .numpy_text import numpy_text_rules, tuple_text

__all__ = ["repeat", "repeat_p"]


# 1. The facts.
def _infer(*avals: ShapedArray, body: ClosedJaxpr, num_consts: int, times: int) -> list[ShapedArray]:
    if times < 0:
        raise ShapeError(f"repeat: times must be at least 0; got {times}")
    for i, (a, b) in enumerate(zip(avals[num_consts:], body.out_avals, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ShapeError(f"repeat: result {i} of the body must be {a.str_long()}, as the carry; got {b.str_long()}")
    return list(body.out_avals)


def _repeat(run: Callable[[Sequence[Any]], Sequence[Any]], args: Sequence[Any], num_consts: int, times: int) -> Any:
    consts, carry = args[:num_consts], args[num_consts:]
    for _ in range(times):
        carry = run([*consts, *carry])
    return tuple(carry)


def _numpy(run: Any, *args: Any, body: ClosedJaxpr, num_consts: int, times: int) -> tuple[Any, ...]:
    return _repeat(lambda xs: run(body, xs), args, num_consts, times)


def _spmd(run: Any, env: Any, args: list[list[Any]], params: dict[str, Any]) -> tuple[Any, ...]:
    """Run all members of mapped axes at once, since the body may contain collectives."""
    return _repeat(lambda xs: run(params["body"], xs, env), args, params["num_consts"], params["times"])


repeat_p = Primitive("repeat", params=("body", "num_consts", "times"), family="control", infer=_infer, numpy=_numpy, spmd=_spmd,
                     multiple=True, spec="while",
                     region_signature=RegionSignature(const_operands("num_consts"), carry_operands(), body="body",
                                                      length="times"))
register_primitive(repeat_p)

# 2. Sample inputs for the tests of every package.
for _times in (0, 1, 3):
    sample(repeat_p, floats(), body=chain(2), num_consts=0, times=_times)


# 3. The public function.
def repeat(fun: Callable[..., Any], times: int, *carry: Any) -> Any:
    """Apply `fun` repeatedly: `carry = fun(*carry)`, `times` times.

    Args:
      fun: function of arrays and pytrees of them, which returns as many of the same types (a tuple for several).
      times: the number of iterations, an int.
      carry: the initial values.
    Returns:
      The final carry: a tuple, or the value if there is one.
    Raises:
      ShapeError: a result differs in type from the carry.

    >>> repeat(lambda x: x * 2.0, 10, np.float32(1))
    Array(1024., dtype=float32)
    """
    flat, tree = trees.tree_flatten(carry)

    def run(*xs: Any) -> list[Any]:
        out = fun(*trees.tree_unflatten(tree, xs))
        return trees.tree_leaves(out if len(carry) > 1 else (out,))

    body, outer = stage(run, [typeof(x).strip_weak_type() for x in flat])
    outs = bind(repeat_p, *outer, *flat, body=body, num_consts=len(outer), times=times)
    found = trees.tree_unflatten(tree, outs)
    return found if len(carry) > 1 else found[0]


# 4. Rules for targets. Derivatives and batching follow from the region signature.
lowering_rules.define(repeat_p, lambda ctx, /, *args, body, num_consts, times: lowering_rules[prims.scan_p](
    ctx, *args, jaxpr=body, length=times, num_consts=num_consts, num_carry=len(args) - num_consts, reverse=False, unroll=1))
bounds_rules.define(repeat_p, bounds_of_programs(repeat_p))


def _text(use: Any, /, *xs: str, body: ClosedJaxpr, num_consts: int, times: int) -> str:
    consts, carry = tuple_text(xs[:num_consts]), tuple_text(xs[num_consts:])
    step = use.function(body, "body")
    return f"__import__('functools').reduce(lambda carry, _: {step}(*{consts}, *carry), range({times}), {carry})"


numpy_text_rules.define(repeat_p, _text)
