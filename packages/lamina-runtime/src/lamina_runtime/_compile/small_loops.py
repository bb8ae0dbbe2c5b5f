"""Decide which loops of a program XLA compiles to one kernel.

XLA's CPU backend launches each operation of a loop's body on its own. It compiles a loop to one
kernel instead if the arrays that enter the loop take fewer bytes than a threshold (1 KB by default). The stacked operands
of a scan count in full, so hardly any scan is below it. Here the threshold is chosen per program by the work of one
iteration. So the loop of a small body becomes one kernel, however many iterations it has.

One kernel, compared with separate operations on jaxlib 0.10.2:

- Scans of elementwise bodies, their gradients and RNN cells of few features take less time, gradients of ODEs most of all.
- Sorts, scatters and calls of libraries take the same time.
- Large products take longer.

Most bodies compile faster, and those of about a thousand equations slower. `benchmarks/loop_programs.py` measures twelve
such programs: `nox -s bench -- --only loop`.
"""
from __future__ import annotations

import math
from typing import NamedTuple

from lamina_ir import ClosedJaxpr, Eqn, ShapedArray, prims, subprograms
from lamina_ir.extend import stack_depth
from lamina_ir.extend.unchecked import get_primitives

__all__ = ["loop_byte_threshold"]

_MAX_ELEMENTS = 1 << 13  # of an array in a body: larger operations are divided over threads
_DEFAULT = 1 << 10  # bytes, of jaxlib 0.10
_MAX_EQUATIONS = 400  # of a body
_MAX_PRODUCT = 1 << 17  # multiplications of a matrix product
_SLICES = get_primitives("dynamic_slice gather slice squeeze")  # read only a part of their operand
_UPDATES = get_primitives("dynamic_update_slice scatter scatter_add scatter_max scatter_min scatter_mul")
_SMALL_FAMILIES = frozenset((
    "elementwise", "shape", "indexing", "reductions", "sorting", "products", "calls", "control", "random_bits",
    "random_keys", "custom"))


class _LoopFacts(NamedTuple):
    """Facts of a program and of those in it.

    Attributes:
      equations: their number, those of a program that is called twice counted twice.
      is_small: whether all are small enough for one kernel.
      small: the largest threshold that a loop of a small body needs; 0 if there is none.
      large: the smallest operands of a loop of a large body, in bytes; 0 if there is none.
      has_long_body: whether the body of a loop has too many equations.
    """

    equations: int
    is_small: bool
    small: int
    large: int
    has_long_body: bool


def loop_byte_threshold(closed: ClosedJaxpr) -> int:
    """Return the number of bytes below which XLA compiles a loop of the program to one kernel; 0: its default.

    Loops of large bodies are above it. If such a loop has smaller operands than a loop of a small body, the default stays.
    """
    with stack_depth.with_recursion_limit():  # nested programs are visited recursively
        facts = _find_facts(closed)
    if facts.small and not (facts.large and facts.small > facts.large):
        return facts.small
    return _DEFAULT if facts.has_long_body else 0  # later versions of jaxlib have a larger default


def _find_facts(closed: ClosedJaxpr) -> _LoopFacts:
    """Return the facts, memoized on each program: calls of calls would otherwise be visited exponentially often."""
    return closed.memo("loop facts", lambda: _collect_facts(closed))


def _collect_facts(closed: ClosedJaxpr) -> _LoopFacts:
    equations, is_small, small, large, has_long_body = 0, True, 0, 0, False
    for e in closed.jaxpr.eqns:
        inner = [_find_facts(program) for program in subprograms(e)] if e.primitive.subprograms else []
        count = sum([f.equations for f in inner])
        has_small_body = all(f.is_small for f in inner)
        equations, is_small = equations + 1 + count, is_small and has_small_body and _is_small(e)
        thresholds, sizes = [f.small for f in inner], [f.large for f in inner if f.large]
        has_long_body = has_long_body or any(f.has_long_body for f in inner)
        if e.primitive is prims.scan_p or e.primitive is prims.while_p:
            # XLA may add operands, such as constants that it moves out of the loop.
            size = sum([_count_bytes(v.aval) for v in (*e.invars, *e.outvars)])
            has_long_body = has_long_body or count > _MAX_EQUATIONS
            if has_small_body and count <= _MAX_EQUATIONS:
                thresholds.append(2 * size + _DEFAULT)
            else:
                sizes.append(size)
        small = max([small, *thresholds])
        large = min([large, *sizes] if large else sizes, default=0)
    return _LoopFacts(equations, is_small, small, large, has_long_body)


def _is_small(e: Eqn) -> bool:
    p = e.primitive
    if p.family not in _SMALL_FAMILIES:
        return False
    if p is prims.scan_p or p is prims.while_p:
        return True  # its body is examined
    if p in _SLICES:
        read: tuple[ShapedArray, ...] = tuple([v.aval for v in e.outvars])
    elif p in _UPDATES:
        read = (e.invars[-1 if p is not prims.dynamic_update_slice_p else 1].aval,)
    else:
        read = tuple([v.aval for v in (*e.invars, *e.outvars)])
    largest = max((a.size for a in read), default=0)
    if p is prims.dot_general_p and _count_multiplications(e) > _MAX_PRODUCT:
        return False
    return largest <= _MAX_ELEMENTS


def _count_multiplications(e: Eqn) -> int:
    (contracted, _), _ = e.params["dimension_numbers"]
    return e.outvars[0].aval.size * math.prod([e.invars[0].aval.shape[d] for d in contracted])


def _count_bytes(aval: ShapedArray) -> int:
    return aval.size * getattr(aval.dtype, "itemsize", 8)
