"""Each gap of a docstring is named; a whole one passes; the list of names let off only gets shorter."""
from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import check_docstrings
import pytest


def whole(x: Any, /, *rest: Any, axis: int = 0) -> Any:
    """Running sum along one axis.

    Args:
      x: number array `[..., n, ...]`,
        of any dtype.
      *rest: more of them.
      axis: the axis of length `n`.
    Returns:
      Array of the shape and dtype of `x`.
    Raises:
      ShapeError: `axis` is outside.

    Derivative: linear.
    Source: meaning of `numpy.cumsum`.

    >>> 1 + 1
    2
    """


def without(*lines: str, text: str = whole.__doc__ or "") -> Any:
    def fun(x: Any, /, *rest: Any, axis: int = 0) -> Any:
        return x
    fun.__doc__ = "\n".join(line for line in text.splitlines() if not any(line.strip().startswith(start) for start in lines))
    return fun


def test_a_whole_docstring_has_no_gap() -> None:
    assert list(check_docstrings.gaps(whole)) == []


def test_a_function_without_parameters_needs_neither_args_nor_raises() -> None:
    def fun() -> int:
        """Two.

        Returns:
          The number 2.

        Source: arithmetic.

        >>> 2
        2
        """
        return 2
    assert list(check_docstrings.gaps(fun)) == []


@pytest.mark.parametrize("lines, says", [
    (("Returns", "Array of"), "has no Returns:"), (("Raises", "ShapeError"), "has no Raises:"),
    (("Source",), "has no Source:"), ((">>>", "2"), "has no example"), (("axis",), "Args: does not name axis"),
    (("Array of",), "says nothing about Returns")])
def test_each_gap_is_named(lines: tuple[str, ...], says: str) -> None:
    assert any(says in gap for gap in check_docstrings.gaps(without(*lines)))


@pytest.mark.parametrize("old, new, says", [
    ("one axis.\n", "one axis\n", "full stop"), ("axis: the", "axes: the", "names axes, which it does not take"),
    ("Args:\n", "Source: x.\n\n    Args:\n", "order"), ("Running", "Running " * 20, "longer than 120")])
def test_what_is_said_wrongly_is_named(old: str, new: str, says: str) -> None:
    assert any(says in gap for gap in check_docstrings.gaps(without(text=(whole.__doc__ or "").replace(old, new))))


def test_the_list_of_names_let_off_only_gets_shorter() -> None:
    bare = without("Args", "Returns", "Raises", "Source", ">>>")
    functions = [("room.whole", whole), ("room.bare", bare)]
    assert check_docstrings.breaches(functions, ["room.bare"]) == []
    assert any("room.bare: has no" in line for line in check_docstrings.breaches(functions, []))
    assert any("take it off" in line for line in check_docstrings.breaches(functions, ["room.bare", "room.whole"]))
    gone = check_docstrings.breaches(functions, ["room.bare", "room.gone"])
    assert any("no public function room.gone" in line for line in gone)


def test_folders_are_told_by_their_source() -> None:
    found = {name: check_docstrings.folder_of(fun) for name, fun in check_docstrings.public_functions()}
    assert found["lamina_numpy.sum"] == "_reduce" and found["lamina_numpy.linalg.norm"] == "linalg"
    assert found["lamina_numpy.fft.fft"] == "fft" and found["lamina_random.normal"] == "lamina_random"
    assert found["lamina_numpy.where"] == "_index" and found["lamina_numpy.sin"] == "_elementwise"


def test_the_house_has_no_gap_but_those_on_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_docstrings.main([]) == 0, capsys.readouterr().out
    assert check_docstrings.main(["_reduce"]) == 0
    assert check_docstrings.main(["_nowhere"]) == 1


def test_the_list_is_sorted() -> None:
    names = check_docstrings.to_do(Path(check_docstrings.TO_DO))
    assert names == sorted(set(names))


# --- the doors ----------------------------------------------------------------------------------------------------
def door_fun(x: Any, *rest: Any, axis: int = 0) -> Any:
    """Running sum along one axis.

    Args:
      x, *rest: number arrays.
      axis: the axis.
    Returns:
      An array.
    Raises:
      ValueError: there is no such axis.

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


class Plain:
    """Nothing to give it.

    >>> _ = Plain()
    """


class Asked(Protocol):
    """What is asked for.

    >>> Asked.__name__
    'Asked'
    """

    one: int


def quiet(x: int) -> None:
    """Nothing comes of it.

    Args:
      x: a number.

    >>> quiet(1)
    """
    def fail() -> None:
        raise ValueError("not a thing this function does itself")


@pytest.mark.parametrize("shown", [door_fun, Pair, Plain, Asked, quiet])
def test_a_whole_docstring_at_a_door_has_no_gap(shown: Any) -> None:
    assert list(check_docstrings.door_gaps(shown)) == []


def bare(shown: Any, *lines: str) -> Any:
    """The same with other words."""
    text = "\n".join(line for line in (shown.__doc__ or "").splitlines() if not any(line.strip().startswith(w) for w in lines))
    if isinstance(shown, type):
        return type(shown.__name__, (shown,), {"__doc__": text})

    @functools.wraps(shown)
    def other(*args: Any, **kwargs: Any) -> Any:
        return shown(*args, **kwargs)
    other.__doc__ = text
    return other


@pytest.mark.parametrize("shown, lines, says", [
    (door_fun, ("Raises", "ValueError"), "has no Raises:"), (door_fun, ("Returns", "An array"), "has no Returns:"),
    (door_fun, ("axis:",), "Args: does not name axis"), (door_fun, (">>>", "2"), "has no example"),
    (door_fun, ("",), "has no docstring"), (Pair, ("two:",), "Attributes: does not name two"),
    (Pair, ("Attributes", "one:", "two:"), "has no Attributes:"), (Plain, (">>>",), "has no example"),
    (quiet, ("Args", "x:"), "has no Args:")])
def test_each_gap_at_a_door_is_named(shown: Any, lines: tuple[str, ...], says: str) -> None:
    assert any(says in gap for gap in check_docstrings.door_gaps(bare(shown, *lines)))


def test_a_value_at_a_door_stands_in_the_modules_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [("lamina_tracing.extend.transformations", "now", object())]
    assert check_docstrings.door_breaches(shown) == []
    shown = [("lamina_tracing.extend.transformations", "then", object())]
    assert any("does not say what `then` is" in line for line in check_docstrings.door_breaches(shown))


def test_every_reader_is_visited() -> None:
    modules = {module for module, _, _ in check_docstrings.doors()}
    assert {"lamina_ir.extend.ops", "lamina_tracing.extend.dispatchers", "lamina_batching.extend.transformations",
            "lamina_autodiff.extend", "lamina_parallel.extend", "lamina_lowering.extend"} <= modules


def test_the_doors_have_no_gap(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_docstrings.main(["--doors"]) == 0, capsys.readouterr().out
