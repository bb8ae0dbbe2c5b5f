"""Run the conformance tests of layers, on the default implementations or on one that need not be installed.

usage: python tools/run_conformance.py [package ... | package PATH] [pytest arguments]

Without a package, all conformance tests run on the default implementations. PATH is the folder of a distribution (its
pyproject.toml declares the implementation in the entry point group `lamina.layers`), the folder of a package, or a module. An
implementation of lamina-ir keeps that import name: PATH is the folder of its distribution, or its `src`.

`python -m lamina_x.conformance` runs the tests of one layer; this program finds the module at a path, and runs all layers.
"""
from __future__ import annotations

import os
import sys
import tomllib
from functools import partial
from pathlib import Path

import run_tests
from lamina_ir.testing.conformance import command_for

ROOT = Path(__file__).resolve().parent.parent
GROUP = "lamina.layers"
FOLDERS = {path.parents[3].name: path.parent for path in sorted(ROOT.glob("packages/*/src/*/conformance/__main__.py"))}


def find_implementation(layer: str, path: Path) -> tuple[str, Path]:
    """Return the module of the implementation of a layer at `path`, and the folder to put on the import path.

    Raises:
      SystemExit: there is none; the message says what is expected.
    """
    if path.suffix == ".py" and path.is_file():
        return path.stem, path.parent
    settings = path / "pyproject.toml"
    project = tomllib.loads(settings.read_text(encoding="utf-8")).get("project", {}) if settings.exists() else {}
    if layer in (declared := project.get("entry-points", {}).get(GROUP, {})):
        return declared[layer], path / "src" if (path / "src").is_dir() else path
    if (path / "__init__.py").exists():
        return path.name, path.parent
    raise SystemExit(f"run_conformance: no implementation of `{layer}` at {path}; expected a module, a package's folder or a "
                     f'distribution whose pyproject.toml has [project.entry-points."{GROUP}"] {layer} = "name_of_its_module"')


def command(package: str, path: Path | None, arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs the conformance tests of a package, and its environment variables."""
    module = package.replace("-", "_")
    layer = module.removeprefix("lamina_")
    run = [sys.executable, "-m", f"{module}.conformance", *arguments]
    if path is None:
        return run, {"LAMINA_LAYERS": ""}
    if layer != "ir":
        implementation, folder = find_implementation(layer, path)
        chosen = {"LAMINA_LAYERS": f"{layer}={implementation}"}
    else:
        folder, chosen = path / "src" if (path / "src").is_dir() else path, {}
        if not (folder / "lamina_ir").is_dir():
            raise SystemExit(f"run_conformance: no package lamina_ir in {folder}; implementations of lamina-ir keep that name")
        run = command_for(FOLDERS[package], arguments)
    return run, {**chosen, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def main(argv: list[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    packages = []
    while arguments and arguments[0].startswith("lamina-"):
        packages.append(arguments.pop(0))
    if unknown := sorted(set(packages) - set(FOLDERS)):
        raise SystemExit(f"run_conformance: no conformance tests for {', '.join(unknown)}; expected {', '.join(FOLDERS)}")
    path = Path(arguments.pop(0)).resolve() if len(packages) == 1 and arguments and not arguments[0].startswith("-") else None
    jobs = {}
    for package in packages or FOLDERS:
        run, environment = command(package, path, arguments or ["-q"])
        jobs[f"{package} conformance"] = partial(run_tests.run, run, **environment)
    return run_tests.run_all(jobs, min(os.cpu_count() or 1, 4))


if __name__ == "__main__":
    sys.exit(main())
