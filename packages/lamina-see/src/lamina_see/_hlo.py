"""Optimized HLO modules as instructions with the numbers of their equations, in the order of the schedule.

Lowering gives each operation the location `equation:<number>`, and XLA keeps it. So an instruction has the number of its
own equation and, if it is fused, the numbers of the equations in it.
"""
from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from typing_extensions import override

from ._wire import read_fields, read_numbers

__all__ = ["Computation", "Instruction", "Module", "Shape"]

_EQUATION_FILE = b"equation"
# Names of element types by their number in XLA's `PrimitiveType`.
_TYPES = {1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
          10: "float16", 11: "float32", 12: "float64", 14: "opaque", 15: "complex64", 16: "bfloat16", 17: "token",
          18: "complex128", 19: "float8_e5m2", 20: "float8_e4m3fn", 21: "int4", 22: "uint4", 23: "float8_e4m3b11fnuz",
          24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz", 26: "int2", 27: "uint2"}
_SIZES = {"bool": 1, "complex64": 8, "complex128": 16, "opaque": 0, "token": 0, "bfloat16": 2}


class Shape:
    """The type of an array, or of a tuple: then `parts` has those of its elements."""

    __slots__ = ("dtype", "dims", "parts")

    def __init__(self, data: bytes) -> None:
        self.dtype = ""
        self.dims: tuple[int, ...] = ()
        self.parts: list[Shape] | None = None
        dims: list[int] = []
        for number, value in read_fields(data):
            if number == 2:
                self.dtype = _TYPES.get(value, "opaque")
                if value == 13:
                    self.parts = []
            elif number == 3:
                dims += read_numbers(value)
            elif number == 4:
                self.parts = [*(self.parts or ()), Shape(value)]
        self.dims = tuple(dims)

    @override
    def __str__(self) -> str:
        if self.parts is not None:
            return f"({', '.join(map(str, self.parts))})"
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"

    def leaves(self, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
        """Yield (index, type) of each array."""
        if self.parts is None:
            yield index, self
        else:
            for i, part in enumerate(self.parts):
                yield from part.leaves((*index, i))

    @property
    def nbytes(self) -> int:
        """Bytes of an array; of a tuple those of its arrays."""
        if self.parts is not None:
            return sum([part.nbytes for part in self.parts])
        bits = 8 * _SIZES[self.dtype] if self.dtype in _SIZES else int("".join(c for c in self.dtype.partition("_")[0]
                                                                               if c.isdigit()) or 0)
        return -(-bits * math.prod(self.dims) // 8)


class Instruction:
    """An instruction.

    Attributes:
      id, name, opcode, shape: of the instruction.
      operands: ids of its operands.
      called: ids of the computations that it calls.
      number: the number of its equation; 0 if the compiler added it.
      tuple_index, parameter: of a get-tuple-element, and of a parameter.
      computation: the id of the computation that holds it.
    """

    __slots__ = ("id", "name", "opcode", "shape", "operands", "called", "number", "tuple_index", "parameter", "computation")

    def __init__(self, data: bytes, numbers: dict[int, int], computation: int) -> None:
        self.name = self.opcode = ""
        self.id = self.number = self.tuple_index = self.parameter = 0
        self.operands: list[int] = []
        self.called: list[int] = []
        self.computation = computation
        shape = b""
        for field, value in read_fields(data):
            if field == 1:
                self.name = value.decode()
            elif field == 2:
                self.opcode = value.decode()
            elif field == 3:
                shape = value
            elif field == 7:
                self.number = _equation_number(value, numbers)
            elif field == 9:
                self.parameter = value
            elif field == 13:
                self.tuple_index = value
            elif field == 35:
                self.id = value
            elif field == 36:
                self.operands += read_numbers(value)
            elif field == 38:
                self.called += read_numbers(value)
        self.shape = Shape(shape)


def _equation_number(metadata: bytes, numbers: dict[int, int]) -> int:
    fields = dict(read_fields(metadata))
    if fields.get(3) == _EQUATION_FILE:
        return fields.get(4, 0)
    return numbers.get(fields.get(15, 0), 0)


class Computation:
    """A computation: its instructions by id, its root, and the ids in the order of the schedule."""

    __slots__ = ("id", "name", "instructions", "root", "order")

    def __init__(self, data: bytes, numbers: dict[int, int]) -> None:
        made: list[bytes] = []
        self.id = self.root = 0
        self.name = ""
        for field, value in read_fields(data):
            if field == 1:
                self.name = value.decode()
            elif field == 2:
                made.append(value)
            elif field == 5:
                self.id = value
            elif field == 6:
                self.root = value
        self.instructions = {i.id: i for i in [Instruction(x, numbers, self.id) for x in made]}
        self.order = list(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter([self.instructions[i] for i in self.order])


class Module:
    """An optimized module, read from its serialized form.

    Attributes:
      name: of the module.
      id: of the module in this process, as in profiles.
      computations: by id.
      entry: the computation that runs.
    """

    def __init__(self, data: bytes) -> None:
        self.name, self.id, entry = "", 0, 0
        computations: list[bytes] = []
        orders: dict[int, list[int]] = {}
        numbers: dict[int, int] = {}
        for field, value in read_fields(data):
            if field == 1:
                self.name = value.decode()
            elif field == 3:
                computations.append(value)
            elif field == 5:
                self.id = value
            elif field == 6:
                entry = value
            elif field == 7:
                orders = dict(_read_order(x) for f, x in read_fields(value) if f == 1)
            elif field == 17:
                numbers = _read_frames(value)
        found = [Computation(x, numbers) for x in computations]
        self.computations = {c.id: c for c in found}
        for key, order in orders.items():
            if key in self.computations and len(order) == len(self.computations[key].instructions):
                self.computations[key].order = order
        self.entry = self.computations[entry]

    @cached_property
    def instructions(self) -> dict[int, Instruction]:
        """All instructions by id."""
        return {i.id: i for c in self.computations.values() for i in c.instructions.values()}

    @cached_property
    def by_name(self) -> dict[str, Instruction]:
        """All instructions by name."""
        return {i.name: i for i in self.instructions.values()}

    @cached_property
    def numbers(self) -> dict[str, tuple[int, ...]]:
        """Name of an instruction -> the numbers of its equations: its own, and those of the instructions fused into it.

        An instruction that the compiler added has the number of its operand, else that of its user.
        """
        found: dict[int, tuple[int, ...]] = {}
        for computation in self.computations.values():
            for i in computation.instructions.values():
                own = [i.number] if i.number else []
                inner = self._inner_numbers(i) if i.opcode == "fusion" or i.opcode == "call" and not own else []
                numbers = tuple(dict.fromkeys([*own, *inner]))
                if numbers:
                    found[i.id] = numbers
        for computation in self.computations.values():
            order = list(computation.instructions.values())
            for i in order:
                if i.id not in found and (near := [found[o] for o in i.operands if o in found]):
                    found[i.id] = near[0][:1]
            for i in reversed(order):
                for o in i.operands if i.id in found else ():
                    found.setdefault(o, found[i.id][:1])
        return {i.name: found[i.id] for i in self.instructions.values() if i.id in found}

    @cached_property
    def weights(self) -> dict[str, dict[int, float]]:
        """Name of an instruction -> number of an equation -> its estimated part of the instruction's work.

        The work of a fused instruction is its number of elements, times ten for a transcendental function. A compiler
        copies parts of an equation into several fusions, so the cost of the whole equation is not used.
        """
        found = {}
        for i in self.instructions.values():
            numbers = self.numbers.get(i.name, ())
            if len(numbers) < 2:
                found[i.name] = dict.fromkeys(numbers, 1.0)
                continue
            parts = dict.fromkeys(numbers, 1e-6)  # not 0, so that the parts have a sum
            self._add_work(i, parts)
            total = sum(parts.values())
            found[i.name] = {n: work / total for n, work in parts.items()}
        return found

    def _add_work(self, i: Instruction, parts: dict[int, float]) -> None:
        for c in i.called:
            held = self.computations[c].instructions
            for inner in held.values():
                if inner.number in parts and inner.opcode not in _FREE:
                    parts[inner.number] += _work(inner, held)
                if inner.opcode in ("fusion", "call"):
                    self._add_work(inner, parts)

    def _inner_numbers(self, i: Instruction) -> list[int]:
        found = []
        for c in i.called:
            for inner in self.computations[c].instructions.values():
                found += [inner.number] if inner.number else []
                found += self._inner_numbers(inner) if inner.called else []
        return found


_FREE = frozenset(("parameter", "constant", "bitcast", "tuple", "get-tuple-element", "fusion", "call", "broadcast", "iota",
                   "reshape"))
_TRANSCENDENTAL = frozenset(("tanh", "exponential", "log", "power", "sine", "cosine", "logistic", "erf", "expm1",
                             "exponential-minus-one", "log-plus-one", "rsqrt", "sqrt", "cbrt", "atan2",
                             "tan", "divide", "remainder"))
_MOVING = frozenset(("copy", "transpose", "slice", "pad", "concatenate", "reverse", "dynamic-slice", "convert"))


def _work(i: Instruction, held: dict[int, Instruction]) -> float:
    """Return the estimated operations of an instruction in a fusion."""
    out = max(1, sum([math.prod(s.dims) for _, s in i.shape.leaves()]))
    inputs = [math.prod(held[o].shape.dims) for o in i.operands if o in held]
    if i.opcode in ("dot", "convolution") and len(inputs) == 2:
        return 2.0 * out * math.sqrt(max(1.0, inputs[0] * inputs[1] / out))
    if i.opcode in ("reduce", "reduce-window") and inputs:
        return float(max(out, inputs[0]))
    return out * (10.0 if i.opcode in _TRANSCENDENTAL else 0.25 if i.opcode in _MOVING else 1.0)


def _read_order(data: bytes) -> tuple[int, list[int]]:
    """Return (id of a computation, ids of its instructions in order)."""
    fields: dict[int, Any] = dict(read_fields(data))
    return fields.get(1, 0), [n for f, value in read_fields(fields.get(2, b"")) if f == 1 for n in read_numbers(value)]


def _read_frames(data: bytes) -> dict[int, int]:
    """Return id of a stack frame -> number of the equation. Ids start at 1."""
    files: list[bytes] = []
    locations: list[dict[int, Any]] = []
    frames: list[dict[int, Any]] = []
    for field, value in read_fields(data):
        if field == 1:
            files.append(value)
        elif field == 3:
            locations.append(dict(read_fields(value)))
        elif field == 4:
            frames.append(dict(read_fields(value)))
    found = {}
    for k, frame in enumerate(frames, 1):
        at = frame.get(1, 0)
        if 0 < at <= len(locations):
            location = locations[at - 1]
            if 0 < location.get(1, 0) <= len(files) and files[location[1] - 1] == _EQUATION_FILE:
                found[k] = location.get(3, 0)
    return found
