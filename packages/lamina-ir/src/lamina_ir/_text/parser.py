"""`parse`: convert program text to a program. docs/reference/program-text.md has the grammar.

Nothing is evaluated or imported.
"""
from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from typing_extensions import override

from .._types import dtypes
from .._util.gc_pause import pause_gc
from .param_parser import ParamParser
from .scanner import NAME
from .._core.arg_checks import ITEMS, TEXT, optional, check_args
from .._types.avals import ShapedArray, shaped
from .._passes.varying_axes import infer_missing_annotations
from .._core.primitive import get_primitive
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from ..typing import CacheKey, Params, Value

__all__ = ["parse", "parse_literal"]

_TYPE = re.compile(r"(~?)([A-Za-z]\w*(?:<[^<>\s\[\],:]+>)?)\[([\d,]*)\]")
_LITERAL = re.compile(r"([^\s:,()]+|\([^\s:,()]+\)):(?=~?[A-Za-z]\w*(?:<[^<>\s\[\],:]+>)?\[)")
_TOKEN = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|[\w.~]+|\S")
_END = re.compile(r"in\s*\(")
_LITERAL_NAMES = frozenset(["True", "False", "inf", "nan"])


def parse_literal(text: str, aval: ShapedArray) -> np.generic | np.ndarray | bool:
    """Parse a literal of this type; raise ValueError if `text` is not one."""
    d = aval.dtype
    try:
        if aval.shape:
            raise ValueError
        if d == dtypes.BOOL:
            return {"True": True, "False": False}[text]
        if d.kind in "iu" or dtypes.is_integer(d):
            return d.type(int(text))
        if d == dtypes.float0:
            return np.zeros((), d)
        if dtypes.is_key(d):
            data = np.array([int(n) for n in text.split(".")], np.uint32)
            return np.broadcast_to(data, dtypes.key_size(d)).copy().view(d)[0]
        if dtypes.is_complex(d):
            return d.type(complex(text.replace("(", "").replace(")", "")))
        return d.type(np.float64(float(text)) if d.itemsize == 8 else float(text))
    except (ValueError, KeyError, OverflowError, TypeError):
        raise ValueError(f"{text!r} is no literal of type {aval.str_long()}") from None


def _format_bound(scope: dict[str, Var]) -> str:
    names = list(scope)
    return f"one of {', '.join(names[-8:])}, or a literal" if names else "a literal, as no variable is bound before it"


class _Parser(ParamParser):
    def __init__(self, text: str, consts: Sequence[Value] | None) -> None:
        super().__init__(text)
        self.types: dict[str, ShapedArray] = {}
        self.consts = None if consts is None else iter(consts)
        self.has_varying_axes = False  # whether a type in the text has varying axes
        self.programs: dict[CacheKey, ClosedJaxpr] = {}  # nested programs by their text, see `nested`
        # stack, one entry per program being parsed: (start, end, id) of each program nested in it
        self.inside: list[list[tuple[int, int, int]]] = [[]]

    def type(self) -> ShapedArray:
        m = self.match(_TYPE)
        if m is None:
            raise self.fail(f"expected a type such as f32[8,3]; got {self.found()}")
        text = m.group()
        aval = self.types.get(text)
        if aval is None:
            weak, dtype, dims = m.groups()
            try:
                aval = shaped(tuple(int(d) for d in dims.split(",") if d), dtypes.from_short_name(dtype), bool(weak))
            except KeyError:
                raise self.fail(f"no dtype is written `{dtype}`; expected one such as `f32`", m.start()) from None
            except ValueError as e:
                raise self.fail(f"expected a shape such as [8,3]; got [{dims}]: {e}", m.start()) from None
            self.types[text] = aval
        if self.text.startswith("{", self.at):  # without a space before it, else it is not part of the type
            at = self.at
            aval = aval.with_varying_axes(self.made("set of axis names", frozenset, self.items("}"), at))
            self.has_varying_axes = True
        return aval

    def binder(self, scope: dict[str, Var]) -> Var:
        at = self.skip()
        name = self.name("a variable")
        self.need(":")
        aval = self.type()
        if name == "_":
            return DropVar(aval)
        if name in _LITERAL_NAMES:
            raise self.fail(f"`{name}` is a literal and cannot name a variable", at)
        if name in scope:
            raise self.fail(f"variable `{name}` is bound twice", at)
        scope[name] = v = Var(aval)
        return v

    def atom(self, scope: dict[str, Var]) -> Atom:
        at = self.skip()
        m = self.match(_LITERAL)
        if m is not None:
            aval = self.type()
            return Literal(self.literal(m.group(1), aval, at), aval)
        name = self.name("a variable or a literal")
        v = scope.get(name)
        if v is None:
            raise self.fail(f"variable `{name}` is not bound; expected {_format_bound(scope)}", at)
        return v

    def literal(self, text: str, aval: ShapedArray, at: int) -> np.generic | np.ndarray | bool:
        try:
            return parse_literal(text, aval)
        except ValueError:
            raise self.fail(f"expected a literal of type {aval.str_long()}; got `{text}`", at) from None

    def program(self) -> Jaxpr | ClosedJaxpr:
        at = self.skip()
        self.need("{")
        self.need("lambda")
        scope: dict[str, Var] = {}
        constvars, invars = [], []
        while not self.eat(";"):
            constvars.append(self.binder(scope))
        while not self.eat("."):
            invars.append(self.binder(scope))
        self.need("let")
        eqns = []
        while not self.at_end():
            eqns.append(self.eqn(scope))
        self.need("in")
        self.need("(")
        outvars = []
        while not self.eat(")"):
            outvars.append(self.atom(scope))
            if not self.eat(",") and not self.peek(")"):
                raise self.fail(f"expected `,` or `)`; got {self.found()}")
        self.need("}")
        try:
            jaxpr = Jaxpr(constvars, invars, eqns, outvars)
        except TypeError as e:
            raise self.fail(f"names of mapped axes must be hashable ({e})", at) from None
        if not constvars:
            return ClosedJaxpr(jaxpr)
        if self.consts is None:
            return jaxpr
        # All programs of a text take constants from one iterator, in the order in which they end. `zip` must get the
        # variables first, or it would take one constant too many.
        values = [c for _, c in zip(constvars, self.consts)]
        if len(values) < len(constvars):
            raise self.fail(f"the program needs {len(constvars)} constants; consts ran out after {len(values)}", at)
        return ClosedJaxpr(jaxpr, values)

    def at_end(self) -> bool:
        m = _END.match(self.text, self.skip())
        return m is not None or self.text.startswith("}", self.at) or self.at == len(self.text)

    def eqn(self, scope: dict[str, Var]) -> Eqn:
        # Results are added to the scope after the equation, so that none of them can be an operand of it.
        bound: dict[str, Var] = {}
        outvars = []
        while not self.eat("="):
            at = self.skip()
            v = self.binder(bound)
            outvars.append(v)
            name = next(reversed(bound), None) if type(v) is Var else None
            if name in scope:
                raise self.fail(f"variable `{name}` is bound twice", at)
        at = self.skip()
        name = self.name("a primitive")
        try:
            prim = get_primitive(name)
        except KeyError:
            raise self.fail(f"no primitive is named `{name}`; see lamina_ir.extend.register_primitive", at) from None
        given: Params = {}
        if self.text.startswith("[", self.at):
            self.at += 1
            while not self.eat("]"):
                here = self.skip()
                key = self.name("a param name or `]`")
                if key not in prim.expected_params([key]):
                    raise self.fail(f"`{name}` has no param `{key}`; its params are {', '.join(prim.params) or 'none'}", here)
                self.need("=")
                given[key] = self.value()
        params = {}
        for key in prim.expected_params(given):
            if key in given:
                params[key] = given[key]
            elif key in prim.defaults:  # defaults are not printed; or the text is older than the param
                params[key] = prim.defaults[key]
            else:
                raise self.fail(f"`{name}` needs the param `{key}`", at)
        invars = []
        while self.operand_follows():
            invars.append(self.atom(scope))
        scope.update(bound)
        return Eqn(prim, invars, outvars, params)

    def operand_follows(self) -> bool:
        """Return whether the next token is an operand, and not `in (`, the binder of the next equation, or its `=`."""
        at = self.skip()
        text = self.text
        if at == len(text) or text[at] in "=}":
            return False
        if _LITERAL.match(text, at):
            value = _LITERAL.match(text, at).group(1)  # type: ignore[union-attr]
            return not (NAME.fullmatch(value) and value not in _LITERAL_NAMES)
        if text.startswith("in", at) and self.at_end():
            return False
        return True

    @override
    def nested(self) -> ClosedJaxpr:
        """Parse a nested program, returning one object for equal texts.

        A program that was shared when it was printed becomes shared again. Equal text identifies it, since the printer
        gives variables of different programs different names. In the key, the text of a program nested inside is
        replaced by that program's id.
        """
        at = self.at
        self.inside.append([])
        program = self.program()
        if isinstance(program, Jaxpr):
            raise self.fail("a nested program has constants; give their values: parse(text, consts=[...])", at)
        key: list[CacheKey] = list(map(id, program.consts))
        place = at
        for start, end, inner in self.inside.pop():
            key += ["\0".join(_TOKEN.findall(self.text, place, start)), inner]
            place = end
        key.append("\0".join(_TOKEN.findall(self.text, place, self.at)))
        program = self.programs.setdefault(tuple(key), program)
        self.inside[-1].append((at, self.at, id(program)))
        return program


@check_args(text=TEXT, consts=optional(ITEMS))
@pause_gc
def parse(text: str, consts: Sequence[Value] | None = None) -> Jaxpr | ClosedJaxpr:
    """Parse a program printed by `jaxpr_text`.

    Args:
      text: one program.
      consts: values of all constvars in the text, outermost program first. Without them, an outer program with
        constvars is returned as a `Jaxpr`.
    Returns:
      `ClosedJaxpr`, or `Jaxpr` if the values of its constvars are not known. Weak types are known only from text
      printed with `weak=True`. If no type in the text has varying axes, such as `f32[3]{i}`, they are inferred. The
      program is not
      verified: run `check` if the text was written by hand.
    Raises:
      ProgramError: the text is not a program; the message has line, column and an excerpt.

    >>> parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }")
    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    """
    parser = _Parser(text, consts)
    try:
        program = parser.program()
    except RecursionError:
        raise parser.fail("programs or values are nested too deeply") from None
    parser.skip()
    if parser.at != len(text):
        raise parser.fail(f"expected the end of the text; got {parser.found()}")
    return program if parser.has_varying_axes else infer_missing_annotations(program)
