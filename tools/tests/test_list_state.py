"""The page of state is complete, and lists nothing that is gone."""
import ast
import re
from pathlib import Path

import list_state

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"


def listed():
    """(path, name) of every row of the tables in the section on state."""
    text = PAGE.read_text().split("## State that outlives a call")[1].split("\n## ")[0]
    found = set()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1].endswith(".py`"):
            found.update((cells[1].strip("`"), name) for name in re.findall(r"`(\w+)`", cells[2]))
    return found


def test_all_state_is_listed():
    missing = sorted(list_state.all_state() - listed())
    assert not missing, ("docs/architecture.md, section \"State that outlives a call\", does not list these; say what each is, "
                         f"how long it lives and what bounds it, or name constants in capitals: {missing}")


def test_nothing_is_listed_that_is_gone():
    assert not sorted(listed() - list_state.all_state())


def test_what_counts_as_state():
    tree = ast.parse("""
_TABLE = {}
names = ("a",)
_memo: dict = {}
_fixed = {"a": 1}
_grown = [1]
now = _Now()
_grown.append(2)
@lru_cache(maxsize=3)
def f(x):
    global count
    count = 1
""")
    assert list_state.state_of(tree) == {"_memo", "_grown", "now", "f", "count"}
