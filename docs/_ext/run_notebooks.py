"""Execute the notebooks in docs/notebooks, and keep their outputs for the pages of the documentation.

usage: python docs/_ext/run_notebooks.py [notebook ...]

The sources are Python files in jupytext's percent format; no .ipynb is in git. jupytext, nbclient and ipykernel are in an
environment of their own, .cache/notebooks, which sees the packages of this interpreter. docs/_ext/build_docs.py writes the
pages: with outputs if this version of a notebook was executed, else without. nbconvert is not used, because it needs 20
more distributions.
"""
from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import site
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "notebooks"
ENVIRONMENT = ROOT / ".cache" / "notebooks"
OUTPUTS = ENVIRONMENT / "outputs"
TIME_LIMIT = 300  # seconds for a cell
CELL = re.compile(r"^# %%(.*)\n", re.MULTILINE)
KERNEL_FILE = re.compile(r"/\S*/ipykernel_\d+/\d+\.py")  # the file name of a cell, in source lines


def set_up() -> Path:
    """Create the environment, or replace it if the requirements changed; return its interpreter."""
    python, stamp = ENVIRONMENT / "bin" / "python", ENVIRONMENT / "stamp"
    requirements = SOURCES / "requirements.txt"
    packages = site.getsitepackages()[0]
    digest = hashlib.sha256(f"{requirements.read_text(encoding='utf-8')}\n{packages}\n{sys.version}".encode()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != digest:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
        install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
        subprocess.run([str(python), *install], check=True)
        [own] = ENVIRONMENT.glob("lib/python*/site-packages")
        (own / "lamina_environment.pth").write_text(f"import site; site.addsitedir({packages!r})\n", encoding="utf-8")
        stamp.write_text(digest, encoding="utf-8")
    return python


def split_cells(source: str) -> list[dict[str, Any]]:
    """Return the cells of a file in percent format, without outputs, as nbformat writes them."""
    parts = CELL.split(source)[1:]
    cells: list[dict[str, Any]] = []
    for kind, text in zip(parts[::2], parts[1::2]):
        if kind.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines()]
            cells.append({"cell_type": "markdown", "source": "\n".join(lines)})
        else:
            cells.append({"cell_type": "code", "source": text.strip(), "outputs": []})
    return cells


def execute(path: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook with their outputs. Runs in the environment of `set_up`.

    Raises:
      CellExecutionError: a cell raised an exception.
    """
    import jupytext
    from nbclient import NotebookClient
    notebook = jupytext.read(path)
    client = NotebookClient(notebook, kernel_name="python3", timeout=TIME_LIMIT, resources={"metadata": {"path": str(SOURCES)}})
    client.extra_arguments = ["--log-level=ERROR"]  # the kernel warns that it listens on the loopback device
    client.execute()
    return notebook.cells


def execute_all(paths: list[Path]) -> None:
    """Execute notebooks one after the other, and keep their cells with the outputs."""
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    for path in paths:
        start, source = time.monotonic(), path.read_text(encoding="utf-8")
        kept = json.dumps({"source": source, "cells": execute(path)})
        (OUTPUTS / f"{path.stem}.json").write_text(kept, encoding="utf-8")
        print(f"notebooks: {path.name} executed in {time.monotonic() - start:.0f} s", flush=True)


def pages() -> dict[str, str]:
    """Return the files of all notebooks by their paths in docs/_generated: pages in Markdown, and pictures."""
    found: dict[str, str] = {}
    for path in sorted(SOURCES.glob("*.py")):
        source, kept = path.read_text(encoding="utf-8"), OUTPUTS / f"{path.stem}.json"
        executed = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
        cells = executed["cells"] if executed.get("source") == source else split_cells(source)
        page, pictures = render(path.stem, cells)
        found |= {f"notebooks/{path.stem}.md": page, **{f"notebooks/{name}": svg for name, svg in pictures.items()}}
    return found


def render(name: str, cells: list[dict[str, Any]]) -> tuple[str, dict[str, str]]:
    """Return a page in Markdown, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, str] = {}
    for cell in cells:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(fenced(cell["source"], "python"))
        printed = "".join(output["text"] for output in cell["outputs"] if output.get("name") == "stdout")
        parts += [fenced(printed, "text")] * bool(printed)
        for data in (output["data"] for output in cell["outputs"] if "data" in output):
            if "image/svg+xml" in data:
                picture, svg = f"{name}-{len(pictures) + 1}.svg", data["image/svg+xml"]
                title = re.match(r"<svg[^>]*>\s*<title>([^<]*)<", svg)
                pictures[picture] = svg
                parts.append(f"![{title[1] if title else 'The result as a drawing'}]({picture})")
            else:
                is_html = "text/html" in data
                html = f'<div style="overflow-x: auto">{data.get("text/html")}</div>'
                parts.append(fenced(html, "{raw} html") if is_html else fenced(data["text/plain"], "text"))
    return KERNEL_FILE.sub("cell", "\n\n".join(parts)) + "\n", pictures


def fenced(text: str, language: str) -> str:
    """Return a fenced block of code or output."""
    return f"```{language}\n{text.rstrip()}\n```"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="*", help="names without .py; default: all")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # this process is the environment's
    options = parser.parse_args(argv)
    known = {path.stem: path for path in sorted(SOURCES.glob("*.py"))}
    if unknown := sorted(set(options.notebooks) - set(known)):
        parser.error(f"unknown notebook {', '.join(unknown)}; expected {', '.join(known)}")
    paths = [known[name] for name in options.notebooks] or list(known.values())
    if options.inside:
        execute_all(paths)
        return 0
    settings = {"IPYTHONDIR": str(ENVIRONMENT / "ipython"), "JUPYTER_PLATFORM_DIRS": "1", "TF_CPP_MIN_LOG_LEVEL": "1"}
    command = [str(set_up()), str(Path(__file__).resolve()), "--inside", *(path.stem for path in paths)]
    return subprocess.run(command, env={**os.environ, **settings}).returncode


if __name__ == "__main__":
    sys.exit(main())
