"""Files and commands of Markdown pages; the pages that tests/installation follows have them."""
from __future__ import annotations

import page_steps
import pytest
from packages import ROOT, alternative_layers

PAGE = """# A page

This is `a/b.toml`:

```toml
x = 1

[y]
```

Not a file:

```python
f()
```

## Run

```console
$ one
1
2
$ two
```

### More

```console
three    # 3
four
```

## End

```console
five
```
"""
TUTORIAL = (ROOT / "docs" / "contributing" / "replacing-a-layer.md").read_text(encoding="utf-8")


def test_files_are_the_blocks_after_their_paths() -> None:
    assert page_steps.files(PAGE) == {"a/b.toml": "x = 1\n\n[y]\n"}


def test_commands_have_the_output_that_the_page_shows() -> None:
    found = [("one", "1\n2\n"), ("two", ""), ("three    # 3", ""), ("four", ""), ("five", "")]
    assert page_steps.commands(PAGE) == found
    assert page_steps.commands(page_steps.section(PAGE, "Run")) == found[:-1]
    with pytest.raises(ValueError, match="no heading `## Walk`"):
        page_steps.section(PAGE, "Walk")


def test_readme_installs_with_three_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [command.line.split()[:3] for command in page_steps.commands(page_steps.section(readme, "Install"))] == [
        ["python3", "-m", "pip"], ["python3", "-m", "pip"], ["python3", "-c", '"import']]


def test_tutorial_shows_the_files_of_the_example() -> None:
    folder = alternative_layers()["loop-batching"].folder
    shown = page_steps.files(TUTORIAL)
    sources = {str(path.relative_to(folder.parent)): path.read_text(encoding="utf-8") for path in folder.rglob("src/**/*.py")}
    assert {path: text for path, text in shown.items() if path.endswith(".py")} == sources
    assert sorted(shown) == sorted([*sources, "loop-batching/pyproject.toml"])
    # The example also has a table that tools/run_alternative_layers.py reads.
    settings = (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert settings.startswith(shown["loop-batching/pyproject.toml"] + "\n# How tools/run_alternative_layers.py")
