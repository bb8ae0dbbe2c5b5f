"""What the pages of the reference say about an object: its signature and its docstring, as Markdown.

The same on each Python and each jaxlib: annotations, addresses and what Python itself writes about classes are left out.
"""
from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import numpy as np

WIDTH = 110
HEAD = re.compile(r"(Args|Returns|Yields|Raises|Attributes):$")
# Said once, on the page that lists the pages.
USUAL = re.compile(r"TypeError: [`\w, ]+ (?:is|are) neither an array nor a number(?:, or one is missing)?\.$")
ENTRY = re.compile(r"((?:\*{0,2}[\w.]+)(?:(?:,| or) \*{0,2}[\w.]+)*): (.*)")
# Said here about what is not ours, or cannot say anything itself.
OTHERS = {
    "lamina.Device": "A device: `platform`, `id`, `device_kind`, `process_index`, `memory_stats()`. Jaxlib's class.",
    "lamina.float0": "The dtype of the slopes of integers and booleans: zeros that take no room.",
    "lamina.dtypes.float0": "The dtype of the slopes of integers and booleans: zeros that take no room.",
    "lamina.checkpoint_policies": "What `checkpoint` keeps, by name.",
    "lamina.sharding.Sharding": "What every placement is: `isinstance(x.sharding, Sharding)`. Jaxlib's class.",
    "lamina.profiler.TraceAnnotation": "A named stretch of time in a profile: `with TraceAnnotation(name):`. Jaxlib's.",
    "lamina.dlpack.SUPPORTED_DTYPES": "The dtypes that other libraries take.",
    "lamina.dtypes.bfloat16": "The dtype bfloat16: 8 bits of exponent, 8 of precision.",
    "lamina.extend.core.array_types": "The classes of which arrays are.",
    "lamina.config.options": "Name -> setting, of all there are.",
    "lamina.config.generation": "A number for all rows in force and what fills the slots.",
    "lamina.config.UNSET": "Stands where a setting was given no value.",
    "lamina.stages.ATTRIBUTES": "The names that a staged function has beside those of a function.",
    "lamina.tree_util.default_registry": "The classes that are containers, as an object.",
    "lamina.tree_util.Partial": "A function with its first arguments, as `functools.partial`, and a container of these.",
    "lamina.numpy.newaxis": "None: a new axis of length 1, in an index.",
    "lamina.experimental.pjit.UNSPECIFIED": "Stands where no sharding was given.",
}


def is_ours(value: Any) -> bool:
    """Whether an object, or its class, is one of the house's."""
    home = getattr(value, "__module__", None) or type(value).__module__
    return isinstance(home, str) and home.split(".")[0].startswith("lamina")


def is_type_only(value: Any) -> bool:
    """Whether it is a type for annotations, with nothing to call: a union, an alias."""
    return typing.get_origin(value) is not None or value is Any or isinstance(value, typing.TypeVar)


# --- signatures ---------------------------------------------------------------------------------------------------
class _Shown:
    """A default, as it is printed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def default_text(value: Any) -> str:
    """A default value in the words of a program: no addresses, and the same with each NumPy."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type) or inspect.isroutine(value):
        return str(value.__name__)
    if isinstance(value, np.dtype | np.generic):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(default_text, value))}{',' * (len(value) == 1)})"
    text = repr(value)
    return "..." if " at 0x" in text or text.startswith("<") or "\n" in text else text


def signature_text(name: str, value: Any, bound: bool = False) -> str:
    """`name(a, b=1)`, over several lines where it is long; "" where there is nothing to be seen.

    Args:
      name: what it is called.
      value: function or class.
      bound: leave out the first parameter, `self`.
    """
    if is_type_only(value) or isinstance(value, enum.EnumMeta) or isinstance(value, type) and issubclass(value, BaseException):
        return ""
    if not is_ours(value) or not callable(value) or isinstance(value, type) and not is_made_in_python(value):
        return ""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    kinds = [p.kind for p in signature.parameters.values()]
    if isinstance(value, type) and kinds == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return ""
    empty = inspect.Parameter.empty
    parameters = [p.replace(annotation=empty, default=empty if p.default is empty else _Shown(default_text(p.default)))
                  for p in list(signature.parameters.values())[bound:]]
    text = f"{name}{signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"
    return wrapped(text) if len(text) > WIDTH else text


def is_made_in_python(kind: type) -> bool:
    """Whether Python code makes a class's objects: what a class in C takes is told by some Pythons only."""
    return any(inspect.isfunction(f) for f in (kind.__init__, kind.__new__, type(kind).__call__))


def wrapped(text: str) -> str:
    """A long call, its lines broken behind commas."""
    lines, indent = [""], " " * (text.index("(") + 1)
    for part in re.split(r"(?<=,) ", text):
        if len(lines[-1]) + len(part) > WIDTH and lines[-1]:
            lines.append(indent + part)
        else:
            lines[-1] += (" " if lines[-1].strip() else "") + part
    return "\n".join(lines)


# --- docstrings ---------------------------------------------------------------------------------------------------
def docstring(value: Any) -> str:
    """An object's own docstring; "" where it has none, or one that Python wrote or that is its base's."""
    if is_type_only(value) or not is_ours(value.fget if isinstance(value, property) else value):
        return ""
    own = vars(value).get("__doc__") if isinstance(value, type) else getattr(value, "__doc__", None)
    if not isinstance(own, str) or isinstance(value, type) and own.startswith(f"{value.__name__}("):
        return ""
    return inspect.cleandoc(own)


def summary(text: str) -> str:
    """The first sentence of a docstring."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    paragraph = re.split(r" ?>>> |Args:", paragraph)[0]
    end = re.search(r"(?<!e\.g)(?<!i\.e)[.](?= [A-Z`(])", paragraph)
    return (paragraph[:end.end()] if end and paragraph[:end.end()].count("`") % 2 == 0 else paragraph).strip()


def blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """(kind, lines) of the parts of a docstring: "text", "example", or the name of a section."""
    kind, lines = "text", []
    for line in [*text.splitlines(), ""]:
        head = HEAD.match(line)
        begins = "example" if line.lstrip().startswith(">>>") else head.group(1) if head else ""
        ends = not line.strip() or (kind not in ("text", "example") and not line.startswith(" "))
        if ends or (begins and kind != "example"):
            if lines:
                yield kind, lines
            kind, lines = begins or "text", []
        if line.strip() and not head:
            lines.append(line)


def markdown(text: str) -> str:
    """A docstring as Markdown: sections become lists, examples code."""
    out: list[str] = []
    for kind, lines in blocks(text):
        if kind == "example":
            out.append("\n".join(["```python", *lines, "```"]))
        elif kind == "text":
            out.append("\n".join(["```text", *lines, "```"] if all(line.startswith("    ") for line in lines) else lines))
        else:
            out.append(section(kind, [line for line in lines if not USUAL.match(line.strip())]))
    return "\n\n".join(part for part in out if part)


def section(kind: str, lines: list[str]) -> str:
    """`Args:`, `Raises:` and `Attributes:` as lists, `Returns:` as it is written; "" for no lines."""
    if not lines:
        return ""
    indent = len(lines[0]) - len(lines[0].lstrip())
    if kind in ("Returns", "Yields"):
        first, *rest = [line[indent:] for line in lines]
        return "\n".join([f"**{kind}:** {first}", *rest])
    out = [f"**{kind}:**", ""]
    for line in lines:
        entry = ENTRY.match(line[indent:])
        if entry and line[:indent].isspace():
            names = re.sub(r"\*{0,2}[\w.]+", lambda m: m.group() if m.group() == "or" else f"`{m.group()}`", entry.group(1))
            out.append(f"- {names}: {entry.group(2)}")
        else:
            out.append("  " + line.strip())
    return "\n".join(out)


def cell(text: str) -> str:
    """Text for a row of a table: one line, its bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")


# --- what a class shows -------------------------------------------------------------------------------------------
def members(kind: type) -> list[str]:
    """Lines about the public methods and properties that a class of the house has of itself or of others of the house."""
    if issubclass(kind, enum.Enum):
        return [f"Members: {', '.join(f'`{name}`' for name in kind.__members__)}."]
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if base.__module__.split(".")[0].startswith("lamina"):
            for name, value in vars(base).items():
                if not name.startswith("_"):
                    found.setdefault(name, value)
    lines, said = [], docstring(kind)
    for name, value in sorted(found.items()):
        value = getattr(value, "__func__", value)
        if inspect.isfunction(value):
            plain = isinstance(inspect.getattr_static(kind, name), staticmethod)
            call = " ".join(signature_text(name, value, bound=not plain).split())
            lines.append(f"- `{call}`: {about(value)}".removesuffix(": "))
        elif isinstance(value, property) and (about(value) or f"{name}" not in said):
            lines.append(f"- `{name}`: {about(value)}".removesuffix(": "))
    return lines


def about(value: Any) -> str:
    """The first sentence of an object's docstring."""
    return summary(docstring(value))
