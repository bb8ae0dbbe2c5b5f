"""The JavaScript reader, written from the docs, reads, checks and evaluates every file of the frozen corpora."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READER = ROOT / "interop" / "javascript"
CORPUS = ROOT / "packages" / "lamina-ir" / "tests" / "corpus"
EXPORTED = ROOT / "packages" / "lamina-export" / "tests" / "corpus"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed; the JavaScript reader needs Node 18 or newer")


def node(*arguments: str, corpus: Path = CORPUS) -> subprocess.CompletedProcess[str]:
    """Run node in the reader's folder."""
    return subprocess.run([str(NODE), *arguments], cwd=READER, env={**os.environ, "LAMINA_CORPUS": str(corpus),
                                                                         "LAMINA_EXPORTED": str(EXPORTED)},
                          text=True, capture_output=True, timeout=300, check=False)


@pytest.mark.parametrize("corpus, pattern", [(CORPUS, "*/*.lamina"), (EXPORTED, "*.lamexp")], ids=["programs", "functions"])
def test_every_corpus_file_evaluates(corpus, pattern):
    done = node("corpus.mjs", str(corpus))
    files = [path for path in corpus.glob(pattern) if ".values." not in path.name]
    assert done.returncode == 0, done.stdout + done.stderr
    assert files and done.stdout.splitlines()[-1] == f"{len(files)} files, 0 failed"


def save_with_values(path, exported, args):
    """Write an exported function, and a program whose results are the operands and results of a call."""
    import numpy as np
    from lamina_ir import ClosedJaxpr, Jaxpr, Var, aval_of, dumps, trees
    path.write_bytes(exported.serialize())
    values = [np.asarray(x) for x in (*args, *trees.tree_leaves(exported.call(*args)))]
    names = [Var(aval_of(x)) for x in values]
    path.with_suffix(".values.lamina").write_bytes(dumps(ClosedJaxpr(Jaxpr(names, [], [], names), values)))


def test_exported_functions_of_symbolic_sizes(tmp_path):
    """Programs contain all forms of numbers that depend on sizes."""
    import lamina
    import lamina.numpy as jnp
    import numpy as np
    from lamina import export, lax
    x = np.linspace(-1, 1, 14, dtype=np.float32).reshape(7, 2)
    y = np.linspace(0, 2, 28, dtype=np.float32).reshape(7, 4)
    functions = {
        "mean": lambda x, y: x.mean(0), "count": lambda x, y: jnp.arange(x.shape[0]) * x.shape[0],
        "root": lambda x, y: x * np.float32(np.sqrt(x.shape[0])), "inverse": lambda x, y: x * np.float32(1 / x.shape[0]),
        "inverse root": lambda x, y: x * np.float32(1 / np.sqrt(x.shape[0])),
        "half": lambda x, y: x[:x.shape[0] // 2], "rest": lambda x, y: lax.pad(x, 0., [(x.shape[0] % 3, 1, 0), (0, 0, 0)]),
        "both": lambda x, y: jnp.tanh(y.T) @ x, "twice": lambda x, y: jnp.concatenate([x, x]).ravel(),
        "loop": lambda x, y: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], x[0])}
    forms = set()
    for name, f in functions.items():
        made = export.export(lamina.jit(f))(*export.symbolic_args_specs(
            (x, y), ("n, 2", "n, 2*n - 10"), constraints=["n >= 6"]))
        forms |= {form for _, form, _ in made._family.holes}
        save_with_values(tmp_path / f"{name}.lamexp", made, [x, y])
    assert forms == {"size", *(f"literal {form}" for form in ("number", "inverse", "root", "inverse root"))}
    done = node("corpus.mjs", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(functions)} files, 0 failed"


def test_wrong_result_is_reported(tmp_path):
    """The comparison fails for a file with another frozen result."""
    import numpy as np
    from lamina_ir import ClosedJaxpr, dumps, loads
    program = loads((CORPUS / "0.1.0" / "sin.lamina").read_bytes())
    consts = [*program.consts[:-1], np.asarray(program.consts[-1]) + 1]
    (tmp_path / "sin.lamina").write_bytes(dumps(ClosedJaxpr(program.jaxpr, consts)))
    done = node("corpus.mjs", str(tmp_path))
    assert done.returncode == 1 and "sin: element 0" in done.stdout


def test_invalid_files_are_refused():
    done = node("--test", "test/refusals.test.mjs", "test/exported.test.mjs")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_primitive_is_supported():
    """The names, params and defaults are the same."""
    from lamina_ir import prims
    done = node("--input-type=module", "-e", """
import { table } from './ops/index.mjs';
const facts = [...table].map(([name, op]) => [name, [Object.keys(op.params).sort(), Object.keys(op.defaults ?? {}).sort()]]);
console.log(JSON.stringify(Object.fromEntries(facts)))""")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {p.name: [sorted(p.params), sorted(p.defaults)] for p in prims.ALL}
