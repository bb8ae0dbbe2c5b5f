"""Rewrite errors so that they name the public function and the argument.

A compiled call flattens its arguments and hashes the static ones in C++. jaxlib's error is a ValueError that names
neither the function nor the argument. `translate_error` replaces it when it leaves an entry point, or when it is
printed because it was not caught: it parses the calling source line to find the callee and its arguments. Calls without
errors cost nothing.
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
from lamina_ir.errors import BUILTIN_CODES, mark_builtin_error
from lamina_ir.typing import Function, StaticValue, Tree, Value

from .._core.args import unsorted_dict_error
from .._core.source_lines import is_library_file
from .._core.static_args import StaticArgs, hashable_remedy

__all__ = ["RENAMED_ERRORS", "mark_library_error", "rename_error", "rename_errors", "translate_error"]

F = TypeVar("F", bound=Callable[..., Any])
RENAMED_ERRORS = (TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError, NotImplementedError, AttributeError,
                  BufferError)  # error classes that `rename_errors` changes

# Messages of jaxlib: unsortable dict keys, and a static argument that cannot be hashed.
_UNSORTED = "Comparator raised exception while sorting pytree dictionary keys"
_UNHASHABLE = (
    r"(?s)Non-hashable static arguments.*?hash an object of type <class '([^']*)'>, (.*?)\. The error was:")


def translate_error(error: BaseException, call: str | None = None, args: Sequence[Tree] = (),
                    kwargs: dict[str, Tree] | None = None, statics: StaticArgs | None = None) -> BaseException:
    """Return the exception to raise instead of a jaxlib error about a static argument or dict keys.

    Args:
      error: the exception that was raised.
      call: the call, such as "pmap of `f`"; None: parse the calling source line.
      args, kwargs: its arguments, if `call` is given.
      statics: its static arguments (`StaticArgs`), if known.
    Returns:
      A new exception, or `error` itself if it is of another kind.

    >>> translate_error(ValueError("something else"))
    ValueError('something else')
    """
    if type(error) is not ValueError or not error.args or not isinstance(error.args[0], str):
        return error
    if error.args[0].startswith(_UNSORTED):
        made = unsorted_dict_error(call, args, kwargs or {}) if call is not None else _unsorted_keys_error(error)
        return error if made is None else made.with_traceback(error.__traceback__)
    found = re.match(_UNHASHABLE, error.args[0])
    if found is None:
        return error
    kind, text = found[1].rpartition(".")[2], found[2].split("\n")[0]
    if call is not None:
        named: list[tuple[int | str, Tree]] = [*enumerate(args), *(kwargs or {}).items()]
        # jaxlib's message contains only the type and the repr. An argument is named only if it is the single
        # candidate.
        alike = [k for k, a in named if type(a).__name__ == kind
                 and (statics is None or k in statics.nums or k in statics.names)]
        callee, argument = call, "a static argument"
        if len(alike) == 1:
            argument = f"static argument {alike[0]!r}" if statics is None else f"static {statics.describe(alike[0])}"
    else:
        at = _innermost_user_entry(error.__traceback__)
        node = None if at is None else _parse_call(at)
        callee, argument = "a compiled call", "a static argument"
        if node is not None:
            callee, argument = _describe(node, at.tb_frame, kind)
    if text.startswith("Traced<"):
        # The text of the tracer's own error, in jaxlib's text: where the value comes from, and how to make it known.
        origin = re.search(r"has no known number\.( It .*?\.)? Use [^\n]*?(?:, or (pass|do not map) ([^\n]*?))?\.?(?:\n|$)",
                           error.args[0])
        how = "Make it static where it comes from (static_argnums, static_argnames)"
        if origin is not None and origin[2]:
            how = f"{origin[2].capitalize()} {origin[3]}"
        elif origin is not None and ", mapped by " in (origin[1] or ""):
            how = "Pass a value that is not mapped"
        aval = re.search(r"\(([\w.]+\[[^\]]*\])", text)
        made = StaticArgumentError(
            f"{callee}: {argument} is a traced {aval[1] if aval else 'value'}; a size, an axis or a flag must be known while "
            f"the function is traced.{(origin[1] or '') if origin is not None else ''} {how}")
    else:
        made = StaticArgumentError(f"{callee}: {argument} must be hashable; got "
                                   f"{'Array' if kind == 'ArrayImpl' else kind}: {text:.60}. {hashable_remedy(kind)}")
    return made.with_traceback(error.__traceback__)


def mark_library_error(error: BaseException) -> None:
    """Add its code to a built-in exception that this library raised; one raised by the user's code stays unchanged.

    Args:
      error: an exception that leaves a public function, or that was not caught.

    >>> from lamina_tracing import lax
    >>> try:
    ...     lax.full((2,), 1 << 40)
    ... except OverflowError as error:
    ...     mark_library_error(error)
    ...     error.code
    'LAM2004'
    """
    if type(error) in BUILTIN_CODES and "code" not in error.__dict__ and _is_raised_by_library(error.__traceback__):
        mark_builtin_error(error)


def rename_errors(fun: F, name: str = "") -> F:
    """Wrap a public function so that errors raised by its helpers start with its own name.

    Args:
      fun: the function.
      name: the name to use; "" for the function's own name.
    Returns:
      A function with the same behaviour, name and signature.

    >>> def inner(x): raise ValueError("inner: x must be positive; got -1")
    >>> def outer(x): return inner(x)
    >>> rename_errors(outer)(-1)
    Traceback (most recent call last):
    ValueError: outer: x must be positive; got -1
    """
    name = name or fun.__name__
    rename, kinds = rename_error, RENAMED_ERRORS  # closure cells: `run` gets the globals of `fun` below

    def run(*args: Tree, **kwargs: Tree) -> Tree:
        try:
            return fun(*args, **kwargs)
        except kinds as error:
            rename(name, error, fun, args, kwargs)
            raise

    # With the globals of `fun` the wrapper counts as a function of that module, as doctest requires.
    made = FunctionType(run.__code__, getattr(fun, "__globals__", run.__globals__), closure=run.__closure__)
    return functools.update_wrapper(made, fun)  # type: ignore[return-value]


def rename_error(name: str, error: BaseException, fun: Function, args: Sequence[Value] = (),
                 kwargs: Mapping[str, Tree] = MappingProxyType({})) -> None:
    """Change the text of an error so that it starts with the name of the called function.

    Errors raised by a user's function that the library calls stay unchanged. So do errors about values, such as
    `ConcretizationError`, because they do not concern this call.

    Args:
      name: the name to use.
      error: the exception, an instance of `RENAMED_ERRORS`.
      fun: the called function.
      args, kwargs: its arguments, among which an unhashable one is looked up.
    Raises:
      StaticArgumentError: `error` is jaxlib's error about an unhashable static argument. It is raised instead.

    >>> def outer(x):
    ...     try:
    ...         return inner(x)
    ...     except RENAMED_ERRORS as error:
    ...         rename_error("outer", error, outer)
    ...         raise
    >>> def inner(x): raise ValueError("inner: x must be positive; got -1")
    >>> outer(-1)
    Traceback (most recent call last):
    ValueError: outer: x must be positive; got -1
    """
    text = error.args[0] if error.args else None
    if type(text) is not str or isinstance(error, _ABOUT_VALUES) or not _is_library_only(error.__traceback__):
        return
    mark_builtin_error(error)
    if (len(error.args) > 1 or re.match(rf"[`\w.]*\b{re.escape(name)}\b", text)
            or re.match(_OF_OTHER_CALL, text) and not re.match(_OF_JITTED_CORE, text)):
        return
    # A prefix such as `axis: ` may name a parameter of `fun`, not a helper; it must stay.
    code = getattr(inspect.unwrap(fun), "__code__", None)
    params = () if code is None else code.co_varnames
    unhashable, inner = re.match(_UNHASHABLE, text), re.match(_OF_JITTED_CORE, text) or re.match(_INNER, text)
    if unhashable is not None:
        raise StaticArgumentError(
            f"{name}: {_unhashable_text(unhashable, [*zip(params, args), *kwargs.items()])}") from None
    if inner is not None and inner[1] not in params:  # a helper's name; a prefix that is a parameter's name stays
        text = text[inner.end():]
    error.args = (f"{name}: {text}",)


def _unhashable_text(found: re.Match[str], arguments: Iterable[tuple[str, object]]) -> str:
    """Return the error text for an unhashable static argument, named if exactly one argument has its type."""
    kind = found[1].rpartition(".")[2]
    alike = [n for n, x in arguments if type(x).__name__ == kind]
    return (f"{alike[0] if len(alike) == 1 else 'a setting'} must be known and hashable, as a number, a name or a sequence of "
            f"them; got {kind}: {found[2]:.60}")


_ABOUT_VALUES = (ConcretizationError, KeyReuseError, LeakedTracerError)
_INNER = r"([a-z_][\w.]*): "
_OF_JITTED_CORE = r"()jit of `\w+`: static argument "  # from the jitted core of `fun` (`@jitted_core`)
_OF_OTHER_CALL = r"[\w ]+ of `|Comparator"


def _is_library_only(tb: TracebackType | None) -> bool:
    """Return whether every frame of a traceback belongs to lamina or to a library that it calls, not to the user."""
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not is_library_file(file) and not re.search(_DEPENDENCIES, file):
            return False
        tb = tb.tb_next
    return True


def _is_raised_by_library(tb: TracebackType | None) -> bool:
    """Return whether lamina raised an error, or a library that lamina called."""
    entries = []
    while tb is not None:
        entries.append(tb)
        tb = tb.tb_next
    for entry in reversed(entries):
        file = entry.tb_frame.f_code.co_filename
        if is_library_file(file):
            return True
        if not re.search(_DEPENDENCIES, file):
            break
    return False


# Other libraries, and generated code such as "<frozen os>"; not the user's code at a prompt.
_DEPENDENCIES = (r"[/\\](numpy|jaxlib|ml_dtypes|opt_einsum)[/\\]|"
                 r"^<(?!stdin|string|console|python-input|ipython-input)")


def _unsorted_keys_error(error: BaseException) -> BaseException:
    """Return an error about unsortable dict keys; the callee and the argument are read from the calling line."""
    at = _innermost_user_entry(error.__traceback__)
    node = None if at is None else _parse_call(at)
    callee = "a compiled call"
    if at is not None and node is not None:
        callee = _callee(node, at.tb_frame)[0]
        args: list[Value] = []
        for a in node.args:
            found = _value(a.value if isinstance(a, ast.Starred) else a, at.tb_frame)
            args += (found if isinstance(found, (tuple, list)) else ()) if isinstance(a, ast.Starred) else [found]
        kwargs = {k.arg: _value(k.value, at.tb_frame) for k in node.keywords if k.arg}
        for k in node.keywords:
            found = None if k.arg else _value(k.value, at.tb_frame)
            kwargs.update(found if isinstance(found, dict) else {})
        made = unsorted_dict_error(callee, args, kwargs)
        if made is not None:
            return made
    return TypeError(f"{callee}: a dict among the arguments is ordered by its keys, so they must sort against each other "
                     f"({error.__cause__}). Use keys of one type")


def _innermost_user_entry(tb: TracebackType | None) -> Any:
    """Return the innermost traceback entry that belongs to user code, or None."""
    found = None
    while tb is not None:
        if not is_library_file(tb.tb_frame.f_code.co_filename):
            found = tb
        tb = tb.tb_next
    return found


def _parse_call(at: TracebackType) -> ast.Call | None:
    """Parse the call expression at a traceback entry; None if its source is missing or it is not a call."""
    # Positions per bytecode instruction, of two bytes each: they distinguish several calls on one line.
    positions = list(at.tb_frame.f_code.co_positions())
    line, last, start, end = positions[at.tb_lasti // 2] if at.tb_lasti >= 0 else (None,) * 4
    if line is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(at.tb_frame.f_code.co_filename, n).encode() for n in range(line, last + 1)]
    # Columns count UTF-8 bytes. Cut the last line first: it may also be the first one.
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        node = ast.parse(b"".join(lines).decode().strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return node if isinstance(node, ast.Call) else None


def _value(node: ast.expr, frame: FrameType) -> StaticValue:
    """Evaluate a name, a dotted name, a literal, or a dict, tuple or list of these; None for any other expression.

    Other expressions may have side effects, so they are not evaluated a second time.
    """
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


def _callee(node: ast.Call, frame: FrameType) -> tuple[str, StaticArgs | None]:
    """Return (text for the call, its `StaticArgs` or None if the callee is not a jitted function)."""
    spec: Any = getattr(_value(node.func, frame), "spec", None)
    statics = getattr(spec, "statics", None)
    return f"`{ast.unparse(node.func)}`" if statics is None else f"{statics.call} of `{spec.name}`", statics


def _describe(node: ast.Call, frame: FrameType, kind: str) -> tuple[str, str]:
    """Return (text for the call, text for its static argument whose type is named `kind`)."""
    callee, statics = _callee(node, frame)
    arguments: dict[int | str, ast.expr] = {
        **dict(enumerate(node.args)), **{k.arg: k.value for k in node.keywords if k.arg}}
    if any(isinstance(a, ast.Starred) for a in node.args):  # positions after `*args` are unknown
        arguments = {k: v for k, v in arguments.items() if isinstance(k, str)}
    if statics is not None:
        arguments = {k: v for k, v in arguments.items() if k in statics.nums or k in statics.names}
    alike = [k for k, v in arguments.items() if type(_value(v, frame)).__name__ == kind]
    which = alike[0] if len(alike) == 1 else None
    # An expression that was not evaluated, as its type is unknown; the only static argument must be it.
    if which is None and statics is not None and len(arguments) == 1:
        which = next(iter(arguments))
    if which is None:
        return callee, "a static argument"
    return callee, f"static argument {which!r}" if statics is None else f"static {statics.describe(which)}"
