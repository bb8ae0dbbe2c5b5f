"""Run the programs of examples/ at small sizes, unedited, and compare the numbers that they print with recorded ones.

usage: python tools/small_examples.py [--write] [--without-jaxlib] [name ...]

An alternative layer may take one step for each example of a batch, or for each parameter. Sizes are therefore set from outside:
arguments of functions, and constants of the module. tools/run_alternative_layers.py runs this with each implementation;
`--write` records the numbers, with the default implementations, in examples/alternative_layers/figures.json.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
FIGURES = EXAMPLES / "alternative_layers" / "figures.json"
SEVERAL_PROCESSES = ("digits_over_processes", "matrix_product", "pipeline", "ring_all_reduce")
TOLERANCE = 2e-3  # of numbers of order 1: losses after a few steps


def load(name: str, **constants: Any) -> Any:
    """Import an example with other constants, without running it as a program."""
    sys.path.insert(0, str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for key, value in constants.items():
        assert hasattr(module, key), f"{name}.py has no {key}"
        setattr(module, key, value)
    return module


def few_digits(pixels: int, images: int) -> Callable[..., Any]:
    """Return a `load_digits` that gives a few images, cut to a few pixels in the middle."""
    def load_digits(return_X_y: bool = True) -> Any:
        from sklearn import datasets
        x, y = datasets.load_digits(return_X_y=True)
        return x[:images, 32 - pixels // 2:][:, :pixels], y[:images]
    return load_digits


def printed(run: Callable[[], Any], pattern: str) -> list[float]:
    """Return the numbers that a program prints where `pattern` matches."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    return [float(x) for found in re.findall(pattern, out.getvalue()) for x in ([found] if isinstance(found, str) else found)]


# --- the programs -------------------------------------------------------------------------------------------------
def vmap_vs_pmap() -> list[float]:
    module = load("vmap_vs_pmap", timeit=lambda run, runs=1: ([float(run() is None)], 1))
    init = module.initial_params
    module.initial_params = lambda key, sizes: init(key, (64, 4, 10))
    dots = printed(lambda: module.notebook(80), r"(-?\d\.\d+) *[,\]]")
    return dots + printed(lambda: module.training(2, per_device=12, batch=4), r"loss (\S+)")


def mesh_training() -> list[float]:
    module = load("mesh_training")
    init = module.init
    module.init = lambda sizes, rng: init([16, 8, 8, 8], rng)
    return [loss for way in module.WAYS.values() for loss in module.train(*way, steps=3)[0]]


def named_mlp() -> list[float]:
    module = load("named_mlp", load_digits=few_digits(3, 48))
    module.init = lambda: {"w": np.eye(3, 2, dtype="f"), "b": np.zeros(2, "f"),
                           "v": np.linspace(-1, 1, 20, dtype="f").reshape(2, 10), "c": np.zeros(10, "f")}
    return [loss for way in ("pure vmap", "data and model") for loss in module.train(module.WAYS[way], steps=2, batch=4)[0]]


def named_transformer() -> list[float]:
    module = load("named_transformer", SIZES={"letters": 2, "positions": 2, "features": 2, "heads": 2, "size": 1, "hidden": 2})
    draw = module.sequences
    module.sequences = lambda rng: draw(rng, 4, 2)
    return [loss for way in ("pure vmap", "data and model") for loss in module.train(module.WAYS[way], steps=2)[0]]


def neighbours() -> list[float]:
    module = load("neighbours", K=2, KNOWN=40, load_digits=few_digits(64, 48))
    found = [module.main(module.WAYS[way])[0] for way in ("pure vmap", "rows and queries over devices")]
    return [float(label) for labels in found for label in np.asarray(labels)]


def digits_over_processes() -> list[float]:
    module = load("digits_over_processes", TRAIN=48, BATCH=24)
    return printed(lambda: module.main(["--epochs", "1"]), r"loss (\S+), on one device (\S+)")


def matrix_product() -> list[float]:
    return printed(load("matrix_product").main, r"a device holds (\d+) \+ (\d+) numbers, and makes (\d+)")


def pipeline() -> list[float]:
    return printed(load("pipeline", WIDTH=4, BATCHES=3, ROWS=2).main, r"on one device: (\S+) (\S+)")


def ring_all_reduce() -> list[float]:
    return printed(load("ring_all_reduce").main, r"on one device: (\S+) (\S+) (\S+)")


def elastic_digits() -> list[float]:
    command = [sys.executable, str(EXAMPLES / "elastic_digits.py"), "--steps", "40"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "as one process alone: True" in done.stdout, done.stdout + done.stderr[-3000:]
    return [float(x) for x in re.findall(r"(\d+) steps, ([\d.]+)% right", done.stdout)[0]]


PROGRAMS = {run.__name__: run for run in (vmap_vs_pmap, mesh_training, named_mlp, neighbours, named_transformer, pipeline,
                                          ring_all_reduce, matrix_product, digits_over_processes, elastic_digits)}


def figures(name: str, options: Sequence[str] = ()) -> list[float]:
    """Run a program in a new process with eight devices, or in two with two each; return its numbers."""
    launch = ["-m", "lamina.launch", "-n", "2", "--devices", "2", "--timeout", "240"] if name in SEVERAL_PROCESSES else []
    env = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    command = [sys.executable, *launch, __file__, "--here", *options, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                          env=env if launch else {**env, "LAMINA_NUM_CPU_DEVICES": "8"})
    found = re.findall(r"^(?:\[0\] )?figures: (\[.*\])$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        raise RuntimeError(f"{name} failed:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return list(json.loads(found[0]))


def is_close(found: Sequence[float], recorded: Sequence[float]) -> bool:
    return len(found) == len(recorded) and np.allclose(found, recorded, rtol=TOLERANCE, atol=TOLERANCE)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"default: all, {', '.join(PROGRAMS)}")
    parser.add_argument("--write", action="store_true", help="record the numbers instead of comparing them")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--without-jaxlib", action="store_true", help="let imports of jaxlib fail")
    options = parser.parse_args(argv)
    names = options.names or list(PROGRAMS)
    if options.here:
        if options.without_jaxlib:
            import without_jaxlib  # noqa: F401  (refuses jaxlib from here on)
        print("figures:", json.dumps([round(x, 5) for x in PROGRAMS[names[0]]()]), flush=True)
        return 0
    recorded = json.loads(FIGURES.read_text(encoding="utf-8"))
    found = {name: figures(name, ["--without-jaxlib"] if options.without_jaxlib else []) for name in names}
    for name, numbers in found.items():
        print(name, numbers, flush=True)
    if options.write:
        lines = [f'  "{name}": {json.dumps(numbers)}' for name, numbers in sorted({**recorded, **found}.items())]
        FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return 0
    wrong = [name for name in names if not is_close(found[name], recorded[name])]
    print(*(f"{name}: got {found[name]}; expected {recorded[name]}" for name in wrong), sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
