"""With `config.debug_key_reuse`: keys on devices know whether they have been used up.

Each key of an array is an object here, which arrays made by moving keys share. A call asks what its program does with keys
(`lamina_ir.extend.key_uses`), refuses one that was used before, and tells the keys of its results.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from lamina_ir import ClosedJaxpr, aval_of, config, dtypes
from lamina_ir.extend import Use, key_uses, refuse_reuse
from lamina_tracing.extend import user_source

from ._jaxlib import ArrayImpl
from .arrays import host_value
from .key_arrays import Key, KeyArray, known_keys

__all__ = ["Call", "entered", "opened"]

_on = config.debug_key_reuse
_MOST = 1 << 16  # elements of an argument that may be an index


def _value(x: Any) -> np.ndarray | None:
    """An argument that may be an index."""
    aval = aval_of(x)
    if aval.size > _MOST or not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        return None
    return np.asarray(host_value(x) if type(x) is ArrayImpl else x, aval.dtype)


def _use(pairs: Sequence[tuple[Key, Use]]) -> None:
    done: list[Key] = []
    for key, use in pairs:
        before = key.used
        if before is not None:
            for other in done:  # a call that is refused uses nothing up
                other.used = None
            raise refuse_reuse(before, use)
        key.used = use
        done.append(key)


def opened(x: Any, what: str) -> None:
    """The words of keys are wanted for this use."""
    if _on.value and type(x) is KeyArray:
        use = Use(what, user_source(2))
        distinct = {id(key): key for key in known_keys(x).ravel().tolist()}
        _use([(part, use) for key in distinct.values() for part in key.parts])


class Call:
    """A call of a program with keys, between its beginning and its end."""

    def __init__(self, closed: ClosedJaxpr, args: Sequence[Any], ours: bool) -> None:
        self.found = found = key_uses(closed, lambda: list(map(_value, args)))
        self.keys: dict[int, Key] = {}
        for ids, x in [*zip(found.ins, args), *[(ids, c) for c, ids in found.consts]]:
            if ids is not None:
                self.keys.update(zip(ids.ravel().tolist(), known_keys(x).ravel().tolist()))
        line = user_source(3)  # of a function of ours, and of ops without a line, the user's line is that of the call
        known = [(self.keys[i], Use(use.what, line) if ours or use.source is None else use)
                 for i, use in found.used.items() if i in self.keys]
        _use([(part, use) for key, use in known for part in key.parts])

    def ended(self, outs: Sequence[Any]) -> None:
        """Tell results which keys they hold."""
        for x, ids in zip(outs, self.found.outs, strict=True):
            if ids is not None:
                x.keys, seen = np.empty(ids.shape, object), dict[int, int]()
                for at in np.ndindex(ids.shape):
                    number = int(ids[at])
                    key = self.key(number)
                    if seen.setdefault(id(key), number) != number:  # one key that was given twice
                        key = Key(key.parts)
                    x.keys[at] = key

    def key(self, number: int) -> Key:
        key = self.keys.get(number)
        if key is None:
            parts = self.found.parts.get(number, ())
            key = self.keys[number] = Key(tuple([part for i in parts for part in self.key(i).parts]))
            key.used = self.found.used.get(number)
        return key


def entered(closed: ClosedJaxpr, args: Sequence[Any], ours: bool = False) -> Call | None:
    """A call of a program that has keys begins; None where reuse is not looked for."""
    return Call(closed, args, ours) if _on.value else None
