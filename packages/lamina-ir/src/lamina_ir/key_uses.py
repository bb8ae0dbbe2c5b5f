"""Which random keys a program uses up, and whether it uses one twice.

Every key of a program gets a number, and ops that move keys move the numbers: an array of keys is an array of numbers, on which
an op that does not look at values is run in its NumPy meaning. A key is used up by drawing with it and by splitting it.
Where a key may be one of several (a slice at an index that is not known, a choice), using it uses up all of them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import prims
from ._stack_depth import roomy
from .arguments import CLOSED, FUNCTION, optional, takes
from .dtypes import is_bool, is_integer, is_key
from .errors import KeyReuseError
from .flow import STACKED
from .physical import has_keys
from .program import ClosedJaxpr, Eqn, Literal, subprograms
from .rewrite import walk
from .sources import Source
from .wiring import Wire, Wired

__all__ = ["KeyUses", "USES", "Use", "check_key_uses", "key_uses", "refuse_reuse"]

Ids = Any  # numbers of keys, an int64 array of the shape of the keys; None of what holds no keys
USES = {"bits": "drawn from", "split": "split"}  # what uses a key up, and how it is told
_MOST_TURNS = 8
# Ops that move elements to places that do not depend on values.
_STILL = frozenset("broadcast_in_dim expand_dims reshape rev slice squeeze transpose".split())
_STAY = frozenset("convert_element_type copy pbroadcast sharding_constraint stop_gradient".split())
# Ops that choose by values; `scatter` and `dynamic_update_slice` give new keys, so that a key replaced is none used twice.
_CHOOSE = frozenset(("dynamic_slice", "gather"))
_BY_VALUE = frozenset((*_CHOOSE, "dynamic_update_slice", "scatter", "select"))


class Use(NamedTuple):
    """One use of a key.

    Attributes:
      what: one of `USES`.
      source: the line, or None.

    >>> print(Use("bits", Source.at("model.py", 12, "noise")))
    drawn from at model.py:12 (noise)
    """

    what: str
    source: Source | None

    def __str__(self) -> str:
        return f"{USES[self.what]}" + (f" at {self.source}" if self.source is not None else "")


class KeyUses(NamedTuple):
    """What a program does with keys, by their numbers.

    Attributes:
      ins: per argument, the numbers of its keys, or None.
      consts: constants that hold keys, also of programs nested in it, with their numbers.
      outs: per result, the numbers of its keys, or None.
      used: number -> how it is used up.
      parts: number of a key that may be one of several -> their numbers.
      vague: whether values of arguments would say which key is meant somewhere.
    """

    ins: tuple[Ids, ...]
    consts: tuple[tuple[Any, Ids], ...]
    outs: tuple[Ids, ...]
    used: dict[int, Use]
    parts: dict[int, tuple[int, ...]]
    vague: bool


def refuse_reuse(before: Use, use: Use) -> KeyReuseError:
    """The error about a key that is used twice.

    Args:
      before: the first use.
      use: the second one.
    Returns:
      An error, to be raised.

    >>> print(refuse_reuse(Use("split", None), Use("bits", None)))  # doctest: +ELLIPSIS
    a random key is used twice: it is drawn from, and was split. random.split(key) makes new keys of one; ...
    """
    return KeyReuseError(f"a random key is used twice: it is {use}, and was {before}. random.split(key) makes new keys of "
                         "one; random.clone(key) says that it is used again on purpose")


@takes(program=CLOSED, values=optional(FUNCTION))
def key_uses(program: ClosedJaxpr, values: Callable[[], Sequence[Any]] | None = None) -> KeyUses:
    """What a program does with keys.

    Args:
      program: any program.
      values: gives the arguments as NumPy arrays, or None for what is not known or no integer; asked where these say which
        keys are meant.
    Returns:
      The numbers of its keys, and those that are used up.
    Raises:
      KeyReuseError: it uses one twice.

    >>> from lamina_ir import parse
    >>> uses = key_uses(parse("{ lambda ; a:key<fry>[]. let b:u32[2] = random_unwrap[use=bits] a in (b,) }"))
    >>> uses.ins[0], uses.used
    (array(0), {0: Use(what='bits', source=None)})
    """
    try:
        found = program.memo("key uses", lambda: _walk(program, None))
        if values is None or not found.vague:
            return found
    except KeyReuseError:  # unless values tell keys apart
        if values is None or not any(e.primitive.name in _BY_VALUE and is_key(e.outvars[0].aval.dtype) for e in walk(program)):
            raise
    return _walk(program, values())


@takes(program=CLOSED)
def check_key_uses(program: ClosedJaxpr) -> None:
    """Refuse a program that uses a key twice.

    Args:
      program: any program.
    Raises:
      KeyReuseError: it does.

    >>> from lamina_ir import parse
    >>> check_key_uses(parse("{ lambda ; a:key<fry>[]. let b:u32[2] = random_unwrap[use=bits] a in (b,) }"))
    """
    if has_keys(program):
        key_uses(program)


@roomy()
def _walk(program: ClosedJaxpr, values: Sequence[Any] | None) -> KeyUses:
    found = _Walk()
    if values is not None:
        found.values.update([(v, x) for v, x in zip(program.jaxpr.invars, values, strict=True) if x is not None])
    ins = tuple([found.fresh(v.aval.shape) if is_key(v.aval.dtype) else None for v in program.jaxpr.invars])
    outs = tuple(found.program(program, ins))
    return KeyUses(ins, tuple(found.consts.values()), outs, found.used, found.parts, found.vague)


class _Walk:
    """One walk through a program and those nested in it."""

    def __init__(self) -> None:
        self.count = 0
        self.used: dict[int, Use] = {}
        self.parts: dict[int, tuple[int, ...]] = {}
        self.consts: dict[int, tuple[Any, Ids]] = {}
        self.values: dict[Any, np.ndarray] = {}  # of the outermost program: integers that are known
        self.vague = False
        self.line: Source | None = None  # of the equation that the program stands in

    def fresh(self, shape: tuple[int, ...]) -> Ids:
        n = int(np.prod(shape, dtype=np.int64))
        first, self.count = self.count, self.count + n
        return np.arange(first, first + n).reshape(shape)

    def one_of(self, *ids: Ids) -> int:
        """A number for what may be any of these keys."""
        flat = sorted({base for i in np.unique(np.concatenate([x.ravel() for x in ids])).tolist() for base in self.bases(i)})
        if len(flat) == 1:
            return flat[0]
        number = self.count
        self.count += 1
        self.parts[number] = tuple(flat)
        return number

    def alias(self, ids: Ids) -> Ids:
        """Other numbers for the same keys: using both is using them twice."""
        made = self.fresh(ids.shape)
        self.parts.update(zip(made.ravel().tolist(), map(self.bases, ids.ravel().tolist())))
        return made

    def bases(self, number: int) -> tuple[int, ...]:
        return self.parts.get(number, (number,))

    def use(self, ids: Ids, use: Use) -> None:
        for number in np.unique(ids).tolist():
            for base in self.bases(number):
                if base in self.used:
                    raise refuse_reuse(self.used[base], use)
                self.used[base] = use

    def program(self, closed: ClosedJaxpr, args: Sequence[Ids]) -> list[Ids]:
        jaxpr = closed.jaxpr
        env: dict[Any, Ids] = dict(zip(jaxpr.invars, args, strict=True))
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True):
            if is_key(v.aval.dtype):
                env[v] = self.consts.setdefault(id(c), (c, self.fresh(v.aval.shape)))[1]

        def read(a: Any) -> Ids:
            if not is_key(a.aval.dtype):
                return None
            return self.fresh(a.aval.shape) if type(a) is Literal else env[a]

        for e in jaxpr.eqns:
            env.update(zip(e.outvars, self.equation(e, list(map(read, e.invars)))))
        return list(map(read, jaxpr.outvars))

    def equation(self, e: Eqn, ins: list[Ids]) -> Sequence[Ids]:
        prim = e.primitive
        if prim.subprograms and (any(x is not None for x in ins) or any(map(has_keys, subprograms(e)))):
            before, self.line = self.line, e.source or self.line
            outs = self.nested(e, ins)
            self.line = before
            return outs
        if prim is prims.random_unwrap_p:
            if (what := e.params["use"]) in USES:
                self.use(ins[0], Use(what, e.source or self.line))
        elif any(is_key(v.aval.dtype) for v in e.outvars):
            return self.moved(e, ins)
        elif self.values:
            self.follow(e)
        return [None] * len(e.outvars)

    def value(self, a: Any) -> Any:
        """An operand, if it is known; else None."""
        return a.val if type(a) is Literal else self.values.get(a)

    def follow(self, e: Eqn) -> None:
        """Compute what becomes of known integers."""
        prim = e.primitive
        if prim.subprograms or prim.effectful or prim.multiple or not (is_integer(e.outvars[0].aval.dtype) or is_bool(
                e.outvars[0].aval.dtype)):
            return
        known = [self.value(a) for a in e.invars]
        if all(x is not None for x in known):
            self.values[e.outvars[0]] = np.asarray(prim.numpy(*map(np.asarray, known), **e.params))

    def moved(self, e: Eqn, ins: list[Ids]) -> Sequence[Ids]:
        prim, shape = e.primitive, e.outvars[0].aval.shape
        if prim is prims.optimization_barrier_p:
            return ins
        if prim.name in _STAY and ins[0] is not None:
            return [ins[0]]
        if prim.name in _STILL and ins[0] is not None:
            return [np.asarray(prim.numpy(ins[0], **e.params))]
        if prim is prims.concatenate_p:
            seen: set[int] = set()
            for i, x in enumerate(ins):
                numbers = set(np.unique(x).tolist())
                if not seen.isdisjoint(numbers):
                    ins[i] = self.alias(x)
                seen |= numbers
            return [np.asarray(prim.numpy(*ins, **e.params))]
        if prim.name in _BY_VALUE:
            known = [x if x is not None else self.value(a) for a, x in zip(e.invars, ins)]
            if all(x is not None for x in known):
                return [np.asarray(prim.numpy(*map(np.asarray, known), **e.params))]
            self.vague = True
        if prim is prims.select_p:
            return [self.either(np.broadcast_to(ins[1], shape), np.broadcast_to(ins[2], shape))]
        if prim.name in _CHOOSE and ins[0] is not None and ins[0].size:
            return [np.full(shape, self.one_of(ins[0]), np.int64)]
        return [self.fresh(v.aval.shape) if is_key(v.aval.dtype) else None for v in e.outvars]

    def either(self, a: Ids, b: Ids) -> Ids:
        """Element by element, one of two."""
        out = a.copy()
        for at in np.argwhere(a != b).tolist():
            out[tuple(at)] = self.one_of(a[tuple(at)], b[tuple(at)])
        return out

    # --- nested programs ------------------------------------------------------------------------------------------
    def nested(self, e: Eqn, ins: list[Ids]) -> Sequence[Ids]:
        flow = e.primitive.flow
        if flow is None or not flow.operands:
            return [self.fresh(v.aval.shape) if is_key(v.aval.dtype) else None for v in e.outvars]
        wired = Wired.of(e)
        if flow.binds is not None:
            return self.mapped(e, wired.bodies[0], ins)
        if flow.loops:
            return self.loop(e, wired, ins)
        before, found, used = dict(self.used), [], dict(self.used)
        for wire in wired.wires:
            self.used = dict(before)
            found.append(self.program(wire.program, [ins[i] for i in wire.ins]))
            used.update(self.used)
        self.used = used
        outs = found[0]
        for other in found[1:]:
            outs = [x if x is None else self.either(x, y) for x, y in zip(outs, other)]
        return outs

    def mapped(self, e: Eqn, wire: Wire, ins: list[Ids]) -> Sequence[Ids]:
        """On members of a map a program sees its part: what it uses of an operand is taken for the whole operand."""
        inner = [self.fresh(v.aval.shape) if is_key(v.aval.dtype) else None for v in wire.program.jaxpr.invars]
        self.program(wire.program, inner)
        for i, ids in zip(wire.ins, inner):
            if ids is not None:
                first = next((self.used[n] for n in ids.ravel().tolist() if n in self.used), None)
                if first is not None:
                    self.use(ins[i], first._replace())
        return [self.fresh(v.aval.shape) if is_key(v.aval.dtype) else None for v in e.outvars]

    def loop(self, e: Eqn, wired: Wired, ins: list[Ids]) -> Sequence[Ids]:
        """Turn by turn, as many as it takes for a key that goes round to come back; the other turns are like the last."""
        flow, params, n_carry = wired.flow, e.params, wired.n_carry
        length = params[flow.length] if flow.length else None
        backwards = bool(flow.reverse and params[flow.reverse])
        carry = list(ins[wired.carry])
        turns = min(_MOST_TURNS, 2 + sum([x.size for x in carry if x is not None]))
        turns = turns if length is None else min(turns, length)
        slices: list[list[Ids]] = []
        for turn in range(turns):
            at = length - 1 - turn if backwards and length is not None else turn
            now = list(ins)
            now[wired.carry] = carry
            now = [x[at] if kind == STACKED and x is not None else x for x, kind in zip(now, wired.kinds)]
            before = set(self.used)
            for wire in wired.wires:
                outs = self.program(wire.program, [now[i] for i in wire.ins])
            carry = outs[:n_carry]
            slices.append(outs[n_carry:])
        if length is not None and turns < length and turns:
            self.other_turns(wired, ins, now, before, range(length - turns) if backwards else range(turns, length))
        return [*carry, *[None if not is_key(v.aval.dtype) else self.stacked(v.aval.shape, [s[i] for s in slices], backwards)
                          for i, v in enumerate(e.outvars[n_carry:])]]

    def other_turns(self, wired: Wired, ins: list[Ids], last: list[Ids], before: set[int], rest: range) -> None:
        """What the last turn used up of its slices, the turns of `rest` use up of theirs."""
        for x, row, kind in zip(ins, last, wired.kinds):
            if kind == STACKED and x is not None:
                which = np.array([i in self.used and i not in before for i in row.ravel().tolist()], bool).reshape(row.shape)
                if which.any():
                    self.use(x[rest.start:rest.stop][:, which], self.used[int(row[which].ravel()[0])]._replace())

    def stacked(self, shape: tuple[int, ...], rows: list[Ids], backwards: bool) -> Ids:
        """The keys that turns gave, in order; of turns that were not walked, new ones."""
        out = self.fresh(shape)
        for turn, row in enumerate(rows):
            out[shape[0] - 1 - turn if backwards else turn] = row
        return out
