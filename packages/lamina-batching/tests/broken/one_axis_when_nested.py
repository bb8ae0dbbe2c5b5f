"""Defect: an inner map takes its axis from the whole batch instead of one example."""
from lamina_batching import _default
from lamina_batching._default import *
from lamina_tracing.extend import Tracer

__contract__ = 1


def vmap(fun, in_axes=0, out_axes=0, **options):
    def mapped(*args, **kwargs):
        inside = any(isinstance(a, Tracer) and getattr(a, "ndim", 0) > 1 for a in args)
        axes = -1 if inside and in_axes == 0 else in_axes
        return _default.vmap(fun, axes, out_axes, **options)(*args, **kwargs)
    return mapped
