"""Adds saved programs to the corpus that every later version has to read; files that are there are never written again.

usage: python tools/add_corpus.py [--out FOLDER] [--again NAME ...]

One file per primitive: its samples as equations on constants, results first, then the same results as constants. A
primitive that has a file gets another one only when named with `--again`, after its params or samples changed.
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "packages" / "lamina-ir" / "tests" / "corpus"


def corpus_program(prim: Any) -> Any:
    """Every sample of `prim`, with the results it has today; those of collectives are device 0's."""
    from lamina_ir import ClosedJaxpr, Jaxpr, Var, aval_of, evaluate, evaluate_spmd
    from lamina_ir.testing.programs import program_of
    from lamina_ir.testing.samples import samples_of
    from lamina_ir.testing.samples_collectives import AXES
    constvars, consts, eqns, outs, wanted = [], [], [], [], []
    for row in samples_of(prim):
        program = program_of(row)
        if prim.axis_params:
            results = [xs[0] for xs in evaluate_spmd(program, AXES, [[a] * AXES.size for a in row.args])]
        else:
            results = evaluate(program, *row.args)
        constvars += program.jaxpr.invars
        consts += row.args
        eqns += program.eqns
        outs += program.jaxpr.outvars
        wanted += [np.asarray(r) for r in results]
    frozen = [Var(aval_of(a)) for a in wanted]
    return ClosedJaxpr(Jaxpr([*constvars, *frozen], [], eqns, [*outs, *frozen]), [*consts, *wanted])


def next_file(folder: Path, name: str) -> Path:
    """`<name>.lamina`, or `<name>.2.lamina` and so on, whichever is free."""
    path, n = folder / f"{name}.lamina", 1
    while path.exists():
        n += 1
        path = folder / f"{name}.{n}.lamina"
    return path


def main(argv: list[str] | None = None) -> int:
    from lamina_ir import ProgramError, dumps, loads, prims
    from lamina_ir.testing.samples import samples_of
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=CORPUS)
    parser.add_argument("--again", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    unknown = sorted(set(options.again) - {p.name for p in prims.ALL})
    if unknown:
        print(f"add_corpus: no primitive is named {', '.join(unknown)}")
        return 1
    for prim in prims.ALL:
        if not samples_of(prim) or (prim.name not in options.again and (options.out / f"{prim.name}.lamina").exists()):
            continue
        try:
            data = dumps(corpus_program(prim))
        except ProgramError as e:  # holds a function
            print(f"add_corpus: left out {prim.name}: {e}")
            continue
        loads(data)
        path = next_file(options.out, prim.name)
        with path.open("xb") as file:
            file.write(data)
        print(f"add_corpus: wrote {path.name}, {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
