"""Wheels: one per package, with sources, marker of types and licence, and the declared dependencies."""
from __future__ import annotations

import zipfile
from pathlib import Path

import build_wheels
import pytest
import run_isolated


def test_packages_are_the_rooms() -> None:
    assert {"lamina", "lamina-ir", "lamina-tracing", "lamina-runtime"} <= set(build_wheels.packages())


def test_pattern_of_the_roof_does_not_catch_a_room(tmp_path: Path) -> None:
    for name in ("lamina-0.1.0-py3-none-any.whl", "lamina_ir-0.1.0-py3-none-any.whl"):
        (tmp_path / name).touch()
    found = [path.name for path in tmp_path.glob(build_wheels.wheel_pattern("lamina"))]
    assert found == ["lamina-0.1.0-py3-none-any.whl"]


@pytest.mark.parametrize("package", ["lamina-ir", "lamina"])
def test_a_wheel_holds_sources_types_marker_and_licence(package: str, tmp_path: Path) -> None:
    module = package.replace("-", "_")
    with zipfile.ZipFile(build_wheels.build(package, tmp_path)) as wheel:
        names = wheel.namelist()
    assert {f"{module}/__init__.py", f"{module}/_version.py", f"{module}/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any("tests" in name for name in names)


def test_an_unknown_package_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build_wheels.main(["lamina-nothing"])
    assert "no package lamina-nothing" in capsys.readouterr().err


def test_requirements_leave_our_own_packages_out() -> None:
    names = run_isolated.requirements("lamina-runtime")
    assert any(name.startswith("jaxlib") for name in names)
    assert not any(name.startswith("lamina") for name in names)
    assert not any(name.startswith("jaxlib") for name in run_isolated.requirements("lamina-autodiff"))


def test_one_package_alone_stands_on_those_below_it() -> None:
    assert run_isolated.with_those_below(["lamina-tracing"]) == ["lamina-ir", "lamina-tracing"]
    assert {"lamina", "lamina-ir", "outside"} <= set(run_isolated.with_those_below(["outside"]))  # its tests want the roof
