"""The reader in JavaScript evaluates random samples of every primitive like this implementation."""
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from sample_cases import cases, special_cases
from lamina_ir import ClosedJaxpr, Jaxpr, Var, dumps, evaluate, prims, shaped
from lamina_ir.testing.programs import make_sample_program
from lamina_ir.testing.samples import Sample

READER = Path(__file__).resolve().parents[2] / "interop" / "javascript"
NODE = shutil.which("node")
# Host functions, and axes that no map binds, exist only in this process.
OPS = [p for p in prims.ALL if p.family not in ("callbacks", "collectives")]


def draw_samples(prim):
    """Return some samples of a primitive: of its family, and at zeros, infinities and ends of ranges."""
    rows = []

    def keep(row):
        rows.append(row)

    given(cases(prim))(keep)()
    if prim.family in ("elementwise", "special"):
        given(special_cases(prim))(keep)()
    return rows


def make_file_program(sample):
    """Return a program of constants that returns its results and the expected ones, like the files of the corpus."""
    program = make_sample_program(sample)
    wanted = [np.asarray(r) for r in evaluate(program, *sample.args)]
    held = [Var(shaped(a.shape, a.dtype)) for a in wanted]
    j = program.jaxpr
    return ClosedJaxpr(Jaxpr([*j.invars, *held], [], j.eqns, [*j.outvars, *held]), [*map(np.asarray, sample.args), *wanted])


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="node is not installed; the reader in JavaScript needs Node 18 or newer")
def test_javascript_reader_evaluates_samples(tmp_path):
    count = 0
    for prim in OPS:
        for sample in draw_samples(prim):
            (tmp_path / f"{prim.name}-{count}.lamina").write_bytes(dumps(make_file_program(sample)))
            count += 1
    half = np.float16
    for prim, args in ((prims.zeta_p, (half("inf"), half(-0.5))), (prims.zeta_p, (half("inf"), half(-2.5)))):
        (tmp_path / f"limit-{count}.lamina").write_bytes(dumps(make_file_program(Sample(prim, args, {}))))
        count += 1
    assert count >= 3 * len(OPS) // 2
    done = subprocess.run([str(NODE), "corpus.mjs", str(tmp_path)], cwd=READER, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
