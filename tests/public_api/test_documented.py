"""Every command, environment variable, setting, hook and error code is documented."""
import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import lamina
import lamina_see
import pytest
from error_examples import EXAMPLES
from lamina_compat._command_line import COMMANDS
from lamina_ir import config
from lamina_tracing import hooks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = sorted((ROOT / "packages").glob("*/src/**/*.py"))
# Modules that run the command of another one.
SAME_COMMAND = {"lamina_compat": "lamina", "lamina_see": "lamina", "lamina_distributed.launch": "lamina.launch"}
# Names of `lamina_tracing.hooks` that are not hooks: types, setters, and lists of functions to call on events.
NOT_HOOKS = {"CallSpec", "Dispatcher", "Evaluator", "NumPyEvaluator", "Operators", "device_put", "find_basis_map",
             "set_basis_map", "set_dispatcher", "set_evaluator", "use_numpy", "on_devices_closed", "on_staging",
             "staging_context_hooks"}
# Settings that other functions set, not users.
NOT_FOR_USERS = {"mesh"}


def runnable_modules() -> Iterator[str]:
    """Yield the modules of the packages that `python -m` runs."""
    for path in SOURCES:
        module = ".".join(path.relative_to(path.parents[len(path.parts) - path.parts.index("src") - 2]).with_suffix("").parts)
        if path.name == "__main__.py":
            yield module.removesuffix(".__main__")
        elif 'if __name__ == "__main__"' in path.read_text(encoding="utf-8"):
            yield module


def environment_variables() -> set[str]:
    """Return the names that the sources look up in the environment."""
    found: set[str] = set()
    for path in SOURCES:
        reads_launchers = path.name == "cluster_env.py"  # in tables of its own
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.fullmatch(r"LAMINA(_[A-Z]+)+" + "|[A-Z]+(_[A-Z]+)+" * reads_launchers, node.value):
                    found.add(node.value)
            elif isinstance(node, ast.Call | ast.Subscript | ast.Compare):
                text = ast.unparse(node.func if isinstance(node, ast.Call) else node)
                if re.search(r"\b(environ|env|_get_variable)\b", text):
                    values = [v.value for v in ast.walk(node) if isinstance(v, ast.Constant) and isinstance(v.value, str)]
                    found.update([v for v in values if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", v) and len(v) > 2])
    return found


def test_all_commands_are_listed():
    listed = {command.removeprefix("python -m ") for command in COMMANDS}
    modules = {command for command in listed if " " not in command}
    assert {SAME_COMMAND.get(module, module) for module in runnable_modules()} == modules
    assert {command.removeprefix("lamina ") for command in listed - modules} <= set(lamina_see.COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_command_explains_itself_and_is_documented(command):
    done = subprocess.run([sys.executable, *command.split()[1:], "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"usage: {command} ") and "--json" in done.stdout and not done.stderr
    page = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    assert command in page or command.endswith(".conformance") and "python -m lamina_LAYER.conformance" in page
    for option in set(re.findall(r"--[a-z-]+", done.stdout)) - {"--help"}:
        assert f"`{option}" in page, option


def test_help_and_json_list_the_commands():
    shown, listed = (subprocess.run([sys.executable, "-m", "lamina", option], capture_output=True, text=True, check=True).stdout
                     for option in ("--help", "--json"))
    assert json.loads(listed) == COMMANDS
    assert all(f"  {command}: " in shown for command in COMMANDS)


def test_environment_variables_are_documented():
    page = (DOCS / "reference" / "environment-variables.md").read_text(encoding="utf-8")
    found = environment_variables()
    assert {"LAMINA_TOKEN", "LAMINA_CACHE", "XLA_FLAGS", "SLURM_PROCID", "TERM"} <= found
    assert not sorted(name for name in found if name not in page)


def test_settings_have_help_and_the_generated_page_lists_them(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    build_docs = importlib.import_module("build_docs")
    page = build_docs.settings_page()
    assert lamina.config.values
    for name, option in config.options.items():
        assert option.help and (f"`{name}`" in page or name in NOT_FOR_USERS), name


def test_hooks_are_documented():
    page = (DOCS / "design" / "architecture.md").read_text(encoding="utf-8").partition("## Hooks")[2].partition("\n## ")[0]
    assert not [name for name in hooks.__all__ if f"`{name}`" not in page and name not in NOT_HOOKS]


def test_generated_page_describes_each_error_code(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    page = importlib.import_module("error_pages").page()
    for code, example in EXAMPLES.items():
        _, _, section = page.partition(f"### {code}: {example.error.rpartition('.')[2]}\n")
        section = section.partition("\n### ")[0]
        assert "**Fix**: " in section and "**Catch** " in section and example.program.strip() in section, code
        assert (f"[{code}] lamina.errors" in section) == bool(example.program and example.processes == 1), code
