"""Writes the tables of `docs/settings.md` from the live settings.

usage: python tools/settings_table.py [--check]

`--check` writes nothing and fails where the page differs from the settings.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "settings.md"
BEGIN, END = "<!-- written by tools/settings_table.py -->", "<!-- end of what is written -->"
# Where more is said about a setting.
PAGES = {"debug_nans": "looking-inside.md#nans", "debug_infs": "looking-inside.md#nans",
         "debug_bounds": "looking-inside.md#checks-and-indices", "check_tracer_leaks": "looking-inside.md#transfers-and-leaks",
         "log_compiles": "looking-inside.md#why-was-this-compiled-again",
         "explain_cache_misses": "looking-inside.md#why-was-this-compiled-again",
         "compilation_cache": "staging.md#what-is-kept", "compilation_cache_dir": "staging.md#what-is-kept",
         "compilation_cache_max_bytes": "staging.md#what-is-kept", "mesh": "meshes.md#a-mesh-in-scope",
         "serial_loops": "named-axes.md#axes-in-turns", "wholes": "named-axes.md#a-mesh-of-several-processes",
         "replicated_counts_once": "collectives.md#the-other-reading-as-a-setting", "agreement": "agreement.md",
         "collective_timeout_seconds": "agreement.md#who-does-not-come",
         "transfer_guard": "looking-inside.md#transfers-and-leaks"}


def values(option: Any) -> str:
    """What a setting takes."""
    kinds = {bool: "False, True", int: "a whole number", float: "a number", str: "text"}
    found = ", ".join([f'`"{c}"`' if isinstance(c, str) else str(c) for c in option.choices or ()])
    found = found or kinds.get(option.kind, "")
    return f"{found}, None" if option.initial is None and found else found


def row(option: Any) -> str:
    """A setting's line."""
    default = f'`"{option.initial}"`' if isinstance(option.initial, str) else str(option.initial)
    names = ", ".join([f"`{name}`" for name in (option.name, *option.also)])
    where = PAGES.get(option.name)
    about = f"[{option.help}]({where})" if where else option.help
    return "| " + " | ".join([names, default, values(option), about + (f"; {option.inert}" if option.inert else "")]) + " |"


def tables() -> str:
    """Both tables: what takes effect, and what is accepted and does nothing."""
    import lamina.config  # noqa: F401  (makes the settings of all rooms)
    import lamina_ir.flags  # noqa: F401
    from lamina_ir import config

    every = sorted({id(o): o for o in config.options.values()}.values(), key=lambda o: o.name)
    ours = [o for o in every if not o.inert]
    others = [o for o in every if o.inert]
    head = ["| setting | default | values | does |", "| --- | --- | --- | --- |"]
    return "\n".join([BEGIN, "", *head, *map(row, ours), "",
                      "Flags of other systems that choose between ways of which there is one here. They are accepted and",
                      "checked; setting one to another value than its default warns once, by name, that it has no effect.", "",
                      "| setting | default | values | would choose; why it does not |", head[1], *map(row, others), "", END])


def main(argv: list[str] | None = None) -> int:
    """Write the tables, or say whether they are as the settings are."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--check", action="store_true")
    check = options.parse_args(argv).check
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    made = before + tables() + rest.split(END)[1]
    if check:
        if made != text:
            print(f"{PAGE.relative_to(ROOT)} is not what the settings say; run python tools/settings_table.py", file=sys.stderr)
        return int(made != text)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
