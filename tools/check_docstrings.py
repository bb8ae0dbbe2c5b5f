"""Check that the docstrings of public functions and classes are complete; print one line for each gap.

usage: python tools/check_docstrings.py

- Functions of the library packages: a one-line summary, `Args:` with every parameter, `Returns:`, `Raises:`, `Source:` and an
  example.
- Functions and classes in the `extend` of the lower packages: the same without `Source:`; `Raises:` if the body raises, and
  `Attributes:` for a named tuple. What is neither is named in the docstring of its module.
- Functions and classes whose public name is not in the first release of their package, by its git tag: `.. versionadded::`.

ruff (`D`) checks the form of docstrings. Neither ruff nor pydoclint parses an entry for several parameters (`x, y: ...`), knows
what is public, or requires an example (pytest runs the examples).
"""
from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packages import ROOT, Package, packages

LIBRARY = ("lamina_numpy", "lamina_random", "lamina_nn", "lamina_scipy", "lamina_sparse", "lamina_jet", "lamina_checkify",
           "lamina_refs", "lamina_pallas")
# Public modules that no `__all__` lists.
MORE_MODULES = ("lamina_numpy.flatten_util", "lamina_numpy.image", "lamina_numpy.ops", "lamina_numpy.special",
                "lamina_nn.initializers", "lamina_nn.optimizers", "lamina_nn.rnn", "lamina_nn.stax", "lamina_scipy.ode")
LOWER = ("lamina_ir", "lamina_tracing", "lamina_autodiff", "lamina_batching", "lamina_parallel", "lamina_lowering")
SECTIONS = ("Args", "Returns", "Raises", "Attributes", "Source")
VERSION_ADDED = re.compile(r"^\s*\.\. versionadded:: \d+\.\d+\.\d+", re.MULTILINE)
HEADING = re.compile(rf"^({'|'.join(SECTIONS)}):", re.MULTILINE)


def public_members(module: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (module, name, object) of what a module and its public submodules list in `__all__`."""
    for name in module.__all__:
        member = getattr(module, name)
        if inspect.ismodule(member):
            if member.__name__.startswith(f"{module.__name__}.") and hasattr(member, "__all__"):
                yield from public_members(member)
        else:
            yield module.__name__, name, member


def sections(text: str) -> dict[str, str]:
    """Return the text of each section of a docstring, in order; a section ends at a blank line."""
    _, *parts = HEADING.split(text)
    return {name: body.split("\n\n")[0].split("\n>>>")[0] for name, body in zip(parts[::2], parts[1::2])}


def entries(section: str) -> dict[str, str]:
    """Return what `Args:` or `Attributes:` says about each name."""
    found = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*):(.*)", textwrap.dedent(section.strip("\n")), re.MULTILINE)
    return {name.lstrip("*"): text for names, text in found for name in names.split(", ")}


def gaps(text: str, parameters: list[str], required: list[str]) -> Iterator[str]:
    """Yield what a docstring lacks; `parameters` are those that `Args:` or `Attributes:` must describe."""
    if not text:
        yield "has no docstring"
        return
    summary, *rest = text.splitlines()
    if not summary.endswith(".") or rest and rest[0]:
        yield "its summary must be one line that ends with a full stop"
    found = sections(text)
    missing = [name for name in required if (">>>" not in text if name == "example" else not found.get(name, "").strip())]
    if missing:
        yield f"lacks {', '.join(missing)}"
    if list(found) != sorted(found, key=SECTIONS.index):
        yield f"has sections in the order {', '.join(found)}; expected {', '.join(SECTIONS)}"
    for section in ("Args", "Attributes"):
        if section in found and section in required:
            described = entries(found[section])
            if undescribed := [name for name in parameters if name not in described]:
                yield f"{section} lacks {', '.join(undescribed)}"
            if unknown := [name for name in described if name not in parameters and section == "Args"]:
                yield f"{section} describes {', '.join(unknown)}, which are not parameters"


def raises(function: Any) -> bool:
    """Return whether a function has a `raise` of its own, outside nested functions."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError):  # a generated constructor
        return False
    nodes: list[ast.AST] = list(tree.body[0].body)  # type: ignore[attr-defined]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Raise) and node.exc is not None:
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            nodes += ast.iter_child_nodes(node)
    return False


def library_gaps(function: Any) -> Iterator[str]:
    """Yield the gaps in the docstring of a library function."""
    parameters = list(inspect.signature(function).parameters)
    required = ["Args", "Returns", "Raises", "Source", "example"] if parameters else ["Returns", "Source", "example"]
    yield from gaps(inspect.getdoc(function) or "", parameters, required)


def extend_gaps(member: Any) -> Iterator[str]:
    """Yield the gaps in the docstring of a function or class in an `extend` module."""
    is_class, is_tuple = isinstance(member, type), hasattr(member, "_fields")
    no_constructor = is_class and member.__init__ is object.__init__ and member.__new__ is object.__new__
    has_signature = not no_constructor and not getattr(member, "_is_protocol", False)
    signature = inspect.signature(member) if has_signature else inspect.Signature()
    required = ["example"]
    if signature.parameters:
        required.append("Attributes" if is_tuple else "Args")
    if not is_class and str(signature.return_annotation) not in ("None", "Iterator[None]"):
        required.append("Returns")
    if signature.parameters and not is_tuple and raises(member.__init__ if is_class else member):
        required.append("Raises")
    yield from gaps(inspect.getdoc(member) or "", list(signature.parameters), required)


def released_names(package: Package, root: Path) -> set[str]:
    """Return the names in every `__all__` of the first release of a package."""
    import griffe  # only after the first release: it takes seconds

    def exports(module: griffe.Module) -> set[str]:
        modules = [member for member in module.members.values() if isinstance(member, griffe.Module)]
        return set(map(str, module.exports or ())).union(*map(exports, modules))

    folder = package.source.parent.relative_to(root)
    found = griffe.load_git(package.module, ref=package.tag(package.released_versions()[0]), repo=root, search_paths=[folder])
    assert isinstance(found, griffe.Module)
    return exports(found)


def version_gaps(package: Package, root: Path) -> Iterator[str]:
    """Yield the public functions and classes of a package that are newer than its first release and do not say so."""
    if not package.released_versions():
        return
    known = released_names(package, root)
    for home in [package.module, *(name for name in MORE_MODULES if name.startswith(f"{package.module}."))]:
        for module, name, member in public_members(importlib.import_module(home)):
            is_own = (getattr(member, "__module__", None) or "").split(".")[0] == package.module
            # An alias has the docstring of its other name.
            if is_own and getattr(member, "__name__", None) == name and name not in known and not VERSION_ADDED.search(
                    inspect.getdoc(member) or ""):
                yield f"{module}.{name}: lacks `.. versionadded::`; the first release of {package.name} has no such name"


def check() -> list[str]:
    """Return every gap."""
    found: dict[str, None] = {}  # a name that several modules show counts once
    for module in map(importlib.import_module, [*LIBRARY, *MORE_MODULES]):
        for _, _, member in public_members(module):
            home = getattr(member, "__module__", None) or ""
            is_function = callable(member) and not isinstance(member, type) and hasattr(member, "__name__")
            if is_function and home.split(".")[0] in LIBRARY:
                found |= dict.fromkeys(f"{home}.{member.__name__}: {gap}" for gap in library_gaps(member))
    for extend in (importlib.import_module(f"{package}.extend") for package in LOWER):
        for module, name, member in public_members(extend):
            if module == extend.__name__ and hasattr(extend, "__path__"):
                continue  # also in a submodule
            if isinstance(member, type) or inspect.isroutine(member):
                found |= dict.fromkeys(f"{module}.{name}: {gap}" for gap in extend_gaps(member))
            elif f"`{name}`" not in (sys.modules[module].__doc__ or ""):
                found[f"{module}.{name}: the docstring of its module must explain `{name}`"] = None
    for package in packages().values():
        found |= dict.fromkeys(version_gaps(package, ROOT))
    return list(found)


def main() -> int:
    found = check()
    print("\n".join(found) or "docstrings: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
