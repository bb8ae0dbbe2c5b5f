"""`Cost`, what something takes, and the table of what each op costs; `cost_rows` fills it.

The meaning of the numbers is said in `cost_rows`, family by family.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ._excerpt import excerpt
from .avals import ShapedArray
from .primitive import Primitive


__all__ = ["Cost", "CostRules", "cost_rules", "moved"]

Avals = Sequence[ShapedArray]
Row = Callable[..., Any] | str | tuple[str, Callable[..., int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """What something takes. Costs add up, and are multiplied by how often it is done.

    Attributes:
      flops: operations on floating point numbers: a product and a sum are two, a complex product six.
      transcendentals: values of functions such as `exp`, `sqrt` and `erf`.
      bytes_read, bytes_written: of operands and results, each once for each equation.
      holes: what is not counted: (op, why) pairs.

    >>> Cost(flops=2, bytes_read=8) * 3 + Cost(transcendentals=1)
    Cost(flops=6, transcendentals=1, bytes_read=24, bytes_written=0, holes=frozenset())
    """

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    holes: frozenset[tuple[str, str]] = frozenset()

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Operations per byte, transcendental ones included; 0 where nothing is moved."""
        return (self.flops + self.transcendentals) / self.bytes if self.bytes else 0.0

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals, self.bytes_read + other.bytes_read,
                    self.bytes_written + other.bytes_written, self.holes | other.holes)

    def __mul__(self, times: int) -> Cost:
        if not isinstance(times, int):
            return NotImplemented
        return Cost(self.flops * times, self.transcendentals * times, self.bytes_read * times, self.bytes_written * times,
                    self.holes if times else frozenset())

    __rmul__ = __mul__

    def work(self) -> Cost:
        """The operations without the bytes."""
        return dataclasses.replace(self, bytes_read=0, bytes_written=0)


def _bytes(avals: Avals) -> int:
    return sum([a.size * a.dtype.itemsize for a in avals])


def moved(ins: Avals, outs: Avals) -> Cost:
    """The cost of reading and writing arrays of these types.

    >>> from lamina_ir import shaped
    >>> moved([shaped((3,), "float32")], [shaped((), "float32")]).bytes
    16
    """
    return Cost(bytes_read=_bytes(ins), bytes_written=_bytes(outs))


def _runs(rule: Any, op: Primitive) -> bool:
    """Whether a row names the param of a program."""
    param = rule[0] if isinstance(rule, tuple) and len(rule) == 2 and callable(rule[1]) else rule
    return isinstance(param, str) and param in op.params


class CostRules(dict[Primitive, Row]):
    """Primitive -> what it costs; for ops that hold programs along their flow, the programs say it.

    A row is `row(ins, outs, **params)`. From the types of operands and results it gives the number of flops, or a pair with
    that of transcendental functions, or a whole `Cost`; bytes that it does not say are those of operands and results, a
    variable that is read twice once and literals never. Of an op that runs a program the row may be the name of its param, or
    the pair of that and of a function that says how often it runs, on elements. Ops from outside get a row by `define`;
    elementwise ones without one count a flop for each floating point element.

    >>> from lamina_ir import Primitive
    >>> horner_p = Primitive("horner_of_docs", params=("degree",), infer=lambda x, *, degree: x)
    >>> cost_rules.define(horner_p, lambda ins, outs, degree: 2 * degree * outs[0].size)
    >>> horner_p in cost_rules
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self.holes: dict[Primitive, str] = {}
        self.version = 0  # what programs remember was counted with the rows of one version

    def define(self, op: Primitive, rule: Row) -> None:
        """Say what an op costs.

        Raises:
          TypeError: `op` is no Primitive, or `rule` neither a function nor a param.
        """
        if not isinstance(op, Primitive) or not (callable(rule) or _runs(rule, op)):
            raise TypeError("cost_rules.define: expected a Primitive and a function, or one of its params; got "
                            f"{excerpt(op)} and {excerpt(rule)}")
        self[op] = rule
        self.holes.pop(op, None)
        self.version += 1

    def hole(self, op: Primitive, reason: str) -> None:
        """Say why nobody can tell what an op costs.

        Raises:
          TypeError: `op` is no Primitive, or `reason` no text.
        """
        if not isinstance(op, Primitive) or not isinstance(reason, str):
            raise TypeError(f"cost_rules.hole: expected a Primitive and a reason; got {excerpt(op)} and {excerpt(reason)}")
        self.pop(op, None)
        self.holes[op] = reason
        self.version += 1


cost_rules = CostRules()
