"""Specifications of the primitives as text, for readers of saved programs in other languages.

The pages in `docs/_generated/ops/` are generated from these texts and the facts in `lamina_ir.prims`. The families have
the same file names as there. Only documentation tools import this package.
"""
from __future__ import annotations

from .._core.param_types import KINDS
from .._core.primitive import Primitive
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft, indexing, maps,
               products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)
from ._spec import HOLDS, PARAMS, OpSpec

__all__ = ["OpSpec", "intro_of", "kind_of_param", "meaning_of_param", "spec_of"]

_FAMILIES = {"callbacks": callbacks, "calls": calls, "collectives": collectives, "control": control, "convolution": convolution,
             "custom": custom, "elementwise": elementwise, "factorizations": factorizations, "fft": fft, "indexing": indexing,
             "products": products, "maps": maps, "random_bits": random_bits, "random_keys": random_keys,
             "reductions": reductions, "shape": shape, "solves": solves, "sorting": sorting, "special": special,
             "windows": windows}
_SPECS: dict[str, OpSpec] = {spec.name: spec for family in _FAMILIES.values() for spec in family.SPECS}


def spec_of(prim: Primitive) -> OpSpec:
    """Return the specification of a built-in primitive.

    Args:
      prim: the primitive.
    Returns:
      An `OpSpec`.
    Raises:
      KeyError: it is not built-in.

    >>> from lamina_ir import prims
    >>> spec_of(prims.sub_p).meaning
    'Of numbers: x - y.'
    """
    return _SPECS[prim.name]


def meaning_of_param(prim: Primitive, param: str) -> str:
    """Return the meaning of a param of a built-in primitive.

    Args:
      prim: the primitive.
      param: the param's name.
    Returns:
      A phrase without a full stop.

    >>> from lamina_ir import prims
    >>> meaning_of_param(prims.top_k_p, "k")
    'the number of elements'
    """
    return spec_of(prim).params.get(param) or PARAMS[param]


def kind_of_param(prim: Primitive, param: str) -> str:
    """Return the kind of value of a param of a built-in primitive.

    Args:
      prim: the primitive.
      param: the param's name.
    Returns:
      A noun with its article.

    >>> from lamina_ir import prims
    >>> kind_of_param(prims.top_k_p, "k"), kind_of_param(prims.gather_p, "mode")
    ('an int', 'an enum `GatherScatterMode`')
    """
    kind = prim.kinds.get(param)
    return HOLDS[param] if kind is None else KINDS[kind][0]


def intro_of(family: str) -> str:
    """Return the introduction to a family of primitives.

    Args:
      family: its name, `Primitive.family`.
    Returns:
      A text in Markdown.

    >>> intro_of("fft").splitlines()[0][:30]
    'The discrete Fourier transform'
    """
    return str(_FAMILIES[family].INTRO).strip()
