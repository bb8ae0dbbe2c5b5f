"""Saved programs: round trips, and refusal of anything else."""
import json
import struct

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, Var, alpha_equal, aval_of, dtypes, dumps,
                       jaxpr_text, loads, prims, shaped)
from lamina_ir.testing import samples
from lamina_ir.testing.programs import NOTEBOOK, chain, f32, jit

ROWS = [row for prim in prims.ALL for row in samples.samples_of(prim)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_sample_comes_back(row):
    ins = [Var(aval_of(a)) for a in row.args]
    out = row.prim.infer(*[v.aval for v in ins], **row.params)
    outs = [Var(o) for o in (out if row.prim.multiple else [out])]
    program = ClosedJaxpr(Jaxpr([], ins, [Eqn(row.prim, ins, outs, row.params)], outs))
    assert alpha_equal(program, loads(dumps(program)), weak=True)


@pytest.mark.parametrize("name", NOTEBOOK)
def test_notebook_programs_come_back_and_print_the_same(name):
    program, text = NOTEBOOK[name]
    assert jaxpr_text(loads(dumps(program))) == text


@pytest.mark.parametrize("name", sorted(dtypes.SHORT_NAMES))
def test_constants_of_every_dtype_come_back(name):
    d = dtypes.from_short_name(name)
    value = np.zeros((2, 3), d) if d == dtypes.float0 else np.arange(6).reshape(2, 3).astype(d)
    v = Var(shaped((2, 3), d))
    again = loads(dumps(ClosedJaxpr(Jaxpr([v], [], [], [v]), [value])))
    assert again.consts[0].dtype == d and again.consts[0].tobytes() == value.tobytes()


@pytest.mark.parametrize("value", [np.float32("nan"), np.float32("inf"), np.float32(0.1), -0.0])
def test_literals_and_scalar_constants_keep_their_bits(value):
    v = Var(f32())
    program = ClosedJaxpr(Jaxpr([v], [], [], [v, Literal(value, f32())]), [np.float32(value)])
    assert alpha_equal(program, loads(dumps(program)))


def test_nested_programs_are_saved_once_and_long_ones_come_back():
    body = chain(3000)
    two = jit(body)
    call = two.eqns[0]
    out = Var(f32())
    program = ClosedJaxpr(Jaxpr([], two.jaxpr.invars, [call, Eqn(prims.xla_call_p, call.outvars, [out], call.params)],
                                [out]))
    again = loads(dumps(program))
    assert alpha_equal(program, again)
    assert again.eqns[0].params["call_jaxpr"] is again.eqns[1].params["call_jaxpr"]


GOOD = dumps(NOTEBOOK["jit of vmap"][0])


@pytest.mark.parametrize("data", [b"", b"\x80\x04K\x01.", b"PK\x03\x04", GOOD[:20], GOOD[:-1], GOOD + b"x",
                                  GOOD.replace(b"dot_general", b"dot_generaL"), b"\x89LAMINA\n"])
def test_foreign_or_damaged_bytes_are_refused(data):
    with pytest.raises(ProgramError, match="loads: "):
        loads(data)


def forge(change):
    """A file with a changed header and a checksum that fits."""
    import hashlib
    head = struct.Struct("<8sII32sQQ")
    magic, version, zero, _, n, m = head.unpack_from(GOOD)
    header = json.loads(GOOD[head.size:head.size + n])
    change(header)
    body = json.dumps(header).encode()
    data = GOOD[head.size + n:]
    return head.pack(magic, version, zero, hashlib.sha256(body + data).digest(), len(body), m) + body + data


@pytest.mark.parametrize(("change", "words"), [
    (lambda h: h["programs"][0]["eqns"][0].__setitem__(0, "os.system"), "primitive `os.system`, which is not known"),
    (lambda h: h.pop("avals"), "malformed"), (lambda h: h.update(main=7), "malformed"),
    (lambda h: h.update(main=-1), "expected an index"),
    (lambda h: h["programs"][0]["outvars"].__setitem__(0, 99), "malformed"),
    (lambda h: h["programs"][0]["eqns"][0][3].update(precision={"record": ["Popen", {}]}), "no param type is named"),
    (lambda h: h["programs"][0]["eqns"][0][3].update(precision={"pickle": "x"}), "params of kind `pickle`"),
    (lambda h: h["programs"][0]["eqns"][0][3].update(extra=1), "unexpected extra"),
    (lambda h: h["avals"][0].__setitem__(1, [9]), "check: ")])
def test_forged_headers_are_refused(change, words):
    with pytest.raises(ProgramError, match=words):
        loads(forge(change))


def test_newer_formats_are_told():
    data = bytearray(GOOD)
    data[8] = 2
    with pytest.raises(ProgramError, match="format 2; this version reads format 1"):
        loads(bytes(data))


def test_what_cannot_be_saved_is_named():
    program = jit(chain(1))
    program.eqns[0].params["device"] = print
    with pytest.raises(ProgramError, match="param `device` of `xla_call` holds a builtin_function"):
        dumps(program)
