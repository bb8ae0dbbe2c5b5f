"""Find what holds a leaked tracer, such as a global or an attribute, and the user's line that stored it there."""
from __future__ import annotations

import ast
import gc
import inspect
import linecache
import sys
from types import CellType, CodeType, FrameType, MappingProxyType, ModuleType
from typing import Any, NamedTuple

from lamina_ir import Primitive
from lamina_ir.typing import Function

from .._core.source_lines import is_library_file

__all__ = ["describe_creation", "describe_holder"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor, ast.withitem)
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.Compare)
_STORING = frozenset(("add", "append", "appendleft", "extend", "insert", "put", "setdefault", "update"))


def describe_holder(x: object, fun: Function | None) -> str:
    """Return what holds `x`, and where the code of `fun` stored it.

    Args:
      x: the leaked value.
      fun: the transformed function that it left, if known.
    Returns:
      Text such as "the global `KEPT` at model.py:12"; "" if unknown.

    >>> describe_holder(object(), None)
    ''
    """
    text, store = _find_holder(x, fun)
    return text if store is None else f"{text} at {fun.__code__.co_filename}:{store.node.lineno}"  # type: ignore[union-attr]


def describe_creation(x: object, primitive: Primitive | None, fun: Function | None) -> str:
    """Return which primitive made a leaked value, and where, if the code of `fun` shows it.

    An eager transformation records no lines, so the line is read from the source: that of the expression that `fun`
    stored, or of the only assignment to the variable that it stored.

    Args:
      x: the leaked value.
      primitive: the primitive that made it; None: it is an argument, or unknown.
      fun: the transformed function that it left, if known.
    Returns:
      Text such as "`sin` at model.py:12"; "`sin`" if the line is uncertain; "" without a primitive.

    >>> from lamina_ir import prims
    >>> describe_creation(object(), prims.sin_p, None)
    '`sin`'
    """
    if primitive is None:
        return ""
    store = _find_holder(x, fun)[1]
    made = None if store is None else _find_expression(store, x, fun)
    if store is None or made is None:
        return f"`{primitive.name}`"
    function = getattr(store.function, "name", "<lambda>")
    return f"`{primitive.name}` at {fun.__code__.co_filename}:{made.lineno} ({function})"  # type: ignore[union-attr]


def _find_holder(x: object, fun: Function | None) -> tuple[str, _Store | None]:
    """Return (text for what holds `x`, where the code of `fun` stored it); ("", None) if unknown.

    Of several holders, one that the code of `fun` stores into is returned.
    """
    code = getattr(fun, "__code__", None)
    first = ""
    for holder in gc.get_referrers(x):
        text, name = ("", "") if isinstance(holder, FrameType) else _name_holder(holder, x, fun)
        store = _find_store(code, name) if isinstance(code, CodeType) and text else None
        if store is not None:
            return text, store
        first = first or text
    return first, None


def _name_holder(holder: Any, x: object, fun: Any) -> tuple[str, str]:
    """Return (text for the holder, its name in the source); ("", "") if it has no name."""
    if isinstance(holder, CellType):
        for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or ()) if hasattr(fun, "__code__") else ():
            if cell is holder:
                return f"the variable `{name}` of an enclosing function", name
        return "", ""
    if isinstance(holder, dict):
        for module in list(sys.modules.values()):
            if isinstance(module, ModuleType) and module.__dict__ is holder:
                return _global(holder, x)
        for owner in gc.get_referrers(holder):
            if isinstance(owner, type) or getattr(owner, "__dict__", None) is holder:
                return _attribute(owner, x)
    elif not isinstance(holder, (list, tuple, set, frozenset)):
        return _attribute(holder, x)
    variables = getattr(fun, "__globals__", {})
    for name, value in list(variables.items()):
        if value is holder:
            return f"the global `{name}`", name
    if hasattr(fun, "__code__"):
        for name, cell in zip(fun.__code__.co_freevars, fun.__closure__ or ()):
            if _contents(cell) is holder:
                return f"the variable `{name}` of an enclosing function", name
    for owner in gc.get_referrers(holder):  # an attribute that is a container
        if not isinstance(owner, (FrameType, dict, list, tuple, set, CellType)):
            found = _attribute(owner, holder)
            if found[0]:
                return found
    return "", ""


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _global(variables: dict[str, Any], x: object) -> tuple[str, str]:
    name = next((name for name, value in list(variables.items()) if value is x), "")
    return (f"the global `{name}`", name) if name else ("", "")


def _attribute(owner: object, x: object) -> tuple[str, str]:
    attributes = getattr(owner, "__dict__", None)
    if not isinstance(attributes, (dict, MappingProxyType)) or isinstance(owner, ModuleType):
        return "", ""
    name = next((name for name, value in list(attributes.items()) if value is x), "")
    kind = f"class {owner.__name__}" if isinstance(owner, type) else f"an object of class {type(owner).__name__}"
    return (f"the attribute `{name}` of {kind}", name) if name else ("", "")


class _Store(NamedTuple):
    """A statement or call that stores a value, and the innermost function that contains it."""

    node: ast.expr | ast.stmt
    function: ast.AST


def _find_store(code: CodeType, name: str) -> _Store | None:
    """Return the only place in the file of `code` that stores a value under `name` in a function; None if ambiguous."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return None
    stores: dict[int, _Store] = {}  # by line; `ast.walk` visits outer functions first, so the innermost one remains
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS):
            for node in ast.walk(function):
                if isinstance(node, (ast.expr, ast.stmt)) and _stores(node, name):
                    stores[node.lineno] = _Store(node, function)
    first = code.co_firstlineno
    last = max([line for _, _, line in code.co_lines() if line is not None], default=first)
    own = [store for line, store in stores.items() if first <= line <= last] or list(stores.values())
    return own[0] if len(own) == 1 else None


def _find_expression(store: _Store, x: object, fun: Any) -> ast.expr | None:
    """Return the expression of the user's code that made the stored value `x`; None if it is uncertain."""
    node = store.node
    value = (node.args[-1] if node.args else None) if isinstance(node, ast.Call) else getattr(node, "value", None)
    if isinstance(value, ast.Name):
        assigned = [n for n in ast.walk(store.function) if isinstance(n, _ASSIGNMENTS) and _assigns(n, value.id)]
        only = assigned[0] if len(assigned) == 1 else None
        value = getattr(only, "value", None) if not isinstance(only, ast.AugAssign) else None
    if isinstance(value, ast.Call):
        return value if _calls_library(value.func, x, fun) else None
    return value if isinstance(value, _OPERATORS) else None


def _calls_library(callee: ast.expr, x: object, fun: Any) -> bool:
    """Return whether a call is certain to call a library function or a method of `x`, not a function of the user."""
    names = []
    while isinstance(callee, ast.Attribute):
        names.append(callee.attr)
        callee = callee.value
    if not isinstance(callee, ast.Name):
        return len(names) == 1 and hasattr(type(x), names[0])
    code, variables = fun.__code__, getattr(fun, "__globals__", {})
    cells = {n: _contents(cell) for n, cell in zip(code.co_freevars, fun.__closure__ or ())}
    function = cells.get(callee.id, variables.get(callee.id))
    if function is None or callee.id in code.co_varnames:
        return len(names) == 1 and hasattr(type(x), names[0])
    for name in reversed(names):
        function = getattr(function, name, None)
    own = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    return own is not None and is_library_file(own.co_filename)


def _assigns(node: ast.AST, name: str) -> bool:
    """Return whether a statement or expression gives a variable a value, also as one target of several."""
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return any(isinstance(n, ast.Name) and n.id == name for target in targets for n in ast.walk(target))


def _stores(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _STORING and _is_named(node.func.value, name)
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(_is_named(t.value if isinstance(t, ast.Subscript) else t, name) for t in targets)


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name or isinstance(node, ast.Attribute) and node.attr == name
