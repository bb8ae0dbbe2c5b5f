"""Pages of the API reference: one for each public module, class and function of `lamina`; docs/_ext/build_docs.py writes them.

The page of a module is Markdown. That of a class or function is a stub which sphinx.ext.autodoc fills (`nox -s site`).
"""
from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from operation_pages import table

INDEX = """# API

Generated from docstrings and signatures. Functions that take arrays accept everything that `lamina.typing.ArrayLike` names.

"""


class Entry(NamedTuple):
    """A public name: its module, its value, and the dotted name of its page (None: listed only)."""
    module: str
    name: str
    value: Any
    page: str | None


def public_modules(name: str = "lamina") -> list[str]:
    """Return the names of a module and of all modules below it that `__all__` lists."""
    module = importlib.import_module(name)
    inner = [f"{name}.{member}" for member in sorted(module.__all__) if inspect.ismodule(getattr(module, member))]
    return [name, *(found for dotted in inner for found in public_modules(dotted))]


@functools.cache
def entries() -> dict[str, list[Entry]]:
    """Return the public names of each module. A name that several modules share has its page in the least nested one."""
    pages: dict[tuple[int, str], str] = {}
    found = {}
    for module in sorted(public_modules(), key=lambda dotted: (dotted.count("."), dotted)):
        members = vars_of(module)
        found[module] = [Entry(module, name, value, pages.setdefault((id(value), name), f"{module}.{name}")
                               if has_page(value) else None)
                         for name, value in members.items()]
    return dict(sorted(found.items()))


def has_page(value: Any) -> bool:
    """Return whether a value is a class or a function, but not one of NumPy or Python."""
    home = getattr(inspect.unwrap(value), "__module__", None) or ""
    return (inspect.isclass(value) or inspect.isroutine(value)) and home.split(".")[0] not in ("builtins", "numpy", "typing")


def vars_of(module: str) -> dict[str, Any]:
    """Return the public names of a module that are not modules, in alphabetical order."""
    members = importlib.import_module(module)
    found = {name: getattr(members, name) for name in sorted(members.__all__, key=str.lower)}
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


@functools.cache
def pages() -> dict[str, Entry]:
    """Return the entry of each page of a class or function, by its dotted name."""
    return {entry.page: entry for listed in entries().values() for entry in listed
            if entry.page == f"{entry.module}.{entry.name}"}


def summary(value: Any) -> str:
    """Return the first sentence of a docstring."""
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split("\nArgs:")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0]


def row(entry: Entry) -> str:
    """Return the line of a name in the table of its module."""
    if entry.page is not None:
        about = summary(entry.value)
    elif type(entry.value).__name__ == "Option":
        about = f"Setting: {entry.value.help}"
    elif type(entry.value).__name__.endswith("Primitive"):
        about = f"Primitive `{entry.value}`"
    else:
        shown = repr(entry.value)
        if len(shown) >= 60 or "`" in shown or " at 0x" in shown:
            shown = type(entry.value).__name__
        about = f"`{shown}`"
    name = f"[`{entry.name}`]({entry.page}.rst)" if entry.page else f"`{entry.name}`"
    return f"| {name} | {about.replace('|', chr(92) + '|')} |"


def module_page(module: str, listed: list[Entry]) -> str:
    """Return the page of a module: its docstring, its modules, its classes, functions and values."""
    lines = [f"# {module}", "", fence_examples(inspect.getdoc(importlib.import_module(module)) or ""), ""]
    inner = [other for other in entries() if other.rpartition(".")[0] == module]
    if inner:
        lines += ["## Modules", "", *table("module", "contents"), *map(module_row, inner), ""]
    kinds = {"Classes": [e for e in listed if e.page and inspect.isclass(e.value)],
             "Functions": [e for e in listed if e.page and not inspect.isclass(e.value)],
             "Values": [e for e in listed if not e.page]}
    for kind, chosen in kinds.items():
        if chosen:
            lines += [f"## {kind}", "", *table("name", "description"), *map(row, chosen), ""]
    return "\n".join(lines)


def module_row(module: str) -> str:
    """Return the line of a module in a table: the first sentence of its docstring, without its name."""
    about = re.sub(r"^`?lamina[\w.]*`?: ", "", summary(importlib.import_module(module)))
    return f"| [`{module}`]({module}.md) | {about} |"


def fence_examples(text: str) -> str:
    """Return a docstring with its examples in code blocks."""
    return re.sub(r"^>>> .*(?:\n.+)*", lambda match: f"```python\n{match[0]}\n```", text, flags=re.MULTILINE)


def as_markdown(text: str) -> str:
    """Return a docstring as Markdown: headings and lists for its sections, code blocks for its examples."""
    lines, section = [], ""
    for line in text.splitlines():
        if heading := re.fullmatch(r"(Args|Attributes|Returns|Yields|Raises):", line):
            section = heading[1]
            lines += ["", f"**{section}**", ""]
        elif section and line.startswith("  "):
            entry = re.match(r"  (?=\S)([\w*, ]+): (.*)", line) if section not in ("Returns", "Yields") else None
            lines.append(f"- `{entry[1]}`: {entry[2]}" if entry else f"{'  ' * (lines[-1] != '')}{line.strip()}")
        else:
            section = ""
            lines += [""] * line.startswith(("Derivative: ", "Source: ")) + [line]
    return re.sub(r"\n{3,}", "\n\n", fence_examples("\n".join(lines)))


def stub(page: str) -> str:
    """Return the page of a class or function, in reStructuredText."""
    entry = pages()[page]
    kind = "autoclass" if inspect.isclass(entry.value) else "autofunction"
    title = page.replace("_", "\\_") if page.endswith("_") else page
    lines = [":orphan:", "", title, "=" * len(title), "", f"Module :doc:`{entry.module}`.", "", f".. {kind}:: {page}"]
    return "\n".join([*lines, *["   :members:"] * (kind == "autoclass"), ""])


def markdown_page(page: str) -> str:
    """Return the page of a class or function as Markdown: its signature and its docstring."""
    value = pages()[page].value
    return f"# {page}\n\n```python\n{page}{signature(value)}\n```\n\n{as_markdown(inspect.getdoc(value) or '')}\n"


def signature(value: Any) -> str:
    """Return the signature of a class or function, without quotes around types; nothing if it has none."""
    try:
        return re.sub(r"'([^']*)'(?=[,)=\s]|$)", r"\1", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def files() -> Iterator[tuple[str, str]]:
    """Yield the file name and text of each page."""
    top = [module for module in entries() if module.count(".") < 2]
    yield "index.md", INDEX + "\n".join([*table("module", "contents"), *map(module_row, top)])
    for module, listed in entries().items():
        yield f"{module}.md", module_page(module, listed)
    for page in pages():
        yield f"{page}.rst", stub(page)
