"""What a reader in another language has to know of each op: operands, results, meaning. `docs/_generated/ops/` is written from this.

The facts themselves stand in `lamina_ir.prims`; here are the words, in a file of the same family name. Nothing that computes
imports this.
"""
from __future__ import annotations

from ..param_kinds import KINDS
from ..primitive import Primitive
from . import (callbacks, calls, collectives, control, convolution, custom, elementwise, factorizations, fft, indexing, maps,
               products, random_bits, random_keys, reductions, shape, solves, sorting, special, windows)
from ._spec import HOLDS, PARAMS, OpSpec

__all__ = ["OpSpec", "intro_of", "kind_of_param", "meaning_of_param", "spec_of"]

_FAMILIES = {"callbacks": callbacks, "calls": calls, "collectives": collectives, "control": control, "convolution": convolution,
             "custom": custom, "elementwise": elementwise, "factorizations": factorizations, "fft": fft, "indexing": indexing,
             "linalg": products, "maps": maps, "random_bits": random_bits, "random_keys": random_keys, "reductions": reductions,
             "shape": shape, "solves": solves, "sorting": sorting, "special": special, "windows": windows}
_SPECS: dict[str, OpSpec] = {spec.name: spec for family in _FAMILIES.values() for spec in family.SPECS}


def spec_of(prim: Primitive) -> OpSpec:
    """The words on a built-in op.

    Args:
      prim: the op.
    Returns:
      An `OpSpec`.
    Raises:
      KeyError: it is not one of the built-in ones.

    >>> from lamina_ir import prims
    >>> spec_of(prims.sub_p).meaning
    'Of numbers: x - y.'
    """
    return _SPECS[prim.name]


def meaning_of_param(prim: Primitive, param: str) -> str:
    """What a param of a built-in op means.

    Args:
      prim: the op.
      param: the param's name.
    Returns:
      A text.

    >>> from lamina_ir import prims
    >>> meaning_of_param(prims.top_k_p, "k")
    'how many'
    """
    return spec_of(prim).params.get(param) or PARAMS[param]


def kind_of_param(prim: Primitive, param: str) -> str:
    """What a param of a built-in op holds.

    Args:
      prim: the op.
      param: the param's name.
    Returns:
      A text.

    >>> from lamina_ir import prims
    >>> kind_of_param(prims.top_k_p, "k"), kind_of_param(prims.gather_p, "mode")
    ('an int', 'an enum `GatherScatterMode`')
    """
    kind = prim.kinds.get(param)
    return HOLDS[param] if kind is None else KINDS[kind][0]


def intro_of(family: str) -> str:
    """What holds for all ops of a family.

    Args:
      family: its name, `Primitive.family`.
    Returns:
      A text in Markdown.

    >>> intro_of("fft").splitlines()[0][:30]
    'The discrete Fourier transform'
    """
    return str(_FAMILIES[family].INTRO).strip()
