"""Runs the contracts: what each layer means, tried on the stock rooms or on a stand-in that need not be installed.

usage: python tools/try_contract.py [package ... | package PATH] [pytest arguments]

Without a package all contracts are run on the stock. PATH is the folder of a stand-in's distribution (its `pyproject.toml`
declares it in the group `lamina.layers`), the folder of its package, or one module. A stand-in for lamina-ir is a fork
with its import name: PATH is the folder of its distribution, or its `src`.
"""
from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lamina_ir.testing.contracts import command_for

ROOT = Path(__file__).resolve().parent.parent
GROUP = "lamina.layers"


def contracts() -> list[str]:
    """The packages that have a contract."""
    return sorted(path.parents[3].name for path in ROOT.glob("packages/*/src/*/contract/__main__.py"))


def declared(folder: Path, layer: str) -> str | None:
    """The module that a distribution declares for a layer."""
    settings = folder / "pyproject.toml"
    project = tomllib.loads(settings.read_text(encoding="utf-8")).get("project", {}) if settings.exists() else {}
    found = project.get("entry-points", {}).get(GROUP, {}).get(layer)
    return found if found is None else str(found)


def stand_in(layer: str, path: Path) -> tuple[str, Path]:
    """(module, folder to put on the path) of the stand-in at `path`."""
    if path.suffix == ".py" and path.is_file():
        return path.stem, path.parent
    if not path.is_dir():
        raise SystemExit(f"try_contract: there is no stand-in at {path}; expected the folder of its distribution, that of its "
                         "package, or a module")
    module = declared(path, layer)
    if module is not None:
        return module, path / "src" if (path / "src").is_dir() else path
    if (path / "__init__.py").exists():
        return path.name, path.parent
    raise SystemExit(f"try_contract: {path} declares nothing for the layer `{layer}`; expected in its pyproject.toml "
                     f'[project.entry-points."{GROUP}"] {layer} = "name_of_its_module"')


def command(package: str, path: Path | None, rest: list[str]) -> tuple[list[str], dict[str, str]]:
    """(program, environment) that tries one contract."""
    room = package.replace("-", "_")
    layer = room.removeprefix("lamina_")
    environment = dict(os.environ)
    run = [sys.executable, "-m", f"{room}.contract", *rest]
    if path is None:
        environment["LAMINA_LAYERS"] = ""
        return run, environment
    if layer == "ir":
        module, folder = "lamina_ir", path / "src" if (path / "src").is_dir() else path
        if not (folder / "lamina_ir").is_dir():
            raise SystemExit(f"try_contract: there is no package lamina_ir in {folder}; a fork of lamina-ir keeps that name")
        run = command_for(ROOT / "packages/lamina-ir/src/lamina_ir/contract", rest)  # our tests, its `lamina_ir`
    else:
        module, folder = stand_in(layer, path)
        environment["LAMINA_LAYERS"] = f"{layer}={module}"
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [environment.get("PYTHONPATH")])])
    return run, environment


def output_of(run: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """(exit status, output) of a program."""
    done = subprocess.run(run, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def main(argv: list[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    known = contracts()
    packages = []
    while argv and argv[0].startswith("lamina-"):
        packages.append(argv.pop(0))
    unknown = [package for package in packages if package not in known]
    if unknown:
        raise SystemExit(f"try_contract: {', '.join(unknown)} has no contract; there are those of {', '.join(known)}")
    path = Path(argv.pop(0)).resolve() if len(packages) == 1 and argv and not argv[0].startswith("-") else None
    failed = []
    todo = {package: command(package, path, argv or ["-q"]) for package in packages or known}
    if len(todo) == 1:
        failed = [package for package, (run, environment) in todo.items() if subprocess.run(run, env=environment).returncode]
    else:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, 4)) as pool:
            waiting = {package: pool.submit(output_of, *what) for package, what in todo.items()}
            for package, job in waiting.items():
                status, output = job.result()
                print(output, end="", flush=True)
                failed += [package] if status else []
    print(f"contracts: {', '.join(failed)} not kept" if failed else f"contracts: {len(packages or known)} kept", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
