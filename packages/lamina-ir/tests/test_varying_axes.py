"""Varying axes in types: a safe superset, for every primitive and for random programs."""
import pickle

import numpy as np
import pytest

from lamina_ir import (ClosedJaxpr, Eqn, Jaxpr, Literal, ProgramError, UnnamedAxis, Var, alpha_equal, aval_of, check, dumps,
                       evaluate_spmd, jaxpr_text, loads, parse, prims, shaped)
from lamina_ir.extend import (infer_varying_axes, check_uniform_control_flow, uses_mapped_axes, infer_equation_types,
                              annotate_varying_axes)
from lamina_ir.testing import samples

F = shaped((4,), "float32")
I, J, NONE = frozenset("i"), frozenset("j"), frozenset()
AXES = [("i", 2), ("j", 2)]
ALL = dict(axis_index_groups=None)
INT = dict(new_dtype=np.dtype("int32"), weak_type=False)


# --- the type -----------------------------------------------------------------------------------------------------
def test_types_compare_and_pickle_with_varying_axes():
    a = F.with_varying_axes(I)
    assert a == F.with_varying_axes(frozenset("i")) and hash(a) == hash(F.with_varying_axes(I)) and a != F and F != a
    assert a != F.with_varying_axes(I | J) and a.same_type(F) and F.same_type(a)
    assert pickle.loads(pickle.dumps(a)) is a and F.varying_axes == NONE and a.varying_axes == I
    assert a.with_varying_axes(NONE) == F and a.with_varying_axes(I) is a and a.with_varying_axes(J).varying_axes == J
    weak = shaped((), "float32", True).with_varying_axes(I)
    assert weak.strip_weak_type() == shaped((),
                                            "float32").with_varying_axes(I)
    assert repr(weak) == "ShapedArray(float32[]{i}, weak_type=True)"


@pytest.mark.parametrize("name,text", [("i", "i"), ("my axis", "'my axis'"), (("a", 3), "('a', 3)"), ("float32", "'float32'"),
                                       (b"a'\xff", "b\"a'\\xff\""), (1j, "1j"), (complex(-0.5, float("inf")), "(-0.5+infj)"),
                                       (..., "Ellipsis"), ("Ellipsis", "'Ellipsis'")])
def test_varying_axes_are_printed_parsed_and_saved(name, text):
    a = Var(F.with_varying_axes(frozenset([name])))
    b = Var(F.with_varying_axes(frozenset([name, "z"])))
    closed = ClosedJaxpr(Jaxpr([], [a, b], [], [a]))
    assert f"f32[4]{{{text}}}" in jaxpr_text(closed) and ",z}" in jaxpr_text(closed)
    for again in (parse(jaxpr_text(closed)), loads(dumps(closed))):
        assert again.in_avals == closed.in_avals and alpha_equal(closed, again)
    assert not alpha_equal(closed, parse("{ lambda ; a:f32[4] b:f32[4]. let in (a,) }"))


@pytest.mark.parametrize("text", ["f32[4]{i", "f32[4]{i i}", "f32[4]{[1]}", "f32[4] {i}"])
def test_invalid_varying_axes_are_rejected(text):
    with pytest.raises(ProgramError):
        parse(f"{{ lambda ; a:{text}. let in (a,) }}")


# --- inference from programs --------------------------------------------------------------------------------------
def eqn(prim, overs, **params):
    _, out = infer_equation_types(prim, [F.with_varying_axes(o) for o in overs], params, I | J)
    return out[0].varying_axes if prim.multiple else out.varying_axes


def test_collectives_and_index_primitives():
    assert eqn(prims.add_p, [I, J]) == I | J and eqn(prims.sin_p, [NONE]) == NONE
    for prim in (prims.psum_p, prims.pmax_p, prims.pmin_p):
        assert eqn(prim, [I | J], axes=("i",), **ALL) == J
        assert eqn(prim, [I], axes=("i", "j"), **ALL) == NONE
        assert eqn(prim, [NONE], axes=("i",), axis_index_groups=((0,), (1,))) == I
    gather = dict(all_gather_dimension=0, axis_size=2, tiled=True, axis_name="i")
    assert eqn(prims.all_gather_p, [I], **gather, **ALL) == NONE
    assert eqn(prims.all_gather_p, [J], **gather, axis_index_groups=((0, 1),)) == I | J
    assert eqn(prims.axis_index_p, [], axis_name="i") == I
    assert eqn(prims.ppermute_p, [NONE], axis_name="i", perm=((0, 1),)) == I
    assert eqn(prims.psum_scatter_p, [J], scatter_dimension=0, axis_size=2, tiled=True, axis_name="i", **ALL) == I | J
    assert eqn(prims.all_to_all_p, [NONE], concat_axis=0, split_axis=0, axis_size=2, tiled=True, axis_name="i", **ALL) == I
    a = shaped((), "float32")
    assert infer_equation_types(prims.rng_uniform_p, [a, a], {"shape": ()}, I | J)[1].varying_axes == I | J


LOOP = """{ lambda ; a:f32[] b:f32[] c:f32[3]. let
    d:f32[] e:f32[] f:f32[3] = scan[
      jaxpr={ lambda ; k:f32[] x:f32[] y:f32[] z:f32[]. let w:f32[] = add x k in (y, w, z) }
      length=3 num_carry=2 num_consts=1 reverse=False unroll=1 ] a b a c
  in (d, e, f) }"""


def test_inference_in_loops_reaches_fixed_point():
    plain = parse(LOOP)
    closed = annotate_varying_axes(plain, [NONE, I, J], I | J)
    assert [a.varying_axes for a in closed.out_avals] == [I, I, J]
    body = closed.jaxpr.eqns[0].params["jaxpr"]
    assert [a.varying_axes for a in body.in_avals] == [NONE, I, I, J]
    check(closed)
    assert annotate_varying_axes(closed, [NONE, I, J], I | J) is closed  # cached, also for the annotated program
    assert annotate_varying_axes(plain, [NONE, I, J], I | J) is closed
    assert infer_varying_axes(plain, [NONE] * 3, I) == (NONE,) * 3 and not uses_mapped_axes(plain)


MAP = """{{ lambda ; a:f32[2] b:f32[]. let
    c:f32[2] d:f32[] = xla_pmap[ axis_name={name} axis_size=2 backend=None
      call_jaxpr={{ lambda ; x:f32[] y:f32[]. let z:f32[] = psum[axes=('i',) axis_index_groups=None] x
          u:f32[] = add x y in (u, z) }}
      devices=None donated_invars=(False, False) global_arg_shapes=(None, None) global_axis_size=None in_axes=(0, None)
      name=f out_axes=(0, None) ] a b
  in (c, d) }}"""


def test_inner_map_shadows_equal_axis_name():
    closed = annotate_varying_axes(parse(MAP.format(name="i")), [NONE, I], I)
    assert [a.varying_axes for a in closed.out_avals] == [I, NONE]  # the outer axis cannot be named inside the map
    inner = closed.jaxpr.eqns[0].params["call_jaxpr"]
    assert [a.varying_axes for a in inner.in_avals] == [I, NONE] and [a.varying_axes for a in inner.out_avals] == [I, NONE]
    assert infer_varying_axes(closed, [I, NONE], I) == (I, I)
    check(closed)


def test_unnamed_axis_is_in_no_type():
    closed = parse(MAP.format(name="<axis 0>"))
    inner = closed.jaxpr.eqns[0].params["call_jaxpr"]
    assert not any(a.varying_axes for a in inner.in_avals)
    mine = frozenset([UnnamedAxis()])
    assert infer_varying_axes(inner, [mine, NONE], mine) == (mine, mine)


# --- check --------------------------------------------------------------------------------------------------------
def test_check_rejects_type_with_missing_varying_axis():
    closed = parse("{ lambda ; a:f32[4]{i}. let b:f32[4] = sin a in (b,) }")
    with pytest.raises(ProgramError, match="equation 0 `b:f32\\[4\\] = sin a`: result 0 is f32\\[4\\]; it may vary over 'i'"):
        check(closed)
    body = parse("{ lambda ; a:f32[]. let in (a,) }")
    a, b = Var(shaped((), "float32").with_varying_axes(I)), Var(shaped((), "float32").with_varying_axes(I))
    params = dict(prims.xla_call_p.defaults, call_jaxpr=body, name="f")
    with pytest.raises(ProgramError, match="its program takes argument 0 as f32\\[\\]; it may vary over 'i'"):
        check(ClosedJaxpr(Jaxpr([], [a], [Eqn(prims.xla_call_p, [a], [b], params)], [b])))
    check(parse("{ lambda ; a:f32[4]. let b:f32[4]{i} = sin a in (b,) }"))  # a superset is safe


def test_varying_axes_are_inferred_when_old_programs_are_read():
    text = MAP.format(name="i")
    assert parse(text).jaxpr.eqns[0].params["call_jaxpr"].in_avals[0].varying_axes == I
    again = loads(dumps(parse(text)))
    check(again)
    assert alpha_equal(again, parse(text))


def test_branch_index_of_collective_must_not_vary():
    text = """{ lambda ; a:i32[]%s b:f32[]. let c:f32[] = cond[branches=(
        { lambda ; x:f32[]. let y:f32[] = psum[axes=('i',) axis_index_groups=None] x in (y,) },
        { lambda ; x:f32[]. let in (x,) },)
        ] a b in (c,) }"""
    check_uniform_control_flow(parse(text % ""))
    with pytest.raises(ProgramError, match="cond: which branch runs may differ between the members of the mapped axis 'i'"):
        check_uniform_control_flow(parse(text % "{i}"))


# --- properties ---------------------------------------------------------------------------------------------------
def axes_that_differ(per_device):
    """Return the axes over which a value differs, given its value on each of the four devices (i slowest)."""
    rows = np.array([np.asarray(v).tobytes() for v in per_device], object).reshape(2, 2)
    return frozenset([n for n, a, b in (("i", rows[0], rows[1]), ("j", rows[:, 0], rows[:, 1])) if (a != b).any()])


def draw_per_device(rng, over, shape=(4,)):
    """Return a random value for each device that differs over exactly these axes."""
    whole = rng.integers(-3, 4, (2 if "i" in over else 1, 2 if "j" in over else 1, *shape)).astype(np.float32)
    return list(np.broadcast_to(whole, (2, 2, *shape)).reshape(4, *shape))


def draw_program(rng, depth=0):
    """Draw a program of two arguments that returns every variable, with collectives, branches, loops and calls."""
    known = [Var(F), Var(F)]
    ins, eqns = list(known), []

    def add(prim, operands, avals, **params):
        outs = [Var(a) for a in avals]
        eqns.append(Eqn(prim, operands, outs, params))
        known.extend(v for v in outs if v.aval == F)
        return outs

    def some():
        return known[rng.integers(len(known))]

    def number():
        total, = add(prims.reduce_sum_p, [some()], [shaped((), "float32")], axes=(0,))
        truth, = add(prims.gt_p, [total, Literal(np.float32(0), total.aval)], [shaped((), "bool")])
        return add(prims.convert_element_type_p, [truth], [shaped((), "int32")], **INT)[0]

    for _ in range(rng.integers(2, 6)):
        axis = "ij"[rng.integers(2)]
        kind = rng.integers(0, 11 if depth < 2 else 7)
        if kind < 2:
            add([prims.add_p, prims.mul_p][kind], [some(), some()], [F])
        elif kind < 4:
            groups = [None, ((0,), (1,))][rng.integers(2)]
            add([prims.psum_p, prims.pmax_p][kind - 2], [some()], [F], axes=(axis,), axis_index_groups=groups)
        elif kind == 4:
            perm = [((0, 1),), ((0, 1), (1, 0))][rng.integers(2)]
            add(prims.ppermute_p, [some()], [F], axis_name=axis, perm=perm)
        elif kind == 5:
            mine, = add(prims.axis_index_p, [], [shaped((), "int32")], axis_name=axis)
            add(prims.broadcast_in_dim_p, [add(prims.convert_element_type_p, [mine], [shaped((), "float32")],
                                               new_dtype=np.dtype("float32"), weak_type=False)[0]], [F],
                shape=(4,), broadcast_dimensions=())
        elif kind == 6:
            scattered, = add(prims.psum_scatter_p, [some()], [shaped((2,), "float32")], scatter_dimension=0, axis_size=2,
                             tiled=True, axis_name=axis, axis_index_groups=None)
            add(prims.all_gather_p, [scattered], [F], all_gather_dimension=0, axis_size=2, tiled=True,
                axis_name="ij"[rng.integers(2)], axis_index_groups=None)
        elif kind == 7:
            body = draw_program(rng, depth + 1)
            add(prims.xla_call_p, [some(), some()], body.out_avals, **prims.xla_call_p.defaults, call_jaxpr=body, name="f")
        elif kind == 8:
            quiet = [without_collectives(draw_program(rng, depth + 1)) for _ in range(2)]
            add(prims.cond_p, [number(), some(), some()], [F], branches=tuple(quiet))
        elif kind == 9:
            body = draw_program(rng, depth + 1)
            body = ClosedJaxpr(Jaxpr([], body.jaxpr.invars, body.jaxpr.eqns, [body.jaxpr.invars[1], body.jaxpr.outvars[0]]))
            add(prims.scan_p, [some(), some()], [F, F], jaxpr=body, length=2, num_consts=0, num_carry=2, reverse=False,
                unroll=1)
        else:
            x, y = Var(shaped((4,), "float32")), Var(shaped((4,), "float32"))
            total = Var(F)
            body = ClosedJaxpr(Jaxpr([], [x, y], [Eqn(prims.psum_p, [x], [total], dict(axes=(axis,), axis_index_groups=None))],
                                     [total, y]))
            rows, = add(prims.broadcast_in_dim_p, [some()], [shaped((2, 4), "float32")], shape=(2, 4),
                        broadcast_dimensions=(1,))
            add(prims.xla_pmap_p, [rows, some()], [F, F], axis_name=axis, axis_size=2, backend=None, call_jaxpr=body,
                devices=None, donated_invars=(False,) * 2, global_arg_shapes=(None,) * 2, global_axis_size=None,
                in_axes=(0, None), name="f", out_axes=(None, None))
    return ClosedJaxpr(Jaxpr([], ins, eqns, [known[-1]] if depth else known[2:]))


def without_collectives(closed):
    """Return the equations that need no other member: elementwise ones on known operands."""
    kept, known = [], set(closed.jaxpr.invars)
    for e in closed.jaxpr.eqns:
        if e.primitive.elementwise and not e.primitive.axis_params and all(v in known for v in e.invars if isinstance(v, Var)):
            kept.append(e)
            known.update(e.outvars)
    last = next((e.outvars[0] for e in reversed(kept) if e.outvars[0].aval == F), closed.jaxpr.invars[0])
    return ClosedJaxpr(Jaxpr([], closed.jaxpr.invars, kept, [last]))


@pytest.mark.parametrize("seed", range(60))
def test_inferred_varying_axes_cover_actual_differences(seed):
    rng = np.random.default_rng(seed)
    overs = [[NONE, I, J, I | J][k] for k in rng.integers(4, size=2)]
    closed = annotate_varying_axes(draw_program(rng), overs, I | J)
    check(closed)
    assert alpha_equal(closed, parse(jaxpr_text(closed))) and alpha_equal(closed, loads(dumps(closed)))
    for _ in range(3):
        outs = evaluate_spmd(closed, AXES, [draw_per_device(rng, over) for over in overs])
        for v, per_device in zip(closed.jaxpr.outvars, outs, strict=True):
            assert axes_that_differ(per_device) <= v.aval.varying_axes


@pytest.mark.parametrize("row", [row for prim in prims.ALL for row in samples.samples_of(prim) if row.args],
                         ids=lambda row: row.id)
def test_every_primitive_propagates_varying_axes(row):
    avals = [aval_of(a).with_varying_axes(I) if k == 0 else aval_of(a) for k, a in enumerate(row.args)]
    params, out = infer_equation_types(row.prim, avals, row.params, I)
    outs = list(out) if row.prim.multiple else [out]
    ins, results = [Var(a) for a in avals], [Var(a) for a in outs]
    check(ClosedJaxpr(Jaxpr([], ins, [Eqn(row.prim, ins, results, params)], results)))
    if row.prim.region_signature is None and row.prim.varying_axes is None:
        assert all(a.varying_axes == I or a.varying_axes > I for a in outs)
