"""Find the user's line and the construct in it that an error is about, such as `if` or `math.sin`.

The source is parsed only when an error is raised. Calls without errors cost nothing.
"""
from __future__ import annotations

import ast
import dis
import linecache
import sys
import sysconfig
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from lamina_ir import Source

from .._core.source_lines import is_library_file

__all__ = ["Construct", "converts_array", "evaluate_name", "find_construct", "find_user_frame"]

_POSITION = ("lineno", "end_lineno", "col_offset", "end_col_offset")
_STDLIB = sysconfig.get_path("stdlib") + "/"
_DEPENDENCIES = tuple(f"/site-packages/{name}/" for name in ("numpy", "jaxlib", "ml_dtypes", "opt_einsum"))


class Construct(NamedTuple):
    """What the user's line did with a value.

    Attributes:
      kind: "if", "while", "conditional expression", "and", "or", "not", "assert", "in", "comparison", "comprehension",
        "for", "unpacking", "call", "index", "key", "operator", "format"; "" if unknown.
      text: text for messages, such as "`math.sin`"; "" if unknown.
      where: the line as text, such as "model.py:3 (loss)"; "" if there is no user frame.
      function: the called object of a "call", the indexed object of an "index"; None if unknown.
      frame: the user's frame.
      names: names of variables in the expression.
    """

    kind: str = ""
    text: str = ""
    where: str = ""
    function: Any = None
    frame: FrameType | None = None
    names: frozenset[str] = frozenset()


def find_user_frame() -> FrameType | None:
    """Return the nearest frame outside lamina, NumPy, jaxlib and the standard library; None if there is none.

    >>> find_user_frame().f_code.co_name
    '<module>'
    """
    first = None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not is_library_file(name):
            in_stdlib = name.startswith((_STDLIB, "<frozen")) and "-packages/" not in name
            if not in_stdlib and not any(part in name for part in _DEPENDENCIES):
                return frame
            first = first or frame
        frame = frame.f_back
    return first


def find_construct() -> Construct:
    """Return the construct in the user's line that is executed now.

    >>> find_construct().kind
    'call'
    """
    frame = find_user_frame()
    if frame is None:
        return Construct()
    where = str(Source(frame.f_code, frame.f_lasti))
    try:
        found = _find_node(frame)
        if found is None:
            return Construct(where=where, frame=frame)
        node, parents = found
        kind, text, function = _classify(node, parents, frame)
        names = frozenset([n.id for n in ast.walk(node) if isinstance(n, ast.Name)])
        return Construct(kind, text, where, function, frame, names)
    except (SyntaxError, ValueError, RecursionError):  # the file was changed, or is not Python
        return Construct(where=where, frame=frame)


def evaluate_name(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of a name or a dotted name in a frame; None for any other expression."""
    if isinstance(node, ast.Name):
        builtins = frame.f_builtins
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, builtins.get(node.id)))
    if isinstance(node, ast.Attribute):
        return getattr(evaluate_name(node.value, frame), node.attr, None)
    return None


_CONVERSIONS = (np.asarray, np.asanyarray, np.ascontiguousarray)  # np.array(x) passes copy=True to `__array__`


def converts_array(frame: FrameType) -> bool:
    """Return whether a frame calls `np.asarray` of something other than a list or tuple, or `__array__`.

    >>> converts_array(sys._getframe())
    False
    """
    try:
        function, argument = _find_call(frame.f_code, frame.f_lasti)
    except (SyntaxError, ValueError, RecursionError):
        return False
    if isinstance(function, ast.Attribute) and function.attr == "__array__":
        return True
    if function is None or argument is None or not any(evaluate_name(function, frame) is f for f in _CONVERSIONS):
        return False
    return not isinstance(argument, (ast.List, ast.ListComp, ast.Tuple)) and not isinstance(
        evaluate_name(argument, frame), (list, tuple))


@lru_cache(maxsize=256)
def _find_call(code: CodeType, instruction: int) -> tuple[ast.expr | None, ast.expr | None]:
    """Return the called function and the first argument of a call, as syntax; None if they are unknown."""
    found = _find_node_at(code, instruction, None)
    node = found[0] if found else None
    return (node.func, next(iter(node.args), None)) if isinstance(node, ast.Call) else (None, None)


def _find_node(frame: FrameType) -> tuple[ast.AST, dict[ast.AST, ast.AST]] | None:
    """Return the syntax node that `frame` executes, and the parent of each node; None without source."""
    return _find_node_at(frame.f_code, frame.f_lasti, frame.f_globals)


def _find_node_at(code: CodeType, instruction: int,
                  variables: dict[str, Any] | None) -> tuple[ast.AST, dict[ast.AST, ast.AST]] | None:
    positions = list(code.co_positions())
    if instruction < 0 or instruction // 2 >= len(positions):
        return None
    line, end_line, column, end_column = positions[instruction // 2]
    source = "".join(linecache.getlines(code.co_filename, variables))
    if line is None or not source:
        return None
    position = line, end_line, column, end_column
    found, parents = None, {}
    for node in ast.walk(ast.parse(source)):
        for child in ast.iter_child_nodes(node):
            parents[child] = node
        # `ast.walk` visits parents first: the last match is the innermost one
        if tuple([getattr(node, name, None) for name in _POSITION]) == position:
            found = node
    return None if found is None else (found, parents)


# Instructions that convert a value to a truth value. Others at the position of a condition compute it.
_TESTS = ("POP_JUMP", "JUMP_IF", "UNARY_NOT", "TO_BOOL", "CONTAINS_OP", "COMPARE_OP")
_CONDITIONS = {ast.If: ("if", "`if`"), ast.While: ("while", "`while`"), ast.Assert: ("assert", "`assert`"),
               ast.IfExp: ("conditional expression", "a conditional expression")}
_LOOPS = (ast.For, ast.AsyncFor, ast.comprehension, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _classify(node: ast.AST, parents: dict[ast.AST, ast.AST], frame: FrameType) -> tuple[str, str, Any]:
    """Return (kind, text, function) of a `Construct`."""
    instruction = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    parent = parents.get(node)
    if instruction.startswith(_TESTS):
        condition = _condition(node, parents)
        return (*condition, None) if condition is not None else ("", "", None)
    if instruction.startswith(("FORMAT", "BUILD_STRING")):
        return "format", "an f-string", None
    if instruction == "GET_ITER" and (isinstance(node, _LOOPS) or isinstance(parent, _LOOPS)):
        return "for", "`for`", None
    if instruction.startswith(("UNPACK", "LIST_EXTEND", "SET_UPDATE", "CALL_FUNCTION_EX")) and not isinstance(node, ast.Call):
        return "unpacking", "unpacking", None
    if isinstance(node, ast.Call):
        function = evaluate_name(node.func, frame)
        is_method = isinstance(node.func, ast.Attribute) and function is None
        # Of other expressions, such as `jit(f)(x)`, the called function is unknown.
        return ("call", f"`{ast.unparse(node.func)}`", function) if function is not None or is_method else ("", "", None)
    if isinstance(node, ast.Subscript):
        base = evaluate_name(node.value, frame)
        return ("key" if isinstance(base, dict) else "index"), f"`{_clip(node)}`", base
    if isinstance(node, (ast.Dict, ast.DictComp)):
        return "key", "a key of a dict", None
    if isinstance(node, (ast.Set, ast.SetComp)):
        return "key", "an element of a set", None
    if isinstance(node, ast.BinOp):
        is_text = isinstance(node.op, ast.Mod) and isinstance(node.left, (ast.Constant, ast.JoinedStr))
        return ("format" if is_text else "operator"), f"`{_clip(node)}`", None
    return "", "", None


def _condition(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> tuple[str, str] | None:
    """Return (kind, text) if `node` is, or is part of, a condition; None otherwise."""
    inner: tuple[str, str] | None = None
    # In Python 3.11 a condition that is a name has the position of the statement.
    if type(node) in _CONDITIONS:
        return _CONDITIONS[type(node)]
    if isinstance(node, _LOOPS):
        return "comprehension", "`if` in a comprehension"
    if isinstance(node, ast.Compare):
        if any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops):
            return "in", "`in`"
        if len(node.ops) > 1:
            inner = "comparison", f"the chained comparison `{_clip(node)}`"
    at = node
    while True:
        if isinstance(at, ast.BoolOp):
            inner = inner or (("and", "`and`") if isinstance(at.op, ast.And) else ("or", "`or`"))
        elif isinstance(at, ast.UnaryOp) and isinstance(at.op, ast.Not):
            inner = inner or ("not", "`not`")
        parent = parents.get(at)
        if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is at:
            return _CONDITIONS[type(parent)]
        if isinstance(parent, ast.comprehension) and at in parent.ifs:
            return "comprehension", "`if` in a comprehension"
        if isinstance(parent, ast.BoolOp) or isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            at = parent
            continue
        return inner


def _clip(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else text[:37] + "..."
