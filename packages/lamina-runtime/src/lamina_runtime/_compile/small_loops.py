"""Decide which loops of a program XLA compiles to one kernel.

XLA's CPU backend launches each operation of a loop's body on its own, at 50 to 500 ns each. It compiles a loop to one
kernel instead if the arrays that enter the loop take fewer bytes than a threshold (1 KB by default). The stacked operands
of a scan count in full, so hardly any scan is below it. Here the threshold is chosen per program by the work of one
iteration: the loop of a small body becomes one kernel, however many iterations it has.

Measured with jaxlib 0.10.2, time of one kernel / time of separate operations: scans of elementwise bodies of 16 to 4,096
elements 0.2 to 1.0, their gradients 0.3 to 0.5; RNN cells of 8 to 64 features 0.5 to 0.9; the gradient of 4,000 steps of
an ODE 0.15; sorts, scatters and calls of libraries about 1. The compile time is 0.4 to 0.8. Slower are large products
(1.3 with 256 x 256) and the compilation of bodies of about a thousand equations (3).
"""
from __future__ import annotations

import math

from lamina_ir import ClosedJaxpr, Eqn, ShapedArray, prims, walk
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


def loop_byte_threshold(closed: ClosedJaxpr) -> int:
    """Return the number of bytes below which XLA compiles a loop of the program to one kernel; 0: its default.

    Loops of large bodies are above it. If such a loop has smaller operands than a loop of a small body, the default stays.
    """
    return closed.memo("loop threshold", lambda: _threshold(closed))


def _threshold(closed: ClosedJaxpr) -> int:
    small = large = 0
    has_long_body = False
    for e in walk(closed):
        if e.primitive is not prims.scan_p and e.primitive is not prims.while_p:
            continue
        # XLA may add operands, such as constants that it moves out of the loop.
        size = sum(_count_bytes(v.aval) for v in (*e.invars, *e.outvars))
        body = [inner for name in e.primitive.subprograms for inner in walk(e.params[name])]
        has_long_body = has_long_body or len(body) > _MAX_EQUATIONS
        if len(body) <= _MAX_EQUATIONS and all(map(_is_small, body)):
            small = max(small, 2 * size + _DEFAULT)
        else:
            large = min(large or size, size)
    if small and not (large and small > large):
        return small
    return _DEFAULT if has_long_body else 0  # later versions of jaxlib have a larger default


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
