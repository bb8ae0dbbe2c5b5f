"""Generators: what makes keys, splits them, folds numbers into them and draws bits with them; and which one a key is for.

The cores of draws take a key as `unwrap_key` returns it: two words for Threefry, or a typed key of another generator,
whose functions are found here by the key's dtype. `unwrap_key` records the use of the user's key; later uses are
`inner`, and there may be any number of them.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override
from lamina_ir import DTypeError, ShapeError, config, dtypes, prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, typeof

__all__ = ["PRNGImpl", "THREEFRY", "draw_typed_bits", "find_impl", "fold_in_typed_key", "get_default_name", "get_impl",
           "get_impl_name", "get_tag", "is_typed", "make_typed_key", "register_impl", "split_typed_key", "unwrap_words",
           "wrap_words"]

THREEFRY = "threefry2x32"
_NAMELESS = "<unnamed>"
_U32 = np.dtype("uint32")


class PRNGImpl(NamedTuple):
    """A generator, as `define_prng_impl` makes it; wherever there is an `impl=`, it can be given."""

    key_shape: tuple[int, ...]
    seed: Callable[..., Any]
    split: Callable[..., Any]
    random_bits: Callable[..., Any]
    fold_in: Callable[..., Any]
    name: str = _NAMELESS
    tag: str = "?"

    @override
    def __repr__(self) -> str:
        return f"PRNGImpl(name={self.name!r}, tag={self.tag!r}, key_shape={self.key_shape})"


_dtypes: dict[PRNGImpl, np.dtype] = {}
_impls: dict[np.dtype, PRNGImpl] = {}
_names: dict[str, list[PRNGImpl]] = {}
_defining = threading.Lock()


def register_impl(impl: PRNGImpl, dtype: np.dtype | None = None) -> PRNGImpl:
    """`impl`, whose keys have an element type from now on; equal ones have the same."""
    if impl not in _dtypes:
        with _defining:
            if impl not in _dtypes:
                made = dtype if dtype is not None else dtypes.define_key_type(impl.tag, prod(impl.key_shape))
                _impls[made] = impl
                _names.setdefault(impl.name, []).append(impl)
                _dtypes[impl] = made  # last: it says that the rest is there
    return impl


def get_default_name() -> str:
    """The generator of new keys, and of keys that are plain words."""
    return config.default_prng_impl.value


def find_impl(call: str, impl: Any) -> PRNGImpl:
    """The generator that `impl=` says: by name, by itself, or by default."""
    if isinstance(impl, PRNGImpl):
        return register_impl(impl)
    name = get_default_name() if impl is None else impl
    of_name = _names.get(name, []) if isinstance(name, str) and name != _NAMELESS else []
    if len(of_name) == 1:
        return of_name[0]
    if of_name:
        raise ValueError(f"{call}: {len(of_name)} generators are called {impl!r}; give the one that define_prng_impl returned")
    names = ", ".join(repr(n) for n, impls in _names.items() if len(impls) == 1 and n != _NAMELESS)
    raise ValueError(f"{call}: impl must be a generator, or the name of one, which is one of {names}; got {impl!r}")


def get_impl_name(impl: PRNGImpl) -> Any:
    """Return the `impl=` argument for a generator: its name if the name is unique, else the generator."""
    return impl.name if len(_names[impl.name]) == 1 and impl.name != _NAMELESS else impl


def get_tag(impl: PRNGImpl) -> str:
    return dtypes.key_tag(_dtypes[impl])


def is_typed(key: Any) -> bool:
    """Whether `key` holds typed keys."""
    kind = getattr(key, "dtype", None)
    return isinstance(kind, np.dtype) and dtypes.is_key(kind)


def get_impl(key: Any) -> PRNGImpl:
    """The generator of typed keys."""
    kind = typeof(key).dtype
    impl = _impls.get(kind)
    if impl is None:
        raise DTypeError(f"no generator of {dtypes.long_name(kind)} keys is defined in this process; "
                         "lamina.extend.random.define_prng_impl defines one")
    return impl


def unwrap_words(use: str, keys: Any) -> Any:
    """The words of typed keys, to be used as said: uint32[..., *key_shape]."""
    words = bind(prims.random_unwrap_p, keys, use=use)
    shape = get_impl(keys).key_shape
    return words if len(shape) == 1 else lax.reshape(words, (*typeof(keys).shape, *shape))


def wrap_words(call: str, words: Any, impl: PRNGImpl, lead: tuple[int, ...] | None = None) -> Any:
    """Typed keys of words `[..., *key_shape]`; `lead` is the shape they must have, where that is known."""
    aval, n = typeof(words), len(impl.key_shape)
    front = aval.shape[:len(aval.shape) - n]
    if aval.dtype != _U32 or (*front, *impl.key_shape) != aval.shape or lead is not None and front != lead:
        expected = ", ".join(map(str, (*(["..."] if lead is None else lead), *impl.key_shape)))
        raise ShapeError(f"{call}: key data for {impl.name} must be uint32[{expected}]; got {aval.str_long()}")
    flat = words if n == 1 else lax.reshape(words, (*front, prod(impl.key_shape)))
    return bind(prims.random_wrap_p, flat, impl=get_tag(impl))


def make_typed_key(impl: PRNGImpl, seed: Any) -> Any:
    """A typed key from a rank-0 integer array."""
    return wrap_words(f"{impl.name}: what `seed` returns", impl.seed(seed), impl, ())


def split_typed_key(key: Any, shape: tuple[int, ...]) -> Any:
    """New typed keys from one of a generator that is not Threefry."""
    impl = get_impl(key)
    return wrap_words(f"{impl.name}: what `split` returns", impl.split(unwrap_words("inner", key), shape), impl, shape)


def fold_in_typed_key(key: Any, data: Any) -> Any:
    """A new typed key from one and a number."""
    impl = get_impl(key)
    return wrap_words(f"{impl.name}: what `fold_in` returns", impl.fold_in(unwrap_words("inner", key), data), impl, ())


def draw_typed_bits(key: Any, width: int, shape: tuple[int, ...]) -> Any:
    """Bits drawn with a typed key: unsigned integers of that width."""
    impl = get_impl(key)
    made = impl.random_bits(unwrap_words("inner", key), width, shape)
    aval = typeof(made)
    if aval.shape != shape or aval.dtype != np.dtype(f"uint{width}"):
        wanted = f"uint{width}[{','.join(map(str, shape))}]"
        raise ShapeError(f"{impl.name}: the result of `random_bits` must be {wanted}; got {aval.str_long()}")
    return made
