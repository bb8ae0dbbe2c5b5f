"""Files saved by earlier versions load, check and compute what they did; damaged ones are refused and run nothing.

`tools/add_corpus.py` adds files; none is ever written again.
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
from lamina_ir import (
    ProgramError,
    alpha_equal,
    check,
    dumps,
    evaluate,
    evaluate_spmd,
    jaxpr_text,
    loads,
    parse,
    prims,
)
from lamina_ir.testing import assert_close
from lamina_ir.testing.samples_collectives import AXES

FILES = sorted((Path(__file__).parent / "corpus").glob("*.lamina"))
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


def test_every_primitive_has_a_file():
    missing = [p.name for p in prims.ALL if not any(f.name.split(".")[0] == p.name for f in FILES)]
    assert missing == [], "run tools/add_corpus.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_old_file_means_what_it_meant(path):
    program = loads(path.read_bytes())
    axes = any(e.primitive.axis_params for e in program.eqns)
    outs = [xs[0] for xs in evaluate_spmd(program, AXES, [])] if axes else evaluate(program)
    n = len(outs) // 2
    for e, got, wanted in zip([e for e in program.eqns for _ in e.outvars], outs[:n], outs[n:], strict=True):
        if e.primitive.effectful:
            assert got.shape == wanted.shape and got.dtype == wanted.dtype
        else:
            assert_close(got, wanted, what=e.primitive.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_old_file_is_saved_and_printed_again(path):
    program = loads(path.read_bytes())
    assert alpha_equal(loads(dumps(program)), program, weak=True)
    nested = any(s.consts for e in program.eqns for v in e.params.values() for s in
                 (v if isinstance(v, tuple) else (v,)) if hasattr(s, "consts"))
    if not nested:
        assert alpha_equal(parse(jaxpr_text(program, weak=True), program.consts), program, weak=True)


def refused(data):
    """Load bytes that may be bad: a `ProgramError` or a well-formed program, and nothing is run or imported."""
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_damaged_file_is_refused(path):
    rng = random.Random(path.stem)
    good = path.read_bytes()
    refused(good)
    for _ in range(10):
        data = bytearray(good)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        assert refused(bytes(data))
        assert refused(good[:rng.randrange(len(good))])


def places(node, path=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_forged_file_is_refused_or_well_formed(path):
    rng = random.Random(path.stem)
    data = path.read_bytes()
    magic, version, zero, _, n, m = HEAD.unpack_from(data)
    text, buffers = data[HEAD.size:HEAD.size + n], data[HEAD.size + n:]
    spots = list(places(json.loads(text)))
    for _ in range(25):
        header = json.loads(text)
        for _ in range(rng.randint(1, 2)):
            *parents, last = rng.choice(spots)
            node = header
            try:
                for key in parents:
                    node = node[key]
                node[last] = rng.choice(JUNK)
            except (KeyError, IndexError, TypeError):  # the first forgery took this place away
                continue
        body = json.dumps(header).encode()
        digest = hashlib.sha256(body + buffers).digest()
        refused(HEAD.pack(magic, version, zero, digest, len(body), m) + body + buffers)


@pytest.mark.parametrize("bad", [b"", b"\x80\x04cos\nsystem\n(S'true'\ntR.", b"\x93NUMPY\x01\0", b"PK\x03\x04",
                                 b"\0" * 64, b"{ lambda ; . let in () }"])
def test_foreign_files_are_refused(bad):
    assert refused(bad)
    with pytest.raises(ProgramError, match="not a program saved by lamina_ir.dumps|cut off"):
        loads(bad)


def test_bytes_nested_too_deeply_are_refused():
    body = b"[" * 200000
    assert refused(HEAD.pack(b"\x89LAMINA\n", 1, 0, hashlib.sha256(body).digest(), len(body), 0) + body)


def test_constants_are_not_made_larger_than_the_file():
    program = parse("{ lambda a:f32[2] ; . let  in (a,) }", consts=[np.ones(2, np.float32)])
    data = dumps(program)
    magic, version, zero, _, n, m = HEAD.unpack_from(data)
    header = json.loads(data[HEAD.size:HEAD.size + n])
    header["buffers"][0][1] = [10**15]
    body = json.dumps(header).encode()
    digest = hashlib.sha256(body + data[HEAD.size + n:]).digest()
    with pytest.raises(ProgramError, match="do not fit its type"):
        loads(HEAD.pack(magic, version, zero, digest, len(body), m) + body + data[HEAD.size + n:])
