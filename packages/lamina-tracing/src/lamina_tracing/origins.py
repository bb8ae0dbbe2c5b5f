"""Where a traced value comes from, for errors about it: looked up in the program written so far, once one is raised."""
from __future__ import annotations

from typing import Any

from lamina_ir import config, trees

from . import tracer as _tracer
from .lines import is_own_file
from .parameters import function_name, parameter_names

__all__ = ["check_may_trace", "origin"]


def origin(tracer: Any) -> str:
    """Where a traced value comes from: the op and its line, and the arguments of the traced functions it depends on.

    A sentence with a space in front; empty where only an eager transformation stands around, which keeps no record.
    """
    try:
        while not hasattr(tracer, "_var"):  # a value of a transformation within the traced function
            tracer = tracer.primal if hasattr(tracer, "primal") else tracer.val
        made, found = _made_by(tracer), _depends(tracer, {})
    except AttributeError:
        return ""
    parts = []
    for function, names in found.items():
        words = [*names[:4], f"{len(names) - 4} more"] if len(names) > 4 else names
        parts.append(f"argument{'s' * (len(names) > 1)} {', '.join(words)} of {function}")
    said = [f"is the result of {made}"] * bool(made) + [f"depends on {' and on '.join(parts)}"] * bool(parts)
    return f" It {', and '.join(said)}." if said else ""


def _made_by(tracer: Any) -> str:
    for eqn in reversed(tracer._trace.eqns):
        if any(v is tracer._var for v in eqn.outvars):
            return f"`{eqn.primitive.name}`" + (f" at {eqn.source}" if eqn.source is not None else "")
    return ""


def _depends(tracer: Any, found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Function -> arguments that a value is computed from, for this function and those around it."""
    trace = tracer._trace
    needed = {tracer._var}
    for eqn in reversed(trace.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(eqn.invars)
    for i, a in enumerate(trace.arguments):
        if a._var in needed:
            function, name = _argument(trace, i)
            found.setdefault(function, []).append(name)
    for value, var in trace.consts.values():
        if var in needed and hasattr(value, "_trace"):
            while not hasattr(value, "_var"):
                value = value.primal if hasattr(value, "primal") else value.val
            _depends(value, found)
    return found


def _argument(trace: Any, i: int) -> tuple[str, str]:
    """(the traced function and its place, the argument's name)"""
    if trace.about is None:
        return "a traced function", str(i)
    call, fun, tree, static = trace.about
    return f"{_placed(fun)}, traced by {call}", _path(fun, tree, static, i)


def _innermost(fun: Any) -> Any:
    """The function that wrappers and partials are around."""
    for _ in range(8):
        fun = getattr(fun, "__wrapped__", None) or getattr(fun, "func", fun)
    return fun


def _placed(fun: Any) -> str:
    """A function's name, and where it stands."""
    fun = _innermost(fun)
    code = getattr(fun, "__code__", None)
    return f"`{function_name(fun)}`" + (f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else "")


def check_may_trace(call: str, fun: Any) -> None:
    """Refuse to trace a function of the user's while `config.no_tracing` is set.

    Args:
      call: what traces it, as "jit".
      fun: the function; one of our own rooms may be traced.
    Raises:
      RuntimeError: names the call, the function and its place.

    >>> check_may_trace("jit", abs)
    """
    code = getattr(_innermost(fun), "__code__", None)
    if config.no_tracing.value and not (code is not None and is_own_file(code.co_filename)):
        raise RuntimeError(f"{call} of {_placed(fun)}: config no_tracing is set, and this function was not traced before for "
                           "arguments of these types, static values and settings. Call it once before, or log why with config "
                           "explain_cache_misses")


def _path(fun: Any, tree: Any, static: Any, i: int) -> str:
    """The user's word for a flat argument: `x['w']`, by the parameter's name where there is one."""
    names = parameter_names(fun) or ()
    if tree is None:
        return str(i)
    path = trees.tree_flatten_with_path(trees.tree_unflatten(tree, list(range(tree.num_leaves))))[0][i][0]
    first = path[1]
    if path[0].idx == 1:
        return f"{first.key}{trees.keystr(path[2:])}"
    known = [n for k, n in enumerate(names) if k not in static]
    at = first.idx
    return (known[at] if at < len(known) else str(at)) + trees.keystr(path[2:])


_tracer.on_error.append(origin)
