"""Setting up: which interpreter, when again, and what a failure says."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bootstrap
import pytest


def test_version_of_tells_this_interpreter_and_none_for_what_does_not_run() -> None:
    assert bootstrap.version_of(sys.executable) == sys.version_info[:2]
    assert bootstrap.version_of("/no/such/python") is None


def test_choose_python_refuses_one_that_does_not_run() -> None:
    with pytest.raises(bootstrap.SetupError, match="not a Python 3.11"):
        bootstrap.choose_python("/no/such/python")


def test_choose_python_says_what_to_install_when_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(bootstrap, "candidates", list)
    with pytest.raises(bootstrap.SetupError, match=r"Python 3\.11 to 3\.13 is needed.*Install one"):
        bootstrap.choose_python(None)


def test_choose_python_looks_for_another_when_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(bootstrap, "candidates", lambda: [sys.executable])
    assert bootstrap.choose_python(None) == sys.executable


def test_main_starts_again_with_the_other_when_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "choose_python", lambda asked: "/a/newer/python")
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda command: calls.append(command) or 7)
    assert bootstrap.main(["test", "--sample"]) == 7
    assert calls == [["/a/newer/python", str(Path(bootstrap.__file__).resolve()), "test", "--sample"]]


def test_group_spells_out_included_groups() -> None:
    names = bootstrap.group("dev")
    assert any(name.startswith("pytest") for name in names)
    assert any(name.startswith("hatchling") for name in names)
    assert all(isinstance(name, str) for name in names)


def test_make_venv_names_the_package_to_install_when_it_fails(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(bootstrap.SetupError, match=r"apt install python3\.\d+-venv"):
        bootstrap.make_venv(sys.executable, blocked / "venv")


def test_pip_install_names_the_network_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1))
    with pytest.raises(bootstrap.SetupError, match="PIP_INDEX_URL"):
        bootstrap.pip_install(tmp_path, "numpy")


@pytest.fixture
def house(small_house: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small house, in which nothing is installed: what pip is asked for is written to `asked`."""
    (small_house / "pyproject.toml").write_text('[dependency-groups]\nbuild = ["hatchling"]\ndev = ["pytest"]\n')
    monkeypatch.setattr(bootstrap, "ROOT", small_house)
    monkeypatch.setattr(bootstrap, "inside", lambda venv: sys.executable)
    monkeypatch.setattr(bootstrap, "make_venv", lambda python, venv: venv.mkdir(exist_ok=True))
    return small_house


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(bootstrap, "pip_install", lambda venv, *arguments: found.append(arguments))
    return found


def test_set_up_does_nothing_when_nothing_changed(house: Path, asked: list[tuple[str, ...]]) -> None:
    bootstrap.set_up(sys.executable, house / ".venv")
    assert len(asked) == 2 and "packages/lamina-ir" in asked[1]
    bootstrap.set_up(sys.executable, house / ".venv")
    assert len(asked) == 2


def test_a_bump_tells_pip_of_that_package_alone(house: Path, asked: list[tuple[str, ...]]) -> None:
    bootstrap.set_up(sys.executable, house / ".venv")
    asked.clear()
    (house / "packages/lamina-ir/src/lamina_ir/_version.py").write_text('__version__ = "0.1.1"\n')
    bootstrap.set_up(sys.executable, house / ".venv")
    assert asked == [("--quiet", "--no-deps", "--no-build-isolation", "-e", "packages/lamina-ir")]


def test_ranges_between_packages_make_no_new_environment_and_those_on_others_do(house: Path,
                                                                                asked: list[tuple[str, ...]]) -> None:
    bootstrap.set_up(sys.executable, house / ".venv")
    asked.clear()
    file = house / "packages/lamina-tracing/pyproject.toml"
    file.write_text(file.read_text().replace("<0.2", "<0.3"))
    bootstrap.set_up(sys.executable, house / ".venv")
    assert [arguments[-1] for arguments in asked] == ["packages/lamina-tracing"]
    file.write_text(file.read_text().replace("numpy>=2.0", "numpy>=2.1"))
    bootstrap.set_up(sys.executable, house / ".venv")
    assert len(asked) == 3 and "--no-deps" not in asked[2]


def test_a_stamp_of_another_kind_means_anew(house: Path, asked: list[tuple[str, ...]]) -> None:
    (house / ".venv").mkdir()
    (house / ".venv" / bootstrap.STAMP).write_text("0123abc")
    bootstrap.set_up(sys.executable, house / ".venv")
    assert len(asked) == 2


def test_main_ends_with_status_1_and_the_message(monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*arguments: object) -> None:
        raise bootstrap.SetupError("the reason")
    monkeypatch.setattr(bootstrap, "set_up", fail)
    assert bootstrap.main(["setup"]) == 1
    assert "the reason" in capsys.readouterr().err
