"""Take the pictures and the tables of docs/how-to/slow-training.md from examples/slow_transformer, in headless Chromium.

usage: python tools/take_report_pictures.py [--folder FOLDER] [--tries N] [--pictures-only]

The faults are repaired one after the other. Each state is a program `train.py` and a report in FOLDER, by default a temporary
folder; its tables are printed. On a busy machine, `--tries` keeps the fastest of several reports. `--pictures-only` uses the
reports that are in FOLDER. Pictures replace those in docs/how-to/pictures.
"""
from __future__ import annotations

import argparse
import ast
import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "slow_transformer"
PICTURES = ROOT / "docs" / "how-to" / "pictures"
QUALITY = 70  # of WebP
STATES = {"1-recompiles": [], "2-slow": ["batches"], "3-large": ["batches", "judge"],
          "4-repaired": ["batches", "judge", "loss", "step"]}  # state -> functions that are repaired
SEE_STEP = """\
import numpy as np

import lamina
import train

rng = np.random.default_rng(0)
params, words = lamina.device_put(train.init(rng)), next(train.batches(rng))
report = lamina.see(train.step, savings=True, seconds=3)(params, words)
for name in ("step.html", "step.json", "step.txt"):
    report.save(name)
"""


def repair(names: list[str]) -> str:
    """Return the program with faults, with the functions `names` of the repaired one."""
    before, after = [(EXAMPLE / name / "train.py").read_text(encoding="utf-8") for name in ("before", "after")]
    for name in names:
        old, new = [next(ast.get_source_segment(text, f) for f in ast.parse(text).body
                         if isinstance(f, ast.FunctionDef) and f.name == name) for text in (before, after)]
        decorators = [next(line for line in text.splitlines() if line.startswith("@jax.jit")) for text in (before, after)]
        before = before.replace(old, new)
        if name == "step":
            before = before.replace(decorators[0], decorators[1])
    return before


def make_reports(folder: Path, tries: int) -> None:
    """Write the program, the report of its run and that of its step, for each state, and print the tables."""
    env = {**os.environ, "LAMINA_CACHE": "0"}
    for state, names in STATES.items():
        own = folder / state
        own.mkdir(parents=True, exist_ok=True)
        (own / "train.py").write_text(repair(names), encoding="utf-8")
        start = sum(os.times()[2:4])
        subprocess.run([sys.executable, "train.py"], cwd=own, env=env, check=True)
        seconds = sum(os.times()[2:4]) - start
        fastest = min([run_see(own, env, k) for k in range(tries)])[1]
        for kind in ("html", "json", "txt"):
            (own / f"try-{fastest}.{kind}").replace(own / f"run.{kind}")
        (own / "see_step.py").write_text(SEE_STEP, encoding="utf-8")
        subprocess.run([sys.executable, "see_step.py"], cwd=own, env=env, check=True)
        step = json.loads((own / "step.json").read_text(encoding="utf-8"))["functions"][0]
        print(f"=== {state}: the program took {seconds:.1f} s of processor time; a step {step['step']['time'] / 1e6:.0f} ms, "
              f"{step['memory']['peak'] / 2**20:.1f} MiB\n{(own / 'run.txt').read_text(encoding='utf-8')}\n--- its step\n"
              f"{(own / 'step.txt').read_text(encoding='utf-8')}\n")
    subprocess.run([sys.executable, "-m", "lamina", "see", "-o", str(folder / "comparison.html"),
                    str(folder / "1-recompiles" / "run.json"), str(folder / "4-repaired" / "run.json")], env=env, check=True)


def run_see(folder: Path, env: dict[str, str], number: int) -> tuple[float, int]:
    """Report on the program in a folder; return the sum of all times in seconds, and the number."""
    outputs = [word for kind in ("html", "json", "txt") for word in ("-o", f"try-{number}.{kind}")]
    subprocess.run([sys.executable, "-m", "lamina", "see", *outputs, "train.py"], cwd=folder, env=env, check=True,
                   stdout=subprocess.DEVNULL)
    facts = json.loads((folder / f"try-{number}.json").read_text(encoding="utf-8"))
    if any(f["step"] is None for f in facts["functions"]):
        return float("inf"), number
    return (sum(f["step"]["time"] for f in facts["functions"]) + sum(c["xla"] for c in facts["compilations"])) / 1e9, number


def take_pictures(folder: Path) -> None:
    """Save the pictures of the pages."""
    sys.path.insert(0, str(ROOT / "packages" / "lamina-see" / "tests"))
    from devtools import Browser, find_chromium
    program = find_chromium()
    if program is None:
        sys.exit("take_report_pictures: Chromium is not on the search path; LAMINA_CHROMIUM names one")
    browser = Browser(program)
    try:
        browser.open(folder / "1-recompiles" / "run.html", 1400, 1000)
        save(browser, "training-recompilations", "#compilations")
        browser.open(folder / "2-slow" / "run.html", 1400, 860)
        browser.run("""(() => { const lines = [...document.querySelectorAll("#source .line.has")];
            const line = lines.find((e) => e.textContent.includes("argsort")), code = document.querySelector("#source .code");
            line.click(); code.scrollTop = line.offsetTop - code.offsetTop - 300; document.activeElement.blur(); })()""")
        browser.press("u")
        browser.run("scrollTo(0, 0)")
        save(browser, "training-slow-line")
        browser.open(folder / "3-large" / "step.html", 1400, 1000)
        save(browser, "training-memory", "#memory")
        browser.open(folder / "comparison.html", 1100, 900)
        save(browser, "training-comparison")
        if browser.errors:
            sys.exit(f"take_report_pictures: the pages have errors: {browser.errors}")
    finally:
        browser.close()


def save(browser, name: str, selector: str | None = None) -> None:
    """Save a picture of an element of the page; None: of the window."""
    about = {}
    if selector is not None:
        x, y, width, height = browser.run(f"""(() => {{ const r = document.querySelector("{selector}").getBoundingClientRect();
            return [r.left + scrollX, r.top + scrollY, r.width, r.height]; }})()""")
        about = {"clip": {"x": x, "y": y, "width": width, "height": height, "scale": 1}, "captureBeyondViewport": True}
    browser.settle()
    data = browser.call("Page.captureScreenshot", format="webp", quality=QUALITY, **about)["data"]
    path = PICTURES / f"{name}.webp"
    path.write_bytes(base64.b64decode(data))
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Take the pictures of docs/how-to/slow-training.md.")
    parser.add_argument("--folder", type=Path, help="the folder of the reports; default: a temporary one")
    parser.add_argument("--tries", type=int, default=1, help="keep the fastest of N reports", metavar="N")
    parser.add_argument("--pictures-only", action="store_true", help="use the reports that are in the folder")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)).resolve()
        if not given.pictures_only:
            make_reports(folder, given.tries)
        take_pictures(folder)


if __name__ == "__main__":
    main()
