"""Batching rule of `fft`: the transform works on the last axes, so the batch axis is moved first."""
from __future__ import annotations

from lamina_ir import prims
from lamina_tracing.extend import bind

from ..batch_trace import move_axis
from ..tables import batching_rules

__all__: list[str] = []

batching_rules.define(prims.fft_p, lambda axis, args, dims, **params: (
    bind(prims.fft_p, move_axis(args[0], dims[0], 0), **params), 0))
