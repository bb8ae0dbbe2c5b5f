"""Saved programs byte by byte, as docs/reference/saved-programs.md specifies them.

Hand-made files load, and an independent reader can read saved files.
"""
from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, ProgramError, Var, dumps, evaluate, loads, prims
from lamina_ir.testing.programs import NOTEBOOK, f32

HEAD = struct.Struct("<8sII32sQQ")
X = np.float32([0.5, 1, 2])
# { lambda ; a:f32[3] b:~f32[]. let c:f32[3] = mul a b d:f32[3] = sin c e:f32[] = reduce_sum[axes=(0,)] d in (e, c, 0.1:f32[]) }
OLD = base64.b64decode(
    "iUxBTUlOQQoBAAAAAAAAAKOtzx0k3d3uiHjOs5ubK0LQKsrVYMNVmW8+tLt/LDeXIAEAAAAAAAAAAAAAAAAAAHsid3JpdGVyIjoibGFtaW5hLWlyIDAuMS4w"
    "IiwibWFpbiI6MCwicHJvZ3JhbXMiOlt7ImNvbnN0dmFycyI6W10sImNvbnN0cyI6W10sImludmFycyI6WzAsMl0sImVxbnMiOltbIm11bCIsWzAsMV0sWzBd"
    "LHt9XSxbInNpbiIsWzJdLFswXSx7fV0sWyJyZWR1Y2Vfc3VtIixbM10sWzFdLHsiYXhlcyI6eyJ0dXBsZSI6WzBdfX1dXSwib3V0dmFycyI6WzQsMixbMSwi"
    "Y2RjY2NjM2QiXV19XSwiYnVmZmVycyI6W10sImF2YWxzIjpbWyJmMzIiLFszXSwwXSxbImYzMiIsW10sMF0sWyJmMzIiLFtdLDFdXX0gICAgIA==")


def make_file(header: Any, buffers: bytes = b"", number: int = 1) -> bytes:
    """Return a hand-made file."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 16)
    digest = hashlib.sha256(text + buffers).digest()
    return HEAD.pack(b"\x89LAMINA\n", number, 0, digest, len(text), len(buffers)) + text + buffers


def split_file(data: bytes) -> tuple[int, Any, bytes]:
    """Return (format number, header, buffers) of a file; check its frame."""
    magic, number, zero, digest, n_header, n_buffers = HEAD.unpack_from(data)
    assert magic == b"\x89LAMINA\n" and zero == 0 and len(data) == HEAD.size + n_header + n_buffers and n_header % 16 == 0
    assert hashlib.sha256(data[HEAD.size:]).digest() == digest
    return number, json.loads(data[HEAD.size:HEAD.size + n_header]), data[HEAD.size + n_header:]


# lambda k ; a. c = mul a k; d = reduce_sum c over axis 0; results d, a, 0.5
GOOD = {"avals": [["f32", [3], 0], ["f32", [], 0]], "buffers": [["f32", [3], 0, 12]], "main": 0, "programs": [
    {"constvars": [0], "consts": [0], "invars": [0], "outvars": [3, 1, [1, "0000003f"]],
     "eqns": [["mul", [1, 0], [0], {}], ["reduce_sum", [2], [1], {"axes": {"tuple": [0]}}]]}]}
K = np.float32([1, 10, 100])


def test_file_of_earlier_version_computes_the_same():
    total, scaled, literal = evaluate(loads(OLD), X, np.float32(3))
    np.testing.assert_array_equal(scaled, X * 3)
    np.testing.assert_allclose(total, np.sin(X * 3).sum(), rtol=1e-6)
    assert np.float32(literal) == np.float32(0.1) and loads(OLD).in_avals[1].weak_type


def test_hand_made_file_is_a_program():
    total, same, half = evaluate(loads(make_file(GOOD, K.tobytes())), X)
    assert (float(total), float(half)) == (float((X * K).sum()), 0.5)
    np.testing.assert_array_equal(same, X)


def test_unknown_fields_are_ignored():
    more = {**GOOD, "writer": "another program", "weather": ["fair"]}
    assert len(evaluate(loads(make_file(more, K.tobytes())), X)) == 3


def test_independent_reader_reads_saved_file():
    k, a, c = Var(f32(3)), Var(f32(3)), Var(f32(3))
    program = ClosedJaxpr(Jaxpr([k], [a], [Eqn(prims.mul_p, [a, k], [c], {})], [c]), [K])
    number, header, buffers = split_file(dumps(program))
    assert number in (1, 2) and set(header) >= {"avals", "buffers", "programs", "main"}
    main = header["programs"][header["main"]]
    assert main["eqns"] == [["mul", [1, 0], [main["invars"][0]], {}]] and main["outvars"] == [2]
    dtype, shape, offset, length = header["buffers"][main["consts"][0]]
    assert (dtype, shape, length) == ("f32", [3], 12)
    np.testing.assert_array_equal(np.frombuffer(buffers[offset:offset + length], "<f4"), K)
    assert header["avals"][main["invars"][0]] == ["f32", [3], 0]


def test_nested_programs_precede_their_users():
    _, header, _ = split_file(dumps(NOTEBOOK["jit of pmap"][0]))
    assert header["main"] == 2 and [p["eqns"][0][0] for p in header["programs"]] == ["dot_general", "xla_pmap", "xla_call"]


def changed(**changes: Any) -> Any:
    header = json.loads(json.dumps(GOOD))
    header["programs"][0] |= changes
    return header


@pytest.mark.parametrize("header", [
    {**GOOD, "main": 1}, {**GOOD, "main": "x"}, {k: v for k, v in GOOD.items() if k != "avals"}, {**GOOD, "programs": []},
    {**GOOD, "buffers": [["f32", [3], 4, 12]]}, {**GOOD, "buffers": [["f32", [4], 0, 16]]}, {**GOOD, "ops": {"mul": 99}},
    changed(eqns=[["no_such_op", [1, 0], [0], {}]]), changed(eqns=[["mul", [1, 7], [0], {}]]), changed(outvars=[9]),
    changed(eqns=[["mul", [1, 0], [1], {}]]), changed(eqns=[["mul", [1], [0], {}]]), changed(invars=[5]), changed(invars=[-1]),
    changed(eqns=[["reduce_sum", [1], [1], {"axes": {"tuple": [8]}}]]), changed(eqns=[["reduce_sum", [1], [1], {}]]), [], None,
], ids=range(18))
def test_file_without_program_is_rejected(header):
    with pytest.raises(ProgramError):
        loads(make_file(header, K.tobytes()))


def test_future_format_is_rejected():
    with pytest.raises(ProgramError, match="99"):
        loads(make_file(GOOD, K.tobytes(), 99))
