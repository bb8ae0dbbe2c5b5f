"""`jax.util`: helpers on lists and functions."""
from __future__ import annotations

import functools
import math
import operator
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from lamina_ir import config
from lamina_ir.typing import Function
from typing_extensions import override

__all__ = ["HashableFunction", "HashablePartial", "HashableWrapper", "NumpyComplexWarning", "WrapKwArgs", "as_hashable_function",
           "cache", "canonicalize_axis", "canonicalize_axis_tuple", "ceil_of_ratio", "concatenate", "curry", "flatten", "foreach",
           "fun_name", "memoize", "merge_lists", "partial", "partition_list", "prod", "safe_map", "safe_zip", "set_module",
           "split_dict", "split_list", "split_list_checked", "split_merge", "stable_unique", "subs_list", "subs_list2", "subvals",
           "toposort", "tuple_delete", "tuple_insert", "tuple_replace", "tuple_update", "unflatten", "unzip2", "unzip3",
           "weakref_lru_cache", "wrap_name", "wraps"]

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)
NumpyComplexWarning = np.exceptions.ComplexWarning
prod = math.prod


def _require_same_lengths(call: str, lists: Sequence[Sequence[Any]]) -> None:
    lengths = [len(x) for x in lists]
    if len(set(lengths)) > 1:
        raise ValueError(f"{call}: the arguments must have the same length; got lengths {lengths}")


def _require(condition: bool, text: str) -> None:
    """Raise AssertionError, which programs for JAX expect from these functions."""
    if not condition:
        raise AssertionError(text)


def safe_map(f: Function, *args: Iterable[Any]) -> list[Any]:
    """Return the list of `f(x, y, ...)` over iterables of the same length.

    >>> safe_map(lambda x, y: x + y, [1, 2], (3, 4))
    [4, 6]
    >>> safe_map(lambda x, y: x + y, [1, 2], [3])
    Traceback (most recent call last):
    ValueError: safe_map: the arguments must have the same length; got lengths [2, 1]
    """
    lists = [list(a) for a in args]
    _require_same_lengths("safe_map", lists)
    return list(map(f, *lists))


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the list of tuples of the elements of iterables of the same length.

    >>> safe_zip([1, 2], (3, 4))
    [(1, 3), (2, 4)]
    """
    lists = [list(a) for a in args]
    _require_same_lengths("safe_zip", lists)
    return list(zip(*lists))


def foreach(f: Function, *args: Iterable[Any]) -> None:
    """Call `f(x, y, ...)` for the elements of iterables of the same length."""
    safe_map(f, *args)


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the first elements and the second elements of pairs.

    >>> unzip2([(1, "a"), (2, "b")]), unzip2([])
    (((1, 2), ('a', 'b')), ((), ()))
    """
    pairs = list(xys)
    return tuple([x for x, _ in pairs]), tuple([y for _, y in pairs])


def unzip3(xyzs: Iterable[tuple[Any, Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return the first, second and third elements of triples."""
    triples = list(xyzs)
    return tuple([x for x, _, _ in triples]), tuple([y for _, y, _ in triples]), tuple([z for _, _, z in triples])


def split_list(args: Iterable[_T], ns: Sequence[int]) -> list[list[_T]]:
    """Cut a list into parts of these lengths, and the rest.

    >>> split_list([1, 2, 3, 4], [1, 2])
    [[1], [2, 3], [4]]
    """
    rest, parts = list(args), []
    for n in ns:
        parts.append(rest[:n])
        rest = rest[n:]
    return [*parts, rest]


def split_list_checked(args: Iterable[_T], ns: Sequence[int]) -> list[list[_T]]:
    """Cut a list into parts of these lengths; AssertionError if their sum is another number."""
    values = list(args)
    _require(sum(ns) == len(values), f"split_list_checked: the lengths {list(ns)} must sum to {len(values)}, the number of values")
    return split_list(values, ns)[:-1]


def partition_list(bs: Sequence[bool], values: Sequence[_T]) -> tuple[list[_T], list[_T]]:
    """Return the values whose flag is false, and those whose flag is true.

    >>> partition_list([True, False, True], "abc")
    (['b'], ['a', 'c'])
    """
    _require(len(bs) == len(values), f"partition_list: expected as many flags as values; got {len(bs)} and {len(values)}")
    return [x for b, x in zip(bs, values) if not b], [x for b, x in zip(bs, values) if b]


def merge_lists(bs: Sequence[bool], l0: Sequence[_T], l1: Sequence[_T]) -> list[_T]:
    """Undo `partition_list`.

    >>> merge_lists([True, False, True], ["b"], ["a", "c"])
    ['a', 'b', 'c']
    """
    n1 = sum(map(bool, bs))
    _require((len(l0), len(l1)) == (len(bs) - n1, n1),
             f"merge_lists: expected {len(bs) - n1} and {n1} values, as the flags say; got {len(l0)} and {len(l1)}")
    i0, i1 = iter(l0), iter(l1)
    return [next(i1) if b else next(i0) for b in bs]


def split_merge(predicate: Callable[[_T], bool], xs: Sequence[_T]) -> tuple[list[_T], list[_T], Callable[..., list[_T]]]:
    """Return the values for which the predicate is true, the others, and a function that merges two such lists.

    >>> odd, even, merge = split_merge(lambda x: x % 2, [1, 2, 3])
    >>> odd, even, merge(["a", "b"], ["c"])
    ([1, 3], [2], ['a', 'c', 'b'])
    """
    flags = [bool(predicate(x)) for x in xs]
    others, chosen = partition_list(flags, list(xs))
    return chosen, others, lambda new_chosen, new_others: merge_lists(flags, list(new_others), list(new_chosen))


def subs_list(subs: Sequence[int | None], src: Sequence[_T], base: Sequence[_T]) -> list[_T]:
    """Return `base` with the elements of `src` that `subs` names: `src[subs[i]]`, or `base[i]` for None."""
    return [base[i] if s is None else src[s] for i, s in enumerate(subs)]


def subs_list2(subs1: Sequence[int | None], subs2: Sequence[int | None], src1: Sequence[_T], src2: Sequence[_T],
               base: Sequence[_T]) -> list[_T]:
    """Apply `subs_list` for two lists of sources; each position has at most one of them."""
    return subs_list(subs2, src2, subs_list(subs1, src1, base))


def split_dict(dct: Mapping[_K, _T], names: Sequence[_K]) -> list[_T]:
    """Return the values of these keys in order; AssertionError if the mapping has other keys.

    >>> split_dict({"a": 1, "b": 2}, ["b", "a"])
    [2, 1]
    """
    rest = dict(dct)
    values = [rest.pop(name) for name in names]
    _require(not rest, f"split_dict: names must contain all keys; {list(rest)} are absent")
    return values


def concatenate(xs: Iterable[Sequence[_T]]) -> list[_T]:
    """Return the elements of sequences as one list.

    >>> concatenate([[1], [2, 3]])
    [1, 2, 3]
    """
    return [y for x in xs for y in x]


flatten = concatenate


def unflatten(xs: Iterable[_T], ns: Sequence[int]) -> list[list[_T]]:
    """Cut the values into lists of these lengths; AssertionError if their sum is another number."""
    return split_list_checked(xs, ns)


def curry(f: Function) -> Function:
    """Return a function that takes the first arguments of `f` and returns a function of the rest.

    >>> curry(max)(3)(5)
    5
    """
    return partial(partial, f)


def toposort(end_nodes: Sequence[Any]) -> list[Any]:
    """Sort nodes with a list `parents` so that each node is after its parents.

    Args:
      end_nodes: the nodes whose ancestors are sorted.
    Returns:
      All of them, each once.
    Raises:
      ValueError: the graph has a cycle.
    """
    order: list[Any] = []
    state: dict[int, bool] = {}  # id of a node -> whether it is in `order`
    todo = [(node, iter(node.parents)) for node in reversed(_unique_nodes(end_nodes))]
    while todo:
        node, parents = todo[-1]
        if state.get(id(node)):
            todo.pop()
            continue
        state[id(node)] = False
        parent = next((p for p in parents if not state.get(id(p))), None)
        if parent is None:
            state[id(node)] = True
            order.append(node)
            todo.pop()
        elif id(parent) in state:
            raise ValueError(f"toposort: the graph must not have cycles; {parent!r} is its own ancestor")
        else:
            todo.append((parent, iter(parent.parents)))
    return order


def _unique_nodes(nodes: Sequence[Any]) -> list[Any]:
    return list({id(n): n for n in nodes}.values())


def stable_unique(it: Iterable[_K]) -> list[_K]:
    """Return the different elements in the order of their first occurrence."""
    return list(dict.fromkeys(it))


def subvals(lst: Iterable[_T], replace: Iterable[tuple[int, _T]]) -> tuple[_T, ...]:
    """Return the values with some of them replaced.

    >>> subvals((1, 2, 3), [(0, 9)])
    (9, 2, 3)
    """
    values = list(lst)
    for i, value in replace:
        values[i] = value
    return tuple(values)


def tuple_insert(t: tuple[Any, ...], idx: int, val: object) -> tuple[Any, ...]:
    """Return the tuple with a value inserted before position `idx`."""
    _require(0 <= idx <= len(t), f"tuple_insert: idx must be from 0 to {len(t)}; got {idx}")
    return (*t[:idx], val, *t[idx:])


def tuple_delete(t: tuple[Any, ...], idx: int) -> tuple[Any, ...]:
    """Return the tuple without the value at position `idx`."""
    _require(0 <= idx < len(t), f"tuple_delete: idx must be from 0 to {len(t) - 1}; got {idx}")
    return (*t[:idx], *t[idx + 1:])


def tuple_update(t: tuple[Any, ...], idx: int, val: object) -> tuple[Any, ...]:
    """Return the tuple with another value at position `idx`."""
    _require(0 <= idx < len(t), f"tuple_update: idx must be from 0 to {len(t) - 1}; got {idx}")
    return (*t[:idx], val, *t[idx + 1:])


tuple_replace = tuple_update


def canonicalize_axis(axis: Any, num_dims: int) -> int:
    """Return a nonnegative axis; ValueError if it is out of bounds.

    >>> canonicalize_axis(-1, 3)
    2
    """
    index = operator.index(axis)
    if not -num_dims <= index < num_dims:
        raise ValueError(f"axis {index} is out of bounds for array of dimension {num_dims}")
    return index + num_dims if index < 0 else index


def canonicalize_axis_tuple(axis: int | Sequence[int] | None, ndim: int, allow_duplicate: bool = False) -> tuple[int, ...]:
    """Return axes as a tuple of nonnegative ints: all of them for None, one for an int."""
    if axis is None:
        return tuple(range(ndim))
    axes = tuple([canonicalize_axis(a, ndim) for a in (axis if isinstance(axis, Sequence) else (axis,))])
    if not allow_duplicate and len(set(axes)) != len(axes):
        raise ValueError(f"canonicalize_axis_tuple: axes must be different; got {axis}")
    return axes


def ceil_of_ratio(x: int, y: int) -> int:
    """Return the quotient of two integers, rounded up."""
    return -(-x // y)


def wrap_name(name: str, transform_name: str) -> str:
    """Return the name of a transformed function.

    >>> wrap_name("loss", "grad")
    'grad(loss)'
    """
    return f"{transform_name}({name})"


def fun_name(fun: object) -> str:
    """Return the name of a function, also of a partial application; "<unnamed function>" if it has none."""
    while isinstance(fun, partial):
        fun = fun.func
    return str(getattr(fun, "__name__", "<unnamed function>"))


def wraps(wrapped: Function, namestr: str | None = None, docstr: str | None = None, **kwargs: object) -> Callable[[_T], _T]:
    """Return a decorator that copies name, documentation and attributes of a function.

    Args:
      wrapped: the function; attributes that it does not have are left out.
      namestr: the name, with `{fun}` for that of the function.
      docstr: the documentation, with `{fun}`, `{doc}` and the keys of `kwargs`.

    >>> @wraps(abs, namestr="batched_{fun}")
    ... def f(x): return x
    >>> f.__name__
    'batched_abs'
    """
    def decorate(fun: _T) -> _T:
        name, doc = fun_name(wrapped), getattr(wrapped, "__doc__", "") or ""
        new: Any = fun
        try:
            new.__name__ = name if namestr is None else namestr.format(fun=name)
            new.__doc__ = doc if docstr is None else docstr.format(fun=name, doc=doc, **kwargs)
            new.__module__ = getattr(wrapped, "__module__", "<unknown module>")
            new.__qualname__ = getattr(wrapped, "__qualname__", new.__name__)
            new.__annotations__ = getattr(wrapped, "__annotations__", {})
            new.__dict__.update(getattr(wrapped, "__dict__", {}))
            new.__wrapped__ = wrapped
        except AttributeError:
            pass  # an object whose attributes cannot be set, such as a bound method
        return fun
    return decorate


def set_module(module: str) -> Callable[[_T], _T]:
    """Return a decorator that sets `__module__`."""
    def decorate(obj: _T) -> _T:
        obj.__module__ = module
        return obj
    return decorate


# --- caches ---------------------------------------------------------------------------------------------------------
def cache(max_size: Any = 4096, trace_context_in_key: bool = True) -> Any:
    """Return a decorator that caches the latest results by arguments and, by default, by the settings of lamina.

    Args:
      max_size: the number of results; None for no bound.
      trace_context_in_key: whether results depend on settings, such as `enable_x64`.

    >>> @cache(max_size=8)
    ... def square(x): return x * x
    >>> square(3), square(3), square.cache_info().hits
    (9, 9, 1)
    """
    if callable(max_size):  # used as a decorator without arguments
        return cache()(max_size)

    def decorate(f: Function) -> Function:
        def call(_settings: Hashable, *args: Any, **kwargs: Any) -> Any:
            return f(*args, **kwargs)
        cached = functools.lru_cache(max_size)(call)

        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return cached(config.cache_key() if trace_context_in_key else None, *args, **kwargs)
        wrapper.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
        wrapper.cache_info = cached.cache_info  # type: ignore[attr-defined]
        return wrapper
    return decorate


memoize = cache(max_size=None)


def weakref_lru_cache(call: Any = None, maxsize: int | None = 2048, *, trace_context_in_key: bool = True,
                      explain: Function | None = None) -> Any:
    """Cache the results of a function, as long as its first argument lives.

    Args:
      call: `call(obj, *args, **kwargs)`; the other arguments are hashable. A decorator is returned if it is omitted.
      maxsize: the number of results for each object.
      trace_context_in_key: whether results depend on settings, such as `enable_x64`.
      explain: accepted without effect.
    """
    if call is None:
        return partial(weakref_lru_cache, maxsize=maxsize, trace_context_in_key=trace_context_in_key)
    tables: weakref.WeakKeyDictionary[Any, Function] = weakref.WeakKeyDictionary()

    def make_table(obj: Any) -> Function:
        weak = weakref.ref(obj)  # the table must not keep its object alive
        return functools.lru_cache(maxsize)(lambda _settings, *args, **kwargs: call(weak(), *args, **kwargs))

    @functools.wraps(call)
    def cached(obj: Any, *args: Any, **kwargs: Any) -> Any:
        table = tables.get(obj)
        if table is None:
            table = tables[obj] = make_table(obj)
        return table(config.cache_key() if trace_context_in_key else None, *args, **kwargs)

    def evict(obj: Any) -> None:
        tables.pop(obj, None)

    cached.cache_clear = tables.clear  # type: ignore[attr-defined]
    cached.evict_weakref = evict  # type: ignore[attr-defined]
    return cached


# --- hashable functions ---------------------------------------------------------------------------------------------
class HashableFunction:
    """A function that is equal to another one with the same code and the same `closure`.

    Args:
      f: the function. All that its result depends on besides its arguments is in `closure`.
      closure: a hashable value.

    >>> def make(n): return HashableFunction(lambda x: x + n, closure=(n,))
    >>> make(1) == make(1), make(1) == make(2), make(1)(5)
    (True, False, 6)
    """

    def __init__(self, f: Function, closure: Hashable) -> None:
        self.f, self.closure = f, closure

    @override
    def __eq__(self, other: object) -> bool:
        return (type(other) is HashableFunction and self.f.__code__ == other.f.__code__  # type: ignore[attr-defined]
                and self.closure == other.closure)

    @override
    def __hash__(self) -> int:
        return hash((self.f.__code__, self.closure))  # type: ignore[attr-defined]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)

    @override
    def __repr__(self) -> str:
        return f"<hashable {fun_name(self.f)} with closure={self.closure!r}>"


def as_hashable_function(closure: Hashable) -> Callable[[Function], HashableFunction]:
    """Return a decorator that makes a `HashableFunction`."""
    return lambda f: HashableFunction(f, closure)


class HashablePartial:
    """A partial application that is equal to another one with the same code and the same arguments.

    >>> def add(x, y): return x + y
    >>> HashablePartial(add, 1) == HashablePartial(add, 1), HashablePartial(add, 1)(2)
    (True, 3)
    """

    def __init__(self, f: Function, *args: Hashable, **kwargs: Hashable) -> None:
        self.f, self.args, self.kwargs = f, args, kwargs

    def _key(self) -> tuple[Hashable, ...]:
        return getattr(self.f, "__code__", self.f), self.args, tuple(sorted(self.kwargs.items()))

    @override
    def __eq__(self, other: object) -> bool:
        return type(other) is HashablePartial and self._key() == other._key()

    @override
    def __hash__(self) -> int:
        return hash(self._key())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*self.args, *args, **self.kwargs, **kwargs)


class HashableWrapper:
    """A value compared and hashed by itself if it is hashable, else by identity.

    Args:
      x: the value.
    """

    def __init__(self, x: object) -> None:
        self.x = x
        try:
            self._key: Hashable = (hash(x), True)
        except TypeError:
            self._key = (id(x), False)

    @override
    def __hash__(self) -> int:
        return hash(self._key)

    @override
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HashableWrapper):
            return False
        return self.x == other.x if self._key[1] else self.x is other.x  # type: ignore[index]


class WrapKwArgs:
    """Keyword arguments compared by identity.

    Args:
      val: the dict.
    """

    __slots__ = ("val",)

    def __init__(self, val: dict[str, Any]) -> None:
        self.val = val

    @override
    def __hash__(self) -> int:
        return id(self.val)

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrapKwArgs) and self.val is other.val
