"""Random uses of every op mean to the reader in JavaScript what they mean here: the words on ops say enough."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from law_cases import cases, special_cases
from lamina_ir import ClosedJaxpr, Jaxpr, Var, dumps, evaluate, prims, shaped
from lamina_ir.testing.programs import make_sample_program

READER = Path(__file__).resolve().parents[2] / "interop" / "javascript"
NODE = shutil.which("node")
# Host functions, and axes that no map binds, are of this process.
OPS = [p for p in prims.ALL if p.family not in ("callbacks", "collectives")]


def rows_of(prim):
    """Some uses of an op: of its family's own kind, and on zeros, infinities and ends of ranges."""
    rows = []

    def keep(row):
        rows.append(row)

    given(cases(prim))(keep)()
    if prim.family in ("elementwise", "special"):
        given(special_cases(prim))(keep)()
    return rows


def frozen(row):
    """A use on constants, its results beside those that it has here, as files of the corpus are."""
    program = make_sample_program(row)
    wanted = [np.asarray(r) for r in evaluate(program, *row.args)]
    held = [Var(shaped(a.shape, a.dtype)) for a in wanted]
    j = program.jaxpr
    return ClosedJaxpr(Jaxpr([*j.invars, *held], [], j.eqns, [*j.outvars, *held]), [*map(np.asarray, row.args), *wanted])


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="there is no node here; the reader in JavaScript needs Node 18 or newer")
def test_the_reader_in_javascript(tmp_path):
    count = 0
    for prim in OPS:
        for row in rows_of(prim):
            (tmp_path / f"{prim.name}-{count}.lamina").write_bytes(dumps(frozen(row)))
            count += 1
    assert count >= 3 * len(OPS) // 2
    done = subprocess.run([str(NODE), "corpus.mjs", str(tmp_path)], cwd=READER, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
