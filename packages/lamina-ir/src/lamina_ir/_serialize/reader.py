"""Reader behind `loads`: build programs from the header and the buffers of a file. Nothing in the file is executed."""
from __future__ import annotations

import enum
import sys
from typing import Any

import numpy as np

from .._types import dtypes
from .._types.avals import ShapedArray, shaped
from ..errors import ProgramError
from .._types.param_values import UnnamedAxis, find_param_type
from .._core.primitive import Primitive, get_primitive
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Source, Var
from .._core.custom_rule import Rule
from .upgrades import SavedEqn, upgrade_equation
from ..typing import ParamValue, Params
from .._typing import Json

__all__ = ["SavedProgramReader", "check_index"]


class SavedProgramReader:
    def __init__(self, header: Json, data: memoryview) -> None:
        self.axes: dict[int, UnnamedAxis] = {}
        self.versions: dict[str, int] = {_text(name): check_index(v) for name, v in header.get("ops", {}).items()}
        self.avals = [self.type(*a) for a in header["avals"]]
        self.header = header
        self.data = data
        self.buffers: dict[int, np.ndarray] = {}
        self.programs: list[ClosedJaxpr] = []
        self.rules = [Rule(_text(name)) for name, _ in header.get("rules", ())]
        self.sources = [Source.from_line(_text(file), check_index(line), _text(function), _text(scope), _text(part))
                        for file, line, function, scope, part in header.get("sources", ())]

    def type(self, dtype: str, shape: list[int], weak: Json, over: list[Json] | None = None) -> ShapedArray:
        found = shaped(tuple(check_index(n) for n in shape), dtypes.from_short_name(dtype), bool(weak))
        return found.with_varying_axes(frozenset([self.value(name) for name in over])) if over else found

    def buffer(self, i: int) -> np.ndarray:
        """Return a constant as a read-only array. All uses share one array, so memory is bounded by the size of the
        file."""
        found = self.buffers.get(check_index(i))
        if found is None:
            found = self.buffers[i] = self.read_buffer(i)
            found.flags.writeable = False
        return found

    def read_buffer(self, i: int) -> np.ndarray:
        name, shape, start, length = self.header["buffers"][i]
        dtype, shape = dtypes.from_short_name(name), tuple(check_index(n) for n in shape)
        count = 1
        for n in shape:
            count *= n
        if length != count * dtype.itemsize or not 0 <= start <= start + length <= len(self.data):
            raise ProgramError("loads: a constant's bytes do not fit its type")
        if dtype.itemsize == 0:
            return np.zeros(shape, dtype)
        a = np.frombuffer(self.data[start:start + length], dtype).reshape(shape)
        return a.byteswap() if sys.byteorder == "big" and dtype.itemsize > 1 else a.copy()

    def program(self, p: Json, lines: Json) -> ClosedJaxpr:
        """Read one program. `lines` has the index of each equation's source, or -1; None if sources were not saved."""
        if lines is not None and len(lines) != len(p["eqns"]):
            raise ProgramError("loads: there must be one line per equation")
        avals = self.avals
        constvars = [Var(avals[check_index(i)]) for i in p["constvars"]]
        invars = [Var(avals[check_index(i)]) for i in p["invars"]]
        # Variables are numbered in the order in which they are bound. A program refers to earlier programs only.
        scope: list[Var] = [*constvars, *invars]
        eqns: list[Eqn] = []
        for n, (name, ins, outs, params) in enumerate(p["eqns"]):
            operands = [self.atom(a, scope) for a in ins]
            params = {k: self.value(v) for k, v in params.items()}
            results = [Var(avals[o]) if o >= 0 else DropVar(avals[-1 - o]) for o in outs]
            scope.extend(v for v in results if type(v) is Var)
            line = -1 if lines is None else lines[n]
            source = None if line == -1 else self.sources[check_index(line)]
            version = self.versions.get(name, 1)
            prim = _current_primitive(name, version, params)
            if prim is not None:
                eqns.append(Eqn(prim, operands, results, params, source))
                continue
            made = upgrade_equation(SavedEqn(name, version, tuple(operands), tuple(results), params))
            eqns += [e if e.source else Eqn(e.primitive, e.invars, e.outvars, e.params, source) for e in made]
        jaxpr = Jaxpr(constvars, invars, eqns, [self.atom(a, scope) for a in p["outvars"]])
        return ClosedJaxpr(jaxpr, [self.buffer(i) for i in p["consts"]])

    def atom(self, a: Json, scope: list[Var]) -> Atom:
        if isinstance(a, list):
            aval = self.avals[check_index(a[0])]
            raw = np.frombuffer(bytes.fromhex(a[1]), aval.dtype) if aval.dtype.itemsize else np.zeros(1, aval.dtype)
            if raw.size != 1 or aval.shape:
                raise ProgramError("loads: a literal must be one number")
            return Literal(raw.byteswap()[0] if sys.byteorder == "big" else raw[0], aval)
        return scope[check_index(a)]

    def value(self, v: Json) -> ParamValue:
        if not isinstance(v, dict):
            if isinstance(v, list):
                raise ProgramError("loads: a param must not be a bare list")
            return v
        # Values without a JSON form are written as {kind: content}.
        (kind, x), = v.items()
        if kind in ("tuple", "list", "frozenset"):
            return {"tuple": tuple, "list": list, "frozenset": frozenset}[kind](self.value(i) for i in x)
        if kind == "program":
            return self.programs[check_index(x)]
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
            return self.rules[check_index(x)]
        if kind in ("enum", "record"):
            found: Any = find_param_type(x[0])
            if found is None or issubclass(found, enum.Enum) != (kind == "enum"):
                raise ProgramError(f"loads: no param type is named `{x[0]}` here; import the package that defines it")
            return found[x[1]] if kind == "enum" else found(**{n: self.value(i) for n, i in x[1].items()})
        raise ProgramError(f"loads: params of kind `{kind}` are not known to this version")


def _current_primitive(name: str, version: int, params: Params) -> Primitive | None:
    """Return the primitive if the saved equation needs no upgrade, else None."""
    try:
        prim = get_primitive(name)
    except KeyError:
        return None
    return prim if prim.version == version and len(params) >= len(prim.params) else None


def _text(s: Json) -> str:
    if type(s) is not str:
        raise ProgramError(f"loads: expected a name; got {s!r}")
    return s


def check_index(n: Json) -> int:
    if type(n) is not int or n < 0:
        raise ProgramError(f"loads: expected an index or a size; got {n!r}")
    return n
