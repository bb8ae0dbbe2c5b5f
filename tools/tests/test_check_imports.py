"""Each rule: a small checkout that breaks it, and this repository, which does not."""
from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import check_imports
import pytest
from packages import ROOT


def source(checkout: Path, name: str) -> Path:
    return checkout / "packages" / name / "src" / name.replace("-", "_") / "__init__.py"


def append(checkout: Path, name: str, text: str) -> None:
    with source(checkout, name).open("a") as file:
        file.write(text)


def only_violation(checkout: Path) -> str:
    found = check_imports.check(checkout)
    assert len(found) == 1, found
    return found[0]


def test_valid_checkout_has_no_violation(checkout: Path) -> None:
    append(checkout, "lamina-tracing", "from lamina_ir import extend, prims\nfrom lamina_ir.prims import sin_p\n"
                                       "from lamina_ir.extend.ops import x\nimport lamina_ir as ir\nir.testing, ir.shaped\n")
    assert check_imports.check(checkout) == []


@pytest.mark.slow
def test_this_repository_has_no_violation() -> None:
    assert check_imports.check(ROOT) == []


@pytest.mark.parametrize("line, name", [
    ("from lamina_ir.program import Var", "lamina_ir.program.Var"), ("from lamina_ir import program", "lamina_ir.program"),
    ("import lamina_ir.program", "lamina_ir.program"), ("import lamina_ir\nlamina_ir.program.Var", "lamina_ir.program"),
    ("import lamina_ir as ir\nir.program.Var", "lamina_ir.program"), ("__import__('lamina_ir.program')", "lamina_ir.program"),
    ("from lamina_ir.prims.fft import FftType", "lamina_ir.prims.fft.FftType"),
    ("from lamina_ir._trees import flatten", "lamina_ir._trees.flatten"), ("from lamina_ir import _trees", "lamina_ir._trees")])
def test_name_that_is_not_public_is_reported(checkout: Path, line: str, name: str) -> None:
    append(checkout, "lamina-tracing", line + "\n")
    assert any(f"{name} is not public" in text or f"{name}.* is not public" in text for text in check_imports.check(checkout))


def test_alternative_layer_starts_from_the_default_implementation(
        checkout: Path, write_package: Callable[[Path, list[str], str], None]) -> None:
    folder = checkout / "examples" / "alternative_layers" / "other-tracing"
    write_package(folder, ["lamina-tracing>=0.1,<0.2"], "from lamina_tracing._default import *\n")
    assert check_imports.check(checkout) == []
    (folder / "src" / "other_tracing" / "__init__.py").write_text("from lamina_tracing._core.trace import bind\n")
    assert "lamina_tracing._core.trace.bind is not public" in only_violation(checkout)


@pytest.mark.parametrize("use", ["x._memo", "getattr(x, '_memo', None)", "hasattr(x, '_memo')"])
def test_private_attribute_of_another_package_is_reported(checkout: Path, use: str) -> None:
    append(checkout, "lamina-ir", "class A:\n    def f(self):\n        self._memo = {}\n        self._own = 1\n")
    append(checkout, "lamina-tracing", f"def g(x):\n    x._own = 2\n    return x._own, x._other, x.__dict__, {use}\n")
    assert only_violation(checkout).endswith("_memo is a private attribute of lamina-ir")


def test_umbrella_package_with_a_function_is_reported(checkout: Path) -> None:
    append(checkout, "lamina", "\nif __name__ == '__main__':\n    raise SystemExit(main())\n")
    assert check_imports.check(checkout) == []
    append(checkout, "lamina", "\ndef helper():\n    return 1\n")
    assert "the umbrella package only re-exports" in only_violation(checkout)


def test_module_that_the_readme_does_not_list_is_reported(checkout: Path) -> None:
    folder = source(checkout, "lamina-ir").parent
    (folder / "rules").mkdir()
    for name in ("listed.py", "rules/shape.py", "forgotten.py"):
        (folder / name).write_text("")
    (checkout / "packages" / "lamina-ir" / "README.md").write_text("| `listed.py`, `rules/<family>.py` | facts |\n")
    assert only_violation(checkout).startswith("packages/lamina-ir/src/lamina_ir/forgotten.py: missing in the table of files")


def test_example_distribution_follows_the_same_rules(checkout: Path, write_package: Callable[..., None]) -> None:
    write_package(checkout / "examples" / "outside", ["lamina-ir>=0.1,<0.2"], "from lamina_ir import prims\n")
    assert check_imports.check(checkout) == []
    write_package(checkout / "examples" / "other", ["lamina-ir>=0.1,<0.2"], "from lamina_ir.program import Eqn\n")
    assert only_violation(checkout).startswith("examples/other/src/other/__init__.py:1: lamina_ir.program.Eqn is not public")


@pytest.mark.parametrize("line", ["from lamina_tracing import other", "import lamina_tracing.elementwise",
                                  "lamina_tracing.other", "from lamina_tracing.testing import check",
                                  "from lamina_tracing import testing"])
def test_conformance_test_uses_only_public_names_of_its_own_package(checkout: Path, line: str) -> None:
    append(checkout, "lamina-tracing", "__all__ = ['shaped']\n")
    folder = source(checkout, "lamina-tracing").parent / "conformance"
    folder.mkdir()
    (checkout / "packages" / "lamina-tracing" / "README.md").write_text("| `conformance/` | tests |\n")
    text = "import lamina_tracing\nfrom lamina_tracing import shaped\nfrom lamina_tracing.conformance.helper import x\n"
    (folder / "test_shaped.py").write_text(text)
    assert check_imports.check(checkout) == []
    (folder / "test_shaped.py").write_text(f"{text}{line}\n")
    assert "is not public" in only_violation(checkout)


def test_source_folder_with_many_files_is_refused(checkout: Path) -> None:
    folder = source(checkout, "lamina-ir").parent
    for number in range(check_imports.MOST_FILES):
        (folder / f"_module{number}.py").touch()
    readme = checkout / "packages" / "lamina-ir" / "README.md"
    readme.write_text(readme.read_text() + "".join(f"`_module{number}.py`\n" for number in range(check_imports.MOST_FILES)))
    assert re.search(r"2\d Python files; at most 24", only_violation(checkout))
