"""`einsum`: sums of products named by labels.

The order of pairwise contractions is `opt_einsum`'s; each contraction is one `dot_general`. One or two operands need
no ordering and never load it.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from lamina_ir import ShapeError, dtypes, prims
from lamina_ir.typing import Function, Sharding
from lamina_tracing import Array, DTypeLike, lax
from lamina_tracing.extend import call_with_out_sharding, check_out_sharding, split_einsum_spec, typeof, resolve_requested_dtype

from .._core.promotion import aval, cast, literal, promote_all, refuse_out
from .._core.public_api import jitted_core
from .._core.axes import permute_axes
from .._core.select import choose_by
from .._core.conversion import asarray
from .._core.named_axes import axes_of, reduce_axes
from .products import dot_general

__all__ = ["einsum", "einsum_path"]

_NONE: frozenset[str] = frozenset()
_NO_LABELS = frozenset(".->")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + "".join(map(chr, range(0x100, 0x180)))


def _parse_interleaved(args: Sequence[Any]) -> tuple[str, list[Any]]:
    """`einsum(x, [0, 1], y, [1, 2], [0, 2])` as subscripts and operands."""
    operands, terms, out = [], [], None
    rest = list(args)
    while rest:
        if len(rest) == 1:
            out = rest.pop()
        else:
            operands.append(rest.pop(0))
            terms.append(rest.pop(0))
    labels = sorted({s for term in [*terms, out or ()] for s in term if s is not Ellipsis}, key=lambda s: (str(type(s)),
                                                                                                      s))
    letter = dict(zip(labels, _LETTERS))

    def format_term(term: Any) -> str:
        return "".join("..." if s is Ellipsis else letter[s] for s in term)
    return ",".join(map(format_term, terms)) + ("" if out is None else "->" + format_term(out)), operands


@lru_cache(maxsize=512)
def parse(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """(labels of each operand, labels of the result), `...` and the implicit result worked out."""
    text = subscripts.replace(" ", "")
    left, arrow, out = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"einsum: {subscripts!r} names {len(terms)} operands; got {len(ranks)}")
    # `...` becomes letters that are not used, the same from the right in each operand, as broadcasting aligns axes.
    used = set(text)
    spare = [c for c in _LETTERS if c not in used]
    most = max((r - len(t.replace("...", "")) for t, r in zip(terms, ranks) if "..." in t), default=0)
    dots = "".join(spare[:max(most, 0)])
    full = []
    for i, (term, rank) in enumerate(zip(terms, ranks)):
        if "..." in term:
            extra = rank - len(term.replace("...", ""))
            if extra < 0:
                raise ValueError(f"einsum: operand {i} has {rank} axes, too few for {term!r}")
            term = term.replace("...", dots[len(dots) - extra:] if extra else "")
        if not _NO_LABELS.isdisjoint(term):
            raise ValueError(f"einsum: {term!r} in {subscripts!r} is not made of labels, which are single characters such "
                             "as letters and digits")
        if len(term) != rank:
            raise ValueError(f"einsum: {term!r} names {len(term)} axes, but operand {i} has {rank}")
        full.append(term)
    if arrow:
        out = out.replace("...", dots)
    else:
        # Implicit: broadcast axes, then labels that occur once, in alphabetical order.
        counts = Counter("".join(full))
        out = dots + "".join(sorted(c for c, n in counts.items() if n == 1 and c not in dots))
    for c in out:
        if out.count(c) > 1 or not any(c in t for t in full):
            raise ValueError(f"einsum: label {c!r} of the result in {subscripts!r} "
                             + ("occurs twice" if out.count(c) > 1 else "names no axis of an operand"))
    return tuple(full), out


def _check_sizes(subscripts: str, terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for i, (term, shape) in enumerate(zip(terms, shapes)):
        for c, n in zip(term, shape):
            old = sizes.get(c, 1)
            if n != old and n != 1 and old != 1:
                raise ShapeError(f"einsum: label {c!r} in {subscripts!r} has length {old} and, in operand {i} of shape "
                                 f"{shape}, {n}")
            sizes[c] = max(n, old) if n else 0
    return sizes


Term = tuple[str, frozenset[str]]  # labels of an array's axes, and the names of mapped ones that take part


@lru_cache(maxsize=512)
def _parts(subscripts: str, ranks: tuple[int, ...]) -> tuple[tuple[Term, ...], Term]:
    """`parse`, of subscripts with names in braces too."""
    if "{" not in subscripts:
        terms, out = parse(subscripts, ranks)
        return tuple([(t, _NONE) for t in terms]), (out, _NONE)
    letters, names = split_einsum_spec("einsum", subscripts)
    plain = ",".join(letters[:-1]) + ("" if letters[-1] == "?" else "->" + letters[-1])
    terms, out = parse(plain, ranks)
    return tuple(zip(terms, map(frozenset, names))), (out, frozenset(names[-1]))


def _check_names(subscripts: str, xs: Sequence[Any], terms: Sequence[Term]) -> None:
    """Each name is bound, and in the type of its operand."""
    for i, (x, (_, names)) in enumerate(zip(xs, terms)):
        for name in sorted(names):
            lax.axis_size(name)
            if name not in typeof(x).varying_axes:
                raise ValueError(f"einsum: operand {i} of {subscripts!r} has no axis {name!r}: it is {typeof(x).str_long()}, "
                                 "the same at each position. Leave the name out of its term")


def einsum(subscripts: Any, /, *operands: Any, out: None = None, optimize: Any = "auto", precision: Any = None,
           preferred_element_type: DTypeLike | None = None, _dot_general: Function = lax.dot_general,
           out_sharding: Sharding = None) -> Array:
    """Sums of products over labelled axes.

    Args:
      subscripts: labels of the axes of each operand and of the result, `"ij,jk->ik"`; `...` stands for axes that
        broadcast, and without `->` the labels that occur once, in order of the alphabet, make the result. Behind the labels
        of a term, names of mapped axes in braces, `"ab{i},bc{i,j}->ac{j}"`: those that the result's term leaves out are
        summed over; what no term names is carried along.
      operands: arrays, one per term; or, in place of `subscripts` too, arrays and lists of labels in turn, `x, [0,
        1], y, [1, 2], [0, 2]`.
      out: not supported, must be None: arrays never change.
      optimize: the order of contraction: "auto" or True for the best found soon, another strategy of `opt_einsum`,
        a path as from `einsum_path`, or False for left to right.
      precision: of the products, where the hardware offers several: None for the configured one, a name such as
        "high" or "highest", or one per operand.
      preferred_element_type: element type to sum in, and of the result; None for that of the operands.
      _dot_general: multiplies two operands in place of `lax.dot_general`, with its arguments.
      out_sharding: None, or the sharding of the result over `Explicit` axes: a `PartitionSpec` or a `NamedSharding`.
    Returns:
      Array of the result's axes, in the dtype that all operands promote to (integers keep theirs and may overflow)
      or `preferred_element_type`, and the product of their units. Axes of length 1 broadcast.
    Raises:
      ValueError: `subscripts` does not fit the number of operands or of their axes. Or it names a result's axis twice,
        an axis that no operand has, or a mapped axis that its operand lacks. Or `optimize` is a path that does not
        fit, or `out_sharding` names an axis that is not `Explicit`.
      UnboundAxisError: a name is not bound.
      ShapeError: one label has two lengths.
      TypeError: an operand is neither an array nor a number, or `preferred_element_type` cannot hold the products.
      KeyError: `optimize` is an unknown strategy.
      NotImplementedError: `out` is given.

    Derivative: linear in each operand.
    Source: meaning of `numpy.einsum`; the order of more than two operands is `opt_einsum`'s, each contraction one
      `dot_general`.

    >>> einsum("i,i", np.array([1., 2.]), np.array([3., 4.]))
    Array(11., dtype=float32)
    >>> einsum("ii->i", np.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    >>> from lamina_batching import vmap
    >>> vmap(lambda x, y: einsum("a{i},a{i}->", x, y), axis_name="i", out_axes=None)(np.ones((2, 3)), np.ones((2, 3)))
    Array(6., dtype=float32)
    """
    refuse_out("einsum", out)
    if not isinstance(subscripts, str):
        subscripts, found = _parse_interleaved((subscripts, *operands))
        operands = tuple(found)
    xs = [asarray(x) if isinstance(x, (list, tuple)) else x for x in operands]
    if isinstance(optimize, (list, tuple)):
        optimize = tuple(tuple(step) if isinstance(step, (list, tuple)) else step for step in optimize)
    if out_sharding is not None:
        check_out_sharding("einsum", out_sharding)
        call = partial(einsum, subscripts, optimize=optimize, precision=precision,
                       preferred_element_type=preferred_element_type)
        if _dot_general is not lax.dot_general:  # the default is left out, so that calls are cached
            call = partial(call, _dot_general=_dot_general)
        return call_with_out_sharding("einsum", call, tuple(xs), out_sharding)
    if _dot_general is not lax.dot_general:  # a user's function, which may close over traced values: nothing is jitted
        return _contract_all(xs, subscripts, optimize, partial(_call_dot_general, _dot_general), precision,
                             preferred_element_type)
    return _einsum(*xs, subscripts=subscripts, optimize=optimize, precision=precision, preferred=preferred_element_type)


@jitted_core("subscripts", "optimize", "precision", "preferred", name="einsum")
def _einsum(*operands: Any, subscripts: str, optimize: Any, precision: Any, preferred: Any) -> Any:
    return _contract_all(operands, subscripts, optimize, dot_general, precision, preferred)


def _call_dot_general(fun: Function, x: Any, y: Any, contract: Any, batch: Any, precision: Any, preferred: Any) -> Any:
    """Call a user's replacement of `lax.dot_general`."""
    result = typeof(x).dtype if preferred is None else resolve_requested_dtype(preferred)
    return fun(x, y, (contract, batch), precision, preferred_element_type=result)


def _contract_all(operands: Sequence[Any], subscripts: str, optimize: Any, product: Callable[..., Any], precision: Any,
                  preferred: Any) -> Any:
    shapes = [aval("einsum", x, i).shape for i, x in enumerate(operands)]
    named, (out, out_names) = _parts(subscripts, tuple(map(len, shapes)))
    terms = [t for t, _ in named]
    _check_sizes(subscripts, terms, shapes)
    if "{" in subscripts:
        _check_names(subscripts, operands, named)
    xs = promote_all("einsum", operands)
    final = typeof(xs[0]).dtype if preferred is None else resolve_requested_dtype(preferred)
    todo = list(zip(xs, terms, [names for _, names in named]))
    for step in _choose_order(subscripts, terms, out, shapes, optimize):
        if len(set(step)) < len(step) or not all(0 <= i < len(todo) for i in step):
            raise ValueError(f"einsum: step {step} of optimize={optimize!r} names operands that are not there, or one twice; "
                             f"{len(todo)} are left")
        # todo: operands that are left, with their labels. keep: labels that other operands or the result need: this step
        # must not sum over them. The very last product gives the axes in the order of the result.
        picked = [todo.pop(i) for i in sorted(step, reverse=True)][::-1]
        keep = set(out).union(*(t for _, t, _ in todo))
        kept_names = out_names.union(*(n for _, _, n in todo))
        while len(picked) > 1:
            rest = keep.union(*(t for _, t, _ in picked[2:]))
            last = not todo and len(picked) == 2
            (x, a, m), (y, b, n), *others = picked
            names = kept_names.union(*(k for _, _, k in others))
            x, m = _sum_axes(x, m, names | n)
            y, n = _sum_axes(y, n, names | m)
            x, a = _contract(x, a, y, b, rest, out if last else None,
                             partial(product, precision=precision, preferred=preferred), preferred)
            x, m = _sum_axes(x, m | n, names)
            picked[:2] = [(x, a, m)]
        todo.append(picked[0])
    if len(todo) > 1:
        raise ValueError(f"einsum: the path optimize={optimize!r} leaves {len(todo)} operands to contract")
    x, a, names = todo[0]
    x, a = _reduce_operand(x, a, set(out))
    x, _ = _sum_axes(x, names, out_names)
    x = permute_axes(x, tuple(a.index(c) for c in out))
    return cast(x, final, typeof(x).weak_type and preferred is None)


def _choose_order(subscripts: str, terms: Sequence[str], out: str, shapes: Sequence[tuple[int, ...]],
                  optimize: Any) -> Sequence[tuple[int, ...]]:
    """Which operands to contract, step by step; results go to the end of the list."""
    n = len(terms)
    if n <= 2:
        return [tuple(range(n))]
    if optimize is False:
        return [(0, 1), *((0, n - 1 - i) for i in range(1, n - 1))]
    if isinstance(optimize, tuple):
        return [step for step in optimize if not isinstance(step, str)]
    return _path(",".join(terms) + "->" + out, tuple(shapes), "auto" if optimize is True else optimize)


@lru_cache(maxsize=512)
def _path(text: str, shapes: tuple[tuple[int, ...], ...], optimize: str) -> Sequence[tuple[int, ...]]:
    return _plan_contraction(text, shapes, optimize)[0]


def _plan_contraction(text: str, shapes: Sequence[tuple[int, ...]], optimize: Any) -> tuple[Sequence[tuple[int, ...]],
                                                                                            Any]:
    # Only three and more operands need an order, and loading the package takes tens of milliseconds.
    import opt_einsum  # noqa: PLC0415
    return opt_einsum.contract_path(text, *shapes, shapes=True, optimize=optimize)


def _sum_axes(x: Any, names: frozenset[str], keep: frozenset[str]) -> tuple[Any, frozenset[str]]:
    """`x` summed over the mapped axes that are in `names` but not in `keep`."""
    gone = names - keep
    if gone:
        op = prims.reduce_or_p if typeof(x).dtype == dtypes.BOOL else prims.reduce_sum_p
        x = reduce_axes(op, x, axes_of("einsum", tuple(sorted(gone)), len(typeof(x).shape)))
    return x, names & keep


def _reduce_operand(x: Any, names: str, keep: set[str]) -> tuple[Any, str]:
    """Take the diagonal of repeated labels of one operand, and sum over labels that are not in `keep`."""
    for c, n in Counter(names).items():
        while n > 1:
            i = names.index(c)
            j = names.index(c, i + 1)
            shape = typeof(x).shape
            # The diagonal: all other elements set to zero, and one of the two axes summed.
            same = lax.eq(lax.broadcasted_iota(np.dtype("int32"), shape, i), lax.broadcasted_iota(np.dtype("int32"), shape, j))
            x = lax.reduce_sum(choose_by(same, x, literal(0, typeof(x).dtype)), (j,))
            names = names[:j] + names[j + 1:]
            n -= 1
    gone = tuple(i for i, c in enumerate(names) if c not in keep)
    if gone:
        d = typeof(x).dtype
        if d == dtypes.BOOL:
            x = lax.reduce_or(x, gone)
        else:
            x = lax.reduce_sum(x, gone)
        names = "".join(c for c in names if c in keep)
    return x, names


def _contract(x: Any, a: str, y: Any, b: str, keep: set[str], want: str | None, product: Callable[..., Any],
              preferred: Any) -> tuple[Any, str]:
    x, a = _reduce_operand(x, a, keep | set(b))
    y, b = _reduce_operand(y, b, keep | set(a))
    x, a, y, b = _drop_ones(x, a, y, b)
    x, a = _reduce_operand(x, a, keep | set(b))
    y, b = _reduce_operand(y, b, keep | set(a))
    batch = [c for c in a if c in b and c in keep]
    contract = [c for c in a if c in b and c not in keep]
    names = "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)])
    if want is not None and names != want:  # the other order may spare a transpose
        other = "".join([*batch, *(c for c in b if c not in a), *(c for c in a if c not in b)])
        if other == want:
            x, a, y, b, names = y, b, x, a, other
    out = product(x, y, (tuple(a.index(c) for c in contract), tuple(b.index(c) for c in contract)),
                  (tuple(a.index(c) for c in batch), tuple(b.index(c) for c in batch)))
    if preferred is not None and typeof(out).dtype != typeof(x).dtype and want is None:
        out = cast(out, resolve_requested_dtype(preferred))
    return out, names


def _drop_ones(x: Any, a: str, y: Any, b: str) -> tuple[Any, str, Any, str]:
    """Shared labels of length 1 on one side only broadcast: drop them there."""
    s, t = typeof(x).shape, typeof(y).shape
    left = [c for c in a if c in b and s[a.index(c)] == 1 != t[b.index(c)]]
    right = [c for c in b if c in a and t[b.index(c)] == 1 != s[a.index(c)]]
    if left:
        x = lax.squeeze(x, tuple(a.index(c) for c in left))
        a = "".join(c for c in a if c not in left)
    if right:
        y = lax.squeeze(y, tuple(b.index(c) for c in right))
        b = "".join(c for c in b if c not in right)
    return x, a, y, b


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "greedy") -> tuple[list[Any], Any]:
    """The order of contraction that `einsum` would follow under a strategy.

    Args:
      subscripts: labels of the axes of each operand and of the result, `"ij,jk->ik"`; `...` stands for axes that
        broadcast, and without `->` the labels that occur once, in order of the alphabet, make the result.
      operands: as of `einsum`; only their shapes matter.
      optimize: a strategy of `opt_einsum`, True for "auto", or False for all operands at once.
    Returns:
      `(path, info)`: a list of "einsum_path" and tuples of the positions contracted in each step, their result
      going to the end of the operands, which `einsum` takes as `optimize`; and `opt_einsum`'s description of its
      cost.
    Raises:
      ValueError: `subscripts` does not fit the operands, or one label has two lengths.
      KeyError: `optimize` is an unknown strategy for more than two operands.
      TypeError: an operand is neither an array nor a number.

    Source: meaning of `numpy.einsum_path`; computed by `opt_einsum`.

    >>> einsum_path("ij,jk,kl->il", np.ones((2, 30)), np.ones((30, 4)), np.ones((4, 5)))[0]
    ['einsum_path', (0, 1), (0, 1)]
    """
    if not isinstance(subscripts, str):
        subscripts, found = _parse_interleaved((subscripts, *operands))
        operands = tuple(found)
    if "{" in subscripts:  # each position multiplies its own arrays: names change no order
        letters, _ = split_einsum_spec("einsum_path", subscripts)
        subscripts = ",".join(letters[:-1]) + ("" if letters[-1] == "?" else "->" + letters[-1])
    shapes = [typeof(asarray(x)).shape for x in operands]
    path, info = _plan_contraction(subscripts, shapes, optimize)
    return ["einsum_path", *path], info
