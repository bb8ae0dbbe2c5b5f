"""`jaxpr_json` and `jaxpr_from_json`: convert programs to JSON objects and back, for tools in any language.

docs/reference/program-json.md has the schema. Variables have the names of the printed program. The format of `dumps`
is more compact and also contains the rules of custom calls; this format is for viewing and drawing programs, and for
generating them with other tools.
"""
from __future__ import annotations

import base64
import sys
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import NoReturn

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._util.short_repr import short_repr
from .._text.param_parser import ParamParser
from .._util.recursion_limit import with_recursion_limit
from .._types.avals import ShapedArray, shaped
from .._passes.verify import check
from .._cost.analysis import eqn_cost
from ..errors import LaminaError, ProgramError
from .._types.key_dtypes import read_on_host
from .._passes.varying_axes import infer_missing_annotations
from .._types.param_values import UnnamedAxis, format_param
from .._text.parser import parse_literal
from .._core.primitive import check_savable, get_primitive
from .._core.printer import VariableNames, literal_text
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var
from .._core.arg_checks import as_closed_jaxpr
from .._typing import Json
from ..typing import ParamValue, Value

__all__ = ["JSON_FORMAT", "jaxpr_from_json", "jaxpr_json"]

JSON_FORMAT = 1


def _little(a: np.ndarray) -> np.ndarray:
    return a.byteswap() if sys.byteorder == "big" and a.dtype.itemsize > 1 else a


class _Writer:
    def __init__(self, program: ClosedJaxpr, constants: bool, costs: bool) -> None:
        self.constants, self.costs = constants, costs
        self.names = VariableNames(program)
        self.programs: list[dict[str, Json]] = []
        self.numbers: dict[int, int] = {}

    def program(self, closed: ClosedJaxpr) -> int:
        """Write a program and return its index. Nested programs come first; a shared program is written once."""
        if id(closed) not in self.numbers:
            name = self.names.names_in(closed)
            jaxpr = closed.jaxpr
            self.programs.append({
                "constants": [{**self.variable(v, name), "data": self.data(c) if self.constants else None}
                              for v, c in zip(jaxpr.constvars, closed.consts)],
                "inputs": [self.variable(v, name) for v in jaxpr.invars],
                "equations": [self.equation(e, name) for e in jaxpr.eqns],
                "results": [self.atom(a, name) for a in jaxpr.outvars]})
            self.numbers[id(closed)] = len(self.programs) - 1
        return self.numbers[id(closed)]

    def type(self, aval: ShapedArray) -> dict[str, Json]:
        return {"dtype": dtypes.short_name(aval.dtype), "shape": list(aval.shape), **({"weak": True} if aval.weak_type else {}),
                **({"over": sorted([self.value(name) for name in aval.varying_axes], key=repr)} if aval.varying_axes else {})}

    def variable(self, v: Var, names: dict[Var, str]) -> dict[str, Json]:
        return {"name": names[v], "type": self.type(v.aval)}

    def atom(self, a: Atom, names: dict[Var, str]) -> Json:
        if not isinstance(a, Literal):
            return names[a]
        d, text = a.aval.dtype, literal_text(a)
        value: Json = text
        if d.kind == "b":
            value = text == "True"
        elif dtypes.is_integer(d):
            value = int(text)
        elif dtypes.is_float(d) and isfinite(float(text)):
            value = float(text)
        return {"literal": value, "type": self.type(a.aval)}

    def equation(self, e: Eqn, names: dict[Var, str]) -> dict[str, Json]:
        check_savable("jaxpr_json", e.primitive)
        made = {"op": e.primitive.name, "operands": [self.atom(a, names) for a in e.invars],
                "results": [self.variable(v, names) for v in e.outvars],
                "params": {name: self.value(value) for name, value in e.params.items()}}
        if e.source is not None:
            made["source"] = {k: getattr(e.source, k) for k in ("file", "line", "function", "scope", "part")}
        if self.costs:
            cost = eqn_cost(e)
            made["cost"] = {"flops": cost.flops, "transcendentals": cost.transcendentals, "bytes_read": cost.bytes_read,
                            "bytes_written": cost.bytes_written, "holes": sorted(map(list, cost.uncounted))}
        return made

    def value(self, v: ParamValue) -> Json:
        """Convert a param to JSON: tuples to lists, and values without a JSON form to an object that states the
        kind."""
        if v is None or type(v) in (bool, int, str) or type(v) is float and isfinite(v):
            return v
        if type(v) is tuple:
            return [self.value(x) for x in v]
        if isinstance(v, ClosedJaxpr):
            return {"program": self.program(v)}
        if isinstance(v, np.dtype):
            return {"dtype": dtypes.short_name(v)}
        if isinstance(v, (np.ndarray, np.generic)):
            a = np.asarray(v)
            return {"array": {"dtype": dtypes.short_name(a.dtype), "shape": list(a.shape)}, "data": self.data(a)}
        return {"text": format_param(v)}

    def data(self, x: Value) -> str:
        return base64.b64encode(_little(np.ascontiguousarray(read_on_host(x))).tobytes()).decode("ascii")


@with_recursion_limit()
def jaxpr_json(program: Jaxpr | ClosedJaxpr, *, constants: bool = True, costs: bool = False) -> dict[str, Json]:
    """Convert a program to dicts, lists, strings and numbers for `json.dumps`.

    docs/reference/program-json.md has the schema.

    Args:
      program: the program; a `Jaxpr` must have no constants.
      constants: whether to include the elements of constants; without them the program cannot be read back.
      costs: whether to include the cost of each equation, see `eqn_cost`.
    Raises:
      TypeError: `program` is not a program.

    >>> import json
    >>> from lamina_ir import parse
    >>> made = jaxpr_json(parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }"))
    >>> json.dumps(made["programs"][0]["equations"][0]["operands"])
    '["a", {"literal": 2.0, "type": {"dtype": "f32", "shape": []}}]'
    """
    closed = as_closed_jaxpr("jaxpr_json", program)
    try:
        writer = _Writer(closed, constants, costs)
        main = writer.program(closed)
    except KeyError:
        check(closed)  # its error names the variable that is not bound
        raise
    return {"format": "lamina program", "version": JSON_FORMAT, "main": main, "programs": writer.programs}


class _Values(ParamParser):
    """Parser for param values given as text; nested programs must be given by index instead."""

    @override
    def nested(self) -> NoReturn:
        raise self.fail("a nested program must be {\"program\": number}; got text")


class _Reader:
    def __init__(self) -> None:
        self.place: list[int | str] = []  # path in the document, for errors
        self.programs: list[ClosedJaxpr] = []
        self.axes: dict[str, UnnamedAxis] = {}

    def fail(self, message: str) -> ProgramError:
        where = "".join([f"[{p}]" if isinstance(p, int) else f".{p}" if at else p for at, p in enumerate(self.place)])
        return ProgramError(f"jaxpr_from_json: {where}: {message}")

    def each(self, items: Json, name: str, kind: type | tuple[type, ...] = object) -> Iterator[Json]:
        """Iterate over a list; while an item is processed, its position is part of `place`."""
        if not isinstance(items, list):
            raise self.fail(f"{name} must be a list; got {short_repr(items)}")
        self.place.append(name)
        for i, item in enumerate(items):
            self.place.append(i)
            if not isinstance(item, kind):
                raise self.fail(f"expected {_type_names(kind)}; got {short_repr(item)}")
            yield item
            self.place.pop()
        self.place.pop()

    def field(self, item: Json, name: str, kind: type | tuple[type, ...]) -> Json:
        if name not in item:
            raise self.fail(f"it has no {name!r}")
        if not isinstance(item[name], kind) or kind is int and isinstance(item[name], bool):
            raise self.fail(f"{name!r} must be {_type_names(kind)}; got {short_repr(item[name])}")
        return item[name]

    def document(self, data: Json) -> ClosedJaxpr:
        self.place.append("document")
        if self.field(data, "format", str) != "lamina program":
            raise self.fail(f"'format' must be 'lamina program'; got {short_repr(data['format'])}")
        if self.field(data, "version", int) != JSON_FORMAT:
            raise self.fail(f"its version is {data['version']}; this lamina reads version {JSON_FORMAT}")
        self.place.pop()
        for p in self.each(data.get("programs"), "programs", dict):
            self.programs.append(self.program(p))
        self.place.append("document")
        return self.numbered(self.field(data, "main", int))

    def numbered(self, n: Json) -> ClosedJaxpr:
        if type(n) is not int or not 0 <= n < len(self.programs):
            raise self.fail(f"expected the number of a program before this one, less than {len(self.programs)}; got "
                            f"{short_repr(n)}")
        return self.programs[n]

    def program(self, p: dict[str, Json]) -> ClosedJaxpr:
        scope: dict[str, Var] = {}
        constvars, consts = [], []
        for c in self.each(p.get("constants", []), "constants", dict):
            constvars.append(self.binder(c, scope))
            consts.append(self.array(constvars[-1].aval, c.get("data")))
        invars = [self.binder(v, scope) for v in self.each(p.get("inputs"), "inputs", dict)]
        eqns = [self.equation(e, scope) for e in self.each(p.get("equations"), "equations", dict)]
        outs = [self.atom(a, scope) for a in self.each(p.get("results"), "results", (str, dict))]
        return ClosedJaxpr(Jaxpr(constvars, invars, eqns, outs), consts)

    def type(self, t: Json) -> ShapedArray:
        if not isinstance(t, dict):
            raise self.fail(f"a type must be an object with 'dtype' and 'shape'; got {short_repr(t)}")
        shape = self.field(t, "shape", list)
        if not all(type(n) is int and n >= 0 for n in shape):
            raise self.fail(f"a shape must be a list of ints of at least 0; got {short_repr(shape)}")
        aval = shaped(tuple(shape), self.dtype(self.field(t, "dtype", str)), t.get("weak") is True)
        return aval.with_varying_axes(frozenset(map(self.value, self.field(t, "over", list)))) if "over" in t else aval

    def dtype(self, name: Json) -> np.dtype:
        try:
            return dtypes.from_short_name(name)
        except (KeyError, TypeError):
            raise self.fail(f"no dtype is written {name!r}; expected one such as 'f32'") from None

    def binder(self, v: dict[str, Json], scope: dict[str, Var]) -> Var:
        name, aval = self.field(v, "name", str), self.type(v.get("type"))
        if name == "_":
            return DropVar(aval)
        if name in scope:
            raise self.fail(f"the variable {name!r} is bound twice")
        scope[name] = made = Var(aval)
        return made

    def atom(self, a: Json, scope: dict[str, Var]) -> Atom:
        if isinstance(a, str):
            if a not in scope:
                raise self.fail(f"the variable {a!r} is not bound before it is read")
            return scope[a]
        aval, value = self.type(a.get("type")), self.field(a, "literal", (bool, int, float, str))
        try:
            return Literal(parse_literal(value if isinstance(value, str) else repr(value), aval), aval)
        except ValueError:
            raise self.fail(f"{value!r} is no literal of type {aval.str_long()}") from None

    def equation(self, e: dict[str, Json], scope: dict[str, Var]) -> Eqn:
        name = self.field(e, "op", str)
        try:
            prim = get_primitive(name)
        except KeyError:
            raise self.fail(f"no primitive is named {name!r}; see lamina_ir.extend.register_primitive") from None
        operands = [self.atom(a, scope) for a in self.each(e.get("operands"), "operands", (str, dict))]
        given = self.field(e, "params", dict)
        self.place.append("params")
        params = {p: self.value(given[p]) if p in given else prim.defaults[p] for p in prim.expected_params(given)
                  if p in given or p in prim.defaults}
        self.place.pop()
        missing, more = [p for p in prim.params if p not in params], [p for p in given if p not in params]
        if missing or more:
            raise self.fail(f"`{name}` has the params {', '.join(prim.params) or '(none)'}; got {', '.join(given) or 'none'}")
        results = [self.binder(v, scope) for v in self.each(e.get("results"), "results", dict)]
        return Eqn(prim, operands, results, params, self.source(e.get("source")))

    def source(self, s: Json) -> Source | None:
        if s is None:
            return None
        if not isinstance(s, dict):
            raise self.fail(f"'source' must be an object; got {short_repr(s)}")
        return Source.from_line(self.field(s, "file", str), self.field(s, "line", int), self.field(s, "function", str),
                                str(s.get("scope", "")), str(s.get("part", "")))

    def value(self, v: Json) -> ParamValue:
        if isinstance(v, list):
            return tuple(map(self.value, v))
        if not isinstance(v, dict):
            return v
        if set(v) == {"program"}:
            return self.numbered(v["program"])
        if set(v) == {"dtype"}:
            return self.dtype(v["dtype"])
        if set(v) == {"array", "data"}:
            return self.array(self.type(v["array"]), v["data"])
        if set(v) != {"text"} or not isinstance(v["text"], str):
            raise self.fail(f"expected an object with 'program', 'dtype', 'text', or 'array' and 'data'; got {short_repr(v)}")
        parser = _Values(v["text"])
        parser.axes = self.axes  # an unnamed axis is the same in the whole document
        found = parser.value()
        parser.skip()
        if parser.at != len(v["text"]):
            raise self.fail(f"{v['text']!r} is no value of a param")
        return found

    def array(self, aval: ShapedArray, data: Json) -> np.ndarray:
        if data is None:
            raise self.fail("the elements of a constant are missing; write it with constants=True")
        try:
            raw = base64.b64decode(data, validate=True)
        except (ValueError, TypeError):
            raise self.fail(f"'data' must be in base64; got {short_repr(data)}") from None
        if len(raw) != aval.size * aval.dtype.itemsize:
            raise self.fail(f"'data' has {len(raw)} bytes; {aval.str_long()} takes {aval.size * aval.dtype.itemsize}")
        if not aval.dtype.itemsize:
            return np.zeros(aval.shape, aval.dtype)
        found = np.array(_little(np.frombuffer(raw, aval.dtype).reshape(aval.shape)))
        found.flags.writeable = False
        return found


def _type_names(kind: type | tuple[type, ...]) -> str:
    names = {str: "a string", int: "an int", dict: "an object", list: "a list", bool: "a truth value", float: "a number"}
    kinds: Iterable[type] = kind if isinstance(kind, tuple) else (kind,)
    return " or ".join([names.get(k, k.__name__) for k in kinds])


@with_recursion_limit()
def jaxpr_from_json(data: Json) -> ClosedJaxpr:
    """Convert the result of `jaxpr_json`, or equivalent JSON written by another tool, to a program.

    Args:
      data: the decoded JSON.
    Returns:
      A program that has passed `check`. As in program text, the rules of custom calls are lost.
    Raises:
      ProgramError: it is not such a program; the message names the position and the expected value.

    >>> import json
    >>> from lamina_ir import parse
    >>> text = json.dumps(jaxpr_json(parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }")))
    >>> jaxpr_from_json(json.loads(text))
    { lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }
    """
    if not isinstance(data, dict):
        raise ProgramError(f"jaxpr_from_json: data must be a dict, as json.loads returns it; got {short_repr(data)}")
    reader = _Reader()
    try:
        program = infer_missing_annotations(reader.document(data))
    except (OverflowError, RecursionError) as error:
        raise reader.fail(f"{type(error).__name__}: {error}") from None
    except LaminaError as error:
        raise error if str(error).startswith("jaxpr_from_json") else reader.fail(str(error).split("\n")[0]) from None
    check(program)
    return program
