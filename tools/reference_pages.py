"""Writes `docs/reference/`: a page for each public module, from docstrings, signatures and the live tables.

usage: python tools/reference_pages.py [--check] [--out FOLDER]

`--check` writes nothing and fails where a page differs from what is there. An object that several modules show is told of in
one of them, its home; the others' tables lead there.
"""
from __future__ import annotations

import argparse
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import reference_facts
import reference_text as text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
# Where an object is at home that several modules show: the first of these, then the others by name, then the last ones.
FIRST = ("lamina.tree_util", "lamina", "lamina.errors", "lamina.numpy", "lamina.numpy.linalg", "lamina.numpy.fft", "lamina.lax",
         "lamina.lax.linalg")
LAST = ("lamina.config", "lamina.example_libraries", "lamina.experimental", "lamina.extend", "lamina.lib")
# Modules told of on the page of the one above them.
TOGETHER = ("lamina.scipy.stats.",)
# The one that is too long for a page: its functions stand by the folder of their room that they live in.
LONG = "lamina.numpy"
PARTS = {"_elementwise": "elementwise", "_reduce": "reductions", "_shape": "shapes", "_make": "creation", "_index": "indices",
         "_order": "order", "_contract": "products", "_along": "along-axes"}
WRITTEN = "Written by `tools/reference_pages.py` from docstrings and live tables; do not edit."


class Entry(NamedTuple):
    """A public name."""

    module: str
    name: str
    value: Any


def public_modules(root: str = "lamina") -> dict[str, list[str]]:
    """Module -> its public names, of the roof and all modules below it."""
    module = importlib.import_module(root)
    found = {root: [name for name in sorted(module.__all__) if name != "__version__"]}
    for name in found[root]:
        if inspect.ismodule(getattr(module, name)):
            found |= public_modules(f"{root}.{name}")
    return found


def rank(module: str) -> tuple[int, str]:
    """Which of two modules that show the same object is its home: the lower."""
    if module in FIRST:
        return FIRST.index(module), module
    return len(FIRST) + any(f"{module}.".startswith(f"{last}.") for last in LAST), module


def page_of(module: str) -> str:
    """The module on whose page one is told of."""
    return next((start[:-1] for start in TOGETHER if module.startswith(start)), module)


def place(entry: Entry) -> str:
    """The page that tells of an entry."""
    code = getattr(inspect.unwrap(entry.value), "__code__", None) if entry.module == LONG and callable(entry.value) else None
    folders = Path(code.co_filename).parts if code else ()
    part = PARTS.get(folders[folders.index("lamina_numpy") + 1]) if "lamina_numpy" in folders else None
    return f"{LONG}-{part}" if part else page_of(entry.module)


def anchors(headings: list[str]) -> dict[str, str]:
    """Heading -> anchor, as GitHub makes them."""
    found: dict[str, str] = {}
    for heading in headings:
        plain = anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        number = 0
        while anchor in found.values():
            number += 1
            anchor = f"{plain}-{number}"
        found[heading] = anchor
    return found


class Reference:
    """All pages."""

    def __init__(self) -> None:
        self.modules = public_modules()
        self.differences = reference_facts.Differences()
        entries = [Entry(module, name, value) for module in sorted(self.modules, key=rank) for name in self.modules[module]
                   if not inspect.ismodule(value := getattr(importlib.import_module(module), name))]
        self.homes: dict[int, Entry] = {}
        self.entries: dict[str, list[Entry]] = {module: [] for module in self.modules}
        for entry in entries:
            self.entries[entry.module].append(entry)
            told = callable(entry.value) or text.is_ours(entry.value)
            before = self.homes.get(id(entry.value))
            if told and (before is None or before.module == entry.module
                         and entry.name == getattr(entry.value, "__name__", "") != before.name):
                self.homes[id(entry.value)] = entry
        self.anchors: dict[str, str] = {}
        self.details: dict[int, list[str]] = {}
        for entry in self.homes.values():
            if details := self.told(entry):
                self.details[id(entry.value)] = details
        for page in {place(entry) for entry in self.homes.values()}:
            mine = [e for e in self.homes.values() if place(e) == page and id(e.value) in self.details]
            made = anchors([self.heading(e) for e in sorted(mine, key=lambda e: (e.module, e.name))])
            self.anchors |= {f"{page} {heading}": anchor for heading, anchor in made.items()}
        self.details[id(importlib.import_module("lamina").Array)] += array_members(self)

    def heading(self, entry: Entry) -> str:
        """What an entry stands under."""
        return f"{entry.module}.{entry.name}".removeprefix(f"{page_of(entry.module)}.")

    def is_primitive(self, entry: Entry) -> bool:
        return type(entry.value).__name__ == "Primitive"

    def told(self, entry: Entry) -> list[str]:
        """What is said about an object beyond its line in the table."""
        if self.is_primitive(entry):
            return []
        said = text.docstring(entry.value) if callable(entry.value) else ""
        call = text.signature_text(entry.name, entry.value)
        parts = [f"```text\n{call}\n```"] if call else []
        if isinstance(entry.value, type) and issubclass(entry.value, BaseException) and text.is_ours(entry.value):
            bases = ", ".join(f"`{base.__name__}`" for base in entry.value.__bases__)
            parts += [f"A kind of {bases}.", text.markdown(said)]
        elif said:
            parts.append(text.markdown(said))
        if isinstance(entry.value, type) and text.is_ours(entry.value):
            parts += ["\n".join(lines)] if (lines := text.members(entry.value)) else []
        if entry.name == "checkpoint_policies":
            parts.append("\n".join([f"- `{text.signature_text(name, value) or name}`: {text.about(value)}".removesuffix(": ")
                                    for name, value in sorted(vars(entry.value).items())]))
        if entry.module in ("lamina.lax", "lamina.lax.linalg") and (op := reference_facts.primitive_of(entry.name)):
            parts.append(reference_facts.sentence(op))
        path = entry.module.removeprefix("lamina").lstrip(".")
        if differences := self.differences.lines(path, entry.name, entry.value):
            parts.append("\n".join(["**JAX 0.4.30:**", "", *differences]))
        plain = isinstance(entry.value, type) and parts == ([f"```text\n{call}\n```"] if call else []) + [said]
        return [] if plain and "\n" not in said else parts

    def link(self, value: Any, at: str, shown: str) -> str:
        """A link to where an object is told of, from the page `at`; bare text where nothing more is said."""
        home = self.homes.get(id(value))
        if home is None or id(value) not in self.details:
            return f"`{shown}`"
        page = place(home)
        where = "" if page == at else f"{page}.md"
        return f"[`{shown}`]({where}#{self.anchors[f'{page} {self.heading(home)}']})"

    def row(self, entry: Entry) -> str:
        """An entry's line in the table of its module."""
        at, home = page_of(entry.module), self.homes.get(id(entry.value), entry)
        name = self.heading(entry)
        about = summary_of(home) or summary_of(entry)
        if home.module == entry.module and home.name != entry.name:
            return f"| `{name}` | The same as {self.link(entry.value, at, self.heading(home))}. |"
        if home.module != entry.module:
            about = f"{about} (`{home.module}.{home.name}`)"
        return f"| {self.link(entry.value, at, name)} | {text.cell(about)} |"

    def page(self, page: str) -> str:
        """The text of a page."""
        module = importlib.import_module(page)
        lines = [f"# {page}", "", WRITTEN, "", text.markdown(inspect.cleandoc(module.__doc__ or "")), ""]
        inner = sorted({page_of(name) for name in self.modules if page_of(name).rpartition(".")[0] == page})
        if inner:
            lines += [f"Modules: {', '.join(f'[{name}]({name}.md)' for name in inner)}.", ""]
        if page == "lamina.extend.core.primitives":
            return "\n".join([*lines, *primitives_table(self)])
        entries = sorted([e for name, found in self.entries.items() if page_of(name) == page for e in found],
                         key=lambda e: (e.module, e.name.lower(), e.name))
        if any(self.is_primitive(e) for e in entries):
            lines += ["The primitives themselves, `sin_p` and so on, stand in "
                      "[lamina.extend.core.primitives](lamina.extend.core.primitives.md).", ""]
            entries = [e for e in entries if not self.is_primitive(e)]
        if entries:
            lines += ["| name | what it is |", "| --- | --- |", *map(self.row, entries), ""]
        if page == LONG:
            parts = ", ".join(f"[{part}]({LONG}-{part}.md)" for part in PARTS.values())
            lines[4:4] = [f"Told of by kind, on pages of their own: {parts}.", ""]
        return "\n".join([*lines, *self.told_on(page, entries)])

    def told_on(self, page: str, entries: list[Entry]) -> list[str]:
        """The sections of those entries that a page tells of."""
        return [line for entry in entries if self.homes.get(id(entry.value)) == entry and place(entry) == page
                and id(entry.value) in self.details
                for line in (f"## {self.heading(entry)}", "", "\n\n".join(self.details[id(entry.value)]), "")]

    def part(self, page: str) -> str:
        """The text of a page with a part of the long module's functions."""
        mine = [e for e in self.entries[LONG] if place(self.homes.get(id(e.value), e)) == page]
        mine.sort(key=lambda e: e.name.lower())
        return "\n".join([f"# {LONG}: {page.removeprefix(f'{LONG}-')}", "", WRITTEN, "",
                          f"The table of all functions is that of [{LONG}]({LONG}.md).", "", *self.told_on(page, mine)])

    def index(self) -> str:
        """The page that lists the pages."""
        pages = sorted({page_of(module) for module in self.modules})
        lines = ["# Reference", "", WRITTEN, "",
                 "One page for each public module. What is otherwise than in NumPy stands under *Source* of a function, what",
                 "is otherwise than in JAX 0.4.30 at its end; which names of JAX there are not: [coverage](../coverage.md).",
                 "Array functions raise TypeError for what is neither an array nor a number, which is not said of each.",
                 "",
                 "| module | names | what it holds |", "| --- | --- | --- |"]
        for page in pages:
            names = sum(len(found) for module, found in self.entries.items() if page_of(module) == page)
            said = text.summary(inspect.cleandoc(importlib.import_module(page).__doc__ or ""))
            lines.append(f"| [{page}]({page}.md) | {names} | {text.cell(said)} |")
        return "\n".join([*lines, ""])

    def pages(self) -> dict[str, str]:
        """File name -> text."""
        found = {f"{page}.md": self.page(page) for page in sorted({page_of(module) for module in self.modules})}
        found |= {f"{LONG}-{part}.md": self.part(f"{LONG}-{part}") for part in PARTS.values()}
        return {"index.md": self.index()} | {name: said.rstrip() + "\n" for name, said in found.items()}


def summary_of(entry: Entry) -> str:
    """What an entry's line says."""
    dotted, value = f"{entry.module}.{entry.name}", entry.value
    if dotted in text.OTHERS:
        return text.OTHERS[dotted]
    if said := (text.about(value) if callable(value) or text.is_ours(value) else ""):
        return said
    if text.is_type_only(value):
        return "A type, for annotations."
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        return f"The number `{value}`." if not isinstance(value, str) else f"`{value}`"
    home = getattr(value, "__module__", None) or type(value).__module__
    return "NumPy's own." if str(home).split(".")[0] == "numpy" else ""


def array_members(reference: Reference) -> list[str]:
    """What arrays have: the members that are told of here or are functions of `lamina.numpy`."""
    import lamina
    import lamina.numpy as jnp

    kind, lines = type(jnp.arange(3)), []
    for name in sorted(n for n in dir(kind) if not n.startswith("_")):
        value = inspect.getattr_static(kind, name)
        said = text.about(value)
        function = getattr(lamina.numpy, name, None)
        if said:
            lines.append(f"- `{name}`: {said}")
        elif inspect.isfunction(value) and callable(function):
            lines.append(f"- `{name}`: as {reference.link(function, 'lamina', f'lamina.numpy.{name}')}.")
    return ["Methods and properties of arrays and traced values, beside the operators of Python:", "\n".join(lines)]


def primitives_table(reference: Reference) -> list[str]:
    """The page of primitives: what transformations do with each, and which numbers it takes."""
    lines = ["What the columns say is explained in [operations](../ops.md). `takes`: the numbers that the type rule accepts, "
             "of ops whose operands share a dtype.", "",
             "| primitive | family | derivative | transposed | batched | lowered | takes |", "|" + " --- |" * 7]
    for entry in sorted(reference.entries["lamina.extend.core.primitives"], key=lambda e: e.name):
        if reference.is_primitive(entry):
            lines.append(f"| `{entry.name}` | {' | '.join(reference_facts.facts(entry.value).values())} |")
    others = [e for e in reference.entries["lamina.extend.core.primitives"] if not reference.is_primitive(e)]
    return [*lines, "", "| name | what it is |", "| --- | --- |", *map(reference.row, others), ""]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args(argv)
    pages = Reference().pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in options.out.glob("*.md")}
    behind = sorted(name for name in {*pages, *there} if pages.get(name) != there.get(name))
    if options.check:
        for name in behind:
            print(f"reference_pages: {name} is " + ("behind what is there" if name in pages and name in there else
                                                     "not written" if name in pages else "of a module that is gone"))
        print("reference_pages: " + ("run `python tools/reference_pages.py`" if behind else "the pages say what is there"))
        return int(bool(behind))
    options.out.mkdir(parents=True, exist_ok=True)
    for name in behind:
        if name in pages:
            (options.out / name).write_text(pages[name], encoding="utf-8")
        else:
            (options.out / name).unlink()
    print(f"reference_pages: wrote {len(behind)} of {len(pages)} pages, {sum(map(len, pages.values())) // 1024} KB in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
