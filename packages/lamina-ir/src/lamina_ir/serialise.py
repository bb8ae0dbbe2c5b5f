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
from ._stack_depth import roomy
from ._version import __version__
from .avals import ShapedArray, shaped
from .check import check_all
from .errors import LaminaError, ProgramError
from .key_types import host_value
from .over import completed
from .params import UnnamedAxis, field_values, type_named
from .primitive import by_name
from .program import ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var
from .rule import Rule

__all__ = ["FORMAT", "dumps", "loads", "saved_parts", "saved_whole"]

MAGIC = b"\x89LAMINA\n"
FORMAT = 1
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
def dumps(program: ClosedJaxpr, sources: bool = False) -> bytes:
    """The program, its constants included, as bytes for `loads`.

    Args:
      program: the program.
      sources: also save where each equation comes from: files, lines, names of functions and scopes. Left out, equal
        programs give equal bytes wherever they were written, and nothing is told of the files.
    Raises:
      ProgramError: a param holds something that cannot be saved, such as a function.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    >>> loads(dumps(program))
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    if not isinstance(program, ClosedJaxpr):
        raise TypeError(f"dumps: expected a ClosedJaxpr; got {type(program).__name__}")
    w = _Writer(sources)
    main = w.program(program)
    header = _object({
        "writer": _json(f"lamina-ir {__version__}"), "main": _json(main), "programs": f"[{','.join(w.programs)}]",
        "buffers": _json(w.buffers),
        "avals": _json(list(map(w.type, w.avals))),
        **({"rules": _json(w.rules)} if w.rules else {}),
        **({"sources": _json([list(p) for p in w.places]), "lines": _json(w.lines)} if w.places is not None else {}),
    }).encode()
    return _whole(header, bytes(w.data))


def _whole(header: bytes, data: bytes) -> bytes:
    header += b" " * (-(_HEAD.size + len(header)) % _ALIGN)
    body = header + data
    return _HEAD.pack(MAGIC, FORMAT, 0, hashlib.sha256(body).digest(), len(header), len(data)) + body


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
    return _whole(_json(header).encode(), buffers)


class _Reader:
    def __init__(self, header: Any, data: memoryview) -> None:
        self.axes: dict[int, UnnamedAxis] = {}
        self.avals = [self.type(*a) for a in header["avals"]]
        self.header = header
        self.data = data
        self.buffers: dict[int, np.ndarray] = {}
        self.programs: list[ClosedJaxpr] = []
        self.rules = [Rule(_text(name)) for name, _ in header.get("rules", ())]
        self.sources = [Source.at(_text(file), _size(line), _text(function), _text(scope), _text(part))
                        for file, line, function, scope, part in header.get("sources", ())]

    def type(self, dtype: str, shape: list[int], weak: Any, over: list[Any] | None = None) -> ShapedArray:
        found = shaped(tuple(_size(n) for n in shape), dtypes.from_short_name(dtype), bool(weak))
        return found.differing(frozenset([self.value(name) for name in over])) if over else found

    def buffer(self, i: int) -> np.ndarray:
        """A constant, read-only: one array for all places that name it, so memory stays within the size of the file."""
        found = self.buffers.get(_size(i))
        if found is None:
            found = self.buffers[i] = self.read_buffer(i)
            found.flags.writeable = False
        return found

    def read_buffer(self, i: int) -> np.ndarray:
        name, shape, start, length = self.header["buffers"][i]
        dtype, shape = dtypes.from_short_name(name), tuple(_size(n) for n in shape)
        count = 1
        for n in shape:
            count *= n
        if length != count * dtype.itemsize or not 0 <= start <= start + length <= len(self.data):
            raise ProgramError("loads: a constant's bytes do not fit its type")
        if dtype.itemsize == 0:
            return np.zeros(shape, dtype)
        a = np.frombuffer(self.data[start:start + length], dtype).reshape(shape)
        return a.byteswap() if sys.byteorder == "big" and dtype.itemsize > 1 else a.copy()

    def program(self, p: Any, lines: Any) -> ClosedJaxpr:
        """One program; `lines` has the number of each equation's source, or -1. None where they were not saved."""
        if lines is not None and len(lines) != len(p["eqns"]):
            raise ProgramError("loads: there must be one line per equation")
        avals = self.avals
        constvars = [Var(avals[_size(i)]) for i in p["constvars"]]
        invars = [Var(avals[_size(i)]) for i in p["invars"]]
        # Variables by number: the writer counted them in this order. Programs only name programs before them.
        scope: list[Var] = [*constvars, *invars]
        eqns: list[Eqn] = []
        for name, ins, outs, params in p["eqns"]:
            try:
                prim = by_name(name)
            except KeyError:
                raise ProgramError(f"loads: the program uses the primitive `{name}`, which is not known here; import "
                                   "the package that defines it first") from None
            invars_ = [self.atom(a, scope) for a in ins]
            params = {k: self.value(v) for k, v in params.items()}
            if len(params) < len(prim.params):  # params that the op has gained since: they mean what was meant before
                params = {**{k: v for k, v in prim.defaults.items() if k in prim.params}, **params}
            outvars = [Var(avals[o]) if o >= 0 else DropVar(avals[-1 - o]) for o in outs]
            scope.extend(v for v in outvars if type(v) is Var)
            line = -1 if lines is None else lines[len(eqns)]
            eqns.append(Eqn(prim, invars_, outvars, params, None if line == -1 else self.sources[_size(line)]))
        jaxpr = Jaxpr(constvars, invars, eqns, [self.atom(a, scope) for a in p["outvars"]])
        return ClosedJaxpr(jaxpr, [self.buffer(i) for i in p["consts"]])

    def atom(self, a: Any, scope: list[Var]) -> Any:
        if isinstance(a, list):
            aval = self.avals[_size(a[0])]
            raw = np.frombuffer(bytes.fromhex(a[1]), aval.dtype) if aval.dtype.itemsize else np.zeros(1, aval.dtype)
            if raw.size != 1 or aval.shape:
                raise ProgramError("loads: a literal must be one number")
            return Literal(raw.byteswap()[0] if sys.byteorder == "big" else raw[0], aval)
        return scope[_size(a)]

    def value(self, v: Any) -> Any:
        if not isinstance(v, dict):
            if isinstance(v, list):
                raise ProgramError("loads: a bare list among the params")
            return v
        # Whatever JSON cannot say by itself is {kind: what it is made of}.
        (kind, x), = v.items()
        if kind in ("tuple", "list", "frozenset"):
            return {"tuple": tuple, "list": list, "frozenset": frozenset}[kind](self.value(i) for i in x)
        if kind == "program":
            return self.programs[_size(x)]
        if kind == "dtype":
            return dtypes.from_short_name(x)
        if kind == "float":
            return float(x)
        if kind == "complex":
            return complex(float(x[0]), float(x[1]))
        if kind == "bytes":
            return bytes.fromhex(x)
        if kind == "ellipsis":
            return ...
        if kind == "dict":
            return {self.value(a): self.value(b) for a, b in x}
        if kind == "axis":
            return self.axes.setdefault(x[0], UnnamedAxis(str(x[1])))
        if kind == "array":
            return self.buffer(x)
        if kind == "rule":
            return self.rules[_size(x)]
        if kind in ("enum", "record"):
            found: Any = type_named(x[0])
            if found is None or issubclass(found, enum.Enum) != (kind == "enum"):
                raise ProgramError(f"loads: no param type is named `{x[0]}` here; import the package that defines it")
            return found[x[1]] if kind == "enum" else found(**{n: self.value(i) for n, i in x[1].items()})
        raise ProgramError(f"loads: params of kind `{kind}` are not known to this version")


def _text(s: Any) -> str:
    if type(s) is not str:
        raise ProgramError(f"loads: expected a name; got {s!r}")
    return s


def _size(n: Any) -> int:
    if type(n) is not int or n < 0:
        raise ProgramError(f"loads: expected an index or a size; got {n!r}")
    return n


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
    if version != FORMAT:
        raise ProgramError(f"loads: the program was saved in format {version}; this version reads format {FORMAT}. "
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
        reader = _Reader(header, buffers)
        lines = header.get("lines")
        for i, p in enumerate(header["programs"]):
            reader.programs.append(reader.program(p, None if lines is None else lines[i]))
        for rule, (_, number) in zip(reader.rules, header.get("rules", ())):
            if number is not None:
                rule.resolve(reader.programs[_size(number)])
        program = reader.programs[_size(header["main"])]
        programs = reader.programs
        if not any(a.over for a in reader.avals):  # saved before types said what differs, or nothing does
            programs = [program := completed(program), *map(completed, programs)]
    except ProgramError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as e:
        raise ProgramError(f"loads: the saved program is malformed ({type(e).__name__}: {e})") from e
    check_all(programs)  # those of rules too, which are nested in nothing
    return program
