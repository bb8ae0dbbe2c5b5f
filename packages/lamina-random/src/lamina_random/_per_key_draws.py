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

from ._bits import draw_bits, key_lanes, word_of
from ._prng_impl import is_typed
from ._keys import split_core
from ._normal import unit_of, unit_width

__all__ = ["begin", "following", "lane_bits", "lane_keys", "lane_split"]

Keys = Any  # uint32[2, *shape], first and second words of the shape drawn; or typed keys of this shape


def _one_by_one(draw: Callable[[Any], Any], keys: Any) -> Any:
    """`draw` of each key; its results have more axes behind those of the keys. So it stays under `vmap`, where other draws of
    such keys are one for all of them."""
    aval = typeof(keys)
    if not aval.shape:
        keys = lax.expand_dims(keys, (0,))
    program = stage(lambda keys: [_looped(draw, keys)], [typeof(keys)])[0]

    def rule(size: int, batched: Any, args: Any) -> Any:
        return [_one_by_one(draw, *args)], [True]
    made, = bind(prims.custom_vmap_call_p, keys, call_jaxpr=program, name="one_by_one", num_consts=0,
                 rule=prims.Rule("one_by_one", call=rule))
    return made if aval.shape else lax.squeeze(made, (0,))


def _looped(draw: Callable[[Any], Any], keys: Any) -> Any:
    aval = typeof(keys)
    made = lax.map(draw, lax.reshape(keys, (aval.size,)))
    return lax.reshape(made, (*aval.shape, *typeof(made).shape[1:]))


def _row(x: Any, i: int) -> Any:
    return lax.index_in_dim(x, i, 0, keepdims=False)


def _spread(x: Any, shape: tuple[int, ...], trailing: bool = True) -> Any:
    """`x` along the last axes of a shape, or along the first ones."""
    rank = len(typeof(x).shape)
    return lax.broadcast_in_dim(x, shape, tuple(range(len(shape) - rank, len(shape)) if trailing else range(rank)))


def lane_keys(key: Any, shape: tuple[int, ...], part: bool) -> Keys:
    """A key for each element: `split(key, shape)`; of several keys, in rows, each gives those of a row."""
    return split_core(key, shape, part) if is_typed(key) else key_lanes("split", key, shape, part)


def lane_split(keys: Keys, count: int, part: bool) -> Any:
    """`split(key, count)` of each key, one behind the other along a new first axis."""
    if is_typed(keys):
        made, at = _one_by_one(lambda key: split_core(key, (count,), part), keys), len(typeof(keys).shape)
        return lax.concatenate([lax.expand_dims(lax.index_in_dim(made, j, at, keepdims=False), (0,)) for j in range(count)], 0)
    shape = (count, *typeof(keys).shape)
    place = np.arange(2 * count, dtype=np.uint32).reshape(count, 2)  # of key i and word w
    if part:
        first, counters = place % 2 == 0, (np.zeros_like(place), place // 2)
    else:  # pairs the counters j and j + count, and lists first words before second words
        first, counters = place < count, (place % count, place % count + np.uint32(count))
    words = lax.threefry2x32(*(_spread(_row(keys, i), shape) for i in (0, 1)), *(_spread(c, shape, False) for c in counters))
    return lax.select(_spread(first, shape, False), *words)


def lane_bits(keys: Keys, dtype: np.dtype, part: bool) -> Any:
    """As many bits as a number of a dtype in [0, 1) takes, from each key."""
    width = unit_width(dtype)
    if is_typed(keys):
        return _one_by_one(lambda key: draw_bits("gamma", key, width, (), part), keys)
    return word_of([_row(keys, i) for i in (0, 1)], width, part)


# --- one number from each lane, then two again and again ----------------------------------------------------------
def begin(key: Any, shape: tuple[int, ...], dtype: np.dtype, part: bool) -> tuple[Any, Any]:
    """(the state of the lanes, a number in [0, 1) for each)."""
    keys = lane_keys(key, shape, part)
    made = lane_split(keys, 2, part)
    u = unit_of(lane_bits(_row(made, 1), dtype, part), dtype)
    own = _row(made, 0)
    if is_typed(key):
        return (own, own, own), u
    three = (3, *typeof(own).shape)
    kind = np.dtype(f"uint{unit_width(dtype)}")
    drawn = keys if kind == typeof(keys).dtype else lax.full((2, *typeof(u).shape), 0, kind)
    return (_spread(own, three), made, drawn), u


def following(state: Any, again: Any, done: Any, dtype: np.dtype, part: bool) -> tuple[Any, Any, Any]:
    """(the state, two numbers in [0, 1) for each lane): the first is drawn with a lane's next key, or, where `again`, with what
    follows in the one before. Lanes that are `done` give the same numbers again, but those of typed keys any."""
    if is_typed(state[0]):
        return _following_typed(state, again, dtype, part)
    # `own` are three keys of each lane: the one its next keys come from, and those of both numbers. That of the first is split
    # in two, `pairs`: one for when it is drawn again, and the one it is drawn with. `drawn` is carried for the reason above.
    own, pairs, drawn = state
    shape, place = typeof(own).shape, np.arange(3)
    before = lax.select(_spread(place == 1, shape, False), _spread(_row(pairs, 0), shape), own)
    own = lax.select(_spread(again, shape), before, lane_split(_row(own, 0), 3, part))
    pairs = lane_split(_row(own, 1), 2, part)
    two = (2, *typeof(again).shape)
    first = _spread(np.array([True, False]), two, False)
    now = [lax.select(first, _spread(_row(_row(pairs, 1), i), two), _spread(_row(_row(own, 2), i), two)) for i in (0, 1)]
    drawn = lax.select(_spread(done, two), drawn, word_of(now, unit_width(dtype), part))
    return (own, pairs, drawn), unit_of(_row(drawn, 0), dtype), unit_of(_row(drawn, 1), dtype)


def _following_typed(state: Any, again: Any, dtype: np.dtype, part: bool) -> tuple[Any, Any, Any]:
    made = lane_split(state[0], 3, part)
    keys, key_x, key_u = (lax.select(again, old, _row(made, i)) for i, old in enumerate(state))
    pair = lane_split(key_x, 2, part)
    x, u = (unit_of(lane_bits(k, dtype, part), dtype) for k in (_row(pair, 1), key_u))
    return (keys, _row(pair, 0), key_u), x, u
