"""Version ranges of sibling packages: in range, too old, too new, in either order of import."""
from __future__ import annotations

from collections.abc import Iterator

import pytest
from lamina_ir._util import version_check
from lamina_ir._util.version_check import require_versions


@pytest.fixture(autouse=True)
def _only_ir_imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run each test as if only lamina-ir 0.1.3 were imported."""
    monkeypatch.setattr(version_check, "_versions", {"lamina-ir": "0.1.3"})
    monkeypatch.setattr(version_check, "_requirements", {})
    yield


@pytest.mark.parametrize("version", ["0.1", "0.1.0", "0.1.9", "0.1.0+yourlab.1", "0.1.5rc1"])
@pytest.mark.parametrize("first", ["requirer", "required"])
def test_version_in_range_is_accepted_in_either_order(version: str, first: str) -> None:
    for name in ("requirer", "required") if first == "requirer" else ("required", "requirer"):
        if name == "requirer":
            require_versions("lamina-batching", "0.3.0", "lamina-tracing>=0.1,<0.2")
        else:
            require_versions("lamina-tracing", version)


@pytest.mark.parametrize("wanted, remedy", [
    ("lamina-ir>=0.2,<0.3", "pip install 'lamina-ir>=0.2,<0.3'"), ("lamina-ir>=0.1.4", "pip install 'lamina-ir>=0.1.4'"),
    ("lamina-ir>=0.0.1,<0.1", "pip install --upgrade lamina-batching, or pip install 'lamina-ir>=0.0.1,<0.1'"),
    ("lamina-ir>=0.1,<0.1.3", "pip install --upgrade lamina-batching")])
def test_version_out_of_range_error_names_both_packages_and_fix(wanted: str, remedy: str) -> None:
    with pytest.raises(ImportError) as raised:
        require_versions("lamina-batching", "0.3.0", wanted)
    message = str(raised.value)
    assert message.startswith(f"lamina-batching 0.3.0 needs {wanted}, and lamina-ir 0.1.3 is installed; {remedy}")
    assert "\n" not in message and raised.value.name == "lamina_ir"


def test_package_imported_later_is_compared_with_earlier_requirement() -> None:
    require_versions("lamina-batching", "0.3.0", "lamina-ir>=0.1,<0.2", "lamina-tracing>=0.2,<0.3")
    with pytest.raises(ImportError, match=r"lamina-batching 0\.3\.0 needs lamina-tracing>=0\.2,<0\.3, and .* 0\.1\.0"):
        require_versions("lamina-tracing", "0.1.0", "lamina-ir>=0.1,<0.2")


def test_requirements_of_failed_import_are_dropped() -> None:
    with pytest.raises(ImportError):
        require_versions("lamina-batching", "0.3.0", "lamina-tracing>=0.2,<0.3", "lamina-ir>=0.2,<0.3")
    require_versions("lamina-tracing", "0.1.0")


def test_version_parts_are_compared_as_numbers() -> None:
    require_versions("lamina-tracing", "0.10.0", "lamina-ir>=0.1,<0.20")
    require_versions("lamina-batching", "0.3.0", "lamina-tracing>=0.9,<0.11")
    with pytest.raises(ImportError, match="is installed"):
        require_versions("lamina-nn", "0.3.0", "lamina-tracing>=0.11,<0.12")


def test_unsupported_range_syntax_is_rejected() -> None:
    with pytest.raises(ValueError, match="a range of lamina-nn must look like .*; got 'lamina-ir==0.1'"):
        require_versions("lamina-nn", "0.3.0", "lamina-ir==0.1")
