"""Check the CUDA lowerings against the kernels of the CUDA plugin, on a machine without a GPU.

usage: python tools/check_cuda_kernels.py [--cuda 13|12] [--folder DIR]

The plugin of jaxlib's version is downloaded into DIR (default `out/cuda`), and its kernels are registered as CPU kernels. A
kernel first decodes its operands, results and attributes, and then fails because there is no GPU stream. Any other error is a
mistake of the lowering.
"""
from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("_solver", "_linalg", "_sparse", "_prng")
NO_STREAM = "(bad operands at: 0)"


def plugin(cuda: int, folder: Path) -> str:
    """Download the plugin and make it importable; return the name of its package."""
    version = importlib.metadata.version("jaxlib")
    folder = folder / version
    name = f"jax_cuda{cuda}_plugin"
    if not (folder / name).exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder),
                   f"jax-cuda{cuda}-plugin=={version}"]
        subprocess.run(command, check=True)
        for wheel in folder.glob(f"{name}-*.whl"):
            zipfile.ZipFile(wheel).extractall(folder)
    sys.path.insert(0, str(folder))
    return name


def register(name: str) -> set[str]:
    """Register the plugin's kernels as CPU kernels; return their names."""
    from lamina_lowering.testing import register_kernels
    known: dict[str, Any] = {}
    for part in PARTS:
        known.update(importlib.import_module(f"{name}.{part}").registrations())
    register_kernels(known)
    return set(known)


def check_samples(known: set[str]) -> tuple[list[str], list[str]]:
    """Run the samples of all primitives whose lowering calls a kernel; return (calls, errors)."""
    from lamina_ir import MissingRuleError, UnboundAxisError, aval_of, prims
    from lamina_ir.testing.samples import samples_of
    from lamina_lowering import lower
    from lamina_lowering.testing import run_lowered, single_eqn_program
    calls, errors = [], []
    for sample in (sample for prim in prims.ALL for sample in samples_of(prim)):
        avals = [aval_of(a) for a in sample.args]
        try:
            lowered = lower(single_eqn_program(sample.prim, avals, sample.params), platform="cuda")
        except (MissingRuleError, NotImplementedError, UnboundAxisError):
            continue
        text = lowered.as_text()
        kernels = [kernel for kernel in known if f"@{kernel}(" in text]
        if not kernels:
            continue
        calls.append(f"{sample.prim.name} ({', '.join(sorted(kernels))})")
        try:
            run_lowered(lowered, *sample.args)
            error = "it ran without a GPU"
        except Exception as found:  # a class of jaxlib that differs between its versions
            error = str(found).splitlines()[0]
        if not error.endswith(NO_STREAM):
            errors.append(f"{calls[-1]} {sample.params} on {[aval.str_short() for aval in avals]}: {error}")
    return calls, errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", type=int, choices=(12, 13), default=13)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "cuda")
    options = parser.parse_args()
    calls, errors = check_samples(register(plugin(options.cuda, options.folder)))
    for call, number in sorted(Counter(calls).items()):
        print(f"{number:4} calls  {call}")
    print(*(f"ERROR {error}" for error in errors), f"{len(calls)} calls, {len(errors)} errors", sep="\n")
    return 1 if errors or not calls else 0


if __name__ == "__main__":
    sys.exit(main())
