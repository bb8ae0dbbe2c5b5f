"""The reader in JavaScript, written from the docs, reads, checks and evaluates every file of the frozen corpus."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READER = ROOT / "readers" / "javascript"
CORPUS = ROOT / "packages" / "lamina-ir" / "tests" / "corpus"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="there is no node here; the reader in JavaScript needs Node 18 or newer")


def node(*arguments: str, corpus: Path = CORPUS) -> subprocess.CompletedProcess[str]:
    """Run node in the reader's folder."""
    return subprocess.run([str(NODE), *arguments], cwd=READER, env={**os.environ, "LAMINA_CORPUS": str(corpus)}, text=True,
                          capture_output=True, timeout=300, check=False)


def test_the_whole_corpus():
    done = node("corpus.mjs", str(CORPUS))
    files = [path for path in CORPUS.glob("*/*.lamina") if ".values." not in path.name]
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(files)} files, 0 failed"


def test_another_result_is_noticed(tmp_path):
    """The comparison can fail: of a file whose frozen result is another."""
    import numpy as np
    from lamina_ir import ClosedJaxpr, dumps, loads
    program = loads((CORPUS / "0.1.0" / "sin.lamina").read_bytes())
    consts = [*program.consts[:-1], np.asarray(program.consts[-1]) + 1]
    (tmp_path / "sin.lamina").write_bytes(dumps(ClosedJaxpr(program.jaxpr, consts)))
    done = node("corpus.mjs", str(tmp_path))
    assert done.returncode == 1 and "sin: element 0" in done.stdout


def test_what_it_refuses():
    done = node("--test", "test/refusals.test.mjs")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_knows_every_op_of_ours():
    """By name, with the same params and defaults."""
    from lamina_ir import prims
    done = node("--input-type=module", "-e", """
import { table } from './ops/index.mjs';
const facts = [...table].map(([name, op]) => [name, [Object.keys(op.params).sort(), Object.keys(op.defaults ?? {}).sort()]]);
console.log(JSON.stringify(Object.fromEntries(facts)))""")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {p.name: [sorted(p.params), sorted(p.defaults)] for p in prims.ALL}
