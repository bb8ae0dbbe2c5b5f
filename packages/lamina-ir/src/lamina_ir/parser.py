"""`parse`: program text back to a program. The grammar is in docs/program-text.md; nothing is evaluated or imported."""
from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from ._collector import uncollected
from .avals import ShapedArray, shaped
from .errors import ProgramError
from .params import UnnamedAxis, dtype_names, type_named
from .printer import jaxpr_text
from .program import ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var

__all__ = ["parse"]

_SPACE = re.compile(r"\s*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_TYPE = re.compile(r"(~?)([A-Za-z]\w*)\[([\d,]*)\]")
_NUMBER = re.compile(r"[-+]?(?:inf|nan|(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\b(?!\w)|[-+]?\d+\.(?!\w)")
_COMPLEX = re.compile(r"\([-+]?[\w.]+(?:[-+]\d+)?[-+][\w.]+(?:[-+]\d+)?j\)|[-+]?[\w.]+(?:e[-+]\d+)?j\b")
_LITERAL = re.compile(r"([^\s:,()]+|\([^\s:,()]+\)):(?=~?[A-Za-z]\w*\[)")
_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_AXIS = re.compile(r"<axis (\w+)>")
_ANGLE = re.compile(r"<\w+>")
_PROGRAM = re.compile(r"\{\s*lambda\b")
_END = re.compile(r"in\s*\(")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_LITERAL_WORDS = frozenset(["True", "False", "inf", "nan"])
_WORDS = {"None": None, "True": True, "False": False}


class _Parser:
    def __init__(self, text: str, consts: Sequence[Any] | None) -> None:
        self.text = text
        self.at = 0
        self.axes: dict[str, UnnamedAxis] = {}
        self.types: dict[str, ShapedArray] = {}
        self.consts = None if consts is None else iter(consts)
        self.bound: tuple[str, ...] = ()  # names bound in the program read last
        self.programs: dict[Any, list[ClosedJaxpr]] = {}  # nested ones, by the names they bind

    # --- characters
    def fail(self, message: str, at: int | None = None) -> ProgramError:
        at = self.at if at is None else at
        line = self.text.count("\n", 0, at) + 1
        start = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        excerpt = self.text[start:end if end >= 0 else len(self.text)]
        column = at - start
        if column > 60:  # keep the caret in view
            excerpt, column = "..." + excerpt[column - 40:], 43
        excerpt = excerpt[:100]
        return ProgramError(f"parse: {message} at line {line}, column {at - start + 1}\n  {excerpt}\n  {' ' * column}^")

    def skip(self) -> int:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.at

    def peek(self, token: str) -> bool:
        return self.text.startswith(token, self.skip())

    def eat(self, token: str) -> bool:
        if self.text.startswith(token, self.skip()):
            self.at += len(token)
            return True
        return False

    def need(self, token: str) -> None:
        if not self.eat(token):
            raise self.fail(f"expected `{token}`; got {self.found()}")

    def found(self) -> str:
        rest = self.text[self.skip():self.at + 12].split("\n")[0]
        return f"`{rest}`" if rest else "the end of the text"

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        m = pattern.match(self.text, self.skip())
        if m is not None:
            self.at = m.end()
        return m

    def name(self, what: str) -> str:
        m = self.match(_NAME)
        if m is None:
            raise self.fail(f"expected {what}; got {self.found()}")
        return m.group()

    # --- programs
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
                raise self.fail(f"no dtype is written `{dtype}`", m.start()) from None
            self.types[text] = aval
        return aval

    def binder(self, scope: dict[str, Var]) -> Var:
        at = self.skip()
        name = self.name("a variable")
        self.need(":")
        aval = self.type()
        if name == "_":
            return DropVar(aval)
        if name in _LITERAL_WORDS:
            raise self.fail(f"`{name}` is a literal and cannot name a variable", at)
        if name in scope:
            raise self.fail(f"variable `{name}` is bound twice", at)
        scope[name] = v = Var(aval)
        return v

    def atom(self, scope: dict[str, Var]) -> Any:
        at = self.skip()
        m = self.match(_LITERAL)
        if m is not None:
            aval = self.type()
            return Literal(self.literal(m.group(1), aval, at), aval)
        name = self.name("a variable or a literal")
        v = scope.get(name)
        if v is None:
            raise self.fail(f"variable `{name}` is not bound", at)
        return v

    def literal(self, text: str, aval: ShapedArray, at: int) -> Any:
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
            if dtypes.is_complex(d):
                return d.type(complex(text.replace("(", "").replace(")", "")))
            return d.type(np.float64(float(text)) if d.itemsize == 8 else float(text))
        except (ValueError, KeyError, OverflowError, TypeError):
            raise self.fail(f"`{text}` is no literal of type {aval.long()}", at) from None

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
        self.bound = tuple(scope)
        jaxpr = Jaxpr(constvars, invars, eqns, outvars)
        if not constvars:
            return ClosedJaxpr(jaxpr)
        if self.consts is None:
            return jaxpr
        values = [c for _, c in zip(constvars, self.consts)]
        if len(values) < len(constvars):
            raise self.fail(f"the program needs {len(constvars)} constants; consts ran out after {len(values)}", at)
        return ClosedJaxpr(jaxpr, values)

    def at_end(self) -> bool:
        m = _END.match(self.text, self.skip())
        return m is not None or self.text.startswith("}", self.at) or self.at == len(self.text)

    def eqn(self, scope: dict[str, Var]) -> Eqn:
        from .prims import by_name
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
            prim = by_name(name)
        except KeyError:
            raise self.fail(f"no primitive is named `{name}`; see lamina_ir.extend.register_primitive", at) from None
        given: dict[str, Any] = {}
        if self.text.startswith("[", self.at):
            self.at += 1
            while not self.eat("]"):
                here = self.skip()
                key = self.name("a param name or `]`")
                if key not in prim.params:
                    raise self.fail(f"`{name}` has no param `{key}`; its params are {', '.join(prim.params)}", here)
                self.need("=")
                given[key] = self.value()
        params = {}
        for key in prim.params:
            if key in given:
                params[key] = given[key]
            elif key in prim.defaults:
                params[key] = prim.defaults[key]
            else:
                raise self.fail(f"`{name}` needs the param `{key}`", at)
        invars = []
        while self.operand_follows():
            invars.append(self.atom(scope))
        scope.update(bound)
        return Eqn(prim, invars, outvars, params)

    def operand_follows(self) -> bool:
        """Whether the next word is an operand, and not `in (`, the binder of the next equation, or its `=`."""
        at = self.skip()
        text = self.text
        if at == len(text) or text[at] in "=}":
            return False
        if _LITERAL.match(text, at):
            value = _LITERAL.match(text, at).group(1)  # type: ignore[union-attr]
            return not (_NAME.fullmatch(value) and value not in _LITERAL_WORDS)
        if text.startswith("in", at) and self.at_end():
            return False
        return True

    # --- param values
    def value(self) -> Any:
        at = self.skip()
        text = self.text
        first = text[at:at + 1]
        if first == "{":
            return self.nested() if _PROGRAM.match(text, at) else self.dict()
        if first == "(":
            m = self.match(_COMPLEX)
            return complex(m.group()) if m is not None else tuple(self.items(")"))
        if first == "[":
            return self.items("]")
        if first in ("'", '"') and first:
            m = self.match(_STRING)
            if m is None:
                raise self.fail("the string has no end")
            return _ESCAPE.sub(_unescape, m.group()[1:-1])
        if first == "<":
            m = self.match(_AXIS)
            if m is not None:
                return self.axes.setdefault(m.group(1), UnnamedAxis(m.group(1)))
            m = self.match(_ANGLE)
            if m is not None:
                return m.group()
        m = self.match(_NUMBER)
        if m is not None:
            word = m.group()
            return int(word) if re.fullmatch(r"[-+]?\d+", word) else float(word)
        m = self.match(_NAME)
        if m is None:
            raise self.fail(f"expected a param value; got {self.found()}")
        return self.word(m.group(), at)

    def word(self, word: str, at: int) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        if word == "frozenset" and self.text.startswith("(", self.at):
            return frozenset(self.items(")", opened="(")[0])
        if self.text.startswith(".", self.at):
            kind = type_named(word)
            self.at += 1
            member = self.name("an enum member")
            if kind is None or not issubclass(kind, enum.Enum) or member not in kind.__members__:
                raise self.fail(f"no enum value is named `{word}.{member}`; see lamina_ir.register_param_type", at)
            return kind[member]
        if self.text.startswith("(", self.at):
            return self.record(word, at)
        if word == "float0":
            return dtypes.float0
        return dtypes.as_dtype(word) if word in dtype_names else word

    def record(self, word: str, at: int) -> Any:
        kind = type_named(word)
        if kind is None or issubclass(kind, enum.Enum):
            raise self.fail(f"no param type is named `{word}`; see lamina_ir.register_param_type", at)
        self.need("(")
        fields = {}
        while not self.eat(")"):
            key = self.name("a field name")
            self.need("=")
            fields[key] = self.value()
            if not self.eat(",") and not self.peek(")"):
                raise self.fail(f"expected `,` or `)`; got {self.found()}")
        try:
            return kind(**fields)
        except TypeError as e:
            raise self.fail(f"`{word}` cannot be made of these fields: {e}", at) from None

    def nested(self) -> ClosedJaxpr:
        at = self.at
        program = self.program()
        if isinstance(program, Jaxpr):
            raise self.fail("a nested program has constants; give their values: parse(text, consts=[...])", at)
        return self.shared(program)

    def shared(self, program: ClosedJaxpr) -> ClosedJaxpr:
        """One object for a program that stands in several places, as it was when it was printed: the names tell, which
        the printer gives to each program anew."""
        seen = self.programs.setdefault(self.bound, [])
        text = jaxpr_text(program, weak=True) if seen else ""
        for other in seen:
            if list(map(id, other.consts)) == list(map(id, program.consts)) and jaxpr_text(other, weak=True) == text:
                return other
        seen.append(program)
        return program

    def items(self, end: str, opened: str | None = None) -> list[Any]:
        self.at += 1
        out = []
        while not self.eat(end):
            out.append(self.value())
            if not self.eat(",") and not self.peek(end):
                raise self.fail(f"expected `,` or `{end}`; got {self.found()}")
        return out

    def dict(self) -> dict[Any, Any]:
        self.need("{")
        out = {}
        while not self.eat("}"):
            key = self.value()
            self.need(":")
            out[key] = self.value()
            if not self.eat(",") and not self.peek("}"):
                raise self.fail(f"expected `,` or `}}`; got {self.found()}")
        return out


def _unescape(m: re.Match[str]) -> str:
    code = m.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)


@uncollected
def parse(text: str, consts: Sequence[Any] | None = None) -> Jaxpr | ClosedJaxpr:
    """The program that `jaxpr_text` printed as `text`.

    Args:
      text: one program.
      consts: values of all constvars in the text, outermost program first. Left out, an outer program with constvars
        comes back as a `Jaxpr`.
    Returns:
      `ClosedJaxpr`, or `Jaxpr` when values of its constvars are not known. Weak types are known only from text printed
      with `weak=True`. `check` it if the text comes from a person.
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
    return program
