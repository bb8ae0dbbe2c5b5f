"""Cache calls of programs that span several processes.

jaxlib's C++ fast path cannot run these, because the processes compare their launches before each one. This cache finds
the program of a call by the tree, types and shardings of its arguments.
"""
from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from lamina_ir import config
from lamina_ir.typing import CacheKey, Tree, Value

from .._backend import client_state
from .._execute import piecewise
from .._jaxlib import ArrayImpl, PyTreeDef
from .._jaxlib.pytree_registry import REGISTRY

__all__ = ["CallCache"]

MAX_SIGNATURES = 8  # signatures cached for one function
_SCALARS = (float, bool)  # Python scalars whose aval does not depend on the value


class _Signature(NamedTuple):
    """A cached signature and its program."""

    tree: PyTreeDef
    key: tuple[CacheKey, ...]
    leaves: tuple[tuple[object, ...], ...]
    program: weakref.ref[piecewise.Program]  # a weak reference, because the executable cache evicts programs
    out_tree: PyTreeDef


class CallCache:
    """The cached signatures of one function, most recently used first.

    They are stored in the client state, because they refer to its devices.
    """

    __slots__ = ("__weakref__",)

    def forget(self) -> None:
        client_state.current.call_caches.pop(self, None)

    def find(self, args: Sequence[Tree],
             kwargs: dict[str, Tree]) -> tuple[piecewise.Program, list[Value], PyTreeDef] | None:
        """Return (program, flat arguments, result tree) of a call with a cached signature; None if not cached."""
        table = client_state.current.call_caches
        signatures = table.get(self)
        if signatures is None:
            return None
        flat, tree = REGISTRY.flatten((args, kwargs))
        key = config.cache_key()
        for signature in signatures:
            # Cheapest tests first. The key of the settings is mostly the same object.
            if (signature.key is key or signature.key == key) and signature.tree == tree and _match_leaves(
                    signature.leaves, flat):
                program = signature.program()
                # Evicted: the caller compiles again, which caches a new signature.
                if program is None:
                    break
                if signature is not signatures[0]:
                    table[self] = [signature, *[other for other in signatures if other is not signature]]
                return program, flat, signature.out_tree
        return None

    def note(self, args: Sequence[Tree], kwargs: dict[str, Tree], flat: Sequence[Value], program: piecewise.Program,
             out_tree: PyTreeDef) -> None:
        """Cache the program that ran a call.

        Calls are not cached if an argument is not an array or a float, or if a leaf was converted before the call.
        """
        given, tree = REGISTRY.flatten((args, kwargs))
        # A leaf that was converted, as a key, would have to be converted at each call, which this cache does not do.
        if type(out_tree) is not PyTreeDef or len(given) != len(flat) or any(x is not y for x, y in zip(given, flat)):
            return
        leaves: list[tuple[object, ...]] = []
        for x in flat:
            kind = type(x)
            if kind is ArrayImpl:
                leaves.append((kind, x.aval, x._sharding, x._committed))
            elif kind is np.ndarray:
                leaves.append((kind, x.dtype, x.shape))
            elif kind in _SCALARS:
                leaves.append((kind,))
            else:
                return
        entry = _Signature(tree, config.cache_key(), tuple(leaves), weakref.ref(program), out_tree)
        table = client_state.current.call_caches
        table[self] = [entry, *[s for s in table.get(self, ()) if s.program() is not None]][:MAX_SIGNATURES]


def _match_leaves(leaves: tuple[tuple[object, ...], ...], flat: list[Value]) -> bool:
    for x, expected in zip(flat, leaves):
        kind = expected[0]
        if type(x) is not kind:
            return False
        if kind is ArrayImpl:
            _, aval, sharding, committed = expected
            if x._sharding is not sharding and x._sharding != sharding or x.aval is not aval and x.aval != aval:
                return False
            # A deleted array must reach the checks of the slow path.
            if x._committed != committed or x.is_deleted():
                return False
        elif kind is np.ndarray and (x.dtype != expected[1] or x.shape != expected[2]):
            return False
    return True
