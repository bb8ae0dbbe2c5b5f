"""Adds saved programs to the corpus that every later version has to read; files that are there are never written again.

usage: python tools/add_corpus.py [--out FOLDER] [--version VERSION]

The corpus has a folder for each version of lamina-ir. It holds, for each op, a file with its samples, and the programs of
`corpus_programs`: those that this version writes otherwise than the versions before it. `index.json` says, for each name, which
file that is, here or in an earlier folder. Run again, the tool adds what is missing. To be run when a version is released.

A file without arguments has equations on constants, their results first, then the same results as constants. Beside one with
arguments, NAME.lamina, stands NAME.values.lamina, a program without equations that has the arguments and the results.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "packages" / "lamina-ir" / "tests" / "corpus"


def frozen(program: Any, results: list[Any]) -> Any:
    """A program on constants alone, with its results as constants behind them."""
    from lamina_ir import ClosedJaxpr, Jaxpr, Var, shaped
    wanted = [np.asarray(r) for r in results]
    held = [Var(shaped(a.shape, a.dtype)) for a in wanted]
    j = program.jaxpr
    return ClosedJaxpr(Jaxpr([*j.constvars, *held], [], j.eqns, [*j.outvars, *held]), [*program.consts, *wanted])


def op_program(prim: Any) -> Any:
    """Every sample of `prim`, with the results it has today; those of collectives are device 0's."""
    from lamina_ir import ClosedJaxpr, Jaxpr, evaluate, evaluate_spmd
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
        wanted += results
    return frozen(ClosedJaxpr(Jaxpr(constvars, [], eqns, outs), consts), wanted)


def values(args: list[Any], results: list[Any]) -> Any:
    """A program without equations whose results are these."""
    from lamina_ir import ClosedJaxpr, Jaxpr, Var, shaped
    arrays = [np.asarray(a) for a in (*args, *results)]
    held = [Var(shaped(a.shape, a.dtype)) for a in arrays]
    return ClosedJaxpr(Jaxpr(held, [], [], held), arrays)


def everything() -> Iterator[tuple[str, bytes]]:
    """(file name, bytes) of all that this version writes."""
    import corpus_programs
    from lamina_ir import ProgramError, dumps, evaluate, prims
    from lamina_ir.testing.samples import samples_of
    for prim in prims.ALL:
        if samples_of(prim):
            try:
                yield f"{prim.name}.lamina", dumps(op_program(prim))
            except ProgramError as e:  # holds a function
                print(f"add_corpus: left out {prim.name}: {e}")
    for name, program, args, told in corpus_programs.programs():
        results = evaluate(program, *(args or ()))
        if args is None:
            yield f"{name}.lamina", dumps(frozen(program, results), **told)
        else:
            yield f"{name}.lamina", dumps(program, **told)
            yield f"{name}.values.lamina", dumps(values(args, results))


def without_writer(data: bytes) -> tuple[Any, bytes]:
    """What a file says, whoever wrote it."""
    from lamina_ir import saved_parts
    header, buffers = saved_parts(data)
    return {k: v for k, v in header.items() if k != "writer"}, buffers


def latest(corpus: Path, version: str) -> dict[str, str]:
    """name -> file, below the corpus, of the newest version before this one that has a folder."""
    folders = sorted([p.parent for p in corpus.glob("*/index.json") if p.parent.name != version], key=order)
    return json.loads((folders[-1] / "index.json").read_text()) if folders else {}


def order(folder: Path) -> tuple[int, ...]:
    """The order of folders by version."""
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in folder.name.split("."))


def main(argv: list[str] | None = None) -> int:
    from lamina_ir import __version__, loads
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=CORPUS)
    parser.add_argument("--version", default=__version__)
    options = parser.parse_args(argv)
    folder = options.out / options.version
    folder.mkdir(parents=True, exist_ok=True)
    listed = folder / "index.json"
    before, index = latest(options.out, options.version), json.loads(listed.read_text()) if listed.exists() else {}
    added = 0
    for name, data in everything():
        path, old = folder / name, before.get(name)
        loads(data)
        if path.exists():  # written before: it stays, whatever is written now
            index.setdefault(name, f"{options.version}/{name}")
        elif name in index and (options.out / index[name]).exists():
            continue
        elif old and without_writer((options.out / old).read_bytes()) == without_writer(data):
            index[name] = old
        else:
            with path.open("xb") as file:
                file.write(data)
            index[name] = f"{options.version}/{name}"
            added += 1
    text = json.dumps(index, indent=0, sort_keys=True) + "\n"
    if not listed.exists() or listed.read_text() != text:
        listed.write_text(text)
    print(f"add_corpus: {len(index)} files of {options.version}, {added} of them added now, in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
