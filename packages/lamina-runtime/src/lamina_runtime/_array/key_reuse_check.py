"""Check at run time that each PRNG key is consumed once, with `config.debug_key_reuse`.

Each key of a key array has a `KeyState` object. Arrays that are made by moving keys share these objects. A call
analyses how its program uses keys (`lamina_ir.extend.find_key_uses`), and raises an error for a key that was consumed
before. It sets the states of the keys among its results.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from lamina_ir import ClosedJaxpr, aval_of, config, dtypes
from lamina_ir.extend import KeyUse, find_key_uses, key_reuse_error
from lamina_tracing.extend import find_user_source
from lamina_ir.typing import Value

from .._jaxlib import ArrayImpl
from .arrays import host_value
from .key_array import KeyState, KeyArray, key_states

__all__ = ["CheckedCall", "begin_call", "use_key_data"]

_on = config.debug_key_reuse
_MAX_INDEX_SIZE = 1 << 16  # elements of an argument that may be an index


def _index_value(x: Value) -> np.ndarray | None:
    """Return the value of an argument that may be an index of keys; None for other arguments."""
    aval = aval_of(x)
    if aval.size > _MAX_INDEX_SIZE or not (dtypes.is_integer(aval.dtype) or dtypes.is_bool(aval.dtype)):
        return None
    return np.asarray(host_value(x) if type(x) is ArrayImpl else x, aval.dtype)


def _consume(uses: Sequence[tuple[KeyState, KeyUse]]) -> None:
    """Mark keys as consumed. If one was consumed before, mark none of them and raise KeyReuseError."""
    done: list[KeyState] = []
    for key, use in uses:
        earlier = key.consumed_by
        if earlier is not None:
            for other in done:
                other.consumed_by = None
            raise key_reuse_error(earlier, use)
        key.consumed_by = use
        done.append(key)


def use_key_data(x: Value, what: str) -> None:
    """Consume the keys of an array whose uint32 data is read; `what` describes the use in errors."""
    if _on.value and type(x) is KeyArray:
        use = KeyUse(what, find_user_source(2))
        # A broadcast key array has one state at several positions, which is consumed once.
        distinct = {id(key): key for key in key_states(x).ravel().tolist()}
        _consume([(candidate, use) for key in distinct.values() for candidate in key.candidates])


class CheckedCall:
    """One checked call of a program with keys. Its constructor consumes the keys among the arguments."""

    def __init__(self, closed: ClosedJaxpr, args: Sequence[Value], in_library: bool) -> None:
        self.uses = uses = find_key_uses(closed, lambda: list(map(_index_value, args)))
        self.states: dict[int, KeyState] = {}
        for ids, x in [*zip(uses.ins, args), *[(ids, c) for c, ids in uses.consts]]:
            if ids is not None:
                self.states.update(zip(ids.ravel().tolist(), key_states(x).ravel().tolist()))
        # For library functions, and for equations without a source line, report the line of the call.
        line = find_user_source(3)
        # Only keys that come from outside: uses within one program were checked when it was analysed.
        consumed = [(self.states[i], KeyUse(use.kind, line) if in_library or use.source is None else use)
                    for i, use in uses.used.items() if i in self.states]
        _consume([(candidate, use) for key, use in consumed for candidate in key.candidates])

    def finish(self, outs: Sequence[Value]) -> None:
        """Set the key states of the results."""
        for x, ids in zip(outs, self.uses.outs, strict=True):
            if ids is not None:
                x.states, seen = np.empty(ids.shape, object), dict[int, int]()
                for at in np.ndindex(ids.shape):
                    number = int(ids[at])
                    key = self.state(number)
                    if seen.setdefault(id(key), number) != number:  # one key that was passed twice
                        key = KeyState(key.candidates)
                    x.states[at] = key

    def state(self, number: int) -> KeyState:
        """Return the state of the key with this number in the analysis of the program."""
        key = self.states.get(number)
        if key is None:
            # A result that may be one of several keys, e.g. selected by an index, consumes all of them.
            parts = self.uses.candidates.get(number, ())
            key = self.states[number] = KeyState(tuple([c for i in parts for c in self.state(i).candidates]))
            key.consumed_by = self.uses.used.get(number)
        return key


def begin_call(closed: ClosedJaxpr, args: Sequence[Value], in_library: bool = False) -> CheckedCall | None:
    """Check a call of a program with keys before it runs. Return None if the check is off.

    `in_library` is True for library functions: errors then name the line of the call.
    """
    return CheckedCall(closed, args, in_library) if _on.value else None
