"""Publish plain functions as jitted ones.

Modules of this package contain plain Python functions that call one another; on tracers the plain functions run.
`public_api` marks functions with a public name. `publish`, called by the `__init__` that exports them, replaces each one by
its jitted version (or by a wrapper, `face`, of it), so that an eager call is one compiled call. `jitted_core` marks the
compiled part of a function that first inspects its arguments on the host.
"""
from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import unwrap
from types import FunctionType, MappingProxyType
from typing import Any, TypeVar

import numpy as np
from lamina_tracing import Array, jit, hooks
from lamina_tracing.extend import EVALUATION, Tracer, rename_errors, trace_state

__all__ = ["PLAIN_NUMBERS", "alias", "check_known", "compiled", "hashable", "jitted_core", "method", "named_errors",
           "operator_for", "public_api", "publish", "published", "settled"]

F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any]
PLAIN_NUMBERS = frozenset((float, int))  # argument types passed to `hooks.operators.device_scalar_like`
_static: dict[Function, tuple[str, ...]] = {}  # static arguments of each function with a jitted version
_twins: dict[Function, Any] = {}
_faces: dict[Function, Function | None] = {}  # wrapper of each public function; None if it has none
_shown: dict[Function, Any] = {}
_face_makers: dict[Function, Callable[[Function], Function]] = {}
_second: dict[tuple[Function, str], Function] = {}  # copies of functions under an alias


def public_api(*static: str, face: Callable[[Function], Function] | None = None, name: str = "",
               doc: str = "") -> Callable[[F], F]:
    """Mark a function for publishing.

    Args:
      static: names of its arguments that are not arrays.
      face: takes the plain function and returns the wrapper that is exported instead of the jitted function (which
        `compiled` returns). If it is None, static arguments may be lists or arrays; they are converted to tuples and numbers.
      name, doc: for functions that are generated from a table and have no name and docstring.
    """
    def mark(fun: F) -> F:
        if name:
            fun.__name__ = fun.__qualname__ = name
            fun.__doc__ = doc
        _static[fun] = static
        _at_home(fun)
        _faces[fun] = functools.wraps(fun)(face(fun)) if face else None
        if face:
            _face_makers[fun] = face
        return fun
    return mark


def alias(fun: Function, name: str) -> Function:
    """Return a copy of a marked function under another public name. Its error messages start with that name."""
    made = _second.get((fun, name))
    if made is None:
        made = FunctionType(fun.__code__, fun.__globals__, name, fun.__defaults__, fun.__closure__)
        vars(made).update(vars(fun))
        made.__kwdefaults__, made.__doc__, made.__annotations__ = fun.__kwdefaults__, fun.__doc__, fun.__annotations__
        made.__module__ = fun.__module__
        made = _second.setdefault((fun, name), public_api(*_static[fun], face=_face_makers.get(fun), name=name,
                                                          doc=fun.__doc__ or "")(made))
    return made


def jitted_core(*static: str, name: str = "") -> Callable[[F], F]:
    """Mark the compiled part of a public function: on arrays its jitted version runs, on tracers the function itself.

    Arrays are passed by position. `name` is that of the public function; `static` is as in `public_api`."""
    def mark(fun: F) -> F:
        fun.__name__ = fun.__qualname__ = name or fun.__name__.lstrip("_")
        _static[fun] = static

        @functools.wraps(fun)
        def run(*args: Any, **settings: Any) -> Any:
            if trace_state.trace is not EVALUATION:
                return fun(*args, **settings)
            for x in args:
                if isinstance(x, Tracer):
                    return fun(*args, **settings)
            return (_twins.get(fun) or compiled(fun))(*args, **settings)
        return run  # type: ignore[return-value]
    return mark


def compiled(fun: Function) -> Any:
    """Return the jitted version of a marked function, one per function. It is inlined, so that a trace has its equations."""
    twin = _twins.get(fun)
    if twin is None:
        static = _static[fun]
        named = rename_errors(fun)  # only traced: a call that is already compiled does not run the wrapper
        made: Any = jit(named, static_argnames=static, inline=True) if static else jit(named, inline=True)
        made.__wrapped__, twin = fun, made
        twin = _twins.setdefault(fun, twin)  # another thread may have added it first
    return twin


def published(fun: Function) -> Any:
    """Return the exported version of a function marked with `public_api`."""
    shown = _shown.get(fun)
    if shown is None:
        shown = _faces[fun] or (functools.wraps(fun)(_taking_lists(fun)) if _static[fun] else compiled(fun))
        shown = _shown.setdefault(fun, shown)
    return shown


def method(fun: Function) -> Any:
    """Return a marked function as a method of arrays: its jitted version, which accepts lists if the function does."""
    if not _static[fun]:
        return compiled(fun)
    shown = _taking_lists(fun)
    shown.__name__, shown.__doc__ = fun.__name__, fun.__doc__
    return shown


def operator_for(fun: Function) -> Any:
    """Return a marked function as an operator, whose arguments are operands only."""
    return _faces[fun] or compiled(fun)


def publish(names: dict[str, Any], later: Mapping[str, str] = MappingProxyType({})) -> None:
    """Export the marked functions of a module as `published` returns them.

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
            if value in _faces:
                waiting[name] = names.pop(name)
            else:
                _at_home(value)
                names[name] = named_errors(value)
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
            if value in _faces:
                value = published(value if value.__name__ == name else alias(value, name))
                if "ufunc" in homes:
                    _dress(value, __getattr__)
            else:
                _at_home(value)
                value = named_errors(value)
        names[name] = value
        return value

    names["__getattr__"] = __getattr__
    names["__dir__"] = lambda: sorted({*names, *waiting, *homes})


def named_errors(fun: Function) -> Any:
    """Return an unmarked public function whose error messages start with its name; one per function."""
    if fun.__module__.partition(".")[0] not in ("lamina_numpy", "lamina_nn", "lamina_scipy"):
        return fun
    shown = _shown.get(fun)
    if shown is None:
        shown = _shown.setdefault(fun, rename_errors(fun))
        _shown[shown] = shown
    return shown


_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")


def _dress(shown: Any, fetch: Callable[[str], Any]) -> None:
    """Add the argument counts and methods of NumPy's ufunc of the same name to a public function. The methods are those of
    `ufunc`, which `fetch` imports when one is called."""
    known = getattr(np, shown.__name__, None)
    if isinstance(known, np.ufunc) and known.signature is None and "reduceat" not in shown.__dict__:
        shown.nin, shown.nout, shown.nargs, shown.identity = known.nin, known.nout, known.nargs, known.identity
        for method in _METHODS:
            setattr(shown, method, functools.partial(_late, fetch, method, shown))


def _late(fetch: Callable[[str], Any], method: str, shown: Any, *args: Any, **kwargs: Any) -> Any:
    name = f"{shown.__name__}.{method}"
    run = getattr(fetch("ufunc").of(shown), method)
    return rename_errors(run, name)(*args, **kwargs)


def _at_home(fun: Any) -> None:
    """Set `__module__` to the public module: `lamina_numpy` instead of `lamina_numpy._shape.layout`."""
    path = fun.__module__.split(".")
    fun.__module__ = ".".join(path[:next((i for i, part in enumerate(path) if part.startswith("_")), len(path))])


def _taking_lists(fun: Function) -> Function:
    """Return the wrapper of a function whose static arguments may be lists and arrays."""
    named = rename_errors(fun)
    code = unwrap(fun).__code__
    arrays = next((i for i, name in enumerate(code.co_varnames[:code.co_argcount]) if name in _static[fun]), code.co_argcount)

    def call(*args: Any, **kwargs: Any) -> Any:
        if trace_state.trace is EVALUATION:
            if arrays > 1:
                for x in args[1:arrays]:
                    if type(x) in PLAIN_NUMBERS:
                        args = _with_device_scalars(args, arrays)
                        break
            try:
                return (_twins.get(fun) or compiled(fun))(*args, **kwargs)
            except ValueError:  # possibly because a list is not hashable
                given = *args, *kwargs.values()
                args, kwargs = settled(fun, args, kwargs)
                if all(map(operator.is_, given, (*args, *kwargs.values()))):
                    check_known(fun, args, kwargs)
                    raise
            return compiled(fun)(*args, **kwargs)
        args, kwargs = settled(fun, args, kwargs)
        return named(*args, **kwargs)  # while tracing, no compiled call is needed
    return call


def _with_device_scalars(args: tuple[Any, ...], arrays: int) -> tuple[Any, ...]:
    """Replace Python numbers among the first `arrays` arguments by cached scalars on the device of the first argument."""
    first, device_scalar = args[0], hooks.operators.device_scalar_like
    return first, *[device_scalar(first, x) if type(x) in PLAIN_NUMBERS else x for x in args[1:arrays]], *args[arrays:]


def settled(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a marked function, with hashable static arguments."""
    static = _static[fun]
    places = unwrap(fun).__code__.co_varnames
    args = tuple([_settled(fun, places[i], x) if type(x) not in _HASHABLE and places[i] in static else x
                  for i, x in enumerate(args)])
    return args, {k: _settled(fun, k, x) if type(x) not in _HASHABLE and k in static else x for k, x in kwargs.items()}


def _settled(fun: Function, name: str, x: Any) -> Any:
    if name in _DTYPES:
        return x.dtype if isinstance(x, (np.ndarray, Array)) else x
    x = hashable(x)
    if isinstance(x, (dict, set, bytearray)):
        raise _unknown(fun, name, x)
    return x


def check_known(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise TypeError, with the argument's name, if a static argument of a marked function is not hashable."""
    static, places = _static[fun], unwrap(fun).__code__.co_varnames
    for name, x in (*zip(places, args), *kwargs.items()):
        try:
            name in static and not isinstance(x, Tracer) and hash(x)
        except TypeError:
            raise _unknown(fun, name, x) from None


def _unknown(fun: Function, name: str, x: Any) -> TypeError:
    return TypeError(f"{fun.__name__}: {name} must be known and hashable, as a number, a name or a sequence of them; got "
                     f"{type(x).__name__}: {x!r:.60}")


_DTYPES = frozenset(("dtype", "preferred_element_type"))  # an array is accepted for its dtype


_HASHABLE = frozenset((int, bool, type(None), str, np.dtype))  # checked first, because most static arguments have these types


def hashable(x: Any) -> Any:
    """Convert (nested) lists and ranges to tuples, and arrays to tuples or numbers, so that they can be static arguments.
    Subclasses of tuple (axes with names, shapes with names) are unchanged."""
    if type(x) in (list, tuple, range):
        return tuple([hashable(e) for e in x])
    if isinstance(x, (np.ndarray, Array)) and not isinstance(x, Tracer):
        return hashable(np.asarray(x).tolist())
    return x
