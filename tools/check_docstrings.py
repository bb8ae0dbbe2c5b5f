"""Checks that every public function of the library wing, and all at the rooms' doors, has a whole docstring.

usage: python tools/check_docstrings.py [--list] [--doors] [FOLDER ...]

Prints one line per gap.

A whole docstring (docs/docstrings.md) has a summary of one line, `Args:` naming every parameter, `Returns:`, `Raises:`, a
`Source:` and an example, in this order. Without folders, the names in `tools/docstrings_to_do.txt` are let off, and a name
there whose docstring is whole is a breach: the list only gets shorter. With folders (`_reduce`, `linalg`,
`lamina_random`) all functions that live there are checked. `--list` prints how many are left per folder.

`--doors` checks the functions and classes that the rooms below the wing show in `extend` instead: a summary, `Args:` (or a
class's `Attributes:`) naming every parameter, `Returns:` where something is returned, `Raises:` where the body raises, and an
example. What is neither function nor class must be named in the docstring of the module that shows it.
"""
from __future__ import annotations

import argparse
import ast
import collections
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TO_DO = ROOT / "tools" / "docstrings_to_do.txt"
MODULES = ("lamina_numpy", "lamina_numpy.linalg", "lamina_numpy.fft", "lamina_numpy.flatten_util",
           "lamina_numpy.image", "lamina_numpy.ops",
           "lamina_numpy.special", "lamina_random", "lamina_nn", "lamina_nn.initializers", "lamina_nn.optimizers",
           "lamina_nn.rnn", "lamina_nn.stax", "lamina_scipy", "lamina_scipy.ode")
ROOMS = ("lamina_numpy", "lamina_random", "lamina_nn", "lamina_scipy")
SECTIONS = ("Args", "Returns", "Raises", "Source", ">>>")
DOORS = ("lamina_ir", "lamina_tracing", "lamina_autodiff", "lamina_batching", "lamina_parallel", "lamina_lowering")
DOOR_SECTIONS = ("Args", "Returns", "Raises", "Attributes", ">>>")
WIDTH = 120


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """(dotted name, function) of each function the wing shows, once: an alias stands under the name it bears."""
    seen = set()
    waiting = [importlib.import_module(name) for name in reversed(MODULES)]
    while waiting:
        module = waiting.pop()
        waiting += [inner for name in module.__all__ if inspect.ismodule(inner := getattr(module, name))
                    and inner.__name__ not in MODULES]
        for name in module.__all__:
            shown = getattr(module, name)
            home = getattr(shown, "__module__", None) or ""
            if isinstance(shown, type) or not callable(shown) or home.split(".")[0] not in ROOMS:
                continue
            if hasattr(shown, "__name__") and id(shown) not in seen:
                seen.add(id(shown))
                yield f"{module.__name__}.{shown.__name__}", shown


def folder_of(fun: Callable[..., Any]) -> str:
    """The folder, or file, of a room that a function's source stands in: `_reduce`, `fft`, `lamina_random`."""
    path = Path(inspect.unwrap(fun).__code__.co_filename)
    room = next(part for part in path.parts[::-1] if part in ROOMS)
    inner = path.parts[len(path.parts) - path.parts[::-1].index(room):]
    return inner[0].removesuffix(".py") if room == "lamina_numpy" else room


def sections(text: str) -> dict[str, str]:
    """Name of each section -> what it says, in the order they stand."""
    found: dict[str, str] = {}
    at = ""
    for line in text.splitlines()[1:]:
        bare = line.strip()
        head = re.match(r"(Args|Returns|Raises|Attributes|Source):", bare)
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
    """What the docstring of a function of the wing lacks."""
    parameters = list(inspect.signature(fun).parameters)
    wanted = [s for s in SECTIONS if s not in ("Args", "Raises") or parameters]
    yield from lacks(inspect.getdoc(fun) or "", parameters, wanted, SECTIONS)


def lacks(text: str, parameters: list[str], wanted: list[str], order: tuple[str, ...]) -> Iterator[str]:
    """What a docstring lacks: sections that are wanted, parameters, words.

    Args:
      text: the docstring, without its indentation.
      parameters: what `Args:` must name, all of it and nothing else.
      wanted: the sections there must be.
      order: the sections there may be, as they must follow each other.
    """
    lines = text.splitlines()
    if not lines:
        yield "has no docstring"
        return
    if not lines[0].strip().endswith(".") or len(lines) > 1 and lines[1].strip():
        yield "its summary is not one line that ends with a full stop"
    if any(len(line) > WIDTH for line in lines):
        yield f"a line is longer than {WIDTH}"
    have = sections(text)
    missing = [s for s in wanted if s not in have]
    if missing:
        yield "has no " + ", ".join("example" if s == ">>>" else f"{s}:" for s in missing)
    found = [s for s in have if s in order]
    if found != sorted(found, key=order.index):
        yield f"sections stand in the order {', '.join(found)}; expected {', '.join(order)}"
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


# --- the doors ----------------------------------------------------------------------------------------------------
def doors() -> Iterator[tuple[str, str, Any]]:
    """(module, name, object) of everything a room shows in `extend`, by the module of its reader where there are several."""
    for room in DOORS:
        door = importlib.import_module(f"{room}.extend")
        readers = [m for m in (getattr(door, name) for name in door.__all__) if getattr(m, "__name__", "").startswith(
            f"{room}.extend.")] if hasattr(door, "__path__") else [door]
        for module in readers:
            for name in module.__all__:
                yield module.__name__, name, getattr(module, name)


def raises(fun: Callable[..., Any]) -> bool:
    """Whether the body of a function, those of functions inside apart, raises an error of its own."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(fun))))
    except (OSError, TypeError):  # a constructor that was made, as of a named tuple
        return False
    left: list[ast.AST] = list(tree.body[0].body)  # type: ignore[attr-defined]
    while left:
        node = left.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            left += ast.iter_child_nodes(node)
    return False


def door_gaps(shown: Any) -> Iterator[str]:
    """What the docstring of a function or class at a door lacks."""
    text = inspect.getdoc(shown) or ""
    made = isinstance(shown, type)
    plain = made and shown.__init__ is object.__init__ and shown.__new__ is object.__new__
    bare = plain or getattr(shown, "_is_protocol", False)
    signature = inspect.Signature() if bare else inspect.signature(shown)
    parameters = list(signature.parameters)
    fields = made and hasattr(shown, "_fields")
    back = str(signature.return_annotation)
    wanted = [">>>"]
    if parameters:
        wanted.append("Attributes" if fields else "Args")
    if not made and back not in ("None", "Iterator[None]"):
        wanted.append("Returns")
    if not bare and not fields and raises(shown.__init__ if made else shown):
        wanted.append("Raises")
    yield from lacks(text, parameters, sorted(wanted, key=DOOR_SECTIONS.index), DOOR_SECTIONS)
    if fields:
        unnamed = [name for name in parameters if name not in described(sections(text).get("Attributes", ""))[0]]
        if unnamed and "Attributes" in sections(text):
            yield f"Attributes: does not name {', '.join(unnamed)}"


def door_breaches(shown: Iterable[tuple[str, str, Any]]) -> list[str]:
    """Every gap at the doors."""
    found = []
    for module, name, what in shown:
        if isinstance(what, type) or inspect.isroutine(what):
            found += [f"{module}.{name}: {gap}" for gap in door_gaps(what)]
        elif f"`{name}`" not in (inspect.getdoc(importlib.import_module(module)) or ""):
            found.append(f"{module}.{name}: the module's docstring does not say what `{name}` is")
    return found


# --- the wing -----------------------------------------------------------------------------------------------------
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
    parser.add_argument("--doors", action="store_true")
    parser.add_argument("folders", nargs="*")
    options = parser.parse_args(argv)
    if options.doors:
        shown = list(doors())
        found = door_breaches(shown)
        print("\n".join(found) or f"docstrings: {len(shown)} names at the doors, all whole")
        return 1 if found else 0
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
