"""`repeat`, an op from outside that holds a program: its body applied `times` times to what it carries.

It is no primitive of the house. Tests of each room take it as what a stranger would write: its facts, and no row but those
that docs/nested-programs.md asks for.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..avals import ShapedArray
from ..flow import Flow, carried, held
from ..primitive import Primitive
from ..prims._operands import check_operands
from ..program import ClosedJaxpr

__all__ = ["repeat_p"]


def _infer(*avals: ShapedArray, body: ClosedJaxpr, num_consts: int, times: int) -> list[ShapedArray]:
    check_operands("repeat: body", body, avals)
    return list(body.out_avals)


def _turns(run: Callable[[Sequence[Any]], Sequence[Any]], args: Sequence[Any], num_consts: int, times: int) -> Sequence[Any]:
    consts, carry = args[:num_consts], args[num_consts:]
    for _ in range(times):
        carry = run([*consts, *carry])
    return carry


def _numpy(run: Any, *args: Any, body: ClosedJaxpr, num_consts: int, times: int) -> tuple[Any, ...]:
    return tuple(_turns(lambda xs: run(body, xs), args, num_consts, times))


def _spmd(run: Any, env: Any, args: list[list[Any]], params: dict[str, Any]) -> Any:
    return _turns(lambda xs: run(params["body"], xs, env), args, params["num_consts"], params["times"])


repeat_p = Primitive("repeat", params=("body", "num_consts", "times"), family="control", infer=_infer, numpy=_numpy, spmd=_spmd,
                     multiple=True, flow=Flow(held("num_consts"), carried(), body="body", length="times"), spec="while")
