"""References as arguments of `vmap`: each example has its own part."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina_batching.extend import BatchAxis, materialise
from lamina_ir.typing import Value
from lamina_tracing import hooks

from ._ref import Ref, make_ref

__all__ = ["map_references"]

_Dims = Sequence[int | None]


def map_references(apply: Callable[..., Any], run: Callable[..., Sequence[Value]], axis: BatchAxis, args: Sequence[Value],
                   dims: _Dims) -> tuple[Sequence[Value], _Dims]:
    """Apply a per-example function to batches, some of which are references; `lamina_tracing.hooks.mapped_references`."""
    at = [i for i, (x, d) in enumerate(zip(args, dims)) if d is not None and isinstance(x, Ref)]
    for k, i in enumerate(at):
        if any(args[i] is args[j] for j in at[:k]):
            raise ValueError(f"vmap: the reference {args[i].aval.str_long()} is passed twice. Pass it once")

    def run_with_references(*xs: Value) -> list[Value]:
        inner = list(xs)
        for i in at:
            inner[i] = make_ref(xs[i])
        outs = run(*inner)
        return [*outs, *[inner[i].read("vmap") for i in at]]

    run_with_references.function_info = getattr(run, "function_info", None)  # type: ignore[attr-defined]
    values = list(args)
    for i in at:
        values[i] = args[i].read("vmap")
    outs, out_dims = apply(run_with_references, axis, values, dims)
    n = len(outs) - len(at)
    for i, out, dim in zip(at, outs[n:], out_dims[n:]):
        out = materialise(out, dim, axis.size, dims[i])  # type: ignore[arg-type]
        if out is not args[i].read("vmap"):
            args[i].write(out, "vmap")
    return outs[:n], out_dims[:n]


hooks.mapped_references = map_references
