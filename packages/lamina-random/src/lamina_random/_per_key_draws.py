"""Draws in which each element has a key of its own: what `split` and scalar draws give for every key of an array of keys.

`vmap` would give the same results; here one threefry primitive computes all elements, and the package does not depend on
batching. Keys of other generators, which are typed, draw one after the other.

The compiler fuses elementwise operations into each consumer, and would run threefry again in each of them. Therefore the data
of keys that are made together is one array, and values with several consumers are carried by the loop that draws, which
computes them once.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from lamina_ir import prims
from lamina_tracing import lax
from lamina_tracing.extend import bind, stage, typeof

from ._bits import draw_bits, draw_per_key, split_to_lanes
from ._prng_impl import is_typed
from ._keys import split_core
from ._normal import bits_to_unit, count_unit_bits

__all__ = ["draw_lane_bits", "draw_next", "make_lane_keys", "split_lanes", "start_lanes"]

Keys = Any  # uint32[2, *shape], first and second words of the shape drawn; or typed keys of this shape


def _draw_per_key(draw: Callable[[Any], Any], keys: Any) -> Any:
    """`draw` of each key; its results have more axes behind those of the keys. So it stays under `vmap`, where other draws of
    such keys are one for all of them."""
    aval = typeof(keys)
    if not aval.shape:
        keys = lax.expand_dims(keys, (0,))
    program = stage(lambda keys: [_loop_over_keys(draw, keys)], [typeof(keys)])[0]

    def rule(size: int, batched: Any, args: Any) -> Any:
        return [_draw_per_key(draw, *args)], [True]
    made, = bind(prims.custom_vmap_call_p, keys, call_jaxpr=program, name="one_by_one", num_consts=0,
                 rule=prims.Rule("one_by_one", call=rule))
    return made if aval.shape else lax.squeeze(made, (0,))


def _loop_over_keys(draw: Callable[[Any], Any], keys: Any) -> Any:
    aval = typeof(keys)
    made = lax.map(draw, lax.reshape(keys, (aval.size,)))
    return lax.reshape(made, (*aval.shape, *typeof(made).shape[1:]))


def _take(x: Any, i: int) -> Any:
    return lax.index_in_dim(x, i, 0, keepdims=False)


def _expand(x: Any, shape: tuple[int, ...], trailing: bool = True) -> Any:
    """`x` along the last axes of a shape, or along the first ones."""
    rank = len(typeof(x).shape)
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - rank, len(shape)) if trailing else range(rank)))


def make_lane_keys(key: Any, shape: tuple[int, ...], part: bool) -> Keys:
    """A key for each element: `split(key, shape)`; of several keys, in rows, each gives those of a row."""
    return split_core(key, shape, part) if is_typed(key) else split_to_lanes("split", key, shape, part)


def split_lanes(keys: Keys, count: int, part: bool) -> Any:
    """`split(key, count)` of each key, one behind the other along a new first axis."""
    if is_typed(keys):
        made, at = _draw_per_key(lambda key: split_core(key, (count,), part), keys), len(typeof(keys).shape)
        return lax.concatenate([lax.expand_dims(lax.index_in_dim(made, j, at, keepdims=False), (0,)) for j in range(count)], 0)
    shape = (count, *typeof(keys).shape)
    place = np.arange(2 * count, dtype=np.uint32).reshape(count, 2)  # of key i and word w
    if part:
        first, counters = place % 2 == 0, (np.zeros_like(place), place // 2)
    else:  # pairs the counters j and j + count, and lists first words before second words
        first, counters = place < count, (place % count, place % count + np.uint32(count))
    words = lax.threefry2x32(*(_expand(_take(keys, i), shape) for i in (0, 1)),
                             *(_expand(c, shape, False) for c in counters))
    return lax.select(_expand(first, shape, False), *words)


def draw_lane_bits(keys: Keys, dtype: np.dtype, part: bool) -> Any:
    """As many bits as a number of a dtype in [0, 1) takes, from each key."""
    width = count_unit_bits(dtype)
    if is_typed(keys):
        return _draw_per_key(lambda key: draw_bits("gamma", key, width, (), part), keys)
    return draw_per_key([_take(keys, i) for i in (0, 1)], width, part)


# --- one number from each lane, then two again and again ----------------------------------------------------------
def start_lanes(key: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> tuple[Any, Any]:
    """(the state of the lanes, a number in [0, 1) for each)."""
    keys = make_lane_keys(key, shape, part)
    made = split_lanes(keys, 2, part)
    u = bits_to_unit(draw_lane_bits(_take(made, 1), dtype, part), dtype)
    own = _take(made, 0)
    if is_typed(key):
        return (own, own, own), u
    three = (3, *typeof(own).shape)
    kind = np.dtype(f"uint{count_unit_bits(dtype)}")
    drawn = keys if kind == typeof(keys).dtype else lax.full((2, *typeof(u).shape), 0, kind)
    return (_expand(own, three), made, drawn), u


def draw_next(state: Any, again: Any, done: Any, dtype: np.dtype, part: bool) -> tuple[Any, Any, Any]:
    """(the state, two numbers in [0, 1) for each lane): the first is drawn with a lane's next key, or, where `again`, with what
    follows in the one before. Lanes that are `done` give the same numbers again, but those of typed keys any."""
    if is_typed(state[0]):
        return _draw_next_typed(state, again, dtype, part)
    # `own` are three keys of each lane: the one its next keys come from, and those of both numbers. That of the first is split
    # in two, `pairs`: one for when it is drawn again, and the one it is drawn with. `drawn` is carried for the reason above.
    own, pairs, drawn = state
    shape, place = typeof(own).shape, np.arange(3)
    before = lax.select(_expand(place == 1, shape, False), _expand(_take(pairs, 0), shape), own)
    own = lax.select(_expand(again, shape), before, split_lanes(_take(own, 0), 3, part))
    pairs = split_lanes(_take(own, 1), 2, part)
    two = (2, *typeof(again).shape)
    first = _expand(np.array([True, False]), two, False)
    now = [lax.select(first, _expand(_take(_take(pairs, 1), i), two),
                      _expand(_take(_take(own, 2), i), two)) for i in (0, 1)]
    drawn = lax.select(_expand(done, two), drawn, draw_per_key(now, count_unit_bits(dtype), part))
    return (own, pairs, drawn), bits_to_unit(_take(drawn, 0), dtype), bits_to_unit(_take(drawn, 1), dtype)


def _draw_next_typed(state: Any, again: Any, dtype: np.dtype, part: bool) -> tuple[Any, Any, Any]:
    made = split_lanes(state[0], 3, part)
    keys, key_x, key_u = (lax.select(again, old, _take(made, i)) for i, old in enumerate(state))
    pair = split_lanes(key_x, 2, part)
    x, u = (bits_to_unit(draw_lane_bits(k, dtype, part), dtype) for k in (_take(pair, 1), key_u))
    return (keys, _take(pair, 0), key_u), x, u
