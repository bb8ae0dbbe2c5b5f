"""Decide which programs are compiled in two tiers: first quickly, then optimised in the background (`background`).

The first tier is compiled without LLVM's optimisation and, on jaxlib 0.10, without its fused emitters. Its
compilation takes much less time, and its steps take longer. Random bits, gathers and scatters lose most. `log_compiles`
logs the time of both compilations.

So a program is compiled in two tiers only if two estimates agree. Its compilation takes long, and one run of the first
tier loses much less time than its compilation saves.
"""
from __future__ import annotations

import math
from typing import NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, config, prims, subprograms
from lamina_ir.extend import stack_depth
from lamina_ir.extend.unchecked import get_primitives

__all__ = ["compile_tiers", "estimate_costs", "has_two_tiers"]

compile_tiers = config.Option("compile_tiers", "optimized", choices=("auto", "optimized"),
                              help="auto: compile large CPU programs quickly for their first calls, and optimize them in a "
                              "background thread; the last digits of results may change when it has ended. optimized: once")

# The compile time of an equation in ms, by family: the default settings of jaxlib 0.10.2. Not exact for any program, but
# the estimates of 20 programs were within a factor of 3.
_COMPILE_MS = {"elementwise": 0.4, "shape": 1.0, "products": 1.0, "reductions": 6.0, "indexing": 10.0, "sorting": 15.0,
               "windows": 20.0, "special": 30.0, "convolution": 60.0, "random_bits": 60.0, "control": 100.0,
               "calls": 0.0, "custom": 0.0}
_OTHER_MS = 5.0
# The time that one run of the first tier loses, in ns per element of the largest operand or result.
_LOST_NS = {"elementwise": 3.0, "shape": 2.0, "products": 2.0, "convolution": 2.0, "reductions": 1.0, "indexing": 6.0,
            "random_bits": 30.0, "calls": 0.0, "custom": 0.0}
_OTHER_NS, _CUMULATIVE_NS = 10.0, 100.0
_CUMULATIVE = get_primitives("cummax cummin cumprod cumsum")
_LOST_NS_PER_EQUATION = 100.0  # of each iteration of a loop
_LOST_NS_PER_MULTIPLICATION, _MAX_PRODUCT = 0.2, 1 << 17  # of a small matrix product; larger ones call a library
_MIN_COMPILE_MS = 250.0
_MAX_LOST_FRACTION = 0.25  # of the compile time


class _Costs(NamedTuple):
    """Estimates for a program.

    Attributes:
      compile_ms: the time of compiling it with the default settings, in ms.
      lost_ms: the time that one run of the first tier loses, in ms; infinite if a loop has an unknown length.
    """

    compile_ms: float
    lost_ms: float


def has_two_tiers(closed: ClosedJaxpr) -> bool:
    """Return whether a program is worth two tiers."""
    costs = estimate_costs(closed)
    return costs.compile_ms >= _MIN_COMPILE_MS and costs.lost_ms <= _MAX_LOST_FRACTION * costs.compile_ms


def estimate_costs(closed: ClosedJaxpr) -> _Costs:
    """Return the estimates for a program."""
    with stack_depth.with_recursion_limit():  # nested programs are visited recursively
        return _find_costs(closed)


def _find_costs(closed: ClosedJaxpr) -> _Costs:
    """Return the estimates, memoized on each program: calls of calls would otherwise be visited exponentially often."""
    return closed.memo("tier costs", lambda: _sum_costs(closed))


def _sum_costs(closed: ClosedJaxpr) -> _Costs:
    compile_ms = lost_ms = 0.0
    for e in closed.jaxpr.eqns:
        compile_ms += _COMPILE_MS.get(e.primitive.family, _OTHER_MS)
        if not e.primitive.subprograms:
            lost_ms += _lost_ns(e) * 1e-6
            continue
        inner = [(_find_costs(program), len(program.jaxpr.eqns)) for program in subprograms(e)]
        compile_ms += sum([costs.compile_ms for costs, _ in inner])
        lost_ms += _count_runs(e) * sum([costs.lost_ms + n * _LOST_NS_PER_EQUATION * 1e-6 for costs, n in inner])
    return _Costs(compile_ms, lost_ms)


def _lost_ns(e: Eqn) -> float:
    p, largest = e.primitive, max([v.aval.size for v in (*e.invars, *e.outvars)], default=0)
    lost = largest * (_CUMULATIVE_NS if p in _CUMULATIVE else _LOST_NS.get(p.family, _OTHER_NS))
    if p is prims.dot_general_p:
        (contracted, _), _ = e.params["dimension_numbers"]
        multiplications = e.outvars[0].aval.size * math.prod([e.invars[0].aval.shape[d] for d in contracted])
        lost += _LOST_NS_PER_MULTIPLICATION * min(multiplications, _MAX_PRODUCT)
    return lost


def _count_runs(e: Eqn) -> float:
    """Return how often the programs of an equation run.

    It is the number of iterations of a loop, infinite if unknown. It is the number of members of a map, since the devices of
    a CPU share its cores. Else it is 1.
    """
    flow = e.primitive.region_signature
    if flow is None or not flow.loops:
        return 1.0 if flow is None else float(math.prod([size for _, size in flow.axes(e.params)]))
    return float(e.params[flow.length]) if flow.length else math.inf
