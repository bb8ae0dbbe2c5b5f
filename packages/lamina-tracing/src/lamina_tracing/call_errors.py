"""Errors of a compiled call's arguments, in our words.

A compiled call flattens its arguments and looks the static ones up before any Python of ours runs, so the backend's own
message comes out of it, as a ValueError that names neither function nor argument. Where such an error passes an entry point,
or is printed because nothing catches it, what was called is read off the line that called it. Calls that work pay nothing
for this.
"""
from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, FunctionType, MappingProxyType, TracebackType
from typing import Any, TypeVar

from lamina_ir import ConcretizationError, KeyReuseError, LeakedTracerError, StaticArgumentError

from .arguments import unsorted_argument
from .lines import is_own_file

__all__ = ["TOLD_IN_NAME", "in_name", "in_the_name_of", "translated"]

F = TypeVar("F", bound=Callable[..., Any])
TOLD_IN_NAME = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError, AttributeError,
                BufferError)  # kinds that `in_name` changes

_UNSORTED = "Comparator raised exception while sorting pytree dictionary keys"
_FOREIGN = re.compile(r"Non-hashable static arguments.*?hash an object of type <class '([^']*)'>, (.*?)\. The error was:", re.S)


def translated(error: BaseException, call: str | None = None, args: Sequence[Any] = (),
               kwargs: dict[str, Any] | None = None, statics: Any = None) -> BaseException:
    """The error itself, or ours in the place of a backend's about a static argument or the keys of a dict.

    Args:
      error: what was raised.
      call: what was called, as "pmap of `f`"; None: it is read off the calling line.
      args, kwargs: its arguments, where `call` is known.
      statics: which of them are static, where that is known.
    Returns:
      An exception to raise.

    >>> translated(ValueError("something else"))
    ValueError('something else')
    """
    if type(error) is not ValueError or not error.args or not isinstance(error.args[0], str):
        return error
    if error.args[0].startswith(_UNSORTED):
        made = unsorted_argument(call, args, kwargs or {}) if call is not None else _unsorted(error)
        return error if made is None else made.with_traceback(error.__traceback__)
    found = _FOREIGN.match(error.args[0])
    if found is None:
        return error
    kind, text = found[1].rpartition(".")[2], found[2].split("\n")[0]
    if call is not None:
        alike = [k for k, a in [*enumerate(args), *(kwargs or {}).items()] if type(a).__name__ == kind
                 and (statics is None or k in statics.nums or k in statics.names)]
        callee, argument = call, "a static argument"
        if len(alike) == 1:
            argument = f"static argument {alike[0]!r}" if statics is None else f"static {statics.described(alike[0])}"
    else:
        at = _calling(error.__traceback__)
        node = None if at is None else _call_node(at)
        callee, argument = ("a compiled call", "a static argument") if node is None else _described(node, at.tb_frame, kind)
    if text.startswith("Traced<"):
        aval = re.search(r"\(([\w.]+\[[^\]]*\])", text)
        made = StaticArgumentError(
            f"{callee}: {argument} is a traced {aval[1] if aval else 'value'}; a size, an axis or a flag must be known while "
            "the function is traced. Make it static where it comes from (static_argnums, static_argnames)")
    else:
        made = ValueError(f"{callee}: {argument} must be hashable; got {kind}: {text:.60}. Use a tuple for a list, or make "
                          "the argument dynamic")
    return made.with_traceback(error.__traceback__)


def in_name(fun: F, name: str = "") -> F:
    """A public function of the house in whose name its errors are told, whichever inner function found them.

    Args:
      fun: the function.
      name: what it is called; "" for its own name.
    Returns:
      A function that does the same.

    >>> def inner(x): raise ValueError("inner: x must be positive; got -1")
    >>> def outer(x): return inner(x)
    >>> in_name(outer)(-1)
    Traceback (most recent call last):
    ValueError: outer: x must be positive; got -1
    """
    name = name or fun.__name__
    told, kinds = in_the_name_of, TOLD_IN_NAME

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return fun(*args, **kwargs)
        except kinds as error:
            told(name, error, fun, args, kwargs)
            raise

    # With the globals of `fun` it counts as a function of that module, for doctest say.
    made = FunctionType(run.__code__, getattr(fun, "__globals__", run.__globals__), closure=run.__closure__)
    return functools.update_wrapper(made, fun)  # type: ignore[return-value]


def in_the_name_of(name: str, error: BaseException, fun: Callable[..., Any], args: Sequence[Any] = (),
                   kwargs: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Change an error's text so that it begins with what was called.

    What comes out of a user's function, called by ours, stays as it is, and so do errors that are about values and not
    about this call.

    Args:
      name: what was called.
      error: what came out of it, one of `TOLD_IN_NAME`.
      fun: the function called.
      args, kwargs: what it was called with: among them an argument that could not be hashed is looked up.

    >>> def outer(x):
    ...     try:
    ...         return inner(x)
    ...     except TOLD_IN_NAME as error:
    ...         in_the_name_of("outer", error, outer)
    ...         raise
    >>> def inner(x): raise ValueError("inner: x must be positive; got -1")
    >>> outer(-1)
    Traceback (most recent call last):
    ValueError: outer: x must be positive; got -1
    """
    text = error.args[0] if error.args else None
    if (type(text) is not str or isinstance(error, _ABOUT_VALUES) or not _only_ours(error.__traceback__) or len(error.args) > 1
            or re.match(rf"[`\w.]*\b{re.escape(name)}\b", text) or _OF_ANOTHER.match(text) and not _OF_A_TWIN.match(text)):
        return
    own = getattr(inspect.unwrap(fun), "__code__", None)
    places = () if own is None else own.co_varnames
    foreign, inner = _FOREIGN.match(text), _OF_A_TWIN.match(text) or _INNER.match(text)
    if foreign is not None:
        text = _unhashable(foreign, [*zip(places, args), *kwargs.items()])
    elif inner is not None and inner[1] not in places:  # else it is an argument's name
        text = text[inner.end():]
    error.args = (f"{name}: {text}",)


def _unhashable(found: re.Match[str], given: Iterable[tuple[str, Any]]) -> str:
    """What a backend says of a static argument, in our words; the argument is looked up among those `given`."""
    kind = found[1].rpartition(".")[2]
    alike = [n for n, x in given if type(x).__name__ == kind]
    return (f"{alike[0] if len(alike) == 1 else 'a setting'} must be known and hashable, as a number, a name or a sequence of "
            f"them; got {kind}: {found[2]:.60}")


_ABOUT_VALUES = (ConcretizationError, KeyReuseError, LeakedTracerError)
_INNER = re.compile(r"([a-z_][\w.]*): ")
_OF_A_TWIN = re.compile(r"()jit of `\w+`: static argument ")  # a part of `fun` that is jitted
_OF_ANOTHER = re.compile(r"[\w ]+ of `|Comparator")


def _only_ours(tb: TracebackType | None) -> bool:
    """Whether every function between a call of ours and its error is ours, or NumPy's or the backend's."""
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not is_own_file(file) and not _BELOW.search(file):
            return False
        tb = tb.tb_next
    return True


_BELOW = re.compile(r"[/\\](numpy|jaxlib|ml_dtypes|opt_einsum)[/\\]|^<")


def _unsorted(error: BaseException) -> BaseException:
    """The error about a dict's keys, as well as the calling line says it."""
    at = _calling(error.__traceback__)
    node = None if at is None else _call_node(at)
    callee = "a compiled call"
    if at is not None and node is not None:
        callee = _callee(node, at.tb_frame)[0]
        args: list[Any] = []
        for a in node.args:
            found = _value(a.value if isinstance(a, ast.Starred) else a, at.tb_frame)
            args += (found if isinstance(found, (tuple, list)) else ()) if isinstance(a, ast.Starred) else [found]
        kwargs = {k.arg: _value(k.value, at.tb_frame) for k in node.keywords if k.arg}
        for k in node.keywords:
            found = None if k.arg else _value(k.value, at.tb_frame)
            kwargs.update(found if isinstance(found, dict) else {})
        made = unsorted_argument(callee, args, kwargs)
        if made is not None:
            return made
    return TypeError(f"{callee}: a dict among the arguments is ordered by its keys, so they must sort against each other "
                     f"({error.__cause__}). Use keys of one type")


def _calling(tb: TracebackType | None) -> Any:
    """The innermost entry of the user's code."""
    found = None
    while tb is not None:
        if not is_own_file(tb.tb_frame.f_code.co_filename):
            found = tb
        tb = tb.tb_next
    return found


def _call_node(at: TracebackType) -> ast.Call | None:
    """The call that an entry of a traceback stands at, parsed from its source; None where there is none to be had."""
    positions = list(at.tb_frame.f_code.co_positions())
    line, last, start, end = positions[at.tb_lasti // 2] if at.tb_lasti >= 0 else (None,) * 4
    if line is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(at.tb_frame.f_code.co_filename, n).encode() for n in range(line, last + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        node = ast.parse(b"".join(lines).decode().strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return node if isinstance(node, ast.Call) else None


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What a name, a dotted name, a literal, or a dict, tuple or list of these stands for; None for anything else, which is
    not run again."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr, None)
    if isinstance(node, (ast.Tuple, ast.List)):
        return [_value(n, frame) for n in node.elts]
    if isinstance(node, ast.Dict):
        return {_value(k, frame): _value(v, frame) for k, v in zip(node.keys, node.values)
                if isinstance(k, (ast.Name, ast.Attribute, ast.Constant))}
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _callee(node: ast.Call, frame: FrameType) -> tuple[str, Any]:
    """(the call in the words of other errors, which of its arguments are static: None if that is not known)."""
    spec: Any = getattr(_value(node.func, frame), "spec", None)
    statics = getattr(spec, "statics", None)
    return f"`{ast.unparse(node.func)}`" if statics is None else f"{statics.call} of `{spec.name}`", statics


def _described(node: ast.Call, frame: FrameType, kind: str) -> tuple[str, str]:
    """(the call, the argument of type `kind`) in the words of other errors."""
    callee, statics = _callee(node, frame)
    given: dict[Any, ast.expr] = {**dict(enumerate(node.args)), **{k.arg: k.value for k in node.keywords if k.arg}}
    if any(isinstance(a, ast.Starred) for a in node.args):
        given = {k: v for k, v in given.items() if isinstance(k, str)}
    if statics is not None:
        given = {k: v for k, v in given.items() if k in statics.nums or k in statics.names}
    alike = [k for k, v in given.items() if type(_value(v, frame)).__name__ == kind]
    which = alike[0] if len(alike) == 1 else next(iter(given)) if statics is not None and len(given) == 1 else None
    if which is None:
        return callee, "a static argument"
    return callee, f"static argument {which!r}" if statics is None else f"static {statics.described(which)}"
