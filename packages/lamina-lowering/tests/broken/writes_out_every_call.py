"""Defect: every call of a nested program is inlined."""
from lamina_ir import inline_calls
from lamina_lowering import _default
from lamina_lowering._default import *

__contract__ = 1


def lower(closed_jaxpr, **options):
    return _default.lower(inline_calls(closed_jaxpr), **options)
