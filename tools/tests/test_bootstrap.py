"""The environment: which interpreter it uses, when it is updated, and what an error message says."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import bootstrap
import pytest


def test_version_of_returns_none_for_a_program_that_does_not_run() -> None:
    assert bootstrap.version_of(sys.executable) == sys.version_info[:2]
    assert bootstrap.version_of("/no/such/python") is None


def test_choose_python_refuses_a_program_that_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(bootstrap.SetupError, match="must be Python 3.11"):
        bootstrap.choose_python("/no/such/python", tmp_path)


def test_base_python_of_an_environment_is_outside_of_it() -> None:
    base = bootstrap.base_python(sys.executable)
    assert base is not None and bootstrap.base_python(base) == base and not base.startswith(sys.prefix + "/bin")
    assert bootstrap.base_python("/no/such/python") is None


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """The interpreters that seem to be installed, and their versions; this one is Python 3.9."""
    found: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(bootstrap, "version_of", found.get)
    monkeypatch.setattr(bootstrap, "base_python", lambda python: python if python in found else None)
    monkeypatch.setattr(bootstrap, "candidates", lambda: sorted(found, key=lambda python: found[python], reverse=True))
    return found


def test_unsupported_python_without_alternative_is_refused(tmp_path: Path, installed: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(bootstrap.SetupError, match=r"Python 3\.11 to 3\.13 is required.*Install one"):
        bootstrap.choose_python(None, tmp_path)


@pytest.mark.parametrize("version", [(3, 9, 2), (3, 11, 7)])
def test_newest_installed_python_is_chosen(tmp_path: Path, installed: dict[str, tuple[int, int]], version: tuple[int, ...],
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.sys, "version_info", version)
    installed.update({"/a/python3.12": (3, 12), sys.executable: (3, 11)})
    assert bootstrap.choose_python(None, tmp_path) == "/a/python3.12"
    assert bootstrap.choose_python(sys.executable, tmp_path) == sys.executable


def test_environment_keeps_its_python(tmp_path: Path, installed: dict[str, tuple[int, int]]) -> None:
    kept = bootstrap.venv_python(tmp_path)
    installed.update({"/a/python3.13": (3, 13), kept: (3, 11)})
    assert bootstrap.choose_python(None, tmp_path) == kept


def test_python_that_cannot_create_environments_is_used_if_it_is_the_only_one(
        tmp_path: Path, installed: dict[str, tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 12, 1))  # `create_venv` then names the missing packages
    assert bootstrap.choose_python(None, tmp_path) == sys.executable


def test_main_restarts_with_the_supported_python(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "choose_python", lambda requested, venv: "/a/newer/python")
    monkeypatch.setattr(bootstrap.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda command: calls.append(command) or 7)
    assert bootstrap.main(["test", "--sample"]) == 7
    assert calls == [["/a/newer/python", str(Path(bootstrap.__file__).resolve()), "test", "--sample"]]


def test_error_of_venv_names_the_package_to_install(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(bootstrap.SetupError, match=r"apt install python3\.\d+-venv"):
        bootstrap.create_venv(sys.executable, blocked / "venv")


def test_error_of_pip_names_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1))
    with pytest.raises(bootstrap.SetupError, match="PIP_INDEX_URL"):
        bootstrap.pip_install(tmp_path, "numpy")


@pytest.fixture
def pip_calls(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The arguments of all calls of pip, which installs nothing; the small checkout is in place of this repository."""
    calls: list[tuple[str, ...]] = []
    (checkout / "pyproject.toml").write_text('[dependency-groups]\nbuild = ["hatchling"]\ndev = ["pytest"]\n')
    monkeypatch.setattr(bootstrap, "ROOT", checkout)
    monkeypatch.setattr(bootstrap, "venv_python", lambda venv: sys.executable)
    monkeypatch.setattr(bootstrap, "create_venv", lambda python, venv: venv.mkdir(exist_ok=True))
    monkeypatch.setattr(bootstrap, "pip_install", lambda venv, *arguments: calls.append(arguments))
    return calls


def test_set_up_installs_once(checkout: Path, pip_calls: list[tuple[str, ...]]) -> None:
    bootstrap.set_up(sys.executable, checkout / ".venv")
    assert len(pip_calls) == 2 and str(checkout / "packages/lamina-ir") in pip_calls[1]
    bootstrap.set_up(sys.executable, checkout / ".venv")
    assert len(pip_calls) == 2


@pytest.mark.parametrize("file, old, new", [
    ("lamina-ir/src/lamina_ir/_version.py", "0.1.0", "0.1.1"), ("lamina-tracing/pyproject.toml", "<0.2", "<0.3")])
def test_new_version_or_range_reinstalls_only_the_packages(checkout: Path, pip_calls: list[tuple[str, ...]], file: str,
                                                           old: str, new: str) -> None:
    bootstrap.set_up(sys.executable, checkout / ".venv")
    pip_calls.clear()
    path = checkout / "packages" / file
    path.write_text(path.read_text().replace(old, new))
    bootstrap.set_up(sys.executable, checkout / ".venv")
    assert len(pip_calls) == 1 and {"--no-deps", "--no-build-isolation"} <= set(pip_calls[0])


def test_new_third_party_range_creates_a_new_environment(checkout: Path, pip_calls: list[tuple[str, ...]]) -> None:
    bootstrap.set_up(sys.executable, checkout / ".venv")
    file = checkout / "packages/lamina-tracing/pyproject.toml"
    file.write_text(file.read_text().replace("numpy>=2.0", "numpy>=2.1"))
    bootstrap.set_up(sys.executable, checkout / ".venv")
    assert len(pip_calls) == 4 and "--no-deps" not in pip_calls[3]


def test_unreadable_stamp_creates_a_new_environment(checkout: Path, pip_calls: list[tuple[str, ...]]) -> None:
    (checkout / ".venv").mkdir()
    (checkout / ".venv" / bootstrap.STAMP).write_text("0123abc")
    bootstrap.set_up(sys.executable, checkout / ".venv")
    assert len(pip_calls) == 2


def test_linked_environment_of_another_checkout_is_kept(checkout: Path, pip_calls: list[tuple[str, ...]]) -> None:
    (checkout / "shared").mkdir()
    (checkout / ".venv").symlink_to("shared")
    with pytest.raises(bootstrap.SetupError, match="is a link to .*shared, which was set up for another checkout"):
        bootstrap.set_up(sys.executable, checkout / ".venv")
    assert not pip_calls


def test_main_prints_the_error_and_returns_1(monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*arguments: object) -> None:
        raise bootstrap.SetupError("the reason")
    monkeypatch.setattr(bootstrap, "set_up", fail)
    assert bootstrap.main(["setup"]) == 1
    assert "the reason" in capsys.readouterr().err
