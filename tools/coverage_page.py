"""Writes `docs/coverage.md`: which public names of JAX 0.4.30 are here, module by module, and which are not.

usage: python tools/coverage_page.py [--check] [--out FILE]

The names stand in `tests/roof/core_names.tsv`; whether each is here is looked up in the live package. `--check` writes nothing
and fails where the page differs from what is there.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "coverage.md"
sys.path.insert(0, str(ROOT / "tests" / "roof"))
HEAD = """# Coverage

Written by `tools/coverage_page.py` from `tests/roof/core_names.tsv` and the live package; do not edit.

The public names of JAX 0.4.30 that `tests/roof/core_names.tsv` lists: its stable modules, and the members of their classes;
`jax.experimental` is not among them. *there*: names found here by the same path. That a name is here says nothing of what it
does: the [reference](reference/index.md) does, and [coming from JAX](coming-from-jax.md) says what is otherwise. A test
(`tests/roof/test_core_names.py`) refuses a change that takes a name away.
"""


def rows() -> dict[str, list[tuple[str, bool]]]:
    """Path of a module or class below `lamina` -> its names, and whether each is here."""
    from test_core_names import looked_up

    found: dict[str, list[tuple[str, bool]]] = {}
    for path, name, there in looked_up():
        found.setdefault(path, []).append((name, there == "yes"))
    return found


def is_module(path: str) -> bool:
    """Whether a path is a module's: a class's names, and those of an array, are told apart."""
    last = path.split(".")[-1]
    return path not in ("numpy.ufunc", "custom_jvp", "custom_vjp", "custom_batching.custom_vmap",
                        "custom_transpose.custom_transpose", "scipy.stats.gaussian_kde") \
        and not path.startswith("Array") and not last[:1].isupper() and not is_scalar_type(path)


def is_scalar_type(path: str) -> bool:
    """Whether a path is that of an element type of `lamina.numpy`."""
    module, _, name = path.rpartition(".")
    return module == "numpy" and name not in ("fft", "linalg")


def table(found: dict[str, list[tuple[str, bool]]]) -> list[str]:
    """A table, its paths by name."""
    lines = ["| | names | there | missing |", "| --- | --- | --- | --- |"]
    for path, names in sorted(found.items()):
        missing = ", ".join(f"`{name or 'the module'}`" for name, there in names if not there)
        if all(not there for _, there in names):
            missing = "all of it"
        lines.append(f"| `{f'lamina.{path}'.rstrip('.')}` | {len(names)} | {sum(there for _, there in names)} | {missing} |")
    return lines


def page() -> str:
    """The whole page."""
    found = rows()
    every = [there for names in found.values() for _, there in names]
    scalars = {path: names for path, names in found.items() if is_scalar_type(path) and path != "numpy.ufunc"}
    merged = {"numpy: members of element types": [name for names in scalars.values() for name in names]} if scalars else {}
    classes = {path: names for path, names in found.items() if not is_module(path) and path not in scalars} | merged
    modules = {path: names for path, names in found.items() if is_module(path)}
    return "\n".join([HEAD, f"{sum(every)} of {len(every)} names are here.", "", "## Modules", "", *table(modules), "",
                      "## Classes", "", *table(classes), ""])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args(argv)
    text = page()
    if not options.check:
        options.out.write_text(text, encoding="utf-8")
        print(f"coverage_page: wrote {options.out}")
        return 0
    if options.out.exists() and options.out.read_text(encoding="utf-8") == text:
        print("coverage_page: the page is what is there")
        return 0
    print(f"coverage_page: {options.out} is behind what is there; run `python tools/coverage_page.py`")
    return 1


if __name__ == "__main__":
    sys.exit(main())
