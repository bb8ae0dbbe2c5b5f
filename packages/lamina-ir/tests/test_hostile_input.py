"""Damaged text and forged files end in `ProgramError`, whatever the damage."""
import hashlib
import json
import random
import struct

import pytest

from lamina_ir import ProgramError, check, dumps, loads, parse
from lamina_ir.testing.programs import NOTEBOOK

HEAD = struct.Struct("<8sII32sQQ")
JUNK = [0, -1, 1, 10**12, 0.5, "x", None, True, [], {}, {"tuple": [1]}, {"float": "x"}, {"a": 1, "b": 2}, {"array": 0},
        {"enum": ["x", "y"]}, {"record": ["GatherDimensionNumbers", {}]}, {"dict": [[{"list": []}, 1]]}, "f32"]


def places(node, path=()):
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


@pytest.mark.parametrize("name", NOTEBOOK)
def test_damaged_text(name):
    rng = random.Random(name)
    for _ in range(150):
        text = list(NOTEBOOK[name][1])
        for _ in range(rng.randint(1, 3)):
            i = rng.randrange(len(text))
            text[i:i + rng.randint(0, 2)] = rng.choice(["", *"{}[]();:=.,<>'\"a1 -~_\\\n"])
        try:
            check(parse("".join(text)))
        except ProgramError:
            pass


@pytest.mark.parametrize("name", NOTEBOOK)
def test_forged_files(name):
    rng = random.Random(name)
    data = dumps(NOTEBOOK[name][0])
    magic, version, zero, _, n, m = HEAD.unpack_from(data)
    for _ in range(100):
        header = json.loads(data[HEAD.size:HEAD.size + n])
        *path, last = rng.choice(list(places(header)))
        node = header
        for key in path:
            node = node[key]
        node[last] = rng.choice(JUNK)
        body = json.dumps(header).encode()
        buffers = data[HEAD.size + n:]
        digest = hashlib.sha256(body + buffers).digest()
        try:
            loads(HEAD.pack(magic, version, zero, digest, len(body), m) + body + buffers)
        except ProgramError:
            pass


@pytest.mark.parametrize("text", ["(" * 9999, "{ lambda ; . let a:f32[] = xla_call[name=" + "(" * 9999,
                                  "{ lambda ; . let a:f32[] = xla_call[call_jaxpr=" * 3000])
def test_deep_nesting(text):
    with pytest.raises(ProgramError):
        parse(text)
