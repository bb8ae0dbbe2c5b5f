"""The docstrings of functions that tables make."""
from __future__ import annotations

__all__ = ["PAIR", "PAIR_RAISES", "docstring"]

PAIR = {"x, y": "number arrays that broadcast to each other."}
PAIR_RAISES = {"ShapeError": "`x` and `y` do not broadcast to each other.",
               "TypeError": "one of them is neither an array nor a number."}


def docstring(says: str, args: dict[str, str], returns: str, raises: dict[str, str], source: str, example: str,
              derivative: str = "") -> str:
    """A whole docstring; `args` and `raises` map each name to what is said of it."""
    def entries(of: dict[str, str]) -> str:
        return "\n".join(f"  {name}: {text}" for name, text in of.items())
    notes = f"Derivative: {derivative}\n" if derivative else ""
    return (f"{says}\n\nArgs:\n{entries(args)}\nReturns:\n  {returns}\nRaises:\n{entries(raises)}\n\n{notes}"
            f"Source: {source}\n\n{example}")
