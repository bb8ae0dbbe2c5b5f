"""`repeat`: an example of a third-party primitive that holds a program. It applies its body `times` times to the
carries.

It is not a built-in primitive. The tests of each package use it with its region signature alone, without rules, except
those that docs/design/nested-programs.md requires.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._types.avals import ShapedArray
from .._core.region_signature import RegionSignature, carry_operands, const_operands
from .._core.primitive import Primitive
from ..prims._operands import check_operands
from .._core.jaxpr import ClosedJaxpr
from ..typing import Params, Tree, Value

__all__ = ["repeat_p"]


def _infer(*avals: ShapedArray, body: ClosedJaxpr, num_consts: int, times: int) -> list[ShapedArray]:
    check_operands("repeat: body", body, avals)
    return list(body.out_avals)


def _repeat(run: Callable[[Sequence[Any]], Sequence[Any]], args: Sequence[Value], num_consts: int,
            times: int) -> Sequence[Any]:
    consts, carry = args[:num_consts], args[num_consts:]
    for _ in range(times):
        carry = run([*consts, *carry])
    return carry


def _numpy(run: Any, *args: Tree, body: ClosedJaxpr, num_consts: int, times: int) -> tuple[Any, ...]:
    return tuple(_repeat(lambda xs: run(body, xs), args, num_consts, times))


def _spmd(run: Any, env: Any, args: list[list[Value]], params: Params) -> Any:
    return _repeat(lambda xs: run(params["body"], xs, env), args, params["num_consts"], params["times"])


repeat_p = Primitive("repeat", params=("body", "num_consts", "times"), family="control", infer=_infer, numpy=_numpy, spmd=_spmd,
                     multiple=True, spec="while",
                     region_signature=RegionSignature(const_operands("num_consts"), carry_operands(), body="body",
                                                      length="times"))
