"""Versions of neighbours: in range, too old, too new, in either order of import."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
from lamina_ir._util import version_check
from lamina_ir._util.version_check import require_versions


@pytest.fixture(autouse=True)
def _nothing_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(version_check, "_versions", {"lamina-ir": "0.1.3"})
    monkeypatch.setattr(version_check, "_requirements", {})
    yield


@pytest.mark.parametrize("version", ["0.1", "0.1.0", "0.1.9", "0.1.0+yourlab.1", "0.1.5rc1"])
@pytest.mark.parametrize("first", ["asker", "neighbour"])
def test_a_neighbour_in_range_is_taken_in_either_order(version: str, first: str) -> None:
    for name in ("asker", "neighbour") if first == "asker" else ("neighbour", "asker"):
        if name == "asker":
            require_versions("lamina-batching", "0.3.0", "lamina-tracing>=0.1,<0.2")
        else:
            require_versions("lamina-tracing", version)


@pytest.mark.parametrize("wanted, remedy", [
    ("lamina-ir>=0.2,<0.3", "pip install 'lamina-ir>=0.2,<0.3'"), ("lamina-ir>=0.1.4", "pip install 'lamina-ir>=0.1.4'"),
    ("lamina-ir>=0.0.1,<0.1", "pip install --upgrade lamina-batching, or pip install 'lamina-ir>=0.0.1,<0.1'"),
    ("lamina-ir>=0.1,<0.1.3", "pip install --upgrade lamina-batching")])
def test_a_neighbour_out_of_range_is_one_sentence_that_names_both_and_what_to_install(wanted: str, remedy: str) -> None:
    with pytest.raises(ImportError) as raised:
        require_versions("lamina-batching", "0.3.0", wanted)
    said = str(raised.value)
    assert said.startswith(f"lamina-batching 0.3.0 needs {wanted}, and lamina-ir 0.1.3 is installed; {remedy}")
    assert "\n" not in said and raised.value.name == "lamina_ir"


def test_one_that_comes_later_is_compared_with_what_was_asked() -> None:
    require_versions("lamina-batching", "0.3.0", "lamina-ir>=0.1,<0.2", "lamina-tracing>=0.2,<0.3")
    with pytest.raises(ImportError, match=r"lamina-batching 0\.3\.0 needs lamina-tracing>=0\.2,<0\.3, and .* 0\.1\.0"):
        require_versions("lamina-tracing", "0.1.0", "lamina-ir>=0.1,<0.2")


def test_what_a_package_asked_is_void_when_its_import_failed() -> None:
    with pytest.raises(ImportError):
        require_versions("lamina-batching", "0.3.0", "lamina-tracing>=0.2,<0.3", "lamina-ir>=0.2,<0.3")
    require_versions("lamina-tracing", "0.1.0")


def test_numbers_are_compared_as_numbers() -> None:
    require_versions("lamina-tracing", "0.10.0", "lamina-ir>=0.1,<0.20")
    require_versions("lamina-batching", "0.3.0", "lamina-tracing>=0.9,<0.11")
    with pytest.raises(ImportError, match="is installed"):
        require_versions("lamina-nn", "0.3.0", "lamina-tracing>=0.11,<0.12")


def test_a_range_written_otherwise_is_refused() -> None:
    with pytest.raises(ValueError, match="a range of lamina-nn must look like .*; got 'lamina-ir==0.1'"):
        require_versions("lamina-nn", "0.3.0", "lamina-ir==0.1")
