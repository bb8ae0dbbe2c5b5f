"""Generate docs/_generated, which is not in git, and check the links of all pages.

usage: python docs/_ext/build_docs.py

- `api/`: a page for each public module, class and function (api_pages.py), which `nox -s site` fills from the docstrings.
- `ops.md`, `ops/`: the primitives (operation_pages.py).
- `notebooks/`: the notebooks of docs/notebooks, with outputs if `nox -s notebooks` ran before (run_notebooks.py).
- `benchmarks.md`: times compared with jax, and a plot (benchmark_page.py).
- `errors.md`: the codes of errors, with cause, example and fix (error_pages.py).
- `settings.md`: the settings. `coverage.md`: which public names of JAX 0.4.30 and of its newest release exist, what to use for
  the others, and which calls differ.
"""
from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import api_pages
import benchmark_page
import check_links
import error_pages
import operation_pages
import run_notebooks
from operation_pages import table

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "docs" / "_generated"
PUBLIC_API_TESTS = ROOT / "tests" / "public_api"
# Pages with more about a setting.
SETTING_PAGES = {
    "replay_folder": "docs/how-to/replay-failing-calls.md", "replay_nonfinite": "docs/how-to/replay-failing-calls.md",
    "shadow_every": "docs/how-to/replay-failing-calls.md",
    "shadow_wait": "docs/how-to/replay-failing-calls.md",
    "debug_nans": "docs/how-to/debug-a-nan.md", "debug_infs": "docs/how-to/debug-a-nan.md",
    "debug_bounds": "docs/how-to/looking-inside.md#checks-and-indices",
    "check_tracer_leaks": "docs/how-to/looking-inside.md#transfers-and-leaks",
    "transfer_guard": "docs/how-to/looking-inside.md#transfers-and-leaks",
    "log_compiles": "docs/how-to/stop-recompiling.md",
    "explain_cache_misses": "docs/how-to/stop-recompiling.md",
    "compilation_cache": "docs/how-to/staging.md#caches", "compilation_cache_dir": "docs/how-to/staging.md#caches",
    "compilation_cache_max_bytes": "docs/how-to/staging.md#caches", "mesh": "docs/how-to/meshes.md#a-mesh-in-scope",
    "serial_loops": "docs/how-to/named-axes.md#serial-axes",
    "global_view": "docs/how-to/named-axes.md#a-mesh-of-several-processes",
    "replicated_counts_once": "docs/design/collectives.md#the-other-interpretation-as-a-setting",
    "agreement": "docs/how-to/several-processes/launch-consistency.md",
    "collective_timeout_seconds": "docs/how-to/several-processes/launch-consistency.md#processes-that-do-not-launch",
    "collective_report_seconds": "docs/how-to/several-processes/launch-consistency.md#find-out-where-each-process-is"}


def link(path: str) -> str:
    """Return a link from a page in OUT to a file of the repository."""
    return os.path.relpath(ROOT / path, OUT).replace(os.sep, "/")


def settings_page() -> str:
    """Return the tables of all settings: those that have an effect, and those accepted for compatibility with JAX."""
    import lamina.config
    import lamina.replay  # noqa: F401  (defines its own)
    import lamina_ir._config.jax_compat_flags  # noqa: F401  (defines the settings of the second table)
    from lamina_ir import config
    kinds = {bool: "False, True", int: "an integer", float: "a number", str: "text"}

    def show(value: Any) -> str:
        return f'`"{value}"`' if isinstance(value, str) else str(value)

    def line(option: Any) -> str:
        values = ", ".join(map(show, option.choices or ())) or kinds.get(option.kind, "")
        page = SETTING_PAGES.get(option.name)
        about = f"[{option.help}]({link(page)})" if page else option.help
        return "| " + " | ".join([", ".join(f"`{name}`" for name in (option.name, *option.aliases)), show(option.initial),
                                  f"{values}, None" if option.initial is None and values else values,
                                  f"{about}; {option.no_effect_reason}" if option.no_effect_reason else about]) + " |"

    options = sorted({id(o): o for o in config.options.values()}.values(), key=lambda o: o.name)
    return "\n".join(["# All settings", "", "Generated from the live settings.", "",
                      *table("setting", "default", "values", "effect"),
                      *(line(o) for o in options if not o.no_effect_reason), "",
                      "These flags of JAX are accepted and checked, and have no effect here; setting one warns once.", "",
                      *table("setting", "default", "values", "effect in JAX; why none here"),
                      *(line(o) for o in options if o.no_effect_reason), ""])


def release_rows(release: str) -> list[tuple[str, int, int, str]]:
    """Return (module, public names, existing names, missing ones) for the modules of a release of JAX.

    A module that does not exist has its explanation; the modules inside of it have no row.
    """
    from test_absent_names import ABSENT, exists, find_module, read_names
    rows = []
    for path, public, _ in read_names(release):
        module, dotted = find_module(path), f"lamina.{path}".rstrip(".")
        if module is None and path not in ABSENT:
            continue
        missing = [name for name in public if module is None or not exists(module, name)]
        about = f"the module: {ABSENT[path]}" if module is None else ", ".join(f"`{name}`" for name in missing)
        rows.append((dotted, len(public), len(public) - len(missing), about))
    return rows


def release_sections() -> list[str]:
    """Return the counts for each release of JAX, the tables of its modules, and the explanations of absent names."""
    from test_absent_names import GROUPS, RELEASES
    found = {release: release_rows(release) for release in RELEASES}
    lines = table("release of JAX", "modules", "public names", "existing names")
    for release, rows in found.items():
        existing = sum(existing for _, _, existing, _ in rows)
        lines.append(f"| {release} | {len(rows)} | {sum(names for _, names, _, _ in rows)} | {existing} |")
    for release, rows in found.items():
        lines += ["", f"## Names of JAX {release}", "", *table("module", "names", "existing", "missing"),
                  *(f"| `{path}` | {names} | {existing} | {missing} |" for path, names, existing, missing in rows)]
    lines += ["", "## Names that do not exist", "", "The errors about them end with these explanations.", "",
              *table("explanation", "names")]
    for text, modules in GROUPS:
        names = [f"`{f'{module}.{name}'.lstrip('.')}`" for module, listed in modules.items() for name in listed.split()]
        lines.append(f"| {text} | {', '.join(names)} |")
    return lines


def coverage_page() -> str:
    """Return the page that counts the public names of JAX that exist, and lists the calls that differ."""
    sys.path.insert(0, str(PUBLIC_API_TESTS))
    from test_call_forms import DIFFERENT
    from test_core_names import look_up_all
    holders: dict[str, list[tuple[str, bool]]] = {}
    for path, name, there in look_up_all():
        holders.setdefault(f"lamina.{path}".rstrip("."), []).append((name or "the module", there == "yes"))
    lines = ["# Coverage", "", "Generated from the live package and the names of JAX that `tests/public_api` lists: those of "
             "release 0.4.30, whose programs run here, and those of the newest release. Names that JAX's modules only import, "
             "and modules inside of absent ones, are not counted.", "", *release_sections(), "",
             "## Stable modules and classes of JAX 0.4.30", "", "With the members of their classes; from "
             "`core_names.tsv`.", "", *table("module or class", "names", "existing", "missing")]
    for path, names in sorted(holders.items()):
        missing = [f"`{name}`" for name, exists in names if not exists]
        lines.append(f"| `{path}` | {len(names)} | {len(names) - len(missing)} | "
                     f"{'all' if len(missing) == len(names) else ', '.join(missing)} |")
    lines += ["", "## Calls that differ", "", "Generated from `test_call_forms.py`, which runs them (`J` is an array).", "",
              *table("call", "reason"), *(f"| `{call}` | {reason} |" for call, reason in DIFFERENT.items()), ""]
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    """Write a page at once, because sessions that read it may run at the same time.

    A page that has not changed keeps its time, so that Sphinx does not read it again.
    """
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def build(out: Path = OUT) -> None:
    """Write all generated pages, and remove those of names that are gone."""
    conventions = link(operation_pages.CONVENTIONS)
    pages = {**operation_pages.pages(conventions), "settings.md": settings_page(), "coverage.md": coverage_page(),
             "errors.md": error_pages.page(), **benchmark_page.pages(), **run_notebooks.pages(),
             **{f"api/{name}": text for name, text in api_pages.files()}}
    for path in out.rglob("*"):
        if path.is_file() and path.suffix != ".part" and path.relative_to(out).as_posix() not in pages:
            path.unlink(missing_ok=True)
    for name, text in pages.items():
        write(out / name, text.rstrip() + "\n")
    print(f"docs: {len(pages)} generated pages in {out}")


if __name__ == "__main__":
    build()
    sys.exit(check_links.main())
