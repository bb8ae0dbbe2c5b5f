"""Prints every piece of module-level state in the rooms' sources: `module.py name`, a line each.

State is what a call may leave behind: names a function declares `global`, functions with a cache, and module-level
containers and objects that are filled or changed after the module is loaded. Names in capitals are constants by
convention. `docs/architecture.md` says of each who owns it, how long it lives and what bounds it; `tools/tests` compares.
"""
from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTAINERS = {"OrderedDict", "count", "defaultdict", "deque", "dict", "list", "local", "lru_cache", "set"}
VALUES = {"Flow", "GatherDimensionNumbers", "Law", "Lock", "Option", "ParamSpec", "Primitive", "PyTreeDef", "RLock",
          "ScatterDimensionNumbers", "SimpleNamespace", "Struct", "TypeVar"}  # classes whose objects do not change
CHANGING = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
            "update"}


def _changed(tree: ast.Module, name: str) -> bool:
    """Whether a module changes what stands under one of its names."""
    def is_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == name

    for node in ast.walk(tree):
        targets = (node.targets if isinstance(node, (ast.Assign, ast.Delete)) else
                   [node.target] if isinstance(node, ast.AugAssign) else [])
        if any(isinstance(t, ast.Subscript) and is_it(t.value) for t in targets):
            return True
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING
                and is_it(node.func.value)):
            return True
    return False


def _is_state(tree: ast.Module, name: str, value: ast.expr) -> bool:
    if isinstance(value, (ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)):
        empty = not getattr(value, "elts", getattr(value, "keys", True))
        return empty or _changed(tree, name)
    if isinstance(value, ast.Call):
        made = ast.unparse(value.func)
        last = made.split(".")[-1].lstrip("_")
        return "lru_cache" in made or last in CONTAINERS or (last[:1].isupper() and last not in VALUES)
    return False


def state_of(tree: ast.Module) -> set[str]:
    """Names of the state of one module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.update(node.names)
        if isinstance(node, ast.FunctionDef) and any(
                "cache" in ast.unparse(d) and "cached_property" not in ast.unparse(d) for d in node.decorator_list):
            found.add(node.name)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for t in targets:
            if isinstance(t, ast.Name) and not t.id.isupper() and t.id != "__all__" and node.value is not None:  # type: ignore[union-attr]
                if _is_state(tree, t.id, node.value):  # type: ignore[union-attr, arg-type]
                    found.add(t.id)
    return found


def all_state() -> set[tuple[str, str]]:
    """(path below `src`, name) of all state; the rooms' `testing` modules are left out."""
    found = set()
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        below = "/".join(path.relative_to(ROOT / "packages").parts[2:])  # packages/<room>/src/<below>
        if "testing" not in path.parts and path.name != "testing.py":
            found.update((below, name) for name in state_of(ast.parse(path.read_text())))
    return found


def main(argv: list[str] | None = None) -> int:
    for path, name in sorted(all_state()):
        print(path, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
