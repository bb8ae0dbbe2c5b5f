"""Describe where a traced value comes from, for errors. The search in the equations runs only when one is raised."""
from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Collection
from typing import Any, NamedTuple

from lamina_ir import config, trees
from lamina_ir.typing import Function, Value
from lamina_ir.trees import PyTreeDef

from . import tracer as _tracer
from .source_lines import is_library_file
from .signature import function_name, parameter_names
from .._typing import AnyTrace

__all__ = ["Provenance", "check_tracing_allowed", "describe_provenance", "find_provenance",
           "find_transformed_function"]


class _Argument(NamedTuple):
    """An argument that a traced value depends on."""

    function: str  # text for the function, its line and the transformation
    call: str  # name of the transformation, such as "jit"
    name: str
    can_be_static: bool  # a scalar that is a whole argument, not part of a tree


class Provenance(NamedTuple):
    """Where a traced value comes from.

    Attributes:
      text: a sentence with a leading space; "" if unknown.
      call: the transformation to which the value is unknown, such as "jit"; "" if unknown.
      scalars: names of the arguments of that transformation on which the value depends, if they can be static.
      is_partial: whether it also depends on other arguments.
      function: the innermost transformed function, if known.
      left: text for that function, its line and its transformation.
    """

    text: str
    call: str = ""
    scalars: tuple[str, ...] = ()
    is_partial: bool = True
    function: Function | None = None
    left: str = ""


def describe_provenance(tracer: Value) -> str:
    """Describe a traced value: the primitive and line that made it, and the arguments that it depends on.

    Returns:
      A sentence with a leading space; empty if unknown.
    """
    return find_provenance(tracer).text


def find_provenance(tracer: Value, use: Any = None, made: str = "") -> Provenance:
    """Find the primitive and line that made a traced value, and the arguments that it depends on.

    A transformation that runs eagerly records no equations. Its values depend on the arguments that it transforms. If
    there are several, those that the expression uses are looked up in the user's code.

    Args:
      tracer: the value.
      use: the `Construct` that uses the value, if known.
      made: text for the primitive and line that made it, used if it is in no equation.
    """
    arguments: list[_Argument] = []
    blocking = ""
    try:
        x = tracer
        while isinstance(x, _tracer.Tracer) and not hasattr(x, "_var"):  # an eager transformation: unwrap it
            trace = x._trace
            arguments += _eager_arguments(x, use)
            if trace.function_info is not None and trace.verb != "differentiated":
                blocking = blocking or trace.function_info[0]
            x = x.underlying_value()
        if hasattr(x, "_var"):
            made = _describe_equation(x) or made
            staged = _find_arguments(x, [])
            arguments += staged
            if not blocking:
                blocking = next((a.call for a in reversed(staged)), "")
            elif staged:
                blocking = "?"  # two transformations need a change
    except AttributeError:  # a tracer of another library's transformation
        pass
    functions: dict[str, list[str]] = {}
    for a in arguments:
        if a.name not in functions.setdefault(a.function, []):
            functions[a.function].append(a.name)
    parts = []
    for described, names in functions.items():
        shown = [*names[:4], f"{len(names) - 4} more"] if len(names) > 4 else names
        parts.append(f"argument{'s' * (len(names) > 1)} {', '.join(shown)} of {described}")
    clauses = [f"is the result of {made}"] * bool(made) + [f"depends on {' and on '.join(parts)}"] * bool(parts)
    info = tracer._trace.function_info
    function = find_transformed_function(tracer)
    left = "" if info is None else f"{_name_and_line(info[1])}, {tracer._trace.verb} by {info[0]}"
    mine = [a for a in arguments if a.call == blocking]
    return Provenance(f" It {', and '.join(clauses)}." if clauses else "", blocking,
                      tuple(dict.fromkeys([a.name for a in mine if a.can_be_static])),
                      not all(a.can_be_static for a in mine), function, left)


def _eager_arguments(tracer: Value, use: Any) -> list[_Argument]:
    """Return the arguments of its eager transformation that a value depends on."""
    trace = tracer._trace
    if trace.function_info is None:
        return []
    call, fun = trace.function_info[:2]
    function = f"{_name_and_line(fun)}, {trace.verb} by {call}"
    numbers = trace.find_arguments(tracer) or trace.transformed_arguments
    names = list(dict.fromkeys([_argument(trace, i) for i in numbers]))
    if len(names) > 1:
        names = _used_names(fun, use, names)
    return [_Argument(function, call, name, _is_whole(name)) for name in names]


def _used_names(fun: Function, use: Any, names: list[str]) -> list[str]:
    """Return those of the arguments that reach the expression of `use`, by the assignments in the lines before it."""
    code = getattr(_unwrap(fun), "__code__", None)
    frame = getattr(use, "frame", None)
    if code is None or frame is None or frame.f_code is not code or not use.names:
        return names
    try:
        nodes = [n for n in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(code))))]
    except (OSError, SyntaxError):
        return names
    needed, before = set(use.names), 0
    last = frame.f_lineno - code.co_firstlineno + 1
    while len(needed) > before:
        before = len(needed)
        for n in nodes:
            if getattr(n, "lineno", last + 1) > last:
                continue
            value = getattr(n, "value", None) if isinstance(n, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) \
                else n.iter if isinstance(n, ast.For) else None
            if value is None:
                continue
            targets = n.targets if isinstance(n, ast.Assign) else [n.target]  # type: ignore[attr-defined]
            if needed & {m.id for t in targets for m in ast.walk(t) if isinstance(m, ast.Name)}:
                needed |= {m.id for m in ast.walk(value) if isinstance(m, ast.Name)}
    found = [name for name in names if re.split(r"[.\[]", name)[0] in needed]
    return found or names


def _describe_equation(tracer: Value) -> str:
    for eqn in reversed(tracer._trace.eqns):
        if any(v is tracer._var for v in eqn.outvars):
            return f"`{eqn.primitive.name}`" + (f" at {eqn.source}" if eqn.source is not None else "")
    return ""


def _find_arguments(tracer: Value, found: list[_Argument]) -> list[_Argument]:
    """Append to `found` the arguments a staged value depends on, also those of enclosing functions."""
    trace = tracer._trace
    needed = {tracer._var}
    for eqn in reversed(trace.eqns):
        if not needed.isdisjoint(eqn.outvars):
            needed.update(eqn.invars)
    for i, var in enumerate([a._var for a in trace.arguments] or trace.argument_vars):
        if var in needed:
            if trace.function_info is None:
                found.append(_Argument("a traced function", "", str(i), False))
                continue
            call, fun = trace.function_info[:2]
            name = _argument(trace, i)
            found.append(_Argument(f"{_name_and_line(fun)}, traced by {call}", call, name,
                                   _is_whole(name) and not var.aval.shape))
    for value, var in trace.consts.values():
        if var in needed and hasattr(value, "_trace"):
            while isinstance(value, _tracer.Tracer) and not hasattr(value, "_var"):
                value = value.underlying_value()
            if hasattr(value, "_var"):
                _find_arguments(value, found)
    return found


def _is_whole(name: str) -> bool:
    """Return whether an argument's name is that of a parameter, not the path of a leaf."""
    return name.isidentifier() or name.isdigit()


def _argument(trace: AnyTrace, i: int) -> str:
    """Return the name of flat argument `i` of the traced function."""
    if hasattr(trace, "argument_name"):
        return trace.argument_name(i)
    _, fun, tree, static = trace.function_info
    return _path(fun, tree, static, i)


def find_transformed_function(tracer: Value) -> Function | None:
    """Return the innermost transformed function in which a traced value was made, without wrappers; None if unknown."""
    info = tracer._trace.function_info
    return None if info is None else _unwrap(info[1])


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
