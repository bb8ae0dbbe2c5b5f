"""One program for all sizes: written down at many sizes, put into one with expressions where its numbers differ, and tried at
others.

A family is a saved program (the JSON that `lamina_ir.dumps` writes) in which some numbers are expressions of the names.
The function is traced at sizes that are numbers, so whatever can be traced can be exported. Then the programs at other
sizes, small and large, are compared with those that the expressions give. If they differ, the function depends on sizes
in a way that the expressions do not describe, and is refused.
"""
from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from lamina_ir import (ClosedJaxpr, ProgramError, ShapedArray, alpha_equal, dtypes, dumps, evaluate as run, loads,
                       split_saved, join_saved)

from .symbolic_dim import evaluate, find_variables
from .fit_dim_expressions import FORMS, Fit, count_samples
from .symbolic_scope import SymbolicScope, parse_dim

__all__ = ["Family", "Hole", "Sizes", "convert_program_error", "make_family"]

Sizes = Mapping[str, int]
Hole = tuple[tuple[Any, ...], str, Any]  # where in the header, the form, the expression
_FIRST, _APART = 23, 40  # the samples of each name begin there, and are so far apart
_WIDE = (131, 157, 173, 191, 199, 211)  # and these
_SMALL = (1, 2, 3, 4, 5, 8)
_LARGE = (257, 1025, 4099)
_TRIES = 4000
_KEPT = 64  # programs of sizes that were asked for
_MOST_ELEMENTS = 1 << 22  # of arguments on which two programs are compared by their results


class Family:
    """The program for any sizes.

    Args:
      header, buffers: of the saved program at some sizes; holes: the fields that differ at other sizes, with expressions.
      scope: of the names; names: those that the arguments determine.
    """

    def __init__(self, header: Any, buffers: bytes, holes: Sequence[Hole], scope: SymbolicScope, names: Sequence[str]) -> None:
        self.header, self.buffers, self.holes, self.scope, self.names = header, buffers, tuple(holes), scope, tuple(names)
        self._made: dict[tuple[int, ...], ClosedJaxpr] = {}  # a name in pickles

    @staticmethod
    def from_program(program: ClosedJaxpr) -> Family:
        """That of one program, without symbolic sizes.

        Raises:
          ProgramError: it cannot be saved.
        """
        made = Family(*split_saved(dumps(program)), (), SymbolicScope(), ())
        made._made[()] = program  # with the user's lines
        return made

    @property
    def sample(self) -> ClosedJaxpr:
        """The program at some sizes."""
        return next(iter(self._made.values()), None) or loads(join_saved(self.header, self.buffers))

    def instantiate(self, sizes: Sizes) -> ClosedJaxpr:
        """The program at these sizes, checked.

        Raises:
          ProgramError: it is not well formed there.
        """
        key = tuple([sizes[name] for name in self.names])
        found = self._made.get(key)
        if found is None:
            header = copy.deepcopy(self.header) if self.holes else self.header
            try:
                for path, form, n in self.holes:
                    place = header
                    for k in path[:-1]:
                        place = place[k]
                    place[path[-1]] = _format_value(form, evaluate(n, sizes), place, header)
            except (KeyError, IndexError, TypeError, ValueError, ArithmeticError) as e:
                raise ProgramError(f"the program of a family is malformed ({type(e).__name__}: {e})") from e
            found = loads(join_saved(header, self.buffers))
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[key] = found
        return found


def _format_value(form: str, n: int, place: Any, header: Any) -> Any:
    """A number as a saved program has it there: an int, a float, its text, or the bytes of a literal."""
    if form == "size":
        return n
    kind, _, form = form.partition(" ")
    value = FORMS[form][0](n) if form != "number" else n
    if kind == "literal":
        dtype = dtypes.from_short_name(header["avals"][place[0]][0])
        return np.asarray(value, dtype).astype(dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype).tobytes().hex()
    return float(value) if kind == "float" else repr(float(value))


def convert_program_error(call: str, make: Callable[[], Any]) -> Any:
    """What `make` gives; ValueError with the name of the call where a program cannot be saved."""
    try:
        return make()
    except ProgramError as e:
        raise ValueError(f"{call}: {e}") from e


# --- samples --------------------------------------------------------------------------------------------------------------
def _make_size_check(scope: SymbolicScope, names: Sequence[str], sizes: Sequence[Any]) -> Callable[[Sizes], bool]:
    """Whether arguments may be of these sizes."""
    return lambda values: scope.find_broken(values) is None and all(evaluate(n, values) >= 0 for n in sizes)


def _sizes_per_name(scope: SymbolicScope, names: Sequence[str], count: int) -> dict[str, tuple[list[int], list[int]]]:
    """Per name: numbers in a row that it may be, as far as it alone is concerned, and others farther apart."""
    found = {}
    for j, name in enumerate(names):
        low, high = scope.bounds(parse_dim(name, scope))
        low, high = max(int(low), 1), min(high, 1e6)
        start = max(low, min(_FIRST + _APART * j, int(high) - count))
        alone = [n for n in range(start, min(start + _TRIES, int(high) + 1)) if scope.find_broken({name: n}) is None]
        if not alone:
            raise ValueError(f"export: no size was found that {name!r} may have with the constraints {list(scope.constraints)}")
        found[name] = alone[:count], [next((n for n in alone if n >= w), alone[-1]) for w in _WIDE]
    return found


def _choose_samples(scope: SymbolicScope, names: Sequence[str], sizes: Sequence[Any]) -> list[dict[str, int]]:
    """Sizes at which programs are written down to be put into one."""
    draw, count, may_be = random.Random(0), count_samples(len(names)), _make_size_check(scope, names, sizes)
    of_each = _sizes_per_name(scope, names, count)
    found: dict[tuple[int, ...], dict[str, int]] = {}

    def add(values: Sequence[int]) -> None:
        sample = dict(zip(names, values))
        if may_be(sample):
            found.setdefault((*sample.values(),), sample)

    rows = [draw.sample(few, len(few)) for few, _ in of_each.values()]
    for i in range(max(map(len, rows))):
        add([row[i % len(row)] for row in rows])
    wide = [draw.sample(far, len(far)) for _, far in of_each.values()]
    for values in zip(*wide):
        add(values)
    for _ in range(_TRIES):  # where constraints join names
        if len(found) >= count + len(_WIDE):
            break
        add([draw.choice([*few, *far]) for few, far in of_each.values()])
    if not found:
        raise ValueError(f"export: no sizes of {', '.join(names)} were found that agree with the constraints "
                         f"{list(scope.constraints)}")
    return [*found.values()]


def _iterate_trials(scope: SymbolicScope, names: Sequence[str],
                    sizes: Sequence[Any]) -> Iterator[tuple[dict[str, int], bool]]:
    """Other sizes at which the one program is tried, and whether they are small."""
    draw, may_be = random.Random(1), _make_size_check(scope, names, sizes)
    of_each = _sizes_per_name(scope, names, 8)
    seen = set()
    for few, small in ((_SMALL, True), (_LARGE, False)):
        rows = [[n] * len(names) for n in few] + [[draw.choice(few) for _ in names] for _ in range(8 if len(names) > 1 else 0)]
        for row in rows:
            for values in (row, [next((m for m in found[0] if m >= n), n) for n, found in zip(row, of_each.values())]):
                sample = dict(zip(names, values))
                if tuple(values) not in seen and may_be(sample):
                    seen.add(tuple(values))
                    yield sample, small


# --- many programs into one -------------------------------------------------------------------------------------------------
class _Unlike(Exception):
    """Programs that no expressions make one; says where they differ."""


def make_family(trace: Callable[[Sizes], ClosedJaxpr], scope: SymbolicScope, sizes: Sequence[Any],
                call: str) -> tuple[Family, tuple[ShapedArray, ...]]:
    """The one program of all sizes, and the types of its results.

    Args:
      trace: gives the program at some sizes.
      scope: whose names they are; sizes: those of the arguments.
      call: who asks, for errors.
    Raises:
      ValueError: what the function does depends on sizes in a way that no expression says, or that is not the same for all
        sizes.
    """
    names = sorted(find_variables(sizes))
    samples = _choose_samples(scope, names, sizes)
    programs = [trace(sample) for sample in samples]
    saved = [split_saved(dumps(p)) for p in programs]
    # Where two sizes are the same by chance, types are fewer: such samples are tried, not put together.
    alike: dict[Any, list[int]] = {}
    for i, (header, _) in enumerate(saved):
        alike.setdefault((len(header["avals"]), len(header["programs"]), len(header["buffers"])), []).append(i)
    chosen = max(alike.values(), key=len)
    fit = Fit([samples[i] for i in chosen], scope, sizes)
    try:
        if len({saved[i][1] for i in chosen}) > 1:
            raise _Unlike("an array that it holds as a constant is another at other sizes. Make it of the argument's shape "
                          "with lamina.numpy, inside of the function")
        holes = _find_holes([saved[i][0] for i in chosen], fit)
        out_avals = _fit_avals([programs[i].out_avals for i in chosen], fit)
    except _Unlike as e:
        raise ValueError(f"{call}: the function is not one program for all sizes of {', '.join(names)}: {e}") from None
    header, buffers = saved[chosen[0]]
    made = Family(header, buffers, holes, scope, names)
    rest = [(sample, program, False) for i, (sample, program) in enumerate(zip(samples, programs)) if i not in chosen]
    for sample, small in _iterate_trials(scope, names, sizes):
        rest.append((sample, trace(sample), small))
    for sample, program, small in rest:
        wrong = _find_difference(made, sample, program, small)
        if wrong:
            at = ", ".join([f"{n} = {v}" for n, v in sample.items()])
            raise ValueError(f"{call}: the function is not one program for all sizes of {', '.join(names)}: at {at} {wrong}. "
                             "Restrict the sizes with constraints, as in symbolic_shape('a', constraints=['a >= 8']), or "
                             "export it once for each kind of sizes")
    return made, out_avals


def _find_holes(headers: Sequence[Any], fit: Fit) -> list[Hole]:
    """Return the fields in which these headers differ, each with its expression."""
    holes: list[Hole] = []
    stack: list[tuple[tuple[Any, ...], list[Any]]] = [((), [*headers])]
    while stack:
        path, those = stack.pop()
        first = those[0]
        kinds = {type(x) for x in those}
        if len(kinds) > 1 or isinstance(first, (list, dict)) and len({len(x) for x in those}) > 1:
            raise _Unlike(f"{_describe_place(path, headers[0])} is of another form at other sizes")
        if isinstance(first, dict):
            if any(x.keys() != first.keys() for x in those):
                raise _Unlike(f"{_describe_place(path, headers[0])} is of another form at other sizes")
            stack += [((*path, k), [x[k] for x in those]) for k in reversed(first)]
        elif isinstance(first, list):
            if all(x == first for x in those[1:]):
                continue
            stack += [((*path, i), [x[i] for x in those]) for i in reversed(range(len(first)))]
        elif any(x != first for x in those):
            holes.append((path, *_fit_field(path, those, fit, headers)))
    return holes


def _fit_field(path: tuple[Any, ...], those: list[Any], fit: Fit, headers: Sequence[Any]) -> tuple[str, Any]:
    first = those[0]
    if type(first) is int:
        if path[-1] == 0 and len(path) > 2 and path[-2] == "eqns" or "buffers" in path[:1]:
            raise _Unlike(f"{_describe_place(path, headers[0])} is of another form at other sizes")
        e = fit.fit_ints(those)
        if e is not None:
            return "size", e
    elif type(first) is float:
        real = fit.fit_floats(those, float)
        if real is not None:
            return f"float {real[0]}", real[1]
    elif type(first) is str:
        place = headers[0]
        for k in path[:-1]:
            place = place[k]
        if isinstance(place, list) and len(place) == 2 and path[-1] == 1 and type(place[0]) is int:
            dtype = dtypes.from_short_name(headers[0]["avals"][place[0]][0])
            if dtype.kind in "iufV":
                values = [np.frombuffer(bytes.fromhex(x), dtype)[0] for x in those]
                if dtype.kind in "iu":
                    e = fit.fit_ints([int(v) for v in values])
                    if e is not None:
                        return "literal number", e
                else:
                    real = fit.fit_floats([float(v) for v in values], lambda x: float(np.asarray(x, dtype)))
                    if real is not None:
                        return f"literal {real[0]}", real[1]
        elif path[-1] == "float":
            real = fit.fit_floats([float(x) for x in those], float)
            if real is not None:
                return f"text {real[0]}", real[1]
    shown = ", ".join([f"{x} at {_format_sample(s)}" for x, s in list(zip(those, fit.samples))[:3]])
    raise _Unlike(f"no expression was found for {_describe_place(path, headers[0])}: {shown}")


def _format_sample(sample: Sizes) -> str:
    return ", ".join([f"{n}={v}" for n, v in sample.items()])


def _describe_place(path: tuple[Any, ...], header: Any) -> str:
    """Describe a place in a saved program for error messages."""
    if len(path) > 3 and path[0] == "programs" and path[2] == "eqns":
        eqn = header["programs"][path[1]]["eqns"][path[3]]
        part = ["the op", "an operand", "a result", "the param"][path[4]] if len(path) > 4 else "the equation"
        name = f" `{path[5]}`" if len(path) > 5 and path[4] == 3 else ""
        return f"{part}{name} of `{eqn[0]}`"
    return {"avals": "a type", "programs": "the list of operations"}.get(path[0] if path else "", "the program")


def _fit_avals(rows: Sequence[Sequence[ShapedArray]], fit: Fit) -> tuple[ShapedArray, ...]:
    """The types of results, with expressions as sizes."""
    if len({len(row) for row in rows}) > 1:
        raise _Unlike("it gives another number of results at other sizes")
    found = []
    for those in zip(*rows):
        if len({(a.ndim, a.dtype, a.weak_type) for a in those}) > 1:
            raise _Unlike(f"a result is of type {those[0].str_long()} and {those[-1].str_long()}")
        shape = []
        for sizes in zip(*[a.shape for a in those]):
            e = fit.fit_ints(sizes)
            if e is None:
                raise _Unlike(f"no expression was found for the size of a result: {', '.join(map(str, sizes[:3]))}, ...")
            shape.append(e)
        found.append(ShapedArray(tuple(shape), those[0].dtype, those[0].weak_type))
    return tuple(found)


def _find_difference(made: Family, sample: Sizes, program: ClosedJaxpr, small: bool) -> str | None:
    """What is wrong with the program that a family gives at a sample; None: it is, or computes, that one."""
    try:
        given = made.instantiate(sample)
    except ProgramError as e:
        return f"its program is not well formed ({e})"
    if alpha_equal(given, program):
        return None
    for does, got, wanted in (("takes", given.in_avals, program.in_avals), ("gives", given.out_avals, program.out_avals)):
        if [a.strip_weak_type() for a in got] != [a.strip_weak_type() for a in wanted]:
            return f"it {does} {', '.join([a.str_long() for a in wanted])}, and not {', '.join([a.str_long() for a in got])}"
    if small and sum([a.size for a in program.in_avals]) <= _MOST_ELEMENTS:
        args = _draw_arguments(program)
        if args is not None and _is_close(run(given, *args), run(program, *args)):
            return None  # written otherwise, as where a sum over one element is left out
    return "it does other operations"


def _draw_arguments(program: ClosedJaxpr) -> list[Any] | None:
    """Arguments at random; None where they, or results, are of types that have no numbers."""
    if any(dtypes.issubdtype(a.dtype, dtypes.extended) for a in (*program.in_avals, *program.out_avals)):
        return None
    draw, found = np.random.default_rng(0), []
    for a in program.in_avals:
        x = draw.integers(0, 3, a.shape) if a.dtype.kind in "biu" else draw.uniform(0.25, 2, a.shape)
        found.append(np.asarray(x).astype(a.dtype))
    return found


def _is_close(got: Sequence[Any], wanted: Sequence[Any]) -> bool:
    for g, w in zip(got, wanted):
        g, w = np.asarray(g), np.asarray(w)
        if g.dtype.kind in "biu":
            if not np.array_equal(g, w):
                return False
        else:
            wide = complex if g.dtype.kind == "c" else float
            loose = 1e-2 if g.dtype.itemsize < 4 else 1e-4 if g.dtype.itemsize < 8 else 1e-9
            if not np.allclose(g.astype(wide), w.astype(wide), rtol=loose, atol=loose, equal_nan=True):
                return False
    return True
