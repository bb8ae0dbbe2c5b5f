"""Products over positional and mapped axes: `pdot`, and `xeinsum` with names of mapped axes in braces."""
from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence

from lamina_ir import ShapeError
from lamina_ir.typing import Value

from .._diagnostics.argument_errors import rename_errors
from ._util.operands import ArrayLike, typeof
from .collectives import psum
from .products import PrecisionLike, dot_general
from .reductions import reduce_sum
from .shape import transpose
from .._core.array import Array
from .._typing import Unchecked

__all__ = ["pdot", "xeinsum"]  # and, in lamina_tracing.extend, what einsum of lamina.numpy parses by

Axes = Sequence[int]
_TERM = r"([^{}>,]*)(?:\{([^{}]*)\})?\Z"


@rename_errors
def pdot(x: ArrayLike, y: ArrayLike, axis_name: Hashable | Sequence[Hashable],
         pos_contract: tuple[Axes, Axes] = ((), ()), pos_batch: tuple[Axes, Axes] = ((), ()),
         precision: PrecisionLike = None) -> Array:
    """Multiply two arrays and sum the products over positional axes and over mapped ones.

    Args:
      x, y: arrays of one dtype.
      axis_name: name, or several, of mapped axes to sum over.
      pos_contract: positional axes of `x` and of `y` to sum over, in pairs.
      pos_batch: batch axes of `x` and `y`, in pairs.
      precision: as in `dot_general`.
    Returns:
      Array with the batch axes, then the other axes of `x`, then those of `y`; the same for every member.
    Raises:
      TypeError: positional axes are no pair of sequences.
      UnboundAxisError: a name is not bound.

    Derivative: linear in each operand. Source: `psum` of `dot_general`.
    """
    dims = _parse_pair("pos_contract", pos_contract), _parse_pair("pos_batch", pos_batch)
    return psum(dot_general(x, y, dims, precision), axis_name)


def _parse_pair(what: str, given: Unchecked) -> tuple[tuple[int, ...], tuple[int, ...]]:
    try:
        mine, yours = given
        return tuple(mine), tuple(yours)
    except (TypeError, ValueError):
        raise TypeError(f"pdot: {what} must be a pair, axes of x and axes of y; got {given!r:.80}") from None


def split_einsum_spec(call: str, spec: str) -> tuple[list[str], list[tuple[str, ...]]]:
    """Split a specification such as `"ab{i},bc{i,j}->ac{j}"` into letters and names of mapped axes.

    Args:
      call: the calling function, for messages.
      spec: terms of letters and then names in braces, one for each operand and, after `->`, one for the result.
    Returns:
      The letters of each term, as written, and the names of each; those of the result are last. Without
      `->`, the letters of the result are `"?"`, and its names those that occur in one term only.
    Raises:
      ValueError: a term is not letters followed by names, a name occurs twice in one, or the result has one that no
        operand has.

    >>> split_einsum_spec("einsum", "ab{i},bc{i, j}->ac{j}")
    (['ab', 'bc', 'ac'], [('i',), ('i', 'j'), ('j',)])
    """
    left, arrow, right = spec.replace(" ", "").partition("->")
    letters, names = [], []
    for text in (*re.split(r",(?![^{]*\})", left), *((right,) if arrow else ())):
        term = re.match(_TERM, text)
        if term is None:
            raise ValueError(f"{call}: each term is letters and then names in braces, as 'ab{{i,j}}'; got {text!r} in {spec!r}")
        found = tuple(n for n in (term[2] or "").split(",") if n)
        if len(set(found)) < len(found):
            raise ValueError(f"{call}: a letter or name may occur once in each term; got {text!r} in {spec!r}")
        letters.append(term[1])
        names.append(found)
    every = [n for term in (names[:-1] if arrow else names) for n in term]
    if not arrow:
        letters.append("?")
        names.append(tuple(n for n in dict.fromkeys(every) if every.count(n) == 1))
    if missing := [n for n in names[-1] if n not in every]:
        raise ValueError(f"{call}: the result's axis {missing[0]!r} is in no operand of {spec!r}")
    return letters, names


def _parse_terms(spec: str) -> tuple[list[tuple[str, tuple[str, ...]]], tuple[str, tuple[str, ...]]]:
    """Return (letters, names) of each operand, and of the result."""
    letters, names = split_einsum_spec("xeinsum", spec)
    if letters[-1] == "?":
        raise ValueError(f"xeinsum: the specification needs one '->' between operands and result; got {spec!r}")
    for text in letters:
        if text and not text.isalpha() or len(set(text)) < len(text):
            raise ValueError(f"xeinsum: a letter or name may occur once in each term; got {text!r} in {spec!r}")
    *operands, result = zip(letters, names)
    if missing := [c for c in result[0] if not any(c in t[0] for t in operands)]:
        raise ValueError(f"xeinsum: the result's axis {missing[0]!r} is in no operand of {spec!r}")
    return operands, result


def _sum_out(x: Value, letters: str, names: tuple[str, ...],
            keep: tuple[str, Collection[str]]) -> tuple[Value, str, tuple[str, ...]]:
    """Sum `x` over the axes that are not in `keep`."""
    gone = tuple(i for i, c in enumerate(letters) if c not in keep[0])
    over = tuple(n for n in names if n not in keep[1])
    x = reduce_sum(x, gone) if gone else x
    return (psum(x, over) if over else x, "".join(c for c in letters if c in keep[0]),
            tuple(n for n in names if n in keep[1]))


@rename_errors
def xeinsum(spec: str, *operands: ArrayLike) -> Array:
    """Sum products as `einsum`, with names of mapped axes in braces: `xeinsum("ab{i},bc{i}->ac", x, y)`.

    An axis that is not in the result is summed over: letters within the array, names over the mapped axis. A mapped
    axis that the specification leaves out takes no part.

    Args:
      spec: a term for each operand and, after `->`, one for the result: letters for positional axes, then names of
        mapped axes in braces. A letter may not occur twice in a term.
      operands: arrays of one dtype.
    Returns:
      Array with the axes that the letters of the result name.
    Raises:
      ValueError: the specification is malformed.
      ShapeError: an operand's rank is not its number of letters, or axes of one letter differ in length.
      UnboundAxisError: a name is not bound.

    Derivative: linear in each operand. Source: `psum` of `dot_general`, operands from left to right.

    >>> xeinsum("ab,bc->ca", np.ones((2, 3), np.float32), np.ones((3, 1), np.float32))
    Array([[3., 3.]], dtype=float32)
    """
    if not isinstance(spec, str):
        raise TypeError(f"xeinsum: the specification must be text, as 'ab,bc->ac'; got {type(spec).__name__}: {spec!r:.60}")
    terms, (out, out_names) = _parse_terms(spec)
    if len(terms) != len(operands):
        raise ValueError(f"xeinsum: {spec!r} is for {len(terms)} operands; got {len(operands)}")
    sizes: dict[str, int] = {}
    for i, (x, (letters, _)) in enumerate(zip(operands, terms)):
        aval = typeof(x)
        if len(aval.shape) != len(letters):
            raise ShapeError(f"xeinsum: operand {i} has {len(letters)} axes in {spec!r}; got {aval.str_long()}")
        for c, n in zip(letters, aval.shape):
            if sizes.setdefault(c, n) != n:
                raise ShapeError(f"xeinsum: axes {c!r} of {spec!r} must be equally long; operand {i} is {aval.str_long()}, "
                                 f"an earlier one has length {sizes[c]}")
    parts = []
    for i, (x, term) in enumerate(zip(operands, terms)):  # axes of only one operand are summed first
        others = [t for k, t in enumerate(terms) if k != i]
        keep = (out + "".join(t[0] for t in others), {*out_names, *(n for t in others for n in t[1])})
        parts.append(_sum_out(x, *term, keep))
    x, a, a_names = parts[0]
    for i, (y, b, b_names) in enumerate(parts[1:], 1):
        later = (out + "".join(t[1] for t in parts[i + 1:]), {*out_names, *(n for t in parts[i + 1:] for n in t[2])})
        both = [c for c in a if c in b]
        batch, contract = [c for c in both if c in later[0]], [c for c in both if c not in later[0]]
        x = dot_general(x, y, ((tuple(a.index(c) for c in contract), tuple(b.index(c) for c in contract)),
                               (tuple(a.index(c) for c in batch), tuple(b.index(c) for c in batch))))
        a = "".join([*batch, *(c for c in a if c not in both), *(c for c in b if c not in both)])
        x, a, a_names = _sum_out(x, a, tuple(dict.fromkeys((*a_names, *b_names))), later)
    order = tuple(a.index(c) for c in out)
    return x if order == tuple(range(len(order))) else transpose(x, order)
