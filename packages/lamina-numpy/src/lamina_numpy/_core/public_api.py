"""How a plain function becomes public.

Modules here hold plain Python functions that call one another; traced values run them as they are. `public` marks those
that have a public name, and `publish`, in the `__init__` that shows them, has a jitted twin (or a `face` around it) stand
under the same name: an eager call is one compiled call. `core` is for what a function that first looks at its arguments on the
host hands the rest of the work to.
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

__all__ = ["PLAIN_NUMBERS", "check_known", "compiled", "core", "hashable", "method", "operator_for", "public", "publish",
           "published", "settled", "under_second_name"]

F = TypeVar("F", bound=Callable[..., Any])
Function = Callable[..., Any]
PLAIN_NUMBERS = frozenset((float, int))  # types that `slots.operators.device_scalar_like` is asked about
_static: dict[Function, tuple[str, ...]] = {}  # of every function that has a jitted twin
_twins: dict[Function, Any] = {}
_faces: dict[Function, Function | None] = {}  # of every public one; None where it has none of its own
_shown: dict[Function, Any] = {}
_face_makers: dict[Function, Callable[[Function], Function]] = {}
_second: dict[tuple[Function, str], Function] = {}  # functions under the second name that they have


def public(*static: str, face: Callable[[Function], Function] | None = None, name: str = "",
           doc: str = "") -> Callable[[F], F]:
    """Mark a function for publishing.

    Args:
      static: names of its arguments that are not arrays.
      face: makes, of the plain function, what is shown instead of the jitted twin (which `compiled` gives it). Without one,
        static arguments may be lists or arrays: they become tuples and numbers on the way in.
      name, doc: for functions made by a table, which have none of their own.
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


def under_second_name(fun: Function, name: str) -> Function:
    """A marked function once more, for the other name that it is known by: its errors are told in that one."""
    made = _second.get((fun, name))
    if made is None:
        made = FunctionType(fun.__code__, fun.__globals__, name, fun.__defaults__, fun.__closure__)
        vars(made).update(vars(fun))
        made.__kwdefaults__, made.__doc__, made.__annotations__ = fun.__kwdefaults__, fun.__doc__, fun.__annotations__
        made.__module__ = fun.__module__
        made = _second.setdefault((fun, name), public(*_static[fun], face=_face_makers.get(fun), name=name,
                                                      doc=fun.__doc__ or "")(made))
    return made


def core(*static: str, name: str = "") -> Callable[[F], F]:
    """Mark the part of a public function that is compiled: called on arrays its jitted twin runs, on traced values the
    function itself. It is given arrays by position, bears the public function's `name`, and `static` is as in `public`."""
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
    """The jitted twin of a marked function: one per function, `inline` so that traces see the equations only."""
    twin = _twins.get(fun)
    if twin is None:
        static = _static[fun]
        told = rename_errors(fun)  # what is traced: a call that is compiled already pays nothing for it
        made: Any = jit(told, static_argnames=static, inline=True) if static else jit(told, inline=True)
        made.__wrapped__, twin = fun, made
        twin = _twins.setdefault(fun, twin)  # another thread may have come first
    return twin


def published(fun: Function) -> Any:
    """What stands under the public name of a function marked `public`."""
    shown = _shown.get(fun)
    if shown is None:
        shown = _faces[fun] or (functools.wraps(fun)(_taking_lists(fun)) if _static[fun] else compiled(fun))
        shown = _shown.setdefault(fun, shown)
    return shown


def method(fun: Function) -> Any:
    """What a marked function is as a method of arrays: its jitted twin, which takes lists where the function does."""
    if not _static[fun]:
        return compiled(fun)
    shown = _taking_lists(fun)
    shown.__name__, shown.__doc__ = fun.__name__, fun.__doc__
    return shown


def operator_for(fun: Function) -> Any:
    """What a marked function is as an operator, which gives it operands only."""
    return _faces[fun] or compiled(fun)


def publish(names: dict[str, Any], later: Mapping[str, str] = MappingProxyType({})) -> None:
    """Show, in a module with these globals, public functions as `published` gives them. Each is made when it is first asked
    for, by the module's `__getattr__`: a program needs a few of them, and all take a third of the time of an import.

    Args:
      names: the module's globals.
      later: module inside of it -> names, with spaces between, that are in it and are shown here; it is loaded when one of
        them is asked for. "": it is shown itself.
    """
    waiting = {}
    for name, value in list(names.items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            if value in _faces:
                waiting[name] = names.pop(name)
            else:
                _at_home(value)
                names[name] = told_by_name(value)
    homes = {name: module for module, listed in later.items() for name in listed.split() or (module,)}

    def __getattr__(name: str) -> Any:
        value = waiting.get(name)
        if name in homes:
            # the families that few programs use are loaded when asked for
            value = import_module(f"{names['__package__']}.{homes[name]}")
            value = value if name == homes[name] else getattr(value, name)
        elif value is None:
            raise AttributeError(f"module {names['__name__'].removesuffix('._default')!r} has no attribute {name!r}")
        if isinstance(value, FunctionType):
            if value in _faces:
                value = published(value if value.__name__ == name else under_second_name(value, name))
                if "ufunc" in homes:
                    _dress(value, __getattr__)
            else:
                _at_home(value)
                value = told_by_name(value)
        names[name] = value
        return value

    names["__getattr__"] = __getattr__
    names["__dir__"] = lambda: sorted({*names, *waiting, *homes})


def told_by_name(fun: Function) -> Any:
    """A public function that was not marked, in whose name errors are told; one per function."""
    if fun.__module__.partition(".")[0] not in ("lamina_numpy", "lamina_nn", "lamina_scipy"):
        return fun
    shown = _shown.get(fun)
    if shown is None:
        shown = _shown.setdefault(fun, rename_errors(fun))
        _shown[shown] = shown
    return shown


_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")


def _dress(shown: Any, fetch: Callable[[str], Any]) -> None:
    """Give a public function what NumPy's elementwise function of its name has: numbers of arguments, and methods. They are
    those of `ufunc`, which is loaded by `fetch` when one is called."""
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
    """`__module__` as people import it: `lamina_numpy._shape.layout` is `lamina_numpy`."""
    path = fun.__module__.split(".")
    fun.__module__ = ".".join(path[:next((i for i, part in enumerate(path) if part.startswith("_")), len(path))])


def _taking_lists(fun: Function) -> Function:
    """The face of functions whose static arguments may be lists and arrays."""
    told = rename_errors(fun)
    code = unwrap(fun).__code__
    arrays = next((i for i, name in enumerate(code.co_varnames[:code.co_argcount]) if name in _static[fun]), code.co_argcount)

    def call(*args: Any, **kwargs: Any) -> Any:
        if trace_state.trace is EVALUATION:
            if arrays > 1:
                for x in args[1:arrays]:
                    if type(x) in PLAIN_NUMBERS:
                        args = _with_ready(args, arrays)
                        break
            try:
                return (_twins.get(fun) or compiled(fun))(*args, **kwargs)
            except ValueError:  # is it for a list that was to be hashed?
                given = *args, *kwargs.values()
                args, kwargs = settled(fun, args, kwargs)
                if all(map(operator.is_, given, (*args, *kwargs.values()))):
                    check_known(fun, args, kwargs)
                    raise
            return compiled(fun)(*args, **kwargs)
        args, kwargs = settled(fun, args, kwargs)
        return told(*args, **kwargs)  # a program is being written, which needs no compiled call
    return call


def _with_ready(args: tuple[Any, ...], arrays: int) -> tuple[Any, ...]:
    """Arguments, of which so many are arrays, with what lies ready for plain numbers beside the first."""
    first, beside = args[0], hooks.operators.device_scalar_like
    return first, *[beside(first, x) if type(x) in PLAIN_NUMBERS else x for x in args[1:arrays]], *args[arrays:]


def settled(fun: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a marked function with those that are static made hashable."""
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
    """Refuse a static argument of a marked function that is not hashable, by its name."""
    static, places = _static[fun], unwrap(fun).__code__.co_varnames
    for name, x in (*zip(places, args), *kwargs.items()):
        try:
            name in static and not isinstance(x, Tracer) and hash(x)
        except TypeError:
            raise _unknown(fun, name, x) from None


def _unknown(fun: Function, name: str, x: Any) -> TypeError:
    return TypeError(f"{fun.__name__}: {name} must be known and hashable, as a number, a name or a sequence of them; got "
                     f"{type(x).__name__}: {x!r:.60}")


_DTYPES = frozenset(("dtype", "preferred_element_type"))  # an array stands for its dtype there


_HASHABLE = frozenset((int, bool, type(None), str, np.dtype))  # passed over: most static arguments are


def hashable(x: Any) -> Any:
    """Lists, ranges and nested lists as tuples, arrays as tuples and numbers, so that they can be static arguments. Kinds of
    tuple (axes along names, shapes with names) stay what they are."""
    if type(x) in (list, tuple, range):
        return tuple([hashable(e) for e in x])
    if isinstance(x, (np.ndarray, Array)) and not isinstance(x, Tracer):
        return hashable(np.asarray(x).tolist())
    return x
