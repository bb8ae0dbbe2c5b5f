"""A release, without a release: the wheels of all packages, served by an index, installed as a user does."""
from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import page_steps
import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALL = "python -m pip install --quiet"
LOWER, UPPER = "lamina-tracing", "lamina-autodiff"
PROGRAM = """python -c '
from lamina_autodiff import grad, jvp
from lamina_tracing import jit, lax
f = lambda x: lax.mul(lax.sin(x), x)
print(round(float(jit(grad(f))(0.0)), 3), [round(float(y), 3) for y in jvp(f, (1.0,), (1.0,))])'"""


def versions(environment: Any, folder: Path) -> dict[str, str]:
    """Return the installed versions by name."""
    listed = json.loads(environment.run("python -m pip list --format json", folder))
    return {found["name"]: found["version"] for found in listed}


def test_readme_installs_from_a_clone(readme_output: list[str]) -> None:
    assert readme_output[-1] == "6.0\n"


def test_install_takes_the_newest_versions_in_the_ranges(user: Any, folder: Path) -> None:
    found = versions(user, folder)
    extra = {"lamina-checkpoint"}  # of `lamina[checkpoint]`
    assert {name for name in found if name.startswith("lamina")} == {
        path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")} - extra
    assert (found["lamina"], found[LOWER], found[UPPER]) == ("0.1.0", "0.1.0", "0.1.1")
    assert "jax" not in found


def test_readme_program_runs_outside_of_the_clone(user: Any, folder: Path) -> None:
    shutil.copy(ROOT / "README.md", folder)
    user.run("python -m doctest -o NORMALIZE_WHITESPACE README.md", folder)


def test_tutorial_installs_an_alternative_layer(user: Any, folder: Path) -> None:
    page = (ROOT / "docs" / "contributing" / "replacing-a-layer.md").read_text(encoding="utf-8")
    for path, text in page_steps.files(page).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for command in page_steps.commands(page):
        output = user.run(command.line, folder)
        assert not command.output or output == command.output, command.line


@pytest.fixture(scope="module")
def small(make_environment: Callable[[str], Any]) -> Any:
    """An environment for two packages that need no backend."""
    return make_environment("small_environment")


@pytest.mark.parametrize("lower, upper", [("0.1.0", "0.1.0"), ("0.1.0", "0.1.1"), ("0.1.0", "0.2.0"), ("0.2.0", "0.1.1"),
                                          ("0.2.0", "0.2.0")])
def test_sibling_packages_of_two_generations_work_together(small: Any, folder: Path, lower: str, upper: str) -> None:
    small.run(f"{INSTALL} {LOWER}=={lower} {UPPER}=={upper}", folder)
    found = versions(small, folder)
    assert (found["lamina-ir"], found[LOWER], found[UPPER]) == ("0.1.0", lower, upper)
    assert small.run(PROGRAM, folder) == "0.0 [0.841, 1.382]\n"


def test_excluded_sibling_package_is_refused_by_pip_and_at_import(small: Any, folder: Path) -> None:
    before = versions(small, folder)
    output = small.run(f"{INSTALL} {LOWER}==0.2.0 {UPPER}==0.1.0", folder, fails=True)
    assert "conflicting dependencies" in output and "ResolutionImpossible" in output
    assert versions(small, folder) == before
    small.run(f"{INSTALL} --no-deps {LOWER}==0.2.0 {UPPER}==0.1.0", folder)
    output = small.run(PROGRAM, folder, fails=True)
    assert f"ImportError: {UPPER} 0.1.0 needs {LOWER}>=0.1,<0.2, and {LOWER} 0.2.0 is installed" in output
    small.run(f"{INSTALL} --upgrade {UPPER}", folder)
    assert small.run(PROGRAM, folder) == "0.0 [0.841, 1.382]\n"
