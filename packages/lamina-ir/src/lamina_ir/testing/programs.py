"""Programs for tests: five programs with `pmap` and `jit` and their text, programs of one equation, and long chains."""
from __future__ import annotations

from typing import Any

from .._types import dtypes
from .. import prims
from .._types.avals import ShapedArray, aval_of, shaped
from .._passes.varying_axes import infer_equation_types
from .._types.param_values import UnnamedAxis
from .._core.primitive import Primitive
from .._core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from ..typing import ParamValue

__all__ = ["NOTEBOOK", "chain", "dot", "f32", "jit", "make_sample_program", "one_eqn", "pmap", "vdot"]

F32 = dtypes.as_dtype("float32")


def f32(*shape: int) -> ShapedArray:
    """Return the type float32 of this shape."""
    return shaped(shape, F32)


def one_eqn(prim: Primitive, avals: list[ShapedArray], out: ShapedArray, /, **params: ParamValue) -> ClosedJaxpr:
    """Return a program with one equation."""
    ins = [Var(a) for a in avals]
    v = Var(out)
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(prim, ins, [v], params)], [v]))


def make_sample_program(example: Any, weak: bool = False) -> ClosedJaxpr:
    """Return a program with the equation of a `samples.Sample`.

    Args:
      example: the sample.
      weak: whether its numeric operands have weak types.
    """
    avals = [aval_of(a) for a in example.args]
    ins = [Var(shaped(a.shape, a.dtype, weak and dtypes.is_number(a.dtype))) for a in avals]
    params, out = infer_equation_types(example.prim, [v.aval for v in ins], example.params, frozenset())
    outs = [Var(a) for a in (out if example.prim.multiple else [out])]
    return ClosedJaxpr(Jaxpr([], ins, [Eqn(example.prim, ins, outs, params)], outs))


def dot(*shape: int, batched: bool = False) -> ClosedJaxpr:
    """Inner product of two vectors, or of two batches of them."""
    numbers = (((1,), (1,)), ((0,), (0,))) if batched else (((0,), (0,)), ((), ()))
    return one_eqn(prims.dot_general_p, [f32(*shape)] * 2, f32(*(shape[:1] if batched else ())),
                   dimension_numbers=numbers, precision=None, preferred_element_type=None)


def vdot(*shape: int, size: int) -> ClosedJaxpr:
    """Inner product of two arrays of `size` elements."""
    a, b, c, d, e = Var(f32(*shape)), Var(f32(*shape)), Var(f32(size)), Var(f32(size)), Var(f32())
    flat = {"dimensions": None, "new_sizes": (size,)}
    return ClosedJaxpr(Jaxpr([], [a, b], [
        Eqn(prims.reshape_p, [a], [c], flat), Eqn(prims.reshape_p, [b], [d], flat),
        Eqn(prims.dot_general_p, [c, d], [e], {"dimension_numbers": (((0,), (0,)), ((), ())), "precision": None,
                                               "preferred_element_type": None})], [e]))


def pmap(program: ClosedJaxpr, *shape: int, axis: str) -> ClosedJaxpr:
    """`program` mapped over the first axis of two operands of this shape."""
    return one_eqn(prims.xla_pmap_p, [f32(*shape)] * 2, f32(shape[0]), axis_name=UnnamedAxis(axis), axis_size=shape[0],
                   backend=None, call_jaxpr=program, devices=None, donated_invars=(False, False),
                   global_arg_shapes=(None, None), global_axis_size=None, in_axes=(0, 0), name="dot", out_axes=(0,))


def jit(program: ClosedJaxpr) -> ClosedJaxpr:
    """`program` in an `xla_call`."""
    a = program.in_avals
    return one_eqn(prims.xla_call_p, a, program.out_avals[0], call_jaxpr=program, name="dot",
                   donated_invars=(), inline=False, device=None, backend=None)


def chain(n: int) -> ClosedJaxpr:
    """`sin` applied `n` times."""
    a = v = Var(f32())
    eqns = []
    for _ in range(n):
        out = Var(f32())
        eqns.append(Eqn(prims.sin_p, [v], [out], {}))
        v = out
    return ClosedJaxpr(Jaxpr([], [a], eqns, [v]))


NOTEBOOK = {
    "pmap of vdot": (pmap(vdot(1250000, 3, size=3750000), 8, 1250000, 3, axis="0x78999cbe96c0"), """\
{ lambda ; a:f32[8,1250000,3] b:f32[8,1250000,3]. let
    c:f32[8] = xla_pmap[
      axis_name=<axis 0x78999cbe96c0>
      axis_size=8
      backend=None
      call_jaxpr={ lambda ; d:f32[1250000,3] e:f32[1250000,3]. let
          f:f32[3750000] = reshape[dimensions=None new_sizes=(3750000,)] d
          g:f32[3750000] = reshape[dimensions=None new_sizes=(3750000,)] e
          h:f32[] = dot_general[
            dimension_numbers=(((0,), (0,)), ((), ()))
            precision=None
            preferred_element_type=None
          ] f g
        in (h,) }
      devices=None
      donated_invars=(False, False)
      global_arg_shapes=(None, None)
      global_axis_size=None
      in_axes=(0, 0)
      name=dot
      out_axes=(0,)
    ] a b
  in (c,) }"""),
    "jit of vmap": (jit(dot(8, 3, batched=True)), """\
{ lambda ; a:f32[8,3] b:f32[8,3]. let
    c:f32[8] = xla_call[
      call_jaxpr={ lambda ; d:f32[8,3] e:f32[8,3]. let
          f:f32[8] = dot_general[
            dimension_numbers=(((1,), (1,)), ((0,), (0,)))
            precision=None
            preferred_element_type=None
          ] d e
        in (f,) }
      name=dot
    ] a b
  in (c,) }"""),
    "jit of pmap": (jit(pmap(dot(3), 8, 3, axis="0x78999cbebbe0")), """\
{ lambda ; a:f32[8,3] b:f32[8,3]. let
    c:f32[8] = xla_call[
      call_jaxpr={ lambda ; d:f32[8,3] e:f32[8,3]. let
          f:f32[8] = xla_pmap[
            axis_name=<axis 0x78999cbebbe0>
            axis_size=8
            backend=None
            call_jaxpr={ lambda ; g:f32[3] h:f32[3]. let
                i:f32[] = dot_general[
                  dimension_numbers=(((0,), (0,)), ((), ()))
                  precision=None
                  preferred_element_type=None
                ] g h
              in (i,) }
            devices=None
            donated_invars=(False, False)
            global_arg_shapes=(None, None)
            global_axis_size=None
            in_axes=(0, 0)
            name=dot
            out_axes=(0,)
          ] d e
        in (f,) }
      name=dot
    ] a b
  in (c,) }"""),
    "pmap of jit": (pmap(jit(dot(3)), 8, 3, axis="0x78999f292980"), """\
{ lambda ; a:f32[8,3] b:f32[8,3]. let
    c:f32[8] = xla_pmap[
      axis_name=<axis 0x78999f292980>
      axis_size=8
      backend=None
      call_jaxpr={ lambda ; d:f32[3] e:f32[3]. let
          f:f32[] = xla_call[
            call_jaxpr={ lambda ; g:f32[3] h:f32[3]. let
                i:f32[] = dot_general[
                  dimension_numbers=(((0,), (0,)), ((), ()))
                  precision=None
                  preferred_element_type=None
                ] g h
              in (i,) }
            name=dot
          ] d e
        in (f,) }
      devices=None
      donated_invars=(False, False)
      global_arg_shapes=(None, None)
      global_axis_size=None
      in_axes=(0, 0)
      name=dot
      out_axes=(0,)
    ] a b
  in (c,) }"""),
    "pmap": (pmap(dot(3), 8, 3, axis="0x78999cbebbe0"), """\
{ lambda ; a:f32[8,3] b:f32[8,3]. let
    c:f32[8] = xla_pmap[
      axis_name=<axis 0x78999cbebbe0>
      axis_size=8
      backend=None
      call_jaxpr={ lambda ; d:f32[3] e:f32[3]. let
          f:f32[] = dot_general[
            dimension_numbers=(((0,), (0,)), ((), ()))
            precision=None
            preferred_element_type=None
          ] d e
        in (f,) }
      devices=None
      donated_invars=(False, False)
      global_arg_shapes=(None, None)
      global_axis_size=None
      in_axes=(0, 0)
      name=dot
      out_axes=(0,)
    ] a b
  in (c,) }"""),
}
