"""MLIR contexts into which finished modules are parsed for a compiler, each used by one thread at a time.

A compiler rewrites its module and adds types and dialects to the module's context, without the GIL. No other thread may
build, print or parse in that context meanwhile. So contexts in which modules are built are not used for this. Given
bytecode, the compiler would make a context for each module and load a dozen dialects into it. That takes a fifth of the
compile time of a small program. A reused context has these dialects already.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .. import _jaxlib
from .._typing import IrModule

__all__ = ["use_parsed_module"]

_T = TypeVar("_T")
_MAX_FREE = 4
_MODULES_PER_CONTEXT = 1000
_BYTES_PER_CONTEXT = 1 << 22


class _Reader:
    """A context and the amount of data parsed into it: types, names and constants stay in the context."""

    def __init__(self) -> None:
        self.context = _jaxlib.new_context()
        self.shardy = False
        self.modules = self.bytes = 0

    def is_old(self) -> bool:
        return self.modules >= _MODULES_PER_CONTEXT or self.bytes >= _BYTES_PER_CONTEXT


_free: list[_Reader] = []  # contexts not in use; the most recently used one is last


def use_parsed_module(bytecode: bytes, shardy: bool, use: Callable[[IrModule], _T]) -> _T:
    """Return `use(module)` for a module parsed in an unshared context. `use` may rewrite the module, but must not keep
    it.

    Args:
      bytecode: the module.
      shardy: whether it contains Shardy operations.
      use: the function to call, as a compiler.
    Returns:
      The result of `use`.
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
    # The module must be deleted before its context is reused: it exists only during the call. If `use` raises, the
    # context is not reused, because the traceback may hold the module.
    found = use(_jaxlib.read_bytecode(bytecode, reader.context))
    if len(_free) < _MAX_FREE and not reader.is_old():
        _free.append(reader)
    return found
