"""`dumps` and `loads`: programs as bytes. The format is described in docs/saved-programs.md.

A file holds names, numbers and raw array bytes. Loading looks primitives and param types up by name and imports,
unpickles and runs nothing; what it gives back has passed `check`.
"""
from __future__ import annotations

import enum
import hashlib
import json
import struct
import sys
from typing import Any

import numpy as np

from . import dtypes
from ._collector import uncollected
from ._saved_reader import Reader, size
from ._stack_depth import roomy
from ._version import __version__
from .arguments import BYTES, MAPPING, takes
from .avals import ShapedArray
from .check import check_all
from .errors import LaminaError, ProgramError
from .key_types import host_value
from .over import completed
from .params import UnnamedAxis, field_values
from .program import ClosedJaxpr, DropVar, Literal, Source, Var
from .rule import Rule
from .tree_words import tree_of_words, tree_words

__all__ = ["FORMAT", "dumps", "loads", "saved_parts", "saved_trees", "saved_whole"]

MAGIC = b"\x89LAMINA\n"
FORMAT = 2  # the newest; a file whose ops are all at version 1 is of format 1, which says nothing of versions
_HEAD = struct.Struct("<8sII32sQQ")  # magic, format, reserved 0, sha256 of the rest, header bytes, buffer bytes
_ALIGN = 16
_RULE_DEPTH = 8  # rules of rules of rules ... that are written
_AT_ONCE = 256  # equations turned into text together: lists of a whole program would leave the processor's caches
_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _object(fields: dict[str, str]) -> str:
    """A JSON object of texts that are JSON already."""
    return "{" + ",".join([f'"{name}":{text}' for name, text in fields.items()]) + "}"


def _little(a: np.ndarray) -> bytes:
    if sys.byteorder == "big" and a.dtype.itemsize > 1:
        a = a.byteswap()
    return a.tobytes()


class _Writer:
    def __init__(self, sources: bool = False) -> None:
        self.places: dict[tuple[Any, ...], int] | None = {} if sources else None
        self.lines: list[list[int]] = []  # per program: the place of each equation, or -1
        self.avals: dict[ShapedArray, int] = {}
        self.programs: list[str] = []
        self.numbers: dict[int, int] = {}  # of programs and constants, by id
        self.axes: dict[UnnamedAxis, int] = {}
        self.alive: list[Any] = []  # keeps ids valid
        self.buffers: list[list[Any]] = []
        self.rules: list[list[Any]] = []
        self.rule_numbers: dict[int, int] = {}
        self.rule_depth = 0
        self.versions: dict[str, int] = {}  # of ops that are at another version than 1
        self.data = bytearray()

    def aval(self, a: ShapedArray) -> int:
        return self.avals.setdefault(a, len(self.avals))

    def type(self, a: ShapedArray) -> list[Any]:
        """A type as it is written; the axes over which values differ stand behind it where there are any."""
        over = sorted([self.value(name, "a type", "over") for name in a.over], key=_json)
        return [dtypes.stored_name(a.dtype), list(a.shape), int(a.weak_type), *([over] if over else [])]

    def buffer(self, x: Any) -> int:
        """The number of a constant's buffer; one array that stands in several places is written once."""
        number = self.numbers.get(id(x))
        if number is not None:
            return number
        a = np.ascontiguousarray(host_value(x)).reshape(np.shape(x))
        self.data += bytes(-len(self.data) % _ALIGN)
        raw = _little(a)
        self.buffers.append([dtypes.stored_name(a.dtype), list(a.shape), len(self.data), len(raw)])
        self.data += raw
        self.alive.append(x)
        number = self.numbers[id(x)] = len(self.buffers) - 1
        return number

    def program(self, closed: ClosedJaxpr) -> int:
        number = self.numbers.get(id(closed))
        if number is not None:
            return number
        jaxpr = closed.jaxpr
        # Variables are numbers, in the order in which they are bound: results need to say their types only. -1 - type:
        # dropped.
        index: dict[Var, int] = {}
        for v in (*jaxpr.constvars, *jaxpr.invars):
            index[v] = len(index)
        texts, eqns = [], []
        for e in jaxpr.eqns:
            ins = [self.atom(a, index) for a in e.invars]
            params = {k: self.value(v, e.primitive.name, k) for k, v in e.params.items()}
            outs = []
            for v in e.outvars:
                if isinstance(v, DropVar):
                    outs.append(-1 - self.aval(v.aval))
                else:
                    outs.append(self.aval(v.aval))
                    index[v] = len(index)
            eqns.append([e.primitive.name, ins, outs, params])
            if e.primitive.version != 1:
                self.versions[e.primitive.name] = e.primitive.version
            if len(eqns) == _AT_ONCE:
                texts.append(_json(eqns)[1:-1])
                eqns = []
        if eqns:
            texts.append(_json(eqns)[1:-1])
        fields = {
            "constvars": _json([self.aval(v.aval) for v in jaxpr.constvars]),
            "consts": _json([self.buffer(c) for c in closed.consts]),
            "invars": _json([self.aval(v.aval) for v in jaxpr.invars]), "eqns": f"[{','.join(texts)}]",
            "outvars": _json([self.atom(a, index) for a in jaxpr.outvars])}
        self.programs.append(_object(fields))
        if self.places is not None:
            self.lines.append([-1 if e.source is None else self.place(e.source, self.places) for e in jaxpr.eqns])
        self.alive.append(closed)
        number = self.numbers[id(closed)] = len(self.programs) - 1
        return number

    def place(self, s: Source, places: dict[tuple[Any, ...], int]) -> int:
        return places.setdefault((s.file, s.line, s.function, s.scope, s.part), len(places))

    def rule(self, rule: Rule) -> int:
        """A custom call's rule with its program. A rule whose program uses its own function meets itself again, and is
        written once; a chain of ever new ones is cut at `_RULE_DEPTH`, and what is cut says so when it is asked for."""
        number = self.rule_numbers.get(id(rule))
        if number is not None:
            return number
        number = self.rule_numbers[id(rule)] = len(self.rules)
        self.alive.append(rule)
        self.rules.append([rule.name, None])
        if self.rule_depth < _RULE_DEPTH:
            self.rule_depth += 1
            try:
                body = rule.program()
            except LaminaError:  # a Python function, or dropped before
                body = None
            if isinstance(body, ClosedJaxpr):
                self.rules[number][1] = self.program(body)
            self.rule_depth -= 1
        return number

    def atom(self, a: Any, index: dict[Var, int]) -> Any:
        if isinstance(a, Literal):
            return [self.aval(a.aval), _little(np.asarray(a.val, a.aval.dtype)).hex()]
        return index[a]

    def value(self, v: Any, where: str, key: str) -> Any:
        kind = type(v)
        if v is None or kind in (bool, int, str):
            return v
        # JSON has no infinities and no NaN: `v - v` is 0 for every other number.
        if kind is float:
            return v if v - v == 0 else {"float": repr(v)}
        if kind is complex:
            return {"complex": [repr(v.real), repr(v.imag)]}
        if kind is bytes:
            return {"bytes": v.hex()}
        if v is ...:
            return {"ellipsis": None}
        # A number of the table, so what stands in several places is written once and is one object when it is loaded.
        if isinstance(v, ClosedJaxpr):
            return {"program": self.program(v)}
        if isinstance(v, np.dtype):
            return {"dtype": dtypes.short_name(v)}
        if isinstance(v, enum.Enum):
            return {"enum": [kind.__name__, v.name]}
        if kind is Rule:
            return {"rule": self.rule(v)}
        fields = field_values(v)
        if fields is not None:
            return {"record": [kind.__name__, {n: self.value(x, where, key) for n, x in fields}]}
        if kind in (tuple, list, frozenset):
            return {kind.__name__: [self.value(x, where, key) for x in v]}
        if kind is dict:
            return {"dict": [[self.value(a, where, key), self.value(b, where, key)] for a, b in v.items()]}
        if isinstance(v, UnnamedAxis):
            return {"axis": [self.axes.setdefault(v, len(self.axes)), repr(v)[6:-1]]}
        if isinstance(v, (np.ndarray, np.generic)):
            return {"array": self.buffer(v)}
        raise ProgramError(f"dumps: param `{key}` of `{where}` holds a {kind.__name__}, which cannot be "
                           "saved; use numbers, strings, tuples, or a type given to lamina_ir.register_param_type")


@roomy()
@uncollected
def dumps(program: ClosedJaxpr, sources: bool = False, trees: tuple[Any, Any] | None = None) -> bytes:
    """The program, its constants included, as bytes for `loads`.

    Args:
      program: the program.
      sources: also save where each equation comes from: files, lines, names of functions and scopes. Left out, equal
        programs give equal bytes wherever they were written, and nothing is told of the files.
      trees: the structures (`trees.tree_structure`) of arguments and of results, to be saved too; `saved_trees` reads them.
    Raises:
      ProgramError: a param holds something that cannot be saved, such as a function; or a structure does, or it has not as many
        leaves as there are arguments or results.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    >>> loads(dumps(program))
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    if not isinstance(program, ClosedJaxpr):
        raise TypeError(f"dumps: expected a ClosedJaxpr; got {type(program).__name__}")
    words = None if trees is None else _words_of_trees(program, trees)
    w = _Writer(sources)
    main = w.program(program)
    header = _object({
        "writer": _json(f"lamina-ir {__version__}"), "main": _json(main), "programs": f"[{','.join(w.programs)}]",
        "buffers": _json(w.buffers),
        "avals": _json(list(map(w.type, w.avals))),
        **({"rules": _json(w.rules)} if w.rules else {}), **({"ops": _json(w.versions)} if w.versions else {}),
        **({"trees": _json(words)} if words is not None else {}),
        **({"sources": _json([list(p) for p in w.places]), "lines": _json(w.lines)} if w.places is not None else {}),
    }).encode()
    return _whole(header, bytes(w.data), bool(w.versions))


def _words_of_trees(program: ClosedJaxpr, trees: tuple[Any, Any]) -> list[Any]:
    words = []
    for what, tree, count in zip(("arguments", "results"), trees, (len(program.jaxpr.invars), len(program.jaxpr.outvars))):
        if tree.num_leaves != count:
            raise ProgramError(f"dumps: trees: the structure of the {what} has {tree.num_leaves} leaves; the program has "
                               f"{count}")
        try:
            words.append(tree_words(tree))
        except ValueError as e:
            raise ProgramError(f"dumps: trees: the structure of the {what} cannot be saved: {e}") from None
    return words


def _whole(header: bytes, data: bytes, versions: bool) -> bytes:
    """Readers of format 1 take every op for one of version 1, so they must not read files that say otherwise."""
    header += b" " * (-(_HEAD.size + len(header)) % _ALIGN)
    body = header + data
    form = FORMAT if versions else 1
    return _HEAD.pack(MAGIC, form, 0, hashlib.sha256(body).digest(), len(header), len(data)) + body


def saved_parts(data: bytes) -> tuple[Any, bytes]:
    """The header of a saved program, as JSON's objects, and its buffers: for tools that read or change programs as data.

    Args:
      data: what `dumps` gave.
    Raises:
      ProgramError: it is no saved program, or damaged.

    >>> from lamina_ir import parse
    >>> header, buffers = saved_parts(dumps(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")))
    >>> header["avals"], header["programs"][0]["eqns"], buffers
    ([['f32', [], 0]], [['sin', [0], [0], {}]], b'')
    """
    header, buffers = _parts(data)
    return json.loads(header), bytes(buffers)


@takes(header=MAPPING, buffers=BYTES)
def saved_whole(header: Any, buffers: bytes) -> bytes:
    """The saved program of this header and these buffers, for `loads`, which checks it.

    Args:
      header, buffers: as `saved_parts` gives them.

    >>> from lamina_ir import parse
    >>> header, buffers = saved_parts(dumps(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")))
    >>> header["programs"][0]["eqns"][0][0] = "cos"
    >>> print(loads(saved_whole(header, buffers)))
    { lambda ; a:f32[]. let b:f32[] = cos a in (b,) }
    """
    return _whole(_json(header).encode(), buffers, bool(header.get("ops")))


def saved_trees(data: bytes) -> tuple[Any, Any] | None:
    """The structures of a saved program's arguments and results; None where they were not saved.

    Args:
      data: what `dumps` gave.
    Raises:
      ProgramError: it is no saved program, or damaged, or has nodes of a class that is not registered here.

    >>> from lamina_ir import parse, trees
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    >>> ins, outs = trees.tree_structure(({"x": 0},)), trees.tree_structure([0])
    >>> saved_trees(dumps(program, trees=(ins, outs))) == (ins, outs)
    True
    """
    header, _ = saved_parts(data)
    try:
        words = header.get("trees")
        if words is None:
            return None
        ins, outs = map(tree_of_words, words)
        main = header["programs"][header["main"]]
        fits = ins.num_leaves == len(main["invars"]) and outs.num_leaves == len(main["outvars"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise ProgramError(f"loads: the saved structures of arguments and results cannot be read: {e}") from e
    if not fits:
        raise ProgramError("loads: the saved structures have not as many leaves as there are arguments and results")
    return ins, outs


def _parts(data: bytes) -> tuple[bytes, memoryview]:
    """Header and buffers of what may be a saved program."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"loads: expected bytes; got {type(data).__name__}. Open files in binary mode ('rb')")
    data = bytes(data)
    if data[:8] != MAGIC:
        raise ProgramError("loads: these bytes are not a program saved by lamina_ir.dumps")
    if len(data) < _HEAD.size:
        raise ProgramError("loads: the saved program is cut off")
    _, version, reserved, digest, n_header, n_data = _HEAD.unpack_from(data)
    if not 1 <= version <= FORMAT:
        raise ProgramError(f"loads: the program was saved in format {version}; this version reads formats 1 to {FORMAT}. "
                           "Use a lamina-ir that knows it")
    body = memoryview(data)[_HEAD.size:]
    if reserved or len(body) != n_header + n_data or hashlib.sha256(body).digest() != digest:
        raise ProgramError("loads: the saved program is damaged or cut off (its checksum does not fit)")
    return bytes(body[:n_header]), body[n_header:]


@uncollected
def loads(data: bytes) -> ClosedJaxpr:
    """The program that `dumps` saved, with the lines of its equations where they were saved too.

    Args:
      data: the bytes. They may come from anywhere: nothing in them is executed.
    Raises:
      ProgramError: not a saved program, damaged, of a newer format, with a primitive that is not known here, or not
        well formed.

    >>> loads(b"anything")
    Traceback (most recent call last):
    lamina_ir.errors.ProgramError: loads: these bytes are not a program saved by lamina_ir.dumps
    """
    written, buffers = _parts(data)
    try:
        header = json.loads(written)
        reader = Reader(header, buffers)
        lines = header.get("lines")
        for i, p in enumerate(header["programs"]):
            reader.programs.append(reader.program(p, None if lines is None else lines[i]))
        for rule, (_, number) in zip(reader.rules, header.get("rules", ())):
            if number is not None:
                rule.resolve(reader.programs[size(number)])
        program = reader.programs[size(header["main"])]
        programs = reader.programs
        if not any(a.over for a in reader.avals):  # saved before types said what differs, or nothing does
            programs = [program := completed(program), *map(completed, programs)]
    except ProgramError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as e:
        raise ProgramError(f"loads: the saved program is malformed ({type(e).__name__}: {e})") from e
    check_all(programs)  # those of rules too, which are nested in nothing
    return program
