"""`docstring_entries` and `fill_docstring`: entries, sections, several names in one entry, missing names and docstrings."""
from __future__ import annotations

import inspect

import pytest
from lamina_ir.extend import docstring_entries, fill_docstring

ENTRIES = docstring_entries("""
    x, y: arrays that
      broadcast.
    axis: the axis to reduce: an int.
    result: an array of
      the other axes.
    ShapeError: no such axis.
    """)


def expand(text: str) -> str:
    def fun() -> None:
        pass
    fun.__doc__ = text
    assert fill_docstring(ENTRIES)(fun) is fun
    return inspect.cleandoc(fun.__doc__)


def test_entries_are_listed_under_each_name() -> None:
    assert ENTRIES["x"] == ENTRIES["y"] == "x, y: arrays that\n  broadcast."
    assert ENTRIES["axis"] == "axis: the axis to reduce: an int."


def test_sections_and_entries_are_expanded_at_their_indentation() -> None:
    assert expand("""Return a sum.

        Args:
          z: a number.
          {x, y, axis}
        Returns: {result}
        Raises: {ShapeError}

        >>> {1, 2}
        {1, 2}
        """) == """Return a sum.

Args:
  z: a number.
  x, y: arrays that
    broadcast.
  axis: the axis to reduce: an int.
Returns:
  an array of
  the other axes.
Raises:
  ShapeError: no such axis.

>>> {1, 2}
{1, 2}"""


def test_missing_entry_is_key_error() -> None:
    with pytest.raises(KeyError, match="keepdims"):
        expand("Return.\n\n    Args: {axis, keepdims}\n    ")


def test_function_without_docstring_is_unchanged() -> None:
    def fun() -> None:
        pass
    fun.__doc__ = None  # as with `python -OO`
    assert fill_docstring(ENTRIES)(fun) is fun and fun.__doc__ is None
