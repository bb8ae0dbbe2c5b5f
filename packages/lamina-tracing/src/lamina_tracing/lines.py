"""Which of the user's lines an equation comes from.

A user's op is found by looking through the frames for the nearest one outside of our folders. What a transformation
makes of it later (its transpose, its batched form, the same equation of a program that is run through another trace) is
bound where no such frame is near, so the line travels with the op: it stands in equations and in rows of linear
programs, and whoever runs one of these puts its source *in force*, in `now.source`, until the next. `now.source` is

- None while a user's code runs: lines are looked up;
- a `Source`: ops bound now are made of that op;
- `NOWHERE`: ops bound now belong to no line of their own: they are glue of a derived program (zeros, say), which may be
  shared by several calls. Their line is that of the equation whose program they stand in;
- a `Within`: a user's rule runs, and its lines are looked up; as part of a backward pass they are marked so.
"""
from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from lamina_ir import ClosedJaxpr, Source, aval_of, subprograms

from .trace import EVALUATION, now

__all__ = ["BatchedSource", "NOWHERE", "Within", "batch_position", "eager_lines", "forget_caller", "forget_source",
           "hide_frames_of", "is_own_file", "rule_lines", "source_of_function", "staged_by", "staged_source", "user_source",
           "warn_user"]

class Within:
    """In force while a user's own rule runs: its lines are looked up, as far as the frame that calls it.

    Args:
      part: the part of a derivative that the rule's lines are.
      source: the line of what we do around the rule.
      stop: the id of the calling frame.
    """

    __slots__ = ("part", "source", "stop")

    def __init__(self, part: str, source: Any, stop: int) -> None:
        self.part, self.source, self.stop = part, source, stop


def rule_lines(part: str = "") -> Within:
    """What to put in force around a user's rule, in the function that calls it.

    Args:
      part: the part of a derivative that the rule's lines are, as "transpose".
    Returns:
      A value for `now.source`: lines are looked up among the frames up to the caller's.

    >>> from lamina_tracing.extend import now
    >>> before, now.source = now.source, rule_lines("transpose")
    >>> now.source.part
    'transpose'
    >>> now.source = before
    """
    source = now.source
    if type(source) is Within:
        source = source.source
    return Within(part, NOWHERE if source is None else source, id(sys._getframe(1)))


class _Nowhere:
    def __repr__(self) -> str:
        return "NOWHERE"


NOWHERE = _Nowhere()
eager_lines: list[Any] = []  # not empty: ops that run at once are to keep their lines too, as debug_nans wants them
_own_folders: list[str] = []
_is_own: dict[str, bool] = {}
_callers: dict[int, tuple[Any, ...]] = {}  # id of the frame of a running `stage` -> what `_caller_of` found


_staging: Any = None  # the code object of `stage`, which cannot be imported here


def staged_by(code: Any) -> None:
    """Name the function whose frame ends the search for a line: what called it called for the whole program."""
    global _staging
    _staging = code


def hide_frames_of(folder: str) -> None:
    """Count files under a folder as ours: equations point at the nearest frame outside, and tracebacks leave ours out.

    Args:
      folder: its path, with a slash at the end.

    >>> hide_frames_of("/opt/our_rows/")
    >>> is_own_file("/opt/our_rows/tables.py")
    True
    """
    _own_folders.append(folder)
    _is_own.clear()


for _module in (__file__, aval_of.__code__.co_filename):
    hide_frames_of(_module.rsplit("/", 1)[0] + "/")


def is_own_file(name: str) -> bool:
    """Whether a file is ours, so that its frames are hidden."""
    own = _is_own.get(name)
    if own is None:
        own = _is_own[name] = name.startswith(tuple(_own_folders))
    return own


def user_source(depth: int = 1, known: dict[int, Source] | None = None) -> Source | None:
    """The line that an op bound now comes from.

    It is what is in force, else that of the nearest caller outside the folders named with `hide_frames_of`.

    Args:
      depth: where to begin to look: 1 for the caller, 2 for its caller.
      known: the sources of the program that is being written: ops of one line share one.
    Returns:
      The line; None where there is none.

    >>> user_source().line
    1
    """
    source = now.source
    if source is not None:
        return _in_force(source, depth + 1)
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        own = _is_own.get(code.co_filename)
        if not own and (own is not None or not is_own_file(code.co_filename)):
            lasti, scope = frame.f_lasti, now.scope
            if known is None:
                return Source(code, lasti, scope)
            key = id(code) + lasti  # no code object is hashed, which takes longer than all the rest
            found = known.get(key)
            if found is None or found.code is not code or found.scope != scope:
                found = known[key] = Source(code, lasti, scope)
            return found
        if code is _staging:
            caller = _caller_of(frame)
            return Source(caller[0], caller[1], now.scope) if caller else None
        frame = frame.f_back
    return None


def _in_force(source: Any, depth: int) -> Source | None:
    if type(source) is Within:
        frame: FrameType | None = sys._getframe(depth)
        while frame is not None and id(frame) != source.stop:
            if not is_own_file(frame.f_code.co_filename):
                return Source(frame.f_code, frame.f_lasti, now.scope, source.part)
            frame = frame.f_back
        source = source.source
    return None if source is NOWHERE else source


def staged_source(depth: int, always: bool = False) -> Any:
    """What a transformation puts in force while it handles one op: the op's line if somebody will want it.

    Looked up once, it serves all equations that the op becomes.

    Args:
      depth: where to begin to look: 1 for the caller, 2 for its caller.
      always: look also where nothing is staged. The lines of ops that run at once are wanted only when something fails.
    Returns:
      A value for `now.source`.

    >>> staged_source(1) is None  # nothing is staged here
    True
    """
    source = now.source
    if isinstance(source, Source):
        return source
    if now.trace is EVALUATION and not eager_lines and not always:
        return source
    return user_source(depth + 1, now.trace.sources) or NOWHERE


class BatchedSource(Source):
    """The line of an op that a batching trace handles, and where the op's result carries the batch.

    Only while NaNs are looked for: the report names the example they are in. `result` is filled in once the row has run,
    for all equations that were made of the op at once; for which of them it holds is decided where it is read.

    Args:
      code: the code object of the line.
      lasti: where in it.
      scope: the names around, as of `named_scope`.
      part: the part of a derivative.

    >>> from lamina_ir import prims
    >>> here = Source(hide_frames_of.__code__, 0)
    >>> BatchedSource.of(here, prims.sin_p, None).line == here.line
    True
    """

    __slots__ = ("prim", "axis", "result", "outer")

    def __init__(self, code: Any, lasti: int, scope: str = "", part: str = "") -> None:
        super().__init__(code, lasti, scope, part)
        self.prim: Any = None
        self.axis: Any = None  # of the mapped axis: size and name
        self.result: list[Any] = []  # shape of the result with the batch, and the batch's place in it, once known
        self.outer: BatchedSource | None = None  # of the op in the function that is mapped: it may be mapped there too

    @classmethod
    def of(cls, source: Source, prim: Any, axis: Any) -> BatchedSource:
        """The source of `prim`, an op in a function mapped over `axis`."""
        made = cls(source.code, source.lasti, source.scope, source.part)
        made.prim, made.axis = prim, axis
        made.outer = source if isinstance(source, BatchedSource) else None
        return made

    def like(self, scope: str, part: str) -> Source:
        made = BatchedSource(self.code, self.lasti, scope, part)
        made.prim, made.axis, made.result, made.outer = self.prim, self.axis, self.result, self.outer
        return made

    def dims(self, prim: Any, shape: tuple[int, ...]) -> list[tuple[int, Any]]:
        """(axis of a result of this shape, mapped axis), the outermost first; empty where it is not certain.

        Certain it is for the op itself, and between elementwise ops on arrays of one shape: they keep axes where they are.
        """
        if not self.result or shape != self.result[0]:
            return []
        if not (prim.elementwise and self.prim.elementwise) and (prim is not self.prim or self.part):
            return []
        dim = self.result[1]
        within = [] if self.outer is None else self.outer.dims(prim, shape[:dim] + shape[dim + 1:])
        return [(dim, self.axis), *[(d + (d >= dim), axis) for d, axis in within]]


def batch_position(source: Any, prim: Any, bad: Any) -> str:
    """Which example of a batch, for error reports.

    Args:
      source: the line in force where the op ran.
      prim: the op.
      bad: a truth value per element of its result.
    Returns:
      Words such as "at index 3 of axis 'i' of 8"; empty where it is not known.

    >>> batch_position(None, None, None)
    ''
    """
    if not isinstance(source, BatchedSource) or not bad.any():
        return ""
    dims = source.dims(prim, bad.shape)
    first = [int(places[0]) for places in bad.nonzero()]
    if not dims:
        return ""
    words = [f"index {first[d]} of " + ("the batch" if axis.name is None else f"axis {axis.name!r}") + f" of {axis.size}"
             for d, axis in dims]
    kept = tuple(d for d, _ in dims)
    more = int(bad.any(axis=tuple(i for i in range(bad.ndim) if i not in kept)).sum()) - 1
    return f"at {', '.join(words)}" + (f" (and in {more} more)" if more else "")


def source_of_function(fun: Callable[..., Any]) -> Source | None:
    """The line of a function's `def`: of what a transformation does around its call (the seed of a gradient, moved axes).

    Args:
      fun: the function; wrappers and partials are looked through.
    Returns:
      Its line; None where there is none, or it is ours.

    >>> def loss(x):
    ...     return x
    >>> source_of_function(loss).line
    1
    """
    inner: Any = fun
    for _ in range(8):
        inner = getattr(inner, "__wrapped__", None) or getattr(inner, "func", inner)
    code = getattr(inner, "__code__", None)
    return None if code is None or is_own_file(code.co_filename) else Source(code, -1, now.scope)


def _caller_of(frame: FrameType | None) -> tuple[Any, ...]:
    """`(code, lasti)` of the nearest outside caller of a running `stage`, empty where there is none.

    It stays the same while that call runs, so it is kept: with 500 programs nested in one another, each of their
    equations would look through the frames of all of them.
    """
    passed: list[int] = []
    caller: tuple[Any, ...] = ()
    while frame is not None:
        code = frame.f_code
        if not is_own_file(code.co_filename):
            caller = code, frame.f_lasti
            break
        if code is _staging:
            known = _callers.get(id(frame))
            if known is not None:
                caller = known
                break
            passed.append(id(frame))
        frame = frame.f_back
    _callers.update(dict.fromkeys(passed, caller))
    return caller


def forget_caller(frame: FrameType) -> None:
    """This `stage` is done."""
    _callers.pop(id(frame), None)


def forget_source(closed: ClosedJaxpr, source: Source | None) -> None:
    """Take this line out of a program's equations: it is that of the caller the program was staged for."""
    if source is None:
        return
    todo, seen = [closed], {closed}  # a list of its own, not Python's stack: programs nest in one another by the thousand
    for program in todo:
        for eqn in program.jaxpr.eqns:
            own = eqn.source
            if own is not None and own.code is source.code and own.lasti == source.lasti:
                eqn.source = None
            if eqn.primitive.subprograms:
                fresh = [inner for inner in subprograms(eqn) if inner not in seen]
                seen.update(fresh)
                todo += fresh


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning that shows the nearest caller's line outside of our folders.

    Args:
      text: the warning.
      category: its class.

    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     warn_user("the axis is short")
    >>> str(seen[0].message)
    'the axis is short'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and is_own_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
