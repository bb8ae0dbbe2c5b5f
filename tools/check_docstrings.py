"""Checks that every public function of the library wing has a whole docstring; prints one line per gap.

usage: python tools/check_docstrings.py [--list] [FOLDER ...]

A whole docstring (docs/docstrings.md) has a summary of one line, `Args:` naming every parameter, `Returns:`, `Raises:`, a
`Source:` and an example, in this order. Without folders, the names in `tools/docstrings_to_do.txt` are let off, and a name
there whose docstring is whole is a breach: the list only gets shorter. With folders (`_reduce`, `linalg`,
`lamina_random`) all functions that live there are checked. `--list` prints how many are left per folder.
"""
from __future__ import annotations

import argparse
import collections
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TO_DO = ROOT / "tools" / "docstrings_to_do.txt"
MODULES = ("lamina_numpy", "lamina_numpy.linalg", "lamina_numpy.fft", "lamina_numpy.flatten_util", "lamina_random")
SECTIONS = ("Args", "Returns", "Raises", "Source", ">>>")
WIDTH = 120


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """(dotted name, function) of each function the wing shows, once: an alias stands under the name it bears."""
    seen = set()
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            shown = getattr(module, name)
            home = getattr(shown, "__module__", None) or ""
            if isinstance(shown, type) or not callable(shown) or home.split(".")[0] not in ("lamina_numpy", "lamina_random"):
                continue
            if hasattr(shown, "__name__") and id(shown) not in seen:
                seen.add(id(shown))
                yield f"{module.__name__}.{shown.__name__}", shown


def folder_of(fun: Callable[..., Any]) -> str:
    """The folder, or file, of a room that a function's source stands in: `_reduce`, `fft`, `lamina_random`."""
    path = Path(inspect.unwrap(fun).__code__.co_filename)
    room = next(part for part in path.parts[::-1] if part in ("lamina_numpy", "lamina_random"))
    inner = path.parts[len(path.parts) - path.parts[::-1].index(room):]
    return room if room == "lamina_random" else inner[0].removesuffix(".py")


def sections(text: str) -> dict[str, str]:
    """Name of each section -> what it says, in the order they stand."""
    found: dict[str, str] = {}
    at = ""
    for line in text.splitlines()[1:]:
        bare = line.strip()
        head = re.match(r"(Args|Returns|Raises|Source):", bare)
        if head and (head.group(1) == "Source" or bare == head.group()):
            at = head.group(1)
            found[at] = bare[head.end():].strip()
        elif bare.startswith(">>>"):
            at = ">>>"
            found[at] = found.get(at, "") + bare
        elif not bare:
            at = ""
        elif at:
            found[at] += "\n" + line
    return found


def described(args: str) -> tuple[dict[str, str], int]:
    """(parameter -> what its entry says, indentation of the entries) of an `Args:` section."""
    lines = [line for line in args.splitlines() if line.strip()]
    indent = len(lines[0]) - len(lines[0].lstrip()) if lines else 0
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        entry = re.match(r"((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*):(.*)", line.strip())
        if entry and len(line) - len(line.lstrip()) == indent:
            names = [name.strip().lstrip("*") for name in entry.group(1).split(",")]
            entries.update(dict.fromkeys(names, entry.group(2).strip()))
        else:
            entries.update({name: entries[name] + " " + line.strip() for name in names})
    return entries, indent


def gaps(fun: Callable[..., Any]) -> Iterator[str]:
    """What a function's docstring lacks."""
    text = inspect.getdoc(fun) or ""
    lines = text.splitlines()
    if not lines:
        yield "has no docstring"
        return
    if not lines[0].strip().endswith(".") or len(lines) > 1 and lines[1].strip():
        yield "its summary is not one line that ends with a full stop"
    if any(len(line) > WIDTH for line in lines):
        yield f"a line is longer than {WIDTH}"
    have = sections(text)
    parameters = [name for name, p in inspect.signature(fun).parameters.items()]
    wanted = [s for s in SECTIONS if s not in ("Args", "Raises") or parameters]
    missing = [s for s in wanted if s not in have]
    if missing:
        yield "has no " + ", ".join("example" if s == ">>>" else f"{s}:" for s in missing)
    order = [s for s in have if s in SECTIONS]
    if order != sorted(order, key=SECTIONS.index):
        yield f"sections stand in the order {', '.join(order)}; expected {', '.join(SECTIONS)}"
    entries, _ = described(have.get("Args", ""))
    if "Args" in have:
        unnamed = [name for name in parameters if name not in entries]
        if unnamed:
            yield f"Args: does not name {', '.join(unnamed)}"
        stale = [name for name in entries if name not in parameters]
        if stale:
            yield f"Args: names {', '.join(stale)}, which it does not take"
    empty = [name for name, says in entries.items() if not says.strip()]
    empty += [s for s in ("Returns", "Raises", "Source") if s in have and not have[s].strip()]
    if empty:
        yield f"says nothing about {', '.join(empty)}"


def to_do(path: Path) -> list[str]:
    """The names let off for now."""
    return [line for line in path.read_text(encoding="utf-8").split() if line] if path.exists() else []


def breaches(functions: list[tuple[str, Callable[..., Any]]], let_off: list[str]) -> list[str]:
    """Every gap of functions that are not let off, and every name let off for nothing."""
    found = []
    known = {name for name, _ in functions}
    for name, fun in functions:
        missing = list(gaps(fun))
        if name not in let_off:
            found += [f"{name}: {gap}" for gap in missing]
        elif not missing:
            found.append(f"{name}: its docstring is whole; take it off tools/docstrings_to_do.txt")
    return found + [f"tools/docstrings_to_do.txt: there is no public function {name}" for name in let_off if name not in known]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args(argv)
    functions = list(public_functions())
    if options.list:
        whole = collections.Counter(folder_of(fun) for _, fun in functions)
        left = collections.Counter(folder_of(fun) for _, fun in functions if list(gaps(fun)))
        print("\n".join(f"{folder}: {left[folder]} of {whole[folder]} left" for folder in sorted(whole)))
        return 0
    if options.folders:
        picked = [(name, fun) for name, fun in functions if folder_of(fun) in options.folders]
        found = breaches(picked, []) if picked else [f"no public function lives in {', '.join(options.folders)}"]
    else:
        picked, let_off = functions, to_do(TO_DO)
        found = breaches(functions, let_off)
    print("\n".join(found) or f"docstrings: {len(picked)} functions, all whole or on the list")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
