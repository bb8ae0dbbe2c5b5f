"""Settings of the repository that name every package."""
import re
import tomllib

from packages import ROOT, packages

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
MODULES = {package.module for package in packages().values()}


def test_import_contracts_name_every_package() -> None:
    settings = SETTINGS["importlinter"]
    assert set(settings["root_packages"]) == MODULES
    layers, _, cycles, *_ = settings["contracts"]
    assert {name for layer in layers["layers"] for name in layer.split(" | ")} == MODULES
    assert {*cycles["ancestors"], "lamina"} == MODULES


def test_mypy_path_names_every_package() -> None:
    assert set(SETTINGS["mypy"]["mypy_path"]) == {f"packages/{p.name}/src" for p in packages().values()}


def test_extras_in_the_docs_exist() -> None:
    pages = [path for glob in ("README.md", "docs/*/*.md", "packages/*/README.md", "packages/*/src/**/*.py")
             for path in ROOT.glob(glob)]
    named = {found for page in pages for found in re.findall(r"\b(lamina(?:-\w+)?)\[([\w,]+)\]", page.read_text("utf-8"))}
    extras = {name: package.settings["project"].get("optional-dependencies", ()) for name, package in packages().items()}
    assert ("lamina-ir", "conformance") in named
    assert {(name, extra) for name, listed in named for extra in listed.split(",") if extra not in extras[name]} == set()
