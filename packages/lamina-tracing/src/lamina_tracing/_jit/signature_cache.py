"""`SignatureCache`: the programs of one function, one per signature, and what is logged when one is traced."""
from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from lamina_ir import ClosedJaxpr, ShapedArray, config
from lamina_ir.typing import AxisName, CacheKey, Function, Value
from lamina_ir.trees import PyTreeDef

from .._core.function_cache import clear_tables, evict_if_changed
from .._core.source_lines import find_user_source
from .._core.staging import are_lasting
from .._core.trace import trace_state
from .._diagnostics import cache_misses
from .._typing import StaticKey

__all__ = ["SignatureCache", "StagedProgram", "clear_programs"]

_MAX_PROGRAMS = 1024  # per function; a full cache drops its oldest half
_explain, _log_compiles = config.explain_cache_misses, config.log_compiles
Avals = tuple[ShapedArray, ...]
# (argument types, their tree, static arguments, mapped axes in scope, surroundings, settings and rules)
Signature = tuple[Avals, PyTreeDef, StaticKey, tuple[tuple[AxisName, int], ...], CacheKey, tuple[Any, ...]]


_caches: set[weakref.ref[SignatureCache]] = set()  # those of all functions that were called


class StagedProgram(NamedTuple):
    """Staged program of one signature.

    Attributes:
      closed: the program. It takes the values in `outer`, then the flat arguments.
      outer: values of enclosing traces.
      out_tree: the structure of the result.

    >>> from lamina_tracing.extend import JitSpec
    >>> spec = JitSpec(lambda x: (x, x))
    >>> spec.trace(*spec.split((1.0,), {})).out_tree.num_leaves
    2
    """

    closed: ClosedJaxpr
    outer: list[Value]
    out_tree: PyTreeDef


Trace = Callable[[Avals, PyTreeDef, StaticKey], StagedProgram]


class SignatureCache:
    """The staged programs of one function by signature: everything that a program depends on besides the function.

    A signature is `(argument types, their tree, static arguments, mapped axes in scope, surroundings, settings and
    rules)`. `surroundings` is what else a map reads when it is called, such as the mesh in scope; None for `jit`.

    Args:
      call, name, fun: the transformation, the function's name and the function, for messages.
      function_key: the cache key of the function (`function_key(fun)`).
      programs: signature -> program. Several caches of one function may share it.

    >>> from lamina_tracing.extend import JitSpec
    >>> cache = JitSpec(lambda x: x).cache
    >>> program = StagedProgram(None, [], None)
    >>> cache.get_or_trace((), None, (), lambda *signature: program) is program, len(cache.programs)
    (True, 1)
    """

    __slots__ = ("call", "name", "fun", "function_key", "programs", "__weakref__")

    def __init__(self, call: str, name: str, fun: Function, function_key: Function,
                 programs: dict[Signature, StagedProgram]) -> None:
        self.call, self.name, self.fun = call, name, fun
        self.function_key = function_key
        self.programs = programs
        _caches.add(weakref.ref(self, _caches.discard))

    def get_or_trace(self, avals: Avals, tree: PyTreeDef, static: StaticKey, trace: Trace,
                     surroundings: CacheKey = None) -> StagedProgram:
        """Return the cached program of a signature, or the one that `trace(avals, tree, static)` returns.

        The latter is cached, unless it has values of an enclosing trace, or settings or rules changed while it was
        traced.
        """
        axes = tuple([(f.name, f.size) for f in trace_state.axes]) if trace_state.axes else ()
        signature = avals, tree, static, axes, surroundings, config.cache_key()
        found = self.programs.get(signature)
        if found is not None:
            return found
        evict_if_changed(self.function_key)  # the object of a bound method may have changed since it was jitted
        others = config.generation.changes_by_other_threads()
        is_explained = _explain.ever_enabled and _explain.value
        reasons: list[str] = []
        if is_explained or cache_misses.staging_watchers:
            reasons = cache_misses.explain_cache_miss(self.fun, signature, self.programs)
        if is_explained:
            cache_misses.log_cache_miss(self.call, self.name, reasons)
        if cache_misses.staging_watchers:
            start, where = time.perf_counter(), find_user_source(1)
            found = trace(avals, tree, static)
            staging = cache_misses.Staging(self.call, self.name, self.fun, tree, tuple(reasons), where,
                                           time.perf_counter() - start)
            for watcher in list(cache_misses.staging_watchers):
                watcher(staging)
        elif _log_compiles.ever_enabled and _log_compiles.value:
            with cache_misses.log_staging_time(self.call, self.name):
                found = trace(avals, tree, static)
        else:
            found = trace(avals, tree, static)
        if (not found.outer or are_lasting(found.outer)) and config.is_unchanged(signature[-1], others):
            if len(self.programs) >= _MAX_PROGRAMS:
                self._drop_oldest_half()
            self.programs[signature] = found
        return found

    def _drop_oldest_half(self) -> None:
        for old in list(self.programs)[:_MAX_PROGRAMS // 2]:
            self.programs.pop(old, None)  # another thread may have dropped it


def clear_programs() -> None:
    """Drop the staged programs of all functions: each is traced again at its next call.

    >>> clear_programs()
    """
    for reference in list(_caches):
        cache = reference()
        if cache is not None:
            cache.programs.clear()
    clear_tables()
