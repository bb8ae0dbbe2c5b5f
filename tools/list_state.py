"""List the module-level state in the packages' sources: one line `module.py name` each.

usage: python tools/list_state.py

State is what a call may change: names declared `global`, functions with a cache, and module-level containers and objects that
are filled or changed later. Names in capitals are constants. docs/design/architecture.md describes owner, lifetime and bound
of each; tools/tests/test_list_state.py compares. No linter lists state.
"""
from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONTAINERS = {"OrderedDict", "count", "defaultdict", "deque", "dict", "list", "local", "lru_cache", "set"}
# Classes whose objects do not change.
IMMUTABLE = {"Distribution", "GatherDimensionNumbers", "Law", "Lock", "Option", "ParamSpec", "Primitive", "PyTreeDef",
             "RLock", "RegionSignature", "ScatterDimensionNumbers", "SimpleNamespace", "Struct", "TypeVar"}
MUTATORS = {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault",
            "update"}


def is_changed(tree: ast.Module, name: str) -> bool:
    """Return whether a module changes the object that one of its names is bound to."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=found), ctx=ast.Store() | ast.Del()) if found == name:
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=found), attr=method)) if found == name and method in MUTATORS:
                return True
    return False


def is_state(tree: ast.Module, name: str, value: ast.expr) -> bool:
    """Return whether a module-level name with this initial value is state."""
    if isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp):
        is_empty = not getattr(value, "elts", getattr(value, "keys", True))
        return is_empty or is_changed(tree, name)
    if isinstance(value, ast.Call):
        called = ast.unparse(value.func)
        last = called.split(".")[-1].lstrip("_")
        return "lru_cache" in called or last in CONTAINERS or last[:1].isupper() and last not in IMMUTABLE
    return False


def state_of(tree: ast.Module) -> set[str]:
    """Return the names of the state of one module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
            found.update([node.name] if any("cache" in d and "cached_property" not in d for d in decorators) else [])
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and not target.id.isupper() and target.id != "__all__":
                    found.update([target.id] if is_state(tree, target.id, node.value) else [])
    return found


def all_state() -> set[tuple[str, str]]:
    """Return (path below `src`, name) of all state, except in `testing` modules."""
    paths = [path for path in sorted(ROOT.glob("packages/*/src/**/*.py")) if {"testing", "testing.py"}.isdisjoint(path.parts)]
    return {("/".join(path.relative_to(ROOT).parts[3:]), name) for path in paths
            for name in state_of(ast.parse(path.read_text(encoding="utf-8")))}


if __name__ == "__main__":
    for module, name in sorted(all_state()):
        print(module, name)
