"""Distinguish `x += y` and `scalar * y` from `np.add(x, y, out=x)` and `np.multiply(scalar, y)`.

Only the first form may be answered by another array: `x += y` binds the name `x` to the result, while the caller of
`np.add(x, y, out=x)` reads `x` afterwards, which would silently keep its old value.

What it relies on: NumPy implements an operator of its arrays and scalars by the ufunc, without a Python frame between.
So the frame that calls `__array_ufunc__` is the user's, and its current instruction (`f_lasti`) is the operator or a
call. CPython 3.11 to 3.13 compile all binary and in-place operators to BINARY_OP and comparisons to COMPARE_OP;
`co_code` shows these also where the interpreter runs a specialized or instrumented form. Unary operators have no second
operand and never reach this test. If a later Python names the opcodes differently, every expression counts as a call:
`x += y` is then refused with an error, never computed wrongly. tests/test_operator_expressions.py checks all this.

What does not work instead:

- The arguments: `ndarray.__iadd__` passes the same ufunc, method, inputs and `out=(x,)` as the call does.
- `__array_ufunc__ = None`: operators then reach `__radd__`, but every NumPy function of the array raises TypeError.
- `__array_priority__`: NumPy ignores it for classes with `__array_ufunc__`.
- The text of the source line: it is not available for all code, and one line can hold both forms.
"""
from __future__ import annotations

from opcode import opmap
from types import FrameType

__all__ = ["is_operator_expression"]

_OPERATORS = frozenset([opmap[name] for name in ("BINARY_OP", "COMPARE_OP") if name in opmap])


def is_operator_expression(caller: FrameType) -> bool:
    """Return whether a frame executes an operator (`x + y`), not a call (`np.add(x, y)`).

    Args:
      caller: the frame that called `__array_ufunc__`.
    Returns:
      A bool.
    """
    return caller.f_code.co_code[caller.f_lasti] in _OPERATORS
