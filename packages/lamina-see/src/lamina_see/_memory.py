"""Memory over the schedule of a compiled program, from XLA's assignment of values to buffers.

The memory of arguments and results is held during the whole program: the caller owns the first, and XLA allocates the
second before it starts. Temporary values are alive from the instruction that makes them to the last one that reads them.
A value in the memory of a result is counted in place of that part of the result.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ._hlo import Instruction, Module
from ._wire import read_fields

__all__ = ["Buffer", "Schedule", "buffers_of", "live_bytes"]

Leaves = dict[tuple[int, ...], frozenset[int]]  # position in a tuple -> the values that may be there
_FORWARDED = frozenset(("bitcast", "copy-done", "opt-barrier", "domain", "add-dependency", "async-done",
                        "async-update"))


class Buffer(NamedTuple):
    """A part of memory that holds a value.

    Attributes:
      name: of the instruction that makes the value.
      type, nbytes: of the value.
      first, last: positions in the schedule.
      kind: `argument`, `result`, `temporary` or `constant`.
      parameter: the number of the argument, else None.
    """

    name: str
    type: str
    nbytes: int
    first: int
    last: int
    kind: str
    parameter: int | None = None


class Schedule:
    """The instructions of a module in the order in which they run, loop bodies once, and the last use of each value.

    Values are numbered by XLA; one value may be at several places, such as the elements of a tuple. Values that share
    memory because a loop carries them are one.

    Args:
      module: the module.
      defined: (id of an instruction, position in its result) -> value.

    Attributes:
      instructions: in order.
      first, last: representative of a value -> position of its definition and of its last use.
    """

    def __init__(self, module: Module, defined: dict[tuple[int, tuple[int, ...]], int]) -> None:
        self._module, self._defined = module, defined
        self._leaves: dict[int, Leaves] = {}
        self._joined: dict[int, int] = {}
        self.instructions: list[Instruction] = []
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self._run(module.entry.id, [])
        end = len(self.instructions) - 1
        for values in self._leaves[module.entry.root].values():
            self._use(values, end)

    def representative(self, value: int) -> int:
        """Return the value that stands for all that share its memory."""
        while value in self._joined:
            value = self._joined[value]
        return value

    def _join(self, values: frozenset[int]) -> None:
        first, *rest = sorted({self.representative(v) for v in values}) or [-1]
        for other in rest:
            self._joined[other] = first
            if other in self.first:
                self.first[first] = min(self.first.get(first, self.first[other]), self.first.pop(other))
                self.last[first] = max(self.last.get(first, 0), self.last.pop(other, 0))

    def _use(self, values: frozenset[int], at: int) -> None:
        for v in values:
            r = self.representative(v)
            self.first.setdefault(r, at)
            self.last[r] = max(self.last.get(r, at), at)

    def _run(self, computation: int, arguments: Sequence[Leaves]) -> Leaves:
        """Add the instructions of a computation; return the values of its result."""
        found = self._module.computations[computation]
        for i in found:
            if i.opcode == "parameter" and i.parameter < len(arguments):
                self._leaves[i.id] = arguments[i.parameter]
                continue
            at = len(self.instructions)
            self.instructions.append(i)
            operands = [self._leaves.get(o, {}) for o in i.operands]
            for leaves in operands if i.opcode not in ("tuple", "get-tuple-element", "bitcast") else ():
                for values in leaves.values():
                    self._use(values, at)
            leaves = self._result(i, operands)
            self._leaves[i.id] = leaves
            end = len(self.instructions) - 1
            for index in leaves:
                own = self._defined.get((i.id, index))
                if own is not None:
                    self._use(frozenset((own,)), at)
            if end > at:  # what a loop reads is alive until it ends
                for operand in operands:
                    for values in operand.values():
                        self._use(values, end)
        return self._leaves.get(found.root, {})

    def _result(self, i: Instruction, operands: list[Leaves]) -> Leaves:
        none: frozenset[int] = frozenset()
        flow: Leaves = {}
        if i.opcode == "tuple":
            flow = {(k, *index): values for k, leaves in enumerate(operands) for index, values in leaves.items()}
        elif i.opcode == "get-tuple-element":
            flow = {index[1:]: values for index, values in operands[0].items() if index[:1] == (i.tuple_index,)}
        elif i.opcode in _FORWARDED and operands:
            flow = operands[0]
        elif i.opcode == "while":
            flow = self._loop(i, operands[0])
        elif i.opcode == "conditional":
            branches = [self._run(c, [leaves]) for c, leaves in zip(i.called, operands[1:])]
            flow = self._merge(branches)
        elif i.opcode == "call":
            flow = self._run(i.called[0], operands)
        found: Leaves = {}
        for index, _ in i.shape.leaves():
            own = self._defined.get((i.id, index))
            found[index] = flow.get(index, none) if own is None else frozenset((own,))
        return found

    def _loop(self, i: Instruction, start: Leaves) -> Leaves:
        begin = len(self.instructions)
        state = start
        for c in reversed(i.called):  # the condition, then the body; XLA lists the body first
            result = self._run(c, [state])
            if any(index for index in result) or () not in result:
                state = self._merge([start, result])
        end = len(self.instructions) - 1
        for values in state.values():
            self._join(values)
            self._use(values, begin)
            self._use(values, end)
        return state

    def _merge(self, several: Sequence[Leaves]) -> Leaves:
        found: dict[tuple[int, ...], frozenset[int]] = {}
        for leaves in several:
            for index, values in leaves.items():
                found[index] = found.get(index, frozenset()) | values
        for values in found.values():
            self._join(values)
        return found


class _Allocation:
    """One allocation of XLA: its size, kind, and (value, offset, size) of what is stored in it."""

    def __init__(self, data: bytes) -> None:
        self.size, self.parameter, self.kind, self.assigned = 0, 0, "temporary", []
        is_thread_local = False
        for number, value in read_fields(data):
            if number == 2:
                self.size = value
            elif number == 3:
                is_thread_local = bool(value)
            elif number == 5 and value:
                self.kind = "argument"
            elif number == 6:
                self.parameter = value
            elif number == 7 and value and self.kind == "temporary":
                self.kind = "result"
            elif number == 12 and value:
                self.kind = "constant"
            elif number == 11 and value and self.kind == "result":
                self.kind = "tuple"
            elif number == 9:
                fields: dict[int, Any] = dict(read_fields(value))
                self.assigned.append((fields.get(1, 0), fields.get(2, 0), fields.get(3, 0)))
        if is_thread_local:
            self.kind = "local"


def buffers_of(module: Module, assignment: bytes) -> tuple[list[Instruction], list[Buffer]]:
    """Return the instructions of a module in order, and the buffers that are alive while they run.

    Args:
      module: the compiled module.
      assignment: XLA's serialized `BufferAssignmentProto`.
    Raises:
      ValueError: the assignment cannot be read.
    """
    defined: dict[tuple[int, tuple[int, ...]], int] = {}
    of_value: dict[int, tuple[int, tuple[int, ...]]] = {}
    allocations: list[_Allocation] = []
    for number, data in read_fields(assignment):
        if number == 1:
            fields: dict[int, Any] = dict(read_fields(data))
            at: dict[int, Any] = {}
            index: list[int] = []
            for n, value in read_fields(fields.get(3, b"")):
                if n == 3:
                    index += [value] if isinstance(value, int) else list(value)
                else:
                    at[n] = value
            place = at.get(4, 0), tuple(index)
            defined[place] = fields.get(1, 0)
            of_value[fields.get(1, 0)] = place
        elif number == 3:
            allocations.append(_Allocation(data))
    if not allocations:
        raise ValueError("buffers_of: XLA's buffer assignment has no allocations")
    schedule = Schedule(module, defined)
    end = len(schedule.instructions) - 1
    found: list[Buffer] = []
    for a in allocations:
        if a.kind in ("local", "tuple") or not a.size:  # the table of a tuple is a few bytes
            continue
        held = _values(a, schedule, of_value, module)
        if a.kind in ("argument", "constant"):
            name, kind = (held[-1].name if held else ""), a.kind
            shape = next((b.type for b in held if b.nbytes == a.size), "")
            found.append(Buffer(name, shape, a.size, 0, end, kind, a.parameter if kind == "argument" else None))
        elif a.kind == "result":
            found += _result_buffers(a.size, held, end)
        else:
            found += held
    return schedule.instructions, found


def _values(a: _Allocation, schedule: Schedule, of_value: dict[int, tuple[int, tuple[int, ...]]],
            module: Module) -> list[Buffer]:
    """Return the values of an allocation in the order of their definitions; each byte belongs to one at a time."""
    found: dict[tuple[int, int, int], tuple[int, Buffer]] = {}
    for value, offset, size in a.assigned:
        r = schedule.representative(value)
        if r not in schedule.first or value not in of_value:
            continue
        id_, index = of_value[value]
        i = module.instructions.get(id_)
        if i is None:
            continue
        shape = next((str(s) for at, s in i.shape.leaves() if at == index), str(i.shape))
        new = Buffer(i.name, shape, size, schedule.first[r], schedule.last[r], "temporary")
        found.setdefault((r, offset, size), (offset, new))
    return _separate(sorted(found.values(), key=lambda held: (held[1].first, -held[1].last)))


def _separate(held: list[tuple[int, Buffer]]) -> list[Buffer]:
    """Return values without overlaps in memory and time.

    XLA lets values overlap only if one is no longer needed, or is updated in place. An older value ends where a newer one
    begins in its memory, unless it is needed longer: then the newer one is a part of it.

    Args:
      held: (offset, value), in the order of their definitions.
    """
    kept: list[tuple[int, Buffer]] = []
    active: list[int] = []
    for offset, new in held:
        is_part = False
        active = [k for k in active if kept[k][1].last >= new.first]
        for k in active:
            start, old = kept[k]
            if start < offset + new.nbytes and offset < start + old.nbytes:
                if old.last >= new.last and old.nbytes >= new.nbytes or old.first == new.first:
                    is_part = True
                else:
                    kept[k] = start, old._replace(last=new.first - 1)
        if not is_part:
            active.append(len(kept))
            kept.append((offset, new))
    return [b for _, b in kept if b.last >= b.first]


def _result_buffers(size: int, held: list[Buffer], end: int) -> list[Buffer]:
    """Return the buffers in the memory of a result, which add up to its size at each instruction."""
    final = max(held, key=lambda b: (b.last, b.first), default=Buffer("result", "", size, 0, end, "result"))
    found = [b for b in held if b is not final]
    cuts = sorted({0, end + 1, *[b.first for b in held], *[b.last + 1 for b in held]})
    for start, stop in zip(cuts, cuts[1:]):
        # the part of the result's memory that no other value uses meanwhile
        rest = size - sum([b.nbytes for b in found if b.first <= start <= b.last])
        if rest > 0:
            last = found[-1] if found else None
            if last is not None and last.kind == "result" and last.last == start - 1 and last.nbytes == rest:
                found[-1] = last._replace(last=stop - 1)
            else:
                found.append(Buffer(final.name, final.type, rest, start, stop - 1, "result"))
    return found


def live_bytes(count: int, buffers: Sequence[Buffer]) -> list[int]:
    """Return the live bytes at each of `count` instructions."""
    change = [0] * (count + 1)
    for b in buffers:
        change[b.first] += b.nbytes
        change[b.last + 1] -= b.nbytes
    found, total = [], 0
    for n in change[:count]:
        total += n
        found.append(total)
    return found
