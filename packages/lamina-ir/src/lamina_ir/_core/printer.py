"""Print programs as text: `{ lambda ; a:f32[8,3]. let b:f32[8,3] = sin a in (b,) }`. `parser.parse` reads it back.

Variables are named in the order in which they appear in the text, in one sequence for the program and all nested
programs. An unused result is `_`. A program that occurs several times is printed once, unless it is short, so the
length of the text is proportional to the size of the program in memory. A program of one equation, and the params of an
equation, are printed on one line if they fit in 80 columns. The grammar is in docs/reference/program-text.md.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from .._util.gc_pause import pause_gc
from .._util.recursion_limit import with_recursion_limit
from .arg_checks import EQN, PROGRAM, check_args
from .._types.avals import ShapedArray
from .._types.param_values import format_param
from .jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, set_printer
from ..typing import ParamValue

__all__ = ["VariableNames", "eqn_text", "jaxpr_text", "literal_text"]

WIDTH = 80
SHORT = 64  # tokens: a program of at most this length is printed at each occurrence
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_RESERVED = frozenset(["in", "let", "lambda", "inf", "nan"])  # names that the parser would read as something else


def _name_sequence() -> Iterable[str]:
    yield from _LETTERS
    stems = list(_LETTERS)
    while True:
        longer = [stem + letter for stem in stems for letter in _LETTERS]
        yield from (name for name in longer if name not in _RESERVED)
        stems = longer


def literal_text(literal: Literal) -> str:
    """Return the text of a literal's value, such as `2.0`; the printed type comes from the aval."""
    d = literal.aval.dtype
    if d.kind == "b":
        return "True" if literal.val else "False"
    if d.kind in "iu":
        return str(int(literal.val))
    if d.kind == "V" and d.names:  # a key: its uint32 data; float0: no data
        data = np.asarray(literal.val, d).reshape(1).view(np.uint32).tolist() if d.itemsize else [0]
        return ".".join(map(str, data if any(data) else [0]))
    if d.itemsize == 8 and d.kind == "f":
        return repr(float(literal.val))
    return str(np.asarray(literal.val).astype(d)[()])


class _Printer:
    def __init__(self, weak: bool, sources: bool = False) -> None:
        self.weak = weak
        self.sources = sources
        self.names: dict[Var, str] = {}  # names in the program that is being printed
        self.scopes: dict[int, dict[Var, str]] = {}  # id of a program -> its names, the same at each occurrence
        self.lengths: dict[int, int] = {}  # id of a program -> result of `length`
        self.marks: dict[int, int] = {}  # id of a program -> its number in references `@n`; 0 before `number_marks`
        self.written: set[int] = set()  # ids of programs with a number that are already printed
        self.fresh = iter(_name_sequence())
        self.types: dict[ShapedArray, str] = {}

    def type_of(self, aval: ShapedArray) -> str:
        text = self.types.get(aval)
        if text is None:
            text = self.types[aval] = ("~" if self.weak and aval.weak_type else "") + aval.str_short()
        return text

    # Naming: one pass in the order of the text, before printing.
    def name_program(self, program: Jaxpr | ClosedJaxpr) -> None:
        if id(program) in self.scopes:
            if id(program) not in self.marks and self.length(program) > SHORT:
                self.marks[id(program)] = 0
            return
        outer = self.names
        names = self.names = self.scopes[id(program)] = {}
        jaxpr = _jaxpr(program)
        fresh = self.fresh
        for v in jaxpr.constvars:
            if v not in names:
                names[v] = next(fresh)
        for v in jaxpr.invars:
            if v not in names:
                names[v] = next(fresh)
        read = set(jaxpr.outvars).union(*[e.invars for e in jaxpr.eqns])
        for e in jaxpr.eqns:
            self.name_eqn(e, read)
        self.names = outer

    def length(self, program: Jaxpr | ClosedJaxpr) -> int:
        """Return the approximate number of tokens of a program's text, with all nested programs printed in full."""
        found = self.lengths.get(id(program))
        if found is None:
            jaxpr = _jaxpr(program)
            found = len(jaxpr.constvars) + len(jaxpr.invars) + len(jaxpr.outvars)
            for e in jaxpr.eqns:
                found += 1 + len(e.outvars) + len(e.invars)
                for _, value in self.shown_params(e):
                    programs = _programs(value)
                    found += sum(map(self.length, programs)) if programs else 1 + len(format_param(value)) // 16
            self.lengths[id(program)] = found
        return found

    def number_marks(self) -> None:
        """Number the programs that are printed by reference, in the order of the text. Call it after naming."""
        for number, key in enumerate([key for key in self.scopes if key in self.marks], 1):
            self.marks[key] = number

    def name_eqn(self, e: Eqn, read: Collection[Atom]) -> None:
        names, fresh = self.names, self.fresh
        for v in e.outvars:
            if v not in names:
                names[v] = next(fresh) if v in read else "_"
        if e.primitive.subprograms or e.primitive.has_open_params:
            for _, value in self.shown_params(e):
                for sub in _programs(value):
                    self.name_program(sub)

    def shown_params(self, e: Eqn) -> list[tuple[str, ParamValue]]:
        p, params = e.primitive, e.params
        order = [n for n in p.params if n in params]
        if len(order) != len(params):
            order += [n for n in params if n not in p.params]
        defaults = p.defaults
        if not defaults:
            return [(n, params[n]) for n in order]
        return [(n, params[n]) for n in order if not (n in defaults and _same(params[n], defaults[n]))]

    def binder(self, v: Var) -> str:
        return f"{self.names[v]}:{self.type_of(v.aval)}"

    def atom(self, a: Atom) -> str:
        if type(a) is Literal:
            return f"{literal_text(a)}:{self.type_of(a.aval)}"
        name = self.names.get(a)
        if name is None:
            name = self.names[a] = next(self.fresh)
        return name

    def head(self, jaxpr: Jaxpr) -> str:
        consts = "".join([f"{self.binder(v)} " for v in jaxpr.constvars])
        return f"{{ lambda {consts}; {' '.join([self.binder(v) for v in jaxpr.invars])}. let"

    def tail(self, jaxpr: Jaxpr) -> str:
        outs = [self.atom(a) for a in jaxpr.outvars]
        return f"in ({outs[0]},) }}" if len(outs) == 1 else f"in ({', '.join(outs)}) }}"

    # One line, or None if that is impossible or the line is longer than `width`.
    def flat_program(self, program: Jaxpr | ClosedJaxpr, width: int) -> str | None:
        if self.sources or id(program) in self.marks:
            return f"@{self.marks[id(program)]}" if id(program) in self.written else None
        outer, self.names = self.names, self.scopes[id(program)]
        text = self.flat_text(_jaxpr(program), width)
        self.names = outer
        return text

    def flat_text(self, jaxpr: Jaxpr, width: int) -> str | None:
        if not jaxpr.eqns:
            return f"{self.head(jaxpr)}  {self.tail(jaxpr)}"
        if len(jaxpr.eqns) > 1 or 6 * len(jaxpr.invars) > width:
            return None
        eqn = self.flat_eqn(jaxpr.eqns[0], width)
        if eqn is None:
            return None
        text = f"{self.head(jaxpr)} {eqn} {self.tail(jaxpr)}"
        return text if len(text) <= width else None

    def flat_value(self, value: ParamValue, width: int) -> str | None:
        if isinstance(value, (ClosedJaxpr, Jaxpr)):
            return self.flat_program(value, width)
        if _programs(value):
            return None
        return format_param(value)

    def flat_eqn(self, e: Eqn, width: int) -> str | None:
        texts = []
        for name, value in self.shown_params(e) if e.params else ():
            has_programs = e.primitive.subprograms or e.primitive.has_open_params
            text = self.flat_value(value, width) if has_programs else format_param(value)
            if text is None or len(text) > width:
                return None
            texts.append(f"{name}={text}")
        text = f"{self.left(e)}{'[' + ' '.join(texts) + ']' if texts else ''}{self.right(e)}"
        return text if len(text) <= width or not texts else None

    def left(self, e: Eqn) -> str:
        return f"{' '.join([self.binder(v) for v in e.outvars])} = {e.primitive.name}".lstrip()

    def right(self, e: Eqn) -> str:
        return "".join([" " + self.atom(a) for a in e.invars])

    # Several lines.
    def write_program(self, program: Jaxpr | ClosedJaxpr, before: str, indent: int, out: list[str],
                      after: str = "") -> None:
        flat = self.flat_program(program, WIDTH - indent - len(before))
        if flat is not None:
            out.append(f"{' ' * indent}{before}{flat}{after}")
            return
        jaxpr = _jaxpr(program)
        if id(program) in self.marks:
            before += f"@{self.marks[id(program)]}:"
            self.written.add(id(program))
        outer, self.names = self.names, self.scopes[id(program)]
        out.append(f"{' ' * indent}{before}{self.head(jaxpr)}")
        for e in jaxpr.eqns:
            self.write_eqn(e, indent + 4, out)
        out.append(f"{' ' * (indent + 2)}{self.tail(jaxpr)}{after}")
        self.names = outer

    def write_eqn(self, e: Eqn, indent: int, out: list[str]) -> None:
        line = f"  [{e.source}]" if self.sources and e.source is not None else ""
        flat = self.flat_eqn(e, WIDTH - indent)
        if flat is not None:
            out.append(" " * indent + flat + line)
            return
        out.append(f"{' ' * indent}{self.left(e)}[")
        for name, value in self.shown_params(e):
            programs = _programs(value)
            if not programs:
                out.append(f"{' ' * (indent + 2)}{name}={format_param(value)}")
            elif isinstance(value, (tuple, list)):
                out.append(f"{' ' * (indent + 2)}{name}=(")
                for sub in programs:
                    self.write_program(sub, "", indent + 4, out, after=",")
                out.append(f"{' ' * (indent + 2)})")
            else:
                self.write_program(programs[0], f"{name}=", indent + 2, out)
        out.append(f"{' ' * indent}]{self.right(e)}{line}")


class VariableNames:
    """The variable names in the text of a program, for other output formats."""

    def __init__(self, program: ClosedJaxpr) -> None:
        self._printer = _Printer(False)
        self._printer.name_program(program)

    def names_in(self, program: ClosedJaxpr) -> dict[Var, str]:
        """Return the names in the program or in one nested in it."""
        return self._printer.scopes[id(program)]


def _jaxpr(program: Jaxpr | ClosedJaxpr) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _programs(value: ParamValue) -> list[Jaxpr | ClosedJaxpr]:
    if isinstance(value, (ClosedJaxpr, Jaxpr)):
        return [value]
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], (ClosedJaxpr, Jaxpr)):
        return list(value)
    return []


def _same(a: ParamValue, b: ParamValue) -> bool:
    return a is b or (type(a) is type(b) and a == b)


@check_args(jaxpr=PROGRAM)
@with_recursion_limit()
@pause_gc
def jaxpr_text(jaxpr: Jaxpr | ClosedJaxpr, *, weak: bool = False, sources: bool = False) -> str:
    """Return the text of a program.

    Args:
      jaxpr: the program; constants of a `ClosedJaxpr` are printed as variables, without values.
      weak: mark weak types with `~`, as in `a:~f32[]`, so that parsing restores exactly the same types.
      sources: append the source line to each equation. Such text cannot be parsed.

    >>> from lamina_ir import parse
    >>> jaxpr_text(parse("{ lambda ; a:~f32[]. let in (a,) }"), weak=True)
    '{ lambda ; a:~f32[]. let in (a,) }'
    """
    printer = _Printer(weak, sources)
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr = jaxpr.jaxpr
    printer.name_program(jaxpr)
    printer.number_marks()
    out: list[str] = []
    printer.write_program(jaxpr, "", 0, out)
    return "\n".join(out)


@check_args(eqn=EQN)
def eqn_text(eqn: Eqn, *, weak: bool = False) -> str:
    """Return the text of one equation. Variables are named from `a` on, operands first.

    >>> from lamina_ir import parse
    >>> eqn_text(parse("{ lambda ; x:f32[3]. let y:f32[3] = sin x in (y,) }").eqns[0])
    'b:f32[3] = sin a'
    """
    printer = _Printer(weak)
    for a in eqn.invars:
        if isinstance(a, Var) and a not in printer.names:
            printer.names[a] = next(printer.fresh)
    printer.name_eqn(eqn, [v for v in eqn.outvars if type(v) is Var])
    printer.number_marks()
    out: list[str] = []
    printer.write_eqn(eqn, 0, out)
    return "\n".join(out)


set_printer(lambda x, **how: eqn_text(x) if isinstance(x, Eqn) else jaxpr_text(x, **how))
