"""Each gap in a docstring is reported, and a complete docstring has none."""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import check_docstrings
import pytest
from check_docstrings import extend_gaps, library_gaps, version_gaps
from packages import packages


def complete(x: Any, /, *rest: Any, axis: int = 0) -> Any:
    """Running sum along one axis.

    Args:
      x: number array `[..., n, ...]`,
        of any dtype.
      *rest: more arrays.
      axis: the axis of length `n`.
    Returns:
      Array of the shape and dtype of `x`.
    Raises:
      ShapeError: `axis` is out of range.

    Derivative: linear.
    Source: meaning of `numpy.cumsum`.

    >>> 1 + 1
    2
    """
    if axis:
        raise ValueError("axis")
    return x


class Pair(NamedTuple):
    """Two numbers.

    Attributes:
      one: the first.
      two: the second.

    >>> Pair(1, 2).one
    1
    """

    one: int
    two: int


class NoConstructor:
    """An object without arguments.

    >>> _ = NoConstructor()
    """


class Interface(Protocol):
    """An interface.

    >>> Interface.__name__
    'Interface'
    """

    one: int


def returns_nothing(x: int) -> None:
    """Return nothing.

    Args:
      x: a number.

    >>> returns_nothing(1)
    """
    def fail() -> None:
        raise ValueError("not raised by this function itself")


@pytest.mark.parametrize("member", [complete, Pair, NoConstructor, Interface, returns_nothing])
def test_complete_docstring_has_no_gap(member: Any) -> None:
    assert list(extend_gaps(member)) == []
    assert member is not complete or list(library_gaps(member)) == []


def without(member: Any, *starts: str) -> Any:
    """Return a member whose docstring lacks the lines that start with one of `starts`."""
    text = "\n".join(line for line in member.__doc__.splitlines() if not any(line.strip().startswith(s) for s in starts))
    if isinstance(member, type):
        return type(member.__name__, (member,), {"__doc__": text})
    copy = type(member)(member.__code__, member.__globals__, member.__name__, member.__defaults__)
    copy.__kwdefaults__, copy.__annotations__, copy.__doc__ = member.__kwdefaults__, member.__annotations__, text
    return copy


@pytest.mark.parametrize("check, member, lines, message", [
    (library_gaps, complete, ("Returns", "Array of"), "lacks Returns"),
    (library_gaps, complete, ("Array of",), "lacks Returns"),
    (library_gaps, complete, ("Raises", "ShapeError"), "lacks Raises"), (library_gaps, complete, ("Source",), "lacks Source"),
    (library_gaps, complete, (">>>", "2"), "lacks example"), (library_gaps, complete, ("axis",), "Args lacks axis"),
    (extend_gaps, complete, ("Raises", "ShapeError"), "lacks Raises"), (extend_gaps, complete, ("",), "has no docstring"),
    (extend_gaps, Pair, ("two:",), "Attributes lacks two"),
    (extend_gaps, Pair, ("Attributes", "one:", "two:"), "lacks Attributes"),
    (extend_gaps, NoConstructor, (">>>",), "lacks example"), (extend_gaps, returns_nothing, ("Args", "x:"), "lacks Args")])
def test_missing_part_is_reported(check: Callable[[Any], Iterator[str]], member: Any, lines: tuple[str, ...],
                                  message: str) -> None:
    assert any(message in gap for gap in check(without(member, *lines)))


@pytest.mark.parametrize("old, new, message", [
    ("one axis.\n", "one axis\n", "full stop"), ("axis: the", "axes: the", "describes axes, which are not parameters"),
    ("Args:\n", "Source: x.\n\nArgs:\n", "in the order Source, Args")])
def test_wrong_part_is_reported(old: str, new: str, message: str) -> None:
    member = without(complete)
    member.__doc__ = inspect.cleandoc(member.__doc__).replace(old, new)  # Python 3.13 removes the indentation itself
    assert any(message in gap for gap in library_gaps(member))


INIT = '''from . import extend
from ._new import *
__all__ = ["extend", "scan", %s]
def scan(): "Scan."
other_scan = scan
'''
NEW = '''__all__ = ["Ragged", "new"]
class Ragged:
    """Ragged array.

    .. versionadded:: 0.2.0
    """
def new():
    """New function."""
def other():
    """Not public."""
'''


def test_names_newer_than_the_first_release_need_their_version(
        checkout: Path, git: Callable[..., None], write_package: Callable[[Path, list[str], str], None],
        monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkout / "packages" / "lamina-made-up"
    write_package(folder, [], INIT % "")
    package = packages(checkout)["lamina-made-up"]
    for name in ("extend", "_new"):
        (package.source / f"{name}.py").write_text("__all__ = []\n")
    git("add", "--all")
    git("commit", "--quiet", "--message", "first release")
    for name in ("extend", "_new"):
        (package.source / f"{name}.py").write_text(NEW)
    (package.source / "__init__.py").write_text(INIT % '"Ragged", "new", "other_scan"')
    monkeypatch.syspath_prepend(str(package.source.parent))
    assert list(version_gaps(package, checkout)) == []  # not released
    git("tag", "lamina-made-up-v0.1.0")
    assert list(version_gaps(package, checkout)) == [
        f"lamina_made_up{module}.new: lacks `.. versionadded::`; the first release of lamina-made-up has no such name"
        for module in (".extend", "")]
    git("commit", "--quiet", "--all", "--message", "new names")
    git("tag", "--force", "lamina-made-up-v0.1.0")
    assert list(version_gaps(package, checkout)) == []


def test_all_public_docstrings_are_complete() -> None:
    assert check_docstrings.check() == []
