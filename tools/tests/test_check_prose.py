"""Sentences are found and counted in Markdown and docstrings, and too long ones are reported."""
from __future__ import annotations

from pathlib import Path

import check_prose
import pytest
from check_prose import Sentence, docstring_sentences, find_faults, markdown_sentences

LIMITS = {"longest": 6, "median": 3, "median_of": 2}


@pytest.mark.parametrize("text, words", [
    ("One two. Three four five.", [2, 3]),
    ("A question? An answer.", [2, 2]),
    ("One\ntwo\nthree", [3]),
    ("It is 0.5 wide, e.g. here, cf. Higham.", [8]),
    ("Call `f(x). Then` or `g`.", [2]),
    ("The names `a`, `b`, and `c` are one word.", [6]),
    ("See [the long page](page.md) - now.", [5]),
    ("- one two\n- three\n\nfour five six", [2, 1, 3]),
    ("# A heading\n\ntext", [1]),
    ("| a b c | d |\n| --- | --- |\n| e f | g |\n\nafter it", [2]),
    ("```python\n>>> 1 + 1\n2\n```\n\nafter it", [2]),
    ("<!-- a comment -->\n\n![an image](a.svg) is left", [2]),
])
def test_markdown_sentences_are_counted(text: str, words: list[int]) -> None:
    assert [sentence.words for sentence in markdown_sentences(text)] == words


def test_markdown_sentence_has_the_line_of_its_paragraph() -> None:
    assert [sentence.line for sentence in markdown_sentences("# Title\n\nOne.\nTwo.\n\nThree.")] == [3, 3, 6]


SOURCE = '''"""First line of the module.

    Tree
      of classes
"""


def f(x):
    """Do something with `x`.

    - one entry
      of a list
    - another

    Args:
      x: number array
        of any dtype.
      axis, *rest: more.
    Returns:
      Array of
      the shape.
    Source: a book.

    >>> f(1)
    2

    Last sentence.

    .. versionadded:: 0.2.0
    """
'''


def test_docstring_sentences_are_counted() -> None:
    assert list(docstring_sentences(SOURCE)) == [
        Sentence(1, "First line of the module.", 5),
        Sentence(9, "Do something with Code.", 4),
        Sentence(11, "one entry of a list", 5),
        Sentence(13, "another", 1),
        Sentence(16, "x: number array of any dtype.", 6),
        Sentence(18, "axis, *rest: more.", 3),
        Sentence(19, "Array of the shape.", 4),
        Sentence(22, "a book.", 2),
        Sentence(27, "Last sentence.", 2),
    ]


def test_long_sentence_and_long_median_are_reported() -> None:
    sentences = list(markdown_sentences("One two three four five six seven. One two three four."))
    assert find_faults("a.md", sentences, LIMITS) == [
        "a.md:1: 7 words, at most 6: One two three four five six seven....",
        "a.md: the median sentence has 5.5 words, at most 3"]


def test_median_of_few_sentences_is_not_checked() -> None:
    assert find_faults("a.md", list(markdown_sentences("One two three four.")), LIMITS) == []


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "prose.toml"
    path.write_text('longest = 6\nmedian = 9\nmedian_of = 5\nchecked = ["*.md"]\nnot_checked = []\nnot_yet = [\n'
                    '    "long.md",\n    "short.md",\n    "gone.md",\n]\n', encoding="utf-8")
    (tmp_path / "long.md").write_text("One two three four five six seven.", encoding="utf-8")
    (tmp_path / "short.md").write_text("One two.", encoding="utf-8")
    monkeypatch.setattr(check_prose, "SETTINGS", path)
    monkeypatch.setattr(check_prose, "ROOT", tmp_path)
    monkeypatch.setattr(check_prose, "list_files", lambda paths: ["long.md", "short.md"])
    return path


def test_finished_and_removed_files_are_reported(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_prose.main([]) == 1
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["short.md", "gone.md"]


def test_update_removes_finished_files(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_prose.main(["--update"]) == 0
    assert '    "long.md",\n]' in settings.read_text(encoding="utf-8")
    assert check_prose.main([]) == 0
    assert "1 files are not rewritten yet" in capsys.readouterr().out


def test_all_checks_files_that_are_not_rewritten(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_prose.main(["--all"]) == 1
    assert capsys.readouterr().out.startswith("long.md:1: 7 words")
