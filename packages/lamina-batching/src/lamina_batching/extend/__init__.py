"""The door below the public names, for people who add ops: all names of `extend.ops`, the table of rows and what rows are
made of. Who writes maps over axes finds `in_axes` and sizes checked by `lamina_tracing.extend.MappedAxes`.
"""
from . import ops
from .ops import *

__all__ = sorted(["ops", *ops.__all__])
