"""`vmap` in chunks: a batch of more than `chunk` examples is mapped one chunk at a time, in a loop of the compiled
program.

Intermediate values of a mapped function take memory for all examples. Here they take that of one chunk. The first
chunk, with the remaining examples, is mapped by the default strategy, which shows which results depend on the batch.
The other chunks are iterations of a `scan` whose body is the default `vmap`. A batch with a named axis is not split,
because its examples communicate. Neither is one whose function contains a `custom_vmap`, because its rule gets all
examples.

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


class _MustNotSplit(Exception):
    """The batch must not be split: its function has a user-defined rule for all examples."""


class Chunk(BatchAxis):
    """The axis of one chunk. It differs from other axes of its size, because programs of nested calls are cached by
    axis."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Chunk and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash((Chunk, *self))


def _require_whole(axis: BatchAxis, args: Any, dims: Any, /, **params: Any) -> Any:
    if isinstance(axis, Chunk):
        raise _MustNotSplit
    return _default_rule(axis, args, dims, **params)


_default_rule = batching_rules[prims.custom_vmap_call_p]
batching_rules.define(prims.custom_vmap_call_p, _require_whole)


def in_chunks(chunk: int) -> Callable[..., Any]:
    """Return the strategy: how `vmap` applies a function to a batch."""
    if chunk < 1:
        raise ValueError(f"chunked_vmap: chunk must be at least 1; got {chunk}")

    def strategy(fun: Callable[..., Sequence[Any]], axis: BatchAxis, args: Sequence[Any],
                 dims: Sequence[int | None]) -> tuple[Sequence[Any], Sequence[int | None]]:
        num_chunks = (axis.size - 1) // chunk  # full chunks, such that the first part is not empty
        if num_chunks < 1 or axis.name is not None:
            return run_batched(fun, axis, args, dims)
        first = axis.size - num_chunks * chunk
        batched = [i for i, d in enumerate(dims) if d is not None]
        batches = [materialise(args[i], dims[i], axis.size) for i in batched]

        def run_chunk(size: int, parts: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
            ins, at = list(args), list(dims)
            for i, part in zip(batched, parts):
                ins[i], at[i] = part, 0
            outs, places = run_batched(fun, Chunk(size), ins, at)
            outs = [o if d is None else move_axis(o, d, 0) for o, d in zip(outs, places)]
            return outs, [d if d is None else 0 for d in places]

        try:
            heads, places = run_chunk(first, [lax.slice_in_dim(b, 0, first, 1, 0) for b in batches])
        except _MustNotSplit:
            return run_batched(fun, axis, args, dims)
        mapped = [i for i, d in enumerate(places) if d is not None]
        if not mapped:
            return heads, places

        def run_next(_: Any, parts: Sequence[Any]) -> tuple[None, list[Any]]:
            outs, at = run_chunk(chunk, parts)
            return None, [materialise(outs[i], at[i], chunk) for i in mapped]

        rest = [lax.slice_in_dim(b, first, axis.size, 1, 0) for b in batches]
        xs = [lax.reshape(r, (num_chunks, chunk, *r.shape[1:])) for r in rest]
        tails = lax.scan(run_next, None, xs, length=num_chunks)[1]
        for i, tail in zip(mapped, tails):
            heads[i] = lax.concatenate([heads[i], lax.reshape(tail, (num_chunks * chunk, *tail.shape[2:]))], 0)
        return heads, places

    return strategy


def chunked_vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, chunk: int = CHUNK, **rest: Any) -> Any:
    """Map one function over `chunk` examples at once; the other arguments are those of `vmap`."""
    return make_vmap(in_chunks(chunk))(fun, in_axes, out_axes, **rest)


vmap = make_vmap(in_chunks(CHUNK))
hooks.set_basis_map(lambda push, basis: vmap(push)(*basis))
