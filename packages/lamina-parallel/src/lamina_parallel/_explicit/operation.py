"""`Operation`: one equation whose operands have shardings, as the sharding rules see it."""
from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from lamina_ir import Primitive, ShapedArray
from lamina_ir.errors import ShardingTypeError
from lamina_ir.typing import Params

from .._typing import Entries

__all__ = ["HINT", "Operation", "drop_repeated", "format_type", "unsharded"]

HINT = ("Move an operand with lamina.sharding.reshard, pass out_sharding= if the function takes it, or use "
        "lamina.sharding.auto_axes")


class _Sharding(NamedTuple):
    """A sharding for `ShapedArray.with_sharding`, which is only printed."""

    explicit_entries: Entries


def unsharded(ndim: int) -> Entries:
    """Return the entries of a replicated array: () for each dimension."""
    return ((),) * ndim


def drop_repeated(entries: Sequence[Sequence[Hashable]]) -> Entries:
    """Return entries without the dimensions that name a mesh axis again.

    >>> drop_repeated([("x",), ("x", "y"), ("y",)])
    (('x',), (), ('y',))
    """
    seen: set[Hashable] = set()
    found: list[tuple[Hashable, ...]] = []
    for names in entries:
        found.append(() if seen.intersection(names) else tuple(names))
        seen.update(found[-1])
    return tuple(found)


def format_type(aval: ShapedArray, entries: Entries) -> str:
    """Return a type with its sharding: `float32[8@x,4]`.

    >>> from lamina_ir import shaped
    >>> format_type(shaped((8, 4), "float32"), (("x",), ()))
    'float32[8@x,4]'
    """
    return aval.with_sharding(_Sharding(entries)).str_long()


class Operation:
    """One equation: its primitive, params, types, and the mesh axes of each dimension of its operands.

    Attributes:
      primitive, params: of the equation.
      avals, entries: for each operand its type, and the mesh axes of each of its dimensions.
      out_avals: the types of the results.
      sizes: the size of each mesh axis.
      uniform: for each operand whether all its elements are one scalar.
      is_derived: whether the equation is part of a transpose. Then contracted dimensions may be sharded alike, and
        operands may have several shardings, of which the first one is used.
    """

    __slots__ = ("avals", "entries", "is_derived", "out_avals", "params", "primitive", "sizes", "uniform")

    def __init__(self, primitive: Primitive, params: Params, avals: Sequence[ShapedArray], entries: Sequence[Entries],
                 out_avals: Sequence[ShapedArray], sizes: Mapping[Hashable, int], uniform: Sequence[bool] = (),
                 is_derived: bool = False) -> None:
        self.primitive, self.params, self.avals, self.entries = primitive, params, avals, entries
        self.out_avals, self.sizes, self.is_derived = out_avals, sizes, is_derived
        self.uniform = uniform or (False,) * len(avals)

    def refuse(self, reason: str) -> NoReturn:
        """Raise ShardingTypeError with the reason and the types of the operands."""
        types = [format_type(a, e) for a, e in zip(self.avals, self.entries) if a.ndim] or ["scalars"]
        raise ShardingTypeError(f"{self.primitive.name}: {reason}; got {' and '.join(types)}. {HINT}")

    def count_parts(self, names: Sequence[Hashable]) -> int:
        """Return into how many parts these mesh axes split a dimension."""
        return math.prod([self.sizes[name] for name in names])

    def check_distinct(self, entries: Entries) -> Entries:
        """Return the entries of a result. Refuse them if they name a mesh axis twice."""
        names = [name for entry in entries for name in entry]
        if len(set(names)) < len(names):
            shown = format_type(self.out_avals[0], entries)
            self.refuse(f"the result would be sharded twice over one mesh axis, as {shown}")
        return entries

    def check_unsharded(self, dimensions: Sequence[int], reason: str) -> None:
        """Refuse the first operand if one of its dimensions is sharded."""
        if any(self.entries[0][d] for d in dimensions):
            self.refuse(reason)

    def resize(self, entries: Entries, shape: Sequence[int], result: Sequence[int]) -> Entries:
        """Return the entries of a result whose dimensions may have other sizes than the operand's.

        A sharded dimension of another size must be divisible by the number of its parts.
        """
        for d, (before, after) in enumerate(zip(shape, result, strict=True)):
            if entries[d] and before != after and (after % self.count_parts(entries[d]) or not after):
                self.refuse(f"dimension {d} of the result has size {after}, which is not divisible into the "
                            f"{self.count_parts(entries[d])} parts of its sharding")
        return entries

    def merge(self, operands: Sequence[int] | None = None) -> Entries:
        """Return the common entries of operands of one shape; scalars are skipped.

        In each dimension the operands that are sharded must be sharded alike. In a transpose the first one determines the
        result: cotangents of one value may come with several shardings.
        """
        ndim = self.out_avals[0].ndim
        found: list[tuple[Hashable, ...]] = [()] * ndim
        for i in range(len(self.avals)) if operands is None else operands:
            if self.avals[i].ndim != ndim:
                continue
            for d, names in enumerate(self.entries[i]):
                if names and found[d] and names != found[d] and not self.is_derived:
                    self.refuse("operands must have the same sharding in each dimension, or none")
                found[d] = found[d] or names
        return drop_repeated(found) if self.is_derived else self.check_distinct(tuple(found))
