"""`Cost`, and the table of cost rules per primitive. `cost.rules` fills it and defines what the numbers mean."""
from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from .._util.short_repr import short_repr
from .._types.avals import ShapedArray
from .._core.primitive import Primitive
from .._util.former_names import former_attributes


__all__ = ["Cost", "CostRules", "cost_rules", "transfer_cost"]

Avals = Sequence[ShapedArray]
CostRule = Callable[..., Any] | str | tuple[str, Callable[..., int]]


@former_attributes(holes="uncounted")
@dataclasses.dataclass(frozen=True, slots=True)
class Cost:
    """Operation counts and memory traffic. Costs can be added, and multiplied by a repetition count.

    Attributes:
      flops: operations on floating point numbers: a product and a sum are two, a complex product is six.
      transcendentals: evaluations of functions such as `exp`, `sqrt` and `erf`.
      bytes_read, bytes_written: of operands and results, each once per equation.
      uncounted: (primitive name, reason) pairs of costs that are unknown and not included.

    >>> Cost(flops=2, bytes_read=8) * 3 + Cost(transcendentals=1)
    Cost(flops=6, transcendentals=1, bytes_read=24, bytes_written=0, uncounted=frozenset())
    """

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    uncounted: frozenset[tuple[str, str]] = frozenset()

    @property
    def bytes(self) -> int:
        """The bytes read plus the bytes written."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """The arithmetic intensity: operations per byte, transcendental ones included; 0 if no bytes are moved."""
        return (self.flops + self.transcendentals) / self.bytes if self.bytes else 0.0

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(self.flops + other.flops, self.transcendentals + other.transcendentals, self.bytes_read + other.bytes_read,
                    self.bytes_written + other.bytes_written, self.uncounted | other.uncounted)

    def __mul__(self, times: int) -> Cost:
        if not isinstance(times, int):
            return NotImplemented
        return Cost(self.flops * times, self.transcendentals * times, self.bytes_read * times, self.bytes_written * times,
                    self.uncounted if times else frozenset())

    __rmul__ = __mul__

    def work(self) -> Cost:
        """Return the operation counts alone, with zero bytes."""
        return dataclasses.replace(self, bytes_read=0, bytes_written=0)


def _bytes(avals: Avals) -> int:
    return sum([a.size * a.dtype.itemsize for a in avals])


def transfer_cost(ins: Avals, outs: Avals) -> Cost:
    """Return the cost of reading and writing arrays of the given types.

    >>> from lamina_ir import shaped
    >>> transfer_cost([shaped((3,), "float32")], [shaped((), "float32")]).bytes
    16
    """
    return Cost(bytes_read=_bytes(ins), bytes_written=_bytes(outs))


def _names_program(rule: object, op: Primitive) -> bool:
    """Return whether a rule names the param that holds a program."""
    param = rule[0] if isinstance(rule, tuple) and len(rule) == 2 and callable(rule[1]) else rule
    return isinstance(param, str) and param in op.params


@former_attributes(hole="declare_missing", holes="missing_rules")
class CostRules(dict[Primitive, CostRule]):
    """Primitive -> cost rule. Primitives with a region signature need none: their cost is that of their programs.

    A rule is one of:
    - `rule(ins, outs, **params)`, which returns from the types of operands and results the number of flops, or a pair
      (flops, transcendentals), or a whole `Cost`. Unless it returns a `Cost`, the bytes are those of the operands and
      results; a variable read twice counts once, literals count zero;
    - the name of a param that holds a program: the cost is that of the program;
    - a pair of such a name and a function of (ins, outs, **params) that returns how often the program runs per element.

    Third-party primitives get a rule by `define`. An elementwise primitive without a rule counts one flop per floating
    point element.

    >>> from lamina_ir import Primitive
    >>> horner_p = Primitive("horner_of_docs", params=("degree",), infer=lambda x, *, degree: x)
    >>> cost_rules.define(horner_p, lambda ins, outs, degree: 2 * degree * outs[0].size)
    >>> horner_p in cost_rules
    True
    """

    def __init__(self) -> None:
        super().__init__()
        self.missing_rules: dict[Primitive, str] = {}
        self.version = 0  # part of the key of memoized costs; incremented when a rule changes

    def define(self, prim: Primitive, rule: CostRule) -> None:
        """Set the cost rule of a primitive.

        Raises:
          TypeError: `op` is not a Primitive, or `rule` is neither a function nor a param.
        """
        if not isinstance(prim, Primitive) or not (callable(rule) or _names_program(rule, prim)):
            raise TypeError("cost_rules.define: expected a Primitive and a function, or one of its params; got "
                            f"{short_repr(prim)} and {short_repr(rule)}")
        self[prim] = rule
        self.missing_rules.pop(prim, None)
        self.version += 1

    def declare_missing(self, prim: Primitive, reason: str) -> None:
        """Record why the cost of a primitive is unknown.

        Raises:
          TypeError: `op` is not a Primitive, or `reason` is not a string.
        """
        if not isinstance(prim, Primitive) or not isinstance(reason, str):
            raise TypeError("cost_rules.declare_missing: expected a Primitive and a reason; got "
                            f"{short_repr(prim)} and {short_repr(reason)}")
        self.pop(prim, None)
        self.missing_rules[prim] = reason
        self.version += 1


cost_rules = CostRules()
