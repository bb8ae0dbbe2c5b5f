"""Tests of conformance tests: the default implementation passes them, and a defective implementation fails them.

The `tests/test_conformance.py` of each package derives a class from this one and lists its files; other distributions
may do so too.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typing_extensions import override

from lamina_ir.testing.conformance import folder_of, run_with_implementation

__all__ = ["ContractTrials"]


class ContractTrials:
    """Tests of a layer's conformance tests, for pytest: name a derived class `Test...`.

    Attributes:
      layer: import name of the layer, from the folder of its distribution.
      broken: the folder `broken` next to the test: alternative implementations, one file each. `nothing_changed` re-exports
        the default implementation, `does_nothing` has all names and does nothing; each of the others has one defect.
      seen_in: defective implementation -> the test file, or the test, that fails.
      kept: test files that run on `nothing_changed`; empty: all.
      costly: the implementation that is only slow, and the test files in which it passes all but the mark `cost`.
      left_out: test files that pass on `does_nothing`, because they test the layers below.
      passes: parts of the names of single tests of which that is true.
    """

    layer: ClassVar[str]
    broken: ClassVar[Path]
    seen_in: ClassVar[Mapping[str, str]]
    kept: ClassVar[Sequence[str]] = ()
    costly: ClassVar[tuple[str, Sequence[str]] | None] = None
    left_out: ClassVar[Sequence[str]] = ()
    passes: ClassVar[Sequence[str]] = ()

    def run(self, name: str, argv: Sequence[str]) -> tuple[int, str]:
        """Return (exit status, output) of the conformance tests on one implementation of the folder."""
        return run_with_implementation(self.layer, self.broken / f"{name}.py", ["-q", *argv])

    def test_every_defective_implementation_is_listed(self) -> None:
        there = {path.stem for path in self.broken.glob("*.py")} - {"nothing_changed", "does_nothing"}
        assert there == {*self.seen_in}, there ^ {*self.seen_in}

    def test_reexported_default_implementation_passes(self) -> None:
        status, output = self.run("nothing_changed", self.kept)
        assert status == 0, output

    @pytest.mark.slow
    def test_defective_implementation_fails(self, wrong: str) -> None:
        status, output = self.run(wrong, ["-x", self.seen_in[wrong]])
        assert status == 1 and "1 failed" in output, output

    @pytest.mark.slow
    def test_slow_implementation_passes_all_but_cost(self) -> None:
        name, files = self.costly or ("", ())
        status, output = self.run(name, ["-m", "not cost", *files])
        assert status == 0, output

    @pytest.mark.slow
    def test_empty_implementation_passes_no_test(self) -> None:
        files = [path.name for path in sorted(folder_of(self.layer).glob("test_*.py")) if path.name not in self.left_out]
        status, output = self.run("does_nothing", ["--tb=no", "-rp", "--continue-on-collection-errors", *files])
        passed = [line for line in output.splitlines() if line.startswith("PASSED")
                  and not any(name in line for name in self.passes)]
        assert status == 1 and not passed and (self.passes or " passed" not in output), output

    @override
    def __init_subclass__(cls) -> None:
        """Find the layer and its broken implementations; remove the tests of those that the folder does not have."""
        tests = Path(str(sys.modules[cls.__module__].__file__)).parent
        cls.layer, cls.broken = tests.parent.name.replace("-", "_"), tests / "broken"
        if cls.costly is None:
            cls.test_slow_implementation_passes_all_but_cost = None  # type: ignore[assignment, method-assign]
        if not (cls.broken / "does_nothing.py").exists():
            cls.test_empty_implementation_passes_no_test = None  # type: ignore[assignment, method-assign]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """Parametrize `wrong` with every third defective implementation; with all if LAMINA_LAWS is set."""
        if "wrong" in metafunc.fixturenames:
            every = 1 if "LAMINA_LAWS" in os.environ else 3
            metafunc.parametrize("wrong", [*self.seen_in][::every])
