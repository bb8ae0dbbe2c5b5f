"""Arguments of transformed functions: static ones, their names and positions, and errors that name the culprit."""
from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Collection, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter, signature
from types import FunctionType
from typing import Any

from lamina_ir import DTypeError, ShapedArray, StaticArgumentError, aval_of, shaped, trees
from lamina_ir.dtypes import as_dtype, canonical

from .lines import is_own_file, warn_user
from .tracer import stands_for_array, Tracer, typeof

__all__ = ["Statics", "argument_name", "argument_path", "as_tuple", "called_as", "duck_types", "flat_arguments", "flat_results",
           "flat_types", "function_name", "parameter_names", "requested_dtype", "result_path", "unsorted_argument"]


def function_name(fun: Any) -> str:
    """A name for print and errors, looking through partials and callable objects.

    Args:
      fun: the function.
    Returns:
      Its name, or that of its class.

    >>> function_name(functools.partial(max, 3))
    'max'
    """
    while isinstance(fun, functools.partial):
        fun = fun.func
    return getattr(fun, "__name__", None) or type(fun).__name__


def _parameters(fun: Any) -> tuple[tuple[str, ...], tuple[str, ...], bool, bool] | None:
    """Positional names, all names, and whether `*args` and `**kwargs` are taken; None where this is not to be had."""
    if type(fun) is FunctionType and not fun.__dict__:  # its code says it, without `inspect`: a tenth of the time
        code = fun.__code__
        names, count = code.co_varnames, code.co_argcount
        return (names[:count], names[:count + code.co_kwonlyargcount], bool(code.co_flags & CO_VARARGS),
                bool(code.co_flags & CO_VARKEYWORDS))
    try:
        found = signature(fun).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = [p.kind for p in found]
    positional = tuple([p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
    keyword = tuple([p.name for p in found if p.kind is p.KEYWORD_ONLY])
    return positional, positional + keyword, Parameter.VAR_POSITIONAL in kinds, Parameter.VAR_KEYWORD in kinds


def parameter_names(fun: Any) -> tuple[str, ...] | None:
    """Names of a function's parameters, `*args` and `**kwargs` apart.

    Args:
      fun: the function.
    Returns:
      A tuple of names; None where they are not to be had.

    >>> parameter_names(lambda x, y=2, *rest, z: None)
    ('x', 'y', 'z')
    """
    known = _parameters(fun)
    return None if known is None else known[1]


def _positional_count(fun: Any) -> int | None:
    """How many positional arguments `fun` takes; None for any number."""
    known = _parameters(fun)
    return None if known is None or known[2] else len(known[0])


def as_tuple(call: str, what: str, value: Any, kind: type) -> tuple[Any, ...]:
    """One value or several, as a tuple of `kind`.

    Args:
      call: whose argument it is, for the message.
      what: the argument's name.
      value: one value, a sequence of them, or None for none.
      kind: their type; of `int` anything with `__index__` will do.
    Returns:
      A tuple.
    Raises:
      TypeError: something in it is of another type.

    >>> as_tuple("jit", "static_argnums", 2, int), as_tuple("jit", "static_argnames", ["a", "b"], str)
    ((2,), ('a', 'b'))
    """
    if value is None:
        return ()
    if isinstance(value, kind):
        return (value,)
    if kind is int and hasattr(value, "__index__"):
        return (value.__index__(),)
    try:
        found = tuple(value)
    except TypeError:
        found = (value,)
    if not all(isinstance(v, kind) or (kind is int and hasattr(v, "__index__")) for v in found):
        raise TypeError(f"{call}: {what} expects {kind.__name__} or a sequence of them; got {value!r}")
    return found


def _check_names(call: str, fun: Any, what: str, names: Sequence[str]) -> None:
    """ValueError when `fun` has no parameter of such a name and no `**kwargs` either."""
    known = _parameters(fun) if names else None
    if known is None or known[3]:
        return
    unknown = [n for n in names if n not in known[1]]
    if unknown:
        raise ValueError(f"{call}: {what} {unknown[0]!r} is no parameter of `{function_name(fun)}`; it has "
                         f"{', '.join(known[1]) or 'none'}")


def requested_dtype(spec: Any) -> Any:
    """The dtype that a caller's `dtype=` means under the 64-bit setting.

    A UserWarning shows the caller's line where that is narrower than what was written. Data, and Python's `float`, `int`
    and `complex`, are narrowed without a word.

    Args:
      spec: a dtype, type, name or scalar-type object.
    Returns:
      A NumPy dtype.

    >>> requested_dtype(float)
    dtype('float32')
    """
    found = canonical(spec)
    if type(spec) is type and spec in _PYTHON:
        return found
    asked = as_dtype(spec)
    if asked is not found and asked != found:
        warn_user(f"{asked.name} was asked for, but 64 bits are off, so this is {found.name}. Ask for {found.name}, or set "
                  "config enable_x64")
    return found


_PYTHON = frozenset((bool, int, float, complex))


class Statics:
    """Which arguments of a function are static, by position and by name."""

    def __init__(self, call: str, fun: Callable[..., Any], argnums: Any, argnames: Any) -> None:
        self.call = call
        self.fun = fun
        what = "static_argnums" if call in ("jit", "make_jaxpr", "eval_shape") else "static_broadcasted_argnums"
        nums = as_tuple(call, what, argnums, int)
        names = as_tuple(call, "static_argnames", argnames, str)
        _check_names(call, fun, "static_argnames", names)
        if nums or names:
            count = _positional_count(fun)
            nums = tuple(self._front(what, n, count) for n in nums)
            positional, known, _, _ = _parameters(fun) or ((), (), False, False)
            limit = len(positional)
            if argnames is None:
                names = tuple(known[n] for n in nums if n < min(limit, len(known)))
            elif argnums is None:
                nums = tuple(known.index(n) for n in names if n in known[:limit])
        self.nums = frozenset(nums)
        self.names = frozenset(names)
        self.any = bool(self.nums or self.names)

    def _front(self, what: str, n: int, count: int | None) -> int:
        if count is not None and not -count <= n < count:
            names = ", ".join((_parameters(self.fun) or ((),))[0])
            raise ValueError(f"{self.call}: {what} {n} is out of range: `{function_name(self.fun)}` takes {count} "
                             f"positional arguments" + (f" ({names})" if names else ""))
        return n + count if n < 0 and count is not None else n

    def donated(self, argnums: Any, argnames: Any) -> frozenset[int]:
        nums = as_tuple(self.call, "donate_argnums", argnums, int)
        names = as_tuple(self.call, "donate_argnames", argnames, str)
        if nums:
            count = _positional_count(self.fun)
            nums = tuple(self._front("donate_argnums", n, count) for n in nums)
        if names:
            _check_names(self.call, self.fun, "donate_argnames", names)
            known = parameter_names(self.fun) or ()
            nums += tuple(known.index(n) for n in names if n in known)
        both = self.nums.intersection(nums)
        if both:
            raise ValueError(f"{self.call}: {self.described(min(both))} is both static and donated; choose one")
        return frozenset(nums)

    def described(self, where: int | str) -> str:
        """The words for an argument: `argument 1 ('n')`."""
        known = _parameters(self.fun)
        if isinstance(where, str) or known is None or where >= len(known[0]):
            return f"argument {where!r}"
        return f"argument {where} ({known[0][where]!r})"

    def position(self, name: str) -> int:
        known = parameter_names(self.fun) or ()
        return known.index(name) if name in known else -1

    def split(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
        """(dynamic positional, dynamic keyword, key of the static ones). ValueError when one is not hashable."""
        dynamic = tuple(a for i, a in enumerate(args) if i not in self.nums)
        static: list[tuple[int | str, Any]] = [(i, a) for i, a in enumerate(args) if i in self.nums]
        rest = {}
        for name, value in kwargs.items():
            if name in self.names:
                static.append((name, value))
            else:
                rest[name] = value
        for where, value in static:
            if isinstance(value, Tracer):
                raise StaticArgumentError(f"{self.call} of `{function_name(self.fun)}`: static {self.described(where)} is a "
                                          f"traced value {value.aval.long()}; a static argument must be a known Python "
                                          "value")
            try:
                hash(value)
            except TypeError as e:
                raise ValueError(
                    f"{self.call} of `{function_name(self.fun)}`: static {self.described(where)} must be hashable; got "
                    f"{type(value).__name__}: {value!r:.60}. Use a tuple for a list, or make the argument dynamic") from e
        return dynamic, rest, tuple((w, type(v), v) for w, v in sorted(static, key=lambda p: str(p[0])))

    def join(self, dynamic: Sequence[Any], kwargs: dict[str, Any], static: Any) -> tuple[list[Any], dict[str, Any]]:
        """The inverse of `split`."""
        at = {w: v for w, _, v in static if isinstance(w, int)}
        rest = iter(dynamic)
        args = [at[i] if i in at else next(rest) for i in range(len(dynamic) + len(at))]
        named = {w: v for w, _, v in static if isinstance(w, str)}
        return args, {**kwargs, **named}


def flat_arguments(call: str, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """A call's arguments, flat, and the structure of `(args, kwargs)`.

    Args:
      call: what is being done, as "jit".
      name: the function's name.
      args, kwargs: what it was called with.
    Returns:
      (leaves, structure).
    Raises:
      TypeError: a dict has keys that do not sort against each other; the message names the argument.

    >>> flat_arguments("jit", "f", (1, {"a": 2}), {})[0]
    [1, 2]
    """
    try:
        return trees.tree_flatten((tuple(args), kwargs))
    except (TypeError, ValueError) as e:
        raise unsorted_argument(f"{call} of `{name}`", args, kwargs) or e from None


def unsorted_argument(lead: str, args: Sequence[Any], kwargs: dict[str, Any]) -> TypeError | None:
    """An error about the first dict among a call's arguments whose keys do not sort; None without one."""
    return trees.unsorted_keys((tuple(args), kwargs), None, _argument, lead)


def _argument(path: Sequence[Any]) -> str:
    return ("args" if path and getattr(path[0], "idx", None) == 0 else "kwargs") + trees.keystr(path[1:])


def _path(tree: Any, leaf: int) -> tuple[Any, ...]:
    marked = trees.tree_unflatten(tree, list(range(tree.num_leaves)))
    return next((path for path, at in trees.tree_flatten_with_path(marked)[0] if at == leaf), ())


def argument_path(tree: Any, leaf: int, fun: Any = None, static: Collection[int] = ()) -> str:
    """The user's words for a flat argument.

    Args:
      tree: the structure of `(args, kwargs)`.
      leaf: the number of the argument.
      fun: the function, whose names of its parameters are used; None: they are told by their positions.
      static: positions of arguments that are not in the tree.
    Returns:
      Text such as `params['w']`; without a function `args[0]['w']` or `kwargs['x']`.

    >>> tree = trees.tree_structure((({"w": 0},), {"x": 0}))
    >>> argument_path(tree, 0), argument_path(tree, 1)
    ("args[0]['w']", "kwargs['x']")
    >>> argument_path(tree, 0, lambda n, params, x: x, static=[0])
    "params['w']"
    """
    path = _path(tree, leaf)
    if not path:
        return f"argument {leaf}"
    if fun is None:
        return _argument(path)
    at = getattr(path[1], "idx", None)
    if at is None:  # by keyword
        return f"{path[1].key}{trees.keystr(path[2:])}"
    for n in sorted(static):
        at += n <= at
    return argument_name(fun, at) + trees.keystr(path[2:])


def argument_name(fun: Any, position: int) -> str:
    """What a function calls the argument at a position.

    Args:
      fun: the function.
      position: counted from the front.
    Returns:
      A name; where there is none to be had, text such as `args[2]`.

    >>> argument_name(lambda x, *more: x, 0), argument_name(lambda x, *more: x, 2)
    ('x', 'args[2]')
    """
    known = _parameters(fun)
    return known[0][position] if known is not None and position < len(known[0]) else f"args[{position}]"


def result_path(tree: Any, leaf: int) -> str:
    """The user's words for a flat result.

    Args:
      tree: the structure of what the function returned.
      leaf: the number of the result.
    Returns:
      Text such as `output['loss']`.

    >>> result_path(trees.tree_structure((0, {"loss": 0})), 1)
    "output[1]['loss']"
    """
    return f"output{trees.keystr(_path(tree, leaf))}"


def flat_types(call: str, name: str, flat: Sequence[Any], tree: Any, library: Sequence[str] | None = None
               ) -> tuple[ShapedArray, ...]:
    """Types of flat arguments.

    In a list, objects that give an array (`__jax_array__`) are replaced by it.

    Args:
      call: what is being done, as "jit".
      name: the function's name.
      flat: arrays, traced values, numbers.
      tree: the structure of `(args, kwargs)` that they were.
      library: the names of the arguments' positions, where the function is one of ours: of its being jitted nothing is
        said.
    Returns:
      A tuple of types.
    Raises:
      TypeError: one is no array or number; the message names the argument.
      DTypeError: one has a dtype that arrays cannot have.
      OverflowError: a Python integer fits no dtype.

    >>> flat_types("jit", "f", [2.0], trees.tree_structure(((0,), {})))
    (ShapedArray(float32[], weak_type=True),)
    >>> flat_types("jit", "f", ["two"], trees.tree_structure(((0,), {})))
    Traceback (most recent call last):
    TypeError: jit of `f`: args[0]: ...
    """
    try:
        return tuple([x.aval if isinstance(x, Tracer) else aval_of(x) for x in flat])
    except (TypeError, OverflowError) as e:
        if isinstance(flat, list) and any(map(stands_for_array, flat)):
            flat[:] = [x.__jax_array__() if stands_for_array(x) else x for x in flat]
            return flat_types(call, name, flat, tree, library)
        for i, x in enumerate(flat):
            try:
                if not isinstance(x, Tracer):
                    aval_of(x)
            except (TypeError, OverflowError) as bad:
                if library is not None:
                    raise type(bad)(f"{name}: {_parameter(argument_path(tree, i), library)}: {bad}") from None
                if isinstance(bad, DTypeError):
                    raise DTypeError(f"{call} of `{name}`: {argument_path(tree, i)}: {bad}") from None
                raise type(bad)(f"{call} of `{name}`: {argument_path(tree, i)}: {bad}; mark Python values with "
                                "static_argnums or static_argnames") from None
        raise e


def called_as(name: str) -> str:
    """The name by which a function of ours was called: that of our outermost frame, where the jitted one is a helper."""
    if name[0] not in "_<":
        return name
    frame = sys._getframe(1)
    while frame is not None and is_own_file(frame.f_code.co_filename):
        own, frame = frame.f_code.co_name, frame.f_back  # type: ignore[assignment]
    return name if own in ("guarded", "miss", "jitted", "<lambda>") else own


def _parameter(path: str, names: Sequence[str]) -> str:
    """`args[0][1]` as `x[1]`, `kwargs['axis']` as `axis`."""
    found = re.match(r"args\[(\d+)\]|kwargs\['(\w+)'\]", path)
    if found is None:
        return path
    at, name = found.groups()
    if name is None:
        name = names[int(at)] if int(at) < len(names) else f"argument {at}"
    return name + path[found.end():]


def duck_types(call: str, name: str, flat: Sequence[Any], tree: Any) -> tuple[ShapedArray, ...]:
    """Types of flat arguments, where anything with `shape` and `dtype` will do.

    Args:
      call: what is being done, as "lower".
      name: the function's name.
      flat: arrays, traced values, numbers, descriptions of arrays.
      tree: the structure of `(args, kwargs)` that they were.
    Returns:
      A tuple of types.
    Raises:
      TypeError: one is nothing of the kind; the message names the argument.
      DTypeError: one has a dtype that arrays cannot have.

    >>> class Described:
    ...     shape, dtype = (2,), "float32"
    >>> duck_types("lower", "f", [Described()], trees.tree_structure(((0,), {})))
    (ShapedArray(float32[2]),)
    """
    def one(i: int, x: Any) -> ShapedArray:
        if isinstance(x, Tracer):
            return x.aval
        try:
            return aval_of(x)
        except DTypeError:
            raise
        except TypeError:
            if stands_for_array(x):
                return typeof(x)
            if hasattr(x, "shape") and hasattr(x, "dtype"):
                return shaped(tuple(x.shape), canonical(x.dtype), bool(getattr(x, "weak_type", False)))
            raise TypeError(f"{call} of `{name}`: {argument_path(tree, i)}: expected an array, a number, or an object "
                            f"with shape and dtype; got {type(x).__name__}") from None

    return tuple(one(i, x) for i, x in enumerate(flat))


def flat_results(call: str, name: str, out: Any) -> tuple[list[Any], Any]:
    """What a function returned, flat, and its structure, checked: arrays and numbers.

    Args:
      call: what is being done, as "jit".
      name: the function's name.
      out: what it returned.
    Returns:
      (leaves, structure).
    Raises:
      TypeError: something else is among it, or a dict whose keys do not sort; the message says where.

    >>> flat_results("jit", "f", (1.0, "two"))
    Traceback (most recent call last):
    TypeError: jit of `f`: the function returned str at output[1]; expected arrays, numbers and trees of them
    """
    try:
        flat, tree = trees.tree_flatten(out)
    except (TypeError, ValueError) as e:
        raise trees.unsorted_keys(out, None, lambda path: f"output{trees.keystr(path)}", f"{call} of `{name}`") or e from None
    for i, x in enumerate(flat):
        if isinstance(x, Tracer):
            continue
        try:
            aval_of(x)
        except TypeError:
            raise TypeError(f"{call} of `{name}`: the function returned {type(x).__name__} at {result_path(tree, i)}; "
                            "expected arrays, numbers and trees of them") from None
    return flat, tree
