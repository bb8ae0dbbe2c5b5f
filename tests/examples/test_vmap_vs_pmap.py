"""The demo at a small size, in a separate process, because it configures its devices."""
from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "vmap_vs_pmap.py"


def run(*arguments: str) -> str:
    chosen = ("XLA_FLAGS", "LAMINA_NUM_CPU_DEVICES")
    environment = {key: value for key, value in os.environ.items() if key not in chosen}
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], env=environment, capture_output=True, text=True,
                          encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    out = tmp_path_factory.mktemp("out")
    return run("--vectors", "8000", "--out", str(out)), out


def test_eight_devices_are_used_without_a_flag(small: tuple[str, Path]) -> None:
    assert small[0].count("CpuDevice(id=") >= 8


def test_pmap_over_too_many_rows_names_both_numbers(small: tuple[str, Path]) -> None:
    line = next(line for line in small[0].splitlines() if "ValueError" in line)
    assert "8000" in line and re.search(r"\b8\b", line)


def test_values_are_those_of_the_notebook(small: tuple[str, Path]) -> None:
    for number in ("0.5104", "-0.7174", "-0.2010", "-0.2643", "-1.3696", "2.7447", "1.7936", "-1.1743"):
        assert small[0].count(number) >= 2, number


def test_five_programs_are_printed_in_the_notebook_form(small: tuple[str, Path]) -> None:
    text = small[0]
    assert text.count("{ lambda ; a:f32[8,") == 5
    assert text.count("xla_pmap[") == 4 and text.count("xla_call[") == 3
    assert "f:f32[3000] = reshape[dimensions=None new_sizes=(3000,)] d" in text
    assert "dimension_numbers=(((1,), (1,)), ((0,), (0,)))" in text


def test_times_are_printed_and_drawn(small: tuple[str, Path]) -> None:
    text, out = small
    for name in ("pmap(vmap)", "jit(pmap)", "pmap(jit)", "jit(vmap)"):
        assert name in text[text.index("=== Times"):]
    picture = (out / "vmap_vs_pmap.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg") and picture.count("<rect") == 1 + 8


def test_training_ends_above_95_percent(small: tuple[str, Path]) -> None:
    assert len(re.findall(r"^epoch +\d+/30 ", small[0], re.MULTILINE)) == 30
    assert float(re.findall(r"^test accuracy: ([\d.]+)$", small[0], re.MULTILINE)[0]) >= 0.95


def test_training_is_deterministic(small: tuple[str, Path], tmp_path: Path) -> None:
    def losses(text: str) -> list[str]:
        return re.findall(r"epoch +\d+/\d+ +loss ([\d.]+ +test accuracy [\d.]+)", text)
    repeated = losses(run("--vectors", "80", "--epochs", "30", "--out", str(tmp_path)))
    assert len(repeated) == 30 and repeated == losses(small[0])


def test_number_of_vectors_must_be_divisible() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "--vectors", "81"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and "multiple of 8" in done.stderr
