"""`numpy.einsum`: labelled sums, two operands at a time on `dot_general`."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import lax
from ._registry import as_array, common, ndim_of, row, shape_of
from .indexing import diagonal

__all__ = ["einsum"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _subscripts(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """(subscripts, operands), of the form with lists of numbers too."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), [as_array(x) for x in operands[1:]]
    rest = list(operands)
    result = rest.pop() if len(rest) % 2 else None

    def word(labels: Sequence[Any]) -> str:
        return "".join(["..." if x is Ellipsis else _LETTERS[x] for x in labels])

    spec = ",".join([word(labels) for labels in rest[1::2]]) + ("" if result is None else "->" + word(result))
    return spec, [as_array(x) for x in rest[::2]]


def _labels(spec: str, xs: Sequence[Any]) -> tuple[list[str], str]:
    """Labels of each operand and of the result, a letter of its own for each axis behind `...`."""
    given, arrow, result = spec.partition("->")
    terms = given.split(",")
    if len(terms) != len(xs):
        raise ValueError(f"numpy.einsum: {spec!r} names {len(terms)} operands; got {len(xs)}")
    free = [c for c in _LETTERS if c not in spec]
    most = max([ndim_of(x) - len(t.replace("...", "")) for t, x in zip(terms, xs) if "..." in t], default=0)
    dots = "".join(free[:most])
    words = []
    for term, x in zip(terms, xs):
        n = ndim_of(x) - len(term.replace("...", ""))
        if "..." in term:
            term = term.replace("...", dots[most - n:]) if n >= 0 else term
        if len(term) != ndim_of(x):
            raise ValueError(f"numpy.einsum: {spec!r} gives an operand {len(term)} labels that has {ndim_of(x)} axes")
        words.append(term)
    if arrow:
        result = result.replace("...", dots)
    else:
        letters = sorted({c for c in given if c.isalpha() and given.count(c) == 1})
        result = dots + "".join(letters)
    if any(result.count(c) > 1 or not any(c in w for w in words) for c in result):
        raise ValueError(f"numpy.einsum: the result of {spec!r} repeats a label, or has one that no operand has")
    return words, result


def _sizes(words: Sequence[str], xs: Sequence[Any]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for word, x in zip(words, xs):
        for c, n in zip(word, shape_of(x)):
            if sizes.get(c, 1) == 1:
                sizes[c] = n
            elif n not in (1, sizes[c]):
                raise ValueError(f"numpy.einsum: the label {c!r} has lengths {sizes[c]} and {n}")
    return sizes


def _single(word: str, x: Any, sizes: dict[str, int]) -> tuple[str, Any]:
    """One operand with each label once, and without axes of length 1 that meet longer ones."""
    for c in sorted(set(word)):
        while word.count(c) > 1:
            i = word.index(c)
            j = word.index(c, i + 1)
            x = diagonal(x, 0, i, j)
            word = word[:i] + word[i + 1:j] + word[j + 1:] + c
    thin = [i for i, c in enumerate(word) if shape_of(x)[i] != sizes[c]]
    return "".join([c for i, c in enumerate(word) if i not in thin]), lax.squeeze(x, tuple(thin)) if thin else x


def _summed(word: str, x: Any, keep: set[str]) -> tuple[str, Any]:
    gone = tuple([i for i, c in enumerate(word) if c not in keep])
    return "".join([c for c in word if c in keep]), lax.reduce_sum(x, gone) if gone else x


def _pair(a: tuple[str, Any], b: tuple[str, Any], keep: set[str]) -> tuple[str, Any]:
    (v, x), (w, y) = _summed(*a, keep | set(b[0])), _summed(*b, keep | set(a[0]))
    batch = [c for c in v if c in w and c in keep]
    meet = [c for c in v if c in w and c not in keep]

    def at(word: str, labels: Sequence[str]) -> tuple[int, ...]:
        return tuple([word.index(c) for c in labels])

    out = lax.dot_general(x, y, ((at(v, meet), at(w, meet)), (at(v, batch), at(w, batch))))
    return "".join(batch) + "".join([c for c in v + w if c not in batch and c not in meet]), out


def _order(words: list[str], xs: Sequence[Any], result: str) -> list[tuple[int, ...]]:
    """Which operands meet first: as NumPy finds it for arrays of these shapes."""
    if len(xs) < 3:
        return [tuple(range(len(xs)))]
    like = [np.broadcast_to(np.float32(0), shape_of(x)) for x in xs]
    return np.einsum_path(",".join(words) + "->" + result, *like, optimize="greedy")[0][1:]


@row("einsum")
def einsum(*operands: Any, out: None = None, optimize: Any = False, dtype: Any = None) -> Any:
    spec, given = _subscripts(operands)
    words, result = _labels(spec, given)
    xs = common(*given)
    sizes = _sizes(words, xs)
    left = [_single(w, x, sizes) for w, x in zip(words, xs)]
    path = _order([w for w, _ in left], [x for _, x in left], result)
    for together in path:
        parts = [left.pop(i) for i in sorted(together, reverse=True)][::-1]
        while len(parts) > 1:
            a, b = parts.pop(0), parts.pop(0)
            keep = set(result).union(*[w for w, _ in left], *[w for w, _ in parts])
            parts.insert(0, _pair(a, b, keep))
        left.append(parts[0])
    (word, x), = left
    word, x = _summed(word, x, set(result))
    x = lax.transpose(x, tuple([word.index(c) for c in result if c in word]))
    if len(word) != len(result):  # labels that only axes of length 1 had
        x = lax.broadcast_in_dim(x, tuple([sizes[c] for c in result]), tuple([i for i, c in enumerate(result) if c in word]))
    return x
