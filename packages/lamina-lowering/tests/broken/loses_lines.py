"""Defect: the lowered module has no source lines."""
from lamina_lowering import _default
from lamina_lowering._default import *

__contract__ = 1


def lower(closed_jaxpr, **options):
    return _default.lower(closed_jaxpr, **{**options, "number": False})
