"""What is installed beside what, for the lowest versions and for released neighbours; the runs themselves are sessions."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import bare_environments
import check_ranges
import distributions
import pytest
import released_wheels
import run_lowest
import run_neighbours
from packaging.requirements import Requirement


def test_pins_are_the_lower_bounds_of_a_package_and_of_all_below() -> None:
    found = dict(line.split("==") for line in run_lowest.pins("lamina-runtime") if ";" not in line)
    asked = {r.name: r for name in ("lamina-runtime", "lamina-ir") for r in
             map(Requirement, distributions.rooms()[name].dependencies) if not distributions.is_ours(r.name)}
    assert {"numpy", "ml_dtypes", "jaxlib", "pytest"} <= set(found)
    for name, requirement in asked.items():
        assert found[name] == str(run_lowest.lower_bound(requirement))


def test_a_requirement_without_a_lower_bound_is_refused() -> None:
    with pytest.raises(SystemExit, match="numpy<3 names no lowest version"):
        run_lowest.lower_bound(Requirement("numpy<3"))


def test_an_old_python_is_asked_for(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run_lowest.sys, "version_info", (3, 13, 0))
    assert run_lowest.main(["lamina-ir"]) == 1
    assert "start `tools/bootstrap.py` with Python 3.11" in capsys.readouterr().out


def test_the_last_release_is_the_highest_version_and_the_oldest_admitted_the_lowest(small_house: Path,
                                                                                    git: Callable[..., None]) -> None:
    assert released_wheels.ref_of("lamina-ir", small_house) is None
    assert released_wheels.ref_of("lamina-ir", small_house, instead="HEAD") == "HEAD"
    assert released_wheels.without_tag(["lamina-ir"], small_house) == ["lamina-ir"]
    for version in ("0.1.9", "0.1.10", "0.0.1"):
        git("tag", f"lamina-ir-v{version}")
    assert released_wheels.ref_of("lamina-ir", small_house) == "lamina-ir-v0.1.10"
    assert released_wheels.ref_of("lamina-ir", small_house, Requirement("lamina-ir>=0.1,<0.2")) == "lamina-ir-v0.1.9"


def test_a_released_wheel_is_built_from_its_tag_once_and_kept(small_house: Path, git: Callable[..., None],
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    git("tag", "lamina-ir-v0.1.0")
    (small_house / "packages/lamina-ir/src/lamina_ir/_version.py").write_text('__version__ = "0.9.0"\n')
    old = released_wheels.at("lamina-ir-v0.1.0", "lamina-ir", small_house)
    assert old.wheel == small_house / "dist" / "released" / "lamina-ir-v0.1.0" / "lamina_ir-0.1.0-py3-none-any.whl"
    assert str(old.room.version) == "0.1.0" and (old.tree / "packages/lamina/CHANGELOG.md").exists()
    monkeypatch.setattr(released_wheels.build_wheels, "build_in", lambda *a: pytest.fail("built again"))
    assert released_wheels.at("lamina-ir-v0.1.0", "lamina-ir", small_house).wheel == old.wheel
    released_wheels.forget(small_house)
    assert not old.tree.exists() and old.wheel.exists()


def test_a_commit_that_is_none_is_refused(small_house: Path) -> None:
    with pytest.raises(SystemExit, match="'no-such' names no commit"):
        released_wheels.check_commit("no-such", small_house)


def test_refusal_says_which_range_does_not_admit_what(small_house: Path) -> None:
    rooms = distributions.rooms(small_house)
    assert run_neighbours.refusal(rooms["lamina-tracing"], rooms) is None
    (small_house / "packages/lamina-ir/src/lamina_ir/_version.py").write_text('__version__ = "0.2.0"\n')
    said = run_neighbours.refusal(rooms["lamina-tracing"], rooms)
    assert said == "lamina-tracing 0.1.0 asks for lamina-ir<0.2,>=0.1, and lamina-ir is 0.2.0"


def test_without_a_tag_nothing_is_tried_and_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released_wheels, "ref_of", lambda *a, **k: None)
    tries, notes = run_neighbours.attempts("lamina-tracing", tmp_path, None, [])
    assert tries == {} and "no tag names a release of lamina-ir, lamina-tracing" in notes[0] and "--released COMMIT" in notes[0]


def test_names_that_a_released_neighbour_lacks_are_told_without_a_run(small_house: Path, git: Callable[..., None]) -> None:
    git("tag", "lamina-ir-v0.1.0")
    rooms, refs = distributions.rooms(small_house), {"lamina-ir": "lamina-ir-v0.1.0"}
    assert check_ranges.lacking(rooms["lamina-tracing"], refs, small_house) == []
    (small_house / "packages/lamina-tracing/src/lamina_tracing/use.py").write_text("from lamina_ir import later\n")
    [said] = check_ranges.lacking(rooms["lamina-tracing"], refs, small_house)
    assert said == ("packages/lamina-tracing/src/lamina_tracing/use.py: uses lamina_ir.later, which lamina-ir does not have at "
                    "lamina-ir-v0.1.0")
    status, text, _ = run_neighbours.failed_already([said])
    assert status == 1 and said in text and "lower bound" in text


def test_run_all_names_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert bare_environments.run_all("trial", 1, {"a": lambda: (0, "fine", 0.1), "b": lambda: (1, "not fine", 0.1)}) == ["b"]
    assert "trial: failed: b" in capsys.readouterr().out
