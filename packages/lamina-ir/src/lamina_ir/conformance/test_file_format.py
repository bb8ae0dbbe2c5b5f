"""Saved programs byte by byte, as docs/file_formats/saved-programs.md specifies them.

Files made by hand load, and an independent reader can read saved files.
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


def written(header: Any, buffers: bytes = b"", number: int = 1) -> bytes:
    """A file made by hand."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 16)
    digest = hashlib.sha256(text + buffers).digest()
    return HEAD.pack(b"\x89LAMINA\n", number, 0, digest, len(text), len(buffers)) + text + buffers


def parts(data: bytes) -> tuple[int, Any, bytes]:
    """(format number, header, buffers) of a file, its frame looked at."""
    magic, number, zero, digest, n_header, n_buffers = HEAD.unpack_from(data)
    assert magic == b"\x89LAMINA\n" and zero == 0 and len(data) == HEAD.size + n_header + n_buffers and n_header % 16 == 0
    assert hashlib.sha256(data[HEAD.size:]).digest() == digest
    return number, json.loads(data[HEAD.size:HEAD.size + n_header]), data[HEAD.size + n_header:]


# lambda k ; a. c = mul a k; d = reduce_sum c over axis 0; results d, a, 0.5
GOOD = {"avals": [["f32", [3], 0], ["f32", [], 0]], "buffers": [["f32", [3], 0, 12]], "main": 0, "programs": [
    {"constvars": [0], "consts": [0], "invars": [0], "outvars": [3, 1, [1, "0000003f"]],
     "eqns": [["mul", [1, 0], [0], {}], ["reduce_sum", [2], [1], {"axes": {"tuple": [0]}}]]}]}
K = np.float32([1, 10, 100])


def test_a_file_of_an_earlier_version_means_what_it_did():
    total, scaled, literal = evaluate(loads(OLD), X, np.float32(3))
    np.testing.assert_array_equal(scaled, X * 3)
    np.testing.assert_allclose(total, np.sin(X * 3).sum(), rtol=1e-6)
    assert np.float32(literal) == np.float32(0.1) and loads(OLD).in_avals[1].weak_type


def test_a_file_made_by_hand_is_a_program():
    total, same, half = evaluate(loads(written(GOOD, K.tobytes())), X)
    assert (float(total), float(half)) == (float((X * K).sum()), 0.5)
    np.testing.assert_array_equal(same, X)


def test_what_a_reader_does_not_know_is_passed_over():
    more = {**GOOD, "writer": "somebody else's program", "weather": ["fair"]}
    assert len(evaluate(loads(written(more, K.tobytes())), X)) == 3


def test_a_plain_reader_finds_what_was_written():
    k, a, c = Var(f32(3)), Var(f32(3)), Var(f32(3))
    program = ClosedJaxpr(Jaxpr([k], [a], [Eqn(prims.mul_p, [a, k], [c], {})], [c]), [K])
    number, header, buffers = parts(dumps(program))
    assert number in (1, 2) and set(header) >= {"avals", "buffers", "programs", "main"}
    main = header["programs"][header["main"]]
    assert main["eqns"] == [["mul", [1, 0], [main["invars"][0]], {}]] and main["outvars"] == [2]
    dtype, shape, offset, length = header["buffers"][main["consts"][0]]
    assert (dtype, shape, length) == ("f32", [3], 12)
    np.testing.assert_array_equal(np.frombuffer(buffers[offset:offset + length], "<f4"), K)
    assert header["avals"][main["invars"][0]] == ["f32", [3], 0]


def test_nested_programs_come_before_those_that_hold_them():
    _, header, _ = parts(dumps(NOTEBOOK["jit of pmap"][0]))
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
def test_a_file_that_holds_no_program_is_refused(header):
    with pytest.raises(ProgramError):
        loads(written(header, K.tobytes()))


def test_a_format_from_the_future_is_refused():
    with pytest.raises(ProgramError, match="99"):
        loads(written(GOOD, K.tobytes(), 99))
