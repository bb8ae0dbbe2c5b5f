"""Each wall: a small house that breaks it, and the real one that does not."""
from __future__ import annotations

from pathlib import Path

import check_walls
import pytest

PYPROJECT = """
[tool.importlinter]
root_packages = ["lamina", "lamina_ir", "lamina_numpy"]
[[tool.importlinter.contracts]]
name = "down"
type = "layers"
layers = ["lamina", "lamina_numpy", "lamina_ir"]
"""
SOURCES = {"lamina": "from lamina_numpy import sin\nfrom lamina_ir import shaped\n",
           "lamina-numpy": "import numpy\nfrom lamina_ir import shaped\n", "lamina-ir": "import numpy\n"}
DEPENDENCIES = {"lamina": '"lamina-ir", "lamina-numpy>=0.1"', "lamina-numpy": '"numpy", "lamina-ir"',
                "lamina-ir": '"numpy"'}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    for name, source in SOURCES.items():
        folder = tmp_path / "packages" / name / "src" / name.replace("-", "_")
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(source)
        (tmp_path / "packages" / name / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\ndependencies = [{DEPENDENCIES[name]}]\n')
    return tmp_path


def room(house: Path, name: str) -> Path:
    return house / "packages" / name / "src" / name.replace("-", "_") / "__init__.py"


def only_breach(house: Path) -> str:
    found = check_walls.breaches(house)
    assert len(found) == 1, found
    return found[0]


def test_a_sound_house_has_no_breach(house: Path) -> None:
    assert check_walls.breaches(house) == []


def test_a_folder_that_the_contract_forgets_is_named(house: Path) -> None:
    folder = house / "packages" / "lamina-nn"
    folder.mkdir()
    (folder / "pyproject.toml").write_text('[project]\nname = "lamina-nn"\n')
    assert any("lamina_nn is missing from import-linter's layers" in line for line in check_walls.breaches(house))


def test_a_layer_without_a_folder_is_named(house: Path) -> None:
    more = PYPROJECT.replace('layers = ["lamina",', 'layers = ["lamina", "lamina_gone",')
    (house / "pyproject.toml").write_text(more)
    assert "layers names lamina_gone" in only_breach(house)


def test_layers_inside_a_room_are_no_rooms(house: Path) -> None:
    inside = '[[tool.importlinter.contracts]]\nname = "in"\ntype = "layers"\ncontainers = ["lamina_ir"]\nlayers = ["_low"]\n'
    (house / "pyproject.toml").write_text(PYPROJECT + inside)
    assert check_walls.breaches(house) == []


def test_a_module_that_the_readme_forgets_is_named(house: Path) -> None:
    (house / "packages" / "lamina-ir" / "README.md").write_text("| `known.py`, `rules/<family>.py` | facts |\n")
    folder = room(house, "lamina-ir").parent
    (folder / "rules").mkdir()
    for name in ("known.py", "rules/shape.py", "_version.py", "forgotten.py"):
        (folder / name).write_text("")
    assert only_breach(house).startswith("packages/lamina-ir/src/lamina_ir/forgotten.py: is missing from the table")


def test_an_undeclared_import_is_named_with_its_line(house: Path) -> None:
    room(house, "lamina-ir").write_text("import numpy\n\ndef f():\n    import ml_dtypes\n")
    assert "lamina_ir/__init__.py:4: imports ml-dtypes, which lamina-ir does not declare" in only_breach(house)


def test_a_dependency_that_is_never_imported_is_named(house: Path) -> None:
    room(house, "lamina-ir").write_text("import sys\n")
    assert "declares numpy, which its source never imports" in only_breach(house)


@pytest.mark.parametrize("line", ["from lamina_ir._trees import flatten", "from lamina_ir import _trees",
                                  "import lamina_ir._trees"])
def test_a_reach_for_a_private_name_is_named(house: Path, line: str) -> None:
    room(house, "lamina-numpy").write_text(f"import numpy\n{line}\n")
    assert "reaches for lamina_ir's private _trees" in only_breach(house)


def test_jaxlib_and_jax_are_kept_out(house: Path) -> None:
    tests = house / "packages" / "lamina-ir" / "tests"
    tests.mkdir()
    (tests / "test_x.py").write_text("import jaxlib\nfrom jax import numpy\nimport_module(f'jaxlib.{name}')\n")
    found = [line.split(": ", 1)[1][:14] for line in check_walls.breaches(house)]
    assert found == ["imports jaxlib", "imports jax, w", "imports jaxlib"]


def test_the_roof_holds_names_only(house: Path) -> None:
    room(house, "lamina").write_text(SOURCES["lamina"] + "\ndef helper():\n    return 1\n")
    assert "the roof only re-exports" in only_breach(house)
    room(house, "lamina").write_text(SOURCES["lamina"] + "\nif __name__ == '__main__':\n    raise SystemExit(main())\n")
    assert not check_walls.breaches(house)


@pytest.mark.slow
def test_the_real_house_stands() -> None:
    assert check_walls.breaches(check_walls.ROOT) == []


@pytest.mark.parametrize("source, words", [
    ("from lamina_ir.program import Var\n", "reaches into lamina_ir: program.Var is no name"),
    ("from lamina_ir import program\n", "reaches into lamina_ir: program is no name"),
    ("import lamina_ir.program\n", "reaches into lamina_ir: program is no name"),
    ("import lamina_ir\nx = lamina_ir.shaped, lamina_ir.extend.y, lamina_ir.program.Var\n", "lamina_ir: program is no name"),
    ("import lamina_ir as ir\nx = ir.shaped, ir.testing, ir.program.Var\n", "reaches into lamina_ir: program is no name"),
    ("x = __import__('lamina_ir.program')\n", "reaches into lamina_ir: program is no name"),
    ("from lamina_ir.prims.fft import FftType\n", "reaches into lamina_ir: prims.fft.FftType is no name")])
def test_rooms_are_entered_through_their_doors(house: Path, source: str, words: str) -> None:
    room(house, "lamina-ir").write_text("import numpy\n__all__ = ['prims', 'shaped']\n")
    room(house, "lamina-numpy").write_text(
        "import numpy\nfrom lamina_ir import shaped, extend\nfrom lamina_ir.prims import sin_p\n"
        "from lamina_ir.extend.ops import x\nfrom lamina_ir.testing.y import z\n")
    check_walls.exported.cache_clear()
    assert not check_walls.breaches(house)
    with room(house, "lamina-numpy").open("a") as file:
        file.write(source)
    assert words in only_breach(house)


@pytest.mark.parametrize("touch", ["x._memo", "getattr(x, '_memo', None)", "hasattr(x, '_memo')"])
def test_private_attributes_of_other_rooms_are_left_alone(house: Path, touch: str) -> None:
    text = "class A:\n    def f(self):\n        self._memo = {}\n        self._own = 1\n"
    room(house, "lamina-ir").write_text("import numpy\n" + text)
    with room(house, "lamina-numpy").open("a") as file:
        file.write("def g(x):\n    x._own = 2\n    return x._own, getattr(x, '_own'), x._other, x.__dict__, " + touch + "\n")
    assert "touches the private attribute _memo of lamina-ir" in only_breach(house)


def guest(house: Path, source: str, needs: str) -> None:
    folder = house / "examples" / "outside" / "src" / "outside"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(source)
    (house / "examples" / "outside" / "pyproject.toml").write_text(f'[project]\nname = "outside"\ndependencies = [{needs}]\n')


def test_an_example_comes_in_by_the_doors(house: Path) -> None:
    room(house, "lamina-ir").write_text('import numpy\n__all__ = ["prims", "shaped"]\n')
    guest(house, "from lamina_ir import prims\nfrom lamina_ir.extend.ops import held\nfrom lamina_ir.testing import samples\n",
          '"lamina-ir"')
    assert check_walls.breaches(house) == []


@pytest.mark.parametrize("source, says", [
    ("from lamina_ir.program import Eqn\n", "reaches into lamina_ir: program.Eqn is no name of its root"),
    ("from lamina_ir import _stack_depth\n", "private _stack_depth"), ("import lamina_ir, lamina_numpy\n", "does not declare")])
def test_an_example_that_climbs_in_is_named(house: Path, source: str, says: str) -> None:
    room(house, "lamina-ir").write_text('import numpy\n__all__ = ["prims", "shaped"]\n')
    guest(house, source, '"lamina-ir"')
    found = check_walls.breaches(house)
    assert found and all(line.startswith("examples/outside/src/outside/__init__.py:1") for line in found)
    assert any(says in line for line in found)


def test_an_example_touches_no_private_attribute_of_a_room(house: Path) -> None:
    room(house, "lamina-ir").write_text('import numpy\n__all__ = ["Var"]\nclass Var:\n    def __init__(self):\n        '
                                        'self._number = 0\n')
    for name in ("lamina", "lamina-numpy"):
        room(house, name).write_text(room(house, name).read_text().replace("shaped", "Var"))
    guest(house, "from lamina_ir import Var\nnumber = Var()._number\n", '"lamina-ir"')
    assert "touches the private attribute _number of lamina-ir" in only_breach(house)


@pytest.fixture
def contract(house: Path) -> Path:
    """A test in the contract of lamina-numpy, which uses public names alone."""
    room(house, "lamina-ir").write_text("import numpy\n__all__ = ['shaped']\n")
    room(house, "lamina-numpy").write_text(SOURCES["lamina-numpy"] + "__all__ = ['extend', 'sin']\n")
    with (house / "packages" / "lamina-numpy" / "pyproject.toml").open("a") as file:
        file.write('[project.optional-dependencies]\ncontract = ["pytest>=8.2"]\n')
    folder = room(house, "lamina-numpy").parent / "contract"
    folder.mkdir()
    (house / "packages" / "lamina-numpy" / "README.md").write_text("| `contract/` | tests |\n")
    (folder / "test_sin.py").write_text("import pytest\nimport lamina_numpy\nfrom lamina_numpy import sin\n"
                                        "from lamina_numpy.contract.helper import x\nlamina_numpy.sin\n")
    check_walls.exported.cache_clear()
    return folder / "test_sin.py"


def test_a_contract_may_use_what_its_extra_declares(house: Path, contract: Path) -> None:
    assert not check_walls.breaches(house)
    contract.write_text("import hypothesis\n")
    assert "imports hypothesis, which lamina-numpy does not declare" in only_breach(house)
    contract.write_text("")
    room(house, "lamina-numpy").write_text(SOURCES["lamina-numpy"] + "import pytest\n")
    assert "imports pytest, which lamina-numpy does not declare" in only_breach(house)


@pytest.mark.parametrize("line", ["from lamina_numpy import cos", "import lamina_numpy.elementwise", "lamina_numpy.cos",
                                  "from lamina_numpy.testing import check", "from lamina_numpy import testing"])
def test_a_contract_uses_public_names_of_its_own_room(house: Path, contract: Path, line: str) -> None:
    contract.write_text(f"import lamina_numpy\n{line}\n")
    assert "reaches into lamina_numpy" in only_breach(house)
