"""`jaxpr_dot`: convert a program to Graphviz text, with one box per equation and arrows along values.

`dot -Tsvg` draws it.
"""
from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from .._util.recursion_limit import with_recursion_limit
from .._passes.verify import check
from .._cost.analysis import eqn_cost
from .._types.param_values import format_param
from .._core.printer import VariableNames, literal_text
from .._core.jaxpr import Atom, ClosedJaxpr, DropVar, Eqn, Jaxpr, Literal, Var
from .._core.arg_checks import as_closed_jaxpr

__all__ = ["jaxpr_dot"]

_WIDTH = 48  # longest param text shown, in characters


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _format_count(number: int) -> str:
    """Format a count compactly, such as `1.5M`."""
    for size, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{letter}"
    return str(number)


class _DotWriter:
    def __init__(self, program: ClosedJaxpr, costs: bool) -> None:
        self.costs = costs
        self.names = VariableNames(program)
        self.lines: list[str] = []
        self.numbers: dict[int, int] = {}  # id of a drawn program -> its number

    def node(self, indent: str, name: str, label: str, **more: str) -> None:
        rest = "".join([f", {k}={v}" for k, v in more.items()])
        self.lines.append(f"{indent}{name} [label={_quoted(label)}{rest}];")

    def program(self, closed: ClosedJaxpr, indent: str) -> int:
        """Draw a program, with programs that occur here for the first time nested in it. Return its number."""
        n = self.numbers[id(closed)] = len(self.numbers)
        names, jaxpr = self.names.names_in(closed), closed.jaxpr
        where: dict[Atom, str] = {}  # variable -> name of its node
        for kind, style, vs in (("c", '"dashed"', jaxpr.constvars), ("i", '"solid"', jaxpr.invars)):
            for k, v in enumerate(vs):
                where[v] = f"p{n}{kind}{k}"
                self.node(indent, where[v], f"{names[v]}:{v.aval.str_short()}", shape="ellipse", style=style)
        for k, e in enumerate(jaxpr.eqns):
            here = f"p{n}e{k}"
            self.node(indent, here, "\n".join(self.label_lines(e)))
            self.arrows(indent, e.invars, here, where, names)
            where.update([(v, here) for v in e.outvars if not isinstance(v, DropVar)])
            for param, sub in _nested_programs(e):
                self.nested(indent, here, param, sub)
        for k, a in enumerate(jaxpr.outvars):
            label = f"{literal_text(a)}:{a.aval.str_short()}" if isinstance(a, Literal) else f"{names[a]}:{a.aval.str_short()}"
            self.node(indent, f"p{n}r{k}", label, shape="ellipse", style='"bold"')
            self.arrows(indent, [a], f"p{n}r{k}", where, names, typed=False)
        return n

    def nested(self, indent: str, here: str, param: str, sub: ClosedJaxpr) -> None:
        number = self.numbers.get(id(sub))
        if number is None:
            number = len(self.numbers)
            self.lines.append(f"{indent}subgraph cluster_{number} {{")
            self.lines.append(f'{indent}  label={_quoted(param)}; style="rounded"; color="gray";')
            self.lines.append(f'{indent}  p{number}t [shape=point, style="invis"];')  # arrows need a node
            self.program(sub, indent + "  ")
            self.lines.append(f"{indent}}}")
        self.lines.append(f'{indent}{here} -> p{number}t [style="dashed", color="gray", lhead="cluster_{number}"];')

    def label_lines(self, e: Eqn) -> Iterator[str]:
        """Yield the lines of an equation's box: primitive with literals, params, cost, source line."""
        operands = [literal_text(a) if isinstance(a, Literal) else "·" for a in e.invars]
        yield f"{e.primitive.name}({', '.join(operands)})" if any(o != "·" for o in operands) else e.primitive.name
        for name, value in e.params.items():
            if name in e.primitive.subprograms or name in e.primitive.defaults and value == e.primitive.defaults[name]:
                continue
            text = format_param(value)
            yield f"{name}={text if len(text) <= _WIDTH else text[:_WIDTH - 3] + '...'}"
        if self.costs:
            cost = eqn_cost(e)
            text = f"{_format_count(cost.flops + cost.transcendentals)} flops, {_format_count(cost.bytes)}B"
            yield text + " or more" * bool(cost.uncounted)
        if e.source is not None:
            yield f"{os.path.basename(e.source.file)}:{e.source.line}"

    def arrows(self, indent: str, atoms: Sequence[Atom], to: str, where: dict[Atom, str], names: dict[Var, str],
               typed: bool = True) -> None:
        for a in atoms:
            if not isinstance(a, Literal):
                label = f" [label={_quoted(f'{names[a]}:{a.aval.str_short()}')}]" if typed and "e" in where[a] else ""
                self.lines.append(f"{indent}{where[a]} -> {to}{label};")


def _nested_programs(e: Eqn) -> list[tuple[str, ClosedJaxpr]]:
    """List the programs of an equation, each with a label."""
    found = []
    for param in e.primitive.subprograms:
        value = e.params[param]
        if isinstance(value, ClosedJaxpr):
            found.append((f"{param} of {e.primitive.name}", value))
        elif isinstance(value, (tuple, list)):
            found += [(f"{param}[{i}] of {e.primitive.name}", sub) for i, sub in enumerate(value)]
    return found


@with_recursion_limit()
def jaxpr_dot(program: Jaxpr | ClosedJaxpr, *, costs: bool = False, name: str = "program") -> str:
    """Convert a program to a graph in the Graphviz language.

    Inputs and results are ellipses, constants are dashed ellipses, equations are boxes with their params and source
    lines. Arrows carry the names and types of the printed program. Each nested program is drawn once, in a frame, with
    a dashed arrow from each equation that holds it.

    Args:
      program: the program; a `Jaxpr` must have no constants.
      costs: whether boxes show the cost of the equation, see `eqn_cost`.
      name: the name of the graph.
    Returns:
      Text for `dot`.
    Raises:
      TypeError: `program` is not a program.

    >>> from lamina_ir import parse
    >>> print(jaxpr_dot(parse("{ lambda ; a:f32[3]. let b:f32[3] = mul a 2.0:f32[] in (b,) }")))
    digraph "program" {
      compound=true; node [shape=box, fontname="monospace", fontsize=10]; edge [fontname="monospace", fontsize=8];
      p0i0 [label="a:f32[3]", shape=ellipse, style="solid"];
      p0e0 [label="mul(·, 2.0)"];
      p0i0 -> p0e0;
      p0r0 [label="b:f32[3]", shape=ellipse, style="bold"];
      p0e0 -> p0r0;
    }
    """
    closed = as_closed_jaxpr("jaxpr_dot", program)
    if not isinstance(name, str):
        raise TypeError(f"jaxpr_dot: name must be a string; got {type(name).__name__}")
    try:
        drawing = _DotWriter(closed, costs)
        drawing.program(closed, "  ")
    except KeyError:
        check(closed)  # its error names the variable that is not bound
        raise
    head = '  compound=true; node [shape=box, fontname="monospace", fontsize=10]; edge [fontname="monospace", fontsize=8];'
    return "\n".join([f"digraph {_quoted(name)} {{", head, *drawing.lines, "}"])
