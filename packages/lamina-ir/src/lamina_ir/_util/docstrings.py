"""Docstrings of a family of functions: entries that several docstrings share are written once."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["docstring_entries", "fill_docstring"]

F = TypeVar("F", bound=Callable[..., Any])
_HEADINGS = ("", "Args:", "Raises:", "Returns:")


def docstring_entries(text: str) -> dict[str, str]:
    """Read the entries that the docstrings of a family of functions share, for `fill_docstring`.

    Args:
      text: the entries, each on a line of its own: `name: text`, or `name, name: text` for several parameters. Further
        lines of an entry are indented.
    Returns:
      name -> entry.

    >>> docstring_entries('''
    ...     x, y: arrays.
    ...     keepdims: whether the reduced axis stays.
    ...     ''')
    {'x': 'x, y: arrays.', 'y': 'x, y: arrays.', 'keepdims': 'keepdims: whether the reduced axis stays.'}
    """
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    found: list[str] = []
    for line in lines:
        line = line[indent:]
        if line.startswith(" "):
            found[-1] += "\n" + line
        elif line:
            found.append(line)
    return {name: entry for entry in found for name in entry.partition(":")[0].split(", ")}


def fill_docstring(entries: Mapping[str, str]) -> Callable[[F], F]:
    """Return a decorator that inserts shared entries into the docstring of a function.

    A line `{axis, keepdims}` becomes the entries of these names. `Args: {axis, keepdims}` and `Raises: {ShapeError}`
    become a section of entries. `Returns: {result}` becomes a section with the text of the entry, without its name.

    Args:
      entries: name -> entry, from `docstring_entries`.
    Returns:
      The decorator. It changes `__doc__` and returns the function itself. Without docstrings (`python -OO`) it does
      nothing.
    Raises:
      KeyError: from the decorator, if a name has no entry.

    >>> @fill_docstring(docstring_entries('''
    ...     axis: the axis to reduce.
    ...     result: an array without the axis.
    ...     '''))
    ... def total(x, axis):
    ...     '''Return the sum along an axis.
    ...
    ...     Args:
    ...       x: array.
    ...       {axis}
    ...     Returns: {result}
    ...     '''
    >>> import inspect
    >>> inspect.getdoc(total).splitlines()[2:]
    ['Args:', '  x: array.', '  axis: the axis to reduce.', 'Returns:', '  an array without the axis.']
    """
    def fill(fun: F) -> F:
        if fun.__doc__:
            fun.__doc__ = "\n".join([_expand(line, entries) if line.endswith("}") else line
                                     for line in fun.__doc__.split("\n")])
        return fun
    return fill


def _expand(line: str, entries: Mapping[str, str]) -> str:
    before, _, listed = line.partition("{")
    heading, names = before.strip(), listed[:-1].split(", ")
    if heading not in _HEADINGS or not all(name.isidentifier() for name in names):
        return line
    margin = before[:len(before) - len(before.lstrip())]
    inner = margin + "  " if heading else margin
    found = list(dict.fromkeys([entries[name] for name in names]))  # once, if it describes several names
    if heading == "Returns:":
        found = [entry.partition(": ")[2].replace("\n  ", "\n") for entry in found]
    lines = [inner + entry.replace("\n", "\n" + inner) for entry in found]
    return "\n".join([margin + heading, *lines] if heading else lines)
