"""`vmap` in chunks: a batch larger than `chunk` examples is mapped a chunk at a time, by a loop of the compiled program.

What lies between the ops of a mapped function takes as much memory as there are examples. Here it takes that of one chunk:
the first chunk, with the examples left over, is mapped as ever, which also says which results depend on the batch; the
others are turns of a `scan` whose body is the stock's `vmap`. A batch with a named axis stays whole, since its examples speak
with each other, and so does one whose function holds a `custom_vmap`, whose rule is told of all examples.

`chunk` examples are mapped at once: `LAMINA_CHUNK` in the environment, `chunked_vmap(f, chunk=32)` for one function.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from lamina_batching import extend
from lamina_batching.extend import BatchAxis, batching_rules, materialise, move_axis, run_batched, make_vmap
from lamina_batching._default import custom_vmap, sequential_vmap
from lamina_ir import prims
from lamina_tracing import lax, hooks

__all__ = ["__version__", "chunked_vmap", "custom_vmap", "extend", "sequential_vmap", "vmap"]
__contract__ = 1
__version__ = "0.1.0"

CHUNK = int(os.environ.get("LAMINA_CHUNK", "1024"))


class _Whole(Exception):
    """The batch must not be cut: its function has a rule of the user's for all examples."""


class Chunk(BatchAxis):
    """The axis of one chunk. It is no other axis of its size: programs of nested calls are remembered by their axis."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Chunk and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((Chunk, *self))


def _ask_for_whole(axis: BatchAxis, args: Any, dims: Any, /, **params: Any) -> Any:
    if isinstance(axis, Chunk):
        raise _Whole
    return _rule_of_user(axis, args, dims, **params)


_rule_of_user = batching_rules[prims.custom_vmap_call_p]
batching_rules.define(prims.custom_vmap_call_p, _ask_for_whole)


def in_chunks(chunk: int) -> Callable[..., Any]:
    """The strategy: how `vmap` applies a function to a batch."""
    if chunk < 1:
        raise ValueError(f"chunked_vmap: chunk must be at least 1; got {chunk}")

    def strategy(fun: Callable[..., Sequence[Any]], axis: BatchAxis, args: Sequence[Any],
                 dims: Sequence[int | None]) -> tuple[Sequence[Any], Sequence[int | None]]:
        turns = (axis.size - 1) // chunk  # as many whole chunks as leave something for the first
        if turns < 1 or axis.name is not None:
            return run_batched(fun, axis, args, dims)
        first = axis.size - turns * chunk
        mine = [i for i, d in enumerate(dims) if d is not None]
        batches = [materialise(args[i], dims[i], axis.size) for i in mine]

        def mapped(size: int, parts: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
            ins, at = list(args), list(dims)
            for i, part in zip(mine, parts):
                ins[i], at[i] = part, 0
            outs, places = run_batched(fun, Chunk(size), ins, at)
            outs = [o if d is None else move_axis(o, d, 0) for o, d in zip(outs, places)]
            return outs, [d if d is None else 0 for d in places]

        try:
            heads, places = mapped(first, [lax.slice_in_dim(b, 0, first, 1, 0) for b in batches])
        except _Whole:
            return run_batched(fun, axis, args, dims)
        carried = [i for i, d in enumerate(places) if d is not None]
        if not carried:
            return heads, places

        def turn(_: Any, parts: Sequence[Any]) -> tuple[None, list[Any]]:
            outs, at = mapped(chunk, parts)
            return None, [materialise(outs[i], at[i], chunk) for i in carried]

        rest = [lax.slice_in_dim(b, first, axis.size, 1, 0) for b in batches]
        tails = lax.scan(turn, None, [lax.reshape(r, (turns, chunk, *r.shape[1:])) for r in rest], length=turns)[1]
        for i, tail in zip(carried, tails):
            heads[i] = lax.concatenate([heads[i], lax.reshape(tail, (turns * chunk, *tail.shape[2:]))], 0)
        return heads, places

    return strategy


def chunked_vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, chunk: int = CHUNK, **rest: Any) -> Any:
    """`vmap` of one function, `chunk` examples at once; the other arguments are those of `vmap`."""
    return make_vmap(in_chunks(chunk))(fun, in_axes, out_axes, **rest)


vmap = make_vmap(in_chunks(CHUNK))
hooks.set_basis_map(lambda push, basis: vmap(push)(*basis))
