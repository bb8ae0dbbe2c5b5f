"""Runs programs of `examples/` at small sizes, unedited, and prints the figures they come to as JSON.

usage: python tools/small_examples.py [--write] [--without-jaxlib] [name ...]

What is small is set from outside: arguments of functions, and sizes that are names of the module. So a stand-in that takes a
step per example, or a push per parameter, is through in seconds. tools/run_forks.py holds each stand-in to the figures of the
stock, which `--write` keeps in `forks/figures.json`.
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
EXAMPLES, FIGURES = ROOT / "examples", ROOT / "forks" / "figures.json"
SPREAD = ("digits_over_processes", "matrix_product", "pipeline", "ring_all_reduce")
NEAR = 2e-3  # of figures that are at most some units: losses after a few steps


def loaded(name: str, **sizes: Any) -> Any:
    """The module of an example with other sizes; it is not run as a program."""
    sys.path.insert(0, str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for key, value in sizes.items():
        assert hasattr(module, key), f"{name}.py has no {key}"
        setattr(module, key, value)
    return module


def few_digits(pixels: int, images: int) -> Callable[..., Any]:
    """scikit-learn's images, a few of them, cut to a few pixels in the middle."""
    def load(return_X_y: bool = True) -> Any:
        from sklearn.datasets import load_digits
        x, y = load_digits(return_X_y=True)
        return x[:images, 32 - pixels // 2:][:, :pixels], y[:images]
    return load


def printed(run: Callable[[], Any], pattern: str) -> list[float]:
    """The numbers that a program prints where `pattern` says."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    found = re.findall(pattern, out.getvalue())
    return [float(x) for row in found for x in ([row] if isinstance(row, str) else row)]


# --- the programs -----------------------------------------------------------------------------------------------------------
def vmap_vs_pmap() -> list[float]:
    module = loaded("vmap_vs_pmap", timeit=lambda run, runs=1: ([float(run() is None)], 1))
    make = module.initial_params
    module.initial_params = lambda key, sizes: make(key, (64, 4, 10))
    dots = printed(lambda: module.notebook(80), r"(-?\d\.\d+) *[,\]]")
    return dots + printed(lambda: module.training(2, per_device=12, batch=4), r"loss (\S+)")


def mesh_training() -> list[float]:
    module = loaded("mesh_training")
    make = module.init
    module.init = lambda sizes, rng: make([16, 8, 8, 8], rng)
    return [loss for way in module.WAYS.values() for loss in module.train(*way, steps=3)[0]]


def named_mlp() -> list[float]:
    module = loaded("named_mlp", load_digits=few_digits(3, 48))
    module.init = lambda: {"w": np.eye(3, 2, dtype="f"), "b": np.zeros(2, "f"),
                           "v": np.linspace(-1, 1, 20, dtype="f").reshape(2, 10), "c": np.zeros(10, "f")}
    ways = ["pure vmap", "data and model"]
    return [loss for way in ways for loss in module.train(module.WAYS[way], steps=2, batch=4)[0]]


def named_transformer() -> list[float]:
    small = {"letters": 2, "positions": 2, "features": 2, "heads": 2, "size": 1, "hidden": 2}
    module = loaded("named_transformer", SIZES=small)
    draw = module.sequences
    module.sequences = lambda rng: draw(rng, 4, 2)
    return [loss for way in ["pure vmap", "data and model"] for loss in module.train(module.WAYS[way], steps=2)[0]]


def neighbours() -> list[float]:
    module = loaded("neighbours", K=2, KNOWN=40, load_digits=few_digits(64, 48))
    found = [module.main(module.WAYS[way])[0] for way in ["pure vmap", "rows and queries over devices"]]
    return [float(kind) for kinds in found for kind in np.asarray(kinds)]


def digits_over_processes() -> list[float]:
    module = loaded("digits_over_processes", TRAIN=48, BATCH=24)
    return printed(lambda: module.main(["--epochs", "1"]), r"loss (\S+), on one device (\S+)")


def matrix_product() -> list[float]:
    return printed(loaded("matrix_product").main, r"a device holds (\d+) \+ (\d+) numbers, and makes (\d+)")


def pipeline() -> list[float]:
    return printed(loaded("pipeline", WIDTH=4, BATCHES=3, ROWS=2).main, r"on one device: (\S+) (\S+)")


def ring_all_reduce() -> list[float]:
    return printed(loaded("ring_all_reduce").main, r"on one device: (\S+) (\S+) (\S+)")


def elastic_digits() -> list[float]:
    program = str(EXAMPLES / "elastic_digits.py")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "as one process alone: True" in done.stdout, done.stdout + done.stderr[-3000:]
    return [float(x) for x in re.findall(r"(\d+) steps, ([\d.]+)% right", done.stdout)[0]]


PROGRAMS = {run.__name__: run for run in (vmap_vs_pmap, mesh_training, named_mlp, neighbours, named_transformer, pipeline,
                                          ring_all_reduce, matrix_product, digits_over_processes, elastic_digits)}


# --- in processes of their own ------------------------------------------------------------------------------------------------
def figures(name: str, options: Sequence[str] = ()) -> list[float]:
    """What a program comes to, in a process of its own with eight devices, or in two with two each."""
    launch = ["-m", "lamina.launch", "-n", "2", "--devices", "2", "--timeout", "240"] if name in SPREAD else []
    devices = {} if launch else {"LAMINA_NUM_CPU_DEVICES": "8"}
    env = {**{key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}, **devices}
    command = [sys.executable, *launch, __file__, "--here", *options, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    found = re.findall(r"^(?:\[0\] )?figures: (\[.*\])$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        raise RuntimeError(f"{name} does not run:\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return list(json.loads(found[0]))


def difference(found: Sequence[float], kept: Sequence[float]) -> str | None:
    """How figures differ from those that are kept, in words."""
    if len(found) == len(kept) and np.allclose(found, kept, rtol=NEAR, atol=NEAR):
        return None
    return f"comes to {found}, and with the stock to {kept}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"default: all, {', '.join(PROGRAMS)}")
    parser.add_argument("--write", action="store_true", help="keep the figures; else they are compared with those kept")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--without-jaxlib", action="store_true", help="as where there is none")
    options = parser.parse_args(argv)
    names = options.names or list(PROGRAMS)
    if options.here:
        if options.without_jaxlib:
            import without_jaxlib  # noqa: F401 (refuses it from here on)
        print("figures:", json.dumps([round(x, 5) for x in PROGRAMS[names[0]]()]), flush=True)
        return 0
    wrong = []
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    for name in names:
        found = figures(name, ["--without-jaxlib"] if options.without_jaxlib else [])
        print(name, found, flush=True)
        if options.write:
            kept[name] = found
        elif (said := difference(found, kept[name])) is not None:
            wrong.append(f"{name}: {said}")
    if options.write:
        rows = [f'  "{name}": {json.dumps(kept[name])}' for name in sorted(kept)]
        FIGURES.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
