"""Which versions of its neighbours each package works with, compared as packages are imported: packages are released apart.

A package's `_version.py` calls `needs`, before anything else of the package is imported: what a misfit would break later, as
a name that is missing somewhere, is one sentence then. Which of two comes first does not matter.
"""
from __future__ import annotations

from ._version import __version__

_versions = {"lamina-ir": __version__}
_asking: dict[str, dict[str, tuple[str, str]]] = {}  # neighbour -> who asks -> (its version, the range)


def needs(distribution: str, version: str, *ranges: str) -> None:
    """Say which version of a package is being imported, and which versions of its neighbours it works with.

    Neighbours that were imported before are compared at once, others as soon as they say their own version.

    Args:
      distribution: the package's name, as pip knows it.
      version: its version; a local label, as in `0.4.0+yourlab.1`, and what marks a version before release count for nothing.
      ranges: one for each neighbour, `name>=lowest,<first that is too new`; the second half may be missing.
    Raises:
      ImportError: two packages do not fit; it names both, the range, and what to install.
      ValueError: a range is written in another way.

    >>> needs("yourlab-nn", "1.0", "lamina-ir>=0.1")
    >>> needs("yourlab-nn", "1.0", "lamina-ir>=99")
    Traceback (most recent call last):
    ImportError: yourlab-nn 1.0 needs lamina-ir>=99, and lamina-ir 0.1.0 is installed; pip install 'lamina-ir>=99'
    """
    _versions[distribution] = version
    for asker, (its_version, wanted) in _asking.get(distribution, {}).copy().items():
        _compare(asker, its_version, distribution, wanted)
    for wanted in ranges:
        neighbour, found, _ = wanted.partition(">=")
        if not found:
            raise ValueError(f"needs: {wanted!r} of {distribution} is no range such as 'lamina-ir>=0.1,<0.2'")
        _asking.setdefault(neighbour, {})[distribution] = version, wanted
        if neighbour in _versions:
            _compare(distribution, version, neighbour, wanted)


def _compare(asker: str, version: str, neighbour: str, wanted: str) -> None:
    """Raise where the neighbour's version lies outside the range."""
    low, bounded, high = wanted.partition(">=")[2].partition(",<")
    there = _numbers(_versions[neighbour])
    too_old = there < _numbers(low)
    if not too_old and not (bounded and there >= _numbers(high)):
        return
    for asking in _asking.values():
        asking.pop(asker, None)  # its import fails: what it asked of others is void
    remedy = f"pip install '{wanted}'" if too_old else f"pip install --upgrade {asker}, or pip install '{wanted}'"
    raise ImportError(f"{asker} {version} needs {wanted}, and {neighbour} {_versions[neighbour]} is installed; {remedy}",
                      name=neighbour.replace("-", "_"))


def _numbers(text: str) -> list[int]:
    """`0.2.0rc1` -> [0, 2]: the leading numbers, without zeros at the end."""
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
