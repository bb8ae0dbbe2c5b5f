"""Check the arguments of an exported function, and compute its symbolic sizes from theirs."""
from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from lamina_ir import ShapedArray, trees
from lamina_ir.extend import explain_mismatch
from lamina_tracing.extend import argument_path

from .symbolic_dim import SymbolicDim, evaluate, find_variables
from .symbolic_scope import SymbolicScope

__all__ = ["check_solvable", "flatten_arguments", "solve_sizes"]


def flatten_arguments(call: str, in_tree: Any, args: Any, kwargs: Any) -> list[Any]:
    """The flat arguments.

    Raises:
      ValueError: they are of another structure.
    """
    flat, tree = trees.tree_flatten((args, kwargs))
    if tree != in_tree:
        path = explain_mismatch(in_tree, (args, kwargs))
        raise ValueError(f"{call}: the arguments must have the structure with which the function was exported, {in_tree}; got "
                         f"{tree}" + (f": (args, kwargs) {path}" if path else "")
                         + ". Static arguments are part of the exported function: leave them out")
    return flat


def _as_linear(size: Any, known: dict[str, int]) -> tuple[str, int, int] | None:
    """(name, factor, rest) of a size that is `factor * name + rest` where the other names are known."""
    if not isinstance(size, SymbolicDim):
        return None
    name = factor = None
    rest = 0
    for m, c in size._terms.items():
        open_names = []
        for a, p in m:
            if isinstance(a, str) and a not in known:
                open_names += [a] * p
            elif find_variables([a[1], a[2]] if not isinstance(a, str) else []) <= {*known}:
                c *= evaluate(SymbolicDim({((a, p),): 1}, size.scope), known)
            else:
                return None
        if not open_names:
            rest += c
        elif len(open_names) > 1 or name not in (None, open_names[0]):
            return None
        else:
            name, factor = open_names[0], (factor or 0) + c
    return (name, factor, rest) if name is not None and factor else None


def solve_sizes(call: str, in_tree: Any, in_avals: Sequence[ShapedArray], avals: Sequence[ShapedArray],
                scope: SymbolicScope | None,
                names: Sequence[str], assertions: bool = True) -> dict[str, int]:
    """Compute the symbolic sizes from the types of arguments.

    Args:
      call: name for error messages. in_tree: the structure of (args, kwargs).
      in_avals: the expected types; avals: the given ones.
      scope, names: of the symbolic sizes; assertions: whether to check constraints.
    Raises:
      ValueError: they do not fit; the message has the argument, its type and the expected type.
    """
    def describe(i: int) -> str:
        return argument_path(in_tree, i, None, ())

    todo: list[tuple[int, int, Any, int]] = []
    for i, (want, got) in enumerate(zip(in_avals, avals)):
        if want.dtype != got.dtype:
            raise ValueError(f"{call}: {describe(i)} must be of dtype {want.dtype}; got {got.str_long()}")
        if want.ndim != got.ndim:
            raise ValueError(f"{call}: {describe(i)} must be of rank {want.ndim}, {want.str_long()}; "
                             f"got {got.str_long()}")
        for d, (m, n) in enumerate(zip(want.shape, got.shape)):
            if isinstance(m, SymbolicDim):
                todo.append((i, d, m, n))
            elif m != n:
                raise ValueError(f"{call}: {describe(i)} must be of shape {want.str_long()}; got {got.str_long()}, "
                                 f"whose size {d} is {n} and not {m}")
    known: dict[str, int] = {}
    sources: dict[str, str] = {}
    going = True
    while going and len(known) < len(names):
        going = False
        for i, d, m, n in todo:
            solved = _as_linear(m, known)
            if solved is not None:
                name, factor, rest = solved
                value = Fraction(n - rest, factor)
                if value.denominator > 1:
                    raise ValueError(f"{call}: size {d} of {describe(i)}, {avals[i].str_long()}, must be {m} for "
                                     f"an int {name}; got {n}")
                known[name], sources[name], going = int(value), f"size {d} of {describe(i)}, {m} = {n}", True
                break
    if len(known) < len(names):
        raise ValueError(f"{call}: the arguments do not determine the sizes {sorted({*names} - {*known})}")
    because = "; ".join([f"{name} = {known[name]} is given by {sources[name]}" for name in names])
    for i, d, m, n in todo:
        if evaluate(m, known) != n:
            raise ValueError(f"{call}: size {d} of {describe(i)}, {avals[i].str_long()}, must be "
                             f"{m} = {evaluate(m, known)}; "
                             f"got {n}. {because}")
    broken = scope.find_broken(known) if scope is not None and assertions else None
    if broken is not None:
        raise ValueError(f"{call}: the sizes of the arguments must keep {broken}. {because}")
    return known


def check_solvable(call: str, in_avals: Sequence[ShapedArray], names: Sequence[str]) -> None:
    """Raise ValueError if arguments do not determine all sizes."""
    known: dict[str, int] = {}
    sizes = [n for a in in_avals for n in a.shape]
    found = True
    while found:
        found = False
        for n in sizes:
            solved = _as_linear(n, known)
            if solved is not None:
                known[solved[0]], found = 1, True
                break
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"{call}: the sizes {', '.join(missing)} cannot be computed from the arguments' shapes "
                         f"{', '.join([a.str_long() for a in in_avals])}: each name must occur in a size that is a multiple "
                         "of it plus known sizes, as a, 2*a + 1, or a*b if another size determines b")
