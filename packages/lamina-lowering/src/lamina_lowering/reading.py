"""Contexts into which finished modules are read for a compiler, each for one at a time.

A compiler rewrites the module that it is given and adds types and dialects to its context, without the interpreter's lock: no
other thread may build, print or read in that context meanwhile, so it is none of those that modules are built in. Given bytes
instead, it makes a context for each and loads a dozen dialects into it, which takes as long as a fifth of a small program's
compilation; a context that is used again has them.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from . import _jaxlib

__all__ = ["read_apart"]

_T = TypeVar("_T")
_MOST_FREE = 4
_MODULES_PER_CONTEXT = 1000
_BYTES_PER_CONTEXT = 1 << 22


class _Reader:
    """A context, and how much was read into it: types, names and constants stay there."""

    def __init__(self) -> None:
        self.context = _jaxlib.new_context()
        self.shardy = False
        self.modules = self.bytes = 0

    def is_old(self) -> bool:
        return self.modules >= _MODULES_PER_CONTEXT or self.bytes >= _BYTES_PER_CONTEXT


_free: list[_Reader] = []  # in which nothing is read; the latest last


def read_apart(bytecode: bytes, shardy: bool, use: Callable[[Any], _T]) -> _T:
    """`use(module)` with a module read in a context that nobody else is in; it may rewrite the module, but not keep it.

    Args:
      bytecode: the module.
      shardy: whether it has operations of Shardy's.
      use: what to do with it, as to compile it.
    Returns:
      What `use` returned.
    """
    try:
        reader = _free.pop()
    except IndexError:
        reader = _Reader()
    if shardy and not reader.shardy:
        _jaxlib.add_shardy(reader.context)
        reader.shardy = True
    reader.modules += 1
    reader.bytes += len(bytecode)
    # The module goes with the call: not before it does is the context free. What an error's traceback holds keeps its context.
    found = use(_jaxlib.read_bytecode(bytecode, reader.context))
    if len(_free) < _MOST_FREE and not reader.is_old():
        _free.append(reader)
    return found
