"""Check versions of sibling packages when they are imported. The packages are released independently.

The `_version.py` of a package calls `require_versions` before any other import of the package. A mismatch is then one
clear error instead of, for example, a missing name later. The order of imports does not matter.
"""
from __future__ import annotations

from .._version import __version__

_versions = {"lamina-ir": __version__}
_requirements: dict[str, dict[str, tuple[str, str]]] = {}  # required package -> requiring package -> (its version, range)


def require_versions(distribution: str, version: str, *ranges: str) -> None:
    """Register the version of a package that is being imported, and check the versions of its sibling packages.

    Sibling packages that are already imported are checked immediately, others when they register their version.

    Args:
      distribution: the distribution name of the package.
      version: its version. Local labels (`0.4.0+yourlab.1`) and pre-release markers are ignored.
      ranges: one per sibling package, `name>=minimum,<bound`; the bound may be omitted.
    Raises:
      ImportError: a version is out of range; the message names both packages, the range, and what to install.
      ValueError: a range has another format.

    >>> require_versions("yourlab-nn", "1.0", "lamina-ir>=0.1")
    >>> require_versions("yourlab-nn", "1.0", "lamina-ir>=99")
    Traceback (most recent call last):
    ImportError: yourlab-nn 1.0 needs lamina-ir>=99, and lamina-ir 0.1.0 is installed; pip install 'lamina-ir>=99'
    """
    _versions[distribution] = version
    for requirer, (its_version, required) in _requirements.get(distribution, {}).copy().items():
        _check_range(requirer, its_version, distribution, required)
    for required in ranges:
        sibling, found, _ = required.partition(">=")
        if not found:
            raise ValueError(f"require_versions: a range of {distribution} must look like 'lamina-ir>=0.1,<0.2'; got "
                             f"{required!r}")
        _requirements.setdefault(sibling, {})[distribution] = version, required
        if sibling in _versions:
            _check_range(distribution, version, sibling, required)


def _check_range(requirer: str, version: str, sibling: str, required: str) -> None:
    """Raise ImportError if the version of `sibling` is outside the range."""
    low, bounded, high = required.partition(">=")[2].partition(",<")
    installed = _numbers(_versions[sibling])
    too_old = installed < _numbers(low)
    if not too_old and not (bounded and installed >= _numbers(high)):
        return
    for requirements in _requirements.values():
        requirements.pop(requirer, None)  # its import fails, so its requirements no longer matter
    fix = f"pip install '{required}'" if too_old else f"pip install --upgrade {requirer}, or pip install '{required}'"
    raise ImportError(f"{requirer} {version} needs {required}, and {sibling} {_versions[sibling]} is installed; {fix}",
                      name=sibling.replace("-", "_"))


def _numbers(text: str) -> list[int]:
    """Return the leading numbers of a version, without trailing zeros: `0.2.0rc1` -> [0, 2]."""
    found = []
    for part in text.split("."):
        rest = part.lstrip("0123456789")
        if rest != part:
            found.append(int(part[:len(part) - len(rest)]))
        if rest:
            break
    while found and not found[-1]:
        found.pop()
    return found
