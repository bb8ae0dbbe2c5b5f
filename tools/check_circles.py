"""Draws every import circle inside a room, and counts the imports that stand inside functions.

usage: python tools/check_circles.py [--root FOLDER]

- no module of a room imports itself by way of others: imports at the top, inside functions and under `TYPE_CHECKING`
  all count (that a package's `__init__` runs before its modules does not);
- an import inside a function says why on its line or the one above, and there are few of them.
"""
from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_INSIDE = 32  # imports inside functions, in the whole house; 11 of them are doors behind which modules load when asked for


def modules(source: Path) -> dict[str, Path]:
    """Dotted name -> file of each module below a `src` folder; a package is its `__init__.py`."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, name: str, is_package: bool, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """(module of the same room, line) for each import anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = name.split(".")[: len(name.split(".")) - node.level + is_package]
                base = ".".join([*up, *([node.module] if node.module else [])])
            for alias in node.names:
                target = f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
                if target in known and target != name:
                    yield target, node.lineno


def circles(graph: dict[str, dict[str, int]]) -> list[list[str]]:
    """For each group of modules that reach each other, one shortest circle through its first module (Tarjan 1972)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in graph[name]:
            if target not in order:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], order[target])
        if low[name] == order[name]:
            group = set(stack[stack.index(name):])
            del stack[stack.index(name):]
            if len(group) > 1:
                groups.append(group)

    for name in sorted(graph):
        if name not in order:
            visit(name)
    return [shortest(graph, group) for group in groups]


def shortest(graph: dict[str, dict[str, int]], group: set[str]) -> list[str]:
    """A shortest circle inside a group of modules that reach each other, its first name again at the end."""
    best: list[str] = []
    for start in sorted(group):
        paths = [[start]]
        seen = {start}
        while paths and not (best and len(paths[0]) >= len(best) - 1):
            path = paths.pop(0)
            for target in sorted(graph[path[-1]]):
                if target == start:
                    best = [*path, start] if not best or len(path) + 1 < len(best) else best
                    paths = []
                    break
                if target in group and target not in seen:
                    seen.add(target)
                    paths.append([*path, target])
    return best


def inside(tree: ast.AST) -> Iterator[int]:
    """The lines of the imports that stand in functions, `import_module(...)` included."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                called = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
                if called or isinstance(node, ast.Import | ast.ImportFrom):
                    yield node.lineno


def breaches(root: Path) -> list[str]:
    """Every circle, and every breach of the rule about imports inside functions, in the house at `root`."""
    found: list[str] = []
    count = 0
    for source in sorted(root.glob("packages/*/src")):
        known = modules(source)
        graph: dict[str, dict[str, int]] = {}
        for name, path in known.items():
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text, str(path))
            lines = text.split("\n")
            graph[name] = dict(imported(tree, name, path.name == "__init__.py", known))
            for line in sorted(set(inside(tree))):
                count += 1
                if "#" not in lines[line - 1] and not lines[line - 2].lstrip().startswith("#"):
                    found.append(f"{path.relative_to(root)}:{line}: an import inside a function must say why in a "
                                 f"comment: {lines[line - 1].strip()}")
        for circle in circles(graph):
            steps = [f"{a} (line {graph[a][b]})" for a, b in zip(circle, circle[1:])]
            found.append(f"{source.relative_to(root)}: import circle: {' -> '.join([*steps, circle[-1]])}")
    if count > MOST_INSIDE:
        found.append(f"packages: {count} imports stand inside functions; at most {MOST_INSIDE} may")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    found = breaches(parser.parse_args(argv).root.resolve())
    print("\n".join(found) or "circles: none")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
