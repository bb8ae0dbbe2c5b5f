"""Settings of the repository that name every package."""
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
