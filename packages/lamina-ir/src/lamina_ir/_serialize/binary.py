"""`dumps` and `loads`: convert programs to bytes and back. docs/reference/saved-programs.md describes the format.

A file contains names, numbers and raw array bytes. Loading looks up primitives and param types by name. It imports,
unpickles and executes nothing, and the loaded program has passed `check`.
"""
from __future__ import annotations

import enum
import hashlib
import json
import struct
import sys
from typing import TypeAlias

import numpy as np

from .._types import dtypes
from .._util.gc_pause import pause_gc
from .reader import SavedProgramReader, check_index
from .._util.recursion_limit import with_recursion_limit
from .._version import __version__
from .._core.arg_checks import BYTES, MAPPING, check_args
from .._types.avals import ShapedArray
from .._passes.verify import check_all
from ..errors import LaminaError, ProgramError
from .._types.key_dtypes import read_on_host
from .._passes.varying_axes import infer_missing_annotations
from .._types.param_values import UnnamedAxis, get_field_values
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Literal, Source, Var
from .._core.primitive import check_savable
from .._core.custom_rule import Rule
from .treedef_json import treedef_from_json, treedef_to_json
from .._typing import Json
from ..typing import ParamValue, Value
from ..trees import PyTreeDef

__all__ = ["FORMAT", "dumps", "join_saved", "load_treedefs", "loads", "split_saved"]

MAGIC = b"\x89LAMINA\n"
FORMAT = 2  # the newest format. Format 1 has no primitive versions; it is written if all are 1, so old readers can read it.
_HEAD = struct.Struct("<8sII32sQQ")  # magic, format, reserved 0, sha256 of the rest, header bytes, buffer bytes
_ALIGN = 16
_RULE_DEPTH = 8  # the most levels of rules inside rules that are written
_AT_ONCE = 256  # equations converted to JSON at a time; converting all at once would not fit in the CPU caches
SourceKey: TypeAlias = tuple[str, int, str, str, str]  # file, line, function, scope and part of a `Source`
_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _object(fields: dict[str, str]) -> str:
    """Return a JSON object whose values are JSON text already."""
    return "{" + ",".join([f'"{name}":{text}' for name, text in fields.items()]) + "}"


def _little(a: np.ndarray) -> bytes:
    if sys.byteorder == "big" and a.dtype.itemsize > 1:
        a = a.byteswap()
    return a.tobytes()


class _Writer:
    def __init__(self, sources: bool = False) -> None:
        self.places: dict[SourceKey, int] | None = {} if sources else None
        self.lines: list[list[int]] = []  # per program: the index of each equation's source, or -1
        self.avals: dict[ShapedArray, int] = {}
        self.programs: list[str] = []
        self.numbers: dict[int, int] = {}  # id of a program or constant -> its index
        self.axes: dict[UnnamedAxis, int] = {}
        self.alive: list[object] = []  # keeps ids valid
        self.buffers: list[list[Json]] = []
        self.rules: list[list[Json]] = []
        self.rule_numbers: dict[int, int] = {}
        self.rule_depth = 0
        self.versions: dict[str, int] = {}  # versions of primitives, except version 1
        self.data = bytearray()

    def aval(self, a: ShapedArray) -> int:
        return self.avals.setdefault(a, len(self.avals))

    def type(self, a: ShapedArray) -> list[Json]:
        """Return the JSON form of a type; varying axes are appended if there are any."""
        # A frozenset has no order, and equal programs must give equal bytes.
        over = sorted([self.value(name, "a type", "over") for name in a.varying_axes], key=_json)
        return [dtypes.portable_name(a.dtype), list(a.shape), int(a.weak_type), *([over] if over else [])]

    def buffer(self, x: Value) -> int:
        """Return the index of a constant's buffer; a shared array is written once."""
        number = self.numbers.get(id(x))
        if number is not None:
            return number
        a = np.ascontiguousarray(read_on_host(x)).reshape(np.shape(x))
        # Multiples of 16 bytes are aligned for every dtype, so the bytes of a file can be used in place.
        self.data += bytes(-len(self.data) % _ALIGN)
        raw = _little(a)
        self.buffers.append([dtypes.portable_name(a.dtype), list(a.shape), len(self.data), len(raw)])
        self.data += raw
        self.alive.append(x)
        number = self.numbers[id(x)] = len(self.buffers) - 1
        return number

    def program(self, closed: ClosedJaxpr) -> int:
        number = self.numbers.get(id(closed))
        if number is not None:
            return number
        jaxpr = closed.jaxpr
        # Variables are numbered in the order in which they are bound, so the results of an equation are given by their
        # types alone. A dropped result is written as -1 - type.
        index: dict[Var, int] = {}
        for v in (*jaxpr.constvars, *jaxpr.invars):
            index[v] = len(index)
        texts, eqns = [], []
        for e in jaxpr.eqns:
            check_savable("dumps", e.primitive)
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

    def place(self, s: Source, places: dict[SourceKey, int]) -> int:
        return places.setdefault((s.file, s.line, s.function, s.scope, s.part), len(places))

    def rule(self, rule: Rule) -> int:
        """Write the rule of a custom call with its program, and return its index.

        A rule whose program uses its own function refers to itself by index. A chain of ever new rules is cut off at
        `_RULE_DEPTH`: those rules are written without a program, and using them after loading raises an error.
        """
        number = self.rule_numbers.get(id(rule))
        if number is not None:
            return number
        # Register the rule before its program is written: the program may call the function that has the rule.
        number = self.rule_numbers[id(rule)] = len(self.rules)
        self.alive.append(rule)
        self.rules.append([rule.name, None])
        if self.rule_depth < _RULE_DEPTH:
            self.rule_depth += 1
            try:
                body = rule.program()
            except LaminaError:  # the rule is a Python function, or was dropped by saving before
                body = None
            if isinstance(body, ClosedJaxpr):
                self.rules[number][1] = self.program(body)
            self.rule_depth -= 1
        return number

    def atom(self, a: Atom, index: dict[Var, int]) -> Json:
        if isinstance(a, Literal):
            return [self.aval(a.aval), _little(np.asarray(a.val, a.aval.dtype)).hex()]
        return index[a]

    def value(self, v: ParamValue, where: str, key: str) -> Json:
        kind = type(v)
        if v is None or kind in (bool, int, str):
            return v
        # JSON has no infinities and no NaN; `v - v` is 0 for all other numbers.
        if kind is float:
            return v if v - v == 0 else {"float": repr(v)}
        if kind is complex:
            return {"complex": [repr(v.real), repr(v.imag)]}
        if kind is bytes:
            return {"bytes": v.hex()}
        if v is ...:
            return {"ellipsis": None}
        # Programs are written by index, so a shared program is written once and is one object after loading.
        if isinstance(v, ClosedJaxpr):
            return {"program": self.program(v)}
        if isinstance(v, np.dtype):
            return {"dtype": dtypes.short_name(v)}
        if isinstance(v, enum.Enum):
            return {"enum": [kind.__name__, v.name]}
        if kind is Rule:
            return {"rule": self.rule(v)}
        fields = get_field_values(v)
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


@with_recursion_limit()
@pause_gc
def dumps(program: ClosedJaxpr, sources: bool = False, trees: tuple[PyTreeDef, PyTreeDef] | None = None) -> bytes:
    """Convert a program, including its constants, to bytes for `loads`.

    Args:
      program: the program.
      sources: also save the source of each equation: file, line, function and scope names. Without sources, equal
        programs give equal bytes wherever they were traced, and the file reveals no paths.
      trees: the tree structures (`trees.tree_structure`) of arguments and of results, to be saved too; `load_treedefs`
        reads them.
    Raises:
      ProgramError: a param or a tree structure holds something that cannot be saved, such as a function; or the number
        of leaves is not that of the arguments or results.

    >>> from lamina_ir import parse
    >>> program = parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    >>> loads(dumps(program))
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    if not isinstance(program, ClosedJaxpr):
        raise TypeError(f"dumps: expected a ClosedJaxpr; got {type(program).__name__}")
    treedefs = None if trees is None else _treedefs_to_json(program, trees)
    w = _Writer(sources)
    main = w.program(program)
    header = _object({
        "writer": _json(f"lamina-ir {__version__}"), "main": _json(main), "programs": f"[{','.join(w.programs)}]",
        "buffers": _json(w.buffers),
        "avals": _json(list(map(w.type, w.avals))),
        **({"rules": _json(w.rules)} if w.rules else {}), **({"ops": _json(w.versions)} if w.versions else {}),
        **({"trees": _json(treedefs)} if treedefs is not None else {}),
        **({"sources": _json([list(p) for p in w.places]), "lines": _json(w.lines)} if w.places is not None else {}),
    }).encode()
    return _assemble(header, bytes(w.data), bool(w.versions))


def _treedefs_to_json(program: ClosedJaxpr, trees: tuple[PyTreeDef, PyTreeDef]) -> list[Json]:
    found = []
    for what, tree, count in zip(("arguments", "results"), trees, (len(program.jaxpr.invars), len(program.jaxpr.outvars))):
        if tree.num_leaves != count:
            raise ProgramError(f"dumps: trees: the structure of the {what} must have {count} leaves, one for each; got "
                               f"{tree.num_leaves}")
        try:
            found.append(treedef_to_json(tree))
        except ValueError as e:
            raise ProgramError(f"dumps: trees: the structure of the {what} cannot be saved: {e}") from None
    return found


def _assemble(header: bytes, data: bytes, versions: bool) -> bytes:
    """Join header and buffers to a file. With `versions` its format is 2, because a reader of format 1 assumes that
    every primitive is at version 1."""
    # JSON ignores trailing spaces; they align the buffers.
    header += b" " * (-(_HEAD.size + len(header)) % _ALIGN)
    body = header + data
    form = FORMAT if versions else 1
    return _HEAD.pack(MAGIC, form, 0, hashlib.sha256(body).digest(), len(header), len(data)) + body


def split_saved(data: bytes) -> tuple[Json, bytes]:
    """Split a saved program into its header (decoded JSON) and its buffers, for tools that process programs as data.

    Args:
      data: the bytes from `dumps`.
    Raises:
      ProgramError: it is not a saved program, or is damaged.

    >>> from lamina_ir import parse
    >>> header, buffers = split_saved(dumps(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")))
    >>> header["avals"], header["programs"][0]["eqns"], buffers
    ([['f32', [], 0]], [['sin', [0], [0], {}]], b'')
    """
    header, buffers = _parts(data)
    return json.loads(header), bytes(buffers)


@check_args(header=MAPPING, buffers=BYTES)
def join_saved(header: Json, buffers: bytes) -> bytes:
    """Join header and buffers to a saved program; `loads` checks it.

    Args:
      header, buffers: as returned by `split_saved`.

    >>> from lamina_ir import parse
    >>> header, buffers = split_saved(dumps(parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")))
    >>> header["programs"][0]["eqns"][0][0] = "cos"
    >>> print(loads(join_saved(header, buffers)))
    { lambda ; a:f32[]. let b:f32[] = cos a in (b,) }
    """
    return _assemble(_json(header).encode(), buffers, bool(header.get("ops")))


def load_treedefs(data: bytes) -> tuple[PyTreeDef, PyTreeDef] | None:
    """Load the tree structures of a saved program's arguments and results; None if they were not saved.

    Args:
      data: the bytes from `dumps`.
    Raises:
      ProgramError: it is not a saved program, is damaged, or has nodes of a class that is not registered here.

    >>> from lamina_ir import parse, trees
    >>> program = parse("{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }")
    >>> ins, outs = trees.tree_structure(({"x": 0},)), trees.tree_structure([0])
    >>> load_treedefs(dumps(program, trees=(ins, outs))) == (ins, outs)
    True
    """
    header, _ = split_saved(data)
    try:
        saved = header.get("trees")
        if saved is None:
            return None
        ins, outs = map(treedef_from_json, saved)
        main = header["programs"][header["main"]]
        fits = ins.num_leaves == len(main["invars"]) and outs.num_leaves == len(main["outvars"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as e:
        raise ProgramError(f"loads: the saved structures of arguments and results cannot be read: {e}") from e
    if not fits:
        raise ProgramError("loads: the saved structures must have one leaf for each argument and result")
    return ins, outs


def _parts(data: bytes) -> tuple[bytes, memoryview]:
    """Split bytes that may be a saved program into header and buffers, checking magic, format and checksum."""
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
                           "Use a newer lamina-ir")
    body = memoryview(data)[_HEAD.size:]
    # The checksum finds damage, not manipulation. Manipulated files are caught by the reader and by `check`.
    if reserved or len(body) != n_header + n_data or hashlib.sha256(body).digest() != digest:
        raise ProgramError("loads: the saved program is damaged or cut off (checksum mismatch)")
    return bytes(body[:n_header]), body[n_header:]


@pause_gc
def loads(data: bytes) -> ClosedJaxpr:
    """Load a program saved by `dumps`, with the sources of its equations if they were saved.

    Args:
      data: the bytes. They may come from an untrusted source: nothing in them is executed.
    Raises:
      ProgramError: not a saved program, damaged, of a newer format, with an unknown primitive, or not well formed.

    >>> loads(b"anything")
    Traceback (most recent call last):
    lamina_ir.errors.ProgramError: loads: these bytes are not a program saved by lamina_ir.dumps
    """
    written, buffers = _parts(data)
    try:
        header = json.loads(written)
        reader = SavedProgramReader(header, buffers)
        lines = header.get("lines")
        for i, p in enumerate(header["programs"]):
            reader.programs.append(reader.program(p, None if lines is None else lines[i]))
        for rule, (_, number) in zip(reader.rules, header.get("rules", ())):
            if number is not None:
                rule.resolve(reader.programs[check_index(number)])
        program = reader.programs[check_index(header["main"])]
        programs = reader.programs
        if not any(a.varying_axes for a in reader.avals):  # saved before types had varying axes, or nothing varies
            programs = [program := infer_missing_annotations(program), *map(infer_missing_annotations, programs)]
    except ProgramError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as e:
        raise ProgramError(f"loads: the saved program is malformed ({type(e).__name__}: {e})") from e
    check_all(programs)  # including programs of rules, which are not nested in the main program
    return program
