"""Checks the walls that import-linter cannot see; prints one line per breach.

usage: python tools/check_walls.py [--root FOLDER]

- every package folder is in the import-linter contract, and the contract names no other;
- a package declares exactly the distributions that its source imports (the roof: all rooms);
- a room reaches another one through its root, the namespaces in its root's `__all__`, `extend` and `testing` alone, and
  for no private name, and touches no private attribute that only another room defines;
- the tests in a room's `contract/` are strangers to their own room too, and use none of its checks, which are those of the
  stock; they may import what the package's extra `contract` declares;
- a distribution under `examples/` is a stranger: it declares what it imports, and uses the same doors;
- jaxlib is imported only in `_jaxlib.py` of lowering and runtime (and in those two rooms' tests); `jax` nowhere;
- the roof holds names only: imports, `__all__`, lazy attributes;
- every module of a room is named in the table of files in its README.
"""
from __future__ import annotations

import argparse
import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JAXLIB_DOORS = {"lamina_lowering/_jaxlib.py", "lamina_runtime/_jaxlib.py"}
MACHINE_ROOMS = ("lamina-lowering", "lamina-runtime")
ROOF = "lamina"
# names with an underscore that are public between rooms: tracers are arrays to their users, so their own attributes must
# not hide those of arrays; jaxlib asks shardings for the third; Python gives the last to every NamedTuple
UNDERSCORED = ("_trace", "_var", "_to_xla_hlo_sharding", "_fields")
# public modules that no root lists: the roof shows them under other names
NAMESPACES = ("lamina_numpy.flatten_util", "lamina_numpy.image", "lamina_numpy.ops",
              "lamina_numpy.special", "lamina_nn.initializers", "lamina_nn.optimizers", "lamina_nn.rnn", "lamina_nn.stax",
              "lamina_scipy.cluster", "lamina_scipy.ode", "lamina_scipy.sparse", "lamina_scipy.spatial", "lamina_scipy.stats",
              "lamina_tracing.lax.factorizations")


def imports(path: Path) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """(line, module, names) of each absolute import in a file, wherever in the file it stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module, tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in (
                "import_module", "importlib.import_module", "__import__"):
            name = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
            if isinstance(name, ast.Constant) and not str(name.value).startswith(".") and (
                    name is node.args[0] or "." in str(name.value)):
                yield node.lineno, str(name.value).rstrip("."), ()


def distribution(requirement: str) -> str:
    """`ml_dtypes>=0.5` -> `ml-dtypes`."""
    return re.split(r"[\s<>=!~;\[]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def in_contract(path: Path) -> bool:
    """Whether a file is one of the tests that say what a layer means."""
    return path.parent.name == "contract"


def contract_breaches(root: Path, folders: list[Path]) -> Iterator[str]:
    """Packages that the import-linter contract forgets, or names that have no package."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layered = {name for contract in settings["contracts"] if contract["type"] == "layers" and "containers" not in contract
               for layer in contract["layers"] for name in re.findall(r"\w+", layer)}
    existing = {folder.name.replace("-", "_") for folder in folders}
    for where, names in (("root_packages", set(settings["root_packages"])), ("layers", layered)):
        for name in sorted(existing - names):
            yield f"pyproject.toml: {name} is missing from import-linter's {where}"
        for name in sorted(names - existing):
            yield f"pyproject.toml: import-linter's {where} names {name}, which has no folder under packages/"


def dependency_breaches(root: Path, folder: Path) -> Iterator[str]:
    """Declared dependencies beside the real imports of one package."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if project["name"] != folder.name:
        yield f"{folder.relative_to(root)}: the folder's name and the project's name {project['name']!r} differ"
    declared = {distribution(line) for line in project.get("dependencies", ())}
    extra = {distribution(line) for line in project.get("optional-dependencies", {}).get("contract", ())}
    own = folder.name.replace("-", "_")
    used: dict[str, str] = {}
    for path in sorted((folder / "src").rglob("*.py")):
        for line, module, _ in imports(path):
            top = module.split(".")[0]
            name = top.lower().replace("_", "-")
            if top != own and top not in sys.stdlib_module_names and not (in_contract(path) and name in extra):
                used.setdefault(name, f"{path.relative_to(root)}:{line}")
    for name in sorted(set(used) - declared):
        yield f"{used[name]}: imports {name}, which {folder.name} does not declare"
    for name in sorted(declared - set(used)):
        if folder.name == ROOF and name.startswith("lamina-"):
            continue  # the roof says which versions of all rooms belong together
        yield f"{folder.relative_to(root)}/pyproject.toml: declares {name}, which its source never imports"


@functools.cache
def exported(root: Path, room: str) -> set[str] | None:
    """The names in a room's `__all__`, as far as they are written out; None where there is no such list."""
    source = root / "packages" / room.replace("_", "-") / "src" / room / "stock.py"
    source = source if source.exists() else source.with_name("__init__.py")
    for node in ast.parse(source.read_text(encoding="utf-8")).body if source.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return None


def public(root: Path, room: str, inner: list[str], names: tuple[str, ...]) -> bool:
    """Whether an import of `names` from `room.inner` goes through a door."""
    listed = exported(root, room)
    if listed is None or any(f"{'.'.join([room, *inner])}.".startswith(f"{n}.") for n in NAMESPACES):
        return True
    doors = listed | {"extend", "testing", "stock", "*", "__all__", "__version__"}
    if not inner:
        return doors >= set(names)
    return inner[0] in ("extend", "testing", "stock") or (len(inner) == 1 and inner[0] in doors)


def private_breaches(root: Path, folder: Path) -> Iterator[str]:
    """Imports of another room's underscored modules or names."""
    own = folder.name.replace("-", "_")
    for path in sorted((folder / "src").rglob("*.py")):
        for line, module, names in imports(path):
            top, *inner = module.split(".")
            if not re.fullmatch(r"lamina(_\w+)?", top) or top == own and (not in_contract(path) or inner[:1] == ["contract"]):
                continue
            own_checks = top == own != "lamina_ir" and "testing" in (*inner, *names)
            if own_checks or not public(root, top, inner, names):
                what = ".".join([*inner, ", ".join(names)]).strip(".")
                yield f"{path.relative_to(root)}:{line}: reaches into {top}: {what} is no name of its root, extend or testing"
            private = [name for name in (*inner, *names) if name.startswith("_") and not name.startswith("__")]
            if private:
                yield f"{path.relative_to(root)}:{line}: reaches for {top}'s private {', '.join(private)}"
        for line, top, name in attributes_of_rooms(path):
            if (top != own or in_contract(path)) and not name.startswith("__") and not public(root, top, [], (name,)) and (
                    f"{top}.{name}" not in {".".join(n.split(".")[:2]) for n in NAMESPACES}):
                yield f"{path.relative_to(root)}:{line}: reaches into {top}: {name} is no name of its root, extend or testing"


def attributes_of_rooms(path: Path) -> Iterator[tuple[int, str, str]]:
    """(line, room, name) of each `room.name` in a file, where the room is imported as a whole."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    rooms = {alias.asname or alias.name.split(".")[0]: alias.name.split(".")[0] for node in ast.walk(tree)
             if isinstance(node, ast.Import) for alias in node.names
             if re.fullmatch(r"lamina(_\w+)?", alias.name if alias.asname else alias.name.split(".")[0])}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in rooms:
            yield node.lineno, rooms[node.value.id], node.attr


def attribute_breaches(root: Path, folders: list[Path]) -> Iterator[str]:
    """Touches of a private attribute, `x._name`, that other rooms define and this one does not."""
    homes: dict[str, set[str]] = {}
    touches: list[tuple[str, Path, int, str]] = []
    asked: set[ast.AST] = set()  # names in calls of `getattr`, which make nothing; a call is walked before what is in it
    for folder in folders:
        for path in sorted((folder / "src").rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                made: list[str] = []
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    made = [node.name]
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    made = [alias.asname or alias.name for alias in node.names]
                elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in asked:
                    made = [node.value]  # a slot, or the name in a call of `setattr`
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    made = [node.id]
                elif isinstance(node, ast.Attribute):
                    made = [node.attr] if isinstance(node.ctx, ast.Store) else []
                    touches.append((folder.name, path, node.lineno, node.attr))
                elif (isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr") and len(node.args) > 1
                      and isinstance(node.args[1], ast.Constant)):
                    touches.append((folder.name, path, node.lineno, str(node.args[1].value)))
                    asked.add(node.args[1])
                for name in made:
                    if name.startswith("_") and not name.startswith("__"):
                        homes.setdefault(name, set()).add(folder.name)
    for room, path, line, name in touches:
        if name in homes and room not in homes[name] and name not in UNDERSCORED:
            yield f"{path.relative_to(root)}:{line}: touches the private attribute {name} of {', '.join(sorted(homes[name]))}"


def jaxlib_breaches(root: Path) -> Iterator[str]:
    """Imports of jaxlib outside its two doors, and of jax anywhere."""
    places = [*root.glob("packages/*/src/**/*.py"), *root.glob("packages/*/tests/**/*.py"), *root.glob("tests/**/*.py"),
              *root.glob("examples/**/*.py"), *root.glob("tools/**/*.py")]
    for path in sorted(places):
        where = path.relative_to(root)
        is_door = "/".join(where.parts[-2:]) in JAXLIB_DOORS
        machine_test = where.parts[0] == "packages" and where.parts[1] in MACHINE_ROOMS and where.parts[2] == "tests"
        for line, module, _ in imports(path):
            top = module.split(".")[0]
            if top == "jax":
                yield f"{where}:{line}: imports jax, which is never a dependency"
            elif top == "jaxlib" and not (is_door or machine_test):
                yield f"{where}:{line}: imports jaxlib; only {' and '.join(sorted(JAXLIB_DOORS))} may"


def roof_breaches(root: Path) -> Iterator[str]:
    """Anything in the roof's source that is more than a name: functions (lazy attributes apart), classes, loops. Names that are
    fetched when asked for are imported for type checkers, from which `__getattr__` may be hidden, and a room's `main` may be
    run under the roof's name."""
    for path in sorted((root / "packages" / ROOF / "src").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            hidden = isinstance(node, ast.If) and ast.unparse(node.test) == "not _typing.TYPE_CHECKING" and len(node.body) == 1
            function = node.body[0] if hidden else node
            lazy = isinstance(function, ast.FunctionDef) and function.name in ("__getattr__", "__dir__")
            text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            names = isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign | ast.Delete)
            versions = path.name == "_version.py" and isinstance(node, ast.Expr) and ast.unparse(node).startswith("_needs(")
            program = ast.unparse(node) == "if __name__ == '__main__':\n    raise SystemExit(main())"
            typed = isinstance(node, ast.If) and ast.unparse(node.test) == "_typing.TYPE_CHECKING" and not node.orelse and all(
                isinstance(inner, ast.Import | ast.ImportFrom) for inner in node.body)
            if not (lazy or text or names or typed or versions or program):
                yield f"{path.relative_to(root)}:{node.lineno}: the roof only re-exports; move this into a room"


def readme_breaches(root: Path, folder: Path) -> Iterator[str]:
    """Modules of a room that its README does not name, by file or by folder."""
    source = folder / "src" / folder.name.replace("-", "_")
    text = (folder / "README.md").read_text(encoding="utf-8") if (folder / "README.md").exists() else ""
    for path in sorted(source.rglob("*.py")):
        where = path.relative_to(source)
        named = f"`{where}`" in text or any(f"`{parent}/" in text for parent in where.parents)
        if where.name not in ("__init__.py", "_version.py") and not named:
            yield f"{path.relative_to(root)}: is missing from the table of files in {folder.name}'s README"


def breaches(root: Path) -> list[str]:
    """Every breach in the house at `root`."""
    folders = sorted(path.parent for path in root.glob("packages/*/pyproject.toml"))
    found = [f"packages/{path.name}: has no pyproject.toml" for path in sorted(root.glob("packages/*"))
             if path.is_dir() and path not in folders and not path.name.startswith(".")]
    found += contract_breaches(root, folders)
    for folder in folders:
        found += dependency_breaches(root, folder)
        found += private_breaches(root, folder)
        found += readme_breaches(root, folder) if folder.name != ROOF else ()
    guests = sorted(path.parent for path in root.glob("examples/*/pyproject.toml"))
    for folder in guests:
        found += dependency_breaches(root, folder)
        found += private_breaches(root, folder)
    found += attribute_breaches(root, [*folders, *guests])
    found += jaxlib_breaches(root)
    found += roof_breaches(root)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    found = breaches(parser.parse_args(argv).root.resolve())
    print("\n".join(found) or "walls: all stand")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
