"""Static check for the reuse of PRNG keys: which keys a program consumes, and whether it consumes one twice.

Abstract interpretation: every key of a program gets a number, and an array of keys is interpreted as an array of these
numbers. Primitives that move elements are evaluated on the numbers by their NumPy implementations. Drawing from a key
and splitting it consume it. If a key may be one of several (a slice at an unknown index, a selection), consuming it
consumes all of them.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from .. import prims
from .._util.recursion_limit import with_recursion_limit
from .._core.arg_checks import CLOSED_JAXPR, FUNCTION, optional, check_args
from .._types.dtypes import is_bool, is_integer, is_key
from ..errors import KeyReuseError
from .._core.region_signature import SCANNED
from .lower_keys import has_keys
from .._core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, subprograms
from .._core.primitive import get_primitives
from .._core.rewrite import walk
from .._core.source_info import Source
from .._core.region_view import Region, RegionView
from ..typing import Value

__all__ = ["CONSUMING_USES", "KeyUse", "KeyUses", "check_key_uses", "find_key_uses", "key_reuse_error"]

Ids = Any  # numbers of keys, an int64 array of the shape of the keys; None for arrays without keys
# the values of the param `use` of random_unwrap that consume a key -> text for errors
CONSUMING_USES = {"bits": "drawn from", "split": "split"}
# Iterations of a loop that are interpreted at most. A loop that moves keys between its carries may reuse one only
# after several iterations.
_MAX_ITERATIONS = 8
# Primitives that move elements to positions that do not depend on values.
_REARRANGE = get_primitives("broadcast_in_dim expand_dims reshape rev slice squeeze transpose")
_IDENTITY = get_primitives("convert_element_type copy sharding_constraint stop_gradient")
# Primitives whose result depends on index values. If these are unknown, `scatter` and `dynamic_update_slice` return
# fresh keys, so that a key that was overwritten does not count as used twice.
_SELECT = get_primitives("dynamic_slice gather")
_BY_VALUE = _SELECT | get_primitives("dynamic_update_slice scatter select")


class KeyUse(NamedTuple):
    """One use of a key.

    Attributes:
      kind: one of `CONSUMING_USES`.
      source: the line, or None.

    >>> print(KeyUse("bits", Source.from_line("model.py", 12, "noise")))
    drawn from at model.py:12 (noise)
    """

    kind: str
    source: Source | None

    @override
    def __str__(self) -> str:
        return f"{CONSUMING_USES[self.kind]}" + (f" at {self.source}" if self.source is not None else "")


class KeyUses(NamedTuple):
    """How a program uses keys, by their numbers.

    Attributes:
      ins: per argument, the numbers of its keys, or None.
      consts: constants that hold keys, with their numbers; also those of nested programs.
      outs: per result, the numbers of its keys, or None.
      used: number -> how the key is consumed.
      parts: number of a key that may be one of several -> their numbers.
      vague: whether the values of arguments would make the result more precise.
    """

    ins: tuple[Ids, ...]
    consts: tuple[tuple[Value, Ids], ...]
    outs: tuple[Ids, ...]
    used: dict[int, KeyUse]
    candidates: dict[int, tuple[int, ...]]
    depends_on_values: bool


def key_reuse_error(before: KeyUse, use: KeyUse) -> KeyReuseError:
    """Return the error for a key that is used twice.

    Args:
      before: the first use.
      use: the second one.
    Returns:
      The error, for the caller to raise.

    >>> print(key_reuse_error(KeyUse("split", None), KeyUse("bits", None)))  # doctest: +ELLIPSIS
    a random key is used twice: it is drawn from, and was split. Make new keys with random.split(key), ...
    """
    return KeyReuseError(f"a random key is used twice: it is {use}, and was {before}. Make new keys with random.split(key), "
                         "or mark an intended reuse with random.clone(key)")


@check_args(program=CLOSED_JAXPR, values=optional(FUNCTION))
def find_key_uses(program: ClosedJaxpr, values: Callable[[], Sequence[Value]] | None = None) -> KeyUses:
    """Find the keys that a program consumes.

    Args:
      program: any program.
      values: returns the arguments as NumPy arrays, or None for each that is unknown or not an integer. Called only if
        the values would make the result more precise.
    Returns:
      The numbers of its keys, and those that are consumed.
    Raises:
      KeyReuseError: it consumes a key twice.

    >>> from lamina_ir import parse
    >>> uses = find_key_uses(parse("{ lambda ; a:key<fry>[]. let b:u32[2] = random_unwrap[use=bits] a in (b,) }"))
    >>> uses.ins[0], uses.used
    (array(0), {0: KeyUse(kind='bits', source=None)})
    """
    try:
        found = program.memo("key uses", lambda: _interpret(program, None))
        if values is None or not found.depends_on_values:
            return found
    except KeyReuseError:  # with known index values the keys may turn out to be different
        if values is None or not any(e.primitive in _BY_VALUE and is_key(e.outvars[0].aval.dtype) for e in walk(program)):
            raise
    return _interpret(program, values())


@check_args(program=CLOSED_JAXPR)
def check_key_uses(program: ClosedJaxpr) -> None:
    """Raise KeyReuseError if a program consumes a key twice.

    Args:
      program: any program.
    Raises:
      KeyReuseError: it consumes a key twice.

    >>> from lamina_ir import parse
    >>> check_key_uses(parse("{ lambda ; a:key<fry>[]. let b:u32[2] = random_unwrap[use=bits] a in (b,) }"))
    """
    if has_keys(program):
        find_key_uses(program)


@with_recursion_limit()
def _interpret(program: ClosedJaxpr, values: Sequence[Value] | None) -> KeyUses:
    found = _Interpreter()
    if values is not None:
        found.values.update([(v, x) for v, x in zip(program.jaxpr.invars, values, strict=True) if x is not None])
    ins = tuple([found.make_ids(v.aval.shape) if is_key(v.aval.dtype) else None for v in program.jaxpr.invars])
    outs = tuple(found.interpret_program(program, ins))
    return KeyUses(ins, tuple(found.consts.values()), outs, found.used, found.candidates, found.depends_on_values)


class _Interpreter:
    """Interprets a program and those nested in it on key numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.used: dict[int, KeyUse] = {}
        self.candidates: dict[int, tuple[int, ...]] = {}
        self.consts: dict[int, tuple[Value, Ids]] = {}
        self.values: dict[Atom, np.ndarray] = {}  # of the outermost program: integers that are known
        self.depends_on_values = False
        self.line: Source | None = None  # source of the innermost enclosing equation

    def make_ids(self, shape: tuple[int, ...]) -> Ids:
        n = int(np.prod(shape, dtype=np.int64))
        first, self.count = self.count, self.count + n
        return np.arange(first, first + n).reshape(shape)

    def merge_candidates(self, *ids: Ids) -> int:
        """Return a number for a key that may be any of these."""
        # Only bases are candidates. Otherwise a selection from selections would need a transitive search in `consume`.
        numbers = np.unique(np.concatenate([x.ravel() for x in ids])).tolist()
        flat = sorted({base for i in numbers for base in self.find_bases(i)})
        if len(flat) == 1:
            return flat[0]
        number = self.count
        self.count += 1
        self.candidates[number] = tuple(flat)
        return number

    def make_aliases(self, ids: Ids) -> Ids:
        """Return new numbers for the same keys: consuming a key by both numbers is a reuse."""
        made = self.make_ids(ids.shape)
        # Consuming an alias consumes its bases. Only distinct numbers in one array count as distinct keys.
        self.candidates.update(zip(made.ravel().tolist(), map(self.find_bases, ids.ravel().tolist())))
        return made

    def find_bases(self, number: int) -> tuple[int, ...]:
        return self.candidates.get(number, (number,))

    def consume(self, ids: Ids, use: KeyUse) -> None:
        # Each number once: one equation that draws from an array of keys uses each of them once.
        for number in np.unique(ids).tolist():
            for base in self.find_bases(number):
                if base in self.used:
                    raise key_reuse_error(self.used[base], use)
                self.used[base] = use

    def interpret_program(self, closed: ClosedJaxpr, args: Sequence[Ids]) -> list[Ids]:
        jaxpr = closed.jaxpr
        env: dict[Atom, Ids] = dict(zip(jaxpr.invars, args, strict=True))
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True):
            if is_key(v.aval.dtype):
                # A constant that several nested programs share is one key, so its numbers are found by identity.
                env[v] = self.consts.setdefault(id(c), (c, self.make_ids(v.aval.shape)))[1]

        def read(a: Atom) -> Ids:
            if not is_key(a.aval.dtype):
                return None
            return self.make_ids(a.aval.shape) if type(a) is Literal else env[a]

        for e in jaxpr.eqns:
            env.update(zip(e.outvars, self.interpret_equation(e, list(map(read, e.invars)))))
        return list(map(read, jaxpr.outvars))

    def interpret_equation(self, e: Eqn, ins: list[Ids]) -> Sequence[Ids]:
        prim = e.primitive
        if prim.subprograms and (any(x is not None for x in ins) or any(map(has_keys, subprograms(e)))):
            before, self.line = self.line, e.source or self.line
            outs = self.interpret_nested(e, ins)
            self.line = before
            return outs
        if prim is prims.random_unwrap_p:
            if (what := e.params["use"]) in CONSUMING_USES:
                self.consume(ins[0], KeyUse(what, e.source or self.line))
        elif any(is_key(v.aval.dtype) for v in e.outvars):
            return self.move_keys(e, ins)
        elif self.values:
            # An integer computed from known ones may be the index of a key.
            self.evaluate_known(e)
        return [None] * len(e.outvars)

    def get_value(self, a: Atom) -> np.ndarray | None:
        """Return the value of an operand if it is known, else None."""
        return a.val if type(a) is Literal else self.values.get(a)

    def evaluate_known(self, e: Eqn) -> None:
        """Compute the result of an equation on known integers."""
        prim = e.primitive
        if prim.subprograms or prim.effectful or prim.multiple or not (is_integer(e.outvars[0].aval.dtype) or is_bool(
                e.outvars[0].aval.dtype)):
            return
        known = [self.get_value(a) for a in e.invars]
        if all(x is not None for x in known):
            self.values[e.outvars[0]] = np.asarray(prim.numpy(*map(np.asarray, known), **e.params))

    def move_keys(self, e: Eqn, ins: list[Ids]) -> Sequence[Ids]:
        prim, shape = e.primitive, e.outvars[0].aval.shape
        if prim is prims.optimization_barrier_p:
            return ins
        if prim in _IDENTITY and ins[0] is not None:
            return [ins[0]]
        if prim in _REARRANGE and ins[0] is not None:
            return [np.asarray(prim.numpy(ins[0], **e.params))]
        if prim is prims.concatenate_p:
            # A key that is in two operands gets an alias in the second one. `consume` takes each number once, so it
            # would miss that one equation draws from both copies.
            seen: set[int] = set()
            for i, x in enumerate(ins):
                numbers = set(np.unique(x).tolist())
                if not seen.isdisjoint(numbers):
                    ins[i] = self.make_aliases(x)
                seen |= numbers
            return [np.asarray(prim.numpy(*ins, **e.params))]
        if prim in _BY_VALUE:
            known = [x if x is not None else self.get_value(a) for a, x in zip(e.invars, ins)]
            if all(x is not None for x in known):
                return [np.asarray(prim.numpy(*map(np.asarray, known), **e.params))]
            # The caller may repeat the analysis with the values of this call, see `find_key_uses`.
            self.depends_on_values = True
        if prim is prims.select_p:
            return [self.choose_keys(np.broadcast_to(ins[1], shape), np.broadcast_to(ins[2], shape))]
        if prim in _SELECT and ins[0] is not None and ins[0].size:
            return [np.full(shape, self.merge_candidates(ins[0]), np.int64)]
        return [self.make_ids(v.aval.shape) if is_key(v.aval.dtype) else None for v in e.outvars]

    def choose_keys(self, a: Ids, b: Ids) -> Ids:
        """Return the elementwise choice between two arrays of keys."""
        out = a.copy()
        for at in np.argwhere(a != b).tolist():
            out[tuple(at)] = self.merge_candidates(a[tuple(at)], b[tuple(at)])
        return out

    # --- nested programs ------------------------------------------------------------------------------------------
    def interpret_nested(self, e: Eqn, ins: list[Ids]) -> Sequence[Ids]:
        signature = e.primitive.region_signature
        if signature is None or not signature.operands:
            return [self.make_ids(v.aval.shape) if is_key(v.aval.dtype) else None for v in e.outvars]
        view = RegionView.of(e)
        if signature.axis_binding is not None:
            return self.interpret_map(e, view.bodies[0], ins)
        if signature.loops:
            return self.interpret_loop(e, view, ins)
        # Only one branch runs. So each starts with the uses from before the equation, and two branches may use the
        # same key. After the equation, a key counts as used if any branch used it.
        before, found, used = dict(self.used), [], dict(self.used)
        for region in view.regions:
            self.used = dict(before)
            found.append(self.interpret_program(region.program, [ins[i] for i in region.ins]))
            used.update(self.used)
        self.used = used
        outs = found[0]
        for other in found[1:]:
            outs = [x if x is None else self.choose_keys(x, y) for x, y in zip(outs, other)]
        return outs

    def interpret_map(self, e: Eqn, region: Region, ins: list[Ids]) -> Sequence[Ids]:
        """Interpret a map. The program sees one member's part; consuming a key of it counts as consuming the whole
        operand."""
        inner = [self.make_ids(v.aval.shape) if is_key(v.aval.dtype) else None for v in region.program.jaxpr.invars]
        self.interpret_program(region.program, inner)
        for i, ids in zip(region.ins, inner):
            if ids is not None:
                first = next((self.used[n] for n in ids.ravel().tolist() if n in self.used), None)
                if first is not None:
                    self.consume(ins[i], first._replace())
        return [self.make_ids(v.aval.shape) if is_key(v.aval.dtype) else None for v in e.outvars]

    def interpret_loop(self, e: Eqn, view: RegionView, ins: list[Ids]) -> Sequence[Ids]:
        """Interpret a loop iteration by iteration.

        Iterations are interpreted until a key that is passed around among the carries would come back, at most
        `_MAX_ITERATIONS`. All further iterations are assumed to behave like the last one.
        """
        signature, params, n_carry = view.region_signature, e.params, view.n_carry
        length = params[signature.length] if signature.length else None
        backwards = bool(signature.reverse and params[signature.reverse])
        carry = list(ins[view.carry])
        iterations = min(_MAX_ITERATIONS, 2 + sum([x.size for x in carry if x is not None]))
        iterations = iterations if length is None else min(iterations, length)
        slices: list[list[Ids]] = []
        for iteration in range(iterations):
            at = length - 1 - iteration if backwards and length is not None else iteration
            now = list(ins)
            now[view.carry] = carry
            now = [x[at] if kind == SCANNED and x is not None else x for x, kind in zip(now, view.kinds)]
            before = set(self.used)
            for region in view.regions:
                outs = self.interpret_program(region.program, [now[i] for i in region.ins])
            carry = outs[:n_carry]
            slices.append(outs[n_carry:])
        if length is not None and iterations < length and iterations:
            rest = range(length - iterations) if backwards else range(iterations, length)
            self.assume_other_iterations(view, ins, now, before, rest)
        return [*carry, *[None if not is_key(v.aval.dtype) else self.stack_keys(v.aval.shape, [s[i] for s in slices], backwards)
                          for i, v in enumerate(e.outvars[n_carry:])]]

    def assume_other_iterations(self, view: RegionView, ins: list[Ids], last: list[Ids], before: set[int],
                         rest: range) -> None:
        """Assume that the iterations `rest` consume the same keys of their slices as the last interpreted one."""
        for x, part, kind in zip(ins, last, view.kinds):
            if kind == SCANNED and x is not None:
                # `before` holds the keys used before the last interpreted iteration.
                which = np.array([i in self.used and i not in before for i in part.ravel().tolist()], bool).reshape(part.shape)
                if which.any():
                    self.consume(x[rest.start:rest.stop][:, which], self.used[int(part[which].ravel()[0])]._replace())

    def stack_keys(self, shape: tuple[int, ...], slices: list[Ids], backwards: bool) -> Ids:
        """Stack the keys that the iterations returned, in order, with fresh keys for iterations not interpreted."""
        out = self.make_ids(shape)
        for iteration, part in enumerate(slices):
            out[shape[0] - 1 - iteration if backwards else iteration] = part
        return out
