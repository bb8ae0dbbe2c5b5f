"""Find the user's source line of an equation.

The line of a primitive that user code binds is that of the nearest stack frame outside the lamina packages. Equations
that a transformation derives from it (its transpose, its batched form, the same equation evaluated under another trace)
are bound later, where no such frame is near. So the line is stored in the equation, or in the instruction of a linear
program, and the code that runs it sets `trace_state.source` to that line until the next equation. This value is

- None while user code runs: look up the line in the stack;
- a `Source`: primitives bound now derive from the primitive at that line;
- `NOWHERE`: primitives bound now have no line of their own. They are auxiliary equations of a derived program, such as
  zeros, which several calls may share. They take the line of the equation that calls the program;
- a `UserRuleSource`: a user's custom rule runs; look up its lines, and mark them with the part of the derivative.
"""
from __future__ import annotations

import sys
import warnings
from types import CodeType, FrameType
from typing import Any

import numpy as np
from typing_extensions import override
from lamina_ir import ClosedJaxpr, Primitive, Source, subprograms
from lamina_ir.typing import Function

from .trace import EVALUATION, trace_state
from .._typing import MappedAxis, SourceState

__all__ = ["BatchedSource", "NOWHERE", "RuleSource", "UserRuleSource", "clear_source", "describe_batch_position",
           "drop_cached_caller", "eager_source_requests", "find_user_source", "get_equation_source",
           "get_function_source", "hide_frames_of", "is_library_file", "make_rule_source", "set_staging_code",
           "warn_user"]

CodePosition = tuple[CodeType, int]  # a code object and a bytecode offset in it


class UserRuleSource:
    """Value of `trace_state.source` while a user's custom rule runs: look up lines in frames below the rule's caller.

    Args:
      part: the part of the derivative that the rule computes.
      source: the line of equations that the library binds around the rule.
      stop: the id of the calling frame, where the lookup ends.
    """

    __slots__ = ("part", "source", "stop")

    def __init__(self, part: str, source: SourceState, stop: int) -> None:
        self.part, self.source, self.stop = part, source, stop


def make_rule_source(part: str = "") -> UserRuleSource:
    """Make the `trace_state.source` to set while calling a user's rule. Call it in the function that calls the rule.

    Args:
      part: the part of the derivative that the rule computes, such as "transpose".
    Returns:
      A value for `trace_state.source`: lines are looked up in the frames below the caller's.

    >>> from lamina_tracing.extend import trace_state
    >>> before, trace_state.source = trace_state.source, make_rule_source("transpose")
    >>> trace_state.source.part
    'transpose'
    >>> trace_state.source = before
    """
    source = trace_state.source
    if type(source) is UserRuleSource:
        source = source.source
    return UserRuleSource(part, NOWHERE if source is None else source, id(sys._getframe(1)))


class RuleSource(Source):
    """The line of an equation in a user's rule for a part of a derivative.

    Args:
      code: the code object of the line.
      lasti: the bytecode offset in it.
      scope: the enclosing names, as for `named_scope`.
      part: the part of the derivative.

    >>> RuleSource.from_line("model.py", 12, "backward_rule", part="backward").in_scope("encoder").scope
    'encoder'
    """

    __slots__ = ()

    @override
    def replace(self, scope: str, part: str) -> Source:
        return (RuleSource if part == self.part else Source)(self.code, self.lasti, scope, part)


class _Nowhere:
    @override
    def __repr__(self) -> str:
        return "NOWHERE"


NOWHERE = _Nowhere()
# Not empty: eagerly evaluated primitives need their lines too, for example for debug_nans.
eager_source_requests: list[object] = []
_library_folders: list[str] = []
_is_library: dict[str, bool] = {}  # file name -> whether it is in a library folder
_callers: dict[int, CodePosition | tuple[()]] = {}  # id of the frame of a running `stage` -> result of `_find_caller`


_staging: CodeType | None = None  # the code object of `stage`; importing it here would be a cycle


def set_staging_code(code: CodeType) -> None:
    """Set the code object whose frame ends the search for a line: its caller is the caller of the whole program."""
    global _staging
    _staging = code


def hide_frames_of(folder: str) -> None:
    """Treat files under a folder as library code: source lines and tracebacks skip their frames.

    Args:
      folder: its path, with a slash at the end.

    >>> hide_frames_of("/opt/our_rows/")
    >>> is_library_file("/opt/our_rows/tables.py")
    True
    """
    _library_folders.append(folder)
    _is_library.clear()


for _package in (__name__.partition(".")[0], "lamina_ir"):
    hide_frames_of((sys.modules[_package].__file__ or "").rsplit("/", 1)[0] + "/")


def is_library_file(name: str) -> bool:
    """Return whether a file belongs to the library, so that its frames are hidden."""
    own = _is_library.get(name)
    if own is None:
        own = _is_library[name] = name.startswith(tuple(_library_folders))
    return own


def find_user_source(depth: int = 1, known: dict[int, Source] | None = None) -> Source | None:
    """Find the source line of a primitive that is bound now.

    It is `trace_state.source` if set, else the line of the nearest caller outside the folders given to
    `hide_frames_of`.

    Args:
      depth: the frame to start at: 1 for the caller, 2 for its caller.
      known: the sources of the program being written. Primitives of one line share a `Source`.
    Returns:
      The line; None if there is none.

    >>> find_user_source().line
    1
    """
    source = trace_state.source
    if source is not None:
        return _resolve_source(source, depth + 1)
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        code = frame.f_code
        own = _is_library.get(code.co_filename)
        # `is_library_file`, inlined for known files: this loop runs for every equation that is staged.
        if not own and (own is not None or not is_library_file(code.co_filename)):
            lasti, scope = frame.f_lasti, trace_state.scope
            if known is None:
                return Source(code, lasti, scope)
            key = id(code) + lasti  # not (code, lasti): hashing a code object takes longer than everything else here
            found = known.get(key)
            # The key is not unique, so compare. A collision only costs another `Source`.
            if found is None or found.code is not code or found.scope != scope:
                found = known[key] = Source(code, lasti, scope)
            return found
        if code is _staging:
            caller = _find_caller(frame)
            return Source(caller[0], caller[1], trace_state.scope) if caller else None
        frame = frame.f_back
    return None


def _resolve_source(source: SourceState, depth: int) -> Source | None:
    """Return the line for a value of `trace_state.source`; `depth` as in `find_user_source`."""
    if type(source) is UserRuleSource:
        frame: FrameType | None = sys._getframe(depth)
        # Stop at the caller of the rule: frames below it belong to the call of the function, not to the rule.
        while frame is not None and id(frame) != source.stop:
            if not is_library_file(frame.f_code.co_filename):
                kind = RuleSource if source.part else Source
                return kind(frame.f_code, frame.f_lasti, trace_state.scope, source.part)
            frame = frame.f_back
        source = source.source
    return None if source is NOWHERE else source


def get_equation_source(depth: int, always: bool = False) -> SourceState:
    """Return the `trace_state.source` that a transformation sets while it handles one primitive.

    The line is looked up once for all equations that the primitive becomes.

    Args:
      depth: the frame to start at: 1 for the caller, 2 for its caller.
      always: look up the line even if no program is staged. By default eager primitives skip the lookup, because their
        lines are needed only in errors.
    Returns:
      A value for `trace_state.source`.

    >>> get_equation_source(1) is None  # nothing is staged here
    True
    """
    source = trace_state.source
    if isinstance(source, Source):
        return source
    if trace_state.trace is EVALUATION and not eager_source_requests and not always:
        return source
    return find_user_source(depth + 1, trace_state.trace.sources) or NOWHERE


class BatchedSource(Source):
    """Source line of a primitive that a batching trace handles, with the batch axis of its result.

    Used only by the NaN checks, whose report names the example that holds the NaN. The batching trace sets `result`
    after the rule has run. All equations that the primitive became share this object; `dims` decides for which the
    result axis is valid.

    Args:
      code: the code object of the line.
      lasti: the bytecode offset in it.
      scope: the enclosing names, as for `named_scope`.
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
        self.axis: MappedAxis = None  # the mapped axis: has size and name
        self.result: list[Any] = []  # [shape of the batched result, its batch axis]; empty until the rule has run
        self.outer: BatchedSource | None = None  # source of the same primitive under the next outer map, if any

    @classmethod
    def of(cls, source: Source, prim: Primitive, axis: MappedAxis) -> BatchedSource:
        """Make the source of `prim`, a primitive in a function mapped over `axis`."""
        made = cls(source.code, source.lasti, source.scope, source.part)
        made.prim, made.axis = prim, axis
        made.outer = source if isinstance(source, BatchedSource) else None
        return made

    @override
    def replace(self, scope: str, part: str) -> Source:
        made = BatchedSource(self.code, self.lasti, scope, part)
        made.prim, made.axis, made.result, made.outer = self.prim, self.axis, self.result, self.outer
        return made

    def dims(self, prim: Primitive, shape: tuple[int, ...]) -> list[tuple[int, MappedAxis]]:
        """Return pairs (axis of a result of this shape, mapped axis), outermost first; [] if they are not certain.

        They are certain for the primitive itself, and for elementwise primitives derived from an elementwise one with
        the same shape, because these do not move axes.
        """
        if not self.result or shape != self.result[0]:
            return []
        # An elementwise primitive keeps the axes of its operands, so the axis is known also in a derived equation. Any
        # other one may have moved it.
        if not (prim.elementwise and self.prim.elementwise) and (prim is not self.prim or self.part):
            return []
        dim = self.result[1]
        outer_dims = [] if self.outer is None else self.outer.dims(prim, shape[:dim] + shape[dim + 1:])
        return [(dim, self.axis), *[(d + (d >= dim), axis) for d, axis in outer_dims]]


def describe_batch_position(source: SourceState, prim: Primitive, bad: np.ndarray) -> str:
    """Describe which example of a batch is bad, for error reports.

    Args:
      source: the `trace_state.source` with which the primitive ran.
      prim: the primitive.
      bad: bool array with the shape of its result: True for bad elements.
    Returns:
      Text such as "at index 3 of axis 'i' of 8"; empty if unknown.

    >>> describe_batch_position(None, None, None)
    ''
    """
    if not isinstance(source, BatchedSource) or not bad.any():
        return ""
    dims = source.dims(prim, bad.shape)
    first = [int(indices[0]) for indices in bad.nonzero()]
    if not dims:
        return ""
    texts = [f"index {first[d]} of " + ("the batch" if axis.name is None else f"axis {axis.name!r}") + f" of {axis.size}"
             for d, axis in dims]
    batch_dims = tuple(d for d, _ in dims)
    more = int(bad.any(axis=tuple(i for i in range(bad.ndim) if i not in batch_dims)).sum()) - 1
    return f"at {', '.join(texts)}" + (f" (and in {more} more)" if more else "")


def get_function_source(fun: Function) -> Source | None:
    """Return the line of a function's `def`, for equations that a transformation adds around its call.

    Examples are the seed of a gradient, and moved axes.

    Args:
      fun: the function; wrappers and partials are unwrapped.
    Returns:
      Its line; None if it has none, or if it is a library function.

    >>> def loss(x):
    ...     return x
    >>> get_function_source(loss).line
    1
    """
    inner: Function | None = fun
    # Bounded, since `__wrapped__` can form a cycle.
    for _ in range(8):
        inner = getattr(inner, "__wrapped__", None) or getattr(inner, "func", inner)
    code = getattr(inner, "__code__", None)
    return None if code is None or is_library_file(code.co_filename) else Source(code, -1, trace_state.scope)


def _find_caller(frame: FrameType | None) -> CodePosition | tuple[()]:
    """Return `(code, lasti)` of the nearest user frame that called a running `stage`; empty if there is none.

    The result cannot change while that call runs, so it is cached. Without the cache, each equation of 500 nested
    programs would search the frames of all of them.
    """
    stage_frames: list[int] = []
    caller: CodePosition | tuple[()] = ()
    while frame is not None:
        code = frame.f_code
        if not is_library_file(code.co_filename):
            caller = code, frame.f_lasti
            break
        if code is _staging:
            known = _callers.get(id(frame))
            if known is not None:
                caller = known
                break
            stage_frames.append(id(frame))
        frame = frame.f_back
    # All `stage` frames on the way have the same caller. In nested staging each level then stops at the next one,
    # instead of walking the whole stack for every equation.
    _callers.update(dict.fromkeys(stage_frames, caller))
    return caller


def drop_cached_caller(frame: FrameType) -> None:
    """Remove the cached caller of a `stage` that has returned: its frame id may be reused."""
    _callers.pop(id(frame), None)


def clear_source(closed: ClosedJaxpr, source: Source | None) -> None:
    """Remove `source`, the line of the first caller, from all equations of a program, nested programs included."""
    if source is None:
        return
    todo, seen = [closed], {closed}  # an explicit stack, because programs can nest thousands of levels deep
    for program in todo:
        for eqn in program.jaxpr.eqns:
            own = eqn.source
            if own is not None and own.code is source.code and own.lasti == source.lasti:
                eqn.source = None
            if eqn.primitive.subprograms:
                unseen = [inner for inner in subprograms(eqn) if inner not in seen]
                seen.update(unseen)
                todo += unseen


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the nearest caller outside the library folders.

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
    while frame.f_back is not None and is_library_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
