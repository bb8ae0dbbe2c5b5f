"""Files saved by earlier versions load, check and compute the same results; damaged files are rejected and run nothing.

The corpus has a folder for each version. `packages/lamina-ir/tests/saved_program_corpus.py` adds
files; no file is ever written again.
"""
from __future__ import annotations

import hashlib
import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from lamina_ir import (ProgramError, __version__, alpha_equal, check, dumps, evaluate, evaluate_spmd, jaxpr_text, loads,
                       parse, prims, load_treedefs)
from lamina_ir.testing import assert_close, samples  # noqa: F401  (registers the functions that files call)
from lamina_ir.testing.samples.collectives import AXES

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*/*.lamina"))
OWN_RESULTS = [path for path in FILES if not (path.with_suffix(".values.lamina").exists() or ".values." in path.name)]
WITH_ARGUMENTS = [path for path in FILES if path.with_suffix(".values.lamina").exists()]
HEAD = struct.Struct("<8sII32sQQ")
JUNK = [0, -1, 1, 7, 10**12, 2**70, 0.5, "x", "os", None, True, [], {}, {"tuple": [1]}, {"tuple": [{"tuple": []}]},
        {"float": "x"}, {"a": 1, "b": 2}, {"array": 0}, {"program": 0}, {"enum": ["x", "y"]},
        {"enum": ["GatherScatterMode", "nothing"]}, {"record": ["GatherDimensionNumbers", {}]},
        {"record": ["Popen", {"args": "true"}]}, {"dict": [[{"list": []}, 1]]}, {"dtype": "f32"}, {"axis": [0, "i"]},
        "f32", "sin", "xla_call", [0, "00"]]
TOUCHY = ("exec", "compile", "import", "open", "os.", "subprocess.", "pickle.", "marshal.", "ctypes.", "socket.")
seen: list[str] = []
watching = False


def _watch(event, args):
    if watching and event.startswith(TOUCHY):
        seen.append(f"{event} {args!r:.200}")


sys.addaudithook(_watch)


def name_of(path):
    return f"{path.parent.name}/{path.name.removesuffix('.lamina')}"


def index_of(version):
    return json.loads((CORPUS / version / "index.json").read_text())


def test_current_version_has_a_file_for_every_primitive():
    assert (CORPUS / __version__ / "index.json").exists(), (
        f"lamina-ir is at {__version__}: run python packages/lamina-ir/tests/saved_program_corpus.py")
    index = index_of(__version__)
    assert [p.name for p in prims.ALL
            if f"{p.name}.lamina" not in index] == [], "run python packages/lamina-ir/tests/saved_program_corpus.py"
    for p in prims.ALL:
        assert p in [e.primitive for e in loads((CORPUS / index[f"{p.name}.lamina"]).read_bytes()).eqns], p


def test_index_lists_exactly_the_stored_files():
    listed = {CORPUS / file for folder in CORPUS.iterdir() for file in index_of(folder.name).values()}
    assert listed == set(FILES)


def test_corpus_holds_programs_of_many_kinds():
    names = {path.name.removesuffix(".lamina") for path in FILES}
    assert {f"dtype-{d}" for d in ("bf16", "f16", "f8_e4m3fn", "f8_e5m2", "i4", "u4", "i64", "u64", "f64", "c128")} <= names
    assert {"program-keys", "program-literals", "program-empty", "program-nested-0", "program-mapped", "program-network",
            "program-sampler"} <= names


@pytest.mark.parametrize("path", WITH_ARGUMENTS, ids=name_of)
def test_saved_function_computes_saved_results(path):
    data = path.read_bytes()
    program = loads(data)
    held = evaluate(loads(path.with_suffix(".values.lamina").read_bytes()))
    n = len(program.jaxpr.invars)
    for got, wanted in zip(evaluate(program, *held[:n]), held[n:], strict=True):
        assert_close(got, wanted, what=path.stem)
    found = load_treedefs(data)
    if found is not None:
        assert [t.num_leaves for t in found] == [n, len(held) - n] and any(e.source for e in program.eqns)


@pytest.mark.parametrize("path", OWN_RESULTS, ids=name_of)
def test_saved_program_computes_saved_results(path):
    program = loads(path.read_bytes())
    axes = any(e.primitive.axis_params for e in program.eqns)
    outs = [xs[0] for xs in evaluate_spmd(program, AXES, [])] if axes else evaluate(program)
    n = len(outs) // 2
    for e, got, wanted in zip([e for e in program.eqns for _ in e.outvars], outs[:n], outs[n:], strict=True):
        if e.primitive.effectful:
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
        else:
            with np.errstate(invalid="ignore"):  # files of dtypes hold every NaN bit pattern
                assert_close(got, wanted, what=e.primitive.name)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_saved_program_can_be_saved_and_printed_again(path):
    program = loads(path.read_bytes())
    assert alpha_equal(loads(dumps(program)), program, weak=True)
    # text has no shared programs, rules, or numbers wider than the setting
    skipped = path.name.startswith(("dtype-", "program-"))
    nested = skipped or any(s.consts for e in program.eqns for v in e.params.values() for s in
                 (v if isinstance(v, tuple) else (v,)) if hasattr(s, "consts"))
    if not nested:
        assert alpha_equal(parse(jaxpr_text(program, weak=True), program.consts), program, weak=True)


def is_rejected(data):
    """Return whether loading bytes is refused; otherwise the program is well formed. Nothing is run."""
    global watching
    del seen[:]
    watching = True
    try:
        program = loads(data)
    except ProgramError:
        return True
    finally:
        watching = False
        assert seen == []
    check(program)
    return False


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_damaged_file_is_rejected(path):
    rng = random.Random(path.stem)
    good = path.read_bytes()
    is_rejected(good)
    for _ in range(10):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        assert is_rejected(bytes(data))
        assert is_rejected(good[:rng.randrange(len(good))])


def paths_of(node, path=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from paths_of(value, (*path, key))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_forged_file_is_rejected_or_well_formed(path):
    rng = random.Random(path.stem)
    data = path.read_bytes()
    magic, version, zero, _, n, m = HEAD.unpack_from(data)
    text, buffers = data[HEAD.size:HEAD.size + n], data[HEAD.size + n:]
    spots = list(paths_of(json.loads(text)))
    for _ in range(25):
        header = json.loads(text)
        for _ in range(rng.randint(1, 2)):
            *parents, last = rng.choice(spots)
            node = header
            try:
                for key in parents:
                    node = node[key]
                node[last] = rng.choice(JUNK)
            except (KeyError, IndexError, TypeError):  # the first forgery removed this entry
                continue
        body = json.dumps(header).encode()
        digest = hashlib.sha256(body + buffers).digest()
        is_rejected(HEAD.pack(magic, version, zero, digest, len(body), m) + body + buffers)


@pytest.mark.parametrize("bad", [b"", b"\x80\x04cos\nsystem\n(S'true'\ntR.", b"\x93NUMPY\x01\0", b"PK\x03\x04",
                                 b"\0" * 64, b"{ lambda ; . let in () }"])
def test_foreign_files_are_rejected(bad):
    assert is_rejected(bad)
    with pytest.raises(ProgramError, match="not a program saved by lamina_ir.dumps|cut off"):
        loads(bad)


def test_too_deeply_nested_bytes_are_rejected():
    body = b"[" * 200000
    assert is_rejected(HEAD.pack(b"\x89LAMINA\n", 1, 0, hashlib.sha256(body).digest(), len(body), 0) + body)


def test_constants_cannot_be_larger_than_the_file():
    program = parse("{ lambda a:f32[2] ; . let  in (a,) }", consts=[np.ones(2, np.float32)])
    data = dumps(program)
    magic, version, zero, _, n, m = HEAD.unpack_from(data)
    header = json.loads(data[HEAD.size:HEAD.size + n])
    header["buffers"][0][1] = [10**15]
    body = json.dumps(header).encode()
    digest = hashlib.sha256(body + data[HEAD.size + n:]).digest()
    with pytest.raises(ProgramError, match="do not fit its type"):
        loads(HEAD.pack(magic, version, zero, digest, len(body), m) + body + data[HEAD.size + n:])
