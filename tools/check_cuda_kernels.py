"""Holds the CUDA lowerings to the kernels of the real plugin, on a machine without a GPU.

usage: python tools/check_cuda_kernels.py [--cuda 13|12] [--folder DIR]

The plugin of jaxlib's own version is downloaded into DIR (default `out/cuda`) and its kernels are registered as if they
were CPU kernels. A call then ends where the kernel asks for the GPU's stream. Before that, the kernel has counted its
operands, results and attributes and read each of them: only the stream may be missing.
"""
from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("_solver", "_linalg", "_sparse", "_prng")
STREAM_ALONE = "(bad operands at: 0)"


def plugin(cuda: int, folder: Path) -> str:
    """The name of the plugin's package, downloaded and made importable."""
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
    """Make the plugin's kernels CPU kernels; returns their names."""
    from lamina_lowering.testing import register_kernels
    known: dict[str, Any] = {}
    for part in PARTS:
        known.update(importlib.import_module(f"{name}.{part}").registrations())
    register_kernels(known)
    return set(known)


def verdicts(known: set[str]) -> tuple[list[str], list[str]]:
    """(programs whose kernels were asked, complaints), over the samples of every op."""
    from lamina_ir import MissingRuleError, UnboundAxisError, aval_of, prims
    from lamina_ir.testing.samples import samples_of
    from lamina_lowering import lower
    from lamina_lowering.testing import single_eqn_program, run_lowered
    asked, wrong = [], []
    for row in (row for op in prims.ALL for row in samples_of(op)):
        try:
            lowered = lower(single_eqn_program(row.prim, [aval_of(a) for a in row.args], row.params), platform="cuda")
        except (MissingRuleError, NotImplementedError, UnboundAxisError):
            continue
        text = lowered.as_text()
        called = [kernel for kernel in known if f"@{kernel}(" in text]
        if not called:
            continue
        asked.append(f"{row.prim.name} ({', '.join(sorted(called))})")
        try:
            run_lowered(lowered, *row.args)
        except Exception as error:  # jaxlib's own class, which differs between its versions
            answer = str(error).splitlines()[0]
        else:
            answer = "it ran, without a GPU"
        if not answer.endswith(STREAM_ALONE):
            wrong.append(f"{asked[-1]} {row.params} on {[aval_of(a).str_short() for a in row.args]}: {answer}")
    return asked, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cuda", type=int, choices=(12, 13), default=13)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "cuda")
    given = parser.parse_args()
    asked, wrong = verdicts(register(plugin(given.cuda, given.folder)))
    for line in sorted(set(asked)):
        print(f"{asked.count(line):4} calls  {line}")
    for line in wrong:
        print("WRONG", line)
    print(f"{len(asked)} calls, {len(wrong)} wrong")
    return bool(wrong) or not asked


if __name__ == "__main__":
    sys.exit(main())
