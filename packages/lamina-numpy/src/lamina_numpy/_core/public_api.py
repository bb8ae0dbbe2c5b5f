"""Publish plain functions as jitted ones.

Modules of this package contain plain Python functions that call one another; on tracers the plain functions run.
`public_api` marks functions with a public name. `publish`, called by the `__init__` that exports them, replaces each one by
its jitted version (or by a wrapper of it), so that an eager call is one compiled call. `jitted_core` marks the
compiled part of a function that first inspects its arguments on the host.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import unwrap
from threading import Lock
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

import numpy as np
from lamina_ir.extend import fill_docstring
from lamina_ir.typing import Function, StaticValue, Value
from lamina_tracing import Array, jit, hooks
from lamina_tracing.extend import EVALUATION, Tracer, rename_errors, trace_state

__all__ = ["PLAIN_NUMBERS", "alias", "as_method", "as_operator", "check_known", "get_exported", "get_jitted",
           "jitted_core", "make_static_hashable", "name_errors", "public_api", "publish", "to_hashable"]

F = TypeVar("F", bound=Callable[..., Any])
PLAIN_NUMBERS = frozenset((float, int))  # argument types passed to `hooks.operators.device_scalar_like`


class _Marked:
    """A marked function and the versions made from it, each on first use.

    Attributes:
      static: names of its arguments that are not arrays.
      is_public: whether it is exported; a `jitted_core` is not.
      make_wrapper, wrapper: the argument `wrap` of `public_api`, and what it returned; None without one.
      jitted: the jitted version.
      exported: the version that users see.
      aliases: copies under other names.
      entries: shared entries that its docstring still lacks.
    """

    __slots__ = ("static", "is_public", "make_wrapper", "wrapper", "jitted", "exported", "aliases", "entries")

    def __init__(self, static: tuple[str, ...], is_public: bool) -> None:
        self.static, self.is_public = static, is_public
        self.make_wrapper: Callable[[Function], Function] | None = None
        self.wrapper: Function | None = None
        self.jitted: Any = None
        self.exported: Any = None
        self.aliases: dict[str, Function] = {}
        self.entries: Mapping[str, str] | None = None


_marked: dict[Function, _Marked] = {}
_lock = Lock()
_with_named_errors: dict[Function, Function] = {}  # unmarked function -> its version from `name_errors`


def public_api(*static: str, wrap: Callable[[Function], Function] | None = None, name: str = "",
               doc: str = "", entries: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """Mark a function for publishing.

    Args:
      static: names of its arguments that are not arrays.
      wrap: takes the plain function and returns the wrapper that is exported instead of the jitted function (which
        `get_jitted` returns). If it is None, static arguments may be lists or arrays; they are converted to tuples and numbers.
      name, doc: for functions that are generated from a table and have no name and docstring.
      entries: shared entries of its docstring, which `fill_docstring` inserts when the function is exported.
    """
    def mark(fun: F) -> F:
        if name:
            fun.__name__ = fun.__qualname__ = name
            fun.__doc__ = doc
        _marked[fun] = marked = _Marked(static, True)
        marked.entries = entries
        _set_public_module(fun)
        if wrap:
            marked.make_wrapper, marked.wrapper = wrap, functools.wraps(fun)(wrap(fun))
        return fun
    return mark


def alias(fun: Function, name: str) -> Function:
    """Return a copy of a marked function under another public name. Its error messages start with that name."""
    marked = _insert_docstring(fun)
    made = marked.aliases.get(name)
    if made is None:
        made = FunctionType(fun.__code__, fun.__globals__, name, fun.__defaults__, fun.__closure__)
        vars(made).update(vars(fun))
        made.__kwdefaults__, made.__doc__, made.__annotations__ = fun.__kwdefaults__, fun.__doc__, fun.__annotations__
        made.__module__ = fun.__module__
        copy = public_api(*marked.static, wrap=marked.make_wrapper, name=name, doc=fun.__doc__ or "")(made)
        made = marked.aliases.setdefault(name, copy)
    return made


def jitted_core(*static: str, name: str = "") -> Callable[[F], F]:
    """Mark the compiled part of a public function: on arrays its jitted version runs, on tracers the function itself.

    Arrays are passed by position. `name` is that of the public function; `static` is as in `public_api`."""
    def mark(fun: F) -> F:
        fun.__name__ = fun.__qualname__ = name or fun.__name__.lstrip("_")
        _marked[fun] = marked = _Marked(static, False)

        @functools.wraps(fun)
        def run(*args: Value, **settings: StaticValue) -> Any:
            if trace_state.trace is not EVALUATION:
                return fun(*args, **settings)
            for x in args:
                if isinstance(x, Tracer):
                    return fun(*args, **settings)
            return (marked.jitted or get_jitted(fun))(*args, **settings)
        return run  # type: ignore[return-value]
    return mark


def get_jitted(fun: Function) -> Any:
    """Return the jitted version of a marked function, one per function. It is inlined, so that a trace has its equations."""
    marked = _marked[fun]
    if marked.jitted is None:
        _insert_docstring(fun)
        named = rename_errors(fun)  # only traced: a call that is already compiled does not run the wrapper
        made: Any = jit(named, static_argnames=marked.static, inline=True) if marked.static else jit(named, inline=True)
        made.__wrapped__ = fun
        with _lock:  # another thread may have made it
            marked.jitted = marked.jitted or made
    return marked.jitted


def get_exported(fun: Function) -> Any:
    """Return the version that users see of a function marked with `public_api`."""
    marked = _marked[fun]
    if marked.exported is None:
        _insert_docstring(fun)
        made = marked.wrapper or (functools.wraps(fun)(_accept_lists(fun)) if marked.static else get_jitted(fun))
        with _lock:
            marked.exported = marked.exported or made
    return marked.exported


def as_method(fun: Function) -> Any:
    """Return a marked function as a method of arrays: its jitted version, which accepts lists if the function does."""
    if not _insert_docstring(fun).static:
        return get_jitted(fun)
    made = _accept_lists(fun)
    made.__name__, made.__doc__ = fun.__name__, fun.__doc__
    return made


def as_operator(fun: Function) -> Any:
    """Return a marked function as an operator, whose arguments are operands only."""
    return _marked[fun].wrapper or get_jitted(fun)


def _insert_docstring(fun: Function) -> _Marked:
    """Insert the shared entries into the docstring of a marked function, once."""
    marked = _marked[fun]
    if marked.entries:
        fill_docstring(marked.entries)(fun)
        if marked.wrapper:
            marked.wrapper.__doc__ = fun.__doc__
        marked.entries = None
    return marked


def publish(names: dict[str, Any], later: Mapping[str, str] = MappingProxyType({})) -> None:
    """Export the marked functions of a module as `get_exported` returns them.

    The module's `__getattr__` creates each one on first access: a program uses few of them, and creating all of them takes a
    third of the import time.

    Args:
      names: the module's globals.
      later: submodule -> names, separated by spaces, that are exported from it; it is imported on first access to one of
        them. An empty text exports the submodule itself.
    """
    waiting = {}
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            if _is_public(value):
                waiting[name] = names.pop(name)
            else:
                _set_public_module(value)
                names[name] = name_errors(value)
    homes = {name: module for module, listed in later.items() for name in listed.split() or (module,)}

    def __getattr__(name: str) -> Any:
        value = waiting.get(name)
        if name in homes:
            # submodules that few programs use are imported on first access
            value = import_module(f"{names['__package__']}.{homes[name]}")
            value = value if name == homes[name] else getattr(value, name)
        elif value is None:
            raise AttributeError(f"module {names['__name__'].removesuffix('._default')!r} has no attribute {name!r}")
        if isinstance(value, FunctionType):
            if _is_public(value):
                value = get_exported(value if value.__name__ == name else alias(value, name))
                if "ufunc" in homes:
                    _add_ufunc_methods(value, __getattr__)
            else:
                _set_public_module(value)
                value = name_errors(value)
        names[name] = value
        return value

    names["__getattr__"] = __getattr__
    names["__dir__"] = lambda: sorted({*names, *waiting, *homes})


def name_errors(fun: Function) -> Any:
    """Return an unmarked public function whose error messages start with its name; one per function."""
    if fun.__module__.partition(".")[0] not in ("lamina_numpy", "lamina_nn", "lamina_scipy", "lamina_sparse"):
        return fun
    made = _with_named_errors.get(fun)
    if made is None:
        made = _with_named_errors.setdefault(fun, rename_errors(fun))
        _with_named_errors[made] = made
    return made


_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")


def _add_ufunc_methods(fun: Any, fetch: Callable[[str], Any]) -> None:
    """Add the argument counts and methods of NumPy's ufunc of the same name to a public function. The methods are those of
    `ufunc`, which `fetch` imports when one is called."""
    known = getattr(np, fun.__name__, None)
    if isinstance(known, np.ufunc) and known.signature is None and "reduceat" not in fun.__dict__:
        fun.nin, fun.nout, fun.nargs, fun.identity = known.nin, known.nout, known.nargs, known.identity
        for method in _METHODS:
            setattr(fun, method, functools.partial(_call_ufunc_method, fetch, method, fun))


def _call_ufunc_method(fetch: Callable[[str], Any], method: str, fun: Any, *args: Value, **kwargs: Value) -> Any:
    name = f"{fun.__name__}.{method}"
    run = getattr(fetch("ufunc").from_public(fun), method)
    return rename_errors(run, name)(*args, **kwargs)


def _is_public(fun: Function) -> bool:
    return fun in _marked and _marked[fun].is_public


def _set_public_module(fun: Any) -> None:
    """Set `__module__` to the public module: `lamina_numpy` instead of `lamina_numpy._shape.layout`."""
    path = fun.__module__.split(".")
    fun.__module__ = ".".join(path[:next((i for i, part in enumerate(path) if part.startswith("_")), len(path))])


def _accept_lists(fun: Function) -> Function:
    """Return the wrapper of a function whose static arguments may be lists and arrays."""
    named, marked = rename_errors(fun), _marked[fun]
    code = unwrap(fun).__code__
    arrays = next((i for i, name in enumerate(code.co_varnames[:code.co_argcount]) if name in marked.static),
                  code.co_argcount)

    def call(*args: Value, **kwargs: Value) -> Any:
        if trace_state.trace is EVALUATION:
            if arrays > 1:
                for x in args[1:arrays]:
                    if type(x) in PLAIN_NUMBERS:
                        args = _replace_scalars(args, arrays)
                        break
            try:
                return (marked.jitted or get_jitted(fun))(*args, **kwargs)
            except ValueError:  # possibly because a list is not hashable
                given = *args, *kwargs.values()
                args, kwargs = make_static_hashable(fun, args, kwargs)
                if all(map(operator.is_, given, (*args, *kwargs.values()))):
                    check_known(fun, args, kwargs)
                    raise
            return get_jitted(fun)(*args, **kwargs)
        args, kwargs = make_static_hashable(fun, args, kwargs)
        return named(*args, **kwargs)  # while tracing, no compiled call is needed
    return call


def _replace_scalars(args: tuple[Any, ...], arrays: int) -> tuple[Any, ...]:
    """Replace Python numbers among the first `arrays` arguments by cached scalars on the device of the first argument."""
    first, device_scalar = args[0], hooks.operators.device_scalar_like
    return first, *[device_scalar(first, x) if type(x) in PLAIN_NUMBERS else x for x in args[1:arrays]], *args[arrays:]


def make_static_hashable(fun: Function, args: tuple[Value, ...],
                         kwargs: dict[str, Value]) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """Return the arguments of a marked function, with hashable static arguments."""
    static = _marked[fun].static
    places = unwrap(fun).__code__.co_varnames
    args = tuple([_make_hashable(fun, places[i], x) if type(x) not in _HASHABLE and places[i] in static else x
                  for i, x in enumerate(args)])
    return args, {k: _make_hashable(fun, k, x) if type(x) not in _HASHABLE and k in static else x for k, x in kwargs.items()}


def _make_hashable(fun: Function, name: str, x: Any) -> Any:
    if name in _DTYPES:
        return x.dtype if isinstance(x, (np.ndarray, Array)) else x
    x = to_hashable(x)
    if isinstance(x, (dict, set, bytearray)):
        raise _make_unhashable_error(fun, name, x)
    return x


def check_known(fun: Function, args: tuple[Value, ...], kwargs: dict[str, Value]) -> None:
    """Raise TypeError, with the argument's name, if a static argument of a marked function is not hashable."""
    static, places = _marked[fun].static, unwrap(fun).__code__.co_varnames
    for name, x in (*zip(places, args), *kwargs.items()):
        try:
            name in static and not isinstance(x, Tracer) and hash(x)
        except TypeError:
            raise _make_unhashable_error(fun, name, x) from None


def _make_unhashable_error(fun: Function, name: str, x: Any) -> TypeError:
    return TypeError(f"{fun.__name__}: {name} must be known and hashable, as a number, a name or a sequence of them; got "
                     f"{type(x).__name__}: {x!r:.60}")


_DTYPES = frozenset(("dtype", "preferred_element_type"))  # an array is accepted for its dtype


_HASHABLE = frozenset((int, bool, type(None), str, np.dtype))  # checked first, because most static arguments have these types


def to_hashable(x: Any) -> Any:
    """Convert (nested) lists and ranges to tuples, and arrays to tuples or numbers, so that they can be static arguments.
    Subclasses of tuple (axes with names, shapes with names) are unchanged."""
    if type(x) in (list, tuple, range):
        return tuple([to_hashable(e) for e in x])
    if isinstance(x, (np.ndarray, Array)) and not isinstance(x, Tracer):
        return to_hashable(np.asarray(x).tolist())
    return x
