"""Check how packages use each other; print one line for each violation.

usage: python tools/check_imports.py

- A package, its conformance tests and the distributions in examples/ use another package through names in the `__all__` of its
  root and through `extend` and `testing`; the distributions also through `_default`. They touch no private attribute that only
  another package defines.
- The umbrella package only re-exports names.
- A package's README lists all of its modules.
- A source folder has at most 24 Python files.

import-linter (layers, cycles, forbidden modules) and deptry (declared dependencies) see which modules are imported, not which
names; mypy and ruff accept any name that exists.
"""
from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from packages import ROOT, UMBRELLA, Package, alternative_layers, example_distributions, packages

# Underscored names that packages share: attributes of tracers, which must not hide those of arrays; a method that jaxlib calls;
# attributes of every NamedTuple.
SHARED = ("_trace", "_var", "_to_xla_hlo_sharding", "_fields", "_replace")
MOST_FILES = 24  # in a source folder
# Public modules that only the umbrella package shows, under other names.
PUBLIC_MODULES = ("lamina_checkpoint.array_serialization.pytree_serialization",
                  "lamina_checkpoint.array_serialization.serialization",
                  "lamina_checkpoint.array_serialization.tensorstore_impl",
                  "lamina_distributed.launch", "lamina_distributed.multihost_utils", "lamina_distributed.ray",
                  "lamina_numpy.flatten_util", "lamina_numpy.image", "lamina_numpy.ops", "lamina_numpy.special",
                  "lamina_nn.initializers", "lamina_nn.optimizers", "lamina_nn.rnn", "lamina_nn.stax", "lamina_scipy.cluster",
                  "lamina_scipy.ode", "lamina_scipy.sparse", "lamina_scipy.spatial", "lamina_scipy.stats",
                  "lamina_tracing.lax.factorizations")


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(tree: ast.AST) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield (line, module, names) of each absolute import, and of each `module.name` of a module imported as a whole."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
                modules[alias.asname or alias.name.split(".")[0]] = alias.name if alias.asname else alias.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module, tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and re.fullmatch(r"(importlib\.)?import_module|__import__", ast.unparse(node.func)):
            if isinstance(node.args[0], ast.Constant):
                yield node.lineno, str(node.args[0].value), ()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield node.lineno, modules[node.value.id], (node.attr,)


def exported(package: Package) -> set[str] | None:
    """Return the names in the `__all__` of a package, as far as they are literals; None without `__all__`."""
    source = next(path for name in ("_default", "__init__") if (path := package.source / f"{name}.py").exists())
    for node in parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return None


def is_public(names: set[str] | None, module: str, imported: str) -> bool:
    """Return whether other packages may use `imported` from `module`; `names` is what the package exports."""
    first, *rest = [*module.split(".")[1:], imported]
    if any(part.startswith("_") and not part.startswith("__") for part in (first, *rest)):
        return False
    dotted = f"{module}.{imported}."
    if names is None or any(dotted.startswith(f"{m}.") or f"{m}.".startswith(dotted) for m in PUBLIC_MODULES):
        return True
    return (first in ("extend", "testing", "typing", "*") or first.startswith("__")
            or first in names and len(rest) <= 1)


def check_names(user: Package, known: dict[str, Package], root: Path) -> Iterator[str]:
    """Yield the uses of names of another package that are not public."""
    public = {package.module: exported(package) for package in known.values()}
    for path in sorted((user.folder / "src").rglob("*.py")):
        is_test = path.parent.name == "conformance"
        for line, module, names in imports(parse(path)):
            package = module.split(".")[0]
            own = package == user.module
            of_plugin = user.module not in public and module == f"{package}._default"
            if package not in public or of_plugin or own and (not is_test or module.split(".")[1:2] == ["conformance"]):
                continue
            for name in names or ("*",):
                # The checks in a package's `testing` are about its default implementation; a conformance test is not.
                of_default = own and package != "lamina_ir" and "testing" in (*module.split("."), name)
                if of_default or not is_public(public[package], module, name):
                    yield (f"{path.relative_to(root)}:{line}: {module}.{name} is not public; use names of {package}, "
                           f"{package}.extend, {package}.testing or {package}.typing")


def check_attributes(users: list[Package], root: Path) -> Iterator[str]:
    """Yield the uses of a private attribute, `x._name`, that other packages define and this one does not."""
    defined: dict[str, set[str]] = {}
    used: list[tuple[str, Path, int, str]] = []
    for package in users:
        for path in sorted((package.folder / "src").rglob("*.py")):
            looked_up: set[ast.AST] = set()  # names in calls of `getattr`, which do not define an attribute
            for node in ast.walk(parse(path)):
                names: list[str] = []
                match node:
                    case ast.FunctionDef() | ast.ClassDef():
                        names = [node.name]
                    case ast.Import() | ast.ImportFrom():
                        names = [alias.asname or alias.name for alias in node.names]
                    case ast.Name(ctx=ast.Store()):
                        names = [node.id]
                    case ast.Attribute():
                        names = [node.attr] if isinstance(node.ctx, ast.Store) else []
                        used.append((package.name, path, node.lineno, node.attr))
                    case ast.Call(func=ast.Name("getattr" | "hasattr"), args=[_, ast.Constant(), *_]):
                        used.append((package.name, path, node.lineno, str(node.args[1].value)))  # type: ignore[attr-defined]
                        looked_up.add(node.args[1])
                    case ast.Constant(value=str()) if node not in looked_up:
                        names = [str(node.value)]  # an entry of `__slots__`, or the name in a call of `setattr`
                for name in names:
                    if name.startswith("_") and not name.startswith("__"):
                        defined.setdefault(name, set()).add(package.name)
    for user, path, line, name in used:
        if user not in defined.get(name, {user}) and name not in SHARED:
            yield f"{path.relative_to(root)}:{line}: {name} is a private attribute of {', '.join(sorted(defined[name]))}"


def check_umbrella(package: Package, root: Path) -> Iterator[str]:
    """Yield the statements of the umbrella package that do more than re-export names, lazily or for type checkers."""
    allowed = re.compile(r"from |import |__\w+__|[\w.\[\]]+(: [\w.\[\], ]+)?( = |$)|del |['\"]|_needs\(|"
                         r"_explain_absent_names\(|if (not )?_typing.TYPE_CHECKING:|def __(getattr|dir)__\(|"
                         r"if __name__ == '__main__':\n    raise SystemExit\(main\(\)\)$")
    for path in sorted((package.folder / "src").rglob("*.py")):
        for node in parse(path).body:
            if not allowed.match(ast.unparse(node)):
                yield f"{path.relative_to(root)}:{node.lineno}: the umbrella package only re-exports; move this into a package"


def check_readme(package: Package, root: Path) -> Iterator[str]:
    """Yield the modules of a package that its README does not list, as `module.py` or by folder."""
    text = (package.folder / "README.md").read_text(encoding="utf-8")
    for path in sorted(package.source.rglob("*.py")):
        inner = path.relative_to(package.source)
        listed = f"`{inner}`" in text or any(f"`{parent}/" in text for parent in inner.parents)
        if path.name not in ("__init__.py", "_version.py") and not listed:
            yield f"{path.relative_to(root)}: missing in the table of files of {package.name}'s README"


def check_folder_sizes(package: Package, root: Path) -> Iterator[str]:
    """Yield the source folders of a package with too many Python files to read as one list."""
    folders = Counter(path.parent for path in package.source.rglob("*.py"))
    for folder, number in sorted(folders.items()):
        if number > MOST_FILES:
            yield f"{folder.relative_to(root)}: {number} Python files; at most {MOST_FILES}: group some of them in a folder"


def check(root: Path) -> list[str]:
    """Return every violation in a checkout."""
    known = packages(root)
    users = [*known.values(), *example_distributions(root).values(), *alternative_layers(root).values()]
    found = [line for user in users for line in check_names(user, known, root)]
    found += [line for name, package in known.items() if name != UMBRELLA for line in check_readme(package, root)]
    found += [line for package in known.values() for line in check_folder_sizes(package, root)]
    return [*found, *check_attributes(users, root), *check_umbrella(known[UMBRELLA], root)]


def main() -> int:
    found = check(ROOT)
    print("\n".join(found) or "imports: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
