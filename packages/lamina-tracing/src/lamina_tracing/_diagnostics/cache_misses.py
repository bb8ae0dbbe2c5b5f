"""Log why a function is traced or compiled again, and how long that took.

The settings are `config.explain_cache_misses` and `config.log_compiles`. Messages go to the logger `lamina` as
warnings, so they appear without logging configuration.
"""
from __future__ import annotations

import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple

from lamina_ir import Source, config, trees
from lamina_ir.extend import explain_mismatch
from lamina_ir.trees import PyTreeDef
from lamina_ir.typing import CacheKey, Function

from .._core.args import argument_path
from .._core.source_lines import find_user_source

__all__ = ["Staging", "explain_cache_miss", "log_cache_miss", "log_staging_time", "logger", "staging_watchers",
           "watching_staging"]

logger = logging.getLogger("lamina")
# Code object -> the function with it that was last traced: detects functions that are created anew for every call.
_last_function: weakref.WeakKeyDictionary[CodeType, weakref.ref[Function]] = weakref.WeakKeyDictionary()


class Staging(NamedTuple):
    """One staging of a function.

    Attributes:
      call, name: the transformation and the function, as in `jit of f`.
      fun: the function.
      tree: the structure of its (args, kwargs).
      reasons: why no cached program was found.
      source: the user's line of the call; None if unknown.
      seconds: how long it took.

    >>> from lamina_tracing import jit
    >>> found = []
    >>> with watching_staging(found.append):
    ...     y = jit(lambda x: x - 1)(2.0)
    >>> found[0].call, found[0].tree.num_leaves
    ('jit', 1)
    """

    call: str
    name: str
    fun: Function
    tree: PyTreeDef
    reasons: tuple[str, ...]
    source: Source | None
    seconds: float


staging_watchers: list[Callable[[Staging], object]] = []


@contextmanager
def watching_staging(watcher: Callable[[Staging], object]) -> Iterator[None]:
    """Context in which a function is called after each staging of a function, in all threads.

    Args:
      watcher: called with a `Staging`.

    >>> from lamina_tracing import jit
    >>> with watching_staging(lambda staging: print(staging.name, *staging.reasons)):
    ...     y = jit(lambda x: x + 1)(2.0)
    <lambda> first call of this function
    """
    staging_watchers.append(watcher)
    try:
        yield
    finally:
        staging_watchers.remove(watcher)


def log_cache_miss(call: str, name: str, reasons: Sequence[str]) -> None:
    """Log the reasons of a cache miss, with the user's source line.

    Args:
      call, name: the transformation and the function, as in `jit of f`.
      reasons: the reasons, at least one.

    >>> log_cache_miss("jit", "f", ["args[0] changed from float32[2] to float32[3]"])
    """
    where = find_user_source(2)
    at = f" at {where.file}:{where.line}" if where is not None else ""
    logger.warning("%s of `%s`%s: cache miss: %s", call, name, at, "; ".join(reasons))


def explain_cache_miss(fun: Function, key: tuple[CacheKey, ...], known: Iterable[tuple[CacheKey, ...]]) -> list[str]:
    """Return how a signature differs from the most similar cached one.

    Args:
      fun: the function.
      key: the signature, see `SignatureCache`.
      known: the keys of the cached programs.

    >>> from lamina_tracing import jit
    >>> with config.explain_cache_misses(True):
    ...     jit(lambda x: x + 1)(2.0)  # logs "jit of `<lambda>`: cache miss: first call of this function"
    Array(3., dtype=float32, weak_type=True)
    """
    nearest = min((_differences(old, key) for old in reversed(list(known))), default=None,
                  key=lambda found: (len(found), " ".join(found).count(" changed "), -" ".join(found).count("[")))
    reasons = None if nearest is None else [text for text in nearest if text]
    code: Any = getattr(fun, "__code__", None)
    if reasons is None:
        other = _last_function.get(code) if code is not None else None
        if other is not None and other() is not fun:
            reasons = [f"new function object: another one made at {code.co_filename}:{code.co_firstlineno} was staged "
                       "before, and programs are cached per object. Make the function once, outside of the loop or "
                       "function that calls it"]
        else:
            reasons = ["first call of this function"]
    if code is not None:
        try:
            _last_function[code] = weakref.ref(fun)
        except TypeError:
            pass
    return reasons


def _differences(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[str]:
    """Return one text for each difference between two signatures. Empty texts only add distance, see below."""
    found = []
    if old[1] != new[1]:
        tree = trees.tree_unflatten(new[1], [0] * new[1].num_leaves)
        text = explain_mismatch(old[1], tree) or f"was {old[1]}, is {new[1]}"
        text = text.replace("at [0]", "at args", 1) if "at [0]" in text else text.replace("at [1]", "at kwargs", 1)
        found.append(f"the tree of (args, kwargs) changed: it {text}")
        found += [""] * 8  # a changed tree counts as more different than a few changed types
    else:
        for i, (a, b) in enumerate(zip(old[0], new[0])):
            if a != b:
                found.append(f"{argument_path(new[1], i)}: {_type_change(a, b)}")
    was, now = {w: (t, v) for w, t, v in old[2]}, {w: (t, v) for w, t, v in new[2]}
    for where in sorted(was.keys() | now.keys(), key=str):
        if was.get(where) != now.get(where):
            before, after = (repr(s[where][1]) if where in s else "missing" for s in (was, now))
            found.append(f"static argument {where!r} changed from {before:.80} to {after:.80}")
    if old[3] != new[3]:
        found.append(f"mapped axes in scope changed from {old[3]} to {new[3]}")
    if old[4] != new[4]:
        found.append(f"what the map reads from its surroundings changed from {old[4]!r:.200} to {new[4]!r:.200}")
    if old[5] != new[5]:
        had, has = config.keyed_values(old[5]), config.keyed_values(new[5])
        found += [f"config {n} changed from {had.get(n)!r} to {v!r}" if n in config.options else
                  "a rule table or a hook changed" for n, v in has.items() if had.get(n) != v]
    return found


def _type_change(a: Any, b: Any) -> str:
    parts = []
    if a.shape != b.shape:
        parts.append(f"shape changed from {a.shape} to {b.shape}")
    if a.dtype != b.dtype:
        parts.append(f"dtype changed from {a.dtype} to {b.dtype}")
    if a.weak_type != b.weak_type:
        parts.append(f"weak_type changed from {a.weak_type} to {b.weak_type} (a Python scalar is weakly typed)")
    return ", ".join(parts) + f" ({a.str_long()} before, {b.str_long()} now)"


@contextmanager
def log_staging_time(call: str, name: str) -> Iterator[None]:
    """Log how long the block took.

    Args:
      call, name: the transformation and the function, as in `jit of f`.

    >>> with log_staging_time("jit", "f"):  # logs "jit of `f`: staged in 0.0000 s"
    ...     pass
    """
    start = time.perf_counter()
    yield
    logger.warning("%s of `%s`: staged in %.4f s", call, name, time.perf_counter() - start)
