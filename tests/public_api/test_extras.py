"""The extras of the umbrella package pin a GPU plugin and the jaxlib of the same version for each Python."""
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "packages/lamina/pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("cuda", ["12", "13"])
def test_plugin_and_jaxlib_have_the_same_version(cuda):
    pins = {}
    for line in PROJECT["optional-dependencies"][f"cuda{cuda}"]:
        requirement, marker = line.split(";")
        name, version = requirement.split("==")
        pins.setdefault(marker.strip(), {})[name.strip()] = version.strip()
    assert set(pins) == {"python_version < '3.12'", "python_version >= '3.12'"}
    for pair in pins.values():
        assert set(pair) == {"jaxlib", f"jax-cuda{cuda}-plugin[with-cuda]"} and len(set(pair.values())) == 1
