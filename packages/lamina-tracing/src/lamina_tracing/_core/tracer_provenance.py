"""Describe where a traced value comes from, for errors. The search in the equations runs only when one is raised."""
from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lamina_ir import config, trees
from lamina_ir.typing import Function, Value
from lamina_ir.trees import PyTreeDef

from . import tracer as _tracer
from .source_lines import is_library_file
from .signature import function_name, parameter_names
from .._typing import AnyTrace

__all__ = ["check_tracing_allowed", "describe_provenance"]


def describe_provenance(tracer: Value) -> str:
    """Describe a traced value: the primitive and line that made it, and the arguments that it depends on.

    Returns:
      A sentence with a leading space; empty if no function is being staged, as an eager transformation keeps no record.
    """
    try:
        while not hasattr(tracer, "_var"):  # a tracer of a transformation inside the staged function: unwrap it
            tracer = tracer.primal if hasattr(tracer, "primal") else tracer.val
        made, arguments_of = _describe_equation(tracer), _find_arguments(tracer, {})
    except AttributeError:
        return ""
    parts = []
    for function, names in arguments_of.items():
        shown = [*names[:4], f"{len(names) - 4} more"] if len(names) > 4 else names
        parts.append(f"argument{'s' * (len(names) > 1)} {', '.join(shown)} of {function}")
    clauses = [f"is the result of {made}"] * bool(made) + [f"depends on {' and on '.join(parts)}"] * bool(parts)
    return f" It {', and '.join(clauses)}." if clauses else ""


def _describe_equation(tracer: Value) -> str:
    for eqn in reversed(tracer._trace.eqns):
        if any(v is tracer._var for v in eqn.outvars):
            return f"`{eqn.primitive.name}`" + (f" at {eqn.source}" if eqn.source is not None else "")
    return ""


def _find_arguments(tracer: Value, found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Collect in `found` (function -> names) the arguments a value depends on, also those of enclosing functions."""
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
            _find_arguments(value, found)
    return found


def _argument(trace: AnyTrace, i: int) -> tuple[str, str]:
    """Return (text for the traced function and its line, name of its flat argument `i`)."""
    if trace.function_info is None:
        return "a traced function", str(i)
    call, fun, tree, static = trace.function_info
    return f"{_name_and_line(fun)}, traced by {call}", _path(fun, tree, static, i)


def _unwrap(fun: Any) -> Function:
    """Return the function inside wrappers and partials."""
    for _ in range(8):
        fun = getattr(fun, "__wrapped__", None) or getattr(fun, "func", fun)
    return fun


def _name_and_line(fun: Function) -> str:
    """Return a function's name, file and line as text."""
    fun = _unwrap(fun)
    code = getattr(fun, "__code__", None)
    return f"`{function_name(fun)}`" + (f" at {code.co_filename}:{code.co_firstlineno}" if code is not None else "")


def check_tracing_allowed(call: str, fun: Function) -> None:
    """Raise if `config.no_tracing` is set and `fun` is a user's function.

    Args:
      call: name of the transformation, such as "jit".
      fun: the function; library functions may be traced.
    Raises:
      RuntimeError: names the call, the function, its file and line.

    >>> check_tracing_allowed("jit", abs)
    """
    code = getattr(_unwrap(fun), "__code__", None)
    if config.no_tracing.value and not (code is not None and is_library_file(code.co_filename)):
        raise RuntimeError(f"{call} of {_name_and_line(fun)}: config no_tracing is set, and this function was not traced "
                           "before for arguments of these types, static values and settings. Call it once before, or log "
                           "why with config explain_cache_misses")


def _path(fun: Function, tree: PyTreeDef | None, static: Collection[int], i: int) -> str:
    """Return the path of a flat argument, such as `x['w']`, with the parameter's name if there is one."""
    names = parameter_names(fun) or ()
    if tree is None:
        return str(i)
    path = trees.tree_flatten_with_path(trees.tree_unflatten(tree, list(range(tree.num_leaves))))[0][i][0]
    first = path[1]
    if path[0].idx == 1:
        return f"{first.key}{trees.keystr(path[2:])}"
    dynamic = [n for k, n in enumerate(names) if k not in static]
    at = first.idx
    return (dynamic[at] if at < len(dynamic) else str(at)) + trees.keystr(path[2:])


_tracer.provenance_hooks.append(describe_provenance)
