"""Docstrings of elementwise functions: shared entries, and whole docstrings of functions that are made from tables."""
from __future__ import annotations

from lamina_ir.extend import docstring_entries

__all__ = ["ELEMENTWISE", "PAIR", "PAIRWISE", "PAIR_RAISES", "docstring"]

ELEMENTWISE = docstring_entries("""
    x: number or boolean array.
    same: Array of the shape and dtype of `x`.
    floats: Array of the shape and dtype of `x`; float32 for booleans and integers (float64 for 64-bit ones).
    never: Boolean array of the shape of `x`; False for booleans and integers.
    TypeError: `x` is neither an array nor a number.
    DTypeError: `x` holds complex numbers.
    """)
PAIRWISE = docstring_entries("""
    x1, x2: number arrays that broadcast to each other.
    x, y: real or boolean arrays that broadcast to each other.
    common: Array of the shape that the arguments broadcast to, in the dtype they promote to.
    floats: Array of the shape that the arguments broadcast to, in the dtype they promote to; float32 for booleans and
      integers (float64 for 64-bit ones).
    ints: Array of the shape that the arguments broadcast to, in the dtype they promote to; int32 for booleans.
    ShapeError: the arguments do not broadcast to each other.
    TypeError: an argument is neither an array nor a number.
    DTypeError: an argument holds complex numbers.
    """)

PAIR = {"x, y": "number arrays that broadcast to each other."}
PAIR_RAISES = {"ShapeError": "`x` and `y` do not broadcast to each other.",
               "TypeError": "one of them is neither an array nor a number."}


def docstring(says: str, args: dict[str, str], returns: str, raises: dict[str, str], source: str, example: str,
              derivative: str = "") -> str:
    """Return a whole docstring; `args` and `raises` map names to descriptions."""
    def entries(of: dict[str, str]) -> str:
        return "\n".join(f"  {name}: {text}" for name, text in of.items())
    notes = f"Derivative: {derivative}\n" if derivative else ""
    return (f"{says}\n\nArgs:\n{entries(args)}\nReturns:\n  {returns}\nRaises:\n{entries(raises)}\n\n{notes}"
            f"Source: {source}\n\n{example}")
