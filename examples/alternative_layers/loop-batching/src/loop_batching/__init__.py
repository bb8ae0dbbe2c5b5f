"""`vmap` that binds each primitive once per example. The batching rules are used only for communication between
examples.

The default implementation passes a whole batch to a rule for each primitive. Here a traced value is a list with one
value per example, and a primitive is applied to each of them. This is slow, and as simple as `vmap` can be: a reference
for the rules, and a start for maps that treat examples separately. A collective over the mapped axis has no meaning for
one example; it uses its rule.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lamina_batching import extend
from lamina_batching.extend import BatchAxis, make_vmap, materialise, run_batched
from lamina_batching._default import custom_vmap, sequential_vmap
from lamina_tracing import hooks
from lamina_tracing.extend import AxisFrame, extend_axis_env, hide_frames_of, new_trace_level, trace_state

from .loop_trace import Examples, LoopTrace, stack, unstack

__all__ = ["__version__", "custom_vmap", "extend", "sequential_vmap", "vmap"]
__contract__ = 1
__version__ = "0.1.0"


def by_loop(fun: Callable[..., Sequence[Any]], axis: BatchAxis, args: Sequence[Any],
            dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    """Apply `fun` to each example. An empty batch uses the default strategy, which needs no example to know types."""
    if axis.size == 0:
        return run_batched(fun, axis, args, dims)
    trace = LoopTrace(trace_state.depth + 1, axis)
    # For errors: the user's function, and those of its arguments that are mapped.
    trace.function_info = getattr(fun, "function_info", None)
    trace.transformed_arguments = [i for i, d in enumerate(dims) if d is not None]
    ins = [a if d is None else Examples(trace, unstack(materialise(a, d, axis.size, d), d, axis.size))
           for a, d in zip(args, dims)]
    with new_trace_level(trace), extend_axis_env(*([] if axis.name is None else [AxisFrame(axis.name, axis.size, trace)])):
        outs = list(fun(*ins))
    batched = [trace.owns(o) for o in outs]
    return [stack(o.each) if on else o for o, on in zip(outs, batched)], [0 if on else None for on in batched]


vmap = make_vmap(by_loop)
hooks.set_basis_map(lambda push, basis: vmap(push)(*basis))  # `jacfwd` and `hessian` use it too
hide_frames_of(f"{Path(__file__).parent}/")  # source lines and tracebacks skip this package
