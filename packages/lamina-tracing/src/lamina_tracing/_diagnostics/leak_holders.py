"""Find what holds a leaked tracer, such as a global or an attribute, and the user's line that stored it there."""
from __future__ import annotations

import ast
import gc
import linecache
import sys
from types import CellType, CodeType, FrameType, MappingProxyType, ModuleType
from typing import Any

from lamina_ir.typing import Function

__all__ = ["describe_holder"]

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
    code = getattr(fun, "__code__", None)
    for holder in gc.get_referrers(x):
        if isinstance(holder, FrameType):
            continue
        text, name = _name_holder(holder, x, fun)
        if text:
            return text + (_find_store(code, name) if isinstance(code, CodeType) else "")
    return ""


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


def _find_store(code: CodeType, name: str) -> str:
    """Return the only line in the file of `code` that stores a value under `name` in a function, as " at file:line"."""
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):
        return ""
    functions = [n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))]
    lines: set[int] = {getattr(n, "lineno", 0) for function in functions for n in ast.walk(function) if _stores(n, name)}
    first = code.co_firstlineno
    last = max([line for _, _, line in code.co_lines() if line is not None], default=first)
    own = {line for line in lines if first <= line <= last} or lines
    return f" at {code.co_filename}:{own.pop()}" if len(own) == 1 else ""


def _stores(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _STORING and _is_named(node.func.value, name)
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(_is_named(t.value if isinstance(t, ast.Subscript) else t, name) for t in targets)


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name or isinstance(node, ast.Attribute) and node.attr == name
