"""Helpers of the lowering context for lowering rules."""
from __future__ import annotations

import numpy as np
import pytest
from lamina_ir import ClosedJaxpr, Eqn, Jaxpr, Primitive, Var, dtypes, shaped
from lamina_lowering import lower, lowering_rules
from lamina_lowering.extend import compute_in, element_type_name, identity, lower_to_op
from lamina_lowering.testing import run_lowered

F32, I32 = np.dtype("float32"), np.dtype("int32")


def run_rule(rule, *args, out):
    """Run a rule as the only equation of a program; `out` is the result's aval."""
    prim = Primitive("try", infer=lambda *a, **k: out)
    args = [np.asarray(a) for a in args]
    ins, result = [Var(shaped(a.shape, a.dtype)) for a in args], Var(out)
    closed = ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, [result], {})], [result]))
    with lowering_rules.override(prim, rule):
        return run_lowered(lower(closed), *args)[0]


def test_broadcast_along_leading_and_trailing_axes():
    a, b, out = shaped((3,), F32), shaped((3, 2), F32), shaped((2, 3), F32)
    x = np.arange(3, dtype=np.float32)
    got = run_rule(lambda ctx, v: ctx.broadcast(v, a, out), x, out=out)
    assert np.array_equal(got, np.broadcast_to(x, (2, 3)))
    got = run_rule(lambda ctx, v: ctx.broadcast(v, a, b, (0,)), x, out=b)
    assert np.array_equal(got, np.broadcast_to(x[:, None], (3, 2)))


@pytest.mark.parametrize("source,target", [("float32", "bool"), ("bool", "float32"), ("complex64", "float32"),
                                           ("float32", "complex64"), ("int32", "uint8"), ("float32", "bfloat16"),
                                           ("bfloat16", "int32"), ("complex64", "bool"), ("int64", "float16")])
def test_convert_matches_numpy(source, target):
    a, b = (shaped((4,), dtypes.as_dtype(d)) for d in (source, target))
    x = np.array([0, 1, 2, 7]).astype(a.dtype)
    got = run_rule(lambda ctx, v: ctx.convert(v, a, b), x, out=b)
    wanted = x.real.astype(b.dtype) if source == "complex64" else x.astype(b.dtype)
    assert got.dtype == b.dtype and np.array_equal(got, wanted)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "bool"])
def test_compare_matches_numpy(dtype):
    a, out = shaped((3,), np.dtype(dtype)), shaped((3,), dtypes.BOOL)
    x, y = np.array([0, 1, 1]).astype(dtype), np.array([1, 1, 0]).astype(dtype)
    for direction, f in (("LT", np.less), ("EQ", np.equal), ("GE", np.greater_equal)):
        got = run_rule(lambda ctx, p, q, d=direction: ctx.compare(p, q, d, a), x, y, out=out)
        assert np.array_equal(got, f(x, y))


def test_regions_and_reducer_regions():
    a, out = shaped((2, 3), F32), shaped((2,), F32)
    scalar = shaped((), F32)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def total(ctx, v):
        return ctx.op("stablehlo.reduce", (v, ctx.const(0, scalar)), out, dimensions=[1],
                      regions=[ctx.reducer_region("stablehlo.add", a)])

    def absolute(ctx, v):
        def body(ctx, p, q):
            s = ctx.op("stablehlo.add", (p, q), scalar)
            return ctx.op("stablehlo.add", (s, ctx.const(1.0, scalar)), scalar)
        return ctx.op("stablehlo.reduce", (v, ctx.const(1.0, scalar)), out, dimensions=ctx.i64s([1]),
                      regions=[ctx.region([scalar, scalar], body)])
    assert np.array_equal(run_rule(total, x, out=out), x.sum(1))
    assert run_rule(absolute, x, out=out).shape == (2,)


def test_rule_constructors():
    x = np.array([1.0, 2.0], np.float32)
    out = shaped((2,), F32)
    assert np.array_equal(run_rule(lower_to_op("stablehlo.negate"), x, out=out), -x)
    assert np.array_equal(run_rule(identity, x, out=out), x)
    parsed = lower_to_op("stablehlo.compare", comparison_direction="#stablehlo<comparison_direction LT>")
    assert run_rule(parsed, x, x[::-1].copy(), out=shaped((2,), dtypes.BOOL)).tolist() == [True, False]
    half = shaped((2,), np.dtype("float16"))
    wide = compute_in(F32, lambda ctx, v, aval: ctx.op("stablehlo.sine", (v,), aval))
    assert run_rule(wide, x.astype("float16"), out=half).dtype == np.float16


def test_attributes_from_python_values():
    def rule(ctx, v):
        assert str(ctx.session.attr((True, False))) == "array<i1: true, false>"
        assert str(ctx.session.attr((1, 0))) == "array<i64: 1, 0>"
        assert str(ctx.session.attr(True)) == "true" and str(ctx.session.attr(1)) == "1 : i64"
        assert str(ctx.i64s(())) == "array<i64>" and str(ctx.bools(())) == "array<i1>"
        assert str(ctx.precision("HIGH", "DEFAULT")) == "[#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]"
        with pytest.raises(TypeError, match="attribute must be"):
            ctx.session.attr(object())
        return v
    run_rule(rule, np.zeros(1, np.float32), out=shaped((1,), F32))


def test_operations_are_inserted_at_another_point():
    aval = shaped((2,), F32)

    def rule(ctx, x):
        first = ctx.const(np.float32([1, 2]), aval)
        with ctx.insert_at(ctx.session.ir.InsertionPoint(first.owner)):
            early = ctx.const(np.float32(5), aval)
        return ctx.op("stablehlo.add", (ctx.op("stablehlo.add", (x, first), aval), early), aval)
    assert run_rule(rule, np.float32([1, 1]), out=aval).tolist() == [7, 8]


def test_names_of_element_types():
    assert [element_type_name(dtypes.as_dtype(d)) for d in ("bool", "uint8", "bfloat16", "complex64")] == [
        "i1", "ui8", "bf16", "complex<f32>"]
    with pytest.raises(TypeError, match="has no StableHLO element type"):
        element_type_name(np.dtype("S3"))
