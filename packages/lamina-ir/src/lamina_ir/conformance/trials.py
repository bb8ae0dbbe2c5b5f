"""What makes a contract worth keeping: the stock keeps it, and an implementation that changes one meaning does not.

The `tests/test_conformance.py` of each package derives a class from this one and lists its files; other distributions
may do so too.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lamina_ir.testing.conformance import folder_of, run_with_implementation

__all__ = ["ContractTrials"]


class ContractTrials:
    """Tests of a layer's contract, for pytest: the name of a class made of it begins with `Test`.

    Attributes:
      layer: import name of the layer.
      broken: folder of stand-ins, a file each. `nothing_changed` is the stock under another name, `does_nothing` has all names
        and does nothing; each of the others has one meaning wrong.
      seen_in: what is wrong -> the file of the contract, or its test, that sees it.
      kept: files that are tried on `nothing_changed`; none: all.
      costly: of those that are wrong, the one that is only slow, and the files in which it keeps all but the mark `cost`.
      left_out: files that hold where nothing is done, as they are about what stands below the layer.
      passes: words in the names of single tests of which that is so.
    """

    layer: ClassVar[str]
    broken: ClassVar[Path]
    seen_in: ClassVar[Mapping[str, str]]
    kept: ClassVar[Sequence[str]] = ()
    costly: ClassVar[tuple[str, Sequence[str]] | None] = None
    left_out: ClassVar[Sequence[str]] = ()
    passes: ClassVar[Sequence[str]] = ()

    def run(self, name: str, argv: Sequence[str]) -> tuple[int, str]:
        """(exit status, output) of the contract on one of the stand-ins."""
        return run_with_implementation(self.layer, self.broken / f"{name}.py", ["-q", *argv])

    def test_each_broken_one_is_tried(self) -> None:
        there = {path.stem for path in self.broken.glob("*.py")} - {"nothing_changed", "does_nothing"}
        assert there == {*self.seen_in}, there ^ {*self.seen_in}

    def test_a_stand_in_that_changes_nothing_keeps_the_contract(self) -> None:
        status, output = self.run("nothing_changed", self.kept)
        assert status == 0, output

    @pytest.mark.slow
    def test_a_change_of_meaning_breaks_the_contract(self, wrong: str) -> None:
        status, output = self.run(wrong, ["-x", self.seen_in[wrong]])
        assert status == 1 and "1 failed" in output, output

    @pytest.mark.slow
    def test_what_is_costly_keeps_all_but_the_cost(self) -> None:
        name, files = self.costly or ("", ())
        status, output = self.run(name, ["-m", "not cost", *files])
        assert status == 0, output

    @pytest.mark.slow
    def test_nothing_is_kept_where_nothing_is_done(self) -> None:
        files = [path.name for path in sorted(folder_of(self.layer).glob("test_*.py")) if path.name not in self.left_out]
        status, output = self.run("does_nothing", ["--tb=no", "-rp", "--continue-on-collection-errors", *files])
        passed = [line for line in output.splitlines() if line.startswith("PASSED")
                  and not any(name in line for name in self.passes)]
        assert status == 1 and not passed and (self.passes or " passed" not in output), output

    def __init_subclass__(cls) -> None:
        """A room that has no stand-in of a kind has no test of it either."""
        if cls.costly is None:
            cls.test_what_is_costly_keeps_all_but_the_cost = None  # type: ignore[assignment, method-assign]
        if not (cls.broken / "does_nothing.py").exists():
            cls.test_nothing_is_kept_where_nothing_is_done = None  # type: ignore[assignment, method-assign]

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """A test for each that is wrong."""
        if "wrong" in metafunc.fixturenames:
            metafunc.parametrize("wrong", [*self.seen_in])
